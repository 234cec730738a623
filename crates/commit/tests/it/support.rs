//! A committer on a disk in memory, and tables of one text.

use alluvia_catalog::{Catalog, Change};
use alluvia_commit::Committer;
use alluvia_log::{Log, LogOptions};
use alluvia_snapshot::{Base, Committed, Durability, NewBatch, NewRows, Spaces, TailBounds, Views};
use alluvia_space::{Column, DataType, TableDef, TableOptions, dimensions};
use alluvia_storage::{Cache, Disk};
use alluvia_tree::TreeContext;
use alluvia_types::{ColumnId, ManualClock, Result, TableId, Version};
use arrow::array::{ArrayRef, RecordBatch, StringViewArray};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// What a tail may have in these tests.
pub const TAIL_BYTES_MAX: u64 = 64 << 10;

/// A new database on a disk.
pub fn committer(disk: Arc<dyn Disk>, spaces: Spaces) -> (Committer, Arc<Views>) {
    committer_at(disk, spaces, Arc::default(), Base::default(), TailBounds::unstepped(TAIL_BYTES_MAX))
}

/// The same, with a clock, a base and a tail of the caller's.
pub fn committer_at(
    disk: Arc<dyn Disk>,
    spaces: Spaces,
    clock: Arc<ManualClock>,
    base: Base,
    bounds: TailBounds,
) -> (Committer, Arc<Views>) {
    for dir in ["/db/segments", "/db/log"] {
        disk.create_dir_all(Path::new(dir)).unwrap();
    }
    let tree = TreeContext::new(Arc::clone(&disk), Arc::new(Cache::new(1 << 20)), "/db/segments");
    let (spaces, catalog) = (Arc::new(spaces), Catalog::default());
    let views = Views::new(clock, tree, spaces, catalog, BTreeMap::new(), base, BTreeMap::new(), bounds);
    let views = Arc::new(views);
    let log = Log::open(disk, Path::new("/db/log"), LogOptions::new(7), Version(0), &mut |_| Ok(())).unwrap();
    let committer = Committer::new(Arc::new(log), Arc::clone(&views), 0, TAIL_BYTES_MAX / 2, Vec::new());
    (committer, views)
}

/// Spaces on a disk.
pub fn spaces(disk: &Arc<dyn Disk>) -> Spaces {
    Spaces::new(Arc::clone(disk), PathBuf::from("/db"))
}

/// `name(kind TEXT)` with a level of it.
pub fn table(id: u32) -> TableDef {
    let column = Column {
        id: ColumnId(0),
        name: "kind".to_owned(),
        storage_name: "kind".to_owned(),
        data_type: DataType::Text,
        nullable: true,
        chars_max: None,
    };
    let columns = vec![column];
    TableDef {
        id: TableId(id),
        schema: "public".to_owned(),
        name: format!("t{id}"),
        dimensions: dimensions::parse("kind", &columns).expect("a good declaration"),
        columns,
        next_column_id: 1,
        rules: alluvia_space::TableRules::default(),
        indexes: Vec::new(),
        foreign_keys: Vec::new(),
        key: None,
        measures: Vec::new(),
        seed: 1,
        options: TableOptions::default(),
    }
}

/// Commits a table, and gives the version of its definition.
pub fn create(committer: &Committer, id: u32) -> Version {
    let changes = vec![Change::CreateTable { def: table(id) }];
    committer.submit(NewBatch { changes, ..NewBatch::default() }, Durability::Sync).unwrap().version
}

/// Rows of these names.
pub fn rows(names: &[&str]) -> RecordBatch {
    let names: ArrayRef = Arc::new(StringViewArray::from_iter_values(names));
    RecordBatch::try_new(table(0).storage_schema(), vec![names]).expect("rows fit")
}

/// Commits rows of these names.
pub fn insert(
    committer: &Committer,
    (table, checked_at): (u32, Version),
    names: &[&str],
    durability: Durability,
) -> Result<Committed> {
    let rows = vec![NewRows::insert(TableId(table), checked_at, vec![rows(names)])];
    committer.submit(NewBatch { rows, ..NewBatch::default() }, durability)
}

//! Views through their versions, against a model: names, what goes with what, and the text that is planned.

use alluvia_catalog::{
    Catalog, Change, NameKind, NamePlace, Needed, RelationName, SearchPath, Shown, ViewColumn, ViewDef, ViewRead,
    alter, check_replaced,
};
use alluvia_space::{Column, DataType, TableDef, TableOptions};
use alluvia_types::{ColumnId, ErrorKind, Result, TableId, Version};
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};

fn table(id: u32, name: &str) -> TableDef {
    let column = |at: u32| Column {
        id: ColumnId(at),
        name: format!("c{at}"),
        storage_name: format!("c{at}"),
        data_type: DataType::Int32,
        nullable: true,
        chars_max: None,
    };
    TableDef {
        id: TableId(id),
        schema: "public".to_owned(),
        name: name.to_owned(),
        next_column_id: 3,
        rules: alluvia_space::TableRules::default(),
        indexes: Vec::new(),
        foreign_keys: Vec::new(),
        key: None,
        columns: (0..3).map(column).collect(),
        dimensions: Vec::new(),
        measures: Vec::new(),
        seed: 5,
        options: TableOptions::default(),
    }
}

/// `SELECT ... FROM name`, whose name is where it is.
fn read(catalog: &Catalog, id: TableId, used: &[u32]) -> Option<ViewRead> {
    let (name, columns) = catalog.relation_now(id)?;
    let place = NamePlace { start: 15, end: 15 + name.name.len() as u32, kind: NameKind::Relation, is_sampled: false };
    let used = used.iter().map(|id| ColumnId(*id)).collect();
    Some(ViewRead { written: RelationName::bare(name.name), relation: id, columns, used, places: vec![place] })
}

fn view(catalog: &Catalog, id: u32, name: &str, reads: &[(TableId, Vec<u32>)]) -> ViewDef {
    let reads: Vec<ViewRead> = reads.iter().filter_map(|(id, used)| read(catalog, *id, used)).collect();
    let from = reads.first().map_or_else(|| "nothing".to_owned(), |read| read.written.name.clone());
    let columns = (0..3).map(|at| ViewColumn { name: format!("c{at}"), sql_type: "INT".to_owned() }).collect();
    let sql = format!("SELECT c0 FROM {from}");
    ViewDef { id: TableId(id), schema: "public".to_owned(), name: name.to_owned(), columns, sql, reads }
}

fn apply(catalog: &Catalog, changes: &[Change]) -> Result<Catalog> {
    catalog.apply(catalog.version.next(), changes)
}

fn stored(catalog: &Catalog) -> Catalog {
    serde_json::from_str(&serde_json::to_string(catalog).unwrap()).unwrap()
}

#[test]
fn names_are_those_of_today_and_columns_those_of_then() {
    let mut catalog = apply(&Catalog::default(), &[Change::CreateTable { def: table(1, "t") }]).unwrap();
    let def = view(&catalog, 2, "v", &[(TableId(1), vec![0, 1, 2])]);
    catalog = apply(&catalog, &[Change::CreateView { def: def.clone() }]).unwrap();
    let text = |catalog: &Catalog, shown| def.query(catalog, shown).unwrap();
    assert_eq!(text(&catalog, Shown::AsWritten), "SELECT c0 FROM t");
    assert_eq!(text(&catalog, Shown::InSchemas), "SELECT c0 FROM public.t");
    let alter = |catalog: &Catalog, def: TableDef| {
        let was = catalog.by_id(TableId(1)).unwrap().changed_at;
        apply(catalog, &[Change::AlterTable { def, was }]).unwrap()
    };
    let renamed = alter::rename_table(&table(1, "t"), "U x").unwrap();
    catalog = alter(&catalog, renamed.clone());
    assert_eq!(text(&catalog, Shown::AsWritten), "SELECT c0 FROM \"U x\" AS t");
    let more = alter::add_column(&renamed, "c9", DataType::Text, true).unwrap();
    catalog = alter(&catalog, more.clone());
    let columns = "(SELECT c0, c1, c2 FROM public.\"U x\") AS t";
    assert_eq!(text(&catalog, Shown::InSchemas), format!("SELECT c0 FROM {columns}"));
    let other = alter::rename_column(&more, "c0", "first", |sql| Ok(sql.to_owned())).unwrap();
    catalog = alter(&catalog, other);
    let columns = "(SELECT \"first\" AS c0, c1, c2 FROM public.\"U x\") AS t";
    assert_eq!(
        text(&catalog, Shown::InSchemas).replace("first AS", "\"first\" AS"),
        format!("SELECT c0 FROM {columns}")
    );
    assert_eq!(stored(&catalog), catalog);
    let path = SearchPath::default();
    assert!(catalog.view(&"v".into(), &path).is_some() && catalog.found(&"v".into(), &path).is_none());
    assert_eq!(catalog.relation(&"v".into(), &path).unwrap_err().kind(), ErrorKind::WrongObject);
}

#[test]
fn what_replaces_a_view_has_its_columns_first() {
    let column = |name: &str, sql_type: &str| ViewColumn { name: name.to_owned(), sql_type: sql_type.to_owned() };
    let old = [column("a", "INT"), column("b", "TEXT")];
    let more = [column("a", "INT"), column("b", "TEXT"), column("c", "TEXT")];
    check_replaced(&old, &more).unwrap();
    for (new, message) in [
        (vec![column("a", "INT")], "cannot drop columns from view"),
        (vec![column("x", "INT"), column("b", "TEXT")], "cannot change name of view column \"a\" to \"x\""),
        (
            vec![column("a", "BIGINT"), column("b", "TEXT")],
            "cannot change data type of view column \"a\" from integer to bigint",
        ),
    ] {
        let error = check_replaced(&old, &new).unwrap_err();
        assert_eq!((error.kind(), error.message()), (ErrorKind::InvalidDefinition, message));
    }
}

#[test]
fn views_that_read_themselves_or_stand_for_too_much_are_refused() {
    let mut catalog = apply(&Catalog::default(), &[Change::CreateTable { def: table(1, "t") }]).unwrap();
    for id in 2..40 {
        let def = view(&catalog, id, &format!("v{id}"), &[(TableId(id - 1), vec![0])]);
        match catalog.check_view(&def) {
            Ok(()) => catalog = apply(&catalog, &[Change::CreateView { def }]).unwrap(),
            Err(error) => {
                assert_eq!((error.kind(), id), (ErrorKind::TooLarge, 34), "{error}");
                break;
            }
        }
    }
    let around = view(&catalog, 2, "v2", &[(TableId(9), vec![0])]);
    assert_eq!(catalog.check_view(&around).unwrap_err().kind(), ErrorKind::RecursiveDefinition);
    let was = catalog.view_by_id(TableId(2)).unwrap().changed_at;
    let change = Change::AlterView { def: around, was };
    assert_eq!(apply(&catalog, &[change]).unwrap_err().kind(), ErrorKind::Conflict);
    // Twice as much with each.
    let mut catalog = apply(&Catalog::default(), &[Change::CreateTable { def: table(1, "t") }]).unwrap();
    for id in 2..40 {
        let mut def = view(&catalog, id, &format!("v{id}"), &[(TableId(id - 1), vec![0])]);
        let mut place = def.reads[0].places[0];
        place.start += 100;
        place.end += 100;
        def.reads[0].places.push(place);
        match catalog.check_view(&def) {
            Ok(()) => catalog = apply(&catalog, &[Change::CreateView { def }]).unwrap(),
            Err(error) => {
                assert_eq!((error.kind(), id), (ErrorKind::TooLarge, 11), "{error}");
                return;
            }
        }
    }
    panic!("2^39 relations are too many");
}

#[derive(Clone, Debug)]
enum Step {
    Table(usize),
    View(usize, Vec<(usize, Vec<u32>)>),
    Replace(usize, Vec<(usize, Vec<u32>)>),
    Rename(usize, usize),
    Drop(usize),
    DropColumn(usize, u32),
}

fn step() -> impl Strategy<Value = Step> {
    let reads = || prop::collection::vec((0usize..12, prop::collection::vec(0u32..3, 0..3)), 0..3);
    prop_oneof![
        (0usize..6).prop_map(Step::Table),
        (0usize..6, reads()).prop_map(|(name, reads)| Step::View(name, reads)),
        (0usize..12, reads()).prop_map(|(which, reads)| Step::Replace(which, reads)),
        (0usize..12, 0usize..6).prop_map(|(which, name)| Step::Rename(which, name)),
        (0usize..12).prop_map(Step::Drop),
        (0usize..12, 0u32..3).prop_map(|(which, column)| Step::DropColumn(which, column)),
    ]
}

/// What there is: names, and what views read and use.
#[derive(Clone, Default, Debug)]
struct Model {
    tables: BTreeMap<u32, (usize, BTreeSet<u32>)>,
    views: BTreeMap<u32, (usize, BTreeMap<u32, BTreeSet<u32>>)>,
}

impl Model {
    fn has_name(&self, name: usize) -> bool {
        self.tables.values().any(|(known, _)| *known == name) || self.views.values().any(|(known, _)| *known == name)
    }

    fn ids(&self) -> Vec<u32> {
        self.tables.keys().chain(self.views.keys()).copied().collect()
    }

    fn readers(&self, id: u32) -> BTreeSet<u32> {
        self.views.iter().filter(|(_, (_, reads))| reads.contains_key(&id)).map(|(id, _)| *id).collect()
    }

    /// All views that need one of these, however far.
    fn closure(&self, id: u32) -> BTreeSet<u32> {
        let (mut found, mut open) = (BTreeSet::new(), vec![id]);
        while let Some(id) = open.pop() {
            open.extend(self.readers(id).into_iter().filter(|reader| found.insert(*reader)));
        }
        found
    }

    fn columns(&self, id: u32) -> Option<BTreeSet<u32>> {
        let of_table = self.tables.get(&id).map(|(_, columns)| columns.clone());
        of_table.or_else(|| self.views.contains_key(&id).then(|| (0..3).collect()))
    }

    fn fits(&self, reads: &BTreeMap<u32, BTreeSet<u32>>) -> bool {
        reads.iter().all(|(id, used)| self.columns(*id).is_some_and(|columns| used.is_subset(&columns)))
    }
}

proptest! {
    #[test]
    fn nothing_goes_that_a_view_needs(steps in prop::collection::vec(step(), 1..40)) {
        let (mut catalog, mut model) = (Catalog::default(), Model::default());
        for (number, step) in (1u32..).zip(steps) {
            let ids = model.ids();
            let pick = |which: usize| (!ids.is_empty()).then(|| ids[which % ids.len()]);
            let chosen = |reads: &[(usize, Vec<u32>)]| {
                let mut all: BTreeMap<u32, BTreeSet<u32>> = BTreeMap::new();
                for (which, used) in reads {
                    if let Some(id) = pick(*which) {
                        all.entry(id).or_default().extend(used);
                    }
                }
                all
            };
            let listed = |reads: &BTreeMap<u32, BTreeSet<u32>>| -> Vec<(TableId, Vec<u32>)> {
                reads.iter().map(|(id, used)| (TableId(*id), used.iter().copied().collect())).collect()
            };
            let mut next = model.clone();
            let (change, is_right) = match step {
                Step::Table(name) => {
                    next.tables.insert(number, (name, (0..3).collect()));
                    (Change::CreateTable { def: table(number, &format!("n{name}")) }, !model.has_name(name))
                }
                Step::View(name, reads) => {
                    let reads = chosen(&reads);
                    let def = view(&catalog, number, &format!("n{name}"), &listed(&reads));
                    let is_right = !model.has_name(name) && model.fits(&reads);
                    next.views.insert(number, (name, reads));
                    (Change::CreateView { def }, is_right)
                }
                Step::Replace(which, reads) => {
                    let Some(id) = pick(which).filter(|id| model.views.contains_key(id)) else { continue };
                    let reads = chosen(&reads);
                    let def = view(&catalog, id, &format!("n{}", model.views[&id].0), &listed(&reads));
                    let of_itself = model.closure(id);
                    let is_cycle = reads.keys().any(|read| *read == id || of_itself.contains(read));
                    let is_right = model.fits(&reads) && !is_cycle;
                    next.views.insert(id, (model.views[&id].0, reads));
                    let was = catalog.view_by_id(TableId(id)).unwrap().changed_at;
                    (Change::AlterView { def, was }, is_right)
                }
                Step::Rename(which, name) => {
                    let Some(id) = pick(which).filter(|id| model.views.contains_key(id)) else { continue };
                    let entry = catalog.view_by_id(TableId(id)).unwrap();
                    let def = ViewDef { name: format!("n{name}"), ..ViewDef::clone(&entry.def) };
                    let is_right = model.views[&id].0 == name || !model.has_name(name);
                    next.views.get_mut(&id).unwrap().0 = name;
                    (Change::AlterView { def, was: entry.changed_at }, is_right)
                }
                Step::Drop(which) => {
                    let Some(id) = pick(which) else { continue };
                    let is_table = next.tables.remove(&id).is_some();
                    next.views.remove(&id);
                    let id_of = TableId(id);
                    let change =
                        if is_table { Change::DropTable { id: id_of } } else { Change::DropView { id: id_of } };
                    (change, model.readers(id).is_empty())
                }
                Step::DropColumn(which, column) => {
                    let Some(id) = pick(which).filter(|id| model.tables.contains_key(id)) else { continue };
                    let entry = catalog.by_id(TableId(id)).unwrap();
                    let Ok(def) = alter::drop_column(&entry.def, &format!("c{column}")) else { continue };
                    let is_used = |(_, reads): &(usize, BTreeMap<u32, BTreeSet<u32>>)| {
                        reads.get(&id).is_some_and(|used| used.contains(&column))
                    };
                    next.tables.get_mut(&id).unwrap().1.remove(&column);
                    (Change::AlterTable { def, was: entry.changed_at }, !model.views.values().any(is_used))
                }
            };
            match apply(&catalog, std::slice::from_ref(&change)) {
                Ok(after) => {
                    prop_assert!(is_right, "{:?}", change);
                    (catalog, model) = (after, next);
                }
                Err(error) => {
                    prop_assert!(!is_right, "{:?}: {}", change, error);
                    let expected = [ErrorKind::Conflict, ErrorKind::DuplicateTable];
                    prop_assert!(expected.contains(&error.kind()), "{}", error);
                }
            }
            prop_assert_eq!(&stored(&catalog), &catalog);
            // Each view stands behind those that it reads, and everything that goes with something is told once.
            let order: Vec<u32> = catalog.views_in_order().iter().map(|view| view.def.id.0).collect();
            prop_assert_eq!(order.iter().copied().collect::<BTreeSet<_>>(), model.views.keys().copied().collect());
            for (at, id) in order.iter().enumerate() {
                let is_behind = |read: &u32| !model.views.contains_key(read) || order[..at].contains(read);
                prop_assert!(model.views[id].1.keys().all(is_behind));
            }
            for id in model.ids() {
                let found = catalog.dependents(&[Needed::Relation(TableId(id))]);
                let told: Vec<u32> = found.iter().map(|dependent| dependent.view.def.id.0).collect();
                prop_assert_eq!(told.iter().copied().collect::<BTreeSet<_>>(), model.closure(id));
                prop_assert_eq!(told.len(), model.closure(id).len());
                // With CASCADE they go in the other order, and then it can go itself.
                let mut changes: Vec<Change> =
                    found.iter().rev().map(|dependent| Change::DropView { id: dependent.view.def.id }).collect();
                changes.push(match model.tables.contains_key(&id) {
                    true => Change::DropTable { id: TableId(id) },
                    false => Change::DropView { id: TableId(id) },
                });
                prop_assert!(catalog.apply(Version(1 << 40), &changes).is_ok());
            }
        }
    }
}

//! Definitions through their versions: changes applied, refused, stored; columns altered.

use alluvia_catalog::alter::remake::remake;
use alluvia_catalog::alter::retype::{Retype, Values, retype};
use alluvia_catalog::{Catalog, Change, CommentOn, PUBLIC_SCHEMA_ID, SearchPath, alter};
use alluvia_space::{
    Check, Column, ColumnType, Curve, DataType, Dimension, Identity, IdentityKind, Index, Ladder, OnConflict,
    PrimaryKey, PurgeAfter, TableDef, TableOptions, ZoneRules, dimensions,
};
use alluvia_types::{ColumnId, ErrorKind, Result, TableId, Version};
use proptest::prelude::*;
use std::collections::{BTreeMap, HashSet};

fn table(id: u32, name: &str, names: &[&str], declared: &str) -> TableDef {
    let column = |(at, name): (usize, &&str)| Column {
        id: ColumnId(at as u32),
        name: (*name).to_owned(),
        storage_name: (*name).to_owned(),
        data_type: if *name == "price" { DataType::Double } else { DataType::Text },
        nullable: true,
        chars_max: None,
    };
    let columns: Vec<Column> = names.iter().enumerate().map(column).collect();
    let dimensions = if declared.is_empty() { Vec::new() } else { dimensions::parse(declared, &columns).unwrap() };
    let measures = columns.iter().filter(|column| column.name == "price").map(|column| column.id).collect();
    TableDef {
        id: TableId(id),
        schema: "public".to_owned(),
        name: name.to_owned(),
        next_column_id: columns.len() as u32,
        rules: alluvia_space::TableRules::default(),
        indexes: Vec::new(),
        foreign_keys: Vec::new(),
        key: None,
        columns,
        dimensions,
        measures,
        seed: 5,
        options: TableOptions::default(),
    }
}

/// No condition names a column here.
fn as_it_is(sql: &str) -> Result<String> {
    Ok(sql.to_owned())
}

fn sales() -> TableDef {
    table(1, "sales", &["country", "city", "price", "note"], "store(country, city)")
}

/// `sales` with a key of country and note.
fn keyed() -> TableDef {
    let mut def = sales();
    let columns = vec![ColumnId(0), ColumnId(3)];
    columns.iter().for_each(|id| def.columns[id.0 as usize].nullable = false);
    def.key = Some(PrimaryKey { columns, secret: [1, 2], on_conflict: OnConflict::Error });
    def.validate().unwrap();
    def
}

fn create(def: &TableDef) -> Change {
    Change::CreateTable { def: def.clone() }
}

fn kind<T: std::fmt::Debug>(result: Result<T>) -> ErrorKind {
    result.unwrap_err().kind()
}

/// What docs/FORMAT.md says of local time; read for ever.
#[test]
fn a_dimension_keeps_the_rules_of_its_zone() {
    const STORED: &str = r#"{"name":"time","levels":[{"name":"year","source":{"local":[0,"year"]},"bits":16},{"name":"day","source":{"local":[0,"day"]},"bits":16}],"range":"learnt","zone":{"name":"Somewhere","offset":3600,"changes":[[1774746000,7200],[1792890000,3600]]}}"#;
    let mut def = sales();
    def.columns[0].data_type = DataType::TimestampTz;
    let rules = ZoneRules::new("Somewhere".to_owned(), 3_600, &[(1_774_746_000, 7_200), (1_792_890_000, 3_600)]);
    let rules = rules.unwrap();
    let zones = |name: &str| Ok((name == "Somewhere").then(|| rules.clone()));
    let declared = "time(country AT TIME ZONE Somewhere: year, day)";
    def.dimensions = dimensions::parse_with_zones(declared, &def.columns, &zones).unwrap();
    def.validate().unwrap();
    assert_eq!(serde_json::to_string(&def.dimensions[0]).unwrap(), STORED);
    assert_eq!(serde_json::from_str::<Dimension>(STORED).unwrap(), def.dimensions[0]);
    // Of UTC it is stored as it was before there were zones.
    def.dimensions =
        dimensions::parse_with_zones("time(country AT TIME ZONE UTC: year)", &def.columns, &zones).unwrap();
    let text = serde_json::to_string(&def.dimensions[0]).unwrap();
    assert!(text.contains(r#"{"calendar":[0,"year"]}"#) && !text.contains("zone"), "{text}");
}

#[test]
fn a_catalog_never_changes_and_the_next_one_has_what_changed() {
    let empty = Catalog::default();
    let one = empty.apply(Version(3), &[create(&sales()), create(&table(2, "a", &["x"], ""))]).unwrap();
    let two = one.apply(Version(4), &[Change::DropTable { id: TableId(2) }]).unwrap();
    assert_eq!((empty.version, one.version, two.version), (Version(0), Version(3), Version(4)));
    assert_eq!(empty.tables().count(), 0);
    assert_eq!(one.tables().map(|entry| entry.def.name.as_str()).collect::<Vec<_>>(), ["a", "sales"]);
    assert_eq!(two.tables().map(|entry| entry.changed_at).collect::<Vec<_>>(), [Version(3)]);
    assert!(two.by_id(TableId(2)).is_none() && two.table("a").is_err());
    assert!(std::sync::Arc::ptr_eq(one.table("sales").unwrap(), two.by_id(TableId(1)).unwrap()));
}

#[test]
fn names_are_taken_once_and_free_after_a_drop_or_rename_in_the_same_batch() {
    let first = Catalog::default().apply(Version(1), &[create(&sales())]).unwrap();
    let second = table(2, "sales", &["x"], "");
    assert_eq!(kind(first.apply(Version(2), &[create(&second)])), ErrorKind::DuplicateTable);
    assert_eq!(kind(first.apply(Version(2), &[create(&table(1, "other", &["x"], ""))])), ErrorKind::Internal);
    let replaced = first.apply(Version(2), &[Change::DropTable { id: TableId(1) }, create(&second)]).unwrap();
    assert_eq!(replaced.table("sales").unwrap().def.id, TableId(2));
    let renamed = alter::rename_table(&sales(), "old_sales").unwrap();
    let alter = Change::AlterTable { def: renamed.clone(), was: Version(1) };
    let both = first.apply(Version(2), &[alter.clone(), create(&second)]).unwrap();
    assert_eq!(both.tables().map(|entry| entry.def.name.clone()).collect::<Vec<_>>(), ["old_sales", "sales"]);
    assert_eq!(kind(first.apply(Version(2), &[create(&second), alter])), ErrorKind::DuplicateTable);
    let taken = Change::AlterTable { def: TableDef { name: "sales".into(), ..renamed }, was: Version(2) };
    assert_eq!(kind(both.apply(Version(3), &[taken])), ErrorKind::DuplicateTable);
}

#[test]
fn changes_made_from_a_definition_that_is_gone_conflict() {
    let first = Catalog::default().apply(Version(1), &[create(&sales())]).unwrap();
    let wider = alter::add_column(&sales(), "x", DataType::Int32, true).unwrap();
    let change = Change::AlterTable { def: wider, was: Version(1) };
    let second = first.apply(Version(2), std::slice::from_ref(&change)).unwrap();
    assert_eq!(second.table("sales").unwrap().changed_at, Version(2));
    assert_eq!(kind(second.apply(Version(3), std::slice::from_ref(&change))), ErrorKind::Conflict);
    let dropped = second.apply(Version(3), &[Change::DropTable { id: TableId(1) }]).unwrap();
    assert_eq!(kind(dropped.apply(Version(4), &[change])), ErrorKind::Conflict);
    assert_eq!(kind(dropped.apply(Version(4), &[Change::DropTable { id: TableId(1) }])), ErrorKind::Conflict);
}

#[test]
fn a_batch_may_alter_and_drop_what_it_has_made_itself() {
    let first = Catalog::default().apply(Version(1), &[create(&sales())]).unwrap();
    let alter = |def: &TableDef, was: u64| Change::AlterTable { def: def.clone(), was: Version(was) };
    let wider = alter::add_column(&sales(), "x", DataType::Int32, true).unwrap();
    let renamed = alter::rename_table(&wider, "orders").unwrap();
    let second = first.apply(Version(2), &[alter(&wider, 1), alter(&renamed, 0)]).unwrap();
    let entry = second.table("orders").unwrap();
    assert_eq!((entry.changed_at, entry.def.as_ref()), (Version(2), &renamed));
    assert!(second.table("sales").is_err());
    let own = table(2, "own", &["x"], "");
    let own_wider = alter::add_column(&own, "y", DataType::Int32, true).unwrap();
    let changes = [
        create(&own),
        alter(&own_wider, 0),
        Change::DropTable { id: TableId(2) },
        create(&table(3, "own", &["z"], "")),
    ];
    assert_eq!(second.apply(Version(3), &changes).unwrap().table("own").unwrap().def.id, TableId(3));
    // What it has not made must be what it was made from.
    assert_eq!(kind(first.apply(Version(2), &[alter(&wider, 0)])), ErrorKind::Conflict);
    assert_eq!(kind(second.apply(Version(3), &[create(&own), alter(&wider, 1)])), ErrorKind::Conflict);
}

#[test]
fn an_alter_that_would_misread_files_is_refused() {
    let first = Catalog::default().apply(Version(1), &[create(&sales())]).unwrap();
    let try_it = |change: &dyn Fn(&mut TableDef)| {
        let mut def = sales();
        change(&mut def);
        first.apply(Version(2), &[Change::AlterTable { def, was: Version(1) }])
    };
    try_it(&|_| ()).unwrap();
    assert_eq!(kind(try_it(&|def| def.seed += 1)), ErrorKind::Internal);
    assert_eq!(kind(try_it(&|def| def.options.curve = Curve::Z)), ErrorKind::Internal);
    assert_eq!(kind(try_it(&|def| def.next_column_id -= 1)), ErrorKind::Internal);
    assert_eq!(kind(try_it(&|def| def.dimensions.clear())), ErrorKind::Internal);
    assert_eq!(kind(try_it(&|def| def.columns[3].storage_name = "other".into())), ErrorKind::Internal);
    assert_eq!(kind(try_it(&|def| def.columns[3].data_type = DataType::Int32)), ErrorKind::Internal);
    let other_key = PrimaryKey { columns: vec![ColumnId(0)], secret: [1, 2], on_conflict: OnConflict::Error };
    assert_eq!(kind(try_it(&|def| def.key = Some(other_key.clone()))), ErrorKind::Internal);
    let mut narrow = alter::drop_column(&sales(), "note").unwrap();
    let second = first.apply(Version(2), &[Change::AlterTable { def: narrow.clone(), was: Version(1) }]).unwrap();
    narrow.columns.push(sales().columns[3].clone());
    assert_eq!(
        kind(second.apply(Version(3), &[Change::AlterTable { def: narrow, was: Version(2) }])),
        ErrorKind::Internal
    );
}

#[test]
fn an_unknown_table_says_what_may_have_been_meant() {
    let error = Catalog::default().table("sales").unwrap_err();
    assert_eq!((error.kind(), error.hint().is_some()), (ErrorKind::UndefinedTable, true));
    let catalog = Catalog::default().apply(Version(1), &[create(&sales())]).unwrap();
    assert_eq!(catalog.table("slaes").unwrap_err().hint(), Some("did you mean 'sales'?"));
    assert_eq!(catalog.table("zzz").unwrap_err().hint(), Some("SHOW TABLES lists the tables"));
}

#[test]
fn a_stored_catalog_and_its_changes_come_back() {
    let changes = [
        create(&sales()),
        create(&table(9, "b", &["x"], "")),
        Change::AlterTable {
            def: alter::rename_column(&sales(), "note", "remark", as_it_is).unwrap(),
            was: Version(8),
        },
        Change::DropTable { id: TableId(9) },
    ];
    let text = serde_json::to_string(&changes).unwrap();
    assert_eq!(serde_json::from_str::<Vec<Change>>(&text).unwrap(), changes);
    let catalog = Catalog::default().apply(Version(8), &changes[..3]).unwrap();
    let text = serde_json::to_string(&catalog).unwrap();
    assert_eq!(serde_json::from_str::<Catalog>(&text).unwrap(), catalog);
    let twice = text.replace("\"name\":\"b\"", "\"name\":\"sales\"");
    assert!(serde_json::from_str::<Catalog>(&twice).unwrap_err().to_string().contains("'sales'"));
}

#[test]
fn columns_come_and_go() {
    let table = alter::add_column(&sales(), "size", DataType::Int32, true).unwrap();
    assert_eq!(table.columns[4].storage_name, "size");
    assert_eq!(kind(alter::add_column(&table, "size", DataType::Int32, true)), ErrorKind::DuplicateColumn);
    assert_eq!(kind(alter::add_column(&table, "y", DataType::Int32, false)), ErrorKind::NotSupported);
    assert_eq!(kind(alter::add_column(&table, "_version", DataType::Int32, true)), ErrorKind::InvalidDefinition);
    assert_eq!(kind(alter::add_column(&table, "", DataType::Int32, true)), ErrorKind::InvalidDefinition);
    let again = alter::add_column(&alter::drop_column(&table, "size").unwrap(), "size", DataType::Text, true).unwrap();
    assert_eq!((again.columns[4].id, again.columns[4].storage_name.as_str()), (ColumnId(5), "size~5"));

    let of_dimension = alter::drop_column(&table, "city").unwrap_err();
    assert_eq!(of_dimension.kind(), ErrorKind::InvalidDefinition);
    assert!(of_dimension.message().contains("dimension 'store'"), "{of_dimension}");
    assert_eq!(kind(alter::drop_column(&table, "sity")), ErrorKind::UndefinedColumn);
    assert_eq!(alter::drop_column(&table, "price").unwrap().measures, []);
    let single = self::table(3, "single", &["x"], "");
    assert_eq!(kind(alter::drop_column(&single, "x")), ErrorKind::InvalidDefinition);
}

#[test]
fn a_column_of_another_type_leaves_its_number_to_nobody() {
    let def = table(1, "t", &["k", "a~3"], "");
    let wanted = ColumnType { data_type: DataType::Int64, chars_max: None };
    let Retype::Column(new) = retype(&def, "a~3", wanted, Values::Computed).unwrap() else {
        panic!("a column takes its place")
    };
    let wider = alter::add_column(&new.to, "a", DataType::Int32, true).unwrap();
    let stored: Vec<&str> = wider.columns.iter().map(|column| column.storage_name.as_str()).collect();
    assert!(!stored.contains(&"a~3"), "{stored:?}");
    assert_eq!(stored[2], "a~4");
}

#[test]
fn a_table_that_is_made_anew_loses_nothing_of_what_others_have_made_of_it() {
    let first = Catalog::default().apply(Version(1), &[create(&sales())]).unwrap();
    let new = TableDef { id: TableId(2), ..keyed() };
    let changes = remake(&first, first.table("sales").unwrap(), &new, "a key").unwrap();
    let made = first.apply(Version(2), &changes).unwrap();
    assert_eq!((made.table("sales").unwrap().def.id, made.tables().count()), (TableId(2), 1));
    let wider = alter::add_column(&sales(), "x", DataType::Int32, true).unwrap();
    let meanwhile = first.apply(Version(2), &[Change::AlterTable { def: wider, was: Version(1) }]).unwrap();
    assert_eq!(kind(meanwhile.apply(Version(3), &changes)), ErrorKind::Conflict);
}

#[test]
fn an_index_has_its_name_alone() {
    let index =
        |name: &str| Index { name: name.to_owned(), columns: vec![ColumnId(0)], unique: false, is_constraint: false };
    let with = |def: &TableDef, name: &str| alter::add_index(def, index(name)).unwrap();
    let (one, two) = (table(1, "one", &["x"], ""), table(2, "two", &["x"], ""));
    let before = Catalog::default().apply(Version(1), &[create(&with(&one, "i")), create(&two)]).unwrap();
    let checked = |changes: &[Change]| {
        let after = before.apply(Version(2), changes).unwrap();
        after.check_index_names(&before, changes).map_err(|error| error.kind())
    };
    let altered = |def: TableDef| Change::AlterTable { def, was: Version(1) };
    for (changes, is_free) in [
        (vec![altered(with(&two, "j"))], true),
        (vec![altered(with(&two, "i"))], false),
        (vec![altered(with(&two, "one"))], false),
        (vec![create(&table(3, "i", &["x"], ""))], false),
        (vec![altered(TableDef { name: "i".into(), ..two.clone() })], false),
        // In the place of what goes with the same batch.
        (vec![Change::DropTable { id: TableId(1) }, create(&with(&table(3, "one", &["x"], ""), "i"))], true),
        (vec![altered(with(&one, "j")), altered(with(&two, "i"))], true),
        (vec![Change::DropTable { id: TableId(1) }, create(&table(3, "i", &["x"], ""))], true),
    ] {
        assert_eq!(checked(&changes), if is_free { Ok(()) } else { Err(ErrorKind::Conflict) }, "{changes:?}");
    }
    // What a log has of old is repeated as it was, and goes on.
    let doubled = before.apply(Version(2), &[altered(with(&two, "i"))]).unwrap();
    let wider = alter::add_column(&with(&two, "i"), "y", DataType::Int32, true).unwrap();
    let changes = [Change::AlterTable { def: wider, was: Version(2) }];
    doubled.apply(Version(3), &changes).unwrap().check_index_names(&doubled, &changes).unwrap();
}

#[test]
fn a_length_is_part_of_a_definition_and_stays() {
    let length = ColumnType { data_type: DataType::Text, chars_max: Some(20) };
    let table = alter::add_column(&sales(), "code", length, true).unwrap();
    let renamed = alter::rename_column(&table, "code", "number", as_it_is).unwrap();
    assert_eq!(renamed.columns[4].declared_type(), length);
    let text = serde_json::to_string(&renamed).unwrap();
    assert_eq!(serde_json::from_str::<TableDef>(&text).unwrap(), renamed);
    assert_eq!(text.matches("chars_max").count(), 1, "columns without a length do not say so: {text}");
    let none = ColumnType { data_type: DataType::Text, chars_max: Some(0) };
    assert_eq!(kind(alter::add_column(&sales(), "code", none, true)), ErrorKind::InvalidDefinition);
}

#[test]
fn a_renamed_column_keeps_its_file_name_and_its_levels_follow() {
    let table = alter::rename_column(&sales(), "city", "town", as_it_is).unwrap();
    assert_eq!((table.columns[1].name.as_str(), table.columns[1].storage_name.as_str()), ("town", "city"));
    assert_eq!(table.dimensions[0].levels[1].name, "town");
    assert!(table.show_create().contains("store(country, town)"), "{}", table.show_create());
    assert_eq!(kind(alter::rename_column(&table, "city", "x", as_it_is)), ErrorKind::UndefinedColumn);
    assert_eq!(kind(alter::rename_column(&table, "town", "note", as_it_is)), ErrorKind::DuplicateColumn);
    assert_eq!(kind(alter::rename_column(&table, "town", "_ordinal", as_it_is)), ErrorKind::InvalidDefinition);
    assert_eq!(alter::rename_column(&table, "town", "town", as_it_is).unwrap(), table);
    // The old name is free in SQL, but not in files.
    let both = alter::add_column(&table, "city", DataType::Text, true).unwrap();
    assert_eq!(both.columns[4].storage_name, "city~4");
}

/// `sales` with a default, a numbered column and a condition.
fn ruled() -> TableDef {
    let mut def = alter::add_column(&sales(), "n", DataType::Int64, true).unwrap();
    let id = def.columns[4].id;
    def.columns[4].nullable = false;
    let identity = Identity::of_type(id, DataType::Int64, IdentityKind::Always, "sales_n_seq".to_owned());
    def.rules.identities.extend(identity);
    let check = |name: &str| Check { name: name.to_owned(), sql: "price > 0".to_owned(), columns: vec![ColumnId(2)] };
    let def = alter::add_check(&def, check("dear")).unwrap();
    assert_eq!(kind(alter::add_check(&def, check("dear"))), ErrorKind::DuplicateObject);
    alter::set_default(&def, "note", Some("'none'".to_owned())).unwrap()
}

#[test]
fn rules_go_with_their_columns() {
    let def = ruled();
    let text = serde_json::to_string(&def).unwrap();
    assert_eq!(serde_json::from_str::<TableDef>(&text).unwrap(), def);
    assert!(!serde_json::to_string(&sales()).unwrap().contains("rules"), "definitions without rules do not say so");
    // A condition of one column goes with it.
    assert!(alter::drop_column(&def, "price").unwrap().rules.checks.is_empty());
    let renamed = alter::rename_column(&def, "price", "cost", |sql| Ok(sql.replace("price", "cost"))).unwrap();
    assert_eq!(renamed.rules.checks[0].sql, "cost > 0");
    assert_eq!(
        alter::rename_column(&def, "note", "remark", |_| panic!("no condition names it")).unwrap().rules,
        def.rules
    );
    assert_eq!(kind(alter::set_default(&def, "n", Some("1".to_owned()))), ErrorKind::InvalidDefinition);
    assert_eq!(alter::set_default(&def, "note", None).unwrap().rules.defaults, []);
    assert_eq!(kind(alter::drop_constraint(&def, "daer")), ErrorKind::UndefinedObject);
    let def = alter::drop_constraint(&def, "dear").unwrap();
    let def = alter::drop_column(&def, "note").unwrap();
    let def = alter::drop_column(&def, "n").unwrap();
    assert!(def.rules.is_empty());
}

#[test]
fn what_is_taken_of_a_sequence_is_no_change_of_a_definition() {
    let def = ruled();
    let (table, column) = (def.id, def.columns[4].id);
    let take = |through| Change::Sequence { table, column, through, only_after: None };
    let first = Catalog::default().apply(Version(1), &[create(&def)]).unwrap();
    assert_eq!(first.taken(table, column), None);
    let second = first.apply(Version(2), &[take(Some(1_000))]).unwrap();
    assert_eq!((second.taken(table, column), second.by_id(table).unwrap().changed_at), (Some(1_000), Version(1)));
    let text = serde_json::to_string(&second).unwrap();
    assert_eq!(serde_json::from_str::<Catalog>(&text).unwrap(), second);
    assert_eq!(
        second
            .sequence(&"sales_n_seq".into(), &SearchPath::default())
            .map(|(entry, identity)| (entry.def.id, identity.column)),
        Some((table, column))
    );
    assert!(second.sequence(&"sales_note_seq".into(), &SearchPath::default()).is_none());
    // A sequence that begins anew, one that goes with its column or its table, and one that is not there.
    assert_eq!(second.apply(Version(3), &[take(None)]).unwrap().taken(table, column), None);
    let without = alter::drop_column(&def, "n").unwrap();
    let without = second.apply(Version(3), &[Change::AlterTable { def: without, was: Version(1) }]).unwrap();
    assert_eq!(without.taken(table, column), None);
    let dropped = second.apply(Version(3), &[Change::DropTable { id: table }]).unwrap();
    let after = dropped.apply(Version(4), &[take(Some(5))]).unwrap();
    assert_eq!((dropped.taken(table, column), after.taken(table, column)), (None, None));
}

#[test]
fn a_key_keeps_its_columns_whatever_they_are_called() {
    let refused = alter::drop_column(&keyed(), "note").unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::DependentObjects);
    assert_eq!(refused.message(), "column 'note' of table 'sales' is part of its primary key (country, note)");
    let renamed = alter::rename_column(&keyed(), "note", "remark", as_it_is).unwrap();
    assert_eq!(renamed.key, keyed().key);
    assert_eq!(kind(alter::drop_column(&renamed, "remark")), ErrorKind::DependentObjects);
    assert_eq!(alter::drop_column(&renamed, "price").unwrap().key, keyed().key);
    let first = Catalog::default().apply(Version(1), &[create(&keyed())]).unwrap();
    first.apply(Version(2), &[Change::AlterTable { def: renamed.clone(), was: Version(1) }]).unwrap();
    let other = |change: &dyn Fn(&mut PrimaryKey)| {
        let mut def = renamed.clone();
        def.key.as_mut().into_iter().for_each(change);
        first.apply(Version(2), &[Change::AlterTable { def, was: Version(1) }])
    };
    other(&|key| key.on_conflict = OnConflict::Replace).unwrap();
    assert_eq!(kind(other(&|key| key.secret[0] += 1)), ErrorKind::Internal);
    assert_eq!(kind(other(&|key| key.columns.reverse())), ErrorKind::Internal);
}

#[test]
fn options_change_but_the_curve() {
    let fresh = TableOptions { freshness: Some("5s".into()), ..sales().options };
    assert_eq!(alter::set_options(&sales(), fresh.clone()).unwrap().options, fresh);
    assert_eq!(kind(alter::set_options(&sales(), TableOptions { curve: Curve::Z, ..fresh })), ErrorKind::NotSupported);
    assert_eq!(kind(alter::rename_table(&sales(), "")), ErrorKind::InvalidDefinition);
}

/// Definitions of before the option are the bytes that they were, and are read.
#[test]
fn a_ladder_is_kept_where_it_is_not_the_default() {
    let kept = |ladder| serde_json::to_string(&TableOptions { ladder, ..TableOptions::default() }).unwrap();
    assert_eq!(kept(Ladder::Eighth), r#"{"freshness":null,"curve":"hilbert"}"#);
    assert_eq!(kept(Ladder::Quarter), r#"{"freshness":null,"curve":"hilbert","ladder":"1/4"}"#);
    assert_eq!(kept(Ladder::Half), r#"{"freshness":null,"curve":"hilbert","ladder":"1/2"}"#);
    for ladder in Ladder::ALL {
        assert_eq!(serde_json::from_str::<TableOptions>(&kept(ladder)).unwrap().ladder, ladder);
        let options = TableOptions { ladder, ..sales().options };
        assert_eq!(alter::set_options(&sales(), options.clone()).unwrap().options, options);
    }
}

#[test]
fn an_age_is_kept_where_it_is_said() {
    let kept = |purge_after| serde_json::to_string(&TableOptions { purge_after, ..TableOptions::default() }).unwrap();
    assert_eq!(kept(None), r#"{"freshness":null,"curve":"hilbert"}"#);
    assert_eq!(kept(Some(PurgeAfter::Never)), r#"{"freshness":null,"curve":"hilbert","purge_after":"never"}"#);
    let days = Some(PurgeAfter::Seconds(30 * 86_400));
    assert_eq!(kept(days), r#"{"freshness":null,"curve":"hilbert","purge_after":"30d"}"#);
    for after in [None, Some(PurgeAfter::Never), days] {
        assert_eq!(serde_json::from_str::<TableOptions>(&kept(after)).unwrap().purge_after, after);
    }
    let damaged = r#"{"freshness":null,"curve":"hilbert","purge_after":"soon"}"#;
    assert!(serde_json::from_str::<TableOptions>(damaged).is_err());
}

#[derive(Clone, Debug)]
enum Step {
    Add(usize),
    Drop(usize),
    Rename(usize, usize),
}

proptest! {
    /// Names are nasty: each looks like the storage name of another.
    #[test]
    fn no_two_columns_ever_share_a_storage_name(
        created in prop::collection::hash_set(0usize..8, 1..6),
        steps in prop::collection::vec(
            prop_oneof![
                (0usize..8).prop_map(Step::Add),
                (0usize..8).prop_map(Step::Drop),
                (0usize..8, 0usize..8).prop_map(|(from, to)| Step::Rename(from, to)),
            ],
            0..40,
        ),
    ) {
        let names = ["a", "a~2", "a~5", "a~5~6", "b", "b~9", "a~x", "b~07"];
        let created: Vec<&str> = created.into_iter().map(|at| names[at]).collect();
        let mut def = table(1, "t", &created, "");
        let mut catalog = Catalog::default().apply(Version(1), &[create(&def)]).unwrap();
        let mut files: BTreeMap<ColumnId, String> = BTreeMap::new();
        for step in steps {
            let next = match step {
                Step::Add(name) => alter::add_column(&def, names[name], DataType::Text, true),
                Step::Drop(name) => alter::drop_column(&def, names[name]),
                Step::Rename(from, to) => alter::rename_column(&def, names[from], names[to], as_it_is),
            };
            let Ok(next) = next else { continue };
            let change = Change::AlterTable { def: next.clone(), was: catalog.version };
            catalog = catalog.apply(catalog.version.next(), &[change]).unwrap();
            def = next;
            for column in &def.columns {
                let file = files.entry(column.id).or_insert_with(|| column.storage_name.clone());
                prop_assert_eq!(&*file, &column.storage_name);
            }
            let distinct: HashSet<&String> = files.values().collect();
            prop_assert_eq!(distinct.len(), files.len(), "{:?}", files);
        }
    }
}

#[test]
fn comments_go_with_what_they_are_on_and_are_stored() {
    let comment = |on: CommentOn, text: Option<&str>| Change::Comment { on, text: text.map(str::to_owned) };
    let (table, column) = (CommentOn::Table(TableId(1)), CommentOn::Column(TableId(1), ColumnId(2)));
    let changes = [
        create(&sales()),
        comment(table.clone(), Some("all sales")),
        comment(column.clone(), Some("in euros")),
        comment(CommentOn::Schema(PUBLIC_SCHEMA_ID), Some("ours")),
        comment(CommentOn::Database, Some("one")),
    ];
    let one = Catalog::default().apply(Version(1), &changes).unwrap();
    assert_eq!((one.comment(&table), one.comment(&column)), (Some("all sales"), Some("in euros")));
    assert_eq!(one.table("sales").unwrap().changed_at, Version(1));
    let text = serde_json::to_string(&one).unwrap();
    assert_eq!(serde_json::from_str::<Catalog>(&text).unwrap(), one);
    let two = one.apply(Version(2), &[comment(table.clone(), None), comment(CommentOn::Database, None)]).unwrap();
    assert_eq!((two.comment(&table), two.comments().count()), (None, 2));
    let without = alter::drop_column(&sales(), "note").unwrap();
    let kept = two.apply(Version(3), &[Change::AlterTable { def: without, was: Version(1) }]).unwrap();
    assert_eq!(kept.comment(&column), Some("in euros"));
    let dropped = two.apply(Version(3), &[Change::DropTable { id: TableId(1) }]).unwrap();
    assert_eq!(dropped.comments().count(), 1);
    assert_eq!(kind(dropped.apply(Version(4), &[comment(table, Some("gone"))])), ErrorKind::Conflict);
    let empty = Catalog::default().apply(Version(1), &[create(&sales())]).unwrap();
    assert!(!serde_json::to_string(&empty).unwrap().contains("comments"));
}

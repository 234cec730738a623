//! Schemas: the catalog against a simple model, and what is stored of it.

use alluvia_catalog::rights::{Object, Privilege, Privileges, RightsChange, RoleId};
use alluvia_catalog::{Catalog, Change, PUBLIC_SCHEMA_ID, RelationName, SearchPath};
use alluvia_space::{Column, DataType, TableDef, TableOptions, TableRules};
use alluvia_types::{ColumnId, ErrorKind, TableId, Version};
use proptest::prelude::*;
use std::collections::BTreeMap;

const NAMES: [&str; 4] = ["a", "b", "public", "t"];

fn table(id: u32, schema: &str, name: &str) -> TableDef {
    TableDef {
        id: TableId(id),
        schema: schema.to_owned(),
        name: name.to_owned(),
        columns: vec![Column {
            id: ColumnId(0),
            name: "x".to_owned(),
            storage_name: "x".to_owned(),
            data_type: DataType::Int64,
            nullable: true,
            chars_max: None,
        }],
        next_column_id: 1,
        key: None,
        rules: TableRules::default(),
        indexes: Vec::new(),
        foreign_keys: Vec::new(),
        dimensions: Vec::new(),
        measures: Vec::new(),
        seed: 1,
        options: TableOptions::default(),
    }
}

/// One step, of names by their places in [`NAMES`].
#[derive(Clone, Debug)]
enum Step {
    CreateSchema(usize),
    DropSchema(usize),
    RenameSchema(usize, usize),
    CreateTable(usize, usize),
    DropTable(usize, usize),
    /// From schema and name to schema and name.
    Move((usize, usize), (usize, usize)),
}

fn step() -> impl Strategy<Value = Step> {
    let name = || 0..NAMES.len();
    prop_oneof![
        name().prop_map(Step::CreateSchema),
        name().prop_map(Step::DropSchema),
        (name(), name()).prop_map(|(from, to)| Step::RenameSchema(from, to)),
        (name(), name()).prop_map(|(schema, table)| Step::CreateTable(schema, table)),
        (name(), name()).prop_map(|(schema, table)| Step::DropTable(schema, table)),
        ((name(), name()), (name(), name())).prop_map(|(from, to)| Step::Move(from, to)),
    ]
}

/// Schemas by name: the id of each, and its tables' ids by name.
type Model = BTreeMap<String, (u32, BTreeMap<String, u32>)>;

/// What the step does to the model, and the change that does the same; `None` where it is refused, or means nothing.
fn apply(model: &mut Model, step: &Step, id: u32, catalog: &Catalog) -> (Option<Change>, bool) {
    let named = |at: &usize| NAMES[*at].to_owned();
    match step {
        Step::CreateSchema(name) => {
            let is_free = !model.contains_key(&named(name));
            if is_free {
                model.insert(named(name), (id, BTreeMap::new()));
            }
            (Some(Change::CreateSchema { id: TableId(id), name: named(name) }), is_free)
        }
        Step::DropSchema(name) => {
            let Some((id, tables)) = model.get(&named(name)).cloned() else { return (None, false) };
            if id == PUBLIC_SCHEMA_ID.0 {
                return (None, false);
            }
            let may = tables.is_empty();
            if may {
                model.remove(&named(name));
            }
            (Some(Change::DropSchema { id: TableId(id) }), may)
        }
        Step::RenameSchema(from, to) => {
            let Some((id, _)) = model.get(&named(from)).cloned() else { return (None, false) };
            if id == PUBLIC_SCHEMA_ID.0 {
                return (None, false);
            }
            let may = from == to || !model.contains_key(&named(to));
            if may && let Some(schema) = model.remove(&named(from)) {
                model.insert(named(to), schema);
            }
            (Some(Change::RenameSchema { id: TableId(id), name: named(to) }), may)
        }
        Step::CreateTable(schema, name) => {
            let def = table(id, NAMES[*schema], NAMES[*name]);
            let may =
                model.get_mut(&named(schema)).is_some_and(|(_, tables)| match tables.contains_key(&named(name)) {
                    true => false,
                    false => tables.insert(named(name), id).is_none(),
                });
            (Some(Change::CreateTable { def }), may)
        }
        Step::DropTable(schema, name) => {
            let dropped = model.get_mut(&named(schema)).and_then(|(_, tables)| tables.remove(&named(name)));
            (dropped.map(|id| Change::DropTable { id: TableId(id) }), dropped.is_some())
        }
        Step::Move(from, to) => {
            let Some(entry) = catalog.in_schema(NAMES[from.0], NAMES[from.1]) else { return (None, false) };
            let def = TableDef { schema: named(&to.0), name: named(&to.1), ..TableDef::clone(&entry.def) };
            let is_free = model.get(&named(&to.0)).is_some_and(|(_, tables)| !tables.contains_key(&named(&to.1)));
            let may = from == to || is_free;
            if may && from != to {
                let id = model.get_mut(&named(&from.0)).and_then(|(_, tables)| tables.remove(&named(&from.1)));
                let (Some(id), Some((_, tables))) = (id, model.get_mut(&named(&to.0))) else { unreachable!() };
                tables.insert(named(&to.1), id);
            }
            (Some(Change::AlterTable { def, was: entry.changed_at }), may)
        }
    }
}

proptest! {
    #[test]
    fn names_are_those_of_the_model(steps in proptest::collection::vec(step(), 1..40)) {
        let mut catalog = Catalog::default();
        let mut model: Model = [("public".to_owned(), (PUBLIC_SCHEMA_ID.0, BTreeMap::new()))].into();
        for (at, step) in steps.iter().enumerate() {
            let before = model.clone();
            let (change, may) = apply(&mut model, step, at as u32 + 1, &catalog);
            let Some(change) = change else { continue };
            match catalog.apply(Version(at as u64 + 1), &[change]) {
                Ok(next) => {
                    prop_assert!(may, "{step:?} is refused by {before:?}");
                    catalog = next;
                }
                Err(error) => prop_assert!(!may, "{step:?} of {before:?}: {error}"),
            }
            let schemas: Vec<(&str, u32)> = catalog.schemas().map(|(name, entry)| (name, entry.id.0)).collect();
            let wanted: Vec<(&str, u32)> = model.iter().map(|(name, (id, _))| (name.as_str(), *id)).collect();
            prop_assert_eq!(schemas, wanted);
            for (schema, (_, tables)) in &model {
                let found: Vec<_> =
                    catalog.tables_in(schema).map(|entry| (entry.def.name.clone(), entry.def.id.0)).collect();
                prop_assert_eq!(found, tables.iter().map(|(name, id)| (name.clone(), *id)).collect::<Vec<_>>());
                prop_assert!(catalog.tables_in(schema).all(|entry| entry.def.schema == *schema));
            }
            // Along a path the first schema that has it gives a name.
            let path = SearchPath::new(["b", "nowhere", "public"].map(str::to_owned).to_vec());
            for name in NAMES {
                let wanted = ["b", "public"].iter().find_map(|schema| model.get(*schema)?.1.get(name).copied());
                let found = catalog.found(&RelationName::bare(name), &path).map(|entry| entry.def.id.0);
                prop_assert_eq!(found, wanted);
            }
            let stored = serde_json::to_string(&catalog).unwrap();
            prop_assert_eq!(&serde_json::from_str::<Catalog>(&stored).unwrap(), &catalog);
            // Without schemas it is stored as it always was.
            prop_assert_eq!(stored.contains("schema"), model.len() > 1);
        }
    }
}

#[test]
fn a_schema_has_rights_while_it_is_there() {
    let schema = TableId(7);
    let owner = RoleId(16_384);
    let role = RightsChange::CreateRole {
        name: "ann".to_owned(),
        login: false,
        superuser: false,
        verifier: None,
        member_of: [].into(),
    };
    let on = Object::Table(schema);
    let usage = Privileges::NONE.with(Privilege::Usage);
    let changes = [
        Change::Rights { change: role },
        Change::CreateSchema { id: schema, name: "s".to_owned() },
        Change::Rights { change: RightsChange::Own { table: schema, owner } },
        Change::Rights { change: RightsChange::Grant { on, privileges: usage, to: alluvia_catalog::rights::PUBLIC } },
    ];
    let catalog = Catalog::default().apply(Version(1), &changes).unwrap();
    assert!(catalog.rights().owns(owner, schema));
    assert_eq!(catalog.rights().grants(on).count(), 1);
    let error =
        catalog.apply(Version(2), &[Change::Rights { change: RightsChange::DropRole { id: owner } }]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::DependentObjects);
    let dropped = catalog.apply(Version(2), &[Change::DropSchema { id: schema }]).unwrap();
    assert!(!dropped.rights().owns(owner, schema) && dropped.rights().grants(on).next().is_none());
    let again = dropped.apply(Version(3), &[Change::DropSchema { id: schema }]).unwrap_err();
    assert_eq!(again.kind(), ErrorKind::Conflict);
}

#[test]
fn what_is_not_found_is_told_with_where_it_may_be() {
    let changes = [
        Change::CreateSchema { id: TableId(1), name: "shop".to_owned() },
        Change::CreateTable { def: table(2, "shop", "sales") },
    ];
    let catalog = Catalog::default().apply(Version(1), &changes).unwrap();
    let hint = |name: &RelationName| {
        let error = catalog.relation(name, &SearchPath::default()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::UndefinedTable);
        error.hint().unwrap_or_default().to_owned()
    };
    assert_eq!(hint(&RelationName::in_schema("shop", "sale")), "did you mean 'sales'?");
    assert_eq!(hint(&RelationName::in_schema("shpo", "sales")), "there is no schema \"shpo\": did you mean 'shop'?");
    assert_eq!(hint(&"sales".into()), "did you mean shop.sales?");
    assert_eq!(catalog.schema("shpo").unwrap_err().kind(), ErrorKind::UndefinedSchema);
    let taken = catalog.apply(Version(2), &[Change::CreateSchema { id: TableId(3), name: "shop".to_owned() }]);
    assert_eq!(taken.unwrap_err().kind(), ErrorKind::DuplicateSchema);
}

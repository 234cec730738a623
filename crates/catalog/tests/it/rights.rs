//! Rights through their versions: against a model that asks by walking, and what is refused.

use alluvia_catalog::rights::{
    BOOTSTRAP, NewPassword, Object, PUBLIC, Privilege, Privileges, Rights, RightsChange, RoleId, Secret,
};
use alluvia_catalog::{Catalog, Change};
use alluvia_types::{ErrorKind, TableId, Version};
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};

fn role(name: &str, member_of: &[RoleId]) -> RightsChange {
    RightsChange::CreateRole {
        name: name.to_owned(),
        login: true,
        superuser: false,
        verifier: None,
        member_of: member_of.iter().copied().collect(),
    }
}

fn apply(rights: &mut Rights, change: &RightsChange) -> Result<(), ErrorKind> {
    rights.apply(change, |table| table.0 < 3).map_err(|error| error.kind())
}

fn all(rights: &mut Rights, changes: &[RightsChange]) {
    changes.iter().for_each(|change| apply(rights, change).unwrap());
}

fn id(at: u32) -> RoleId {
    RoleId(16_384 + at)
}

#[test]
fn a_new_database_lets_everybody_connect_and_nobody_do_anything() {
    let mut rights = Rights::default();
    all(&mut rights, &[role("ann", &[])]);
    for on in [Object::Database, Object::Table(TableId(1))] {
        for privilege in Privileges::OF_TABLE.and(Privileges::OF_DATABASE).iter() {
            assert!(rights.may(BOOTSTRAP, privilege, on));
            let allowed = on == Object::Database && privilege == Privilege::Connect;
            assert_eq!(rights.may(id(0), privilege, on), allowed, "{privilege:?} on {on:?}");
            assert!(!rights.may(id(1), privilege, on), "who does not exist may nothing");
        }
    }
}

#[test]
fn a_dropped_role_leaves_nothing_and_its_number_is_not_given_again() {
    let mut rights = Rights::default();
    let select = Privileges::NONE.with(Privilege::Select);
    all(&mut rights, &[role("group", &[]), role("ann", &[id(0)])]);
    all(&mut rights, &[RightsChange::Grant { on: Object::Table(TableId(1)), privileges: select, to: id(1) }]);
    all(&mut rights, &[RightsChange::Own { table: TableId(2), owner: id(1) }]);
    assert_eq!(apply(&mut rights, &RightsChange::DropRole { id: id(1) }), Err(ErrorKind::DependentObjects));
    all(
        &mut rights,
        &[RightsChange::Own { table: TableId(2), owner: BOOTSTRAP }, RightsChange::DropRole { id: id(1) }],
    );
    assert_eq!(apply(&mut rights, &RightsChange::DropRole { id: id(1) }), Err(ErrorKind::Conflict));
    all(&mut rights, &[role("ann", &[])]);
    assert_eq!(rights.named("ann").unwrap().id, id(2));
    assert!(!rights.may(id(1), Privilege::Select, Object::Table(TableId(1))));
    assert!(!rights.may(id(2), Privilege::Select, Object::Table(TableId(1))));
    assert_eq!(apply(&mut rights, &RightsChange::DropRole { id: BOOTSTRAP }), Err(ErrorKind::InvalidDefinition));
}

#[test]
fn what_cannot_be_is_refused() {
    let mut rights = Rights::default();
    all(&mut rights, &[role("a", &[]), role("b", &[id(0)]), role("c", &[id(1)])]);
    for (change, kind) in [
        (role("a", &[]), ErrorKind::DuplicateObject),
        (role("d", &[RoleId(1)]), ErrorKind::Conflict),
        (RightsChange::Join { role: id(2), member: id(0) }, ErrorKind::InvalidDefinition),
        (RightsChange::Join { role: id(0), member: id(0) }, ErrorKind::InvalidDefinition),
        (RightsChange::Own { table: TableId(9), owner: id(0) }, ErrorKind::Conflict),
        (
            RightsChange::Grant { on: Object::Database, privileges: Privileges::NONE, to: RoleId(9) },
            ErrorKind::Conflict,
        ),
        (RightsChange::SetForRole { id: RoleId(9), name: "x".into(), value: None }, ErrorKind::Conflict),
    ] {
        assert_eq!(apply(&mut rights, &change), Err(kind), "{change:?}");
    }
    let rename = |name: &str| RightsChange::AlterRole {
        id: id(0),
        name: Some(name.to_owned()),
        login: None,
        superuser: None,
        password: None,
    };
    assert_eq!(apply(&mut rights, &rename("b")), Err(ErrorKind::DuplicateObject));
    all(&mut rights, &[rename("a"), rename("z")]);
    assert_eq!(rights.named("z").unwrap().id, id(0));
}

#[test]
fn superusers_are_so_themselves_and_not_by_membership() {
    let mut rights = Rights::default();
    let boss = RightsChange::CreateRole {
        name: "boss".into(),
        login: false,
        superuser: true,
        verifier: None,
        member_of: BTreeSet::new(),
    };
    all(&mut rights, &[boss, role("ann", &[id(0)])]);
    let table = Object::Table(TableId(1));
    assert!(rights.may(id(0), Privilege::Select, table) && !rights.may(id(1), Privilege::Select, table));
    assert!(rights.is_in(id(1), id(0)) && !rights.is_in(id(1), BOOTSTRAP) && rights.is_in(id(0), BOOTSTRAP));
}

#[test]
fn a_dropped_table_takes_its_grants_with_it_and_no_verifier_is_printed() {
    let verifier = Secret::new("SCRAM-SHA-256$4096:salt$stored:server");
    let set = RightsChange::AlterRole {
        id: id(0),
        name: None,
        login: None,
        superuser: None,
        password: Some(NewPassword::Verifier(verifier)),
    };
    let mut rights = Rights::default();
    all(&mut rights, &[role("ann", &[]), set.clone()]);
    assert!(!format!("{rights:?} {set:?}").contains("SCRAM"));
    assert_eq!(rights.named("ann").unwrap().verifier.as_ref().unwrap().reveal().len(), 37);

    let def = alluvia_space::TableDef {
        id: TableId(1),
        schema: "public".to_owned(),
        name: "t".into(),
        columns: Vec::new(),
        next_column_id: 0,
        key: None,
        rules: alluvia_space::TableRules::default(),
        indexes: Vec::new(),
        foreign_keys: Vec::new(),
        dimensions: Vec::new(),
        measures: Vec::new(),
        seed: 1,
        options: alluvia_space::TableOptions::default(),
    };
    let rights = |change| Change::Rights { change };
    let privileges = Privileges::NONE.with(Privilege::Select);
    let grant = RightsChange::Grant { on: Object::Table(TableId(1)), privileges, to: PUBLIC };
    let own = RightsChange::Own { table: TableId(1), owner: id(0) };
    let create = Change::CreateTable { def };
    let changes = [rights(role("ann", &[])), create, rights(grant.clone()), rights(own)];
    let one = Catalog::default().apply(Version(1), &changes).unwrap();
    assert!(one.rights().may(id(0), Privilege::Insert, Object::Table(TableId(1))));
    let two = one.apply(Version(2), &[Change::DropTable { id: TableId(1) }]).unwrap();
    assert_eq!(
        (two.rights().grants(Object::Table(TableId(1))).count(), two.rights().owner(TableId(1))),
        (0, BOOTSTRAP)
    );
    assert_eq!(two.apply(Version(3), &[rights(grant)]).unwrap_err().kind(), ErrorKind::Conflict);
    for catalog in [Catalog::default(), one, two] {
        let text = serde_json::to_string(&catalog).unwrap();
        assert_eq!(text.contains("rights"), catalog.version > Version(0), "{text}");
        assert_eq!(serde_json::from_str::<Catalog>(&text).unwrap(), catalog);
    }
}

/// What may be asked of rights, walked in the obvious way.
#[derive(Default, Clone)]
struct Model {
    members: BTreeSet<(u32, u32)>,
    superusers: BTreeSet<u32>,
    gone: BTreeSet<u32>,
    granted: BTreeSet<(Option<u32>, u32, Privilege)>,
    owners: BTreeMap<u32, u32>,
}

impl Model {
    fn is_in(&self, member: u32, role: u32) -> bool {
        member == role || self.members.iter().any(|(of, who)| *who == member && self.is_in(*of, role))
    }

    fn may(&self, who: u32, privilege: Privilege, table: u32) -> bool {
        if self.gone.contains(&who) {
            return false;
        }
        self.superusers.contains(&who)
            || self.owners.get(&table).is_some_and(|owner| self.is_in(who, *owner))
            || self.granted.contains(&(None, table, privilege))
            || (0..ROLES).any(|role| self.is_in(who, role) && self.granted.contains(&(Some(role), table, privilege)))
    }
}

const ROLES: u32 = 6;

#[derive(Clone, Debug)]
enum Step {
    Join(u32, u32),
    Leave(u32, u32),
    Grant(Option<u32>, u32, Vec<usize>),
    Revoke(Option<u32>, u32, Vec<usize>),
    Own(u32, u32),
    Super(u32, bool),
    Drop(u32),
}

fn step() -> impl Strategy<Value = Step> {
    let role = || 0..ROLES;
    let to = || prop::option::weighted(0.9, 0..ROLES);
    let privileges = || prop::collection::vec(0..5_usize, 1..3);
    prop_oneof![
        4 => (role(), role()).prop_map(|(a, b)| Step::Join(a, b)),
        2 => (role(), role()).prop_map(|(a, b)| Step::Leave(a, b)),
        4 => (to(), 0..3_u32, privileges()).prop_map(|(to, table, what)| Step::Grant(to, table, what)),
        2 => (to(), 0..3_u32, privileges()).prop_map(|(to, table, what)| Step::Revoke(to, table, what)),
        1 => (0..3_u32, role()).prop_map(|(table, owner)| Step::Own(table, owner)),
        1 => (role(), any::<bool>()).prop_map(|(role, on)| Step::Super(role, on)),
        1 => role().prop_map(Step::Drop),
    ]
}

proptest! {
    #[test]
    fn rights_answer_as_a_model_that_walks(steps in prop::collection::vec(step(), 0..60)) {
        let mut rights = Rights::default();
        let mut model = Model::default();
        (0..ROLES).for_each(|at| apply(&mut rights, &role(&format!("r{at}"), &[])).unwrap());
        let set = |what: &[usize]| -> Vec<Privilege> {
            what.iter().map(|at| Privileges::OF_TABLE.iter().nth(*at).unwrap()).collect()
        };
        for step in steps {
            let mut next = model.clone();
            let (change, allowed) = match &step {
                Step::Join(of, who) => {
                    next.members.insert((*of, *who));
                    let alive = !model.gone.contains(of) && !model.gone.contains(who);
                    (RightsChange::Join { role: id(*of), member: id(*who) }, alive && !model.is_in(*of, *who))
                }
                Step::Leave(of, who) => {
                    next.members.remove(&(*of, *who));
                    (RightsChange::Leave { role: id(*of), member: id(*who) }, !model.gone.contains(who))
                }
                Step::Grant(to, table, what) | Step::Revoke(to, table, what) => {
                    let on = Object::Table(TableId(*table));
                    let privileges = set(what).into_iter().collect();
                    let role = to.map_or(PUBLIC, id);
                    let allowed = to.is_none_or(|to| !model.gone.contains(&to));
                    if matches!(step, Step::Grant(..)) {
                        next.granted.extend(set(what).into_iter().map(|privilege| (*to, *table, privilege)));
                        (RightsChange::Grant { on, privileges, to: role }, allowed)
                    } else {
                        next.granted.retain(|(who, on, what_on)| who != to || on != table || !set(what).contains(what_on));
                        (RightsChange::Revoke { on, privileges, from: role }, allowed)
                    }
                }
                Step::Own(table, owner) => {
                    next.owners.insert(*table, *owner);
                    (RightsChange::Own { table: TableId(*table), owner: id(*owner) }, !model.gone.contains(owner))
                }
                Step::Super(role, on) => {
                    if *on { next.superusers.insert(*role); } else { next.superusers.remove(role); }
                    let change = RightsChange::AlterRole {
                        id: id(*role), name: None, login: None, superuser: Some(*on), password: None,
                    };
                    (change, !model.gone.contains(role))
                }
                Step::Drop(role) => {
                    next.gone.insert(*role);
                    next.members.retain(|(of, who)| of != role && who != role);
                    next.granted.retain(|(to, ..)| *to != Some(*role));
                    let owns = model.owners.values().any(|owner| owner == role);
                    (RightsChange::DropRole { id: id(*role) }, !model.gone.contains(role) && !owns)
                }
            };
            let mut changed = rights.clone();
            let done = apply(&mut changed, &change);
            prop_assert_eq!(done.is_ok(), allowed, "{:?}: {:?}", step, done);
            if allowed {
                (rights, model) = (changed, next);
            }
            for who in 0..ROLES {
                for table in 0..3 {
                    for privilege in Privileges::OF_TABLE.iter() {
                        let may = rights.may(id(who), privilege, Object::Table(TableId(table)));
                        prop_assert_eq!(may, model.may(who, privilege, table), "{} {:?} {}", who, privilege, table);
                    }
                }
            }
        }
        let text = serde_json::to_string(&rights).unwrap();
        prop_assert_eq!(serde_json::from_str::<Rights>(&text).unwrap(), rights);
    }
}

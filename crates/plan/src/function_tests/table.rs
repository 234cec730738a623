//! The table of functions against what a session has.

use crate::testing::context;
use alluvia_functions::table::{Function, functions};
use std::collections::BTreeMap;

#[test]
fn a_session_has_the_functions_of_the_table_and_no_other() {
    let state = context().state();
    let mut known: [BTreeMap<String, String>; 3] = Default::default();
    for built in functions().unwrap() {
        let kind = match &built.function {
            Function::Scalar(_) => 0,
            Function::Aggregate(_) => 1,
            Function::Window(_) => 2,
        };
        for name in built.names() {
            let own = known[kind].insert(name.to_owned(), built.entry.name.to_owned());
            assert!(own.is_none(), "{name} is called by {own:?} and {}", built.entry.name);
        }
    }
    let owned = |(called, name): (&String, &str)| (called.clone(), name.to_owned());
    let registered: [BTreeMap<String, String>; 3] = [
        state.scalar_functions().iter().map(|(called, function)| owned((called, function.name()))).collect(),
        state.aggregate_functions().iter().map(|(called, function)| owned((called, function.name()))).collect(),
        state.window_functions().iter().map(|(called, function)| owned((called, function.name()))).collect(),
    ];
    for (known, registered) in known.iter().zip(&registered) {
        let new: Vec<_> = registered.iter().filter(|(called, name)| known.get(*called) != Some(*name)).collect();
        assert!(new.is_empty(), "give these entries in alluvia_functions::table: {new:?}");
        let gone: Vec<_> = known.keys().filter(|called| !registered.contains_key(*called)).collect();
        assert!(gone.is_empty(), "a session has not: {gone:?}");
    }
}

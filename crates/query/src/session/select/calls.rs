//! Refuses clauses of a call that its function has no use for: `upper(DISTINCT k)`, `upper(k) OVER ()`, `rank() FILTER
//! (...) OVER ()`.
//!
//! DataFusion plans such a call by leaving the clause out. What a function is depends on what is registered, so the
//! syntax cannot tell.

use alluvia_syntax::names::name_of;
use alluvia_syntax::trees::visit::visit;
use alluvia_types::{Error, Result};
use alluvia_values::errors::not_supported;
use datafusion::execution::session_state::SessionState;
use datafusion::sql::sqlparser::ast::{
    DuplicateTreatment, Expr, Function, FunctionArgumentClause, FunctionArguments, NullTreatment, ObjectNamePart,
    Query, Visitor,
};
use std::ops::ControlFlow;

/// Functions that planning makes something else of.
const SPECIAL: [&str; 4] = ["unnest", "unnest_outer", "map", "make_map"];

/// Refuses calls with clauses that would be left out; `state` knows the functions.
pub(crate) fn refuse_ignored(query: &Query, state: &SessionState) -> Result<()> {
    match visit(query, &mut Calls { state }) {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(error) => Err(error),
    }
}

struct Calls<'a> {
    state: &'a SessionState,
}

impl Visitor for Calls<'_> {
    type Break = Error;

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<Error> {
        let Expr::Function(function) = expr else { return ControlFlow::Continue(()) };
        let Some(name) = function.name.0.last().and_then(ObjectNamePart::as_ident).map(name_of) else {
            return ControlFlow::Continue(());
        };
        let (ignored, why) = if self.is_scalar(&name) {
            (any_clause(function), "neither an aggregate nor a window function")
        } else if function.over.is_some() && self.is_window(&name) {
            (aggregates_clause(function), "a window function and no aggregate")
        } else {
            (None, "")
        };
        match ignored {
            None => ControlFlow::Continue(()),
            Some(clause) => {
                let hint = format!("{name} is {why}: leave the clause out");
                ControlFlow::Break(not_supported(format!("{clause} in a call of {name}")).with_hint(hint))
            }
        }
    }
}

impl Calls<'_> {
    fn is_scalar(&self, name: &str) -> bool {
        // In the order in which planning looks: an aggregate of the same name would not be found.
        self.state.scalar_functions().contains_key(name)
            || self.state.higher_order_functions().contains_key(name)
            || SPECIAL.contains(&name)
            || alluvia_pg_catalog::is_function(name)
    }

    /// Whether a call of this name with OVER is of a window function, though an aggregate of the name may be.
    fn is_window(&self, name: &str) -> bool {
        let aggregate = self.state.aggregate_functions().get(name).map(|aggregate| aggregate.name());
        let is_both = matches!(aggregate, Some("first_value" | "last_value" | "nth_value"));
        (aggregate.is_none() || is_both) && self.state.window_functions().contains_key(name)
    }
}

/// The first clause of a call.
fn any_clause(function: &Function) -> Option<&'static str> {
    let over = function.over.as_ref().map(|_| "OVER");
    over.or_else(|| aggregates_clause(function)).or_else(|| nulls_clause(function))
}

/// The first clause of a call that only aggregates know.
fn aggregates_clause(function: &Function) -> Option<&'static str> {
    if function.filter.is_some() {
        return Some("FILTER");
    }
    if !function.within_group.is_empty() {
        return Some("WITHIN GROUP");
    }
    let FunctionArguments::List(list) = &function.args else { return None };
    // ALL says nothing: PostgreSQL takes it in any call.
    if list.duplicate_treatment == Some(DuplicateTreatment::Distinct) {
        return Some("DISTINCT");
    }
    let is_order = |clause: &FunctionArgumentClause| matches!(clause, FunctionArgumentClause::OrderBy(_));
    list.clauses.iter().any(is_order).then_some("ORDER BY")
}

fn nulls_clause(function: &Function) -> Option<&'static str> {
    let inside = match &function.args {
        FunctionArguments::List(list) => list.clauses.iter().find_map(|clause| match clause {
            FunctionArgumentClause::IgnoreOrRespectNulls(treatment) => Some(treatment),
            _ => None,
        }),
        _ => None,
    };
    Some(match function.null_treatment.as_ref().or(inside)? {
        NullTreatment::IgnoreNulls => "IGNORE NULLS",
        NullTreatment::RespectNulls => "RESPECT NULLS",
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use alluvia_syntax::parameters::query_of;
    use alluvia_syntax::script::parse;
    use datafusion::execution::SessionStateBuilder;

    #[test]
    fn clauses_that_planning_would_leave_out_are_refused_by_name() {
        let state = SessionStateBuilder::new().with_default_features().build();
        let refused = |call: &str| {
            let mut kind = parse(&format!("SELECT 1 FROM t WHERE {call}")).unwrap().remove(0).kind;
            refuse_ignored(query_of(&mut kind).unwrap(), &state).err().map(|error| error.message().to_owned())
        };
        for (call, expected) in [
            ("upper(DISTINCT k) = 'A'", "DISTINCT in a call of upper"),
            ("upper(k ORDER BY k) = 'A'", "ORDER BY in a call of upper"),
            ("upper(k) FILTER (WHERE false) = 'A'", "FILTER in a call of upper"),
            ("upper(k) OVER () = 'A'", "OVER in a call of upper"),
            ("upper(k) WITHIN GROUP (ORDER BY k) = 'A'", "WITHIN GROUP in a call of upper"),
            ("upper(k) IGNORE NULLS = 'A'", "IGNORE NULLS in a call of upper"),
            ("a IN (SELECT abs(DISTINCT a) FROM t)", "DISTINCT in a call of abs"),
            ("version(DISTINCT 1) = ''", "DISTINCT in a call of version"),
            ("row_number() FILTER (WHERE a > 1) OVER () = 1", "FILTER in a call of row_number"),
            ("first_value(DISTINCT a) OVER () = 1", "DISTINCT in a call of first_value"),
        ] {
            assert_eq!(refused(call), Some(format!("{expected} is not supported")), "{call}");
        }
        for call in [
            "upper(k) = 'A'",
            "upper(ALL k) = 'A'",
            "count(ALL a) = 1",
            "count(DISTINCT a) FILTER (WHERE a > 1) = 1",
            "sum(a) FILTER (WHERE a > 1) OVER (PARTITION BY k) = 1",
            "lag(a) IGNORE NULLS OVER (ORDER BY a) = 1",
            "first_value(a ORDER BY a) = 1",
            "percentile_cont(0.5) WITHIN GROUP (ORDER BY a) = 1",
            "nowhere(DISTINCT a) = 1",
        ] {
            assert_eq!(refused(call), None, "{call}");
        }
    }
}

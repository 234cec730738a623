//! Predicates of one column, evaluated on the members of its level.
//!
//! Invariants:
//! - A predicate looks at the column's value and at nothing else, so it is for every row of a member what it is for the member: true,
//!   false or unknown.
//! - Where it fails for a member there is no set: the plan may never meet that member in a row.
//!
//! What is false of a member is what `NOT` of the predicate is true of, so negation is left to SQL: to be in no set of true members is
//! not to be false.

use super::conditions::codes_where;
use crate::members::{EVALUATED_MAX, batch_of_members, evaluated};
use alluvia_catalog::Dictionaries;
use alluvia_functions::output_size::StatementLimits;
use alluvia_space::{Column, DataType};
use alluvia_tree::CodeSet;
use arrow::array::{BooleanArray, RecordBatch};
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{DFSchema, Result};
use datafusion::logical_expr::Expr;
use datafusion::logical_expr::execution_props::ExecutionProps;
use datafusion::logical_expr::physical_planning_context::PhysicalPlanningContext;
use datafusion::logical_expr::simplify::SimplifyContext;
use datafusion::optimizer::simplify_expressions::ExprSimplifier;
use datafusion::physical_expr::create_physical_expr;
use std::sync::Arc;

/// What functions may make of the members that are evaluated at once; a predicate that needs more is the plan's, which has the statement's
/// memory.
const BYTES_MAX: u64 = 64 << 20;

/// A predicate that depends on one column's value alone.
#[derive(Clone, PartialEq, Debug)]
pub struct MemberPredicate {
    /// Over a column of its name, without a table's.
    expr: Expr,
    /// Whether it is known to mean this of texts only.
    of_text: bool,
}

impl MemberPredicate {
    /// A predicate as the planner has written it, for a column of its type.
    pub fn planned(expr: Expr) -> MemberPredicate {
        MemberPredicate { expr, of_text: false }
    }

    /// A predicate of a text.
    pub(crate) fn of_text(expr: Expr) -> MemberPredicate {
        MemberPredicate { expr, of_text: true }
    }

    /// The same of a column with another name; `None` if it has none.
    pub(super) fn renamed(&self, column: &dyn Fn(&str) -> Option<String>) -> Option<MemberPredicate> {
        let mut is_known = true;
        let renamed = self.expr.clone().transform_up(|expr| match &expr {
            Expr::Column(named) => match column(&named.name) {
                Some(name) => Ok(Transformed::yes(Expr::Column(datafusion::common::Column::new_unqualified(name)))),
                None => {
                    is_known = false;
                    Ok(Transformed::no(expr))
                }
            },
            _ => Ok(Transformed::no(expr)),
        });
        let expr = renamed.ok().filter(|_| is_known)?.data;
        Some(MemberPredicate { expr, of_text: self.of_text })
    }

    /// What is true where this is false.
    pub(super) fn negated(self) -> MemberPredicate {
        MemberPredicate { expr: Expr::Not(Box::new(self.expr)), of_text: self.of_text }
    }

    /// The codes of the members that it is true of, NULL among them; `None` if only the plan can tell.
    pub(super) fn codes(&self, dictionaries: &Dictionaries, level: usize, column: &Column) -> Option<CodeSet> {
        let fits = !self.of_text || column.data_type == DataType::Text;
        if !fits || dictionaries.len(level) > EVALUATED_MAX {
            return None;
        }
        let members = batch_of_members(column, level, dictionaries)?;
        self.evaluate(&members).ok()?.map(|matching| codes_where(&matching))
    }

    fn evaluate(&self, members: &RecordBatch) -> Result<Option<BooleanArray>> {
        let schema = DFSchema::try_from(members.schema())?;
        let expr = ExprSimplifier::new(SimplifyContext::default()).coerce(self.expr.clone(), &schema)?;
        let mut config = ConfigOptions::default();
        config.extensions.insert(StatementLimits::new(BYTES_MAX));
        let properties = ExecutionProps { config_options: Some(Arc::new(config)), ..ExecutionProps::new() };
        let predicate = create_physical_expr(&expr, &schema, &properties, &PhysicalPlanningContext::default())?;
        evaluated(&predicate, members)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::{ArrayRef, StringViewArray};
    use arrow::datatypes::{DataType as ArrowType, Field, Schema};
    use datafusion::common::ScalarValue;
    use datafusion::functions::expr_fn::{lower, nullif, upper};
    use datafusion::prelude::{cast, col, lit, when};

    const NAMES: [Option<&str>; 5] = [None, Some("Chile"), Some("chile"), Some("Peru"), Some("7")];

    fn matching(predicate: &MemberPredicate) -> Result<Vec<Option<bool>>> {
        let schema = Schema::new(vec![Field::new("a", ArrowType::Utf8View, true)]);
        let names: ArrayRef = Arc::new(StringViewArray::from_iter(NAMES));
        let members = RecordBatch::try_new(Arc::new(schema), vec![names]).expect("one column");
        Ok(predicate.evaluate(&members)?.expect("a predicate").iter().collect())
    }

    /// What it is of each name, written as a function of it.
    fn check(expr: Expr, model: fn(Option<&str>) -> Option<bool>) {
        let predicate = MemberPredicate::of_text(expr);
        let expected: Vec<Option<bool>> = NAMES.into_iter().map(model).collect();
        assert_eq!(matching(&predicate).expect("evaluates"), expected, "{predicate:?}");
        let negated = predicate.negated();
        let expected: Vec<Option<bool>> = expected.into_iter().map(|known| known.map(|is_true| !is_true)).collect();
        assert_eq!(matching(&negated).expect("evaluates"), expected, "{negated:?}");
    }

    #[test]
    fn true_false_and_unknown_are_told_apart() {
        let null = || lit(ScalarValue::Utf8(None));
        check(lower(col("a")).eq(lit("chile")), |name| Some(name?.eq_ignore_ascii_case("chile")));
        check(upper(col("a")).in_list(vec![lit("PERU"), lit("7")], false), |name| {
            Some(["PERU", "7"].contains(&name?.to_uppercase().as_str()))
        });
        check(col("a").ilike(lit("c%")), |name| Some(name?.to_lowercase().starts_with('c')));
        // Unknown of a name, and known of NULL.
        check(nullif(col("a"), lit("Peru")).eq(lit("Chile")), |name| {
            let name = name?;
            (name != "Peru").then_some(name == "Chile")
        });
        let or_null = when(col("a").is_null(), lit(true)).otherwise(col("a").eq(lit("Chile"))).expect("a case");
        check(or_null, |name| Some(name.is_none_or(|name| name == "Chile")));
        check(col("a").in_list(vec![lit("Peru"), null()], false), |name| (name? == "Peru").then_some(true));
        check(col("a").eq(null()), |_| None);
    }

    #[test]
    fn many_members_are_evaluated_as_few_are() {
        let schema = Schema::new(vec![Field::new("a", ArrowType::Utf8View, true)]);
        // NULL among them, and a member that the predicate is unknown of.
        let names: Vec<Option<String>> = (0..2_500).map(|at| (at > 0).then(|| format!("name {at}"))).collect();
        let column: ArrayRef = Arc::new(StringViewArray::from_iter(names.iter().map(Option::as_deref)));
        let members = RecordBatch::try_new(Arc::new(schema), vec![column]).expect("one column");
        let ends_in_seven = nullif(col("a"), lit("name 1027")).like(lit("%7"));
        let found =
            MemberPredicate::of_text(ends_in_seven).evaluate(&members).expect("evaluates").expect("a predicate");
        let model = |name: &Option<String>| {
            let name = name.as_deref().filter(|name| *name != "name 1027")?;
            Some(name.ends_with('7'))
        };
        assert_eq!(found.iter().collect::<Vec<_>>(), names.iter().map(model).collect::<Vec<_>>());
    }

    #[test]
    fn what_fails_for_a_member_is_nobodys() {
        let number = cast(col("a"), ArrowType::Int32).eq(lit(7));
        assert!(matching(&MemberPredicate::planned(number)).is_err());
    }
}

//! ORDER BY of a query in FROM.
//!
//! Invariants, as in PostgreSQL, which keeps rows in the order of a query in FROM as long as nothing above it has another:
//! - It orders the rows that a LIMIT above it takes, what `array_agg`, `string_agg` and their like gather that have no order of their own,
//!   and the rows of the statement.
//! - Everywhere else it is left out: below joins, other aggregates, DISTINCT, and in subqueries of expressions.
//! - What it is ordered by need not be a column of the query.
//!
//! DataFusion leaves it out everywhere while it plans FROM, unless `enable_subquery_sort_elimination` is off; then its aggregates and
//! operators that work in parallel do not keep it.
//!
//! Mends apache/datafusion#15886 (in 55.2).
//! Held by `slt/inner_orders.slt`.

use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, Result};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::{
    Aggregate, Expr, Filter, Limit, LogicalPlan, Projection, Sort, SortExpr, SubqueryAlias,
};
use datafusion::optimizer::analyzer::AnalyzerRule;
use std::sync::Arc;

/// Aggregates whose value is another in another order.
const ORDERED: [&str; 6] = ["array_agg", "string_agg", "json_agg", "jsonb_agg", "first_value", "last_value"];

/// Puts orders where they hold, and leaves them out where nobody sees them.
#[derive(Debug)]
pub struct InnerOrders;

impl AnalyzerRule for InnerOrders {
    fn name(&self) -> &str {
        "inner_orders"
    }

    fn analyze(&self, plan: LogicalPlan, _config: &ConfigOptions) -> Result<LogicalPlan> {
        if has_inner_order(&plan)? { ordered(plan, true) } else { Ok(plan) }
    }
}

/// Whether there is an order but for that of the statement itself.
fn has_inner_order(plan: &LogicalPlan) -> Result<bool> {
    let (mut top, mut own) = (plan, 0);
    while let LogicalPlan::Projection(Projection { input, .. })
    | LogicalPlan::Limit(Limit { input, .. })
    | LogicalPlan::Sort(Sort { input, .. }) = top
    {
        own += usize::from(matches!(top, LogicalPlan::Sort(_)));
        top = input;
    }
    let mut found = 0;
    plan.apply_with_subqueries(|plan| {
        found += usize::from(matches!(plan, LogicalPlan::Sort(_)));
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(found > own)
}

/// A plan with its orders, whose own order is seen by what is above, or not.
fn ordered(plan: LogicalPlan, is_seen: bool) -> Result<LogicalPlan> {
    let plan = plan.map_subqueries(|subquery| Ok(Transformed::yes(ordered(subquery, false)?)))?.data;
    match plan {
        LogicalPlan::Sort(sort) if sort.fetch.is_none() && !is_seen => ordered(Arc::unwrap_or_clone(sort.input), false),
        LogicalPlan::Sort(sort) => {
            let input = Arc::new(ordered(Arc::unwrap_or_clone(sort.input), false)?);
            Ok(LogicalPlan::Sort(Sort { input, ..sort }))
        }
        LogicalPlan::Limit(limit) => {
            let input = Arc::new(ordered(Arc::unwrap_or_clone(limit.input), true)?);
            Ok(LogicalPlan::Limit(Limit { input, ..limit }))
        }
        LogicalPlan::Aggregate(aggregate) => gathered(aggregate),
        LogicalPlan::Projection(_) | LogicalPlan::SubqueryAlias(_) | LogicalPlan::Filter(_)
            if is_seen && crosses(&plan) =>
        {
            match lifted(&plan)? {
                Some(lifted) => lifted.sorted(&plan),
                None => below(plan, true),
            }
        }
        LogicalPlan::Window(ref window) => {
            // A function without an order numbers rows as they come.
            let without = |expr: &Expr| match expr.clone().unalias_nested().data {
                Expr::WindowFunction(window) => window.params.order_by.is_empty(),
                _ => false,
            };
            let is_seen = is_seen || window.window_expr.iter().any(without);
            below(plan, is_seen)
        }
        LogicalPlan::Join(_) | LogicalPlan::Distinct(_) | LogicalPlan::RecursiveQuery(_) => below(plan, false),
        plan => below(plan, is_seen),
    }
}

fn below(plan: LogicalPlan, is_seen: bool) -> Result<LogicalPlan> {
    Ok(plan.map_children(|child| Ok(Transformed::yes(ordered(child, is_seen)?)))?.data)
}

/// Whether the order of a query in FROM, or one below a condition, is that of a plan.
fn crosses(plan: &LogicalPlan) -> bool {
    let (mut plan, mut crosses) = (plan, false);
    loop {
        plan = match plan {
            LogicalPlan::Projection(projection) => &projection.input,
            LogicalPlan::SubqueryAlias(alias) => {
                crosses = true;
                &alias.input
            }
            LogicalPlan::Filter(filter) => {
                crosses = true;
                &filter.input
            }
            LogicalPlan::Sort(sort) => return crosses && sort.fetch.is_none(),
            _ => return false,
        }
    }
}

/// An aggregate whose functions gather rows in the order of what is below.
fn gathered(aggregate: Aggregate) -> Result<LogicalPlan> {
    let function = |expr: &Expr| match expr {
        Expr::AggregateFunction(function) => Some(function.clone()),
        Expr::Alias(alias) => match alias.expr.as_ref() {
            Expr::AggregateFunction(function) => Some(function.clone()),
            _ => None,
        },
        _ => None,
    };
    let gathers = |expr: &Expr| {
        function(expr).is_some_and(|function| ORDERED.contains(&function.func.name()) && !function.params.distinct)
    };
    let has_order = |expr: &Expr| function(expr).is_some_and(|function| !function.params.order_by.is_empty());
    let is_ordered = aggregate.aggr_expr.iter().any(gathers) && !aggregate.aggr_expr.iter().any(has_order);
    let lifted = match is_ordered {
        true => lifted(&aggregate.input)?,
        false => None,
    };
    let Some(Lifted { plan, keys }) = lifted else {
        let input = Arc::new(ordered(Arc::unwrap_or_clone(aggregate.input), is_ordered)?);
        let Aggregate { group_expr, aggr_expr, schema, .. } = aggregate;
        return Ok(LogicalPlan::Aggregate(Aggregate::try_new_with_schema(input, group_expr, aggr_expr, schema)?));
    };
    let names = NamePreserver::new_for_projection();
    let by_keys = |expr: Expr| -> Result<Expr> {
        if !gathers(&expr) {
            return Ok(expr);
        }
        let name = names.save(&expr);
        let expr = expr.transform(|expr| {
            let Expr::AggregateFunction(mut function) = expr else { return Ok(Transformed::no(expr)) };
            function.params.order_by.clone_from(&keys);
            Ok(Transformed::new(Expr::AggregateFunction(function), true, TreeNodeRecursion::Stop))
        })?;
        Ok(name.restore(expr.data))
    };
    let Aggregate { group_expr, aggr_expr, schema, .. } = aggregate;
    let aggr_expr = aggr_expr.into_iter().map(by_keys).collect::<Result<Vec<Expr>>>()?;
    Ok(LogicalPlan::Aggregate(Aggregate::try_new_with_schema(Arc::new(plan), group_expr, aggr_expr, schema)?))
}

/// A plan without its order, and the order in terms of its columns, of which there may be more than it had, at the end.
struct Lifted {
    plan: LogicalPlan,
    keys: Vec<SortExpr>,
}

impl Lifted {
    /// The plan in its order, with the columns that it had.
    fn sorted(self, was: &LogicalPlan) -> Result<LogicalPlan> {
        let sorted = LogicalPlan::Sort(Sort { expr: self.keys, input: Arc::new(self.plan), fetch: None });
        if sorted.schema().fields().len() == was.schema().fields().len() {
            return Ok(sorted);
        }
        let columns = was.schema().columns().into_iter().map(Expr::Column).collect();
        Ok(LogicalPlan::Projection(Projection::try_new(columns, Arc::new(sorted))?))
    }
}

/// Takes the order out of a plan, if it has one that nothing in between changes.
fn lifted(plan: &LogicalPlan) -> Result<Option<Lifted>> {
    match plan {
        LogicalPlan::Sort(sort) if sort.fetch.is_none() => {
            let plan = ordered(sort.input.as_ref().clone(), false)?;
            Ok(Some(Lifted { plan, keys: sort.expr.clone() }))
        }
        LogicalPlan::Filter(filter) => {
            let Some(Lifted { plan, keys }) = lifted(&filter.input)? else { return Ok(None) };
            let plan = LogicalPlan::Filter(Filter::try_new(filter.predicate.clone(), Arc::new(plan))?);
            Ok(Some(Lifted { plan, keys }))
        }
        LogicalPlan::Projection(projection) => {
            let Some(Lifted { plan, keys }) = lifted(&projection.input)? else { return Ok(None) };
            Ok(Some(projected(projection.expr.clone(), plan, keys)?))
        }
        LogicalPlan::SubqueryAlias(alias) => {
            let Some(Lifted { plan, keys }) = lifted(&alias.input)? else { return Ok(None) };
            let columns = plan.schema().columns();
            let Lifted { plan, keys } = match keys.iter().all(|key| matches!(key.expr, Expr::Column(_))) {
                true => Lifted { plan, keys },
                false => projected(columns.into_iter().map(Expr::Column).collect(), plan, keys)?,
            };
            let inner = plan.schema().columns();
            let renamed = SubqueryAlias::try_new(Arc::new(plan), alias.alias.clone())?;
            let outer = renamed.schema.columns();
            let of_outer = |key: SortExpr| -> Option<SortExpr> {
                let Expr::Column(column) = &key.expr else { return None };
                let place = inner.iter().position(|other| other == column)?;
                Some(key.with_expr(Expr::Column(outer.get(place)?.clone())))
            };
            let Some(keys) = keys.into_iter().map(of_outer).collect::<Option<Vec<SortExpr>>>() else {
                return Ok(None);
            };
            Ok(Some(Lifted { plan: LogicalPlan::SubqueryAlias(renamed), keys }))
        }
        _ => Ok(None),
    }
}

/// A projection that also has what its input is ordered by.
fn projected(exprs: Vec<Expr>, input: LogicalPlan, keys: Vec<SortExpr>) -> Result<Lifted> {
    let (own, mut exprs) = (exprs.len(), exprs);
    let mut places = Vec::with_capacity(keys.len());
    for key in &keys {
        let is_key = |expr: &Expr| match expr {
            Expr::Alias(alias) => *alias.expr == key.expr,
            expr => *expr == key.expr,
        };
        let place = exprs.iter().position(is_key).filter(|_| !key.expr.is_volatile());
        places.push(place.unwrap_or_else(|| {
            let name = name_beside(&input, exprs.len() - own);
            exprs.push(key.expr.clone().alias(name));
            exprs.len() - 1
        }));
    }
    let plan = LogicalPlan::Projection(Projection::try_new(exprs, Arc::new(input))?);
    let columns: Vec<Column> = plan.schema().columns();
    let keys = keys.into_iter().zip(places).map(|(key, place)| key.with_expr(Expr::Column(columns[place].clone())));
    let keys = keys.collect();
    Ok(Lifted { plan, keys })
}

/// A name that no column of a plan has.
fn name_beside(plan: &LogicalPlan, number: usize) -> String {
    let mut name = format!("__order_{number}");
    while plan.schema().has_column_with_unqualified_name(&name) {
        name.push('_');
    }
    name
}

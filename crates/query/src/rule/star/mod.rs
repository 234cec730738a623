//! Aggregates of joins of a fact table with small tables.
//!
//! Where keys of small tables come once, the whole join is one question to the index ([`invisible`]). Else a fact table is aggregated by
//! its join keys below the joins, and what comes of that is joined and aggregated again above them:
//!
//! `sum(price) ... FROM sales JOIN shops USING (city) GROUP BY region` becomes
//! `sum(s) ... FROM (SELECT city, sum(price) AS s FROM sales GROUP BY city) JOIN shops USING (city) GROUP BY region`
//! (eager aggregation: Yan and Larson, VLDB 1995). The lower aggregate is one of a single table, which the index answers.
//!
//! Invariants:
//! - Rows of the fact table that agree in all columns that anything above looks at have the same fate there: they pass or they do
//!   not, meet the same rows of the other tables, and land in the same groups. So each of them may stand for all, whatever is
//!   joined: keys of the other tables need not be unique, and NULL needs no care.
//! - Keys of small tables are also read ahead, to narrow what the index is asked. Only groups that the join
//!   would drop are left out.
//! - The plan is cut where the lower aggregate has few groups against rows; else the join is the cheaper place.

mod invisible;
mod path;
mod split;

use super::aggregate::truncation;
use super::node::readable;
use super::source::{source_of, with_columns, without_alias};
use crate::answer::Accuracy;
use crate::table::StatementContext;
use alluvia_snapshot::TableRead;
use arrow::datatypes::DataType as ArrowType;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, DFSchema};
use datafusion::logical_expr::expr::Cast;
use datafusion::logical_expr::{Aggregate, Expr, ExprSchemable, LogicalPlan, Projection, cast};
use path::{Below, Path, fact_side};
use split::Split;
use std::sync::Arc;

/// The aggregate answered by the index as a whole, or with one of a single table below its joins, which is exact; `None` where neither can
/// be.
pub(super) fn answer(
    aggregate: &Aggregate,
    accuracy: Option<Accuracy>,
    context: &Arc<StatementContext>,
) -> Option<LogicalPlan> {
    if source_of(&aggregate.input).is_some() || !aggregate.group_expr.iter().all(is_plain) {
        return None;
    }
    let mut facts = Vec::new();
    find_facts(&aggregate.input, context, &mut facts);
    // The table with the most rows gains the most.
    facts.sort_by_key(|(rows, _)| std::cmp::Reverse(*rows));
    let paths: Vec<Path<'_>> = facts.into_iter().map(|(rows, fact)| Path { fact, rows, context }).collect();
    let split = Split::of(aggregate);
    let cut = split.and_then(|split| paths.iter().find_map(|path| cut(aggregate, &split, path)));
    // A join whose keys turn out to repeat is cut, if it can be.
    let instead = cut.clone().unwrap_or_else(|| LogicalPlan::Aggregate(aggregate.clone()));
    paths.first().and_then(|largest| invisible::answer(aggregate, instead, accuracy, largest)).or(cut)
}

/// Rows that a table has in a snapshot.
fn rows_of(read: &TableRead) -> u64 {
    let sorted: u64 = read.segments.iter().map(|read| read.segment.meta().rows).sum();
    let tail: usize = read.tail.iter().map(|run| run.rows.num_rows()).sum();
    sorted + tail as u64
}

/// The tables below joins that may be aggregated there, with their rows.
fn find_facts<'a>(plan: &'a LogicalPlan, context: &StatementContext, facts: &mut Vec<(u64, &'a LogicalPlan)>) {
    if let Some(source) = source_of(plan) {
        if let Some(read) = readable(&source, context).filter(|read| !read.entry.def.dimensions.is_empty()) {
            facts.push((rows_of(read), plan));
        }
        return;
    }
    match plan {
        LogicalPlan::Projection(projection) => find_facts(&projection.input, context, facts),
        LogicalPlan::Filter(filter) => find_facts(&filter.input, context, facts),
        LogicalPlan::SubqueryAlias(alias) => find_facts(&alias.input, context, facts),
        LogicalPlan::Join(join) => {
            for (is_left, side) in [(true, &join.left), (false, &join.right)] {
                if fact_side(join.join_type, is_left) {
                    find_facts(side, context, facts);
                }
            }
        }
        _ => {}
    }
}

fn cut(aggregate: &Aggregate, split: &Split, path: &Path<'_>) -> Option<LogicalPlan> {
    let truncations = |with_dates: bool| {
        let mut found: Vec<Expr> = Vec::new();
        for expr in &aggregate.group_expr {
            find_truncations(expr, &aggregate.input, path, with_dates, &mut found);
        }
        found
    };
    let (all, of_moments) = (truncations(true), truncations(false));
    let has_dates = all != of_moments;
    // Where a calendar lacks the unit of a date, its days tell that.
    cut_by(aggregate, split, path, all)
        .or_else(|| has_dates.then(|| cut_by(aggregate, split, path, of_moments)).flatten())
}

/// The plan cut where the fact table is grouped by these truncated times beside what else is needed.
fn cut_by(aggregate: &Aggregate, split: &Split, path: &Path<'_>, truncations: Vec<Expr>) -> Option<LogicalPlan> {
    let input = &aggregate.input;
    // A column of that name stands for what it is put in the place of, until the plan below is known.
    let stand_in = |place: usize| Column::new_unqualified(format!("__truncated_{place}"));
    let groups: Vec<Expr> = aggregate
        .group_expr
        .iter()
        .map(|expr| with_parts(without_alias(expr), &truncations, &|place| Expr::Column(stand_in(place))))
        .collect::<Option<_>>()?;
    let stand_ins: Vec<Column> = (0..truncations.len()).map(stand_in).collect();
    let mut needed = Vec::new();
    for column in groups.iter().flat_map(Expr::column_refs).filter(|column| !stand_ins.contains(column)) {
        let column = exact(input.schema(), column)?;
        if !needed.contains(&column) {
            needed.push(column);
        }
    }
    let below = Below { needed, groups: truncations, arguments: split.partials.clone(), keys: Vec::new() };
    let cut = path.cut(input, below)?;
    let named = |column: &Column| match stand_ins.iter().position(|stand_in| stand_in == column) {
        Some(place) => cut.groups.get(place).cloned().map(Expr::Column),
        None => Some(Expr::Column(column.clone())),
    };
    let groups: Vec<Expr> = groups.iter().map(|expr| with_columns(expr, &named)).collect::<Option<_>>()?;
    let totals = split.totals(&cut.arguments)?;
    let upper = Aggregate::try_new(Arc::new(cut.plan), groups, totals).ok()?;
    finished(aggregate, split, upper)
}

/// The upper aggregate with the columns of the whole one.
fn finished(aggregate: &Aggregate, split: &Split, upper: Aggregate) -> Option<LogicalPlan> {
    let columns = upper.schema.columns();
    let (groups, totals) = columns.split_at(upper.group_expr.len());
    let finished = split.finished(totals)?;
    let values = groups.iter().cloned().map(Expr::Column).chain(finished);
    let mut expressions = Vec::with_capacity(columns.len());
    for (value, (qualifier, field)) in values.zip(aggregate.schema.iter()) {
        // A sum of sums of decimals has more digits.
        let value = match value.get_type(&upper.schema).ok()? == *field.data_type() {
            true => value,
            false => cast(value, field.data_type().clone()),
        };
        expressions.push(value.alias_qualified(qualifier.cloned(), field.name()));
    }
    let upper = Arc::new(LogicalPlan::Aggregate(upper));
    let projection = Projection::try_new(expressions, Arc::clone(&upper)).ok()?;
    // What stands above has been planned for these types.
    let (own, others) = (projection.schema.fields(), aggregate.schema.fields());
    let is_same = own.len() == others.len()
        && own.iter().zip(others).all(|(a, b)| a.data_type() == b.data_type() && a.is_nullable() == b.is_nullable());
    if !is_same {
        return None;
    }
    let schema = Arc::clone(&aggregate.schema);
    Projection::try_new_with_schema(projection.expr, upper, schema).ok().map(LogicalPlan::Projection)
}

/// Truncated times of the fact table in an expression, each once; dates, which are made moments before, where they are wanted, too.
fn find_truncations(expr: &Expr, input: &LogicalPlan, path: &Path<'_>, with_dates: bool, found: &mut Vec<Expr>) {
    let is_date = |column: &Column| {
        let place = input.schema().maybe_index_of_column(column);
        place.is_some_and(|place| *input.schema().field(place).data_type() == ArrowType::Date32)
    };
    let time_of = |operand: &Expr| match operand {
        Expr::Column(column) => Some(column.clone()),
        Expr::Cast(Cast { expr, .. }) if with_dates => match expr.as_ref() {
            Expr::Column(column) if is_date(column) => Some(column.clone()),
            _ => None,
        },
        _ => None,
    };
    let look = expr.apply(|part| {
        let column = truncation(part).and_then(|truncation| time_of(truncation.operand));
        let Some(column) = &column else { return Ok(TreeNodeRecursion::Continue) };
        if path.has(input, column) && !found.contains(part) {
            found.push(part.clone());
        }
        Ok(TreeNodeRecursion::Jump)
    });
    debug_assert!(look.is_ok(), "nothing in there fails");
}

/// An expression with others in the place of some of its parts.
fn with_parts(expr: &Expr, parts: &[Expr], with: &dyn Fn(usize) -> Expr) -> Option<Expr> {
    let replaced = expr.clone().transform_down(|expr| {
        Ok(match parts.iter().position(|part| *part == expr) {
            Some(place) => Transformed::new(with(place), true, TreeNodeRecursion::Jump),
            None => Transformed::no(expr),
        })
    });
    replaced.ok().map(|replaced| replaced.data)
}

/// Whether an expression gives the same for the same columns, and looks at nothing else.
fn is_plain(expr: &Expr) -> bool {
    let own = |column: &Column| Some(Expr::Column(column.clone()));
    !matches!(expr, Expr::GroupingSet(_)) && !expr.is_volatile() && with_columns(expr, &own).is_some()
}

/// A column as a schema calls it.
fn exact(schema: &DFSchema, column: &Column) -> Option<Column> {
    Some(Column::from(schema.qualified_field(schema.maybe_index_of_column(column)?)))
}

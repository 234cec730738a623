//! Whole star joins answered by the index: the invisible join (Abadi, Madden, Hachem: "Column-stores vs. row-stores", SIGMOD 2008,
//! section 5.4), over codes.
//!
//! `sum(price) ... FROM sales JOIN shops USING (city) WHERE kind = 1 GROUP BY region` becomes one question: `sum(price)` of the sales whose
//! city is a key of a shop of that kind, by an array from the city's code to the number of its shop's region.
//!
//! Invariants:
//! - A small table, which may itself be a join, is joined by equality of one of its columns with one that is a level. Each of its keys
//!   comes once, or its join only asks whether there is one: so a row of the fact table has one group or is left out. What a plan
//!   cannot know of that is seen when it runs, and then what stands in the aggregate's place without this runs.
//! - Small tables give the same rows whenever they are read on one snapshot, and are not the fact table.
//! - What is aggregated is the fact table's; a group is a small table's, or a level.

use super::path::{Path, is_steady, key_column};
use super::{exact, is_plain, rows_of};
use crate::answer::{Accuracy, Item};
use crate::rule::aggregate::statement;
use crate::rule::node::{ColumnOf, Purpose, Small, asking, readable};
use crate::rule::small::JOINED_ROWS_MAX;
use crate::rule::source::{source_of, with_columns, without_alias};
use arrow::datatypes::DataType as ArrowType;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, DFSchema, JoinConstraint, JoinType, NullEquality};
use datafusion::logical_expr::utils::split_conjunction;
use datafusion::logical_expr::{Aggregate, Expr, ExprSchemable, Filter, Join, LogicalPlan, Projection};
use std::sync::Arc;

/// Rows that a small table may always have.
const SMALL_ROWS: u64 = 1 << 16;

/// The aggregate's answer by one question; `instead` stands in its place where that turns out to be none.
pub(super) fn answer(
    aggregate: &Aggregate,
    instead: LogicalPlan,
    accuracy: Option<Accuracy>,
    path: &Path<'_>,
) -> Option<LogicalPlan> {
    let groups = aggregate.group_expr.iter().map(|expr| GroupSource::Open(without_alias(expr).clone())).collect();
    let functions = aggregate.aggr_expr.iter().map(|expr| without_alias(expr).clone()).collect();
    let mut way = Way { path, groups, functions, predicates: Vec::new(), sides: Vec::new() };
    way.descend(&aggregate.input)?;
    way.asking(instead, accuracy)
}

/// What is known of an aggregate on the way down to its fact table. Expressions are over the columns of the plan reached so far.
struct Way<'a> {
    path: &'a Path<'a>,
    groups: Vec<GroupSource>,
    functions: Vec<Expr>,
    predicates: Vec<Expr>,
    sides: Vec<Side>,
}

/// What makes a group.
enum GroupSource {
    Open(Expr),
    /// One of what a small table is grouped by.
    Small(Attribute),
}

/// A value of a small table, by numbers that stay when sides are merged.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Attribute(usize);

/// A small table.
struct Side {
    /// What it is joined by: over the plan reached so far, and its own.
    outer: Expr,
    own: Expr,
    plan: Arc<LogicalPlan>,
    attributes: Vec<(Attribute, Expr)>,
    may_repeat: bool,
}

/// Whose columns an expression looks at.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Whose {
    Fact,
    Small,
}

impl Way<'_> {
    fn descend(&mut self, plan: &LogicalPlan) -> Option<()> {
        let mut plan = plan;
        while !std::ptr::eq(plan, self.path.fact) {
            plan = match plan {
                LogicalPlan::Projection(projection) => {
                    let computed = |column: &Column| {
                        let place = projection.schema.maybe_index_of_column(column)?;
                        Some(without_alias(&projection.expr[place]).clone())
                    };
                    self.replace(&computed)?;
                    &projection.input
                }
                LogicalPlan::Filter(filter) => {
                    self.predicates.extend(split_conjunction(&filter.predicate).into_iter().cloned());
                    &filter.input
                }
                LogicalPlan::SubqueryAlias(alias) => {
                    let inner = alias.input.schema().columns();
                    let renamed = |column: &Column| {
                        inner.get(alias.schema.maybe_index_of_column(column)?).cloned().map(Expr::Column)
                    };
                    self.replace(&renamed)?;
                    &alias.input
                }
                LogicalPlan::Join(join) => self.join(join)?,
                _ => return None,
            };
        }
        Some(())
    }

    /// Puts what columns are one plan further down in their place.
    fn replace(&mut self, columns: &dyn Fn(&Column) -> Option<Expr>) -> Option<()> {
        let open = self.groups.iter_mut().filter_map(|place| match place {
            GroupSource::Open(expr) => Some(expr),
            GroupSource::Small(_) => None,
        });
        let outer = self.sides.iter_mut().map(|side| &mut side.outer);
        for expr in open.chain(&mut self.functions).chain(&mut self.predicates).chain(outer) {
            *expr = with_columns(expr, columns)?;
        }
        Some(())
    }

    /// Takes a join's small table in, with all that is its own; gives the other side.
    fn join<'b>(&mut self, join: &'b Join) -> Option<&'b LogicalPlan> {
        let is_left = self.path.is_on(&join.left);
        let (side, other) = if is_left { (&join.left, &join.right) } else { (&join.right, &join.left) };
        let may_repeat = match (join.join_type, is_left) {
            (JoinType::Inner, _) => false,
            (JoinType::LeftSemi, true) | (JoinType::RightSemi, false) => true,
            _ => return None,
        };
        let [(left, right)] = join.on.as_slice() else { return None };
        let is_equality = join.filter.is_none() && join.null_equality == NullEquality::NullEqualsNothing;
        if !is_equality || join.null_aware || !is_steady(other) || !self.is_small(other) {
            return None;
        }
        let (outer, own) = if is_left { (left, right) } else { (right, left) };
        let whose = |expr: &Expr| match may_repeat {
            // Of a semi join only one side is seen above.
            true => Some(Whose::Fact),
            false => whose(expr, side.schema(), other.schema()),
        };
        let mut taken = Side {
            outer: outer.clone(),
            own: own.clone(),
            plan: Arc::clone(other),
            attributes: Vec::new(),
            may_repeat,
        };
        for function in &self.functions {
            whose(function).filter(|whose| *whose == Whose::Fact)?;
        }
        let mut kept = Vec::with_capacity(self.predicates.len());
        for predicate in std::mem::take(&mut self.predicates) {
            match whose(&predicate)? {
                Whose::Fact => kept.push(predicate),
                Whose::Small if is_plain(&predicate) => {
                    taken.plan = Arc::new(LogicalPlan::Filter(Filter::try_new(predicate, taken.plan).ok()?));
                }
                Whose::Small => return None,
            }
        }
        self.predicates = kept;
        // What is joined to this small table is a part of it.
        let mut kept = Vec::with_capacity(self.sides.len());
        for further in std::mem::take(&mut self.sides) {
            match whose(&further.outer)? {
                Whose::Fact => kept.push(further),
                Whose::Small => taken.join(further)?,
            }
        }
        self.sides = kept;
        for (number, place) in self.groups.iter_mut().enumerate() {
            let GroupSource::Open(expr) = place else { continue };
            if whose(expr)? == Whose::Small {
                let attribute = Attribute(number);
                taken.attributes.push((attribute, expr.clone()));
                *place = GroupSource::Small(attribute);
            }
        }
        self.sides.push(taken);
        Some(side.as_ref())
    }

    /// Whether a plan reads no more than a small table, and not the fact table.
    fn is_small(&self, plan: &LogicalPlan) -> bool {
        let Some(fact) = source_of(self.path.fact) else { return false };
        let rows_max = self.path.rows.max(SMALL_ROWS);
        let mut is_small = true;
        let look = plan.apply(|plan| {
            if let LogicalPlan::TableScan(scan) = plan {
                let source = source_of(plan);
                // Filters may leave few of many rows.
                let rows_max = if scan.filters.is_empty() { rows_max.min(JOINED_ROWS_MAX as u64) } else { rows_max };
                is_small &= source.is_some_and(|source| {
                    let rows = readable(&source, self.path.context).map_or(0, rows_of);
                    source.entry.def.id != fact.entry.def.id && rows <= rows_max
                });
            }
            Ok(if is_small { TreeNodeRecursion::Continue } else { TreeNodeRecursion::Stop })
        });
        is_small && look.is_ok()
    }

    /// The node, at the fact table.
    fn asking(self, instead: LogicalPlan, accuracy: Option<Accuracy>) -> Option<LogicalPlan> {
        let mut source = source_of(self.path.fact)?;
        for predicate in &self.predicates {
            let predicate = source.resolve(predicate).filter(is_plain)?;
            source.predicates.push(predicate);
        }
        let open: Vec<Expr> = self
            .groups
            .iter()
            .filter_map(|place| match place {
                GroupSource::Open(expr) => Some(expr.clone()),
                GroupSource::Small(_) => None,
            })
            .collect();
        let mut statement = statement(&open, &self.functions, &source)?;
        let mut smalls = Vec::with_capacity(self.sides.len());
        for (number, side) in self.sides.iter().enumerate() {
            let column = key_column(&source, &source.resolve(&side.outer)?)?;
            let purpose = Purpose::Join { may_repeat: side.may_repeat };
            smalls.push(Small { column: column.clone(), purpose, plan: side.rows()? });
            if !side.attributes.is_empty() {
                // The index knows this group by its place alone, since the column may be a group by itself.
                statement.items.push(Item::Group(statement.groups.len() + grouped_before(&self.sides[..number])));
            }
        }
        let mut items = 0..;
        let mut item = || items.next().map(ColumnOf::Item);
        let columns = self.groups.iter().map(|place| match place {
            GroupSource::Open(_) => item(),
            GroupSource::Small(attribute) => self.sides.iter().enumerate().find_map(|(small, side)| {
                let place = side.attributes.iter().position(|(known, _)| known == attribute)?;
                Some(ColumnOf::Small { small, place })
            }),
        });
        let mut columns: Vec<ColumnOf> = columns.collect::<Option<_>>()?;
        columns.extend(self.functions.iter().filter_map(|_| item()));
        asking(instead, &source, statement, smalls, Some(columns), accuracy, self.path.context)
    }
}

/// Sides that rows are grouped by.
fn grouped_before(sides: &[Side]) -> usize {
    sides.iter().filter(|side| !side.attributes.is_empty()).count()
}

impl Side {
    /// Joins another small table, by what is a column of this one's.
    fn join(&mut self, further: Side) -> Option<()> {
        let join_type = if further.may_repeat { JoinType::LeftSemi } else { JoinType::Inner };
        let joined = Join::try_new(
            Arc::clone(&self.plan),
            further.plan,
            vec![(further.outer, further.own)],
            None,
            join_type,
            JoinConstraint::On,
            NullEquality::NullEqualsNothing,
            false,
        );
        self.plan = Arc::new(LogicalPlan::Join(joined.ok()?));
        self.attributes.extend(further.attributes);
        Some(())
    }

    /// Its keys, and what is grouped by.
    fn rows(&self) -> Option<LogicalPlan> {
        let is_told = |(_, expr): &(Attribute, Expr)| {
            expr.get_type(self.plan.schema()).is_ok_and(|data_type| is_told_apart(&data_type))
        };
        let values = self.attributes.iter().map(|(_, expr)| expr);
        let expressions: Vec<&Expr> = std::iter::once(&self.own).chain(values).collect();
        if !self.attributes.iter().all(is_told) || !expressions.iter().all(|expr| is_plain(expr)) {
            return None;
        }
        let named = |(place, expr): (usize, &Expr)| expr.clone().alias(format!("__small_{place}"));
        let columns = expressions.into_iter().enumerate().map(named).collect();
        Projection::try_new(columns, Arc::clone(&self.plan)).ok().map(LogicalPlan::Projection)
    }
}

/// Whether values are one group if and only if they are the same bits: floats have two zeros, and many NaN.
fn is_told_apart(data_type: &ArrowType) -> bool {
    let is_text = matches!(data_type, ArrowType::Utf8 | ArrowType::Utf8View | ArrowType::LargeUtf8);
    let is_binary = matches!(data_type, ArrowType::Binary | ArrowType::BinaryView | ArrowType::LargeBinary);
    let is_time = matches!(data_type, ArrowType::Date32 | ArrowType::Timestamp(..));
    let is_decimal = matches!(data_type, ArrowType::Decimal128(..));
    is_text || is_binary || is_time || is_decimal || data_type.is_integer() || *data_type == ArrowType::Boolean
}

/// Whose columns an expression is over; the fact table's side for one without any. `None` if it is over both sides', or that cannot
/// be told.
fn whose(expr: &Expr, fact: &DFSchema, small: &DFSchema) -> Option<Whose> {
    let mut found = None;
    for column in expr.column_refs() {
        let whose = match (exact(fact, column), exact(small, column)) {
            (Some(_), None) => Whose::Fact,
            (None, Some(_)) => Whose::Small,
            _ => return None,
        };
        if found.is_some_and(|found| found != whose) {
            return None;
        }
        found = Some(whose);
    }
    Some(found.unwrap_or(Whose::Fact))
}

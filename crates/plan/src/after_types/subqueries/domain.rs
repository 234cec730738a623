//! A query for all values of the columns from around it at once.
//!
//! Invariants:
//! - Its rows for one value of these columns, the *keys*, are those that it has where this is the row around it: each operator works
//!   within the rows of the same keys, and an aggregate without groups has one row for each of them.
//! - A plan that was keyed has its own columns and the keys, and no others.
//! - Every value that the row around it may have is among the keys, NULL too; it does no harm if there are more.
//!
//! This is Neumann's and Kemper's way (Unnesting Arbitrary Queries, BTW 2015), from the leaves: the distinct values of the columns are
//! joined to the lowest parts that read them, and carried up from there.

use super::{AROUND, Names, bounds, join_on, lateral, outer_columns, projected, single};
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, Result, not_impl_err};
use datafusion::functions_window::row_number::row_number;
use datafusion::logical_expr::expr::{AggregateFunction, Case, Exists, InSubquery};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::utils::conjunction;
use datafusion::logical_expr::{
    Aggregate, Distinct, Expr, ExprFunctionExt, ExprSchemable, FetchType, Filter, Join, JoinType, LogicalPlan,
    LogicalPlanBuilder, Operator, Projection, SkipType, Sort, SortExpr, SubqueryAlias, Union, Unnest, Values, Window,
    WindowFrame, binary_expr, lit,
};
use datafusion::scalar::ScalarValue;
use std::sync::Arc;

/// What a query reads from around it that is not the same whenever it is computed.
const NOT_REPEATED: &str = "a subquery of this kind that reads columns from rows which are not the same each time they are read (of \
     random(), LIMIT, windows) is not supported: put these rows into a table first";

/// A query with its keys under a name, and the condition under which a row is around those of its keys.
pub fn keyed(
    query: &LogicalPlan,
    around: &Arc<LogicalPlan>,
    near: Vec<Column>,
    name: &str,
    names: &mut Names,
) -> Result<(LogicalPlan, Expr)> {
    let (rows, keys) = Keying::new(around, near.clone(), names)?.plan(query)?;
    let keys: Vec<Expr> = keys.into_iter().map(Expr::Column).collect();
    let rows = LogicalPlanBuilder::from(projected(rows, keys)?).alias(name)?.build()?;
    let condition = same(&near, &rows.schema().columns());
    Ok((rows, condition))
}

/// Whether columns are the same, NULL too.
pub fn same(left: &[Column], right: &[Column]) -> Expr {
    let same = |(left, right): (&Column, &Column)| {
        let (left, right) = (Expr::Column(left.clone()), Expr::Column(right.clone()));
        binary_expr(left, Operator::IsNotDistinctFrom, right)
    };
    conjunction(left.iter().zip(right).map(same)).unwrap_or(lit(true))
}

/// A plan with its keys.
type Keyed = (LogicalPlan, Vec<Column>);

/// The carrying of keys through a plan.
pub(super) struct Keying<'a> {
    /// Rows with all values of the columns that are read.
    around: LogicalPlan,
    read: Vec<Column>,
    /// Whether each row around is by itself, and not one for all that have its values.
    is_of_rows: bool,
    names: &'a mut Names,
}

impl Keying<'_> {
    pub fn new<'a>(around: &Arc<LogicalPlan>, read: Vec<Column>, names: &'a mut Names) -> Result<Keying<'a>> {
        let around = with_more_rows(around)?;
        if !is_repeated(&around, &read)? {
            return not_impl_err!("{NOT_REPEATED}");
        }
        Ok(Keying { around, read, is_of_rows: false, names })
    }

    /// The same for each row of a plan, with all its columns. It is right for what [`lateral`] asks it of: that never looks at rows together,
    /// and takes the rows around in once.
    pub fn of_rows<'a>(around: &Arc<LogicalPlan>, names: &'a mut Names) -> Keying<'a> {
        Keying { around: around.as_ref().clone(), read: around.schema().columns(), is_of_rows: true, names }
    }

    /// The keys' values, under new names.
    fn domain(&mut self) -> Result<Keyed> {
        let keys: Vec<Column> = self.read.iter().map(|_| Column::new_unqualified(self.names.next(AROUND))).collect();
        let named = self.read.iter().zip(&keys).map(|(read, key)| Expr::Column(read.clone()).alias(&key.name));
        let domain = projected(self.around.clone(), named.collect())?;
        if self.is_of_rows {
            return Ok((domain, keys));
        }
        let domain = LogicalPlan::Distinct(Distinct::All(Arc::new(domain)));
        Ok((domain, keys))
    }

    fn is_read(&self, plan: &LogicalPlan) -> bool {
        outer_columns(plan).iter().any(|column| self.read.contains(column))
    }

    /// An expression with keys in the place of the columns from around.
    fn with_keys(&self, expr: Expr, keys: &[Column]) -> Result<Expr> {
        let replaced = expr.transform_up(|expr| match &expr {
            Expr::OuterReferenceColumn(_, column) => match self.read.iter().position(|read| read == column) {
                Some(place) => Ok(Transformed::yes(Expr::Column(keys[place].clone()))),
                None => Ok(Transformed::no(expr)),
            },
            _ => Ok(Transformed::no(expr)),
        })?;
        Ok(replaced.data)
    }

    fn all_with_keys(&self, exprs: &[Expr], keys: &[Column]) -> Result<Vec<Expr>> {
        let names = NamePreserver::new_for_projection();
        let with_keys = |expr: &Expr| {
            let name = names.save(expr);
            Ok(name.restore(self.with_keys(expr.clone(), keys)?))
        };
        exprs.iter().map(with_keys).collect()
    }

    pub fn plan(&mut self, plan: &LogicalPlan) -> Result<Keyed> {
        if let LogicalPlan::EmptyRelation(empty) = plan
            && empty.produce_one_row
            && empty.schema.fields().is_empty()
        {
            return self.domain();
        }
        if !self.is_read(plan) {
            let (domain, keys) = self.domain()?;
            return Ok((join_on(Arc::new(plan.clone()), domain, JoinType::Inner, None)?, keys));
        }
        match plan {
            LogicalPlan::Filter(filter) => {
                let (input, keys) = self.plan(&filter.input)?;
                let predicate = self.with_keys(filter.predicate.clone(), &keys)?;
                Ok((LogicalPlan::Filter(Filter::try_new(predicate, Arc::new(input))?), keys))
            }
            LogicalPlan::Projection(projection) => {
                let input = self.plan(&projection.input)?;
                self.projected(projection, input)
            }
            LogicalPlan::SubqueryAlias(alias) => {
                let input = self.plan(&alias.input)?;
                aliased(alias, input)
            }
            LogicalPlan::Distinct(Distinct::All(input)) => {
                let (input, keys) = self.plan(input)?;
                Ok((LogicalPlan::Distinct(Distinct::All(Arc::new(input))), keys))
            }
            LogicalPlan::Sort(sort) if sort.fetch.is_none() => {
                let (input, keys) = self.plan(&sort.input)?;
                let expr = self.order(sort, &keys)?;
                Ok((LogicalPlan::Sort(Sort { expr, input: Arc::new(input), fetch: None }), keys))
            }
            LogicalPlan::Limit(limit) => {
                let limit = bounds::computed(limit)?;
                let (SkipType::Literal(skip), FetchType::Literal(fetch)) =
                    (limit.get_skip_type()?, limit.get_fetch_type()?)
                else {
                    return not_impl_err!(
                        "a computed LIMIT or OFFSET of a subquery that reads columns from around it is not supported: compare \
                         row_number() OVER (PARTITION BY ...) with it"
                    );
                };
                self.limited(&limit.input, skip, fetch)
            }
            LogicalPlan::Aggregate(aggregate) => self.aggregated(aggregate),
            LogicalPlan::Window(window) => self.windowed(window),
            LogicalPlan::Union(union) => self.united(union),
            LogicalPlan::Join(join) => self.joined(join),
            LogicalPlan::Distinct(Distinct::On(_)) => not_supported("DISTINCT ON"),
            LogicalPlan::Unnest(unnest) => {
                let (input, keys) = self.plan(&unnest.input)?;
                let (lists, options) = (unnest.exec_columns.clone(), unnest.options.clone());
                Ok((LogicalPlan::Unnest(Unnest::try_new(Arc::new(input), lists, options)?), keys))
            }
            LogicalPlan::Values(values) => self.listed(values),
            LogicalPlan::Subquery(subquery) => self.plan(&subquery.subquery),
            LogicalPlan::RecursiveQuery(_) => not_supported("WITH RECURSIVE"),
            _ => not_supported("this"),
        }
    }

    fn projected(&mut self, projection: &Projection, (input, keys): Keyed) -> Result<Keyed> {
        let mut exprs = self.all_with_keys(&projection.expr, &keys)?;
        exprs.extend(keys.iter().cloned().map(Expr::Column));
        Ok((LogicalPlan::Projection(Projection::try_new(exprs, Arc::new(input))?), keys))
    }

    fn order(&self, sort: &Sort, keys: &[Column]) -> Result<Vec<SortExpr>> {
        let with_keys = |by: &SortExpr| {
            let expr = self.with_keys(by.expr.clone(), keys)?;
            Ok(SortExpr { expr, asc: by.asc, nulls_first: by.nulls_first })
        };
        sort.expr.iter().map(with_keys).collect()
    }

    /// A number of rows of each of the keys, in the order that the plan has.
    fn limited(&mut self, plan: &LogicalPlan, skip: usize, fetch: Option<usize>) -> Result<Keyed> {
        match plan {
            LogicalPlan::Projection(projection) => {
                let input = self.limited(&projection.input, skip, fetch)?;
                self.projected(projection, input)
            }
            LogicalPlan::SubqueryAlias(alias) => aliased(alias, self.limited(&alias.input, skip, fetch)?),
            LogicalPlan::Sort(sort) if sort.fetch.is_none() => {
                let (input, keys) = self.plan(&sort.input)?;
                let order = self.order(sort, &keys)?;
                self.numbered((input, keys), order, skip, fetch)
            }
            other => {
                let input = self.plan(other)?;
                self.numbered(input, Vec::new(), skip, fetch)
            }
        }
    }

    fn numbered(
        &mut self,
        (input, keys): Keyed,
        order: Vec<SortExpr>,
        skip: usize,
        fetch: Option<usize>,
    ) -> Result<Keyed> {
        let columns: Vec<Expr> = input.schema().columns().into_iter().map(Expr::Column).collect();
        let name = self.names.next("row");
        let partitions = keys.iter().cloned().map(Expr::Column).collect();
        let number =
            row_number().partition_by(partitions).order_by(order).window_frame(WindowFrame::new(None)).build()?;
        let number = number.alias(&name);
        let bound = |rows: usize| lit(ScalarValue::UInt64(Some(rows as u64)));
        let place = Expr::Column(Column::new_unqualified(name));
        let above = place.clone().gt(bound(skip));
        let within = match fetch {
            Some(fetch) => above.and(place.lt_eq(bound(skip.saturating_add(fetch)))),
            None => above,
        };
        let window = LogicalPlan::Window(Window::try_new(vec![number], Arc::new(input))?);
        let within = LogicalPlan::Filter(Filter::try_new(within, Arc::new(window))?);
        Ok((projected(within, columns)?, keys))
    }

    fn aggregated(&mut self, aggregate: &Aggregate) -> Result<Keyed> {
        let (input, keys) = self.plan(&aggregate.input)?;
        if aggregate.group_expr.iter().any(|group| matches!(group, Expr::GroupingSet(_))) {
            return not_supported("ROLLUP, CUBE or GROUPING SETS");
        }
        if !aggregate.group_expr.is_empty() {
            let mut groups = self.all_with_keys(&aggregate.group_expr, &keys)?;
            groups.extend(keys.iter().cloned().map(Expr::Column));
            let aggregates = self.all_with_keys(&aggregate.aggr_expr, &keys)?;
            return Ok((LogicalPlan::Aggregate(Aggregate::try_new(Arc::new(input), groups, aggregates)?), keys));
        }
        // Keys without rows have a total, too: they come with one row that is none of the aggregate's.
        let is_row = Column::new_unqualified(self.names.next("row"));
        let mut columns: Vec<Expr> = input.schema().columns().into_iter().map(Expr::Column).collect();
        columns.push(lit(true).alias(&is_row.name));
        let rows = projected(input, columns)?;
        let (domain, all_keys) = self.domain()?;
        let condition = same(&all_keys, &keys);
        let rows = join_on(Arc::new(domain), rows, JoinType::Left, Some(condition))?;
        let is_row = Expr::Column(is_row).is_true();
        let of_rows = |expr: Expr| {
            expr.transform_down(|expr| match expr {
                Expr::AggregateFunction(AggregateFunction { func, mut params }) => {
                    let filter = params.filter.take().map_or(is_row.clone(), |filter| is_row.clone().and(*filter));
                    params.filter = Some(Box::new(filter));
                    let function = Expr::AggregateFunction(AggregateFunction { func, params });
                    Ok(Transformed::new(function, true, TreeNodeRecursion::Jump))
                }
                other => Ok(Transformed::no(other)),
            })
        };
        let names = NamePreserver::new_for_projection();
        let aggregates = aggregate.aggr_expr.iter().map(|expr| {
            let name = names.save(expr);
            Ok(name.restore(of_rows(self.with_keys(expr.clone(), &all_keys)?)?.data))
        });
        let aggregates = aggregates.collect::<Result<_>>()?;
        let groups = all_keys.iter().cloned().map(Expr::Column).collect();
        Ok((LogicalPlan::Aggregate(Aggregate::try_new(Arc::new(rows), groups, aggregates)?), all_keys))
    }

    fn windowed(&mut self, window: &Window) -> Result<Keyed> {
        let (input, keys) = self.plan(&window.input)?;
        let names = NamePreserver::new_for_projection();
        let of_keys = |expr: &Expr| {
            let name = names.save(expr);
            let within = self.with_keys(expr.clone(), &keys)?.transform_down(|expr| match expr {
                Expr::WindowFunction(mut function) => {
                    function.params.partition_by.extend(keys.iter().cloned().map(Expr::Column));
                    Ok(Transformed::new(Expr::WindowFunction(function), true, TreeNodeRecursion::Jump))
                }
                other => Ok(Transformed::no(other)),
            })?;
            Ok(name.restore(within.data))
        };
        let exprs = window.window_expr.iter().map(of_keys).collect::<Result<_>>()?;
        Ok((LogicalPlan::Window(Window::try_new(exprs, Arc::new(input))?), keys))
    }

    /// The rows of VALUES: of each number, the values that are written there.
    fn listed(&mut self, values: &Values) -> Result<Keyed> {
        let (domain, keys) = self.domain()?;
        let number = Column::new_unqualified(self.names.next("row"));
        let place = |at: usize| lit(ScalarValue::UInt64(Some(at as u64)));
        let numbers: Vec<Vec<Expr>> = (0..values.values.len()).map(|at| vec![place(at)]).collect();
        let numbers = LogicalPlanBuilder::values(numbers)?.build()?;
        let only = numbers.schema().columns().into_iter().map(|column| Expr::Column(column).alias(&number.name));
        let only = only.collect();
        let numbers = projected(numbers, only)?;
        let rows = join_on(Arc::new(numbers), domain, JoinType::Inner, None)?;
        let mut exprs = Vec::with_capacity(values.schema.fields().len() + keys.len());
        for (column, (qualifier, field)) in values.schema.iter().enumerate() {
            let value = |(at, row): (usize, &Vec<Expr>)| {
                let value = self.with_keys(row[column].clone(), &keys)?;
                Ok((Box::new(place(at)), Box::new(value.cast_to(field.data_type(), rows.schema())?)))
            };
            let when_then_expr = values.values.iter().enumerate().map(value).collect::<Result<Vec<_>>>()?;
            let of = Some(Box::new(Expr::Column(number.clone())));
            let value = Expr::Case(Case { expr: of, when_then_expr, else_expr: None });
            exprs.push(value.alias_qualified(qualifier.cloned(), field.name()));
        }
        exprs.extend(keys.iter().cloned().map(Expr::Column));
        Ok((projected(rows, exprs)?, keys))
    }

    fn united(&mut self, union: &Union) -> Result<Keyed> {
        let columns: Vec<String> = union.schema.fields().iter().map(|_| self.names.next("column")).collect();
        let keys: Vec<Column> = self.read.iter().map(|_| Column::new_unqualified(self.names.next(AROUND))).collect();
        let key_names: Vec<&str> = keys.iter().map(|key| key.name.as_str()).collect();
        let all: Vec<&str> = columns.iter().map(String::as_str).chain(key_names).collect();
        let mut inputs = Vec::with_capacity(union.inputs.len());
        for input in &union.inputs {
            let own = input.schema().columns();
            let (plan, keys) = self.plan(input)?;
            let exprs = own.into_iter().chain(keys).zip(&all).map(|(column, &name)| Expr::Column(column).alias(name));
            inputs.push(Arc::new(projected(plan, exprs.collect())?));
        }
        let united = LogicalPlan::Union(Union::try_new(inputs)?);
        let named = union.schema.iter().zip(&columns).map(|((qualifier, field), column)| {
            Expr::Column(Column::new_unqualified(column)).alias_qualified(qualifier.cloned(), field.name())
        });
        let exprs: Vec<Expr> = named.chain(keys.iter().cloned().map(Expr::Column)).collect();
        Ok((projected(united, exprs)?, keys))
    }

    fn joined(&mut self, join: &Join) -> Result<Keyed> {
        use JoinType::{Inner, Left, LeftAnti, LeftMark, LeftSemi, Right, RightAnti, RightMark, RightSemi};
        if lateral::is_lateral(join) {
            let apart = lateral::joined(join.clone(), self.names)?;
            return self.plan(&apart);
        }
        let (is_left, is_right) = (self.is_read(&join.left), self.is_read(&join.right));
        // The side whose rows the join keeps has the keys.
        let (keys_left, keys_right) = match join.join_type {
            Inner => (is_left || !is_right, is_right),
            Left | LeftSemi | LeftAnti | LeftMark => (true, is_right),
            Right | RightSemi | RightAnti | RightMark => (is_left, true),
            JoinType::Full => return not_supported("FULL JOIN"),
        };
        let side =
            |plan: &Arc<LogicalPlan>, has_keys: bool, keying: &mut Self| -> Result<(Arc<LogicalPlan>, Vec<Column>)> {
                if !has_keys {
                    return Ok((Arc::clone(plan), Vec::new()));
                }
                let (plan, keys) = keying.plan(plan)?;
                Ok((Arc::new(plan), keys))
            };
        let (left, left_keys) = side(&join.left, keys_left, self)?;
        let (right, right_keys) = side(&join.right, keys_right, self)?;
        let is_of_left = match join.join_type {
            Inner => keys_left,
            Left | LeftSemi | LeftAnti | LeftMark => true,
            _ => false,
        };
        let keys = if is_of_left { left_keys.clone() } else { right_keys.clone() };
        let mut conditions: Vec<Expr> = Vec::new();
        if keys_left && keys_right {
            conditions.push(same(&left_keys, &right_keys));
        }
        if let Some(filter) = &join.filter {
            conditions.push(self.with_keys(filter.clone(), &keys)?);
        }
        if join.on.iter().any(|(left, right)| left.contains_outer() || right.contains_outer()) {
            return not_supported("this join");
        }
        let joined = LogicalPlan::Join(Join::try_new(
            left,
            right,
            join.on.clone(),
            conjunction(conditions),
            join.join_type,
            join.join_constraint,
            join.null_equality,
            join.null_aware,
        )?);
        let columns = join.schema.columns().into_iter().chain(keys.iter().cloned()).map(Expr::Column);
        Ok((projected(joined, columns.collect())?, keys))
    }
}

fn aliased(alias: &SubqueryAlias, (input, keys): Keyed) -> Result<Keyed> {
    let keys = keys.into_iter().map(|key| Column::new(Some(alias.alias.clone()), key.name)).collect();
    Ok((LogicalPlan::SubqueryAlias(SubqueryAlias::try_new(Arc::new(input), alias.alias.clone())?), keys))
}

fn not_supported<T>(what: &str) -> Result<T> {
    not_impl_err!(
        "{what} over rows that a condition on columns from around the subquery chooses is not supported: write it as a join"
    )
}

/// The plan without what only leaves rows out by their order.
fn with_more_rows(plan: &LogicalPlan) -> Result<LogicalPlan> {
    let plan = plan.clone().transform_down(|plan| {
        let plan = match plan {
            LogicalPlan::Limit(limit) => return Ok(Transformed::yes(limit.input.as_ref().clone())),
            LogicalPlan::Sort(sort) => return Ok(Transformed::yes(sort.input.as_ref().clone())),
            // The rows of such a list are others the next time.
            LogicalPlan::Filter(filter) if lists_anew(&filter.predicate)? => {
                return Ok(Transformed::yes(filter.input.as_ref().clone()));
            }
            other => other,
        };
        let is_passed = match &plan {
            LogicalPlan::Projection(_) | LogicalPlan::SubqueryAlias(_) | LogicalPlan::Filter(_) => true,
            LogicalPlan::Join(join) => join.join_type == JoinType::Inner,
            _ => false,
        };
        let recursion = if is_passed { TreeNodeRecursion::Continue } else { TreeNodeRecursion::Jump };
        Ok(Transformed::new(plan, false, recursion))
    })?;
    Ok(plan.data)
}

/// Whether a plan has the same values of columns whenever it is computed.
fn is_repeated(plan: &LogicalPlan, columns: &[Column]) -> Result<bool> {
    let is_float = |column: &Column| {
        plan.schema().qualified_field_from_column(column).is_ok_and(|(_, field)| field.data_type().is_floating())
    };
    let has_floats = columns.iter().any(is_float);
    let is_any = plan.exists(|plan| {
        let is_any_row = match plan {
            LogicalPlan::Limit(_) | LogicalPlan::Window(_) | LogicalPlan::Distinct(Distinct::On(_)) => true,
            LogicalPlan::Sort(sort) => sort.fetch.is_some(),
            LogicalPlan::Aggregate(aggregate) => has_floats || aggregate.aggr_expr.iter().any(is_of_any_row),
            _ => false,
        };
        let mut is_volatile = false;
        plan.apply_expressions(|expr| {
            is_volatile |=
                lists_anew(expr)? || expr.exists(|expr| Ok(expr.is_volatile_node() && !single::is_single(expr)))?;
            Ok(TreeNodeRecursion::Continue)
        })?;
        Ok(is_any_row || is_volatile)
    })?;
    Ok(!is_any)
}

/// Whether it asks for rows of a subquery that are others each time. The value of a subquery is computed once.
fn lists_anew(expr: &Expr) -> Result<bool> {
    expr.exists(|expr| match expr {
        Expr::Exists(Exists { subquery, .. }) | Expr::InSubquery(InSubquery { subquery, .. }) => {
            Ok(!is_repeated(&subquery.subquery, &[])?)
        }
        _ => Ok(false),
    })
}

/// Whether it is an aggregate that depends on the order of rows.
fn is_of_any_row(expr: &Expr) -> bool {
    const OF_ANY_ROW: [&str; 7] =
        ["any_value", "first_value", "last_value", "nth_value", "array_agg", "string_agg", "approx_distinct"];
    expr.exists(|expr| {
        Ok(matches!(expr, Expr::AggregateFunction(function) if OF_ANY_ROW.contains(&function.func.name())))
    })
    .is_ok_and(|is_of_any_row| is_of_any_row)
}

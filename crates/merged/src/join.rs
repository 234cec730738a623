//! One join that merges columns.

use alluvia_syntax::trees::merged_columns::{HIDDEN, Merging};
use alluvia_types::{Error, ErrorKind};
use alluvia_values::errors::{not_supported, wrap};
use arrow::datatypes::DataType;
use datafusion::common::{Column, DFSchema, DataFusionError, JoinType, TableReference};
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::planner::RelationPlannerContext;
use datafusion::logical_expr::type_coercion::binary::comparison_coercion;
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder, cast, lit};
use datafusion::sql::sqlparser::ast::{self, BinaryOperator, Ident, JoinConstraint};
use std::collections::HashSet;

type Result<T> = std::result::Result<T, DataFusionError>;

/// A column of both sides that becomes one.
struct Merged {
    left: Column,
    right: Column,
    left_type: DataType,
    right_type: DataType,
}

/// The join of two sides, with the merged columns first, then the others; those that the merged ones stand for are hidden. `relation` gives
/// a table for merged columns that are of neither side.
pub(super) fn merged(
    left: LogicalPlan,
    right: LogicalPlan,
    merging: Merging,
    constraint: &JoinConstraint,
    relation: impl FnOnce() -> TableReference,
    context: &mut dyn RelationPlannerContext,
) -> Result<LogicalPlan> {
    let names = names_of(constraint, left.schema(), right.schema(), context)?;
    let merged: Vec<Merged> = names
        .iter()
        .map(|name| {
            let (left, left_type) = side_of(name, left.schema(), "left")?;
            let (right, right_type) = side_of(name, right.schema(), "right")?;
            Ok(Merged { left, right, left_type, right_type })
        })
        .collect::<Result<_>>()?;
    let both = left.schema().join(right.schema())?;
    let on = merged.iter().map(|column| {
        let equal = ast::Expr::BinaryOp {
            left: Box::new(said(&column.left)),
            op: BinaryOperator::Eq,
            right: Box::new(said(&column.right)),
        };
        context.sql_to_expr(equal, &both)
    });
    let mut on = on.collect::<Result<Vec<Expr>>>()?;
    let join_type = match merging {
        Merging::Inner => JoinType::Inner,
        Merging::Left => JoinType::Left,
        Merging::Right => JoinType::Right,
        Merging::Full => JoinType::Full,
    };
    let builder = LogicalPlanBuilder::from(left.clone());
    if on.is_empty() {
        if merging == Merging::Inner {
            return builder.cross_join(right)?.build();
        }
        on.push(lit(true));
    }
    let joined = builder.join_on(right.clone(), join_type, on)?.build()?;
    if merged.is_empty() {
        return Ok(joined);
    }
    let mut relation = Some(relation);
    let mut of_neither: Option<TableReference> = None;
    let mut exprs = Vec::with_capacity(both.fields().len() + merged.len());
    let mut stays: HashSet<&Column> = HashSet::new();
    for column in &merged {
        let common = common_type(column)?;
        let (is_left, is_right) = (column.left_type == common, column.right_type == common);
        let side = |column: &Column, is_common: bool| match is_common {
            true => Expr::Column(column.clone()),
            false => cast(Expr::Column(column.clone()), common.clone()),
        };
        let (left, right) = (side(&column.left, is_left), side(&column.right, is_right));
        let (kept, computed) = match merging {
            Merging::Inner if is_left => (Some(&column.left), left),
            Merging::Inner if is_right => (Some(&column.right), right),
            Merging::Inner | Merging::Left => (is_left.then_some(&column.left), left),
            Merging::Right => (is_right.then_some(&column.right), right),
            Merging::Full => (None, coalesce(left, right, context)?),
        };
        match kept {
            Some(kept) => {
                stays.insert(kept);
                exprs.push(computed);
            }
            None => {
                let relation = of_neither.get_or_insert_with(|| match relation.take() {
                    Some(relation) => relation(),
                    None => TableReference::bare(HIDDEN.to_string()),
                });
                exprs.push(computed.alias_qualified(Some(relation.clone()), &column.left.name));
            }
        }
    }
    for (relation, field) in joined.schema().iter() {
        let column = Column::from((relation, field));
        if stays.contains(&column) {
            continue;
        }
        let is_merged = merged.iter().any(|merged| merged.left == column || merged.right == column);
        if !is_merged {
            exprs.push(Expr::Column(column));
            continue;
        }
        // What has no table that can be said is gone.
        if let Some(relation) = column.relation.clone().filter(|relation| !relation.table().starts_with(HIDDEN)) {
            let name = format!("{}{HIDDEN}", column.name);
            exprs.push(Expr::Column(column).alias_qualified(Some(relation), name));
        }
    }
    LogicalPlanBuilder::from(joined).project(exprs)?.build()
}

/// The names of the columns that are merged.
fn names_of(
    constraint: &JoinConstraint,
    left: &DFSchema,
    right: &DFSchema,
    context: &mut dyn RelationPlannerContext,
) -> Result<Vec<String>> {
    let JoinConstraint::Using(said) = constraint else {
        let mut names = Vec::new();
        for (_, field) in left.iter() {
            let name = field.name();
            if !name.ends_with(HIDDEN) && right.has_column_with_unqualified_name(name) && !names.contains(name) {
                names.push(name.clone());
            }
        }
        return Ok(names);
    };
    let mut names = Vec::with_capacity(said.len());
    for name in said {
        let ident = match name.0.as_slice() {
            [part] => part.as_ident(),
            _ => None,
        };
        let ident = ident.ok_or_else(|| wrap(not_supported(format!("{name}, a name with a table's, in USING"))))?;
        let name = context.normalize_ident(ident.clone());
        if names.contains(&name) {
            let message = format!("column name \"{name}\" appears more than once in USING clause");
            return Err(wrap(Error::new(ErrorKind::DuplicateColumn, message)));
        }
        names.push(name);
    }
    Ok(names)
}

/// The column of a name on one side, and its type.
fn side_of(name: &str, schema: &DFSchema, side: &str) -> Result<(Column, DataType)> {
    match schema.qualified_fields_with_unqualified_name(name).as_slice() {
        [(relation, field)] => Ok((Column::from((*relation, *field)), field.data_type().clone())),
        [] => {
            let message = format!("column \"{name}\" specified in USING clause does not exist in {side} table");
            Err(wrap(Error::new(ErrorKind::UndefinedColumn, message)))
        }
        _ => {
            let message = format!("common column name \"{name}\" appears more than once in {side} table");
            Err(wrap(
                Error::new(ErrorKind::AmbiguousColumn, message).with_hint("join ON the columns of the tables you mean"),
            ))
        }
    }
}

fn common_type(column: &Merged) -> Result<DataType> {
    let Merged { left_type, right_type, left, .. } = column;
    if left_type == right_type {
        return Ok(left_type.clone());
    }
    // A date is the moment at which it begins, as where an operator compares them.
    if let (DataType::Date32, moment @ DataType::Timestamp(..)) | (moment @ DataType::Timestamp(..), DataType::Date32) =
        (left_type, right_type)
    {
        return Ok(moment.clone());
    }
    comparison_coercion(left_type, right_type).ok_or_else(|| {
        let message = format!("JOIN/USING types of column \"{}\" cannot be matched", left.name);
        wrap(Error::new(ErrorKind::DatatypeMismatch, message).with_hint("join ON with a cast"))
    })
}

fn coalesce(left: Expr, right: Expr, context: &mut dyn RelationPlannerContext) -> Result<Expr> {
    let function = context.context_provider().get_function_meta("coalesce");
    let function = function.ok_or_else(|| DataFusionError::Internal("there is no coalesce".to_owned()))?;
    Ok(Expr::ScalarFunction(ScalarFunction::new_udf(function, vec![left, right])))
}

fn said(column: &Column) -> ast::Expr {
    let quoted = |name: &String| Ident::with_quote('"', name);
    let name = quoted(&column.name);
    match &column.relation {
        Some(relation) => ast::Expr::CompoundIdentifier(relation.to_vec().iter().map(quoted).chain([name]).collect()),
        None => ast::Expr::Identifier(name),
    }
}

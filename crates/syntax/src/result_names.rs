//! What the columns of an answer are called, as PostgreSQL calls them (`FigureColname` in its `parse_target.c`): a call after its
//! function, a cast after what is cast or after the type, whatever has no name `?column?`.
//!
//! Invariants:
//! - Names are those of the statement as it was written: they are figured before any pass writes an expression out.
//! - They are for whoever is shown an answer. Within a query, planning's names stay: a derived table's `count(*)` is not `count`.

use crate::copy::statement::{CopyStatement, CopyWhat};
use crate::names::name_of;
use crate::statement::{Insert, Kind};
use crate::trees::display_names::MARK;
use sqlparser::ast::{
    AccessExpr, ArrayElemTypeDef, DataType, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments,
    ObjectName, ObjectNamePart, Query, SelectItem, SetExpr, TimezoneInfo, TrimWhereField,
};
use std::sync::Arc;

/// What has no name.
const NAMELESS: &str = "?column?";

/// The names of an answer's columns; `None` where the plan's name is the one to show.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResultNames {
    /// Those before the first `*`, or all.
    first: Vec<Option<Arc<str>>>,
    /// Those behind the last `*`, if there is one. How many columns are between is not known before planning.
    last: Option<Vec<Option<Arc<str>>>>,
}

impl ResultNames {
    /// The names of a query's columns; `None` where planning's names are all right.
    pub fn of(query: &Query) -> Option<ResultNames> {
        let items = items_of(&query.body)?;
        let is_all = |item: &SelectItem| matches!(item, SelectItem::Wildcard(_) | SelectItem::QualifiedWildcard(..));
        let names = |items: &[SelectItem]| items.iter().map(|item| name_of_item(item).map(Arc::from)).collect();
        let (first, last) = match (items.iter().position(is_all), items.iter().rposition(is_all)) {
            (Some(from), Some(to)) => (names(&items[..from]), Some(names(&items[to + 1..]))),
            _ => (names(items), None),
        };
        let names = ResultNames { first, last };
        names.first.iter().chain(names.last.iter().flatten()).any(Option::is_some).then_some(names)
    }

    /// Of what a statement answers or stores; a view has its own.
    pub(crate) fn of_kind(kind: &Kind) -> Option<ResultNames> {
        match kind {
            Kind::Query(query) => ResultNames::of(query),
            Kind::Locking(locking) => ResultNames::of(&locking.query),
            Kind::Declare(declare) => ResultNames::of(&declare.query),
            Kind::CreateTable(create) => create.query.as_deref().and_then(ResultNames::of),
            Kind::Copy(copy) => match copy.as_ref() {
                CopyStatement::To { what: CopyWhat::Query(query), .. } => ResultNames::of(query),
                _ => None,
            },
            Kind::Insert(Insert { returning, .. }) => returning.as_deref().and_then(ResultNames::of),
            Kind::Update(update) => update.returning.as_deref().and_then(ResultNames::of),
            Kind::Delete(delete) => delete.returning.as_deref().and_then(ResultNames::of),
            Kind::Merge(merge) => merge.returning.as_deref().and_then(ResultNames::of),
            _ => None,
        }
    }

    /// The name of the column at this place of so many; `None` where planning's name is the one to show.
    pub fn at(&self, place: usize, width: usize) -> Option<&str> {
        let name = match &self.last {
            // Something else than what was written is shown.
            None if width != self.first.len() => None,
            Some(last) if width < self.first.len() + last.len() => None,
            None => self.first.get(place),
            Some(_) if place < self.first.len() => self.first.get(place),
            Some(last) => (place + last.len()).checked_sub(width).and_then(|place| last.get(place)),
        };
        name?.as_deref()
    }
}

/// The items of the SELECT that names the columns; `None` of rows that are written out.
fn items_of(body: &SetExpr) -> Option<&[SelectItem]> {
    match body {
        SetExpr::Select(select) => Some(&select.projection),
        SetExpr::Query(query) => items_of(&query.body),
        SetExpr::SetOperation { left, .. } => items_of(left),
        _ => None,
    }
}

/// The name of an item that was written without one, and is no plain column.
fn name_of_item(item: &SelectItem) -> Option<String> {
    let expr = match item {
        SelectItem::UnnamedExpr(Expr::Identifier(_) | Expr::CompoundIdentifier(_)) => return None,
        SelectItem::UnnamedExpr(expr) => expr,
        SelectItem::ExprWithAlias { expr, alias } if alias.value.contains(MARK) => as_written(expr),
        _ => return None,
    };
    Some(figure(expr).map_or_else(|| NAMELESS.to_owned(), |(name, _)| name))
}

/// What a cast in a key of GROUP BY was before it was put into a call ([`crate::trees::cast_keys`]).
fn as_written(expr: &Expr) -> &Expr {
    match expr {
        Expr::Function(Function { name, args: FunctionArguments::List(list), .. })
            if last_of(name).as_deref() == Some("coalesce") =>
        {
            match list.args.as_slice() {
                [FunctionArg::Unnamed(FunctionArgExpr::Expr(cast))] => cast,
                _ => expr,
            }
        }
        _ => expr,
    }
}

/// How much a name says: a type's name or CASE gives way to the name of what is inside.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Strength {
    Weak,
    Strong,
}

/// The name of an expression, if it has one.
fn figure(expr: &Expr) -> Option<(String, Strength)> {
    use Strength::{Strong, Weak};
    let strong = |name: &str| Some((name.to_owned(), Strong));
    match expr {
        Expr::Identifier(ident) => Some((name_of(ident), Strong)),
        Expr::CompoundIdentifier(parts) => parts.last().map(|part| (name_of(part), Strong)),
        Expr::Nested(inner) | Expr::Collate { expr: inner, .. } => figure(inner),
        Expr::CompoundFieldAccess { root, access_chain } => {
            let field = access_chain.iter().rev().find_map(|access| match access {
                AccessExpr::Dot(field) => figure(field),
                AccessExpr::Subscript(_) => None,
            });
            field.or_else(|| figure(root))
        }
        Expr::Cast { expr, data_type, .. } => match figure(expr) {
            Some((name, Strong)) => Some((name, Strong)),
            weak => name_of_type(data_type).map(|name| (name, Weak)).or(weak),
        },
        Expr::TypedString(typed) => name_of_type(&typed.data_type).map(|name| (name, Weak)),
        Expr::Interval(_) => Some(("interval".to_owned(), Weak)),
        Expr::Case { else_result, .. } => match else_result.as_deref().and_then(figure) {
            Some((name, Strong)) => Some((name, Strong)),
            _ => Some(("case".to_owned(), Weak)),
        },
        Expr::Function(function) => last_of(&function.name).map(|name| (name, Strong)),
        Expr::Exists { negated: false, .. } => strong("exists"),
        Expr::Subquery(query) => match items_of(&query.body)?.first()? {
            SelectItem::ExprWithAlias { alias, .. } if !alias.value.contains(MARK) => Some((name_of(alias), Strong)),
            SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } => {
                figure(expr).map(|(name, _)| (name, Strong))
            }
            _ => None,
        },
        Expr::Array(_) => strong("array"),
        Expr::Tuple(_) => strong("row"),
        Expr::Extract { .. } => strong("extract"),
        Expr::Ceil { .. } => strong("ceil"),
        Expr::Floor { .. } => strong("floor"),
        Expr::Position { .. } => strong("position"),
        Expr::Overlay { .. } => strong("overlay"),
        Expr::AtTimeZone { .. } => strong("timezone"),
        Expr::Substring { shorthand: true, .. } => strong("substr"),
        Expr::Substring { .. } => strong("substring"),
        Expr::Trim { trim_where: Some(TrimWhereField::Leading), .. } => strong("ltrim"),
        Expr::Trim { trim_where: Some(TrimWhereField::Trailing), .. } => strong("rtrim"),
        Expr::Trim { .. } => strong("btrim"),
        _ => None,
    }
}

/// The last part of a function's name.
fn last_of(name: &ObjectName) -> Option<String> {
    match name.0.last()? {
        ObjectNamePart::Identifier(ident) => Some(name_of(ident)),
        ObjectNamePart::Function(function) => Some(name_of(&function.name)),
    }
}

/// What PostgreSQL's catalog calls a type.
fn name_of_type(data_type: &DataType) -> Option<String> {
    Some(match data_type {
        DataType::SmallInt(_) | DataType::Int2(_) => "int2".to_owned(),
        DataType::Int(_) | DataType::Integer(_) | DataType::Int4(_) => "int4".to_owned(),
        DataType::BigInt(_) | DataType::Int8(_) => "int8".to_owned(),
        DataType::Real | DataType::Float4 => "float4".to_owned(),
        DataType::Float(_) | DataType::Float8 | DataType::Double(_) | DataType::DoublePrecision => "float8".to_owned(),
        DataType::Numeric(_) | DataType::Decimal(_) | DataType::Dec(_) => "numeric".to_owned(),
        DataType::Boolean | DataType::Bool => "bool".to_owned(),
        DataType::Varchar(_) | DataType::CharacterVarying(_) | DataType::CharVarying(_) => "varchar".to_owned(),
        DataType::Char(_) | DataType::Character(_) => "bpchar".to_owned(),
        DataType::Time(_, TimezoneInfo::WithTimeZone | TimezoneInfo::Tz) => "timetz".to_owned(),
        DataType::Time(..) => "time".to_owned(),
        DataType::Timestamp(_, TimezoneInfo::WithTimeZone | TimezoneInfo::Tz) => "timestamptz".to_owned(),
        DataType::Timestamp(..) => "timestamp".to_owned(),
        DataType::Interval { .. } => "interval".to_owned(),
        DataType::Array(of) => return of_list(of),
        DataType::Custom(name, _) => return last_of(name),
        other => other.to_string().split(['(', ' ']).next().unwrap_or_default().to_ascii_lowercase(),
    })
}

/// A list's type goes by what is in it.
fn of_list(list: &ArrayElemTypeDef) -> Option<String> {
    match list {
        ArrayElemTypeDef::AngleBracket(of)
        | ArrayElemTypeDef::SquareBracket(of, _)
        | ArrayElemTypeDef::Parenthesis(of) => name_of_type(of),
        ArrayElemTypeDef::None => None,
    }
}

#[cfg(test)]
mod tests {
    use crate::script::parse;

    /// What PostgreSQL 15 calls the columns of `SELECT items FROM t` (of plain ones planning's name is shown).
    fn shown(sql: &str, width: usize) -> Vec<String> {
        let statement = parse(sql).unwrap().remove(0);
        let name = |place| match &statement.names {
            Some(names) => names.at(place, width).unwrap_or("-").to_owned(),
            None => "-".to_owned(),
        };
        (0..width).map(name).collect()
    }

    #[test]
    fn columns_are_called_as_postgresql_calls_them() {
        for (items, wanted) in [
            ("a, t.b, (a), a + 1, -a, a::text, t.a::bigint, b::varchar(3)", "- - a ?column? ?column? a a b"),
            (
                "1, 'x', NULL, true, 1::int, '1'::integer, 5::numeric(10, 2)",
                "?column? ?column? ?column? ?column? int4 int4 numeric",
            ),
            (
                "date '2020-01-01', timestamptz '2020-01-01', interval '1 day', 1.5",
                "date timestamptz interval ?column?",
            ),
            (
                "1::float8, 1::real, 1::smallint, '1'::char(3), 'a'::varchar, '{1}'::int[]",
                "float8 float4 int2 bpchar varchar int4",
            ),
            (
                "sum(a), count(*), count(DISTINCT a), max(a) + 1, coalesce(sum(a), 0)",
                "sum count count ?column? coalesce",
            ),
            (
                "nullif(max(a), 1), greatest(1, 2), upper(max(b)), sum(a)::text, (sum(a))::int",
                "nullif greatest upper sum sum",
            ),
            ("sum(a) FILTER (WHERE a > 1), percentile_cont(0.5) WITHIN GROUP (ORDER BY a)", "sum percentile_cont"),
            ("min(a) IS NULL, bool_and(a = 1), count(*) OVER ()", "?column? bool_and count"),
            ("CASE WHEN a = 1 THEN 2 END, CASE WHEN a = 1 THEN 2 ELSE a END", "case a"),
            ("CASE a WHEN 1 THEN 'x' ELSE b END, CASE WHEN a = 1 THEN a ELSE 1 END::text", "b text"),
            ("(SELECT 1), (SELECT max(a) FROM t), (SELECT a AS x FROM t), EXISTS (SELECT 1)", "?column? max x exists"),
            (
                "NOT EXISTS (SELECT 1), 1 IN (SELECT 1), a = ANY (l), ARRAY[1, 2], l[1], l[1]::text",
                "?column? ?column? ?column? array l l",
            ),
            ("current_date, now(), extract(year FROM at), at AT TIME ZONE 'UTC'", "current_date now extract timezone"),
            (
                "substring(b FROM 1 FOR 2), position('a' IN b), trim(b), trim(LEADING 'x' FROM b)",
                "substring position btrim ltrim",
            ),
            (
                "b LIKE 'x', b || 'y', NOT (a = 1), a BETWEEN 1 AND 2, a IN (1, 2)",
                "?column? ?column? ?column? ?column? ?column?",
            ),
            ("ceil(n), char_length(b), CAST(a AS TEXT), CAST(a AS DOUBLE PRECISION)", "ceil char_length a a"),
            (
                "j -> 'a', (j -> 'a')::text, at::date, mod(a, 2), pg_catalog.upper('a'), grouping(a)",
                "?column? text at mod upper grouping",
            ),
            (
                "rank() OVER (ORDER BY a), lag(a) OVER (ORDER BY a), a::int::text, to_char(at, 'YYYY')",
                "rank lag a to_char",
            ),
            ("sum(a), sum(b), a::int, a::int", "sum sum a a"),
            ("a, a::date, max(a), max(a::int) FROM t GROUP BY a, a::date --", "- a max max"),
            ("upper(b), *, lower(b)", "upper - - lower"),
        ] {
            let wanted: Vec<&str> = wanted.split(' ').collect();
            assert_eq!(shown(&format!("SELECT {items} FROM t"), wanted.len()), wanted, "{items}");
        }
    }

    #[test]
    fn the_first_query_names_the_columns_of_all() {
        for (sql, wanted) in [
            ("SELECT count(*) UNION ALL SELECT 1", "count"),
            ("(SELECT max(a) FROM t) LIMIT 1", "max"),
            ("VALUES (1)", "-"),
            ("SELECT a FROM t", "-"),
            ("SELECT count(*) AS n FROM t", "-"),
            ("INSERT INTO t SELECT 1 RETURNING a + 1", "?column?"),
            ("DECLARE c CURSOR FOR SELECT count(*) FROM t", "count"),
            ("CREATE TABLE u AS SELECT count(*) FROM t", "count"),
        ] {
            assert_eq!(shown(sql, 1), [wanted], "{sql}");
        }
    }
}

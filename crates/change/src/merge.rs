//! MERGE: the query that finds which clause applies to each row, and what it makes of the row.
//!
//! Invariants:
//! - The first column is the number of the clause that applies, counted from 1: the first in the statement that is for
//!   such rows, and whose condition is true. Rows to which none applies, or one that does nothing, are not given.
//! - A value is computed where its clause applies, and nowhere else: elsewhere it might be an error.
//! - Each value is a column of its own, and so is assigned to its column by itself.

use crate::beside::{Beside, returning_beside_query};
use crate::defaults::{default_expr, is_always_numbered, refuse_set};
use crate::queries::{binary, expr_of, gone_columns, of, places_of, read_given, select_of};
use crate::{ACTIONS, Gone, SOURCE, has_digits, identity_names};
use alluvia_space::TableDef;
use alluvia_syntax::keep_columns;
use alluvia_syntax::names::name_of;
use alluvia_syntax::statements::changes::number as digits;
use alluvia_syntax::statements::merge::{ACTION, Merge, MergeAction, MergeClause, MergeRows, MergeValues};
use alluvia_syntax::trees::value_rows::query_of_row;
use alluvia_types::{Error, ErrorKind, Result};
use sqlparser::ast::helpers::attached_token::AttachedToken;
use sqlparser::ast::{
    BinaryOperator, CaseWhen, Expr, Ident, ObjectName, Query, Select, SelectItem, SelectItemQualifiedWildcardKind,
    TableAlias, TableFactor, TableWithJoins, Value, WildcardAdditionalOptions,
};

/// The query of a MERGE, whose columns are: the number of the clause; what tells the rows that go; where they are asked
/// for, the table's columns; the values of the clauses; and where RETURNING may ask for them, those of the source.
#[derive(Clone, Debug)]
pub struct MergeQuery {
    /// The query.
    pub query: Box<Query>,
    /// What tells the rows that go: the columns behind the first.
    pub gone: Gone,
    /// How many these are.
    pub known: usize,
    /// The first of the table's columns, if there are these.
    pub whole: Option<usize>,
    /// The first of the source's columns, behind which is nothing but a last column that is not the source's.
    pub source: Option<usize>,
    /// What the clauses do, but for those that do nothing.
    pub changes: Vec<MergeChange>,
}

/// What a clause does.
#[derive(Clone, Debug)]
pub struct MergeChange {
    /// Its number.
    pub number: i64,
    /// What it is called: INSERT, UPDATE or DELETE.
    pub name: &'static str,
    /// What becomes of its rows.
    pub write: MergeWrite,
}

/// What becomes of the rows that a clause applies to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum MergeWrite {
    /// They go.
    Delete,
    /// They become others.
    Update {
        /// For each of the table's columns where its value is.
        places: Vec<usize>,
        /// Whether they may get other keys, so that the old ones must go.
        moves: bool,
    },
    /// Rows come.
    Insert {
        /// For each of the table's columns where its value is.
        places: Vec<usize>,
    },
}

/// The query of a MERGE.
pub fn merge_query(def: &TableDef, merge: &Merge) -> Result<MergeQuery> {
    let mut query = merge.query.clone();
    let targets = targets(def, merge)?;
    let has_digits_at = |at: usize| {
        let target = targets.iter().find_map(|(first, places)| at.checked_sub(*first).and_then(|at| places.get(at)));
        target.is_some_and(|&column| has_digits(def.columns[column].data_type))
    };
    keep_columns(&mut query, &has_digits_at);
    let select = select_of(&mut query)?;
    let given = select.projection.iter().map(|item| expr_of(item).cloned()).collect::<Result<Vec<_>>>()?;
    let alias = &merge.alias;
    let gone = if def.key.is_some() { Gone::Keys } else { Gone::Identities };
    let marker = marker_of(merge);
    let number = number_of(def, merge, &given, &marker)?;
    let returns = merge.returning.is_some();
    let mut columns = vec![number.clone()];
    columns.extend(gone_columns(def, alias, gone));
    let known = columns.len() - 1;
    let updates = merge.clauses.iter().any(|clause| matches!(clause.action, MergeAction::Update(_)));
    let whole = (updates || returns).then_some(columns.len());
    if whole.is_some() {
        columns.extend(def.columns.iter().map(|column| of(alias, &column.name)));
    }
    let mut changes = Vec::new();
    for ((at, clause), (first, targets)) in merge.clauses.iter().enumerate().zip(&targets) {
        let clause_number = number_at(at)?;
        let mut value_of = |column: usize, values: &MergeValues| {
            let at = targets.iter().position(|&target| target == column);
            let value = match at {
                None => default_expr(def, column)?,
                Some(at) if values.defaults.contains(&at) => default_expr(def, column)?,
                Some(at) => given.get(first + at).cloned().ok_or_else(|| Error::internal("a value is missing"))?,
            };
            columns.push(where_it_applies(&number, clause_number, value));
            Ok::<usize, Error>(columns.len() - 1)
        };
        let write = match &clause.action {
            MergeAction::Nothing => continue,
            MergeAction::Delete => MergeWrite::Delete,
            MergeAction::Update(values) => {
                let whole = whole.ok_or_else(|| Error::internal("rows that are updated are not read"))?;
                let place = |column| match targets.contains(&column) {
                    true => value_of(column, values),
                    false => Ok(whole + column),
                };
                let places = (0..def.columns.len()).map(place).collect::<Result<_>>()?;
                let key = def.key_columns().unwrap_or_default();
                MergeWrite::Update { places, moves: key.iter().any(|column| targets.contains(column)) }
            }
            MergeAction::Insert(values) => {
                let places = (0..def.columns.len()).map(|column| value_of(column, values)).collect::<Result<_>>()?;
                MergeWrite::Insert { places }
            }
        };
        changes.push(MergeChange { number: clause_number, name: clause.action.name(), write });
    }
    let source = returns.then_some(columns.len());
    let named = columns.into_iter().enumerate();
    // Names that no source has: one that is given whole stands beside them.
    select.projection = named
        .map(|(at, expr)| SelectItem::ExprWithAlias {
            expr,
            alias: Ident::with_quote('"', format!("merge column {}", at + 1)),
        })
        .collect();
    if returns {
        let name = SelectItemQualifiedWildcardKind::ObjectName(ObjectName::from(vec![merge.source.clone()]));
        select.projection.push(SelectItem::QualifiedWildcard(name, WildcardAdditionalOptions::default()));
    }
    read_given(select, 0, crate::TARGET)?;
    mark_source(select, &merge.source, &marker)?;
    Ok(MergeQuery { query: that_apply(query)?, gone, known, whole, source, changes })
}

/// For each clause the first of its values, and the columns of the table that they are for.
fn targets(def: &TableDef, merge: &Merge) -> Result<Vec<(usize, Vec<usize>)>> {
    let of_clause = |clause: &MergeClause| match &clause.action {
        MergeAction::Nothing | MergeAction::Delete => Ok((0, Vec::new())),
        MergeAction::Update(values) | MergeAction::Insert(values) => {
            let places = match &values.columns {
                Some(columns) => places_of(def, columns)?,
                None if values.count > def.columns.len() => {
                    let message = format!(
                        "{} values are inserted into the {} columns of table {}",
                        values.count,
                        def.columns.len(),
                        def.name
                    );
                    return Err(Error::new(ErrorKind::Syntax, message));
                }
                None => (0..values.count).collect(),
            };
            let given = places.iter().enumerate().filter(|(at, _)| !values.defaults.contains(at));
            for (_, &column) in given {
                match clause.action {
                    MergeAction::Insert(_) => refuse_given(def, column)?,
                    _ => refuse_set(def, column)?,
                }
            }
            Ok((values.first, places))
        }
    };
    merge.clauses.iter().map(of_clause).collect()
}

/// Refuses a value for a column that is always numbered.
fn refuse_given(def: &TableDef, column: usize) -> Result<()> {
    if !is_always_numbered(def, column) {
        return Ok(());
    }
    let message = format!(
        "cannot insert a non-DEFAULT value into column \"{}\": it is an identity column defined as GENERATED ALWAYS",
        def.columns[column].name
    );
    Err(Error::new(ErrorKind::GeneratedAlways, message).with_hint("leave the column out, or give it DEFAULT"))
}

/// What each row of the source has in a column of this name.
fn marker_of(merge: &Merge) -> Ident {
    Ident::with_quote('"', format!("row of {}", name_of(&merge.source)))
}

/// Has the source give a column that is NULL only where there is no row of it.
fn mark_source(select: &mut Select, source: &Ident, marker: &Ident) -> Result<()> {
    let join = select.from.first_mut().and_then(|table| table.joins.first_mut());
    let join = join.ok_or_else(|| Error::internal("a MERGE joins no source"))?;
    let mut marked = query_of_row(Vec::new())?;
    let of_source = select_of(&mut marked)?;
    of_source.projection = vec![
        SelectItem::Wildcard(WildcardAdditionalOptions::default()),
        SelectItem::ExprWithAlias { expr: Expr::Value(Value::Boolean(true).into()), alias: marker.clone() },
    ];
    let alias = TableAlias { explicit: true, name: source.clone(), columns: Vec::new(), at: None };
    let derived = TableFactor::Derived { lateral: false, subquery: marked, alias: Some(alias), sample: None };
    let relation = std::mem::replace(&mut join.relation, derived);
    if let TableFactor::Derived { subquery, .. } = &mut join.relation {
        select_of(subquery)?.from = vec![TableWithJoins { relation, joins: Vec::new() }];
    }
    Ok(())
}

/// The number of the clause that applies, or NULL.
fn number_of(def: &TableDef, merge: &Merge, given: &[Expr], marker: &Ident) -> Result<Expr> {
    use MergeRows::{Matched, NotMatchedBySource, NotMatchedByTarget};
    let first = match def.key_columns() {
        Some(key) => key.first().map(|&at| def.columns[at].name.clone()),
        None => identity_names(def).into_iter().next(),
    };
    let first = first.ok_or_else(|| Error::internal("a key has no columns"))?;
    let target = || Box::new(of(&merge.alias, &first));
    let source = || Box::new(Expr::CompoundIdentifier(vec![merge.source.clone(), marker.clone()]));
    let has = |rows| merge.clauses.iter().any(|clause| clause.rows == rows);
    let mut numbers = Vec::new();
    for rows in [Matched, NotMatchedByTarget, NotMatchedBySource] {
        let Some(number) = number_among(merge, rows, given)? else { continue };
        let is_such = match rows {
            NotMatchedByTarget => Some(Expr::IsNull(target())),
            NotMatchedBySource => Some(Expr::IsNull(source())),
            Matched => match (has(NotMatchedByTarget), has(NotMatchedBySource)) {
                (false, false) => None,
                (true, false) => Some(Expr::IsNotNull(target())),
                (false, true) => Some(Expr::IsNotNull(source())),
                (true, true) => Some(binary(Expr::IsNotNull(target()), BinaryOperator::And, Expr::IsNotNull(source()))),
            },
        };
        numbers.push((is_such, number));
    }
    Ok(first_of(numbers))
}

/// The number of the clause that applies among those for such rows.
fn number_among(merge: &Merge, rows: MergeRows, given: &[Expr]) -> Result<Option<Expr>> {
    let mut numbers = Vec::new();
    for (at, clause) in merge.clauses.iter().enumerate().filter(|(_, clause)| clause.rows == rows) {
        let number = match clause.action {
            MergeAction::Nothing => Expr::Value(Value::Null.into()),
            _ => number(number_at(at)?),
        };
        let condition = match clause.condition {
            None => None,
            Some(at) => Some(given.get(at).cloned().ok_or_else(|| Error::internal("a condition is missing"))?),
        };
        numbers.push((condition, number));
    }
    Ok((!numbers.is_empty()).then(|| first_of(numbers)))
}

/// The result of the first of these conditions that is true; one that is left out is.
fn first_of(cases: Vec<(Option<Expr>, Expr)>) -> Expr {
    let mut conditions = Vec::new();
    let mut otherwise = None;
    for (condition, result) in cases {
        match condition {
            Some(condition) => conditions.push(CaseWhen { condition, result }),
            None => {
                otherwise = Some(result);
                break;
            }
        }
    }
    match otherwise {
        Some(result) if conditions.is_empty() => result,
        otherwise => Expr::Case {
            case_token: AttachedToken::empty(),
            end_token: AttachedToken::empty(),
            operand: None,
            conditions,
            else_result: otherwise.map(Box::new),
        },
    }
}

/// A value, or NULL where another clause applies. What cannot fail is given everywhere.
fn where_it_applies(applies: &Expr, clause: i64, value: Expr) -> Expr {
    if cannot_fail(&value) || matches!(applies, Expr::Value(_)) {
        return value;
    }
    // Of `CASE WHEN number = 3`, planning makes AND and OR of the conditions, which computes all of them.
    Expr::Case {
        case_token: AttachedToken::empty(),
        end_token: AttachedToken::empty(),
        operand: Some(Box::new(applies.clone())),
        conditions: vec![CaseWhen { condition: number(clause), result: value }],
        else_result: None,
    }
}

fn cannot_fail(value: &Expr) -> bool {
    match value {
        Expr::Identifier(_) | Expr::CompoundIdentifier(_) | Expr::Value(_) => true,
        Expr::Nested(value) => cannot_fail(value),
        _ => false,
    }
}

fn number_at(at: usize) -> Result<i64> {
    i64::try_from(at + 1).map_err(|_| Error::internal("a MERGE has more clauses than can be counted"))
}

fn number(number: i64) -> Expr {
    digits(&number.to_string())
}

/// The rows of the query to which a clause applies.
fn that_apply(query: Box<Query>) -> Result<Box<Query>> {
    let mut outer = query_of_row(Vec::new())?;
    let select = select_of(&mut outer)?;
    let name = Ident::with_quote('"', "merge");
    let alias = TableAlias { explicit: true, name: name.clone(), columns: Vec::new(), at: None };
    select.projection = vec![SelectItem::Wildcard(WildcardAdditionalOptions::default())];
    let relation = TableFactor::Derived { lateral: false, subquery: query, alias: Some(alias), sample: None };
    select.from = vec![TableWithJoins { relation, joins: Vec::new() }];
    select.selection = Some(Expr::IsNotNull(Box::new(of(&name, "merge column 1"))));
    Ok(outer)
}

/// The query of RETURNING, of which `given.rows` are the rows of the table, `given.source` those of the source beside
/// them, and `given.actions` what was done. These three have the row's number in a column of this name; `source` are the
/// names of the source's other columns.
pub fn merge_returning_query(
    def: &TableDef,
    merge: &Merge,
    returning: &Query,
    source: &[String],
    number: &str,
) -> Result<Box<Query>> {
    let beside = |alias: Ident, given, columns: &[String]| Beside { alias, given, columns: columns.to_vec() };
    let [action, column] = ACTION;
    let tables = [
        beside(merge.source.clone(), SOURCE, source),
        beside(Ident::with_quote('"', action), ACTIONS, &[column.to_owned()]),
    ];
    returning_beside_query(def, &merge.alias, returning, &tables, number)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{kind, table, text};
    use alluvia_syntax::Kind;

    const KEYED: &str = "CREATE TABLE t (id INT PRIMARY KEY, a DECIMAL(9, 2), b TEXT)";
    const PLAIN: &str = "CREATE TABLE t (a INT, b TEXT)";

    fn merged(def: &str, sql: &str) -> Result<MergeQuery> {
        let Kind::Merge(merge) = kind(sql) else { panic!("a MERGE") };
        merge_query(&table(def), &merge)
    }

    #[test]
    fn clauses_are_numbered_and_their_values_guarded() {
        let merged = merged(
            KEYED,
            "MERGE INTO t USING s ON t.id = s.id WHEN MATCHED AND s.gone THEN DELETE WHEN MATCHED AND s.same THEN DO \
             NOTHING WHEN MATCHED THEN UPDATE SET a = 1.50, b = s.b || 'x' WHEN NOT MATCHED THEN INSERT (b, id) VALUES \
             ('n', id + 1) WHEN NOT MATCHED BY SOURCE AND a > 1 THEN DELETE",
        )
        .unwrap();
        let number = "CASE WHEN t.\"id\" IS NOT NULL AND s.\"row of s\" IS NOT NULL THEN CASE WHEN s.gone THEN 1 WHEN \
                      s.same THEN NULL ELSE 3 END WHEN t.\"id\" IS NULL THEN 4 WHEN s.\"row of s\" IS NULL THEN CASE \
                      WHEN t.a > 1 THEN 5 END END";
        let wanted = format!(
            "SELECT * FROM (SELECT {number} AS \"merge column 1\", t.\"id\" AS \"merge column 2\", t.\"id\" AS \"merge \
             column 3\", t.\"a\" AS \"merge column 4\", t.\"b\" AS \"merge column 5\", CASE {number} WHEN 3 THEN \
             CAST('1.50' AS DECIMAL(3,2)) END AS \"merge column 6\", CASE {number} WHEN 3 THEN s.b || 'x' END AS \
             \"merge column 7\", CASE {number} WHEN 4 THEN s.id + 1 END AS \"merge column 8\", NULL AS \"merge column \
             9\", 'n' AS \"merge column 10\" FROM given.target AS t FULL JOIN (SELECT *, true AS \"row of s\" FROM \
             s) AS s ON t.id = s.id) AS \"merge\" WHERE \"merge\".\"merge column 1\" IS NOT NULL"
        );
        assert_eq!(text(&merged.query), wanted);
        assert_eq!((merged.gone, merged.known, merged.whole, merged.source), (Gone::Keys, 1, Some(2), None));
        let changes: Vec<_> =
            merged.changes.into_iter().map(|change| (change.number, change.name, change.write)).collect();
        assert_eq!(
            changes,
            [
                (1, "DELETE", MergeWrite::Delete),
                (3, "UPDATE", MergeWrite::Update { places: vec![2, 5, 6], moves: false }),
                (4, "INSERT", MergeWrite::Insert { places: vec![7, 8, 9] }),
                (5, "DELETE", MergeWrite::Delete),
            ]
        );
    }

    #[test]
    fn what_is_not_asked_for_is_not_read() {
        let merged =
            merged(PLAIN, "MERGE INTO t AS x USING (SELECT 1 AS a) AS s ON x.a = s.a WHEN MATCHED THEN DELETE");
        let merged = merged.unwrap();
        assert_eq!(
            text(&merged.query),
            "SELECT * FROM (SELECT 1 AS \"merge column 1\", x.\"row version\" AS \"merge column 2\", x.\"row ordinal\" \
             AS \"merge column 3\" FROM given.target AS x INNER JOIN (SELECT *, true AS \"row of s\" FROM (SELECT 1 AS a) \
             AS s) AS s ON x.a = s.a) AS \"merge\" WHERE \"merge\".\"merge column 1\" IS NOT NULL"
        );
        assert_eq!((merged.gone, merged.known, merged.whole), (Gone::Identities, 2, None));
    }

    #[test]
    fn a_key_that_is_set_moves_its_row() {
        let moves = |set: &str| {
            let sql = format!("MERGE INTO t USING s ON t.id = s.id WHEN MATCHED THEN UPDATE SET {set}");
            let change = merged(KEYED, &sql).unwrap().changes.remove(0);
            matches!(change.write, MergeWrite::Update { moves: true, .. })
        };
        assert!(moves("id = 1") && moves("a = 1, id = DEFAULT") && !moves("a = 1"));
        let refused = |then: &str| {
            let sql = format!("MERGE INTO t USING s ON t.id = s.id WHEN {then}");
            merged(KEYED, &sql).unwrap_err().kind()
        };
        assert_eq!(refused("MATCHED THEN UPDATE SET x = 1"), ErrorKind::UndefinedColumn);
        assert_eq!(refused("MATCHED THEN UPDATE SET a = 1, a = 2"), ErrorKind::Syntax);
        assert_eq!(refused("NOT MATCHED THEN INSERT VALUES (1, 2, 3, 4)"), ErrorKind::Syntax);
        assert_eq!(refused("NOT MATCHED THEN INSERT (x) VALUES (1)"), ErrorKind::UndefinedColumn);
    }

    #[test]
    fn returning_is_a_query_of_both_tables() {
        let Kind::Merge(merge) = kind(
            "MERGE INTO t USING s ON t.id = s.id WHEN MATCHED THEN DELETE RETURNING merge_action() AS did, t.*, s.x",
        ) else {
            panic!("a MERGE")
        };
        let def = table(PLAIN);
        let returning = merge.returning.as_ref().unwrap();
        assert_eq!(
            text(&merge_returning_query(&def, &merge, returning, &["x".to_owned()], "row number").unwrap()),
            "SELECT \"merge action\".action AS did, t.\"a\", t.\"b\", s.x FROM given.rows AS t INNER \
             JOIN given.source AS s ON t.\"row number\" = s.\"row number\" INNER JOIN given.actions AS \"merge action\" \
             ON t.\"row number\" = \"merge action\".\"row number\""
        );
    }
}

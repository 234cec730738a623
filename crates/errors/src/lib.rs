//! From the errors of planning and running to ours: a kind, a clean sentence, a hint.
//!
//! Invariants:
//! - An error of ours that travelled through DataFusion or Arrow arrives as it was.
//! - Nothing a user sees names DataFusion, or shows a tree of its own or the parser's, except a defect's own message.

pub mod signatures;

mod columns;
mod elsewhere;
mod names;
mod operands;

use crate::signatures::{missing_form, with_sql_types};
use alluvia_catalog::{Catalog, RelationName, SearchPath};
use alluvia_functions::table as functions;
use alluvia_syntax::names::{ALONG_PATH, SYSTEM};
use alluvia_syntax::trees::merged_columns::{self, HIDDEN};
use alluvia_types::{Error, ErrorKind, near_names};
pub use alluvia_values::errors::{clean, exhausted, not_supported, spill_io_error, user_error};
use alluvia_values::parse::{Bad, parse_i64};
use arrow::error::ArrowError;
use datafusion_common::DataFusionError;

/// An error of planning; `catalog` is what the statement could name.
pub fn planning_error(error: &DataFusionError, catalog: &Catalog) -> Error {
    if let (None, DataFusionError::Plan(message)) = (user_error(error), leaf(error)) {
        let quoted = |before| message.strip_prefix(before).and_then(|rest| rest.split('\'').next());
        if let Some(name) = quoted("table '") {
            return unknown_table(name, catalog);
        }
        if let Some(name) = quoted("Invalid function '") {
            return unknown_function(name);
        }
    }
    as_written(error_of(error))
}

/// An error of planning without what is not written of names.
fn as_written(error: Error) -> Error {
    let is_written = |text: &str| !text.contains(HIDDEN);
    if is_written(error.message()) && error.hint().is_none_or(is_written) {
        return error;
    }
    let told = Error::new(error.kind(), merged_columns::as_written(error.message()));
    match error.hint() {
        Some(hint) => told.with_hint(merged_columns::as_written(hint)),
        None => told,
    }
}

/// `name` is whole: `alluvia.public.t`.
fn unknown_table(name: &str, catalog: &Catalog) -> Error {
    match name.split('.').collect::<Vec<_>>().as_slice() {
        [_, schema, table] if *schema != ALONG_PATH && *schema != SYSTEM => {
            let named = RelationName::in_schema(*schema, *table);
            match catalog.relation(&named, &SearchPath::default()) {
                Err(error) => error,
                Ok(_) => Error::new(ErrorKind::UndefinedTable, format!("there is no table '{named}'")),
            }
        }
        [.., table] => Error::new(ErrorKind::UndefinedTable, format!("there is no table '{table}'")),
        [] => Error::new(ErrorKind::UndefinedTable, format!("there is no table '{name}'")),
    }
}

fn unknown_function(name: &str) -> Error {
    if functions::is_window(name) {
        return Error::new(ErrorKind::UndefinedFunction, format!("{name} is a window function and needs OVER"))
            .with_hint(format!("write {name}(...) OVER (ORDER BY ...)"));
    }
    let error = Error::new(ErrorKind::UndefinedFunction, format!("there is no function {name}"));
    if let Some(hint) = elsewhere::instead_of(name) {
        return error.with_hint(hint);
    }
    let near = near_names(name, functions::names().chain(alluvia_pg_catalog::function_names()));
    if near.is_empty() { error } else { error.with_hint(format!("did you mean {}?", near.join(" or "))) }
}

/// Any error that a query ends with.
pub fn error_of(error: &DataFusionError) -> Error {
    if let Some(own) = user_error(error) {
        return own;
    }
    let error = leaf(error);
    // These quote what the user wrote, whose words tell nothing.
    let quotes = match error {
        DataFusionError::SchemaError(..) | DataFusionError::SQL(..) => true,
        DataFusionError::ArrowError(error, _) => {
            matches!(error.as_ref(), ArrowError::CastError(_) | ArrowError::ParseError(_))
        }
        _ => false,
    };
    if !quotes && let Some(told) = told_by_words(&error.message()) {
        return told;
    }
    if let DataFusionError::Plan(message) | DataFusionError::Internal(message) | DataFusionError::Execution(message) =
        error
        && let Some(told) = missing_form(message)
    {
        return told;
    }
    match error {
        DataFusionError::SchemaError(schema, _) => columns::schema_error(schema),
        DataFusionError::SQL(error, _) => Error::new(ErrorKind::Syntax, error.to_string()),
        DataFusionError::NotImplemented(message) => not_implemented(message),
        DataFusionError::Plan(message) => plan_error(message),
        DataFusionError::Configuration(message) => Error::new(ErrorKind::InvalidSetting, clean(message)),
        DataFusionError::ArrowError(error, _) => arrow_error(error),
        DataFusionError::Execution(message) => Error::new(ErrorKind::InvalidValue, clean(message)),
        DataFusionError::ResourcesExhausted(message) => exhausted(message),
        DataFusionError::ExecutionJoin(error) => Error::internal(format!("a task of the query failed: {error}")),
        DataFusionError::IoError(error) => spill_io_error(error),
        DataFusionError::ParquetError(error) => {
            Error::new(ErrorKind::Corrupt, format!("reading a segment failed: {error}"))
        }
        DataFusionError::Internal(message) => Error::internal(clean(message)),
        other => Error::internal(clean(&other.message())),
    }
}

/// What is told by its words alone, wherever it comes from.
fn told_by_words(message: &str) -> Option<Error> {
    if message.contains("subquery returned more than one row") {
        let error = Error::new(ErrorKind::TooManyRows, "a subquery that is used as a value has more than one row");
        return Some(error.with_hint("take one of them: an aggregate, or LIMIT 1"));
    }
    if is_overflow(message) {
        return Some(overflow());
    }
    if message.ends_with("Arithmetic Overflow in AvgAccumulator") {
        let error = Error::new(ErrorKind::OutOfRange, "numeric out of range: an average has more than 38 digits");
        return Some(error.with_hint("average doubles, which are rounded: avg(CAST(x AS DOUBLE))"));
    }
    // "Regular expression did not compile: Syntax(... error: unclosed group ...)"
    let is_pattern = ["expression did not compile", "regex parse error"].iter().any(|words| message.contains(words));
    is_pattern.then(|| {
        let reason = message.rsplit_once("error: ").and_then(|(_, reason)| reason.lines().next());
        let reason = reason.map(|reason| format!(": {}", reason.trim())).unwrap_or_default();
        Error::new(ErrorKind::InvalidPattern, format!("the pattern is no regular expression{reason}"))
    })
}

/// Whether Arrow tells that the texts or lists of a batch are longer together than a column can hold: 2 GB, or 2^31 elements.
pub fn is_overflow(message: &str) -> bool {
    message.to_ascii_lowercase().contains("offset overflow")
}

/// What is told of that.
pub fn overflow() -> Error {
    Error::new(ErrorKind::TooLarge, "a value, or the values of one batch of rows, come to more than 2 GB").with_hint(
        "make fewer of them at a time: SET batch_size to less, shorten the values, or aggregate fewer rows into one value",
    )
}

/// The error that a stream of rows ended with.
pub fn from_datafusion(error: DataFusionError) -> Error {
    error_of(&error)
}

/// The first error under contexts and collections.
fn leaf(error: &DataFusionError) -> &DataFusionError {
    match error {
        DataFusionError::Context(_, inner) | DataFusionError::Diagnostic(_, inner) => leaf(inner),
        DataFusionError::Shared(inner) => leaf(inner),
        DataFusionError::Collection(errors) => errors.first().map_or(error, leaf),
        other => other,
    }
}

/// What is not built, by the name that it has in SQL.
fn not_implemented(message: &str) -> Error {
    let text = clean(message);
    let node = |before| {
        let rest = text.strip_prefix(before)?;
        Some(rest.split(|c: char| !c.is_alphanumeric()).next().unwrap_or_default())
    };
    if let Some(node) = node("Physical plan does not support logical expression ") {
        return match node {
            "Exists" | "InSubquery" | "SetComparison" => {
                not_supported("EXISTS, IN, ANY or ALL of a subquery in this place")
                    .with_hint("join the subquery, or compare with an aggregate of it: x >= (SELECT max(y) FROM u)")
            }
            "ScalarSubquery" | "OuterReferenceColumn" => not_supported(
                "a subquery that uses columns from around it in this way",
            )
            .with_hint("write it as a join, of rows that row_number() OVER (PARTITION BY ...) numbers if need be"),
            other => not_supported(format!("{other} in an expression")),
        };
    }
    if let Some(node) = node("Unsupported ast node in sqltorel: ") {
        return match node {
            "Collate" => not_supported("COLLATE").with_hint("text is compared by its bytes: leave it out"),
            "IsNormalized" => not_supported("IS NORMALIZED"),
            "MemberOf" => not_supported("MEMBER OF").with_hint("write x = ANY (list)"),
            "RLike" => not_supported("RLIKE or REGEXP").with_hint("write x ~ 'pattern'"),
            "Prior" => not_supported("PRIOR"),
            "Lambda" => not_supported("a lambda"),
            other => not_supported(format!("{other} in an expression")),
        };
    }
    if let Some(error) = names::not_known(&text) {
        return error;
    }
    let shown = with_sql_types(&without_tree(&text));
    names::cast_of_list(&shown).unwrap_or_else(|| Error::new(ErrorKind::NotSupported, shown))
}

/// A message up to where it prints a tree: ` {`, or the bracket around one.
fn without_tree(text: &str) -> String {
    let Some((told, _)) = text.split_once(" {") else { return text.to_owned() };
    let told = match told.rsplit_once('(') {
        Some((before, inside)) if !inside.contains(')') => before,
        _ => told,
    };
    told.trim_end_matches([':', ',', ' ', '\'']).to_owned()
}

fn plan_error(message: &str) -> Error {
    let text = without_tree(&clean(message));
    let lower = text.to_lowercase();
    if let Some(name) = text.strip_prefix("Invalid function '").and_then(|rest| rest.split('\'').next()) {
        return Error::new(ErrorKind::UndefinedFunction, format!("there is no function {name}"));
    }
    if lower.starts_with("projections require unique expression names") {
        return Error::new(ErrorKind::DuplicateColumn, "two columns of a SELECT have the same name")
            .with_hint("give one of them another name with AS");
    }
    if let Some(error) = not_grouped(message) {
        return error;
    }
    if let Some(error) = not_selected(&text) {
        return error;
    }
    if lower.starts_with("table function") && lower.contains("not found") {
        return Error::new(ErrorKind::UndefinedFunction, lower_first(&text));
    }
    let types = ["coerc", "data type", "types ", "type mismatch", "cast", "argument type", "signature"];
    let told = with_sql_types(&text);
    if let Some((message, hint)) = operands::no_condition(&told) {
        return Error::new(ErrorKind::DatatypeMismatch, message).with_hint(hint);
    }
    match types.iter().any(|word| lower.contains(word)) {
        true => {
            let hint = operands::hint(&told);
            let message = operands::missing_operator(&told).unwrap_or_else(|| lower_first(&told));
            Error::new(ErrorKind::DatatypeMismatch, message).with_hint(hint)
        }
        false => Error::new(ErrorKind::Syntax, told),
    }
}

/// A column, or an expression of columns, that is neither grouped by nor inside of an aggregate.
fn not_grouped(message: &str) -> Option<Error> {
    let text = clean(message);
    let (place, name) = match text.strip_prefix("Column in ") {
        Some(rest) => {
            let (place, rest) = rest.split_once(" must be in GROUP BY")?;
            let (_, rest) = rest.split_once("column \"")?;
            (place, rest.split_once("\" must appear")?.0)
        }
        None => {
            let rest = text.strip_prefix("HAVING clause references: ")?;
            ("HAVING", rest.split_once(" must appear in the GROUP BY")?.0)
        }
    };
    let message = format!("{} in {place} is neither grouped by nor inside of an aggregate", without_tree(name));
    Some(
        Error::new(ErrorKind::NotGrouped, message)
            .with_hint("add it to GROUP BY, or take an aggregate of it: any_value(x), max(x)"),
    )
}

/// What a SELECT DISTINCT is sorted by and does not have. Of several columns DataFusion (55.2) writes the names without anything between them.
fn not_selected(text: &str) -> Option<Error> {
    let rest = text.strip_prefix("For SELECT DISTINCT, ORDER BY expressions ")?;
    let names = rest.strip_suffix(" must appear in select list")?;
    let what = match names.matches('.').count() {
        0 | 1 => format!("{names} of ORDER BY"),
        _ => "an expression of ORDER BY".to_owned(),
    };
    let message = format!("for SELECT DISTINCT, {what} must be selected, too");
    Some(
        Error::new(ErrorKind::Syntax, message)
            .with_hint("add it to the SELECT, write GROUP BY and sort by an aggregate, or order by what is selected"),
    )
}

fn arrow_error(error: &ArrowError) -> Error {
    match error {
        ArrowError::DivideByZero => Error::new(ErrorKind::DivisionByZero, "division by zero"),
        ArrowError::ArithmeticOverflow(message) => {
            Error::new(ErrorKind::OutOfRange, format!("out of range: {}", lower_first(message)))
                .with_hint("cast to a wider type first, for example CAST(x AS DECIMAL(38, 0))")
        }
        ArrowError::CastError(message) | ArrowError::ParseError(message) => cast_error(&clean(message)),
        ArrowError::NotYetImplemented(message) => Error::new(ErrorKind::NotSupported, with_sql_types(&clean(message))),
        ArrowError::MemoryError(message) => exhausted(message),
        ArrowError::IoError(_, error) => Error::io("the spill directory", "using", error),
        ArrowError::InvalidArgumentError(message) if message.contains(" to store in a Decimal") => {
            Error::new(ErrorKind::OutOfRange, clean(message))
        }
        ArrowError::InvalidArgumentError(message) | ArrowError::ComputeError(message) => {
            Error::new(ErrorKind::InvalidValue, with_sql_types(&clean(message)))
        }
        other => Error::new(ErrorKind::InvalidValue, clean(&other.to_string())),
    }
}

/// A cast that failed: of a value outside of its type's range, or of text that is not written as its type's values are.
fn cast_error(message: &str) -> Error {
    let of_text = message.strip_prefix("Cannot cast string '").and_then(|rest| rest.split_once("' to value of "));
    let is_out_of_range = match of_text {
        // Arrow tells of both in the same words.
        Some((text, wanted)) => wanted.starts_with("Int") && parse_i64(text.as_bytes()) != Err(Bad::Form),
        None => ["Can't cast value ", "Cannot cast to "].iter().any(|words| message.starts_with(words)),
    };
    let kind = if is_out_of_range { ErrorKind::OutOfRange } else { ErrorKind::InvalidText };
    let error = Error::new(kind, lower_first(&with_sql_types(message)));
    let is_number = |wanted: &str| ["Int", "Float", "Decimal"].iter().any(|of| wanted.starts_with(of));
    match of_text {
        Some((_, wanted)) if !is_out_of_range && is_number(wanted) => error.with_hint(
            "TRY_CAST gives NULL where a text is no number; if it is compared with a number, write the number as a text: x = '5'",
        ),
        _ => error,
    }
}

/// A sentence as a part of another.
pub fn lower_first(text: &str) -> String {
    let mut chars = text.chars();
    match chars.next() {
        Some(first) if !text.get(1..2).is_some_and(|second| second.bytes().all(|byte| byte.is_ascii_uppercase())) => {
            first.to_lowercase().chain(chars).collect()
        }
        _ => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alluvia_values::errors::wrap;
    use std::sync::Arc;

    #[test]
    fn own_errors_survive_every_wrapping() {
        let own = Error::new(ErrorKind::Corrupt, "segment 7, chunk 3").with_hint("restore it");
        let arrow = ArrowError::ExternalError(Box::new(own.clone()));
        let parquet = ParquetError::External(Box::new(own.clone()));
        let io = std::io::Error::other(own.clone());
        for wrapped in [
            wrap(own.clone()),
            DataFusionError::from(arrow),
            DataFusionError::from(parquet),
            DataFusionError::IoError(io),
            DataFusionError::Context("while reading".into(), Box::new(wrap(own.clone()))),
            DataFusionError::Shared(Arc::new(wrap(own.clone()))),
            DataFusionError::External(Box::new(wrap(own.clone()))),
        ] {
            let got = error_of(&wrapped);
            assert_eq!((got.kind(), got.message(), got.hint()), (own.kind(), own.message(), own.hint()), "{wrapped}");
        }
    }

    #[test]
    fn messages_show_no_trees() {
        let told = |message: &str| error_of(&DataFusionError::NotImplemented(message.into())).message().to_owned();
        let collate =
            "Unsupported ast node in sqltorel: Collate { expr: Identifier(Ident { value: \"a\", span: Span(..) }) }";
        assert_eq!(told(collate), "COLLATE is not supported");
        let exists = told("Physical plan does not support logical expression Exists(Exists { subquery: <subquery> })");
        assert_eq!(exists, "EXISTS, IN, ANY or ALL of a subquery in this place is not supported");
        assert_eq!(
            told(
                "Unsupported interval argument. Expected string literal or number, got: Interval(Interval { value: 1 })"
            ),
            "Unsupported interval argument. Expected string literal or number, got: Interval"
        );
        assert_eq!(told("f(INT) is not there"), "f(INT) is not there");
    }

    #[test]
    fn what_is_not_grouped_is_named_with_its_place() {
        let of = |message: &str| error_of(&DataFusionError::Plan(message.into()));
        let wildcard = of(
            "Column in SELECT must be in GROUP BY or an aggregate function: While expanding wildcard, column \"sales.country\" \
            must appear in the GROUP BY clause or must be part of an aggregate function, currently only \"sum(sales.price)\" appears in the \
            SELECT clause satisfies this requirement",
        );
        assert_eq!(wildcard.message(), "sales.country in SELECT is neither grouped by nor inside of an aggregate");
        let having = of(
            "HAVING clause references: sales.price > Int64(1) must appear in the GROUP BY clause or be used in an aggregate function",
        );
        assert_eq!(
            having.message(),
            "sales.price > Int64(1) in HAVING is neither grouped by nor inside of an aggregate"
        );
        assert_eq!((wildcard.kind(), having.kind()), (ErrorKind::NotGrouped, ErrorKind::NotGrouped));
        assert_eq!(of("Column in SELECT is odd").kind(), ErrorKind::Syntax);
    }

    #[test]
    fn names_that_run_together_are_not_shown() {
        let of = |names: &str| {
            let message = format!("For SELECT DISTINCT, ORDER BY expressions {names} must appear in select list");
            error_of(&DataFusionError::Plan(message)).message().to_owned()
        };
        assert_eq!(of("sales.region"), "for SELECT DISTINCT, sales.region of ORDER BY must be selected, too");
        assert_eq!(
            of("sales.regionsales.category"),
            "for SELECT DISTINCT, an expression of ORDER BY must be selected, too"
        );
    }

    #[test]
    fn patterns_and_values_of_many_rows_are_told_by_their_words() {
        let text = "Regular expression did not compile: Syntax(\n~~~~\nregex parse error:\n    (\n    ^\nerror: unclosed group\n~~~~\n)";
        let arrow = ArrowError::ComputeError(text.into());
        let pattern = error_of(&DataFusionError::ArrowError(Box::new(arrow), None));
        assert_eq!(pattern.kind(), ErrorKind::InvalidPattern);
        assert_eq!(pattern.message(), "the pattern is no regular expression: unclosed group");
        let many = error_of(&DataFusionError::Execution("Scalar subquery returned more than one row".into()));
        assert_eq!(many.kind(), ErrorKind::TooManyRows);
    }

    #[test]
    fn what_no_column_can_hold_is_told_with_what_to_do() {
        for error in [
            DataFusionError::ArrowError(Box::new(ArrowError::OffsetOverflowError(3 << 30)), None),
            DataFusionError::ArrowError(
                Box::new(ArrowError::InvalidArgumentError("offset overflow: data".into())),
                None,
            ),
        ] {
            let told = error_of(&error);
            assert_eq!((told.kind().sqlstate(), told.hint().is_some()), ("54000", true), "{error}");
        }
    }

    #[test]
    fn messages_are_clean_and_kinds_say_what_to_do() {
        let cast = |message: &str| DataFusionError::ArrowError(Box::new(ArrowError::CastError(message.into())), None);
        let kinds = [
            (DataFusionError::ArrowError(Box::new(ArrowError::DivideByZero), None), ErrorKind::DivisionByZero),
            (DataFusionError::ResourcesExhausted("x".into()), ErrorKind::OutOfMemory),
            (DataFusionError::NotImplemented("x".into()), ErrorKind::NotSupported),
            (
                DataFusionError::Plan("Invalid function 'smu'.\nDid you mean 'sum'?".into()),
                ErrorKind::UndefinedFunction,
            ),
            (DataFusionError::Internal("x".into()), ErrorKind::Internal),
            (cast("Cannot cast string 'x' to value of Int32 type"), ErrorKind::InvalidText),
            (cast("Cannot cast string '' to value of Int32 type"), ErrorKind::InvalidText),
            (cast("Cannot cast string '99999999999' to value of Int32 type"), ErrorKind::OutOfRange),
            (cast("Cannot cast string '99999999999999999999' to value of Int64 type"), ErrorKind::OutOfRange),
            (cast("Cannot cast string '2026' to value of Date32 type"), ErrorKind::InvalidText),
            (cast("Can't cast value 40000 to type Int16"), ErrorKind::OutOfRange),
        ];
        for (error, kind) in kinds {
            let got = error_of(&error);
            assert_eq!(got.kind(), kind);
            assert!(!got.message().contains("DataFusion"), "{got}");
        }
    }

    #[test]
    fn user_error_is_found_through_every_wrapping() {
        let ours = || Error::new(ErrorKind::Corrupt, "seg-3.parquet: chunk 5 does not match its checksum");
        let wrapped = [
            wrap(ours()),
            wrap(ours()).context("planning"),
            DataFusionError::Shared(Arc::new(wrap(ours()))),
            DataFusionError::ParquetError(Box::new(ParquetError::External(Box::new(ours())))),
            DataFusionError::External(Box::new(wrap(ours()))),
            DataFusionError::ArrowError(
                Box::new(arrow::error::ArrowError::ExternalError(Box::new(wrap(ours())))),
                None,
            ),
        ];
        for error in wrapped {
            assert_eq!(user_error(&error).expect("found").kind(), ErrorKind::Corrupt, "{error:?}");
        }
        assert!(user_error(&DataFusionError::Plan("no".to_owned())).is_none());
    }
}

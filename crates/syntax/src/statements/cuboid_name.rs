//! The arguments of `CALL alluvia.pin_cuboid('table', 'level, ...' [, 'measure, ...'])` and its kin: a table, levels,
//! measures; and those of `CALL alluvia.purge('table')`.

use crate::grammar::Grammar;
use crate::names::{parts_of, user_table};
use crate::statement::text_of;
use crate::tokens::depth::DEPTH_MAX;
use crate::tokens::lexer;
use alluvia_catalog::RelationName;
use alluvia_types::{Error, ErrorKind, Result};
use sqlparser::ast::{FunctionArg, FunctionArgExpr, FunctionArguments, ObjectName};
use sqlparser::parser::{Parser, ParserError};
use sqlparser::tokenizer::Token;

/// A cuboid by name, not yet looked up in a definition.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CuboidName {
    /// The user table.
    pub table: RelationName,
    /// Each as `level` or `dimension.level`; none for the totals of all rows.
    pub levels: Vec<Vec<String>>,
    /// Each as `column` or `function(column)`; `None` if they are left out.
    pub measures: Option<Vec<(Option<String>, String)>>,
}

impl CuboidName {
    /// The arguments of a procedure.
    pub(crate) fn of_arguments(procedure: &str, arguments: &FunctionArguments) -> Result<CuboidName> {
        let wrong = || {
            Error::new(ErrorKind::UndefinedFunction, format!("{procedure} takes two or three texts"))
                .with_hint(format!("write CALL {procedure}('table', 'level, level' [, 'measure, measure'])"))
        };
        let FunctionArguments::List(list) = arguments else { return Err(wrong()) };
        let text = |argument: &FunctionArg| match argument {
            FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => text_of(expr),
            _ => None,
        };
        let texts: Option<Vec<String>> = list.args.iter().map(text).collect();
        let texts =
            texts.filter(|_| list.clauses.is_empty() && list.duplicate_treatment.is_none()).ok_or_else(wrong)?;
        let (table, levels, measures) = match texts.as_slice() {
            [table, levels] => (table, levels, None),
            [table, levels, measures] => (table, levels, Some(measures)),
            _ => return Err(wrong()),
        };
        let table = list_of(procedure, table, |parser| parser.parse_object_name(false))?;
        let [table] = table.as_slice() else { return Err(wrong()) };
        let levels = list_of(procedure, levels, |parser| parser.parse_object_name(false))?;
        let measures = measures.map(|measures| list_of(procedure, measures, measure)).transpose()?;
        let measures = measures.map(|measures| measures.iter().map(measure_name).collect::<Result<Vec<_>>>());
        Ok(CuboidName {
            table: user_table(table)?,
            levels: levels.iter().map(parts_of).collect::<Result<_>>()?,
            measures: measures.transpose()?,
        })
    }
}

/// The argument of a procedure that takes the name of a table, or nothing: `CALL alluvia.purge('t')`.
pub(crate) fn table_argument(procedure: &str, arguments: &FunctionArguments) -> Result<Option<RelationName>> {
    let wrong = || {
        Error::new(ErrorKind::UndefinedFunction, format!("{procedure} takes the name of a table, or nothing"))
            .with_hint(format!("write CALL {procedure}('table'), or CALL {procedure}()"))
    };
    let list = match arguments {
        FunctionArguments::None => return Ok(None),
        FunctionArguments::List(list) if list.clauses.is_empty() && list.duplicate_treatment.is_none() => list,
        _ => return Err(wrong()),
    };
    let name = match list.args.as_slice() {
        [] => return Ok(None),
        [FunctionArg::Unnamed(FunctionArgExpr::Expr(expr))] => text_of(expr).ok_or_else(wrong)?,
        _ => return Err(wrong()),
    };
    table_named(procedure, &name)?.map(Some).ok_or_else(wrong)
}

/// The table that a text names; `None` where it names none, or several.
pub(crate) fn table_named(procedure: &str, name: &str) -> Result<Option<RelationName>> {
    let names = list_of(procedure, name, |parser| parser.parse_object_name(false))?;
    match names.as_slice() {
        [name] => user_table(name).map(Some),
        _ => Ok(None),
    }
}

/// `column` or `function(column)`.
fn measure(parser: &mut Parser<'_>) -> Result<(Option<ObjectName>, ObjectName), ParserError> {
    let name = parser.parse_object_name(false)?;
    if !parser.consume_token(&Token::LParen) {
        return Ok((None, name));
    }
    let column = parser.parse_object_name(false)?;
    parser.expect_token(&Token::RParen)?;
    Ok((Some(name), column))
}

fn measure_name((function, column): &(Option<ObjectName>, ObjectName)) -> Result<(Option<String>, String)> {
    let function = function.as_ref().map(|function| parts_of(function).map(|parts| parts.join(".")));
    Ok((function.transpose()?, parts_of(column)?.join(".")))
}

/// The members of a list in a text, which may be empty.
fn list_of<T>(
    procedure: &str,
    text: &str,
    member: impl FnMut(&mut Parser<'_>) -> Result<T, ParserError>,
) -> Result<Vec<T>> {
    let wrong = |error: ParserError| {
        Error::new(ErrorKind::Syntax, error.to_string()).at(format!("the argument '{text}' of {procedure}"))
    };
    let grammar = Grammar::for_tokens(text.len());
    let tokens = lexer::of(text).map_err(|error| error.at(format!("an argument of {procedure}")))?;
    let mut parser = Parser::new(&grammar).with_recursion_limit(DEPTH_MAX).with_tokens_with_locations(tokens);
    if parser.peek_token().token == Token::EOF {
        return Ok(Vec::new());
    }
    let members = parser.parse_comma_separated(member).map_err(wrong)?;
    match parser.peek_token().token {
        Token::EOF => Ok(members),
        other => Err(wrong(ParserError::ParserError(format!("a comma or the end is expected, not {other}")))),
    }
}

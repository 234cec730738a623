//! CREATE and DROP PROCEDURE, CALL of a procedure that a user made, and DO.
//!
//! Parsed here, on sqlparser's parser, whose own CREATE PROCEDURE is SQL Server's.
//!
//! Invariants:
//! - Every clause is either taken over or refused by name.
//! - A body and a default are kept as they are written. What a body says is not looked at here: `alluvia_procedures` compiles it.

use crate::grammar::Grammar;
use crate::names::{name_of, parts_of, relation_name, user_table};
use crate::script::Offsets;
use crate::statement::{Kind, text_of};
use crate::statements::parse::syntax;
use crate::statements::roles::{expect, list, one_of, word};
use crate::statements::written_types::column_type_of;
use crate::tokens::hints::Hints;
use crate::tokens::{depth, prepare_tokens};
use crate::trees::prepare;
use crate::trees::value_rows::query_of_row;
use alluvia_catalog::RelationName;
use alluvia_space::ColumnType;
use alluvia_types::{Error, ErrorKind, Result};
use alluvia_values::errors::not_supported;
use sqlparser::ast::{self, Expr, FunctionArg, FunctionArgExpr, FunctionArgOperator, Query};
use sqlparser::keywords::Keyword;
use sqlparser::parser::Parser;
use sqlparser::tokenizer::{Token, TokenWithSpan};

/// CREATE or DROP PROCEDURE.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum RoutineStatement {
    /// CREATE [OR REPLACE] PROCEDURE.
    Create(CreateProcedure),
    /// DROP PROCEDURE.
    Drop {
        /// The procedures to drop, each with the types of its parameters if they are written.
        procedures: Vec<(RelationName, Option<Vec<ColumnType>>)>,
        /// Whether a procedure that does not exist is no error.
        if_exists: bool,
    },
}

impl RoutineStatement {
    /// What it is called.
    pub fn command(&self) -> &'static str {
        match self {
            RoutineStatement::Create(_) => "CREATE PROCEDURE",
            RoutineStatement::Drop { .. } => "DROP PROCEDURE",
        }
    }
}

/// A parsed CREATE PROCEDURE.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CreateProcedure {
    /// The new procedure.
    pub name: RelationName,
    /// OR REPLACE: whether it takes the place of a procedure of this name.
    pub or_replace: bool,
    /// Its parameters, in their order.
    pub parameters: Vec<RoutineParameter>,
    /// The language, in small letters.
    pub language: String,
    /// SECURITY DEFINER: whether it runs with its owner's rights.
    pub is_definers: bool,
    /// What is between its quotes.
    pub body: String,
}

/// A parameter of a procedure.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RoutineParameter {
    /// Its name.
    pub name: String,
    /// Which way values go.
    pub mode: ParameterMode,
    /// The type of its values.
    pub column_type: ColumnType,
    /// The expression, as it is written, for a CALL that leaves it out.
    pub default: Option<String>,
}

/// Which way the values of a parameter go.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum ParameterMode {
    /// Into the procedure.
    #[default]
    In,
    /// Out of it.
    Out,
    /// Both.
    InOut,
}

/// CALL of a procedure that is not one of the system's.
#[derive(Clone, Debug)]
pub struct CallProcedure {
    /// The procedure.
    pub name: RelationName,
    /// The names of its arguments where they are written: `a => 1`.
    pub names: Vec<Option<String>>,
    /// One row of them; `None` where there are none.
    pub arguments: Option<Box<Query>>,
}

/// DO: a body that is run at once.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DoBlock {
    /// The language, in small letters.
    pub language: String,
    /// What is between its quotes.
    pub body: String,
}

/// The language of a body of which none is said.
const DEFAULT_LANGUAGE: &str = "plpgsql";

/// Whether the first words of a statement, upper case, say that it is CREATE PROCEDURE.
pub(crate) fn is_create_procedure(words: &[String]) -> bool {
    let mut words = words.iter().map(String::as_str);
    words.next() == Some("CREATE") && words.find(|word| !["OR", "REPLACE"].contains(word)) == Some("PROCEDURE")
}

/// Whether they say that it is DROP PROCEDURE.
pub(crate) fn is_drop_procedure(words: &[String]) -> bool {
    matches!(words, [first, second, ..] if first == "DROP" && second == "PROCEDURE")
}

/// A CREATE PROCEDURE. `sql` is the whole text that the tokens are of.
pub(crate) fn create_procedure(tokens: &[TokenWithSpan], sql: &str, hints: &Hints) -> Result<Kind> {
    if *hints != Hints::default() {
        return Ok(Kind::Refused(not_supported("a hint on CREATE PROCEDURE").with_hint("write it in its body")));
    }
    match parse_create(tokens, sql) {
        Ok(create) => Ok(Kind::Routine(Box::new(RoutineStatement::Create(create)))),
        Err(error) if error.kind() == ErrorKind::Syntax => Err(error),
        Err(error) => Ok(Kind::Refused(error)),
    }
}

fn parse_create(tokens: &[TokenWithSpan], sql: &str) -> Result<CreateProcedure> {
    let mut tokens = prepare_tokens(tokens).tokens;
    tokens.retain(|token| !matches!(token.token, Token::Whitespace(_)));
    let grammar = Grammar::for_tokens(tokens.len());
    let mut parser = Parser::new(&grammar).with_tokens_with_locations(tokens).with_recursion_limit(depth::DEPTH_MAX);
    let parser = &mut parser;
    expect(parser, "CREATE")?;
    let or_replace = word(parser, "OR");
    if or_replace {
        expect(parser, "REPLACE")?;
    }
    expect(parser, "PROCEDURE")?;
    let name = user_table(&parser.parse_object_name(false).map_err(syntax)?)?;
    let mut offsets = Offsets::new(sql);
    let parameters = parameters(parser, sql, &mut offsets)?;
    let (mut language, mut body, mut is_definers) = (None, None, None);
    while parser.peek_token_ref().token != Token::EOF {
        let again = match one_of(parser, &["LANGUAGE", "AS", "SECURITY", "EXTERNAL"]) {
            Some("LANGUAGE") => language.replace(written_language(parser)?).is_some(),
            Some("AS") => body.replace(quoted(parser)?).is_some(),
            Some("EXTERNAL") => {
                expect(parser, "SECURITY")?;
                is_definers.replace(security(parser)?).is_some()
            }
            Some(_) => is_definers.replace(security(parser)?).is_some(),
            None => return Err(unknown_clause(parser)),
        };
        if again {
            return Err(wrong("conflicting or redundant options"));
        }
    }
    let body = body.ok_or_else(|| {
        wrong("no procedure body specified").with_hint("write CREATE PROCEDURE p(...) LANGUAGE plpgsql AS $$ ... $$")
    })?;
    let language = language
        .ok_or_else(|| Error::new(ErrorKind::Syntax, "no language specified").with_hint("write LANGUAGE plpgsql"))?;
    Ok(CreateProcedure { name, or_replace, parameters, language, is_definers: is_definers == Some(true), body })
}

fn unknown_clause(parser: &Parser<'_>) -> Error {
    let found = parser.peek_token_ref().to_string();
    match found.to_ascii_uppercase().as_str() {
        "SET" | "TRANSFORM" | "BEGIN" | "RETURN" | "SUPPORT" => {
            not_supported(format!("{} in CREATE PROCEDURE", found.to_ascii_uppercase()))
                .with_hint("its body is a text: AS $$ BEGIN ... END $$")
        }
        _ => wrong(format!("Expected: LANGUAGE, AS or SECURITY, found: {found}")),
    }
}

fn security(parser: &mut Parser<'_>) -> Result<bool> {
    match one_of(parser, &["INVOKER", "DEFINER"]) {
        Some(security) => Ok(security == "DEFINER"),
        None => Err(wrong(format!("Expected: INVOKER or DEFINER, found: {}", parser.peek_token_ref()))),
    }
}

fn written_language(parser: &mut Parser<'_>) -> Result<String> {
    match parser.next_token().token {
        Token::Word(word) if word.quote_style.is_none() => Ok(word.value.to_ascii_lowercase()),
        Token::Word(word) => Ok(word.value),
        Token::SingleQuotedString(text) => Ok(text.to_ascii_lowercase()),
        other => Err(wrong(format!("Expected: a language, found: {other}"))),
    }
}

/// A body, in any quotes.
fn quoted(parser: &mut Parser<'_>) -> Result<String> {
    let value = parser.parse_value().map_err(syntax)?;
    let text = text_of(&Expr::Value(value)).ok_or_else(|| {
        wrong(format!("Expected: a body as a text, found: {}", parser.get_current_token()))
            .with_hint("write it between dollars: AS $$ BEGIN ... END $$")
    })?;
    match parser.peek_token_ref().token {
        Token::Comma => Err(not_supported("a procedure in a library")),
        _ => Ok(text),
    }
}

fn parameters(parser: &mut Parser<'_>, sql: &str, offsets: &mut Offsets<'_>) -> Result<Vec<RoutineParameter>> {
    parser.expect_token(&Token::LParen).map_err(syntax)?;
    let mut parameters: Vec<RoutineParameter> = Vec::new();
    if parser.consume_token(&Token::RParen) {
        return Ok(parameters);
    }
    loop {
        let mode = mode(parser)?;
        if matches!(parser.peek_nth_token_ref(1).token, Token::Comma | Token::RParen) {
            return Err(
                not_supported("a parameter without a name").with_hint("write its name before its type: p(a INT)")
            );
        }
        let name = name_of(&parser.parse_identifier().map_err(syntax)?);
        let column_type = column_type_of(&parser.parse_data_type().map_err(syntax)?)?;
        let default = match parser.parse_keyword(Keyword::DEFAULT) || parser.consume_token(&Token::Eq) {
            false => None,
            true => {
                let start = offsets.at(parser.peek_token_ref().span.start);
                parser.parse_expr().map_err(syntax)?;
                Some(sql[start..offsets.at(parser.get_current_token().span.end)].to_owned())
            }
        };
        if default.is_some() && mode == ParameterMode::Out {
            return Err(Error::new(ErrorKind::InvalidDefinition, "only input parameters can have default values"));
        }
        let has_defaults = parameters.iter().any(|parameter| parameter.default.is_some());
        if has_defaults && default.is_none() && mode != ParameterMode::Out {
            let message = "input parameters after one with a default value must also have defaults";
            return Err(Error::new(ErrorKind::InvalidDefinition, message));
        }
        if parameters.iter().any(|parameter| parameter.name == name) {
            let message = format!("parameter name \"{name}\" used more than once");
            return Err(Error::new(ErrorKind::InvalidDefinition, message));
        }
        parameters.push(RoutineParameter { name, mode, column_type, default });
        if !parser.consume_token(&Token::Comma) {
            parser.expect_token(&Token::RParen).map_err(syntax)?;
            return Ok(parameters);
        }
    }
}

fn mode(parser: &mut Parser<'_>) -> Result<ParameterMode> {
    Ok(match one_of(parser, &["IN", "OUT", "INOUT", "VARIADIC"]) {
        Some("IN") if word(parser, "OUT") => ParameterMode::InOut,
        Some("OUT") => ParameterMode::Out,
        Some("INOUT") => ParameterMode::InOut,
        Some("VARIADIC") => return Err(not_supported("a VARIADIC parameter")),
        _ => ParameterMode::In,
    })
}

/// DROP PROCEDURE, up to its end.
pub(crate) fn parse_drop_procedure(parser: &mut Parser<'_>) -> Result<RoutineStatement> {
    expect(parser, "DROP")?;
    expect(parser, "PROCEDURE")?;
    let if_exists = word(parser, "IF");
    if if_exists {
        expect(parser, "EXISTS")?;
    }
    let procedures = list(parser, |parser| {
        let name = user_table(&parser.parse_object_name(false).map_err(syntax)?)?;
        Ok((name, if parser.consume_token(&Token::LParen) { Some(dropped_types(parser)?) } else { None }))
    })?;
    if word(parser, "CASCADE") {
        return Err(
            not_supported("DROP PROCEDURE ... CASCADE").with_hint("nothing depends on a procedure: leave it out")
        );
    }
    let _ = word(parser, "RESTRICT");
    Ok(RoutineStatement::Drop { procedures, if_exists })
}

/// The types behind an opening bracket, with or without modes and names.
fn dropped_types(parser: &mut Parser<'_>) -> Result<Vec<ColumnType>> {
    if parser.consume_token(&Token::RParen) {
        return Ok(Vec::new());
    }
    let types = list(parser, |parser| {
        let _ = one_of(parser, &["IN", "OUT", "INOUT"]);
        let alone = parser.maybe_parse(|parser| {
            let written = parser.parse_data_type()?;
            match parser.peek_token_ref().token {
                Token::Comma | Token::RParen => Ok(written),
                _ => parser.expected_ref("a comma", parser.peek_token_ref()),
            }
        });
        let written = match alone.map_err(syntax)? {
            Some(written) => written,
            None => {
                parser.parse_identifier().map_err(syntax)?;
                parser.parse_data_type().map_err(syntax)?
            }
        };
        column_type_of(&written)
    })?;
    parser.expect_token(&Token::RParen).map_err(syntax)?;
    Ok(types)
}

/// CALL of a procedure that is not one of the system's.
pub(crate) fn call_procedure(function: &ast::Function) -> Result<Kind> {
    let name = relation_name(&function.name)?;
    let given = match &function.args {
        ast::FunctionArguments::None => &[][..],
        ast::FunctionArguments::List(list) if list.clauses.is_empty() && list.duplicate_treatment.is_none() => {
            &list.args
        }
        _ => return Err(wrong("CALL takes a list of expressions")),
    };
    let (mut names, mut exprs): (Vec<Option<String>>, Vec<Expr>) = (Vec::new(), Vec::new());
    for argument in given {
        let (name, argument) = match argument {
            FunctionArg::Unnamed(FunctionArgExpr::Expr(argument)) => (None, argument),
            FunctionArg::Named {
                name,
                arg: FunctionArgExpr::Expr(argument),
                operator: FunctionArgOperator::RightArrow | FunctionArgOperator::Assignment,
            } => (Some(name_of(name)), argument),
            other => return Err(wrong(format!("CALL takes expressions, not {other}"))),
        };
        if name.is_none() && names.iter().any(Option::is_some) {
            return Err(wrong("positional argument cannot follow named argument"));
        }
        names.push(name);
        exprs.push(argument.clone());
    }
    let arguments = if exprs.is_empty() { None } else { Some(prepare(query_of_row(exprs)?)?) };
    Ok(Kind::CallProcedure(Box::new(CallProcedure { name, names, arguments })))
}

/// DO, up to its end.
pub(crate) fn parse_do(parser: &mut Parser<'_>) -> Result<DoBlock> {
    expect(parser, "DO")?;
    let (mut language, mut body) = (None, None);
    while parser.peek_token_ref().token != Token::EOF {
        let again = match word(parser, "LANGUAGE") {
            true => language.replace(written_language(parser)?).is_some(),
            false => body.replace(quoted(parser)?).is_some(),
        };
        if again {
            return Err(wrong("conflicting or redundant options"));
        }
    }
    let body = body.ok_or_else(|| wrong("no inline code specified").with_hint("write DO $$ BEGIN ... END $$"))?;
    Ok(DoBlock { language: language.unwrap_or_else(|| DEFAULT_LANGUAGE.to_owned()), body })
}

/// Whether a CALL names a procedure of the system's own schema.
pub(crate) fn calls_system(function: &ast::Function) -> bool {
    parts_of(&function.name).is_ok_and(|parts| parts.len() == 2 && parts[0] == crate::names::SYSTEM)
}

fn wrong(message: impl Into<String>) -> Error {
    Error::new(ErrorKind::Syntax, message)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::script::parse;
    use crate::script::tests::one;
    use alluvia_space::DataType;
    use datafusion_common::ScalarValue;

    fn created(sql: &str) -> CreateProcedure {
        match one(sql).kind {
            Kind::Routine(statement) => match *statement {
                RoutineStatement::Create(create) => create,
                other => panic!("{sql}: {other:?}"),
            },
            other => panic!("{sql}: {other:?}"),
        }
    }

    #[test]
    fn procedures_are_made_as_in_postgresql() {
        let sql = "CREATE OR REPLACE PROCEDURE s.\"P\"(a INT, INOUT b VARCHAR(3) DEFAULT upper('é') || 'x', OUT c numeric(10, 2))\n\
                   LANGUAGE plpgsql AS $body$ BEGIN a := 1; c := '$1'; END $body$;";
        let made = created(sql);
        assert_eq!((made.name, made.or_replace), (RelationName::in_schema("s", "P"), true));
        assert_eq!((made.language.as_str(), made.body.as_str()), ("plpgsql", " BEGIN a := 1; c := '$1'; END "));
        let [a, b, c] = made.parameters.as_slice() else { panic!("{:?}", made.parameters) };
        assert_eq!((a.name.as_str(), a.mode, a.column_type), ("a", ParameterMode::In, DataType::Int32.into()));
        let text = ColumnType { data_type: DataType::Text, chars_max: Some(3) };
        assert_eq!(
            (b.mode, b.column_type, b.default.as_deref()),
            (ParameterMode::InOut, text, Some("upper('é') || 'x'"))
        );
        assert_eq!(
            (c.mode, c.column_type.data_type),
            (ParameterMode::Out, DataType::Decimal { precision: 10, scale: 2 })
        );
        let made = created("create procedure p() as 'begin null; end' language 'PLpgSQL' security definer");
        assert_eq!((made.parameters.len(), made.language.as_str(), made.is_definers), (0, "plpgsql", true));
        assert_eq!(
            created("CREATE PROCEDURE p(out a INT, in out c int, b int = 1) LANGUAGE sql AS ''").parameters.len(),
            3
        );
        // It stands in a script, and its statements end no other's.
        assert_eq!(
            parse("SELECT 1; CREATE PROCEDURE p() LANGUAGE plpgsql AS $$ BEGIN; END; $$; SELECT 2").unwrap().len(),
            3
        );
    }

    #[test]
    fn procedures_are_dropped_called_and_done() {
        let dropped = |sql: &str| match one(sql).kind {
            Kind::Routine(statement) => match *statement {
                RoutineStatement::Drop { procedures, if_exists } => (procedures, if_exists),
                other => panic!("{sql}: {other:?}"),
            },
            other => panic!("{sql}: {other:?}"),
        };
        assert_eq!(dropped("DROP PROCEDURE p"), (vec![(RelationName::bare("p"), None)], false));
        let (procedures, if_exists) = dropped("drop procedure if exists s.p(int, IN a text), q() RESTRICT");
        let types = vec![DataType::Int32.into(), DataType::Text.into()];
        let expected = vec![(RelationName::in_schema("s", "p"), Some(types)), (RelationName::bare("q"), Some(vec![]))];
        assert_eq!((procedures, if_exists), (expected, true));

        let call = one("CALL s.p(1 + $1, b => $2)");
        assert_eq!(call.parameters(), 2);
        let bound = call.bind(&[ScalarValue::Int32(Some(5)), ScalarValue::from("x")]).unwrap();
        let Kind::CallProcedure(call) = bound.kind else { panic!("{bound:?}") };
        assert_eq!((call.name, call.names), (RelationName::in_schema("s", "p"), vec![None, Some("b".to_owned())]));
        assert_eq!(call.arguments.unwrap().to_string(), "SELECT 1 + 5 AS column1, 'x' AS column2");
        assert!(matches!(one("CALL p()").kind, Kind::CallProcedure(call) if call.arguments.is_none()));
        assert!(matches!(one("CALL alluvia.flush()").kind, Kind::Call(_)));

        let Kind::Do(block) = one("DO $$ BEGIN NULL; END $$").kind else { panic!() };
        assert_eq!((block.language.as_str(), block.body.as_str()), ("plpgsql", " BEGIN NULL; END "));
        assert!(matches!(one("do language sql 'x'").kind, Kind::Do(block) if block.language == "sql"));
    }

    #[test]
    fn what_is_wrong_or_not_built_is_said() {
        for (sql, word) in [
            ("CREATE PROCEDURE p(OUT INT) LANGUAGE sql AS ''", "a parameter without a name"),
            ("CREATE PROCEDURE p(INT) LANGUAGE sql AS ''", "a parameter without a name"),
            ("CREATE PROCEDURE p(VARIADIC a INT) LANGUAGE sql AS ''", "VARIADIC"),
            ("CREATE PROCEDURE p(a INT[]) LANGUAGE sql AS ''", "[]"),
            ("CREATE PROCEDURE p() LANGUAGE plpgsql SET a = 1 AS ''", "SET in CREATE PROCEDURE"),
            ("CREATE PROCEDURE p(a INT, a INT) LANGUAGE sql AS ''", "used more than once"),
            ("CREATE PROCEDURE p(a INT = 1, b INT) LANGUAGE sql AS ''", "must also have defaults"),
            ("CREATE PROCEDURE p() LANGUAGE c AS 'a', 'b'", "in a library"),
            ("CREATE PROCEDURE alluvia.p() LANGUAGE sql AS ''", "alluvia"),
            ("DROP PROCEDURE p CASCADE", "CASCADE"),
            ("CREATE FUNCTION f() RETURNS INT LANGUAGE sql AS ''", "FUNCTION"),
            ("ALTER PROCEDURE p RENAME TO q", "PROCEDURE"),
        ] {
            let refused = one(sql);
            assert!(
                matches!(&refused.kind, Kind::Refused(error) if error.message().contains(word)),
                "{sql}: {refused:?}"
            );
        }
        for sql in [
            "CREATE PROCEDURE p() LANGUAGE plpgsql",
            "CREATE PROCEDURE p() AS ''",
            "CREATE PROCEDURE p AS ''",
            "CREATE PROCEDURE p() LANGUAGE sql LANGUAGE sql AS ''",
            "CREATE PROCEDURE p() LANGUAGE sql AS 1",
            "DROP PROCEDURE",
            "DROP PROCEDURE p(",
            "CALL p(b => 1, 2)",
            "CALL p(*)",
            "DO",
            "DO LANGUAGE sql",
            "DO $$ $$ $$ $$",
        ] {
            assert!(parse(sql).is_err(), "{sql}");
        }
    }
}

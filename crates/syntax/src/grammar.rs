//! What our SQL accepts: PostgreSQL's grammar, and the few extensions that DataFusion plans.
//!
//! Every answer is PostgreSQL's unless it is listed under "beyond PostgreSQL"; the parser asks `dialect()` where it has
//! rules for PostgreSQL that no method states. Arguments named by an expression (`json_object('a': 1)`) are left out: the
//! parser tries each argument twice for them, which makes nested calls take exponential time.
//!
//! Invariant: parsing takes time in proportion to the text. The parser tries several meanings of some words (`floor(...)` is a
//! keyword's call, and then a function's), also when they are nested, and cannot be stopped. So the expressions that it
//! begins are counted, and past a bound every one of them is refused; whoever parses asks [`Grammar::is_used_up`] then.

use crate::trees::visit::visit;
use sqlparser::ast::{BinaryOperator, Expr, UnaryOperator, Visitor};
use sqlparser::dialect::{Dialect, PostgreSqlDialect, Precedence};
use sqlparser::keywords::Keyword;
use sqlparser::parser::{Parser, ParserError};
use sqlparser::tokenizer::Token;
use std::any::TypeId;
use std::cell::Cell;
use std::ops::ControlFlow;

const POSTGRES: PostgreSqlDialect = PostgreSqlDialect {};

/// Expressions that are begun for one token: more than one for what is tried twice.
const EXPRESSIONS_PER_TOKEN: usize = 4;
/// Expressions that even a short text may begin: they take a fraction of a second.
const EXPRESSIONS_MIN: usize = 50_000;

/// The grammar of Alluvia's SQL, for one text.
#[derive(Debug)]
pub(crate) struct Grammar {
    expressions_left: Cell<usize>,
    nests_joins: bool,
}

impl Grammar {
    /// The grammar for a text of so many tokens.
    pub(crate) fn for_tokens(tokens: usize) -> Grammar {
        let expressions = tokens.saturating_mul(EXPRESSIONS_PER_TOKEN).saturating_add(EXPRESSIONS_MIN);
        Grammar { expressions_left: Cell::new(expressions), nests_joins: false }
    }

    /// The same, where the conditions of joins may stand behind other joins.
    pub(crate) fn nesting_joins(self, nests_joins: bool) -> Grammar {
        Grammar { nests_joins, ..self }
    }

    /// Whether the parser tried too much: what it made of the text since means nothing.
    pub(crate) fn is_used_up(&self) -> bool {
        self.expressions_left.get() == 0
    }

    /// Whether there is time left for a copy of an expression.
    fn counts(&self, expr: &Expr) -> bool {
        let mut parts = Parts(1);
        let _ = visit(expr, &mut parts);
        let left = self.expressions_left.get().saturating_sub(parts.0);
        self.expressions_left.set(left);
        left > 0
    }

    /// A comparison with a query in brackets behind ANY, SOME or ALL; nothing if it goes on as an expression.
    fn quantified(
        &self,
        parser: &mut Parser,
        left: &Expr,
        compare_op: BinaryOperator,
        keyword: Keyword,
    ) -> Option<Result<Expr, ParserError>> {
        if !self.counts(left) {
            return Some(Err(ParserError::RecursionLimitExceeded));
        }
        let query = parser.maybe_parse(|parser| {
            for _ in 0..2 {
                parser.next_token();
            }
            parser.expect_token(&Token::LParen)?;
            let query = parser.parse_query()?;
            parser.expect_token(&Token::RParen)?;
            Ok(query)
        });
        let (left, right) = match query {
            Ok(Some(query)) => (Box::new(left.clone()), Box::new(Expr::Subquery(query))),
            Ok(None) => return None,
            Err(error) => return Some(Err(error)),
        };
        Some(Ok(match keyword {
            Keyword::ALL => Expr::AllOp { left, compare_op, right },
            _ => Expr::AnyOp { left, compare_op, right, is_some: keyword == Keyword::SOME },
        }))
    }
}

impl Grammar {
    /// `x BETWEEN SYMMETRIC a AND b`, behind its words: whether x is between a and b, or between b and a.
    fn symmetric(&self, parser: &mut Parser, left: &Expr, negated: bool) -> Result<Expr, ParserError> {
        let low = parser.parse_subexpr(self.prec_value(Precedence::Between))?;
        parser.expect_keyword_is(Keyword::AND)?;
        let high = parser.parse_subexpr(self.prec_value(Precedence::Between))?;
        if ![left, &low, &high].into_iter().all(|part| self.counts(part)) {
            return Err(ParserError::RecursionLimitExceeded);
        }
        let way = |low: &Expr, high: &Expr| {
            let (expr, low, high) = (Box::new(left.clone()), Box::new(low.clone()), Box::new(high.clone()));
            Box::new(Expr::Between { expr, negated, low, high })
        };
        let op = if negated { BinaryOperator::And } else { BinaryOperator::Or };
        let either = Expr::BinaryOp { left: way(&low, &high), op, right: way(&high, &low) };
        Ok(Expr::Nested(Box::new(either)))
    }
}

/// The operator and the quantifier that the parser stands before, if a query that starts with a bracket or VALUES comes after them.
fn quantifier_of_query(parser: &Parser) -> Option<(BinaryOperator, Keyword)> {
    let op = match parser.peek_token_ref().token {
        Token::Eq => BinaryOperator::Eq,
        Token::Neq => BinaryOperator::NotEq,
        Token::Lt => BinaryOperator::Lt,
        Token::LtEq => BinaryOperator::LtEq,
        Token::Gt => BinaryOperator::Gt,
        Token::GtEq => BinaryOperator::GtEq,
        _ => return None,
    };
    let keyword = |at: usize| match parser.peek_nth_token_ref(at).token {
        Token::Word(ref word) if word.quote_style.is_none() => word.keyword,
        _ => Keyword::NoKeyword,
    };
    let quantifier = keyword(1);
    if !matches!(quantifier, Keyword::ANY | Keyword::SOME | Keyword::ALL) {
        return None;
    }
    let brackets = (2..).take_while(|&at| parser.peek_nth_token_ref(at).token == Token::LParen).count();
    let is_query = match keyword(2 + brackets) {
        Keyword::VALUES => brackets > 0,
        Keyword::SELECT | Keyword::WITH => brackets > 1,
        _ => false,
    };
    is_query.then_some((op, quantifier))
}

/// Whether the parser stands before a text or a number that a list or a bracket ends with, or goes on after.
fn is_value_of_list(parser: &Parser) -> bool {
    matches!(parser.peek_token_ref().token, Token::SingleQuotedString(_) | Token::Number(..))
        && matches!(parser.peek_nth_token_ref(1).token, Token::Comma | Token::RParen)
}

/// Counts expressions.
struct Parts(usize);

impl Visitor for Parts {
    type Break = ();

    fn pre_visit_expr(&mut self, _: &Expr) -> ControlFlow<()> {
        self.0 += 1;
        ControlFlow::Continue(())
    }
}

macro_rules! as_postgres {
    ($($method:ident),* $(,)?) => {
        $(fn $method(&self) -> bool {
            POSTGRES.$method()
        })*
    };
}

macro_rules! beyond_postgres {
    ($($method:ident),* $(,)?) => {
        $(fn $method(&self) -> bool {
            true
        })*
    };
}

impl Dialect for Grammar {
    fn dialect(&self) -> TypeId {
        TypeId::of::<PostgreSqlDialect>()
    }

    // `f(x := 1)`, PostgreSQL's older form.
    fn supports_named_fn_args_with_assignment_operator(&self) -> bool {
        true
    }

    fn supports_left_associative_joins_without_parens(&self) -> bool {
        !self.nests_joins
    }

    as_postgres!(
        supports_unicode_string_literal,
        supports_filter_during_aggregation,
        supports_group_by_expr,
        allow_extract_custom,
        allow_extract_single_quotes,
        supports_create_index_with_clause,
        supports_explain_with_utility_options,
        supports_listen_notify,
        supports_factorial_operator,
        supports_bitwise_shift_operators,
        supports_comment_on,
        supports_load_extension,
        supports_named_fn_args_with_colon_operator,
        supports_empty_projections,
        supports_nested_comments,
        supports_string_escape_constant,
        supports_numeric_literal_underscores,
        supports_array_typedef_with_brackets,
        supports_geometric_types,
        supports_set_names,
        supports_alter_column_type_using,
        supports_notnull_operator,
        supports_interval_options,
        supports_insert_table_alias,
        supports_create_table_like_parenthesized,
        supports_select_wildcard_with_alias,
        supports_comma_separated_trim,
        supports_xml_expressions,
    );

    // DataFusion plans these, so they are let through; what it would ignore is refused after parsing.
    beyond_postgres!(
        supports_select_wildcard_exclude,
        supports_select_wildcard_except,
        supports_select_wildcard_replace,
        supports_window_clause_named_window_reference,
        supports_window_function_null_treatment_arg,
        supports_order_by_all,
        supports_dictionary_syntax,
        support_map_literal_syntax,
        supports_struct_literal,
        supports_in_empty_list,
        supports_from_first_select,
        // Parsed so that they can be refused by name.
        supports_table_versioning,
        supports_table_hints,
    );

    fn identifier_quote_style(&self, identifier: &str) -> Option<char> {
        POSTGRES.identifier_quote_style(identifier)
    }

    fn is_delimited_identifier_start(&self, ch: char) -> bool {
        POSTGRES.is_delimited_identifier_start(ch)
    }

    fn is_identifier_start(&self, ch: char) -> bool {
        POSTGRES.is_identifier_start(ch)
    }

    fn is_identifier_part(&self, ch: char) -> bool {
        POSTGRES.is_identifier_part(ch)
    }

    fn is_reserved_for_identifier(&self, keyword: Keyword) -> bool {
        POSTGRES.is_reserved_for_identifier(keyword)
    }

    fn is_custom_operator_part(&self, ch: char) -> bool {
        POSTGRES.is_custom_operator_part(ch)
    }

    fn parse_prefix(&self, parser: &mut Parser) -> Option<Result<Expr, ParserError>> {
        let left = self.expressions_left.get().saturating_sub(1);
        self.expressions_left.set(left);
        if left == 0 {
            // The one error that the parser does not take for a reason to try another meaning.
            return Some(Err(ParserError::RecursionLimitExceeded));
        }
        // `@ a - b` is `@ (a - b)`; the parser would take what is next to it. And `- a ^ b` is `(- a) ^ b`, where it would take all of the power.
        let sign = match parser.peek_token_ref().token {
            Token::PGSquareRoot => Some((UnaryOperator::PGSquareRoot, Precedence::PgOther)),
            Token::PGCubeRoot => Some((UnaryOperator::PGCubeRoot, Precedence::PgOther)),
            Token::AtSign => Some((UnaryOperator::PGAbs, Precedence::PgOther)),
            Token::Minus => Some((UnaryOperator::Minus, Precedence::Caret)),
            Token::Plus => Some((UnaryOperator::Plus, Precedence::Caret)),
            _ => None,
        };
        if let Some((op, looser)) = sign {
            parser.next_token();
            let of = parser.parse_subexpr(self.prec_value(looser));
            return Some(of.map(|of| Expr::UnaryOp { op, expr: Box::new(of) }));
        }
        // Of each value of a list the parser would ask first whether it is the name of a type, and make an error of that it is not.
        is_value_of_list(parser).then(|| parser.parse_value().map(Expr::Value))
    }

    /// `a IS DISTINCT FROM b AND c` is `(a IS DISTINCT FROM b) AND c`; the parser would take `b AND c` for the right side. And of
    /// `a = ANY (VALUES (1), (2))` or `a = ANY ((SELECT 1) UNION (SELECT 2))` it knows no subquery.
    fn parse_infix(&self, parser: &mut Parser, left: &Expr, _precedence: u8) -> Option<Result<Expr, ParserError>> {
        if let Some((compare_op, keyword)) = quantifier_of_query(parser) {
            return self.quantified(parser, left, compare_op, keyword);
        }
        // The parser knows it only directly behind a name, a literal or brackets.
        if parser.parse_keyword(Keyword::COLLATE) {
            if !self.counts(left) {
                return Some(Err(ParserError::RecursionLimitExceeded));
            }
            let expr = Box::new(left.clone());
            return Some(parser.parse_object_name(false).map(|collation| Expr::Collate { expr, collation }));
        }
        let is_outside = parser.parse_keywords(&[Keyword::NOT, Keyword::BETWEEN, Keyword::SYMMETRIC]);
        if is_outside || parser.parse_keywords(&[Keyword::BETWEEN, Keyword::SYMMETRIC]) {
            return Some(self.symmetric(parser, left, is_outside));
        }
        use Keyword::{DISTINCT, FROM, IS, NOT};
        let is_negated = parser.parse_keywords(&[IS, NOT, DISTINCT, FROM]);
        if !is_negated && !parser.parse_keywords(&[IS, DISTINCT, FROM]) {
            return None;
        }
        if !self.counts(left) {
            return Some(Err(ParserError::RecursionLimitExceeded));
        }
        let (left, right) = (Box::new(left.clone()), parser.parse_subexpr(self.prec_value(Precedence::Is)));
        Some(right.map(|right| match is_negated {
            true => Expr::IsNotDistinctFrom(left, Box::new(right)),
            false => Expr::IsDistinctFrom(left, Box::new(right)),
        }))
    }

    fn get_next_precedence(&self, parser: &Parser) -> Option<Result<u8, ParserError>> {
        POSTGRES.get_next_precedence(parser)
    }

    fn prec_value(&self, precedence: Precedence) -> u8 {
        POSTGRES.prec_value(precedence)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is taken from the parser for speed means what the parser makes of it.
    #[test]
    fn values_of_lists_are_what_the_parser_makes_of_them() {
        for sql in [
            "SELECT 1, 'a', (2), ('b'), f(3, 'x'), f('y'), -(1), - 1, ('1')::INT, '1'::INT, 1.5e3, (1) + 2, ('a' || 'b')",
            "SELECT 'a' COLLATE \"C\", (DATE '2020-01-01'), INTERVAL '1' DAY, (INTERVAL '2 days'), (E'a\\n', 'b'), ('a'), (N'b')",
            "SELECT a FROM t WHERE b IN ('x', 2, NULL, 'y', U&'z') AND (c, d) IN ((1, 'p'), (2, 'q')) AND e BETWEEN 1 AND (3)",
            "INSERT INTO t VALUES (1, 'a', 2.5, -3), (4, 'it''s', 5, NULL), ($1, 'b', 6, 7)",
            "SELECT extract(year FROM a), substring('abc' FROM 2), position('a' IN 'b'), trim('x'), ARRAY['a', 'b'], (1, 2) = (3, 4)",
        ] {
            let ours = Parser::parse_sql(&Grammar::for_tokens(1_000), sql).expect(sql);
            assert_eq!(ours, Parser::parse_sql(&POSTGRES, sql).expect(sql), "{sql}");
        }
    }

    /// With brackets around each operator, and `[]` where some were written.
    fn shape(expr: &Expr) -> String {
        match expr {
            Expr::BinaryOp { left, op, right } => format!("({} {op} {})", shape(left), shape(right)),
            Expr::UnaryOp { op, expr } => format!("({op} {})", shape(expr)),
            Expr::Nested(expr) => format!("[{}]", shape(expr)),
            other => other.to_string(),
        }
    }

    #[test]
    fn signs_bind_tighter_than_powers() {
        for (written, read) in [
            ("-a ^ 2", "((- a) ^ 2)"),
            ("- (a ^ 2)", "(- [(a ^ 2)])"),
            ("3 - -2 ^ 2", "(3 - ((- 2) ^ 2))"),
            ("2 ^ -a ^ b", "((2 ^ (- a)) ^ b)"),
            ("+a ^ 2 * -b", "(((+ a) ^ 2) * (- b))"),
            ("- - a ^ 2", "((- (- a)) ^ 2)"),
            ("-a * b + c", "(((- a) * b) + c)"),
            ("-a::int", "(- a::INT)"),
        ] {
            let grammar = Grammar::for_tokens(1_000);
            let parsed = Parser::new(&grammar).try_with_sql(written).expect(written).parse_expr().expect(written);
            assert_eq!(shape(&parsed), read, "{written}");
        }
    }
}

//! `AT TIME ZONE`.
//!
//! Invariant: it is a call of `timezone` with the zone first, as PostgreSQL has it; DataFusion 55.2 plans a cast, which means something else.
//!
//! Mends apache/datafusion#10368, #12218 (in 55.2).
//! Held by `slt/meaning.slt` (`AT TIME ZONE 'Europe/Berlin'`).

use crate::trees::rewriting::{call, rewrite};
use alluvia_types::Result;
use sqlparser::ast::{Expr, Query, Value};
use sqlparser::keywords::Keyword;
use sqlparser::tokenizer::{Token, TokenWithSpan};

/// Whether a statement of these tokens may ask for times of a zone.
pub(crate) fn may_have(tokens: &[TokenWithSpan]) -> bool {
    tokens.iter().any(|token| matches!(&token.token, Token::Word(word) if word.keyword == Keyword::ZONE))
}

/// Makes calls of a query's `AT TIME ZONE`.
pub fn write_out(query: &mut Query) -> Result<()> {
    let finds = |expr: &Expr| matches!(expr, Expr::AtTimeZone { .. });
    rewrite(query, finds, &mut |expr| {
        if let Expr::AtTimeZone { timestamp, time_zone } = expr {
            let null = || Box::new(Expr::Value(Value::Null.into()));
            let (zone, time) = (std::mem::replace(time_zone, null()), std::mem::replace(timestamp, null()));
            *expr = call("timezone", vec![*zone, *time]);
        }
        Ok(())
    })
}

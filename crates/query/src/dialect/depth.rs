//! How deep a statement's tree will be, judged from its tokens before a tree exists.
//!
//! Parsing, planning, evaluating and dropping a tree all recurse, and a Rust stack overflow aborts the process. So the bound
//! is kept before the first tree is built. The estimate is never below the depth of operators, parentheses, CASE and set
//! operations: every operator of a chain counts, because `a + b + c` becomes a tree as deep as the chain is long. Commas end
//! a chain, so lists of any length are free.

use alluvia_types::{Error, ErrorKind, Result};
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};

/// The deepest statement that is planned. Measured: at this depth every operator evaluates within half of a 2 MiB stack.
pub(crate) const DEPTH_MAX: usize = 500;

/// One open bracket.
#[derive(Default)]
struct Level {
    /// Operators since the last comma or clause.
    chain: usize,
    /// Open CASEs, and set operations and joins so far.
    structure: usize,
}

/// The estimated depth of one statement, or an error that says where the bound is passed.
pub(crate) fn check(tokens: &[TokenWithSpan]) -> Result<usize> {
    let mut levels = vec![Level::default()];
    let mut depth = 1;
    let mut deepest = 1;
    for token in tokens {
        let mut level = levels.pop().unwrap_or_default();
        let before = level.chain + level.structure;
        match &token.token {
            Token::LParen | Token::LBracket | Token::LBrace => {
                levels.push(level);
                levels.push(Level::default());
                depth += 1;
                deepest = deepest.max(depth);
                if deepest > DEPTH_MAX {
                    return Err(too_deep(token));
                }
                continue;
            }
            Token::RParen | Token::RBracket | Token::RBrace => {
                // An unmatched one is the parser's to refuse.
                if !levels.is_empty() {
                    depth -= 1 + before;
                    continue;
                }
            }
            Token::Comma => level.chain = 0,
            Token::Word(word) if word.quote_style.is_none() => match word.keyword {
                Keyword::CASE | Keyword::UNION | Keyword::EXCEPT | Keyword::INTERSECT | Keyword::JOIN => {
                    level.structure += 1;
                }
                Keyword::END => level.structure = level.structure.saturating_sub(1),
                Keyword::SELECT
                | Keyword::FROM
                | Keyword::WHERE
                | Keyword::ON
                | Keyword::HAVING
                | Keyword::BY
                | Keyword::WHEN
                | Keyword::THEN
                | Keyword::ELSE => level.chain = 0,
                Keyword::AND
                | Keyword::OR
                | Keyword::NOT
                | Keyword::IS
                | Keyword::IN
                | Keyword::LIKE
                | Keyword::ILIKE
                | Keyword::SIMILAR
                | Keyword::BETWEEN
                | Keyword::COLLATE
                | Keyword::AT
                | Keyword::EXPLAIN => level.chain += 1,
                _ => {}
            },
            Token::Whitespace(_)
            | Token::Word(_)
            | Token::Number(..)
            | Token::SingleQuotedString(_)
            | Token::Period
            | Token::SemiColon => {}
            // Operators, and anything rare: counting too much is safe.
            _ => level.chain += 1,
        }
        depth = depth + level.chain + level.structure - before;
        levels.push(level);
        deepest = deepest.max(depth);
        if deepest > DEPTH_MAX {
            return Err(too_deep(token));
        }
    }
    Ok(deepest)
}

fn too_deep(token: &TokenWithSpan) -> Error {
    let start = token.span.start;
    Error::new(
        ErrorKind::Syntax,
        format!("the statement is nested more than {DEPTH_MAX} deep at line {}, column {}", start.line, start.column),
    )
    .with_hint("a chain of operators counts as nesting; write many alternatives as x IN (...), or join with VALUES")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dialect::grammar::Grammar;
    use datafusion::sql::sqlparser::tokenizer::Tokenizer;

    fn depth(sql: &str) -> Result<usize> {
        check(&Tokenizer::new(&Grammar, sql).tokenize_with_location().unwrap())
    }

    #[test]
    fn long_lists_are_shallow_and_long_chains_are_deep() {
        let list = format!("SELECT * FROM t WHERE a IN ({})", vec!["-1"; 100_000].join(", "));
        assert!(depth(&list).unwrap() < 5);
        let rows = format!("INSERT INTO t VALUES {}", vec!["(-1, 'a')"; 10_000].join(", "));
        assert!(depth(&rows).unwrap() < 5);
        let chain = format!("SELECT {}", vec!["1"; DEPTH_MAX + 1].join(" + "));
        assert_eq!(depth(&chain).unwrap_err().kind(), ErrorKind::Syntax);
        let nested = format!("SELECT {}1{}", "(".repeat(10_000), ")".repeat(10_000));
        assert!(depth(&nested).unwrap_err().to_string().contains("line 1"));
    }

    #[test]
    fn brackets_give_back_what_they_held() {
        let sql = format!("SELECT {}", ["(1 + 2 * (3 - 4))"; 5].join(" + "));
        assert!(depth(&sql).unwrap() < 12);
        assert!(depth("SELECT CASE WHEN a THEN 1 END, CASE WHEN a THEN 1 END").unwrap() < 5);
        assert!(depth(") ) ]").is_ok());
    }
}

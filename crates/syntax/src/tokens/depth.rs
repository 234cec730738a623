//! How deep a statement's tree will be, judged from its tokens before a tree exists.
//!
//! Parsing, planning, evaluating and dropping a tree all recurse, and a Rust stack overflow aborts the process. So the bound
//! is kept before the first tree is built.
//!
//! Invariants:
//! - The estimate is never below the depth of operators, prefixes, brackets, types, CASE and set operations: every operator of a
//!   chain counts, because `a + b + c` becomes a tree as deep as the chain is long. Commas end a chain, so lists of any
//!   length are free; so do the words that begin a clause. Chains of AND and of OR are no deeper than [`crate::chains`] makes
//!   them, up to a length; what stands between them is theirs alone.
//! - No text gets below it by using a clause's word as a name: a word where an operand or a name belongs (`1 + by + when`,
//!   `t.from`, `AS end`) ends nothing. What CASE holds has a level of its own, so that its words end only its own chains.
//! - A subquery in FROM under `p` parentheses is parsed up to `p` times, as the parser tries what they may mean: the
//!   product over all that are open is bounded, too. (What else the parser tries twice is bounded by [`crate::grammar`].)

use crate::chains::{AS_READ, LONGEST};
use alluvia_types::{Error, ErrorKind, Result};
use sqlparser::keywords::Keyword;
use sqlparser::tokenizer::{Token, TokenWithSpan};

/// The deepest statement that is planned. Measured: at this depth every operator evaluates within half of a 2 MiB stack.
pub const DEPTH_MAX: usize = 500;

/// How often a subquery may be parsed, at most.
const PARSES_MAX: usize = 4096;

/// One open bracket or CASE.
struct Level {
    is_case: bool,
    /// Operators since the last comma, clause, AND or OR, and the most that there were between two of these.
    chain: usize,
    longest: usize,
    /// ANDs since the last OR, the most that count, and ORs, since the last comma or clause.
    ands: usize,
    most_ands: usize,
    ors: usize,
    /// BETWEENs whose AND is still to come.
    betweens: usize,
    /// Set operations and joins so far.
    structure: usize,
    /// How often the parser may read what stands here.
    parses: usize,
    /// What its end says of the next word.
    then: Before,
}

/// What the token before says of the next word.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Before {
    /// An operator, AS or OVER: an operand or a name follows.
    Operator,
    /// OPERATOR, whose operand follows its bracket.
    Custom,
    /// AT: an operator if TIME ZONE follows, or else a name.
    At,
    /// A period: a name follows, whatever it says.
    Period,
    /// DISTINCT, behind which FROM is an operator's half.
    Distinct,
    Other,
}

impl Level {
    fn new(is_case: bool, parses: usize, then: Before) -> Level {
        Level { is_case, chain: 0, longest: 0, ands: 0, most_ands: 0, ors: 0, betweens: 0, structure: 0, parses, then }
    }

    /// The depth of its operators.
    fn operators(&self) -> usize {
        logical(self.ors) + self.most_ands.max(logical(self.ands)) + self.longest.max(self.chain)
    }
}

/// How deep a chain of so many ANDs, or of so many ORs, is.
fn logical(operators: usize) -> usize {
    operators.min(AS_READ) + operators.saturating_sub(LONGEST)
}

/// The open levels, innermost last, and their summed depth.
struct Levels {
    outer: Vec<Level>,
    top: Level,
    depth: usize,
}

impl Levels {
    fn open(&mut self, is_case: bool, then: Before) {
        let inner = Level::new(is_case, self.top.parses, then);
        self.outer.push(std::mem::replace(&mut self.top, inner));
        self.depth += 1;
    }

    fn close(&mut self) -> Before {
        let Some(outer) = self.outer.pop() else { return Before::Other };
        self.depth -= 1 + self.top.operators() + self.top.structure;
        std::mem::replace(&mut self.top, outer).then
    }

    /// Closes a bracket, and each CASE in it that has no END: `case` may be a name. A bracket that was never opened is the
    /// parser's to refuse.
    fn close_bracket(&mut self) -> Before {
        if self.top.is_case && self.outer.iter().skip(1).all(|level| level.is_case) {
            return Before::Other;
        }
        while self.top.is_case {
            self.close();
        }
        self.close()
    }

    fn change(&mut self, change: impl FnOnce(&mut Level)) {
        self.depth -= self.top.operators();
        change(&mut self.top);
        self.depth += self.top.operators();
    }

    fn operator(&mut self) {
        self.change(|level| level.chain += 1);
    }

    fn between(&mut self) {
        self.change(|level| {
            level.chain += 1;
            level.betweens += 1;
        });
    }

    /// AND: of a BETWEEN that waits for it, or else of a chain.
    fn and(&mut self) {
        self.change(|level| match level.betweens.checked_sub(1) {
            Some(betweens) => {
                level.betweens = betweens;
                level.chain += 1;
            }
            None => {
                level.ands += 1;
                level.longest = level.longest.max(std::mem::take(&mut level.chain));
            }
        });
    }

    fn or(&mut self) {
        self.change(|level| {
            level.ors += 1;
            level.most_ands = level.most_ands.max(logical(std::mem::take(&mut level.ands)));
            level.longest = level.longest.max(std::mem::take(&mut level.chain));
        });
    }

    fn part(&mut self) {
        self.top.structure += 1;
        self.depth += 1;
    }

    fn end_chain(&mut self) {
        self.change(|level| {
            (level.chain, level.longest, level.ands, level.most_ands, level.ors) = (0, 0, 0, 0, 0);
            level.betweens = 0;
        });
    }
}

/// The estimated depth of one statement, or an error that says where a bound is passed.
pub fn check(tokens: &[TokenWithSpan]) -> Result<usize> {
    let base = Level::new(false, 1, Before::Other);
    let mut levels = Levels { outer: Vec::new(), top: base, depth: 1 };
    let mut deepest = 1;
    let mut before = Before::Other;
    // Round brackets that were opened right before this token.
    let mut parentheses = 0;
    for token in tokens {
        let mut now = Before::Other;
        match &token.token {
            Token::Whitespace(_) => continue,
            Token::LParen if before == Before::Custom => levels.open(false, Before::Operator),
            Token::LParen | Token::LBracket | Token::LBrace => levels.open(false, Before::Other),
            Token::RParen | Token::RBrace => now = levels.close_bracket(),
            // `a[1][2]` and `int[][]` are chains, too.
            Token::RBracket => {
                now = levels.close_bracket();
                levels.operator();
            }
            Token::Comma => levels.end_chain(),
            Token::Period => now = Before::Period,
            Token::Word(word) if word.quote_style.is_none() && before != Before::Period => {
                now = self::word(word.keyword, before, parentheses, &mut levels);
            }
            Token::Word(_)
            | Token::Number(..)
            | Token::SingleQuotedString(_)
            | Token::EscapedStringLiteral(_)
            | Token::NationalStringLiteral(_)
            | Token::UnicodeStringLiteral(_)
            | Token::HexStringLiteral(_)
            | Token::DollarQuotedString(_)
            | Token::Placeholder(_)
            | Token::SemiColon => {}
            // Operators, and anything rare: counting too much is safe.
            _ => {
                levels.operator();
                now = Before::Operator;
            }
        }
        before = now;
        parentheses = if token.token == Token::LParen { parentheses + 1 } else { 0 };
        deepest = deepest.max(levels.depth);
        if deepest > DEPTH_MAX {
            return Err(too_deep(token));
        }
        if levels.top.parses > PARSES_MAX {
            return Err(too_often(token));
        }
    }
    Ok(deepest)
}

/// Takes in a word that may be a keyword, and says what it is to the next one.
fn word(keyword: Keyword, before: Before, parentheses: usize, levels: &mut Levels) -> Before {
    match keyword {
        Keyword::CASE => levels.open(true, Before::Other),
        Keyword::END if levels.top.is_case && before != Before::Operator => return levels.close(),
        Keyword::WHEN | Keyword::THEN | Keyword::ELSE if levels.top.is_case && before != Before::Operator => {
            levels.end_chain();
        }
        Keyword::UNION
        | Keyword::EXCEPT
        | Keyword::INTERSECT
        | Keyword::MINUS
        | Keyword::JOIN
        | Keyword::STRAIGHT_JOIN
        | Keyword::APPLY
        | Keyword::PIVOT
        | Keyword::UNPIVOT
        | Keyword::MATCH_RECOGNIZE => levels.part(),
        Keyword::FROM if before == Before::Distinct => return Before::Operator,
        Keyword::SELECT | Keyword::FROM | Keyword::WHERE | Keyword::ON | Keyword::HAVING | Keyword::BY
            if before == Before::Other =>
        {
            levels.end_chain();
        }
        Keyword::AND | Keyword::OR => {
            if keyword == Keyword::AND {
                levels.and()
            } else {
                levels.or()
            }
            return Before::Operator;
        }
        Keyword::BETWEEN => {
            levels.between();
            return Before::Operator;
        }
        Keyword::XOR
        | Keyword::NOT
        | Keyword::IS
        | Keyword::IN
        | Keyword::LIKE
        | Keyword::ILIKE
        | Keyword::RLIKE
        | Keyword::REGEXP
        | Keyword::SIMILAR
        | Keyword::MATCH
        | Keyword::MEMBER
        | Keyword::OVERLAPS
        | Keyword::DIV
        | Keyword::COLLATE
        | Keyword::INTERVAL
        | Keyword::PRIOR
        | Keyword::EXPLAIN => {
            levels.operator();
            return Before::Operator;
        }
        // Behind its operand: no operand follows.
        Keyword::NOTNULL => levels.operator(),
        Keyword::OPERATOR => {
            levels.operator();
            return Before::Custom;
        }
        Keyword::AS | Keyword::OVER => return Before::Operator,
        Keyword::AT => {
            levels.operator();
            return Before::At;
        }
        Keyword::TIME if before == Before::At => return Before::Operator,
        // AT TIME ZONE, SIMILAR TO, LIKE ANY: the operand follows.
        Keyword::ZONE | Keyword::TO | Keyword::ANY if before == Before::Operator => {
            return Before::Operator;
        }
        Keyword::DISTINCT => return Before::Distinct,
        _ => {}
    }
    if parentheses > 1 && matches!(keyword, Keyword::SELECT | Keyword::WITH | Keyword::FROM | Keyword::VALUES) {
        levels.top.parses = levels.top.parses.saturating_mul(parentheses);
    }
    Before::Other
}

fn too_deep(token: &TokenWithSpan) -> Error {
    let start = token.span.start;
    Error::new(
        ErrorKind::Syntax,
        format!("the statement is nested more than {DEPTH_MAX} deep at line {}, column {}", start.line, start.column),
    )
    .with_hint("a chain of operators counts as nesting; write many alternatives as x IN (...), or join with VALUES")
}

fn too_often(token: &TokenWithSpan) -> Error {
    let start = token.span.start;
    Error::new(
        ErrorKind::Syntax,
        format!("too many subqueries inside doubled parentheses at line {}, column {}", start.line, start.column),
    )
    .with_hint("leave out parentheses that are not needed, or name the subqueries in WITH")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::grammar::Grammar;
    use sqlparser::tokenizer::Tokenizer;

    fn depth(sql: &str) -> Result<usize> {
        check(&Tokenizer::new(&Grammar::for_tokens(0), sql).tokenize_with_location().unwrap())
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

    /// Left-deep chains that end in no list or clause, each written with words that could seem to end them.
    #[test]
    fn no_chain_hides_behind_names_that_are_clauses_words() {
        let chain = |link: &str, by: &str| format!("SELECT {}", vec![link; DEPTH_MAX + 1].join(by));
        for sql in [
            chain("CASE WHEN true THEN 1 END", " + "),
            chain("CASE WHEN by THEN $1 END", " + "),
            chain("by", " + "),
            chain("t.when", " + "),
            chain("1 BETWEEN 1 AND 1", " = "),
            format!("SELECT 1{}", " BETWEEN 1 AND 1".repeat(DEPTH_MAX)),
            chain("sum(a) OVER by", " + "),
            chain("by", " AT TIME ZONE "),
            chain("by", " SIMILAR TO "),
            chain("by", " LIKE ANY "),
            chain("by", " IS DISTINCT FROM "),
            chain("by", " OPERATOR(pg_catalog.+) "),
            chain("true", " XOR "),
            chain("SELECT 1", " MINUS "),
            chain("1 AS end", " UNION ALL SELECT "),
            chain("interval", " "),
            format!("SELECT CASE WHEN a THEN {}", vec!["when"; DEPTH_MAX + 1].join(" + ")),
            format!("SELECT 1{}", " NOTNULL".repeat(DEPTH_MAX)),
            format!("SELECT 1{}", " MEMBER OF (1)".repeat(DEPTH_MAX)),
            format!("SELECT 1::int{}", "[]".repeat(DEPTH_MAX)),
            format!("SELECT a{}", "[1]".repeat(DEPTH_MAX)),
            format!("SELECT 1 FROM t{}", " JOIN t AS end ON true".repeat(DEPTH_MAX)),
            format!("SELECT 1 FROM t{}", " PIVOT (sum(a) FOR b IN (1))".repeat(DEPTH_MAX)),
        ] {
            assert!(depth(&sql).is_err(), "{}...", sql.chars().take(80).collect::<String>());
        }
    }

    #[test]
    fn chains_of_and_and_or_are_no_depth_up_to_a_length() {
        let chain = |link: &str, by: &str, count: usize| format!("SELECT {}", vec![link; count].join(by));
        for by in [" AND ", " OR "] {
            assert!(depth(&chain("a = $1", by, 3_000)).unwrap() < 80);
            assert!(depth(&chain("a = $1", by, LONGEST + DEPTH_MAX)).is_err());
        }
        assert!(depth(&chain("a = $1 AND b BETWEEN 1 AND 2", " OR ", 2_000)).unwrap() < 80);
        // What is deep between them is deep.
        let deep = vec!["1"; DEPTH_MAX].join(" + ");
        assert!(depth(&format!("SELECT {deep} = 1 OR {deep} = 1 OR {deep} = 2")).is_err());
    }

    #[test]
    fn statements_that_people_write_are_shallow() {
        let ended = "CASE WHEN a = $1 AND b THEN E'x' ELSE $2 END";
        let list = format!("SELECT {} FROM t WHERE a = $3 ORDER BY 1", vec![ended; 2_000].join(", "));
        assert!(depth(&list).unwrap() < 8);
        let ended = vec!["CASE WHEN a THEN at ELSE t.end END"; 2_000].join(", ");
        assert!(depth(&format!("SELECT {ended}, CASE WHEN a THEN 1 ELSE at END FROM t")).unwrap() < 8);
        let whens = format!("SELECT CASE{} END", " WHEN a = $1 OR b THEN 'x'".repeat(2_000));
        assert!(depth(&whens).unwrap() < 8);
        let rows =
            format!("INSERT INTO t VALUES {}", vec!["($1, E'a', interval '1 day', ARRAY[[1], [2]])"; 2_000].join(", "));
        assert!(depth(&rows).unwrap() < 8);
        let columns = vec!["t.at, t.case, t.from, at AS end, a::int[]"; 2_000].join(", ");
        assert!(depth(&format!("SELECT {columns} FROM t JOIN u ON t.on = u.by")).unwrap() < 8);
    }

    #[test]
    fn subqueries_under_doubled_parentheses_are_bounded() {
        let nested = |open: &str, depth: usize| {
            format!("SELECT * FROM {}t{}", open.repeat(depth), ") AS x NATURAL JOIN t)".repeat(depth))
        };
        assert!(depth(&nested("((SELECT * FROM ", 8)).is_ok());
        assert!(depth(&nested("((SELECT * FROM ", 13)).unwrap_err().message().contains("doubled parentheses"));
        assert!(depth(&nested("(SELECT * FROM ", 100)).is_ok());
        assert!(depth(&format!("SELECT 1 WHERE {}a{}", "(".repeat(100), ")".repeat(100))).is_ok());
    }

    #[test]
    fn brackets_give_back_what_they_held() {
        let sql = format!("SELECT {}", ["(1 + 2 * (3 - 4))"; 5].join(" + "));
        assert!(depth(&sql).unwrap() < 12);
        assert!(depth("SELECT CASE WHEN a THEN 1 END, CASE WHEN a THEN 1 END").unwrap() < 5);
        assert!(depth(") ) ]").is_ok());
        assert!(depth("CASE ) CASE ) END ) END END").is_ok());
    }
}

//! `\h`: how statements are written, as far as a line or two can say it. docs/SQL.md has all of it.

use alluvia_types::{Error, ErrorKind, Result, near_names};

/// Statements by their first words, and how they are written.
const STATEMENTS: [(&str, &str); 35] = [
    (
        "ALTER TABLE",
        "ALTER TABLE t ADD [COLUMN] c TYPE | DROP [COLUMN] c | RENAME [COLUMN] a TO b | RENAME TO u | OWNER TO role | SET (option = value)",
    ),
    ("BEGIN", "BEGIN [READ ONLY]: what follows is one batch, up to COMMIT or ROLLBACK"),
    (
        "CALL",
        "CALL alluvia.flush() | merge() | purge(['t']) | build_cuboids() | pin_cuboid('t', 'level, ...') | cancel(session) | \
         forget_segment('t', id)",
    ),
    ("COMMIT", "COMMIT: all that came since BEGIN, as one batch"),
    (
        "COPY",
        "COPY t [(columns)] FROM 'FILE or URL' [(FORMAT csv | parquet | json | arrow, ...)]\nCOPY t | (SELECT ...) TO 'FILE' [(...)]",
    ),
    ("CREATE ROLE", "CREATE ROLE name [LOGIN] [PASSWORD '...'] [SUPERUSER]"),
    (
        "CREATE TABLE",
        "CREATE TABLE [IF NOT EXISTS] t (column TYPE [NOT NULL] [PRIMARY KEY] [DEFAULT value], ... [, CHECK (condition)])\n  \
         [WITH (dimensions = 'place(country, city); day', measures = 'price', freshness = '5s')]\n\
         CREATE TABLE t [WITH (...)] AS SELECT ...",
    ),
    ("DECLARE", "DECLARE name CURSOR FOR SELECT ...; FETCH n FROM name; CLOSE name (within a transaction)"),
    ("DELETE", "DELETE FROM t [USING u] [WHERE condition] [RETURNING ...]"),
    ("DESCRIBE", "DESCRIBE t: its columns; \\d t is the same"),
    ("DROP ROLE", "DROP ROLE [IF EXISTS] name"),
    ("DROP TABLE", "DROP TABLE [IF EXISTS] t, ..."),
    ("EXPLAIN", "EXPLAIN [ANALYZE] [VERBOSE] SELECT ...: how it is answered; with ANALYZE it runs, and is measured"),
    ("FETCH", "FETCH n FROM cursor"),
    ("GRANT", "GRANT SELECT | INSERT | UPDATE | DELETE | ALL ON t TO role | GRANT role TO other"),
    (
        "INSERT",
        "INSERT INTO t [(columns)] VALUES (...), ... | SELECT ... [ON CONFLICT (key) DO NOTHING | DO UPDATE SET ...] [RETURNING ...]",
    ),
    (
        "MERGE",
        "MERGE INTO t USING u ON condition WHEN MATCHED [AND ...] THEN UPDATE SET ... | DELETE WHEN NOT MATCHED THEN INSERT ...",
    ),
    ("PREPARE", "PREPARE name AS statement with $1, $2, ...; EXECUTE name(values); DEALLOCATE name"),
    ("RELEASE", "RELEASE [SAVEPOINT] name"),
    ("RESET", "RESET setting | ALL"),
    ("REVOKE", "REVOKE SELECT | ... ON t FROM role | REVOKE role FROM other"),
    ("ROLLBACK", "ROLLBACK [TO savepoint]"),
    ("SAVEPOINT", "SAVEPOINT name"),
    (
        "SELECT",
        "[WITH name AS (SELECT ...)] SELECT [DISTINCT] ... FROM ... [TABLESAMPLE SYSTEM (1)] WHERE ... GROUP BY ... HAVING ... ORDER BY ... LIMIT n",
    ),
    ("SET", "SET [LOCAL] setting = value"),
    ("SET FRESHNESS", "SET freshness = '0s' | '5s' | 'merged': how old answers may be; the older, the cheaper"),
    (
        "SET MAX_ERROR",
        "SET max_error = 0.01: answers may be estimates that are off by 1 % at most (in 95 of 100); 0 is exact",
    ),
    ("SHOW", "SHOW setting | ALL | TABLES | CREATE TABLE t"),
    ("SHOW CREATE TABLE", "SHOW CREATE TABLE t: the statement that makes it"),
    ("SHOW TABLES", "SHOW TABLES: \\d is the same"),
    ("TABLE", "TABLE t: SELECT * FROM t"),
    ("TRUNCATE", "TRUNCATE t, ...: all rows go"),
    ("UPDATE", "UPDATE t SET column = value, ... [FROM u] [WHERE condition] [RETURNING ...]"),
    ("VALUES", "VALUES (1, 'a'), (2, 'b')"),
    ("WITH", "WITH [RECURSIVE] name [(columns)] AS (SELECT ...) SELECT ..."),
];

/// What `\h` prints of these words; of none, which statements there are.
///
/// # Errors
/// `UndefinedObject`, with near statements, where no statement begins so.
pub fn of(words: &str) -> Result<String> {
    let wanted = words.to_ascii_uppercase();
    if wanted.is_empty() {
        let names: Vec<&str> = STATEMENTS.iter().map(|(name, _)| *name).collect();
        let lines: Vec<String> = names.chunks(4).map(row).collect();
        let all = lines.join("\n");
        return Ok(format!("{all}\n\\h with one of these says how it is written; docs/SQL.md has all.\n"));
    }
    let begins = |name: &str| name.strip_prefix(&wanted).is_some_and(|rest| rest.is_empty() || rest.starts_with(' '));
    let found: Vec<&str> = STATEMENTS.iter().filter(|(name, _)| begins(name)).map(|(_, written)| *written).collect();
    if !found.is_empty() {
        return Ok(format!("{}\n", found.join("\n")));
    }
    let near = near_names(&wanted, STATEMENTS.iter().map(|(name, _)| *name));
    let hint = match near.as_slice() {
        [] => "\\h lists what there is help for".to_owned(),
        near => format!("did you mean \\h {}?", near.join(" or \\h ")),
    };
    Err(Error::new(ErrorKind::UndefinedObject, format!("there is no help for {words}")).with_hint(hint))
}

fn row(names: &[&str]) -> String {
    let padded: Vec<String> = names.iter().map(|name| format!("{name:<20}")).collect();
    format!("  {}", padded.concat().trim_end())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statements_are_found_by_their_first_words() {
        assert!(of("create table").unwrap().starts_with("CREATE TABLE [IF NOT EXISTS]"));
        assert_eq!(of("set").unwrap().lines().count(), 3);
        assert!(of("").unwrap().contains("  ALTER TABLE"));
        assert_eq!(of("selct").unwrap_err().hint(), Some("did you mean \\h SELECT?"));
        assert_eq!(of("nonsense").unwrap_err().hint(), Some("\\h lists what there is help for"));
    }

    #[test]
    fn statements_stand_in_order() {
        assert!(STATEMENTS.windows(2).all(|pair| pair[0].0 < pair[1].0));
    }
}

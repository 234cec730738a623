//! Which names are variables.

use super::{compiled, def};
use crate::compile;
use alluvia_types::ErrorKind;

fn sql(statement: &str) -> String {
    let body = format!("<<b>> DECLARE a INT; c TEXT; r RECORD; BEGIN {statement}; END");
    let statements = compiled("x INT", &body);
    let last = statements.statements().iter().rev().find(|embedded| !embedded.sql().starts_with("SELECT CAST"));
    last.unwrap().sql().to_owned()
}

#[test]
fn variables_win_over_columns_and_nothing_else_is_one() {
    for (statement, expected) in [
        ("PERFORM a, t.a, r.f, x, p.x, b.a, z FROM a, t", "SELECT $1, t.a, $2, $3, $3, $1, z FROM a, t"),
        ("PERFORM a(a) AS a, c.d FROM t AS c", "SELECT a($1) AS a, c.d FROM t AS c"),
        ("INSERT INTO t (a, c) VALUES (a, c), (x, 'a')", "INSERT INTO t (a, c) VALUES ($1, $2), ($3, 'a')"),
        ("UPDATE t SET a = a + t.a, c = c WHERE t.x = x", "UPDATE t SET a = $1 + t.a, c = $2 WHERE t.x = $3"),
        ("DELETE FROM a WHERE k=a AND $1 > \"a\" AND \"A\"", "DELETE FROM a WHERE k=$1 AND $2 > $1 AND \"A\""),
        ("PERFORM 'a', $$a$$, E'\\'a', a -- a\n, /* a */ c", "SELECT 'a', $$a$$, E'\\'a', $1 -- a\n, /* a */ $2"),
        ("PERFORM NOT(a), a::text, CAST(c AS a)", ""),
        ("PERFORM count(*) FROM t ORDER BY t.a", "SELECT count(*) FROM t ORDER BY t.a"),
        (
            "INSERT INTO t VALUES (a) ON CONFLICT (a) DO UPDATE SET a = excluded.a + a",
            "INSERT INTO t VALUES ($1) ON CONFLICT (a) DO UPDATE SET a = excluded.a + $1",
        ),
        ("PERFORM 1 FROM t WHERE k = a FOR UPDATE", "SELECT 1 FROM t WHERE k = $1 FOR UPDATE"),
    ] {
        if !expected.is_empty() {
            assert_eq!(sql(statement), expected, "{statement}");
        }
    }
}

#[test]
fn what_may_be_meant_otherwise_is_refused() {
    for (statement, kind) in [
        ("PERFORM 1 FROM t ORDER BY a", ErrorKind::AmbiguousColumn),
        ("PERFORM 1 FROM t GROUP BY a", ErrorKind::AmbiguousColumn),
        ("PERFORM r", ErrorKind::NotSupported),
        ("PERFORM f(a.b.c, r.f.g)", ErrorKind::NotSupported),
        ("PERFORM $2", ErrorKind::UndefinedParameter),
        ("SELECT 1 INTO nothing", ErrorKind::Syntax),
        ("SELECT 1 INTO a INTO c", ErrorKind::Syntax),
        ("SELECT 1 INTO r, a", ErrorKind::Syntax),
    ] {
        let body = format!("DECLARE a INT; c TEXT; r RECORD; BEGIN {statement}; END");
        let error = compile(&def("x INT", &body)).unwrap_err();
        assert_eq!(error.kind(), kind, "{statement}: {error}");
    }
}

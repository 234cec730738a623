//! Statements that a host runs.

use super::{Mock, call, changed, compiled, def_of, row, rows, wait};
use crate::{Answer, compile};
use arrow::array::{ArrayRef, Int32Array, Int64Array};
use datafusion_common::ScalarValue;
use std::sync::Arc;

#[test]
fn rows_go_into_variables_and_records() {
    // The first `k` is a variable, too.
    let body = "DECLARE a INT; b TEXT; k INT; BEGIN SELECT id, name INTO a, b FROM t WHERE k = k; END";
    let statements = compiled("", body);
    assert!(statements.statements().iter().any(|embedded| embedded.sql() == "SELECT id, name FROM t WHERE $1 = $1"));
    let mock = Mock::answering(&[
        ("SELECT id, name FROM t WHERE k = $1", rows(&[(1, "one"), (2, "two")])),
        ("SELECT id, name FROM t WHERE id = 7", rows(&[])),
        ("SELECT * FROM t", rows(&[(3, "three")])),
    ]);
    let body = "DECLARE a INT; b TEXT := 'old'; r RECORD; v INT := 5; n BIGINT; BEGIN \
                SELECT id, name INTO a, b FROM t WHERE k = v; GET DIAGNOSTICS n = ROW_COUNT; RAISE NOTICE '% % % %', a, b, FOUND, n; \
                SELECT id, name FROM t WHERE id = 7 INTO a, b, n; RAISE NOTICE '% % %', a, b, FOUND; \
                SELECT * INTO r FROM t; RAISE NOTICE '% %', r.id + 1, r.name || '!'; \
                r.id := 9; RAISE NOTICE '%', r.id; END";
    call(&mock, "", body, &[]).unwrap();
    assert_eq!(mock.told(), ["1 one t 1", "<NULL> <NULL> f", "4 three!", "9"]);
    assert_eq!(mock.asked()[0], "SELECT id, name FROM t WHERE k = $1 <- Int32(5)");
    let error = call(&mock, "", "DECLARE r RECORD; BEGIN RAISE NOTICE '%', r.id; END", &[]).unwrap_err();
    assert_eq!(error.sqlstate(), "55000");
    let error =
        call(&mock, "", "DECLARE r RECORD; BEGIN SELECT * INTO r FROM t; RAISE NOTICE '%', r.x; END", &[]).unwrap_err();
    assert_eq!(error.sqlstate(), "42703");
}

#[test]
fn strict_wants_one_row() {
    let body =
        |statement: &str| format!("DECLARE a INT; b TEXT; BEGIN\n{statement};\nRAISE NOTICE '% %', a, FOUND; END");
    let query = "SELECT id, name INTO STRICT a, b FROM t";
    let change = "DELETE FROM t RETURNING id, name INTO a, b";
    for (statement, count, expected) in [
        (query, 0, "P0002"),
        (query, 1, ""),
        (query, 2, "P0003"),
        (change, 0, ""),
        (change, 1, ""),
        (change, 2, "P0003"),
        ("UPDATE t SET x = 1 RETURNING id, name INTO STRICT a, b", 0, "P0002"),
        ("INSERT INTO t (id) VALUES (a) RETURNING id, name INTO STRICT a, b", 1, ""),
    ] {
        let answer = rows(&[(1, "one"), (2, "two")][..count]);
        let body = body(statement);
        let texts: Vec<(&'static str, Answer)> = compiled("", &body)
            .statements()
            .iter()
            .filter(|one| one.sql().contains(" t"))
            .map(|one| (&*Box::leak(one.sql().to_owned().into_boxed_str()), answer.clone()))
            .collect();
        let done = call(&Mock::answering(&texts), "", &body, &[]);
        match done {
            Ok(_) => assert_eq!(expected, "", "{statement}"),
            Err(error) => {
                assert_eq!(error.sqlstate(), expected, "{statement}: {error}");
                assert_eq!(error.context(), Some("PL/pgSQL procedure p line 2 at SQL statement"));
            }
        }
    }
}

#[test]
fn changes_set_found_and_counts() {
    let mock = Mock::answering(&[
        ("UPDATE t SET a = $1 WHERE b = $1", changed(3)),
        ("DELETE FROM t", changed(0)),
        ("SELECT 1 FROM t WHERE x = $1", rows(&[(1, "a")])),
        ("INSERT INTO t (a, b) VALUES ($1, 'a')", changed(1)),
    ]);
    let body = "DECLARE n INT; BEGIN UPDATE t SET a = v WHERE b = v; GET DIAGNOSTICS n := ROW_COUNT; RAISE NOTICE '% %', n, FOUND; \
                DELETE FROM t; GET DIAGNOSTICS n = ROW_COUNT; RAISE NOTICE '% %', n, FOUND; \
                PERFORM 1 FROM t WHERE x = v; RAISE NOTICE '%', FOUND; INSERT INTO t (a, b) VALUES (v, 'a'); END";
    call(&mock, "v INT", body, &[ScalarValue::Int32(Some(4))]).unwrap();
    assert_eq!(mock.told(), ["3 t", "0 f", "t"]);
    assert_eq!(mock.asked()[3], "INSERT INTO t (a, b) VALUES ($1, 'a') <- Int32(4)");
}

#[test]
fn loops_go_over_rows() {
    let mut answer = rows(&[(1, "one"), (2, "two")]);
    answer.rows.push(rows(&[]).rows.remove(0));
    answer.rows.push(rows(&[(3, "three")]).rows.remove(0));
    let mock =
        Mock::answering(&[("SELECT id, name FROM t WHERE id > $1", answer), ("SELECT id, name FROM u", rows(&[]))]);
    let body = "DECLARE r RECORD; a INT; b TEXT; BEGIN \
                FOR r IN SELECT id, name FROM t WHERE id > v LOOP CONTINUE WHEN r.id = 2; RAISE NOTICE '% %', r.id, r.name; END LOOP; \
                FOR a, b IN SELECT id, name FROM t WHERE id > v LOOP EXIT WHEN a = 2; RAISE NOTICE '%', b; END LOOP; RAISE NOTICE '% %', a, FOUND; \
                FOR r IN SELECT id, name FROM u LOOP RAISE NOTICE 'no'; END LOOP; RAISE NOTICE '%', FOUND; END";
    call(&mock, "v INT", body, &[ScalarValue::Int32(Some(0))]).unwrap();
    assert_eq!(mock.told(), ["1 one", "3 three", "one", "2 t", "f"]);
}

#[test]
fn what_the_interpreter_does_not_know_the_host_evaluates() {
    let eight: ArrayRef = Arc::new(Int64Array::from(vec![8]));
    let mock = Mock::answering(&[
        ("SELECT abs($1) + 1", row(eight)),
        ("SELECT $1 > 1e0", row(Arc::new(arrow::array::BooleanArray::from(vec![true])))),
    ]);
    let body =
        "DECLARE a INT; BEGIN a := abs(v) + 1; RAISE NOTICE '%', a; IF v > 1e0 THEN RAISE NOTICE 'more'; END IF; END";
    call(&mock, "v INT", body, &[ScalarValue::Int32(Some(-7))]).unwrap();
    assert_eq!(mock.told(), ["8", "more"]);
    assert_eq!(mock.asked()[0], "SELECT abs($1) + 1 <- Int32(-7)");
    let none = Mock::answering(&[("SELECT a FROM t", rows(&[]))]);
    assert_eq!(call(&none, "", "DECLARE x INT; BEGIN x := a FROM t; END", &[]).unwrap_err().sqlstate(), "42601");
    let error = call(&Mock::default(), "", "BEGIN\n  PERFORM f(1);\nEND", &[]).unwrap_err();
    assert_eq!((error.sqlstate(), error.context()), ("42P01", Some("PL/pgSQL procedure p line 2 at PERFORM")));
}

#[test]
fn procedures_call_others() {
    let mut answer = row(Arc::new(Int32Array::from(vec![42])));
    answer.outputs = vec![Some(1)];
    let mock = Mock::answering(&[("CALL q(1 + $1, $2, x => 'a,b')", answer.clone()), ("CALL q(1, $1 + 1)", answer)]);
    let body = "DECLARE a INT := 1; b INT; BEGIN CALL q(1 + a, b, x => 'a,b'); RAISE NOTICE '%', b; END";
    call(&mock, "", body, &[]).unwrap();
    assert_eq!(mock.told(), ["42"]);
    let error = call(&mock, "", "DECLARE a INT; BEGIN CALL q(1, a + 1); END", &[]).unwrap_err();
    assert_eq!(error.sqlstate(), "42601", "{error}");
}

#[test]
fn scripts_of_sql_run_one_behind_the_other() {
    let def = def_of(
        "CREATE PROCEDURE p(a INT, b TEXT) LANGUAGE sql AS $$ INSERT INTO t (a) VALUES (a); SELECT 1;\nDELETE FROM t WHERE x = $2 $$",
    );
    let mock = Mock::answering(&[("INSERT INTO t (a) VALUES ($1)", changed(1)), ("SELECT 1", rows(&[(1, "a")]))]);
    let arguments = [(None, ScalarValue::Int32(Some(1))), (None, ScalarValue::from("x"))];
    let error = wait(compile(&def).unwrap().call(&mock, &arguments)).unwrap_err();
    assert_eq!(error.context(), Some("SQL procedure p line 2 at SQL statement"));
    assert_eq!(mock.asked()[2], "DELETE FROM t WHERE x = $1 <- Utf8(\"x\")");
}

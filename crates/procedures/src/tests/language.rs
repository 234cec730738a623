//! Statements that need no host.

use super::{Mock, call, compiled, def, def_of, failed, told, wait};
use crate::{CALLS_MAX, ProcedureDef, compile};
use alluvia_types::ErrorKind;
use datafusion_common::ScalarValue;
use std::sync::atomic::Ordering;

#[test]
fn variables_have_values_and_inner_ones_hide_outer_ones() {
    let body = "<<outer>>\nDECLARE a INT := 1; b TEXT DEFAULT 'x' || 'y'; c CONSTANT INT NOT NULL = a + 1; d BIGINT;\n\
                BEGIN\n\
                  RAISE NOTICE '% % % %', a, b, c, d;\n\
                  DECLARE a TEXT := b; BEGIN a := a || 'z'; RAISE NOTICE '% % %', a, outer.a, p.found; END;\n\
                  a = a + c; d := a; RAISE NOTICE '%', d;\n\
                END outer";
    // `p.found` is no variable: FOUND is of no block.
    let error = compile(&def("", &body.replace("p.found", "p.x.y.z"))).map(|_| ());
    assert!(error.is_ok(), "a name of four parts is a column's: {error:?}");
    assert_eq!(told(&body.replace("p.found", "found")), ["1 xy 2 <NULL>", "xyz 1 f", "3"]);
    assert_eq!(told("DECLARE a INT; b a%TYPE = 5; BEGIN RAISE NOTICE '%', b; END"), ["5"]);
}

#[test]
fn a_block_sets_its_variables_anew_each_time() {
    let body = "BEGIN FOR i IN 1..2 LOOP DECLARE a INT; b INT := i * 10; BEGIN RAISE NOTICE '% %', a, b; a := i; END; END LOOP; END";
    assert_eq!(told(body), ["<NULL> 10", "<NULL> 20"]);
}

#[test]
fn branches_go_by_true_alone() {
    let body = |a: &str| {
        format!(
            "DECLARE a INT := {a}; BEGIN IF a > 1 THEN RAISE NOTICE 'many'; ELSIF a = 1 THEN RAISE NOTICE 'one'; \
                                  ELSEIF a < 0 THEN NULL; ELSE RAISE NOTICE 'else'; END IF; END"
        )
    };
    for (a, expected) in [("2", "many"), ("1", "one"), ("0", "else"), ("NULL", "else")] {
        assert_eq!(told(&body(a)), [expected], "{a}");
    }
    assert!(told(&body("-1")).is_empty());
    let body = |a: &str| {
        format!(
            "DECLARE a INT := {a}; BEGIN CASE a WHEN 1, 2 THEN RAISE NOTICE 'few'; WHEN a + 0 THEN RAISE NOTICE 'self'; END CASE; END"
        )
    };
    assert_eq!((told(&body("2")), told(&body("7"))), (vec!["few".to_owned()], vec!["self".to_owned()]));
    assert_eq!(failed(&body("NULL")).0, "20000");
    let body = |a: &str| {
        format!(
            "DECLARE a INT := {a}; BEGIN CASE WHEN a = 1 THEN RAISE NOTICE 'one'; ELSE RAISE NOTICE 'else'; END CASE; END"
        )
    };
    assert_eq!((told(&body("1")), told(&body("NULL"))), (vec!["one".to_owned()], vec!["else".to_owned()]));
}

#[test]
fn loops_turn_nest_and_are_left() {
    assert_eq!(
        told("BEGIN FOR i IN 1..3 LOOP RAISE NOTICE '%', i; END LOOP; RAISE NOTICE '%', FOUND; END"),
        ["1", "2", "3", "t"]
    );
    assert_eq!(told("BEGIN FOR i IN REVERSE 5..1 BY 2 LOOP RAISE NOTICE '%', i; END LOOP; END"), ["5", "3", "1"]);
    assert_eq!(told("BEGIN FOR i IN 2..1 LOOP RAISE NOTICE 'x'; END LOOP; RAISE NOTICE '%', FOUND; END"), ["f"]);
    assert_eq!(told("BEGIN FOR i IN 2147483646..2147483647 LOOP RAISE NOTICE '%', i; END LOOP; END").len(), 2);
    let nested = "DECLARE n INT := 0; BEGIN <<a>> FOR i IN 1..3 LOOP <<b>> FOR j IN 1..3 LOOP \
                  CONTINUE a WHEN j = 2 AND i = 1; EXIT a WHEN i = 3; CONTINUE WHEN j = 1; n := n + i * 10 + j; \
                  RAISE NOTICE '% % %', i, b.j, n; END LOOP b; END LOOP a; END";
    assert_eq!(told(nested), ["2 2 22", "2 3 45"]);
    let plain = "DECLARE n INT := 0; BEGIN LOOP n := n + 1; IF n = 2 THEN CONTINUE; END IF; EXIT WHEN n > 3; RAISE NOTICE '%', n; END LOOP; \
                 WHILE n > 2 LOOP n := n - 1; END LOOP; RAISE NOTICE '%', n; END";
    assert_eq!(told(plain), ["1", "3", "2"]);
    // Out of a block, and of what is in it.
    assert_eq!(
        told(
            "BEGIN <<x>> BEGIN FOR i IN 1..2 LOOP EXIT x; END LOOP; RAISE NOTICE 'no'; END; RAISE NOTICE '%', FOUND; END"
        ),
        ["t"]
    );
    assert_eq!(told("BEGIN FOR i IN 1..3 LOOP RETURN; END LOOP; RAISE NOTICE 'no'; END"), Vec::<String>::new());
    // The counter may be assigned, and is its own loop's.
    assert_eq!(
        told(
            "DECLARE i INT := 9; BEGIN FOR i IN 1..2 LOOP i := i * 2; RAISE NOTICE '%', i; END LOOP; RAISE NOTICE '%', i; END"
        ),
        ["2", "4", "9"]
    );
    for (range, sqlstate) in [
        ("1..NULL", "22004"),
        ("NULL..1", "22004"),
        ("1..2 BY 0", "22023"),
        ("1..2 BY NULL", "22004"),
        ("1..3000000000", "22003"),
    ] {
        assert_eq!(failed(&format!("BEGIN FOR i IN {range} LOOP NULL; END LOOP; END")).0, sqlstate, "{range}");
    }
}

#[test]
fn every_turn_asks_whether_to_stop() {
    for body in [
        "BEGIN LOOP END LOOP; END",
        "BEGIN WHILE true LOOP NULL; END LOOP; END",
        "BEGIN FOR i IN 1..2000000000 LOOP NULL; END LOOP; END",
        "BEGIN LOOP CONTINUE; END LOOP; END",
    ] {
        let mock = Mock { stops_after: Some(1000), ..Mock::default() };
        let error = call(&mock, "", body, &[]).unwrap_err();
        assert_eq!((error.kind(), error.context().is_some()), (ErrorKind::Cancelled, true), "{body}");
    }
}

#[test]
fn every_call_asks_whether_to_stop() {
    let mock = Mock { stops_after: Some(0), ..Mock::default() };
    assert_eq!(call(&mock, "", "BEGIN RAISE NOTICE 'x'; END", &[]).unwrap_err().kind(), ErrorKind::Cancelled);
    assert_eq!(mock.told(), Vec::<String>::new());
}

#[test]
fn what_variables_hold_is_counted_and_bounded() {
    let grows = "DECLARE x TEXT := 'a'; y TEXT; BEGIN FOR i IN 1..12 LOOP x := x || x; END LOOP; y := x; x := NULL; \
                 RAISE NOTICE 'done'; END";
    // 4096 bytes, and while y gets them twice as many.
    for (held_max, is_refused) in [(Some(5_000), true), (Some(9_000), false), (None, false)] {
        let mock = Mock { held_max, ..Mock::default() };
        let done = call(&mock, "", grows, &[]);
        assert_eq!(done.err().map(|error| error.sqlstate().to_owned()), is_refused.then(|| "53200".to_owned()));
        assert_eq!((mock.told().is_empty(), mock.held.load(Ordering::Relaxed)), (is_refused, 0));
    }
    // A block that begins again, a record and its fields.
    let rows = [("SELECT a FROM t", super::rows(&[(1, "a text"), (2, "b")]))];
    let mock = Mock { held_max: Some(1_000), ..Mock::answering(&rows) };
    let body = "DECLARE r RECORD; BEGIN FOR i IN 1..1000 LOOP DECLARE z TEXT := 'a text of some bytes'; BEGIN NULL; END; \
                SELECT a INTO r FROM t; r.name := 'another text than that'; END LOOP; END";
    call(&mock, "", body, &[]).unwrap();
    assert_eq!(mock.held.load(Ordering::Relaxed), 0);
    // A message is a text.
    let long =
        "DECLARE x TEXT := 'a'; BEGIN FOR i IN 1..25 LOOP x := x || x; END LOOP; RAISE NOTICE '% % %', x, x, x; END";
    assert_eq!(failed(long).0, "54000");
}

#[test]
fn arithmetic_is_exact_and_null_is_no_value() {
    assert_eq!(
        failed("DECLARE a INT := 2147483647;\nBEGIN\n  a := a + 1;\nEND"),
        ("22003".to_owned(), "integer out of range".to_owned(), "PL/pgSQL procedure p line 3 at assignment".to_owned())
    );
    assert_eq!(failed("DECLARE a BIGINT := 2147483648; b INT; BEGIN b := a; END").0, "22003");
    assert_eq!(failed("DECLARE a SMALLINT := 32767; BEGIN a := a + 1; END").0, "22003");
    assert_eq!(failed("DECLARE a INT; BEGIN a := 1 / 0; END").0, "22012");
    assert_eq!(failed("DECLARE a INT NOT NULL := 1; b INT; BEGIN a := b; END").0, "22004");
    assert_eq!(failed("DECLARE a VARCHAR(2); BEGIN a := 'abc'; END").0, "22001");
    assert_eq!(
        told("DECLARE a INT; b BOOLEAN; BEGIN b := a = 1; RAISE NOTICE '% % %', a + 1, b, b IS NULL; END"),
        ["<NULL> <NULL> t"]
    );
    assert_eq!(
        told(
            "DECLARE a TEXT := '7'; b INT; c CHAR(3) := 'a  '; d DECIMAL(10, 2) := 7; BEGIN b := a; RAISE NOTICE '%|%|%', b + 1, c, d; END"
        ),
        ["8|a|7.00"]
    );
}

#[test]
fn raise_tells_or_ends() {
    let mock = Mock::default();
    let body = "BEGIN RAISE DEBUG 'a'; RAISE LOG 'b'; RAISE INFO 'c%%'; RAISE WARNING 'd % e', 1 USING HINT = 'h' || 'i', DETAIL = 'j'; \
                RAISE NOTICE USING MESSAGE = 'm', ERRCODE = '01234'; RAISE NOTICE division_by_zero; END";
    call(&mock, "", body, &[]).unwrap();
    let told: Vec<String> = mock
        .notices
        .lock()
        .unwrap()
        .iter()
        .map(|notice| {
            format!(
                "{} {} {} {:?} {:?}",
                notice.level.name(),
                notice.sqlstate,
                notice.message,
                notice.hint,
                notice.detail
            )
        })
        .collect();
    assert_eq!(
        told,
        [
            "DEBUG 00000 a None None",
            "LOG 00000 b None None",
            "INFO 00000 c% None None",
            "WARNING 01000 d 1 e Some(\"hi\") Some(\"j\")",
            "NOTICE 01234 m None None",
            "NOTICE 22012 division_by_zero None None",
        ]
    );
    for (raise, sqlstate, message) in [
        ("RAISE 'no %', 1 + 1", "P0001", "no 2"),
        ("RAISE EXCEPTION 'no'", "P0001", "no"),
        ("RAISE EXCEPTION 'no' USING ERRCODE = 'unique_violation'", "23505", "no"),
        ("RAISE EXCEPTION 'no' USING ERRCODE = 'UE001'", "UE001", "no"),
        ("RAISE unique_violation USING MESSAGE := 'no', HINT = 'h'", "23505", "no"),
        ("RAISE unique_violation", "23505", "unique_violation"),
        ("RAISE SQLSTATE '22012'", "22012", "22012"),
        ("RAISE USING MESSAGE = 'no'", "P0001", "no"),
        ("RAISE 'no' USING ERRCODE = 'nonsense'", "42704", "unrecognized exception condition \"nonsense\""),
        ("RAISE 'no' USING HINT = NULL", "22004", "RAISE statement option cannot be null"),
    ] {
        let body = format!("BEGIN\n\n{raise}; END");
        assert_eq!(
            failed(&body),
            (sqlstate.to_owned(), message.to_owned(), "PL/pgSQL procedure p line 3 at RAISE".to_owned()),
            "{raise}"
        );
    }
    for raise in [
        "RAISE 'a' USING MESSAGE = 'b'",
        "RAISE unique_violation USING ERRCODE = '22012'",
        "RAISE USING HINT = 'a', HINT = 'b'",
    ] {
        let error = compile(&def("", &format!("BEGIN {raise}; END"))).unwrap_err();
        assert!(error.message().contains("already specified"), "{raise}: {error}");
    }
    assert_eq!(
        failed("BEGIN ASSERT 1 = 2; END"),
        ("P0004".to_owned(), "assertion failed".to_owned(), "PL/pgSQL procedure p line 1 at ASSERT".to_owned())
    );
    assert_eq!(failed("BEGIN ASSERT NULL, 'why ' || 'not'; END").1, "why not");
    assert!(told_nothing("BEGIN ASSERT true, 'a'; END"));
}

fn told_nothing(body: &str) -> bool {
    told(body).is_empty()
}

#[test]
fn parameters_go_in_and_out() {
    let parameters = "a INT, INOUT b BIGINT, OUT c TEXT, d INT DEFAULT 5 + 5";
    let body = "BEGIN b := a + b + d; c := 'x'; a := 0; $1 := 1; END";
    assert!(compile(&def(parameters, body)).is_err(), "a number is no variable to assign");
    let body = "BEGIN b := $1 + b + p.d; c := 'x'; END";
    let int = |number| ScalarValue::Int32(Some(number));
    let outputs = call(&Mock::default(), parameters, body, &[int(1), int(2), ScalarValue::Null]).unwrap().unwrap();
    assert_eq!(outputs.arguments, [Some(1), Some(2)]);
    assert_eq!(format!("{:?}", crate::assign::value_at(outputs.row.column(0), 0).unwrap()), "Int64(13)");
    assert_eq!(outputs.row.schema().field(1).name(), "c");
    let procedure = compiled(parameters, body);
    let by_name = |name: &str, value: i32| (Some(name.to_owned()), int(value));
    let given = [by_name("c", 0), by_name("b", 1), by_name("a", 1), by_name("d", 1)];
    let outputs = wait(procedure.call(&Mock::default(), &given)).unwrap().unwrap();
    assert_eq!(outputs.arguments, [Some(1), Some(0)]);
    for wrong in [&given[..2], &[by_name("x", 1)], &[by_name("a", 1), by_name("a", 1)], &vec![(None, int(1)); 5]] {
        let error = wait(procedure.call(&Mock::default(), wrong)).unwrap_err();
        assert_eq!((error.kind(), error.hint().is_some()), (ErrorKind::UndefinedFunction, true), "{error}");
    }
    let deep = Mock { around: CALLS_MAX, ..Mock::default() };
    assert_eq!(call(&deep, "", "BEGIN END", &[]).unwrap_err().sqlstate(), "54001");
}

#[test]
fn definitions_are_stored_and_shown() {
    let made = def_of(
        "CREATE PROCEDURE \"P\"(a INT, INOUT b VARCHAR(3) DEFAULT 'x') SECURITY DEFINER LANGUAGE sql AS 'DELETE FROM t WHERE k = a'",
    );
    let stored = serde_json::to_string(&made).unwrap();
    assert_eq!(serde_json::from_str::<ProcedureDef>(&stored).unwrap(), made);
    let shown = |def: &ProcedureDef| format!("CREATE PROCEDURE \"{}\"{}", def.name, def.behind_name());
    assert_eq!(def_of(&shown(&made)), made);
    let odd = def("", "BEGIN RAISE '$procedur' || '$x$'; END");
    assert_eq!(def_of(&shown(&odd)), odd);
    assert!(
        ProcedureDef::of_block(&alluvia_syntax::statements::routines::DoBlock {
            language: "perl".into(),
            body: String::new()
        })
        .is_err()
    );
}

#[test]
fn a_call_may_move_between_threads() {
    fn moves<T: Send>(future: T) -> T {
        future
    }
    let procedure = compiled("", "BEGIN FOR i IN 1..1000 LOOP NULL; END LOOP; RAISE NOTICE 'done'; END");
    let mock = Mock::default();
    assert!(wait(moves(procedure.call(&mock, &[]))).unwrap().is_none());
    assert_eq!(mock.told(), ["done"]);
}

//! What is refused when a procedure is made, by name and line.

use super::{def, def_of};
use crate::{compile, compile_with};
use alluvia_space::DataType;
use alluvia_types::ErrorKind;

#[test]
fn what_is_not_there_is_refused_by_name_and_line() {
    for (statement, word) in [
        ("EXECUTE 'SELECT 1'", "EXECUTE"),
        ("COMMIT", "COMMIT"),
        ("ROLLBACK", "ROLLBACK"),
        ("OPEN c", "cursor"),
        ("FETCH c INTO a", "cursor"),
        ("FOR r IN c LOOP NULL; END LOOP", "cursor"),
        ("FOR r IN c(1) LOOP NULL; END LOOP", "cursor"),
        ("FOR r IN EXECUTE 'x' LOOP NULL; END LOOP", "EXECUTE"),
        ("FOREACH a IN ARRAY b LOOP NULL; END LOOP", "FOREACH"),
        ("CREATE TABLE t (a INT)", "CREATE"),
        ("DROP TABLE t", "DROP"),
        ("TRUNCATE t", "TRUNCATE"),
        ("MERGE INTO t USING u ON t.a = u.a WHEN MATCHED THEN DELETE", "MERGE"),
        ("SET x = 1", "SET"),
        ("RETURN NEXT a", "RETURN of rows"),
        ("RAISE", "RAISE without parameters"),
        ("RAISE 'x' USING COLUMN = 'a'", "COLUMN"),
        ("GET STACKED DIAGNOSTICS a = MESSAGE_TEXT", "STACKED"),
        ("GET DIAGNOSTICS a = PG_CONTEXT", "PG_CONTEXT"),
        ("a[1] := 2", "element of an array"),
        ("r := NULL", "whole record"),
        ("CALL alluvia.flush()", "CALL"),
    ] {
        let body = format!("DECLARE a INT; r RECORD;\nBEGIN\n  NULL;\n  {statement};\nEND");
        let error = compile(&def("", &body)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotSupported, "{statement}: {error}");
        assert!(error.message().starts_with("line 4: ") && error.message().contains(word), "{statement}: {error}");
    }
    for (declaration, word) in [
        ("c CURSOR FOR SELECT 1", "cursor"),
        ("c NO SCROLL CURSOR FOR SELECT 1", "cursor"),
        ("x ALIAS FOR $1", "ALIAS"),
        ("x t%ROWTYPE", "ROWTYPE"),
        ("x INT[]", "[]"),
        ("x TEXT COLLATE \"C\"", "COLLATE"),
    ] {
        let error = compile(&def("", &format!("DECLARE\n {declaration};\nBEGIN END"))).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotSupported, "{declaration}: {error}");
        assert!(error.message().starts_with("line 2: ") && error.message().contains(word), "{declaration}: {error}");
    }
    let error = compile(&def("", "BEGIN\n NULL;\nEXCEPTION WHEN others THEN NULL;\nEND")).unwrap_err();
    assert!(error.message().starts_with("line 3: an EXCEPTION section"), "{error}");
    let script = def_of("CREATE PROCEDURE p(OUT a INT) LANGUAGE sql AS 'SELECT 1'");
    assert_eq!(compile(&script).unwrap_err().kind(), ErrorKind::NotSupported);
}

#[test]
fn what_is_wrong_is_a_syntax_error_with_its_line() {
    for (statement, line) in [
        ("a := ", 3),
        ("a := 1 +", 3),
        ("b := 1", 3),
        ("IF a = 1 NULL; END IF", 3),
        ("IF a = 1 THEN\nNULL", 4),
        ("EXIT", 3),
        ("EXIT nowhere", 3),
        ("CONTINUE", 3),
        ("<<x>> BEGIN CONTINUE x; END", 3),
        ("<<x>> BEGIN NULL; END y", 3),
        ("<<x>> NULL", 3),
        ("SELECT 1", 3),
        ("UPDATE t SET a = 1 RETURNING a", 3),
        ("INSERT INTO t VALUES (1) INTO a", 3),
        ("RAISE '%'", 3),
        ("RAISE 'x', 1", 3),
        ("RAISE SQLSTATE 'x'", 3),
        ("NONSENSE", 3),
        ("FOR a IN REVERSE SELECT 1 LOOP NULL; END LOOP", 3),
        ("FOR a IN DELETE FROM t LOOP NULL; END LOOP", 3),
        ("CASE a END CASE", 3),
        ("END; END", 3),
        ("PERFORM", 3),
        ("DECLARE x INT; x TEXT; BEGIN END", 3),
        ("DECLARE x nonsense BEGIN END", 3),
        ("'a'", 3),
    ] {
        let body = format!("DECLARE a INT;\nBEGIN\n{statement};\nEND");
        let error = compile(&def("", &body)).unwrap_err();
        assert!(matches!(error.kind(), ErrorKind::Syntax), "{statement}: {error:?}");
        let at = format!("line {line}: ");
        assert!(error.message().starts_with(&at) || error.message().starts_with("line 5: "), "{statement}: {error}");
    }
    let error = compile(&def("", "DECLARE a CONSTANT INT := 1; BEGIN\n a := 2; END")).unwrap_err();
    assert_eq!((error.sqlstate(), error.message().starts_with("line 2: ")), ("22005", true), "{error}");
    assert_eq!(compile(&def("", "DECLARE a INT NOT NULL; BEGIN END")).unwrap_err().sqlstate(), "22004");
    assert_eq!(compile(&def("", "BEGIN RETURN 1; END")).unwrap_err().sqlstate(), "42804");
    for body in ["", "BEGIN", "END", "BEGIN END END", "NULL;", "BEGIN NULL END", "BEGIN END;;", "BEGIN 'x"] {
        assert_eq!(compile(&def("", body)).unwrap_err().kind(), ErrorKind::Syntax, "{body}");
    }
}

#[test]
fn columns_types_are_asked_for() {
    let body = "DECLARE a t.x%TYPE; b s.t.x%TYPE; BEGIN a := b; END";
    let types = |parts: &[String]| (parts.last().map(String::as_str) == Some("x")).then(|| DataType::Int32.into());
    assert!(compile_with(&def("", body), &types).is_ok());
    assert_eq!(compile(&def("", body)).unwrap_err().kind(), ErrorKind::UndefinedColumn);
    assert_eq!(compile(&def("", "DECLARE a x%TYPE; BEGIN END")).unwrap_err().kind(), ErrorKind::UndefinedObject);
}

#[test]
fn bodies_nest_to_a_bound_on_any_stack() {
    let nested = |open: &str, inside: &str, close: &str, depth: usize| {
        format!("BEGIN {}{inside}{} END", open.repeat(depth), close.repeat(depth))
    };
    let small = std::thread::Builder::new().stack_size(1 << 20);
    let done = small.spawn(move || {
        for (open, close) in [
            ("BEGIN ", "END; "),
            ("IF true THEN ", "END IF; "),
            ("LOOP ", "END LOOP; "),
            ("CASE WHEN true THEN ", "END CASE; "),
        ] {
            assert!(compile(&def("", &nested(open, "NULL;", close, 90))).is_ok(), "{open}");
            for depth in [101, 20_000] {
                assert_eq!(
                    compile(&def("", &nested(open, "NULL;", close, depth))).unwrap_err().kind(),
                    ErrorKind::TooDeep,
                    "{open}"
                );
            }
        }
        let deep = format!("BEGIN PERFORM {}1{}; END", "(".repeat(100_000), ")".repeat(100_000));
        assert!(compile(&def("", &deep)).is_err());
    });
    done.unwrap().join().unwrap();
}

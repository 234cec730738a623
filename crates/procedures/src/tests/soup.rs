//! Whatever stands in a body, nothing panics.

use super::{Mock, def, rows, wait};
use crate::compile;
use proptest::prelude::*;

const WORDS: [&str; 78] = [
    "BEGIN",
    "END",
    "DECLARE",
    "IF",
    "THEN",
    "ELSE",
    "ELSIF",
    "CASE",
    "WHEN",
    "LOOP",
    "WHILE",
    "FOR",
    "IN",
    "REVERSE",
    "BY",
    "EXIT",
    "CONTINUE",
    "RETURN",
    "RAISE",
    "NOTICE",
    "EXCEPTION",
    "USING",
    "ERRCODE",
    "HINT",
    "ASSERT",
    "GET",
    "DIAGNOSTICS",
    "ROW_COUNT",
    "PERFORM",
    "SELECT",
    "INTO",
    "STRICT",
    "FROM",
    "t",
    "INSERT",
    "UPDATE",
    "SET",
    "DELETE",
    "VALUES",
    "RETURNING",
    "CALL",
    "NULL",
    "INT",
    "TEXT",
    "RECORD",
    "CONSTANT",
    "NOT",
    "DEFAULT",
    "a",
    "b",
    "r",
    "r.x",
    "x",
    "found",
    ":=",
    "=",
    ";",
    ";",
    ";",
    ",",
    "(",
    ")",
    "[",
    "]",
    "..",
    "1..2",
    "<<",
    ">>",
    "<<x>>",
    "%",
    "'%'",
    "'x'",
    "$1",
    "1",
    "+",
    "*",
    "--\n",
    "é",
];

/// Bodies that are nearly right, for words to be put in.
const BODIES: [&str; 3] = [
    "DECLARE a INT := 1 ; r RECORD ; BEGIN FOR i IN 1 .. 3 LOOP IF a = i THEN RAISE NOTICE '%' , a ; END IF ; END LOOP ; END",
    "BEGIN <<x>> LOOP EXIT x WHEN true ; END LOOP x ; CASE 1 WHEN 1 , 2 THEN NULL ; ELSE PERFORM 1 ; END CASE ; END",
    "DECLARE r RECORD ; b TEXT ; BEGIN SELECT * INTO STRICT r FROM t ; FOR r IN SELECT 1 LOOP b := r.x || 'x' ; END LOOP ; CALL p ( b ) ; END",
];

fn compiles_and_runs(body: &str) {
    if body.contains("$procedure$") {
        return;
    }
    let Ok(compiled) = compile(&def("a INT", body)) else { return };
    let texts: Vec<_> = compiled
        .statements()
        .iter()
        .map(|one| (&*Box::leak(one.sql().to_owned().into_boxed_str()), rows(&[(1, "a")])))
        .collect();
    let mock = Mock { stops_after: Some(200), ..Mock::answering(&texts) };
    let _ = wait(compiled.call(&mock, &[(None, datafusion_common::ScalarValue::Int32(Some(1)))]));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn words_in_any_order(words in proptest::collection::vec(0..WORDS.len(), 0..40)) {
        let soup: Vec<&str> = words.iter().map(|word| WORDS[*word]).collect();
        compiles_and_runs(&soup.join(" "));
        compiles_and_runs(&format!("BEGIN {} END", soup.join(" ")));
    }

    #[test]
    fn bodies_with_words_changed(
        body in 0..BODIES.len(),
        changes in proptest::collection::vec((0usize..200, 0..WORDS.len(), 0..3), 0..4),
    ) {
        let mut words: Vec<&str> = BODIES[body].split(' ').collect();
        for (at, word, how) in changes {
            let at = at % words.len();
            match how {
                0 => words[at] = WORDS[word],
                1 => words.insert(at, WORDS[word]),
                _ => {
                    words.remove(at);
                }
            }
        }
        compiles_and_runs(&words.join(" "));
    }

    #[test]
    fn any_text(text in "\\PC{0,60}") {
        compiles_and_runs(&text);
        compiles_and_runs(&format!("BEGIN {text}; END"));
    }
}

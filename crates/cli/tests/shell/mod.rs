//! The shell's own commands, in a directory and at a server.

use super::remote::ready;
use super::{command, good, run, scratch, stderr, stdout};
use std::fs;

/// Runs a script in a directory and at a server, which must give the same; gives what that is.
fn everywhere(script: &str) -> String {
    let ((_one, dir), (_other, served)) = (scratch(), scratch());
    let listen = ["--listen", "127.0.0.1:0", "--http-listen", "off", "--flight-listen", "127.0.0.1:0"];
    let server = ready(command(&[&["serve", served.as_str()][..], &listen[..]].concat()).spawn().unwrap());
    let here = good(&["sql", &dir], script);
    assert_eq!(good(&["sql", &server.url], script), here, "{script}");
    here
}

#[test]
fn exit_and_quit_end_a_script_between_statements() {
    for word in ["exit", "quit;", " EXIT ", "\\quit"] {
        let said = everywhere(&format!("\\format csv\nSELECT '\nexit\n' AS a;\n{word}\nSELECT nonsense;\n"));
        assert_eq!(said, "a\n\"\nexit\n\"\n", "{word}");
    }
}

#[test]
fn records_have_a_column_a_line() {
    let said = everywhere("\\x\nSELECT 1 AS a, 'x' AS bb;\nSELECT 1 AS a WHERE false;\n\\x off\nSELECT 1 AS a;\n");
    let wanted = "Expanded display is on.\n-[ RECORD 1 ]\na  | 1\nbb | x\n\n(0 rows)\n\nExpanded display is off.\n\
                  +---+\n| a |\n+---+\n| 1 |\n+---+\n(1 row)\n";
    assert_eq!(said, wanted);
}

#[test]
fn a_file_runs_within_a_script_and_its_errors_name_it() {
    let (scratch, dir) = scratch();
    let path = |name: &str| scratch.path().join(name).display().to_string();
    let (inner, outer, endless) = (path("in ner.sql"), path("outer.sql"), path("endless.sql"));
    fs::write(&inner, "\u{feff}SELECT 1 AS n;\n\\q\nSELECT nonsense;\n").unwrap();
    fs::write(&outer, format!("\\i '{inner}'\nSELECT 2 AS m;\nSELECT nope;\n")).unwrap();
    fs::write(&endless, format!("\\i {endless}\n")).unwrap();
    let said = everywhere(&format!("\\format csv\n\\i '{inner}'\nSELECT 3 AS o;\n"));
    assert_eq!(said, "n\n1\no\n3\n");
    for args in [vec!["sql", &dir, "--format", "csv"], vec!["sql", &dir, "--format", "csv", "-f", &outer]] {
        let output = run(&args, format!("\\i {outer}\nSELECT 4;\n"));
        assert_eq!((output.status.code(), stdout(&output).as_str()), (Some(1), "n\n1\nm\n2\n"), "{}", stderr(&output));
        let wanted = "outer.sql: statement 2 (SELECT nope): there is no column nope";
        assert!(stderr(&output).contains(wanted), "{}", stderr(&output));
    }
    for (script, wrong) in [
        (format!("\\i {}\n", path("none.sql")), "none.sql"),
        (format!("\\i {endless}\n"), "16 files run one within the other"),
    ] {
        let output = run(&["sql", &dir], &script);
        assert_eq!(output.status.code(), Some(1), "{script}");
        assert!(stderr(&output).contains(wrong), "{}", stderr(&output));
    }
}

#[test]
fn answers_go_to_the_file_that_is_named() {
    let (scratch, dir) = scratch();
    let path = |name: &str| scratch.path().join(name).display().to_string();
    let (csv, table, parquet) = (path("a.csv"), path("b.txt"), path("c.parquet"));
    let said = everywhere(&format!(
        "\\format csv\n\\o {csv}\nSELECT 1 AS a;\nSELECT 2 AS b;\n\\echo here\nCOPY (SELECT 3 AS c) TO STDOUT;\n\
         \\o {table}\n\\format table\nSELECT 4 AS d;\n\\o\n\\format csv\nSELECT 5 AS e;\n"
    ));
    assert_eq!(said, "here\ne\n5\n");
    assert_eq!(fs::read_to_string(&csv).unwrap(), "a\n1\nb\n2\nc\n3\n");
    assert_eq!(fs::read_to_string(&table).unwrap(), "+---+\n| d |\n+---+\n| 4 |\n+---+\n(1 row)\n");
    // What is a whole file is one of its own.
    let other = path("d.parquet");
    let script = format!("\\o {parquet}\nSELECT 1 AS a;\n\\o {other}\nSELECT 2 AS a;\n");
    assert_eq!(good(&["sql", &dir, "--format", "parquet"], &script), "");
    assert!([&parquet, &other].iter().all(|file| fs::read(file).unwrap().ends_with(b"PAR1")));
    let output = run(&["sql", &dir], format!("\\o '{}'\n", path("no folder/a.csv")));
    assert!(output.status.code() == Some(1) && stderr(&output).contains("no folder"), "{}", stderr(&output));
}

#[test]
fn texts_are_said_and_the_database_is_listed() {
    assert_eq!(everywhere("\\echo one   'two  three'\n\\echo -n x\n\\echo ;\n"), "one two  three\nx;\n");
    let listed = everywhere("\\format csv\n\\l\n\\d+\n\\dt+\n");
    assert!(listed.starts_with("name,owner,encoding,collate,ctype\nalluvia,alluvia,UTF8,"), "{listed}");
    assert_eq!(listed.matches("schema,name,type,rows,size,dimensions,merged_behind").count(), 2, "{listed}");
    let (_scratch, dir) = scratch();
    let said = good(&["sql", &dir], "\\conninfo\n\\?\n");
    let wanted = format!("You are connected to database \"alluvia\" of this process in {dir} as user \"alluvia\".\n");
    assert!(said.starts_with(&wanted), "{said}");
    for command in ["\\x ", "\\i FILE", "\\o FILE", "\\echo TEXT", "\\conninfo", "\\l ", "\\d+", "\\dv", "\\pset null"]
    {
        assert!(said.contains(command), "{command}: {said}");
    }
    let server = ready(
        command(&["serve", &dir, "--listen", "127.0.0.1:0", "--http-listen", "off", "--flight-listen", "127.0.0.1:0"])
            .spawn()
            .unwrap(),
    );
    let said = good(&["sql", &server.url], "\\conninfo\n");
    assert!(said.starts_with("You are connected to database \"alluvia\" at the server 127.0.0.1:"), "{said}");
}

#[test]
fn tables_are_listed_with_what_they_hold() {
    let script = "CREATE TABLE sales (country TEXT, n INT) WITH (dimensions = 'store(country)');\n\
        INSERT INTO sales VALUES ('fr', 1), ('cl', 2);\nCALL alluvia.merge();\n\
        CREATE VIEW by_country AS SELECT country, count(*) FROM sales GROUP BY country;\nCREATE TEMP TABLE own (a INT);\n\
        \\format csv\n\\d\n\\dv\n\\dt public.*\n";
    let (_scratch, dir) = scratch();
    let said = good(&["sql", &dir], script);
    let lines: Vec<&str> = said.lines().filter(|line| line.contains(',')).collect();
    assert!(lines.iter().any(|line| line.starts_with("public,by_country,view,,,,")), "{said}");
    assert!(
        lines.iter().any(|line| line.starts_with("public,sales,table,2,") && line.contains(",store,0 s")),
        "{said}"
    );
    assert_eq!(lines.iter().filter(|line| line.contains(",own,temporary table,")).count(), 1, "{said}");
    assert_eq!(lines.iter().filter(|line| line.contains(",by_country,")).count(), 2, "{said}");
}

#[test]
fn null_is_shown_as_it_is_set() {
    let said = everywhere(
        "SELECT NULL::text AS a, '' AS b;\n\\pset null 'no value'\nSELECT NULL::text AS a, '' AS b;\n\\x\n\
         SELECT NULL::text AS a, '' AS b;\n\\format csv\nSELECT NULL::text AS a, '' AS b;\n",
    );
    let wanted = "+---+---+\n| a | b |\n+---+---+\n|   |   |\n+---+---+\n(1 row)\nNull display is \"no value\".\n\
                  +----------+---+\n| a        | b |\n+----------+---+\n| no value |   |\n+----------+---+\n(1 row)\n\
                  Expanded display is on.\n-[ RECORD 1 ]\na | no value\nb | \n\na,b\nno value,\"\"\n";
    assert_eq!(said, wanted);
}

#[test]
fn a_byte_order_mark_at_the_beginning_is_skipped() {
    assert_eq!(everywhere("\u{feff}\\format csv\nSELECT 1 AS n;\n"), "n\n1\n");
    let (scratch, dir) = scratch();
    let file = scratch.path().join("marked.sql").display().to_string();
    fs::write(&file, "\u{feff}SELECT 1 AS n;\n").unwrap();
    assert_eq!(good(&["sql", &dir, "--format", "csv", "-f", &file], ""), "n\n1\n");
}

#[test]
fn spans_of_time_are_shown_as_postgresql_does() {
    let query = "SELECT timestamp '2026-01-05 10:00:00' - timestamp '2026-01-01 23:00:00' AS d, \
                 interval '1 day 2 hours' AS i, NULL::interval AS n;\n";
    let said = everywhere(&format!("{query}\\format csv\n{query}"));
    let wanted = "+-----------------+----------------+---+\n| d               | i              | n |\n\
                  +-----------------+----------------+---+\n| 3 days 11:00:00 | 1 day 02:00:00 |   |\n\
                  +-----------------+----------------+---+\n(1 row)\nd,i,n\n3 days 11:00:00,1 day 02:00:00,\n";
    assert_eq!(said, wanted);
}

//! The README's five-minute tour, executed: every ```sql block in order, with the answers printed below each; and its lines
//! of Rust.
#![allow(clippy::disallowed_methods)] // this test runs on the real machine

use alluvia_node::Database;
use arrow::array::RecordBatch;
use arrow::util::pretty::pretty_format_batches;

/// SQL blocks of the README, each with the expected table (a ```text block right after it), if there is one.
fn blocks(readme: &str) -> Vec<(String, Option<String>)> {
    let mut found: Vec<(String, Option<String>)> = Vec::new();
    let mut lines = readme.lines();
    while let Some(line) = lines.next() {
        let mut body = || lines.by_ref().take_while(|line| !line.starts_with("```")).collect::<Vec<_>>().join("\n");
        match line {
            "```sql" => found.push((body(), None)),
            "```text" => {
                let text = body();
                if let Some((_, expected)) = found.last_mut() {
                    *expected = Some(text);
                }
            }
            _ if line.starts_with("```") => drop(body()),
            _ => {}
        }
    }
    found
}

#[test]
fn the_tour_does_what_it_says() {
    let readme = include_str!("../../../../README.md");
    let blocks = blocks(readme);
    assert!(blocks.len() >= 4, "the tour has {} SQL blocks", blocks.len());
    assert!(blocks.iter().any(|block| block.1.is_some()), "the tour shows answers");
    let scratch = tempfile::tempdir().unwrap();
    std::fs::write(scratch.path().join("more.csv"), "sold_at,country,state,city,category,brand,item,price,quantity\n2026-11-21 10:00:00,Chile,Maule,Talca,Music,Andes,Zampoña,19.5,2\n").unwrap();
    let db = Database::open(scratch.path().join("db")).unwrap();
    let session = db.session();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().thread_stack_size(8 << 20).build().unwrap();
    for (sql, expected) in blocks {
        let sql = sql.replace("'more.csv'", &format!("'{}'", scratch.path().join("more.csv").display()));
        let shown = runtime.block_on(async {
            let mut shown = String::new();
            for statement in session.parse(&sql).unwrap_or_else(|error| panic!("{sql}\n{error}")) {
                let outcome = session.execute(statement).await.unwrap_or_else(|error| panic!("{sql}\n{error}"));
                if outcome.rows.is_some() {
                    let batches = outcome.collect().await.unwrap_or_else(|error| panic!("{sql}\n{error}"));
                    shown = pretty_format_batches(&batches).unwrap().to_string();
                }
            }
            shown
        });
        // Estimates and times differ from run to run: the shell's test looks at them.
        if let Some(expected) = expected.filter(|expected| !expected.contains('\u{b1}') && !expected.contains(" ms")) {
            assert_eq!(shown.trim(), expected.trim(), "after:\n{sql}");
        }
    }
}

/// The README's lines of Rust as they stand there; the test below holds the two together, and runs them.
async fn from_rust() -> Result<Vec<RecordBatch>, Box<dyn std::error::Error>> {
    // As in the README:
    let db = alluvia_node::Database::open("./tour")?;
    let session = db.session();
    let batches = session.sql("SELECT count(*) FROM sales").await?.collect().await?;
    // So far.
    Ok(batches)
}

#[test]
fn the_lines_of_rust_do_what_they_say() {
    let readme = include_str!("../../../../README.md");
    let shown = readme.split("```rust\n").nth(1).and_then(|rest| rest.split("```").next()).expect("a block of Rust");
    let lines = include_str!("tour.rs").lines().map(str::trim);
    let here =
        lines.skip_while(|line| *line != "// As in the README:").skip(1).take_while(|line| *line != "// So far.");
    assert_eq!(here.collect::<Vec<_>>(), shown.lines().collect::<Vec<_>>());

    let scratch = tempfile::tempdir().unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().thread_stack_size(8 << 20).build().unwrap();
    // The other test here names its files in full.
    std::env::set_current_dir(scratch.path()).unwrap();
    let batches = runtime.block_on(async {
        {
            let db = Database::open(scratch.path().join("tour")).unwrap();
            let session = db.session();
            session.sql("CREATE TABLE sales (country TEXT)").await.unwrap();
            session.sql("INSERT INTO sales VALUES ('France'), ('Chile')").await.unwrap();
        }
        from_rust().await.unwrap()
    });
    assert!(pretty_format_batches(&batches).unwrap().to_string().contains("| 2 "));
}

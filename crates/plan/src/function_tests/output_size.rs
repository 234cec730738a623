//! Functions, operators and constants that make much of little, in statements with little memory.

use crate::testing::context;
use alluvia_functions::output_size::StatementLimits;
use datafusion::prelude::SessionContext;

/// A session whose statements may hold so much, in batches of 1,000 rows.
fn within(memory_bytes: u64) -> SessionContext {
    let mut state = context().state();
    let options = state.config_mut().options_mut();
    options.extensions.insert(StatementLimits::new(memory_bytes));
    options.execution.batch_size = "1000".parse().unwrap();
    SessionContext::new_with_state(state)
}

async fn refusal(context: &SessionContext, sql: &str) -> Option<String> {
    let answered = async { context.sql(sql).await?.collect().await };
    answered.await.err().map(|error| error.to_string())
}

#[tokio::test]
async fn what_would_take_too_much_is_refused_before_it_is_made() {
    let context = within(10_000_000);
    for sql in [
        "SELECT array_repeat(1, 2000000000)",
        "SELECT list_repeat(1, 2000000000)",
        "SELECT array_resize([1], 2000000000, 7)",
        "SELECT array_resize([1], 2000000000)",
        "SELECT length(replace(repeat('a', 100000), 'a', repeat('b', 100000)))",
        "SELECT length(regexp_replace(repeat('a', 100000), 'a', repeat('b', 100000), 'g'))",
        "SELECT length(concat_ws(repeat('a', 2000000), 1, 2, 3, 4, 5, 6, 7, 8))",
        "SELECT array_replace_all(array_repeat('a', 100000), 'a', repeat('b', 100000))",
        "SELECT length(array_to_string(array_repeat('a', 100000), repeat('b', 100000)))",
        "SELECT generate_series(TIMESTAMP '2000-01-01', TIMESTAMP '2026-01-01', INTERVAL '1 microsecond')",
        "SELECT cardinality(l || l) FROM (SELECT range(1, 1000000) AS l)",
        "SELECT length(s || s) FROM (SELECT repeat('x', 4000000) || repeat('y', 4000000) AS s)",
        "SELECT [s, s, s] FROM (SELECT repeat(value::text, 2000) AS s FROM generate_series(1, 2000))",
        "SELECT length(format(repeat('%1$s', 100000), repeat('x', 100000)))",
        "SELECT array_agg(repeat('x', 1000000)) FROM generate_series(1, 9000)",
        "SELECT length(string_agg(repeat('x', 1000000), ',')) FROM generate_series(1, 9000)",
        "SELECT length(string_agg(value::text, repeat('x', 100000))) FROM generate_series(1, 9000)",
        "SELECT repeat('x', 1000000), value FROM generate_series(1, 9000)",
    ] {
        let refusal = refusal(&context, sql).await;
        let refusal = refusal.unwrap_or_else(|| panic!("it is answered: {sql}"));
        assert!(refusal.contains("may hold"), "{sql}: {refusal}");
    }
    let refused = refusal(&context, "SELECT arrow_cast(NULL, 'FixedSizeBinary(2000000000)')").await;
    assert!(refused.is_some_and(|refused| refused.contains("every value takes")), "a type is wide");
}

#[tokio::test]
async fn what_the_statement_may_hold_is_made() {
    let context = within(10_000_000);
    for (sql, want) in [
        ("SELECT cardinality(array_repeat(1, 1000))", 1_000),
        ("SELECT cardinality(array_resize([1], 1000, 7))", 1_000),
        ("SELECT length(replace(repeat('a', 1000), 'a', 'bc'))", 2_000),
        ("SELECT length(repeat('a', 5000000))", 5_000_000),
        ("SELECT sum(length(value::text || '-' || value::text)) FROM generate_series(1, 9)", 27),
        ("SELECT sum(length(NULL || value::text)) IS NULL FROM generate_series(1, 9)", 1),
        ("SELECT cardinality([1, 2] || 3)", 3),
        ("SELECT count(*) FROM generate_series(1, 9000) WHERE value::text = repeat('x', 1000000)", 0),
        // Told by its length, one pattern in a text of 10,000 characters could match everywhere.
        (
            "SELECT max(length(regexp_replace(repeat(value::text, 1000), '^1', repeat('b', 100), 'g'))) FROM generate_series(1, 500)",
            3_099,
        ),
    ] {
        let rows = crate::testing::rows(&context, sql).await.unwrap();
        assert_eq!(rows, [[Some(want)]], "{sql}");
    }
}

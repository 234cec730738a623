//! Functions that other systems have, and what is written here for them.
//!
//! Invariant: what a hint tells to write is there: `hints.slt` runs all of it. What is here under its own name is not listed.

/// By their names, with what is said of them.
const FUNCTIONS: &[(&[&str], &str)] = &[
    (&["to_decimal"], "write CAST(x AS DECIMAL(p, s))"),
    (&["listagg", "group_concat"], "write string_agg(x, ',')"),
    (&["date_diff", "datediff"], "write date_part('day', a - b) of timestamps, or a::date - b::date"),
    (&["date_add", "dateadd", "date_sub", "datesub"], "write x + INTERVAL '1 day', or x - INTERVAL '1 day'"),
    (&["strftime", "date_format", "format_datetime"], "write to_char(x, 'YYYY-MM-DD')"),
    (&["regexp_extract"], "write regexp_match(x, p)[1]"),
    (&["uuid_generate_v4", "newid", "generate_uuid"], "write gen_random_uuid()"),
    (&["getdate", "sysdate", "sysdatetime"], "write now()"),
    (&["len"], "write length(x)"),
    (&["charindex", "locate"], "write strpos(x, 'part')"),
    (&["timestampdiff"], "write extract(epoch FROM a - b)"),
    (&["unix_timestamp"], "write extract(epoch FROM x)"),
    (&["toyyyymm", "tostartofmonth", "tostartofhour"], "write date_trunc('month', x)"),
    (&["if", "iif"], "write CASE WHEN condition THEN x ELSE y END"),
    (&["isnull"], "write coalesce(x, y), or x IS NULL"),
    (&["second"], "write extract(second FROM x)"),
    (&["quantile"], "write percentile_cont(0.5) WITHIN GROUP (ORDER BY x)"),
];

const JSON: &str = "of JSON there are x -> 'key', x ->> 'key', x #>> '{a,0}', json_build_object, json_agg, row_to_json, jsonb_set, and what \
                    docs/FUNCTIONS.md lists";

/// What to write for a function that is not here; `None` if nothing is known of it.
pub(super) fn instead_of(name: &str) -> Option<&'static str> {
    let name = name.to_ascii_lowercase();
    if name.starts_with("json_") || name.starts_with("jsonb_") {
        return Some(JSON);
    }
    FUNCTIONS.iter().find(|(names, _)| names.contains(&name.as_str())).map(|(_, hint)| *hint)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_function_is_listed_once() {
        let mut names: Vec<&str> = FUNCTIONS.iter().flat_map(|(names, _)| names.iter().copied()).collect();
        let count = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), count);
        assert!(names.iter().all(|name| instead_of(&name.to_uppercase()).is_some()));
        assert_eq!((instead_of("json_table"), instead_of("sum")), (Some(JSON), None));
    }
}

//! Settings that keep DataFusion from what it gets wrong.

use super::{Issues, Mend, Phase, Right};

pub(super) const MENDS: &[Mend] = &[
    Mend {
        phase: Phase::Setting,
        names: &["datafusion.optimizer.enable_aggregate_dynamic_filter_pushdown"],
        module: include_str!("../rules.rs"),
        issues: Issues::Known(&[24816, 25147]),
        setup: &[
            "SET datafusion.execution.parquet.pushdown_filters = true",
            "COPY (SELECT * FROM (VALUES (1, 9)) v(a, b)) TO '{folder}/t/0.parquet' STORED AS PARQUET",
            "COPY (SELECT * FROM (VALUES (1, 9)) v(a, b)) TO '{folder}/t/1.parquet' STORED AS PARQUET",
            "COPY (SELECT * FROM (VALUES (1, 9)) v(a, b)) TO '{folder}/t/2.parquet' STORED AS PARQUET",
            "COPY (SELECT * FROM (VALUES (5, 7)) v(a, b)) TO '{folder}/t/3.parquet' STORED AS PARQUET",
            "COPY (SELECT * FROM (VALUES (1, 9)) v(a, b)) TO '{folder}/t/4.parquet' STORED AS PARQUET",
            "COPY (SELECT * FROM (VALUES (1, 9)) v(a, b)) TO '{folder}/t/5.parquet' STORED AS PARQUET",
            "COPY (SELECT * FROM (VALUES (1, 9)) v(a, b)) TO '{folder}/t/6.parquet' STORED AS PARQUET",
            "COPY (SELECT * FROM (VALUES (5, 7)) v(a, b)) TO '{folder}/t/7.parquet' STORED AS PARQUET",
            "CREATE EXTERNAL TABLE t STORED AS PARQUET LOCATION '{folder}/t/'",
        ],
        statement: "SELECT min(a), min(b + 1) FROM t",
        right: Right::Rows(&["1|8"]),
        without: "1|10: the bound of `a` leaves out a file whose `b` is needed",
    },
    Mend {
        phase: Phase::Setting,
        names: &["datafusion.sql_parser.enable_subquery_sort_elimination"],
        module: include_str!("../rules.rs"),
        issues: Issues::Known(&[15886]),
        setup: &["CREATE TABLE t (x INT) AS VALUES (3), (1), (2)"],
        statement: "SELECT x FROM (SELECT x FROM t ORDER BY x) s LIMIT 1",
        right: Right::Rows(&["1"]),
        without: "3: the order is dropped",
    },
    Mend {
        phase: Phase::Setting,
        names: &["datafusion.execution.skip_physical_aggregate_schema_check"],
        module: include_str!("../rules.rs"),
        issues: Issues::Known(&[24096]),
        setup: &["CREATE TABLE t (x INT) AS VALUES (1), (NULL)"],
        statement: "SELECT DISTINCT (x = 1) IS NOT TRUE FROM t ORDER BY 1",
        right: Right::Rows(&["false", "true"]),
        without: "an error: plans say that the value may be NULL, and expressions that it may not",
    },
];

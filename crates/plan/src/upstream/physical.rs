//! Mends of physical plans and of operators.

use super::{Issues, Mend, Phase, Right};

pub(super) const MENDS: &[Mend] = &[
    Mend {
        phase: Phase::Physical,
        names: &["grouping_sets_of_unknown_rows"],
        module: include_str!("../physical/grouping_sets.rs"),
        issues: Issues::Known(&[24421]),
        setup: &["CREATE TABLE t (k INT, v INT) AS VALUES (1, 1), (1, 2), (2, 3)"],
        statement: "SELECT k, v, count(*) FROM t WHERE k = 1 GROUP BY CUBE (k, v) \
            ORDER BY k NULLS FIRST, v NULLS FIRST",
        right: Right::Rows(&["NULL|NULL|2", "NULL|1|1", "NULL|2|1", "1|NULL|2", "1|1|1", "1|2|1"]),
        without: "in the order of `v`: it takes `k` for a constant, also in the totals",
    },
    Mend {
        phase: Phase::Physical,
        names: &["join_sides_less_known"],
        module: include_str!("../physical/join_sides.rs"),
        issues: Issues::None("outer join, EquivalenceGroup::join, constants, ORDER BY, NULL"),
        setup: &[
            "SET datafusion.execution.target_partitions = 1",
            "CREATE TABLE f (k INT) AS VALUES (1), (2)",
            "CREATE TABLE s (id INT, r INT) AS VALUES (1, 1)",
        ],
        statement: "SELECT s.r, f.k FROM f LEFT JOIN s ON f.k = s.id AND s.r = 1 ORDER BY s.r NULLS FIRST, f.k",
        right: Right::Rows(&["NULL|2", "1|1"]),
        without: "1|1 first: it takes `s.r` for a constant, also where nothing joins",
    },
    Mend {
        phase: Phase::Physical,
        names: &["join_sides_less_known"],
        module: include_str!("../physical/join_sides.rs"),
        issues: Issues::Known(&[25052]),
        setup: &[
            "CREATE TABLE l (k INT, a INT) AS VALUES (1, 10), (1, 20)",
            "CREATE TABLE r (k INT, b INT, id INT) AS VALUES (1, 5, 1), (1, 5, 2)",
        ],
        statement: "SELECT r.b, l.a FROM (SELECT * FROM l ORDER BY a LIMIT 9) l \
            JOIN (SELECT * FROM r ORDER BY b LIMIT 9) r ON l.k = r.k ORDER BY r.b, l.a",
        right: Right::Rows(&["5|10", "5|10", "5|20", "5|20"]),
        without: "5|10, 5|20, 5|10, 5|20: it adds the order of the side that is kept in memory",
    },
    Mend {
        phase: Phase::Physical,
        names: &["orders_of_skipped_rows"],
        module: include_str!("../physical/offset_order.rs"),
        issues: Issues::Known(&[23534, 25378]),
        setup: &["CREATE TABLE s (id INT, t INT) AS VALUES (2, 2), (1, 1)"],
        statement: "SELECT max(id) FROM (SELECT id, t FROM s ORDER BY t OFFSET 1) x",
        right: Right::Rows(&["2"]),
        without: "1: it takes the sort out below OFFSET",
    },
    Mend {
        phase: Phase::Physical,
        names: &["FilterPushdown", "FilterPushdown(Post)"],
        module: include_str!("../physical/pushed_filters.rs"),
        issues: Issues::Known(&[21246, 25244, 25262, 25263, 25264, 25296]),
        setup: &[
            "COPY (SELECT * FROM (VALUES (1, 2), (3, 4)) v(id, v)) TO '{folder}/r.parquet' STORED AS PARQUET",
            "CREATE EXTERNAL TABLE r STORED AS PARQUET LOCATION '{folder}/r.parquet'",
        ],
        statement: "SELECT t.id, r.id FROM r \
            RIGHT JOIN r t ON CAST(r.v AS DOUBLE PRECISION) = CAST(t.id AS DOUBLE PRECISION) \
            WHERE r.id IS NULL ORDER BY 1",
        right: Right::Rows(&["1|NULL", "3|NULL"]),
        without: "no rows: the filter reaches the column of the same name in the other table",
    },
    Mend {
        phase: Phase::Physical,
        names: &["windows_in_runs"],
        module: include_str!("../physical/windows/mod.rs"),
        issues: Issues::Known(&[22946, 23207]),
        setup: &[
            "SET datafusion.runtime.memory_limit = '2M'",
            "CREATE TABLE t AS SELECT value AS n, repeat(value::text, 20) AS s FROM generate_series(10000, 40000)",
        ],
        statement: "SELECT max(c), max(s) FROM (SELECT count(*) OVER () AS c, s FROM t) w",
        right: Right::Fails("Resources exhausted"),
        without: "the rows: what a window holds is counted to no memory",
    },
    Mend {
        phase: Phase::Physical,
        names: &["stoppable_joins"],
        module: include_str!("../physical/stoppable_joins.rs"),
        issues: Issues::Known(&[19358]),
        setup: &["CREATE TABLE t (x INT) AS VALUES (1), (2)"],
        statement: "SELECT count(*) FROM t a JOIN t b ON a.x < b.x",
        right: Right::Stops,
        without: "1: it compares all pairs within one poll",
    },
    Mend {
        phase: Phase::Physical,
        names: &["compact_texts"],
        module: include_str!("../physical/compact/mod.rs"),
        issues: Issues::Known(&[16206]),
        setup: &[
            "SET datafusion.execution.batch_size = 2",
            "CREATE TABLE r AS SELECT arrow_cast(repeat(value::text, 20), 'Utf8View') AS t \
                FROM generate_series(100, 179)",
        ],
        statement: "SELECT a.t, b.t AS u, c.t AS v FROM r a LEFT JOIN r b ON a.t = b.t \
            FULL JOIN r c ON b.t = c.t AND b.t > a.t || 'x'",
        right: Right::Buffers(8),
        without: "lists of all buffers that sorts and joins hold, in each batch that they give",
    },
];

//! Mends of optimizer rules.

use super::{Issues, Mend, Phase, Right};

pub(super) const MENDS: &[Mend] = &[
    Mend {
        phase: Phase::Optimizer,
        names: &["simplify_expressions"],
        module: include_str!("../optimizer/simplify.rs"),
        issues: Issues::Known(&[24246]),
        setup: &["CREATE TABLE t (i INT) AS VALUES (NULL)"],
        statement: "SELECT i IN (1) AND i IN (2), i NOT IN (1) OR i NOT IN (2), i # i FROM t",
        right: Right::Rows(&["NULL|NULL|NULL"]),
        without: "false|true|0",
    },
    Mend {
        phase: Phase::Optimizer,
        names: &["push_down_filter"],
        module: include_str!("../optimizer/push_down_constants.rs"),
        issues: Issues::None("HAVING, constant filter, aggregate without GROUP BY, PushDownFilter"),
        setup: &["CREATE TABLE t (i INT) AS VALUES (1)"],
        statement: "SELECT count(*) FROM t HAVING min(i) = 1 AND min(i) = 2",
        right: Right::Rows(&[]),
        without: "0: it puts the condition, which has become false, below the aggregate",
    },
    Mend {
        phase: Phase::Optimizer,
        names: &["eliminate_cross_join"],
        module: include_str!("../optimizer/null_keys.rs"),
        issues: Issues::None(
            "join, IS NOT DISTINCT FROM, NullEquality, eliminate_cross_join, extract_equijoin_predicate",
        ),
        setup: &[
            "CREATE TABLE a (x INT) AS VALUES (NULL), (1)",
            "CREATE TABLE b (x INT, y INT) AS VALUES (NULL, 1), (1, 2)",
            "CREATE TABLE c (y INT) AS VALUES (1), (2)",
        ],
        statement: "SELECT count(*) FROM a JOIN b ON a.x IS NOT DISTINCT FROM b.x JOIN c ON b.y = c.y",
        right: Right::Rows(&["2"]),
        without: "1: all keys of neighbouring joins take NULL for equal, or none does",
    },
    Mend {
        phase: Phase::Optimizer,
        names: &["extract_equijoin_predicate"],
        module: include_str!("../optimizer/null_keys.rs"),
        issues: Issues::None(
            "join, IS NOT DISTINCT FROM, NullEquality, eliminate_cross_join, extract_equijoin_predicate",
        ),
        setup: &[
            "CREATE TABLE a (x INT, y INT) AS VALUES (1, NULL)",
            "CREATE TABLE b (x INT, y INT) AS VALUES (1, NULL)",
        ],
        statement: "SELECT count(*) FROM a LEFT JOIN b ON a.x IS NOT DISTINCT FROM b.x WHERE a.y = b.y",
        right: Right::Rows(&["0"]),
        without: "1: an `=` becomes a key of a join in which NULL equals NULL",
    },
    Mend {
        phase: Phase::Optimizer,
        names: &["no_false_keys"],
        module: include_str!("../optimizer/functional_dependencies.rs"),
        issues: Issues::None(
            "functional dependencies, Dependency::Multi, aggregate over a join, ORDER BY keys dropped",
        ),
        setup: &[],
        statement: "SELECT x, sum(c) FROM (SELECT a.x, b.y, count(*) AS c \
            FROM (SELECT DISTINCT x FROM (VALUES (2), (1)) v(x)) a, (VALUES (20), (10), (30)) b(y) \
            GROUP BY a.x, b.y) q GROUP BY x, y ORDER BY x",
        right: Right::Rows(&["1|1", "1|1", "1|1", "2|1", "2|1", "2|1"]),
        without: "1|3 and 2|3: what was a key below a join is taken for one above it",
    },
    Mend {
        phase: Phase::Optimizer,
        names: &["computed_lists"],
        module: include_str!("../optimizer/computed_lists.rs"),
        issues: Issues::None("IN list, coalesce, CASE, try_evaluate_constant_list, empty batch"),
        setup: &["CREATE TABLE t (k BIGINT, s BIGINT, j BIGINT) AS VALUES (5, NULL, 5)"],
        statement: "SELECT k IN (1, 2, 3, 4, coalesce(s, j, 0)) FROM t",
        right: Right::Rows(&["true"]),
        without: "false: it takes for a constant what CASE gives where there are no rows",
    },
    Mend {
        phase: Phase::Optimizer,
        names: &["equal_zeros"],
        module: include_str!("../after_types/signed_zero.rs"),
        issues: Issues::Known(&[25186]),
        setup: &["CREATE TABLE f (x DOUBLE PRECISION) AS SELECT -y FROM (VALUES (0.0)) v(y)"],
        statement: "SELECT count(*) FROM f WHERE x = 0 OR x = 1 OR x = 2 OR x = 3",
        right: Right::Rows(&["1"]),
        without: "0: it makes a list of the comparisons, and looks at bits there",
    },
    Mend {
        phase: Phase::Optimizer,
        names: &["ordered_keys"],
        module: include_str!("../optimizer/ordered_keys.rs"),
        issues: Issues::Known(&[18327]),
        setup: &["CREATE TABLE r (id INT, a INT, b INT) AS VALUES (1, 3, 9), (2, 0, 2), (3, 5, 1)"],
        statement: "SELECT id, row_number() OVER (ORDER BY CASE WHEN a > 1 THEN b ELSE a END > 2, sqrt(a * a), id) \
            FROM r ORDER BY 2",
        right: Right::Rows(&["2|1", "3|2", "1|3"]),
        without: "an error: it does not know that the rows are in the order in which it has sorted them",
    },
    Mend {
        phase: Phase::Optimizer,
        names: &["held_constants"],
        module: include_str!("../optimizer/held_constants.rs"),
        issues: Issues::None("constant, ColumnarValue, into_array, memory, repeat, array_agg"),
        setup: &["SET statement.memory_bytes = 1000000"],
        statement: "SELECT cardinality(array_agg(repeat('x', 1000))) FROM generate_series(1, 5000)",
        right: Right::Fails("may hold"),
        without: "5000: a constant is written out for every row of a batch, and counted to no memory",
    },
];

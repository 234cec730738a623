//! Statements that take long in one operator each, in the manner of TPC-DS, and what is done in the same session beforehand.

/// What it is of, and the statement; `;` parts settings from it.
pub const STATEMENTS: &[(&str, &str)] = &[
    ("hash join", "SELECT a.day % 7, sum(a.price * b.price) FROM sales a JOIN sales b ON a.day = b.day GROUP BY 1"),
    (
        "hash join with a filter",
        "SELECT count(*) FROM sales a JOIN sales b ON a.day % 3 = b.day % 3 AND a.price + b.price < -1",
    ),
    (
        "outer hash join",
        "SELECT a.item, count(b.item) FROM sales a LEFT JOIN sales b ON a.day = b.day AND a.note > b.note GROUP BY 1",
    ),
    ("full join", "SELECT count(*) FROM sales a FULL JOIN sales b ON a.day = b.day AND a.price < b.price"),
    (
        "a large table of a join",
        "SELECT count(*) FROM generate_series(1, 30000000) a(k) JOIN generate_series(1, 30000000) b(k) ON a.k = b.k",
    ),
    (
        "semi join",
        "SELECT count(*) FROM sales a WHERE EXISTS (SELECT 1 FROM sales b WHERE b.day = a.day AND b.price < a.price - 2000)",
    ),
    (
        "anti join",
        "SELECT count(*) FROM sales a WHERE NOT EXISTS (SELECT 1 FROM sales b WHERE b.day <> a.day AND b.price < a.price - 2000)",
    ),
    ("nested loop join", "SELECT count(*) FROM sales a JOIN sales b ON a.price < b.price - a.item"),
    ("cross join", "SELECT sum(a.price * b.price) FROM sales a CROSS JOIN sales b"),
    (
        "star join",
        "SELECT i.brand, sum(s.price) FROM sales s JOIN items i ON s.item = i.item, generate_series(1, 10000) g WHERE i.class < 50 GROUP BY 1 ORDER BY 2 DESC",
    ),
    (
        "scalar subquery",
        "SELECT count(*) FROM sales a WHERE a.price > (SELECT avg(b.price) FROM sales b WHERE b.day <= a.day)",
    ),
    (
        "sort",
        "SELECT sum(n) FROM (SELECT row_number() OVER (ORDER BY md5(k::text), k) AS n FROM generate_series(1, 20000000) g(k)) t WHERE n < 0",
    ),
    (
        "sort of texts",
        "SELECT * FROM sales a, generate_series(1, 100) g ORDER BY a.note || g.value, a.price LIMIT 10 OFFSET 20000000",
    ),
    (
        "top rows",
        "SELECT a.note, b.note FROM sales a JOIN sales b ON a.day = b.day ORDER BY a.price * b.price LIMIT 100",
    ),
    (
        "window",
        "SELECT max(r) FROM (SELECT rank() OVER (PARTITION BY day % 2 ORDER BY price) + ntile(7) OVER (ORDER BY note) AS r FROM sales, generate_series(1, 50)) t",
    ),
    (
        "window over all that follows",
        "SELECT sum(m) FROM (SELECT sum(price) OVER (ORDER BY price ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING) \
            - avg(price) OVER () AS m FROM sales, generate_series(1, 50)) t",
    ),
    (
        "lists of frames",
        "SELECT sum(c) FROM (SELECT cardinality(array_agg(note) OVER (ORDER BY price ROWS 500 PRECEDING)) AS c FROM sales) t",
    ),
    (
        "many groups",
        "SELECT count(*) FROM (SELECT k, count(*), sum(k), min(md5(k::text)) FROM generate_series(1, 30000000) g(k) GROUP BY k) t",
    ),
    (
        "mode of many groups",
        "SELECT count(m) FROM (SELECT item * 100000 + day AS g, mode() WITHIN GROUP (ORDER BY note) AS m FROM sales, generate_series(1, 30) GROUP BY 1) t",
    ),
    (
        "lists of many groups",
        "SELECT count(m) FROM (SELECT item * 100000 + day AS g, array_agg(DISTINCT note ORDER BY note) AS m FROM sales, generate_series(1, 30) GROUP BY 1) t",
    ),
    (
        "percentile of all",
        "SELECT percentile_disc(0.3) WITHIN GROUP (ORDER BY price * g.value) FROM sales, generate_series(1, 60) g",
    ),
    ("mode of all", "SELECT mode() WITHIN GROUP (ORDER BY note) FROM sales, generate_series(1, 40) g"),
    ("JSON of all", "SELECT length(json_agg(note)::text) FROM sales, generate_series(1, 20) g"),
    ("texts of all", "SELECT length(string_agg(note, ',' ORDER BY price)) FROM sales, generate_series(1, 20) g"),
    (
        "rollup",
        "SELECT item, day, note, count(*), sum(price) FROM sales, generate_series(1, 30) GROUP BY CUBE (item, day, note)",
    ),
    (
        "distinct values",
        "SELECT count(DISTINCT note || g.value), count(DISTINCT (item, day)) FROM sales, generate_series(1, 200) g",
    ),
    (
        "union",
        "SELECT count(*) FROM (SELECT k FROM generate_series(1, 20000000) a(k) UNION SELECT k + 7 FROM generate_series(1, 20000000) b(k)) t",
    ),
    (
        "except",
        "SELECT count(*) FROM (SELECT k FROM generate_series(1, 20000000) a(k) EXCEPT SELECT k * 2 FROM generate_series(1, 20000000) b(k)) t",
    ),
    (
        "union all",
        "SELECT sum(k) FROM (SELECT k FROM generate_series(1, 1000000000000) a(k) UNION ALL SELECT item FROM sales) t",
    ),
    ("generated rows", "SELECT count(*) FROM generate_series(1, 10000000000000) g(k) WHERE k % 1000003 = 7"),
    (
        "unnest",
        "SELECT count(*) FROM (SELECT unnest(generate_series(1, 2000)) AS u FROM sales, generate_series(1, 100)) t WHERE u < 0",
    ),
    ("recursion", "WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r WHERE n > 0) SELECT count(*) FROM r"),
    (
        "recursion of many rows",
        "WITH RECURSIVE r(n, m) AS (SELECT item, 1 FROM sales UNION ALL SELECT n + 1, m + 1 FROM r WHERE m < 100000) SELECT sum(n) FROM r",
    ),
    (
        "patterns",
        "SELECT count(*) FROM sales WHERE regexp_replace(repeat(note, 400), '([a-z]+) ([a-z]*x)', '\\2 \\1', 'g') ~ '(a|b)+(c|d)+xyz$'",
    ),
    ("patterns of DataFusion", "SELECT sum(regexp_count(repeat(note, 400), '(a|e|i)+[^ ]* (t|v)')) FROM sales"),
    ("matches of one text", "SELECT count(*) FROM regexp_matches(repeat('ab', 3000000), '(a)(b)', 'g') m"),
    ("distances of texts", "SELECT sum(levenshtein(repeat(note, 40), repeat(reverse(note), 40))) FROM sales"),
    ("long texts", "SELECT sum(length(upper(reverse(repeat(note, 2000))))) FROM sales"),
    (
        "lists",
        "SELECT sum(cardinality(array_distinct(array_cat(generate_series(1, 500 + item), generate_series(item, item + 700))))) FROM sales",
    ),
    (
        "sample",
        "SELECT sum(a.price * b.price) FROM sales a TABLESAMPLE BERNOULLI (50) JOIN sales b TABLESAMPLE BERNOULLI (50) ON a.day = b.day",
    ),
    ("the index", "SELECT brand, sum(class), count(*) FROM items GROUP BY brand ORDER BY 2 DESC LIMIT 3"),
    ("members", "SELECT sum(class) FROM items WHERE levenshtein(repeat(brand, 60), repeat(reverse(brand), 60)) < 10"),
    (
        "members of a plan",
        "SELECT sum(class), max(brand || class) FROM items WHERE regexp_replace(repeat(brand, 20000), '[a-z]+', 'x', 'g') = 'y'",
    ),
    ("table of a query", "CREATE TABLE made AS SELECT a.item, b.note FROM sales a JOIN sales b ON a.day = b.day"),
    ("rows of a query", "INSERT INTO kept SELECT k, md5(k::text) FROM generate_series(1, 100000000) g(k)"),
    (
        "change",
        "UPDATE kept SET v = (SELECT min(s.note) FROM sales s WHERE s.price > kept.k % 1000 AND s.note > kept.v)",
    ),
    ("procedure", "DO $$ DECLARE n bigint := 0; BEGIN LOOP n := n + 1; END LOOP; END $$"),
    ("planning", "PLANNING"),
];

/// Each CTE joins the one before twice, so the plan has 2^12 joins; planning it takes seconds.
pub fn long_to_plan() -> String {
    let chain = (1..=12).map(|at| format!(", c{at} AS (SELECT x.k FROM c{0} x JOIN c{0} y ON x.k = y.k)", at - 1));
    format!("WITH c0 AS (SELECT k FROM kept){} SELECT count(*) FROM c12", chain.collect::<String>())
}

/// What the tables are made of.
pub const TABLES: &[&str] = &[
    "CREATE TABLE sales AS SELECT k % 1000 AS item, k % 365 AS day, (k * 7919 % 100000) / 100.0::double precision AS price, \
        'a note of a sale, ' || k % 5000 AS note FROM generate_series(1, 300000) g(k)",
    "CREATE TABLE items (item BIGINT, brand TEXT, class BIGINT) WITH (dimensions = 'brand', measures = 'class')",
    "INSERT INTO items SELECT k % 1000, 'a brand of its own, ' || k % 20000, k % 100 FROM generate_series(1, 60000) g(k)",
    "CREATE TABLE kept (k BIGINT PRIMARY KEY, v TEXT)",
    "INSERT INTO kept SELECT k, md5(k::text) FROM generate_series(1, 20000) g(k)",
    "CALL alluvia.merge()",
];

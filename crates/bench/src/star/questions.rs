//! Questions of the star: SSB's four flights, from many rows to few, with sums of columns, and plain joins of one table.

/// One question; `joined` small tables have a condition or a group.
pub struct Question {
    pub name: &'static str,
    pub joined: usize,
    pub sql: &'static str,
}

/// Of each flight the widest first.
pub const QUESTIONS: [Question; 18] = [
    Question {
        name: "1 day: a year",
        joined: 1,
        sql: "SELECT sum(lo_revenue), count(*) FROM lineorder JOIN dates ON lo_orderdate = d_datekey \
              WHERE d_year = 1993 AND lo_discount BETWEEN 1 AND 3 AND lo_quantity < 25",
    },
    Question {
        name: "1 day: a month",
        joined: 1,
        sql: "SELECT sum(lo_revenue), count(*) FROM lineorder JOIN dates ON lo_orderdate = d_datekey \
              WHERE d_month = 199401 AND lo_discount BETWEEN 4 AND 6 AND lo_quantity BETWEEN 26 AND 35",
    },
    Question {
        name: "1 day: a week",
        joined: 1,
        sql: "SELECT sum(lo_revenue), count(*) FROM lineorder JOIN dates ON lo_orderdate = d_datekey \
              WHERE d_week = 6 AND d_year = 1994 AND lo_discount BETWEEN 5 AND 7 AND lo_quantity BETWEEN 26 AND 35",
    },
    Question {
        name: "1 customer: a region",
        joined: 1,
        sql: "SELECT c_nation, sum(lo_revenue), avg(lo_supplycost), count(*) FROM lineorder \
              JOIN customer ON lo_custkey = c_custkey WHERE c_region = 'ASIA' GROUP BY c_nation",
    },
    Question {
        name: "1 customer: a nation",
        joined: 1,
        sql: "SELECT c_city, sum(lo_revenue), avg(lo_supplycost), count(*) FROM lineorder \
              JOIN customer ON lo_custkey = c_custkey WHERE c_nation = 'NATION 11' GROUP BY c_city",
    },
    Question {
        name: "1 customer: a city",
        joined: 1,
        sql: "SELECT c_city, sum(lo_revenue), avg(lo_supplycost), count(*) FROM lineorder \
              JOIN customer ON lo_custkey = c_custkey WHERE c_city = 'CITY 117' GROUP BY c_city",
    },
    Question {
        name: "2 supplier, day: a region by year",
        joined: 2,
        sql: "SELECT d_year, s_nation, sum(lo_revenue), max(lo_revenue) FROM lineorder \
              JOIN dates ON lo_orderdate = d_datekey JOIN supplier ON lo_suppkey = s_suppkey \
              WHERE s_region = 'EUROPE' GROUP BY d_year, s_nation",
    },
    Question {
        name: "2 supplier, day: a nation, a year",
        joined: 2,
        sql: "SELECT d_month, s_city, sum(lo_revenue), max(lo_revenue) FROM lineorder \
              JOIN dates ON lo_orderdate = d_datekey JOIN supplier ON lo_suppkey = s_suppkey \
              WHERE s_nation = 'NATION 16' AND d_year = 1995 GROUP BY d_month, s_city",
    },
    Question {
        name: "2 IN: suppliers of a city, a month",
        joined: 2,
        sql: "SELECT lo_discount, sum(lo_revenue), count(*) FROM lineorder \
              WHERE lo_suppkey IN (SELECT s_suppkey FROM supplier WHERE s_city = 'CITY 042') \
              AND lo_orderdate IN (SELECT d_datekey FROM dates WHERE d_month = 199702) GROUP BY lo_discount",
    },
    Question {
        name: "2.1 a category, a region",
        joined: 3,
        sql: "SELECT d_year, p_brand, sum(lo_revenue) FROM lineorder JOIN dates ON lo_orderdate = d_datekey \
              JOIN part ON lo_partkey = p_partkey JOIN supplier ON lo_suppkey = s_suppkey \
              WHERE p_category = 'CATEGORY 12' AND s_region = 'AMERICA' GROUP BY d_year, p_brand",
    },
    Question {
        name: "2.2 eight brands, a region",
        joined: 3,
        sql: "SELECT d_year, p_brand, sum(lo_revenue) FROM lineorder JOIN dates ON lo_orderdate = d_datekey \
              JOIN part ON lo_partkey = p_partkey JOIN supplier ON lo_suppkey = s_suppkey \
              WHERE p_brand BETWEEN 'BRAND 221' AND 'BRAND 228' AND s_region = 'ASIA' GROUP BY d_year, p_brand",
    },
    Question {
        name: "2.3 a brand, a region",
        joined: 3,
        sql: "SELECT d_year, p_brand, sum(lo_revenue) FROM lineorder JOIN dates ON lo_orderdate = d_datekey \
              JOIN part ON lo_partkey = p_partkey JOIN supplier ON lo_suppkey = s_suppkey \
              WHERE p_brand = 'BRAND 239' AND s_region = 'EUROPE' GROUP BY d_year, p_brand",
    },
    Question {
        name: "3.1 regions, six years",
        joined: 3,
        sql: "SELECT c_nation, s_nation, d_year, sum(lo_revenue) FROM lineorder JOIN customer ON lo_custkey = c_custkey \
              JOIN supplier ON lo_suppkey = s_suppkey JOIN dates ON lo_orderdate = d_datekey \
              WHERE c_region = 'ASIA' AND s_region = 'ASIA' AND d_year BETWEEN 1992 AND 1997 GROUP BY c_nation, s_nation, d_year",
    },
    Question {
        name: "3.2 nations, six years",
        joined: 3,
        sql: "SELECT c_city, s_city, d_year, sum(lo_revenue) FROM lineorder JOIN customer ON lo_custkey = c_custkey \
              JOIN supplier ON lo_suppkey = s_suppkey JOIN dates ON lo_orderdate = d_datekey \
              WHERE c_nation = 'NATION 08' AND s_nation = 'NATION 08' AND d_year BETWEEN 1992 AND 1997 GROUP BY c_city, s_city, d_year",
    },
    Question {
        name: "3.3 two cities, six years",
        joined: 3,
        sql: "SELECT c_city, s_city, d_year, sum(lo_revenue) FROM lineorder JOIN customer ON lo_custkey = c_custkey \
              JOIN supplier ON lo_suppkey = s_suppkey JOIN dates ON lo_orderdate = d_datekey \
              WHERE c_city IN ('CITY 181', 'CITY 185') AND s_city IN ('CITY 181', 'CITY 185') AND d_year BETWEEN 1992 AND 1997 \
              GROUP BY c_city, s_city, d_year",
    },
    Question {
        name: "3.4 two cities, a month",
        joined: 3,
        sql: "SELECT c_city, s_city, d_year, sum(lo_revenue) FROM lineorder JOIN customer ON lo_custkey = c_custkey \
              JOIN supplier ON lo_suppkey = s_suppkey JOIN dates ON lo_orderdate = d_datekey \
              WHERE c_city IN ('CITY 181', 'CITY 185') AND s_city IN ('CITY 181', 'CITY 185') AND d_month = 199712 \
              GROUP BY c_city, s_city, d_year",
    },
    Question {
        name: "4.1 regions, two manufacturers",
        joined: 4,
        sql: "SELECT d_year, c_nation, sum(lo_revenue), sum(lo_supplycost) FROM lineorder \
              JOIN dates ON lo_orderdate = d_datekey JOIN customer ON lo_custkey = c_custkey \
              JOIN supplier ON lo_suppkey = s_suppkey JOIN part ON lo_partkey = p_partkey \
              WHERE c_region = 'AMERICA' AND s_region = 'AMERICA' AND p_mfgr IN ('MFGR 1', 'MFGR 2') GROUP BY d_year, c_nation",
    },
    Question {
        name: "4.3 a nation, a category, two years",
        joined: 4,
        sql: "SELECT d_year, s_city, p_brand, sum(lo_revenue), sum(lo_supplycost) FROM lineorder \
              JOIN dates ON lo_orderdate = d_datekey JOIN customer ON lo_custkey = c_custkey \
              JOIN supplier ON lo_suppkey = s_suppkey JOIN part ON lo_partkey = p_partkey \
              WHERE c_region = 'AMERICA' AND s_nation = 'NATION 06' AND d_year IN (1997, 1998) AND p_category = 'CATEGORY 13' \
              GROUP BY d_year, s_city, p_brand",
    },
];

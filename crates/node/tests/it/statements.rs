//! Generated statements over one small table: what the index is made for, what it may take a part in, and near misses.
//!
//! Invariant: what a statement says is one thing: rows are ordered by all that tells them apart where their order or their number
//! matters, and nothing depends on the last digit of a float.

use crate::near_misses::near_miss;
use crate::support::Random;
use crate::times::computed;
use crate::{nested, stars};
use alluvia_query::ScalarValue;

pub(crate) const CREATE: &str = "CREATE TABLE sales (
    sold_at TIMESTAMP, day DATE, country TEXT, city TEXT, item TEXT NOT NULL, shelf INT, open BOOLEAN, weight DOUBLE,
    price DOUBLE, quantity INT, cents BIGINT NOT NULL, amount DECIMAL(12, 2), share REAL, seen_at TIMESTAMPTZ)
    WITH (dimensions = 'store(country, city); item; shelf; open; time(sold_at: year, month, day, hour); date(day: year, month, day); seen(seen_at: month, day); weight(weight: linear 0..100)',
          measures = 'price, quantity, cents, amount, share')";

/// Cities whose letters have several forms in the other case, or none, and one of two lines.
const CASED: [&str; 6] = ["straße", "STRASSE", "ΣΊΣΥΦΟΣ", "İzmir", "\u{212A}elvin", "a\nb"];

pub(crate) fn rows(random: &mut Random, count: u64) -> String {
    let rows: Vec<String> = (0..count)
        .map(|_| {
            let country = match random.below(13) {
                0 => "NULL".to_owned(),
                other => format!("'{}'", ["Chile", "France", "Peru", "Kenya"][other as usize % 4]),
            };
            let city = match random.below(16) {
                0 => "NULL".to_owned(),
                plain @ 1..10 => format!("'{}'", ["Lima", "Paris", "Old Town", "Lakeside", "Lamu"][plain as usize % 5]),
                other => format!("'{}'", CASED[other as usize % CASED.len()]),
            };
            let (month, day, hour) = (1 + random.below(12), 1 + random.below(28), random.below(24));
            let year = 2024 + random.below(3);
            let time = format!("{year}-{month:02}-{day:02} {hour:02}:{:02}:00", random.below(60));
            let price = match random.below(20) {
                0 => "NULL".to_owned(),
                1 => format!("{}", random.below(1 << 50) as f64 / 7.0),
                2 => random.pick(&["0", "-0.0"]).to_owned(),
                _ => format!("{}.{:02}", random.below(500), random.below(100)),
            };
            let quantity = if random.below(9) == 0 { "NULL".to_owned() } else { (random.below(40) as i64 - 5).to_string() };
            let cents = random.below(1 << 40) as i64 - (1 << 39);
            let amount = match random.below(9) {
                0 => "NULL".to_owned(),
                sign => format!("{}{}.{:02}", if sign < 5 { "-" } else { "" }, random.below(90_000), random.below(100)),
            };
            let (shelf, weight) = (random.below(30), random.below(10_000) as f64 / 100.0);
            let open = random.pick(&["true", "false", "NULL"]);
            let item = if random.below(40) == 0 { 50 + random.below(2_000) } else { random.below(50) };
            format!(
                "('{time}', '{}', {country}, {city}, 'item {item}', {shelf}, {open}, {weight}, {price}, {quantity}, {cents}, {amount}, {}.5, {})",
                &time[..10],
                random.below(100),
                if random.below(9) == 0 { "NULL".to_owned() } else { format!("'{time}.{:03}+01:00'", random.below(1_000)) }
            )
        })
        .collect();
    format!("INSERT INTO sales VALUES {}", rows.join(", "))
}

/// Conditions, mostly one.
pub(crate) fn condition(random: &mut Random) -> String {
    match random.below(12) {
        0 => format!("({} AND {} OR {})", condition(random), simple(random), condition(random)),
        1 => format!("({} OR {})", condition(random), condition(random)),
        2 => format!("NOT ({} AND {})", simple(random), simple(random)),
        3 => format!("NOT ({} OR {})", simple(random), condition(random)),
        _ => simple(random),
    }
}

fn numbers(random: &mut Random) -> String {
    let numbers: Vec<String> = (0..1 + random.below(5)).map(|_| random.below(33).to_string()).collect();
    numbers.join(", ")
}

/// A list of cities: none, or so many that the planner leaves it a list.
fn cities(random: &mut Random) -> String {
    let count = if random.below(5) == 0 { 0 } else { 4 + random.below(3) };
    let names = ["Lima", "Paris", "Old Town", "Lakeside", "Lamu", "Nowhere", "straße", "İzmir"];
    let cities: Vec<String> = (0..count).map(|_| format!("'{}'", random.pick(&names))).collect();
    cities.join(", ")
}

fn simple(random: &mut Random) -> String {
    let country = ["'Chile'", "'France'", "'Peru'", "'Kenya'", "'Nowhere'"];
    let city = ["'Lima'", "'Paris'", "'Old Town'", "'Lakeside'", "'Lamu'", "'straße'", "'ΣΊΣΥΦΟΣ'"];
    let times =
        ["'2025-01-01'", "'2024-07-01 00:00:00'", "'2025-03-05 12:00:00'", "'2025-03-05 12:34:56.789'", "'2026-02-01'"];
    let days = ["'2025-01-01'", "'2024-02-29'", "'2026-11-30'"];
    let op = random.pick(&["=", "<>", "<", "<=", ">", ">="]);
    match random.below(54) {
        0 => format!("country {op} {}", random.pick(&country)),
        1 => format!("country IN ({}, {})", random.pick(&country), random.pick(&country)),
        2 => format!("city NOT IN ({}, {})", random.pick(&city), random.pick(&city)),
        3 => format!("city {op} {}", random.pick(&city)),
        4 => format!("{} {op} city", random.pick(&city)),
        5 => format!("country LIKE '{}%'", random.pick(&["C", "Fr", "", "x", "P_"])),
        6 => format!(
            "{} IS {}NULL",
            random.pick(&["country", "city", "sold_at", "shelf", "day"]),
            random.pick(&["", "NOT "])
        ),
        7 => format!("sold_at {op} {}", random.pick(&times)),
        8 => format!("sold_at BETWEEN {} AND {}", random.pick(&times), random.pick(&times)),
        9 => format!("day {op} {}", random.pick(&days)),
        10 => format!("day BETWEEN {} AND DATE {}", random.pick(&days), random.pick(&days)),
        11 if random.below(2) == 0 => {
            let (low, high) = (50 + random.below(2_000), random.below(100));
            format!("item {} 'item {low}' AND item <> 'item {high}'", random.pick(&[">", "<", "<>"]))
        }
        11 => format!("shelf {op} {}", random.below(32)),
        12 => format!("shelf BETWEEN {} AND {}", random.below(32), random.below(32)),
        13 => format!("(item = 'item {}' OR item = 'item {}')", random.below(50), random.below(50)),
        14 => format!("open = {}", random.pick(&["true", "false"])),
        15 => format!("weight < {}", random.below(100)),
        16 => format!("shelf NOT BETWEEN {} AND {}", random.below(32), random.below(32)),
        17 => {
            format!(
                "city {}LIKE '{}'",
                random.pick(&["", "NOT "]),
                random.pick(&["%a%", "Lim_", "Paris", "L%", "%", "a_b", "%ς", "str%"])
            )
        }
        18 => format!("{}open", random.pick(&["", "NOT "])),
        19 => format!("sold_at NOT BETWEEN {} AND {}", random.pick(&times), random.pick(&times)),
        20 => format!("(country = {} OR shelf {op} {})", random.pick(&country), random.below(32)),
        21 => format!("(item LIKE 'item 1%' AND shelf < {} OR day >= {})", random.below(32), random.pick(&days)),
        22 => format!("(country = {} OR city = {})", random.pick(&country), random.pick(&city)),
        23 => format!("sold_at {op} TIMESTAMP {}", random.pick(&times)),
        24 => format!("sold_at {op} DATE {}", random.pick(&days)),
        25 => format!("{} {op} day", random.pick(&days)),
        26 => format!("shelf {}IN ({})", random.pick(&["", "NOT "]), numbers(random)),
        27 => format!("day {}IN ({}, {})", random.pick(&["", "NOT "]), random.pick(&days), random.pick(&days)),
        28 => format!("-{} {op} shelf", random.below(3)),
        29 => format!("item NOT LIKE 'item {}%'", random.below(9)),
        30 => format!("open <> {}", random.pick(&["true", "false"])),
        31 => {
            // Boxes that differ at one level, and one that differs at two.
            let (country, item) = (random.pick(&country), random.below(50));
            let of = |item: u64| format!("country = {country} AND item = 'item {item}'");
            format!("({} OR {} OR city = {} AND shelf < 9)", of(item), of(item + 1), random.pick(&city))
        }
        32 | 33 => {
            // From moment to moment, wherever units begin.
            let (low, end) = (moment(random), moment(random));
            let (column, zone) = if random.below(2) == 0 { ("sold_at", "") } else { ("seen_at", "+02:00") };
            let (from, to) = (random.pick(&[">", ">="]), random.pick(&["<", "<="]));
            format!("{column} {from} '{}{zone}' AND {column} {to} '{}'", low.clone().min(end.clone()), low.max(end))
        }
        34 => format!("seen_at {op} '{}{}'", moment(random), random.pick(&["", "Z", "-03:30"])),
        35 if random.below(2) == 0 => {
            let (low, end) = (moment(random), moment(random));
            format!("{}(sold_at {op} '{low}' AND country <> 'Peru' OR sold_at < '{end}')", random.pick(&["", "NOT "]))
        }
        35 => format!("seen_at {op} {}", random.pick(&times)),
        36 => format!("day {} '2025-0{}-{}'", random.pick(&[">=", "<"]), 1 + random.below(9), 10 + random.below(19)),
        37 if random.below(3) == 0 => {
            format!("{}::date {op} {}", random.pick(&["sold_at", "seen_at"]), random.pick(&days))
        }
        37 => computed(random, op),
        38 | 39 => {
            let (unit, column) = (random.pick(&["year", "month", "day", "hour"]), random.pick(&["sold_at", "seen_at"]));
            format!("date_trunc('{unit}', {column}) {op} TIMESTAMP {}", random.pick(&times))
        }
        // What is evaluated on the members of a level.
        40 => format!(
            "{}({}) {op} '{}'",
            random.pick(&["lower", "upper", "LOWER"]),
            random.pick(&["country", "city", "s.city"]),
            random.pick(&[
                "chile",
                "LIMA",
                "PARIS",
                "lamu",
                "Lima",
                "old town",
                "straße",
                "STRASSE",
                "σίσυφος",
                "kelvin",
                "A\nB"
            ])
        ),
        41 => format!(
            "city {}ILIKE '{}'",
            random.pick(&["", "NOT "]),
            random.pick(&["%l%", "LA%", "p_ris", "%TOWN", "%", "lima", "k%", "%ς", "a_b", "i%", "strasse", "%SS%"])
        ),
        42 => format!(
            "{}(city) {}{}",
            random.pick(&["lower", "upper"]),
            random.pick(&["", "NOT "]),
            random.pick(&[
                "IN ('lima', 'PARIS', 'lamu')",
                "IN ('lima', 'STRASSE', 'straße', 'LAMU', 'kelvin')",
                "LIKE 'l%'",
                "LIKE '%A%'",
                "LIKE 'k%'",
                "LIKE '%ς'",
                "LIKE 'a_b'",
            ])
        ),
        43 => random
            .pick(&[
                "length(city) > 5",
                "nullif(country, 'Peru') = 'Chile'",
                "coalesce(city, 'Lima') <> 'Paris'",
                "CASE WHEN city = 'Lima' THEN NULL ELSE city END < 'M'",
                "city ~ '^L'",
                "substr(item, 6) = '7'",
                "country IN (NULL, 'Chile')",
                "city NOT IN ('Lima', NULL)",
                "(city = 'Lima') IS NOT TRUE",
                "concat(city, '!') = 'Lima!'",
            ])
            .to_owned(),
        44 => format!("shelf % {} {op} {}", 1 + random.below(6), random.below(4)),
        45 if random.below(2) == 0 => format!("shelf {op} {}::int", random.below(32)),
        45 => format!("shelf {op} {}.5", random.below(32)),
        46 => {
            let column = random.pick(&["country", "city", "item"]);
            let value = random.pick(&["'Chile'", "'Lima'", "'item 7'", "NULL"]);
            format!("{column} IS {}DISTINCT FROM {value}", random.pick(&["", "NOT "]))
        }
        47 => format!("open IS {}{}", random.pick(&["", "NOT "]), random.pick(&["TRUE", "FALSE", "NULL"])),
        48 => {
            let column = random.pick(&["sold_at", "seen_at"]);
            format!("'{}' IS {}DISTINCT FROM {column}", moment(random), random.pick(&["", "NOT "]))
        }
        49 => {
            let column = random.pick(&["sold_at", "seen_at", "day"]);
            format!("extract(year FROM {column}) {op} {}", 2023 + random.below(5))
        }
        50 => {
            let column = random.pick(&["sold_at", "seen_at", "day"]);
            let (is, year) = (random.pick(&["", "NOT "]), 2023 + random.below(4));
            match random.below(2) {
                0 => format!("date_part('year', {column}) {is}IN ({year}, 2026)"),
                _ => format!("extract(year FROM {column}) {is}BETWEEN {year} AND 2025"),
            }
        }
        // Lists that meet on one column.
        51 => {
            let (is, joined) = (random.pick(&["", "NOT "]), random.pick(&["AND", "OR"]));
            let (one, other) = (cities(random), cities(random));
            format!("(city {is}IN ({one}) {joined} city {}IN ({other}))", random.pick(&["", "NOT "]))
        }
        52 => {
            let (is, joined) = (random.pick(&["", "NOT "]), random.pick(&["AND", "OR"]));
            let (one, other) = (numbers(random), numbers(random));
            format!("{}(shelf {is}IN ({one}) {joined} shelf {is}IN ({other}, 4))", random.pick(&["", "NOT "]))
        }
        _ => format!("s.item LIKE 'item {}%'", random.below(9)),
    }
}

/// A time somewhere in the three years that rows are of, mostly within an hour.
fn moment(random: &mut Random) -> String {
    let (year, month, day) = (2024 + random.below(3), 1 + random.below(12), 1 + random.below(28));
    let (hour, minute) = (random.below(24), if random.below(3) == 0 { 0 } else { random.below(60) });
    format!("{year}-{month:02}-{day:02} {hour:02}:{minute:02}:00")
}

/// A statement, and values for its parameters.
#[derive(Debug)]
pub(crate) struct GeneratedStatement {
    pub(crate) sql: String,
    pub(crate) values: Vec<ScalarValue>,
    /// Whether the order of its rows is part of its answer.
    pub(crate) is_ordered: bool,
}

impl GeneratedStatement {
    pub(crate) fn of(sql: String) -> GeneratedStatement {
        GeneratedStatement { is_ordered: sql.contains("ORDER BY"), sql, values: Vec::new() }
    }
}

/// Any statement of any kind. Joins are with the tables of [`stars::small_tables`].
pub(crate) fn any(random: &mut Random) -> GeneratedStatement {
    match random.below(20) {
        0..7 => GeneratedStatement::of(aggregate(random)),
        7..9 => GeneratedStatement::of(pinned(random)),
        9..11 => GeneratedStatement::of(having(random)),
        // Those have orders inside of them.
        11 | 12 => {
            let sql = nested::statement(random);
            GeneratedStatement { is_ordered: sql.contains("LIMIT"), sql, values: Vec::new() }
        }
        13 | 14 => GeneratedStatement { is_ordered: false, sql: stars::statement(random), values: Vec::new() },
        15 | 16 => parameters(random),
        _ => GeneratedStatement::of(near_miss(random)),
    }
}

/// Levels as keys.
pub(crate) const GROUPS: [&str; 12] = [
    "country",
    "city",
    "item",
    "shelf",
    "open",
    "date_trunc('month', sold_at)",
    "date_trunc('day', sold_at)",
    "date_trunc('year', sold_at)",
    "day",
    "s.country",
    "date_trunc('month', day)",
    "date_trunc('day', seen_at)",
];

pub(crate) fn wheres(conditions: &[String]) -> String {
    if conditions.is_empty() { String::new() } else { format!(" WHERE {}", conditions.join(" AND ")) }
}

/// Aggregates of one table by groups, over a box.
pub(crate) fn aggregate(random: &mut Random) -> String {
    let columns = ["price", "quantity", "cents", "amount", "share"];
    let functions = ["sum", "avg", "min", "max", "count", "var_pop", "stddev"];
    let mut items = Vec::new();
    let mut grouped: Vec<String> = Vec::new();
    for _ in 0..random.below(3) {
        let group = random.pick(&GROUPS);
        if items.iter().any(|item: &String| item.trim_start_matches("s.").starts_with(group.trim_start_matches("s."))) {
            continue;
        }
        let alias = format!("g{}", items.len());
        match random.below(5) {
            0 => {
                items.push(format!("{group} AS {alias}"));
                grouped.push(alias);
            }
            1 => {
                items.push(group.to_owned());
                grouped.push(items.len().to_string());
            }
            2 => {
                items.push(format!("{group} AS {alias}"));
                grouped.push(group.to_owned());
            }
            _ => {
                items.push(group.to_owned());
                grouped.push(group.to_owned());
            }
        }
    }
    let keys = items.len();
    let mut exact = Vec::new();
    for _ in 0..1 + random.below(3) {
        let (function, column) = (random.pick(&functions), random.pick(&columns));
        let text = if random.below(4) == 0 { "count(*)".to_owned() } else { format!("{function}({column})") };
        let name = format!("a{}", items.len());
        if text.starts_with("count") || (["quantity", "cents"].contains(&column) && ["sum", "max"].contains(&function))
        {
            exact.push(name.clone());
        }
        items.push(format!("{text} AS {name}"));
    }
    let conditions: Vec<String> = (0..random.below(4)).map(|_| condition(random)).collect();
    let mut sql = format!("SELECT {} FROM sales s{}", items.join(", "), wheres(&conditions));
    if grouped.is_empty() {
        return if random.below(20) == 0 { format!("{sql} LIMIT {}", random.below(3)) } else { sql };
    }
    sql += &format!(" GROUP BY {}", grouped.join(", "));
    if random.below(3) == 0 {
        // All keys are in it, so that the order is one.
        let directions = ["", "DESC", "ASC NULLS FIRST", "DESC NULLS LAST"];
        let mut order: Vec<String> = (1..=keys).map(|place| format!("{place} {}", random.pick(&directions))).collect();
        if random.below(3) == 0
            && let Some(first) = exact.first()
        {
            order.insert(0, format!("{first} {}", random.pick(&directions)));
        }
        sql += &format!(" ORDER BY {}", order.join(", "));
        match random.below(4) {
            0 | 1 => sql += &format!(" LIMIT {} OFFSET {}", random.below(6), random.below(3)),
            2 => sql += &format!(" OFFSET {}", random.below(30)),
            _ => {}
        }
    }
    sql
}

/// Levels of cuboids that the test pins.
pub(crate) const PINNED: [&str; 3] = ["country, open", "shelf", "city"];

/// What a pinned cuboid can answer.
fn pinned(random: &mut Random) -> String {
    let values =
        ["count(*)", "sum(cents)", "sum(quantity), count(quantity)", "max(cents), min(quantity)", "sum(price)"];
    let shapes = [
        ("country", "open"),
        ("country", "country = 'Peru'"),
        ("open", "country IN ('Chile', 'France')"),
        ("open", "country LIKE 'C%' OR country = 'Kenya'"),
        ("shelf", "shelf BETWEEN 3 AND 12"),
        ("shelf", "shelf NOT IN (1, 2, 3)"),
        ("city", "city >= 'Lima'"),
        ("city", "city IS NULL OR city < 'M'"),
    ];
    let (group, condition) = shapes[random.below(shapes.len() as u64) as usize];
    let value = random.pick(&values);
    match random.below(3) {
        0 => format!("SELECT {value} FROM sales s WHERE {condition}"),
        1 => format!("SELECT {group}, {value} FROM sales s GROUP BY {group}"),
        _ => format!("SELECT {group}, {value} FROM sales s WHERE {condition} GROUP BY {group} ORDER BY {group}"),
    }
}

/// Groups that an aggregate chooses, or puts in order.
fn having(random: &mut Random) -> String {
    let (group, exact) = (random.pick(&GROUPS), random.pick(&nested::EXACT));
    let conditions: Vec<String> = (0..random.below(3)).map(|_| condition(random)).collect();
    let sql = format!("SELECT {group} AS k, {exact} AS n, avg(quantity) FROM sales s{}", wheres(&conditions));
    let (op, number) = (random.pick(&["<", ">", "<>", ">="]), random.below(300));
    match random.below(5) {
        0 => format!("{sql} GROUP BY {group} HAVING {exact} {op} {number}"),
        1 => format!("{sql} GROUP BY 1 HAVING count(*) BETWEEN 2 AND {number} AND min(shelf) < 5"),
        2 => format!("{sql} GROUP BY {group} HAVING {group} IS NOT NULL AND {exact} {op} {number}"),
        3 => format!("{sql} GROUP BY k ORDER BY {exact} DESC, k LIMIT {}", random.below(7)),
        _ => format!("{sql} GROUP BY 1 HAVING count(*) > {} ORDER BY n, 1 DESC", number / 20),
    }
}

/// A statement with parameters, and values of types that do and do not fit.
fn parameters(random: &mut Random) -> GeneratedStatement {
    let text = |random: &mut Random, from: &[&str]| match random.below(9) {
        0 => ScalarValue::Utf8(None),
        _ => ScalarValue::from(random.pick(from)),
    };
    let cities = ["Lima", "Paris", "Old Town", "Lamu", "Nowhere", "o'City"];
    let countries = ["Chile", "France", "Peru", "", "Kenya"];
    let mut values = Vec::new();
    let mut conditions = Vec::new();
    for _ in 0..1 + random.below(3) {
        let next = values.len() + 1;
        let op = random.pick(&["=", "<>", "<", "<=", ">", ">="]);
        match random.below(8) {
            0 => {
                values.push(text(random, &countries));
                conditions.push(format!("country {op} ${next}"));
            }
            1 => {
                values.extend([text(random, &cities), text(random, &cities)]);
                conditions.push(format!("city {}IN (${next}, ${})", random.pick(&["", "NOT "]), next + 1));
            }
            2 => {
                values.push(ScalarValue::Int32(Some(random.below(33) as i32)));
                conditions.push(format!("shelf {op} ${next}"));
            }
            3 => {
                let (low, high) = (random.below(33) as i64, random.below(33) as i64);
                values.extend([ScalarValue::Int64(Some(low)), ScalarValue::Int64(Some(high))]);
                conditions.push(format!("shelf BETWEEN ${next} AND ${}", next + 1));
            }
            4 => {
                let micros = 1_704_067_200_000_000 + random.below(1_100) as i64 * 86_400_000_000;
                values.push(ScalarValue::TimestampMicrosecond(
                    Some(micros + random.below(2) as i64 * 3_600_000_001),
                    None,
                ));
                conditions.push(format!("sold_at {op} ${next}"));
            }
            5 => {
                values.push(ScalarValue::Date32(Some(19_723 + random.below(1_100) as i32)));
                conditions.push(format!("{} {op} ${next}", random.pick(&["day", "sold_at"])));
            }
            6 => {
                values.push(ScalarValue::Boolean(Some(random.below(2) == 0)));
                conditions.push(format!("open = ${next}"));
            }
            _ => {
                values.push(ScalarValue::from(format!("item {}", random.below(60))));
                conditions.push(format!("(item = ${next} OR {})", condition(random)));
            }
        }
    }
    let (group, exact) = (random.pick(&GROUPS), random.pick(&nested::EXACT));
    let sql = match random.below(3) {
        0 => format!("SELECT {exact}, avg(cents) FROM sales s{}", wheres(&conditions)),
        1 => format!("SELECT {group}, {exact} FROM sales s{} GROUP BY {group}", wheres(&conditions)),
        _ => format!("SELECT {group} AS k, {exact} FROM sales s{} GROUP BY 1 HAVING count(*) > 1", wheres(&conditions)),
    };
    GeneratedStatement { sql, values, is_ordered: false }
}

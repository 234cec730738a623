//! Declarations read, refused and written back.

use super::*;
use crate::schema::{DataType, KeyRange};
use proptest::prelude::*;

fn columns() -> Vec<Column> {
    let declared = [
        ("sold_at", DataType::Timestamp),
        ("country", DataType::Text),
        ("state", DataType::Text),
        ("city", DataType::Text),
        ("price", DataType::Double),
        ("quantity", DataType::Int32),
        ("user_id", DataType::Int64),
        ("born", DataType::Date),
        ("Mixed \"Case\"", DataType::Text),
        ("amount", DataType::Decimal { precision: 18, scale: 2 }),
        ("seen_at", DataType::TimestampTz),
    ];
    let column = |(id, (name, data_type)): (usize, (&str, DataType))| Column {
        id: ColumnId(id as u32),
        name: name.into(),
        storage_name: name.into(),
        data_type,
        nullable: true,
        chars_max: None,
    };
    declared.into_iter().enumerate().map(column).collect()
}

/// UTC, and two zones that are known here.
fn zone(name: &str) -> Result<Option<ZoneRules>> {
    match name {
        "UTC" => Ok(None),
        "Europe/Berlin" => ZoneRules::new(name.to_owned(), 3_600, &[(0, 7_200)]).map(Some),
        "<+02>-02" => ZoneRules::new(name.to_owned(), 7_200, &[]).map(Some),
        _ => {
            Err(Error::new(ErrorKind::InvalidSetting, format!("time zone {name:?} not recognized"))
                .with_hint("be right"))
        }
    }
}

fn read(text: &str, columns: &[Column]) -> Result<Vec<Dimension>> {
    parse_with_zones(text, columns, &zone)
}

fn parsed(text: &str) -> Vec<Dimension> {
    read(text, &columns()).unwrap_or_else(|error| panic!("{text}: {error}"))
}

fn refused(text: &str) -> String {
    match read(text, &columns()) {
        Ok(dimensions) => panic!("{text} was accepted as {dimensions:?}"),
        Err(error) => format!("{} | {}", error.message(), error.hint().unwrap_or("no hint")),
    }
}

#[test]
fn the_declaration_of_the_design_reads_as_meant() {
    let dimensions = parsed("store(country, state, city); time(sold_at: year, month, day, hour)");
    let names = |at: usize| dimensions[at].levels.iter().map(|level| level.name.as_str()).collect::<Vec<_>>();
    assert_eq!(names(0), ["country", "state", "city"]);
    assert_eq!(names(1), ["year", "month", "day", "hour"]);
    assert_eq!((&dimensions[0].range, &dimensions[1].range), (&KeyRange::None, &KeyRange::Learnt));
    let bits = |at: usize| dimensions[at].levels.iter().map(|level| level.bits).collect::<Vec<_>>();
    assert_eq!(bits(0), [11, 11, 10]);
    assert_eq!(bits(1), [8, 8, 8, 8]);
}

#[test]
fn every_kind_of_dimension_is_written_as_it_is_read() {
    for text in [
        "country",
        "store(country)",
        "\"Mixed \"\"Case\"\"\"",
        "store(country, state, \"Mixed \"\"Case\"\"\")",
        "time(sold_at: year, quarter, month, day, hour, minute)",
        "time(born: year from 1900-01-01 to 2030-01-01)",
        "time(seen_at: day from 2020-01-01 12:30 to 2020-01-02 00:00:00.5)",
        "time(seen_at AT TIME ZONE Europe/Berlin: year, day, minute)",
        "time(seen_at AT TIME ZONE '<+02>-02': month from 2020-01-01 to 2021-01-01)",
        "price(price: linear, 4, 8, 12)",
        "price(price: linear -0.5..1e300, 1, 31)",
        "amount(amount: quantiles (-1, 0, 2.5), 1, 2)",
        "amount(amount: quantiles, 16)",
        "user(user_id: hash 12); \"time\"\"s\"(user_id: hash 4, 8)",
    ] {
        assert_eq!(show(&parsed(text), &columns()), text);
    }
    assert!(parsed(" ").is_empty());
}

#[test]
fn a_calendar_may_be_of_the_clocks_of_a_zone() {
    let dimensions = parsed("t(seen_at at Time zone 'Europe/Berlin': year, day); u(seen_at AT TIME ZONE UTC: year)");
    assert_eq!(dimensions[0].levels[1].source, LevelSource::Local(ColumnId(10), CalendarUnit::Day));
    assert_eq!(dimensions[0].zone.as_ref().map(ZoneRules::name), Some("Europe/Berlin"));
    // UTC is what it is without a zone.
    assert_eq!(
        (dimensions[1].levels[0].source.clone(), &dimensions[1].zone),
        (LevelSource::Calendar(ColumnId(10), CalendarUnit::Year), &None)
    );
    let names: Vec<&str> = dimensions[0].levels.iter().map(|level| level.name.as_str()).collect();
    assert_eq!(names, ["year", "day"]);
    for (text, expected) in [
        ("t(seen_at AT TIME ZONE Mars: year)", "dimension t: time zone \"Mars\" not recognized | be right"),
        (
            "t(sold_at AT TIME ZONE Europe/Berlin: year)",
            "column sold_at is TIMESTAMP, which has no moments that a zone's clocks show | write t(sold_at: year)",
        ),
        (
            "t(born AT TIME ZONE Europe/Berlin: year, hour)",
            "column born is DATE, which has no moments that a zone's clocks show | write t(born: year, day)",
        ),
        ("t(user_id AT TIME ZONE Europe/Berlin: hash)", "AT TIME ZONE is of calendar parts"),
        ("t(seen_at AT TIME ZONE: year)", "expected a time zone, as in AT TIME ZONE Europe/Berlin, found :"),
        ("t(seen_at AT TIME Europe/Berlin: year)", "expected zone after at time, found europe"),
        (
            "t(seen_at AT TIME ZONE Europe/Berlin year)",
            "expected a colon after the time zone, found year | write t(seen_at AT TIME ZONE Europe/Berlin: year)",
        ),
        ("t(seen_at AT TIME ZONE 'Europe/Berlin: year)", "the time zone 'Europe/Berlin: year does not end"),
        (
            "t(seen_at AT TIME ZONE Europe/Berlin: day, month)",
            "month cannot stand below day: levels go coarse to fine | write t(seen_at AT TIME ZONE Europe/Berlin: month, day)",
        ),
    ] {
        let refused = refused(text);
        assert!(refused.contains(expected), "{text}: {refused}");
    }
    assert!(parse("t(seen_at AT TIME ZONE Europe/Berlin: year)", &columns()).is_err());
}

#[test]
fn defaults_and_free_spelling() {
    let shown = |text| show(&parsed(text), &columns());
    assert_eq!(shown("PRICE(Price:LINEAR 0..1000) ;"), "price(price: linear 0..1000, 4, 8, 12)");
    assert_eq!(shown("p(price: linear 0.5..1.5,3)"), "p(price: linear 0.5..1.5, 3)");
    assert_eq!(shown("p(price: linear -1 .. +1e3, 3)"), "p(price: linear -1..1000, 3)");
    assert_eq!(shown("u(user_id: hash)"), "u(user_id: hash 12)");
    assert_eq!(shown("u(user_id: hash, 4, 8)"), "u(user_id: hash 4, 8)");
    assert_eq!(
        shown("t(sold_at: year\nFROM '2020-01-01' TO 2030-01-01T00:00)"),
        "t(sold_at: year from 2020-01-01 to 2030-01-01)"
    );
}

#[test]
fn shares_of_the_key() {
    let sum = |dimension: &Dimension| dimension.levels.iter().map(|level| level.bits).sum::<u8>();
    let many = |count: usize| (0..count).map(|at| format!("d{at}(country, state, city)")).collect::<Vec<_>>().join(";");
    for (count, first, last) in
        [(1, 32, 32), (4, 32, 32), (5, 26, 25), (6, 22, 21), (8, 16, 16), (63, 3, 2), (64, 2, 2)]
    {
        let dimensions = parsed(&many(count));
        assert_eq!((sum(&dimensions[0]), sum(&dimensions[count - 1])), (first, last), "{count} dimensions");
        assert!(dimensions.iter().map(|dimension| u32::from(sum(dimension))).sum::<u32>() <= 128);
    }
    let bits = |text: &str| parsed(text)[0].levels.iter().map(|level| level.bits).collect::<Vec<_>>();
    assert_eq!(bits("price(price: linear, 4, 8, 12)"), [4, 4, 24]);
    assert_eq!(bits("price(price: quantiles, 4, 8)"), [4, 4]);
    assert_eq!(bits(&format!("price(price: linear, 1, 8, 12); {}", many(63))), [1, 1, 0]);
    assert!(refused(&many(65)).contains("at most 64 dimensions"));
}

/// Each error names the part and shows what would do.
#[test]
fn errors_say_which_part_and_show_a_right_one() {
    let example = "write for instance dimensions = 'place(country, state); time(sold_at: year, month, day)'";
    let plain = [
        (";", "dimension 1: expected a name, found ;"),
        ("store(country; x)", "dimension store: expected a comma or ) after country, found ;"),
        ("store(country, state", "dimension store: expected a comma or ) after state, found the end"),
        ("store()", "dimension store: expected a name, found )"),
        ("country, state", "dimension country: expected ; after it, found a comma"),
        ("country; ; state", "dimension 2: expected a name, found ;"),
        ("country; 3", "dimension 2: expected a name, found 3"),
        (
            "x(country, sold_at: year)",
            "dimension x: a path of columns cannot go on with parts of a column (:); make that a dimension of its own",
        ),
        ("t(sold_at: year from 2020-01-01 to 2021-01-01, month)", "dimension t: expected ), found ,"),
        ("p(price: linear 0..1 4)", "dimension p: expected a comma or ), found 4"),
        ("p(price: quantiles (1, 2; 3))", "dimension p: expected a comma or ) after a cut point, found ;"),
    ];
    for (text, message) in plain {
        assert_eq!(refused(text), format!("{message} | {example}"), "{text}");
    }
    let special = [
        ("store(country, stat)", "dimension store: there is no column stat | did you mean state?"),
        ("shop", "dimension shop: there is no column shop | the columns are sold_at, country, state, city,"),
        ("t(sold_at: years)", "dimension t: there is no part \"years\" of a column | did you mean year?"),
        ("t(sold_at: xyzzy)", "| after the colon stand year, quarter"),
        ("t(sold_at: xyzzy)", "of an id); write for instance dimensions = 'place"),
        ("nope", "dimension nope: there is no column nope | the columns are"),
        ("nope", "; write for instance dimensions = 'place"),
        ("t sold_at: year", "dimension t: expected ( after t, found sold_at | write t(sold_at: year)"),
        (
            "p(price: quantiles (1, 5))",
            "a list of 2 cut points is for no count of halvings | write p(price: quantiles (1, 5, 9), 2)",
        ),
        ("t sold_at: year)", "expected ( after t, found sold_at | write for instance dimensions = "),
        (
            "t(sold_at: month, year)",
            "year cannot stand below month: levels go coarse to fine | write t(sold_at: year, month)",
        ),
        ("t(born: day, hour)", "column born is a DATE, which has no hour | write t(born: day)"),
        ("t(country: year)", "column country is TEXT, which has no calendar parts |"),
        ("t(price: day)", "for price write t(price: linear) or t(price: hash)"),
        ("p(country: linear)", "column country is TEXT, which cannot be cut in halves |"),
        ("p(sold_at: linear)", "write p(sold_at: year, month, day, hour)"),
        ("p(price: linear 5, 8)", "expected .. after 5, found , | write p(price: linear 0..1000)"),
        ("p(price: linear 5..1)", "its range does not end after it begins"),
        ("p(price: linear -1.7e308..1.7e308)", "its range does not end"),
        ("p(price: linear 0..1e999)", "1e999 is not a number"),
        ("p(price: linear, 8, 4)", "4 halvings cannot stand below 8: levels go coarse to fine"),
        ("p(price: linear, 32)", "expected a count of halvings from 1 to 31, found 32"),
        ("p(price: quantiles, 17)", "expected a count of halvings from 1 to 16, found 17"),
        ("p(price: quantiles (1, 2), 2)", "2 halvings need 3 cut points, and it has 2"),
        ("p(price: quantiles (3, 2, 1), 2)", "its cut points do not ascend"),
        ("u(user_id: hash 0)", "expected a count of bits from 1 to 31, found 0"),
        ("t(sold_at: year from yesterday to 2020-01-01)", "\"yesterday\" is not a date or timestamp"),
        ("t(born: year from 2020-01-01 12:00 to 2021-01-01)", "\"2020-01-01 12:00\" is not a date |"),
        ("t(sold_at: year from 2020-01-01)", "expected to after the first moment, found )"),
        ("t(sold_at: year from 2021-01-01 to 2020-01-01)", "its range does not end after it begins"),
        ("a(country, state, country)", "dimension a: column country is in it twice"),
        ("country; country(state)", "dimension country is declared twice"),
        ("store(\"country)", "the quoted name \"country) does not end"),
        ("store(\"Country\")", "there is no column Country | did you mean country? Write store(country)"),
        ("store(country state)", "expected a comma or ) after country, found state | write store(country, state)"),
        ("store(country stat)", "| write for instance dimensions = "),
        ("t(sold_at: year month)", "after a calendar part, found month | write t(sold_at: year, month)"),
        ("time(sold_at year, month); city", "found year | write time(sold_at: year, month)"),
        ("x(price: lineal 0..10)", "did you mean linear? Write x(price: linear 0..10)"),
        ("x( sold_at :yaer , month ); city", "did you mean year? Write x( sold_at :year , month )"),
        ("x(price: yaer)", "did you mean year? Write for instance dimensions = "),
        ("x(contry)", "did you mean country? Write x(country)"),
        ("city; contry", "did you mean country? Write country"),
        ("x(contry, stat)", "did you mean country? Write for instance dimensions = "),
        ("p(price: linear 0..1e400)", "1e400 is not a number that a range can have | write p(price: linear 0..1000)"),
        ("p(price: linear 1e400..2)", "1e400 is not a number that a range can have | write p(price: linear 0..1000)"),
        (
            "p(price: quantiles (1e400), 1)",
            "1e400 is not a number that a range can have | write for instance dimensions",
        ),
    ];
    for (text, part) in special {
        let error = refused(text);
        assert!(error.contains(part), "{text}: {error}");
    }
}

/// Every hint that shows a dimension shows one of the same name, of the table's own columns, that is accepted.
#[test]
fn hints_show_what_is_accepted() {
    let declared = [("c", DataType::Text), ("p", DataType::Double), ("ts", DataType::Timestamp), ("d", DataType::Date)];
    let column = |(id, (name, data_type)): (usize, &(&str, DataType))| Column {
        id: ColumnId(id as u32),
        name: (*name).into(),
        storage_name: (*name).into(),
        data_type: *data_type,
        nullable: true,
        chars_max: None,
    };
    let columns: Vec<Column> = declared.iter().enumerate().map(column).collect();
    for (wrong, want) in [
        ("p(p: linear 10..0)", "p(p: linear 0..10)"),
        ("p(p: linear 10..0, 8, 4, 8)", "p(p: linear 0..10, 4, 8)"),
        ("p(p: linear 5..5)", "p(p: linear) to learn the range from the first rows"),
        ("p(p: linear -1.7e308..1.7e308, 3)", "p(p: linear, 3) to learn the range from the first rows"),
        ("p(p: linear 5)", "p(p: linear 0..1000)"),
        ("\"P Q\"(p: linear 3..2)", "\"P Q\"(p: linear 2..3)"),
        ("t(ts: year from 2020 to 2021)", "t(ts: year from 2020-01-01 to 2021-01-01)"),
        (
            "t(ts: year, month from '2020-05' to 2021-01-01 12:30)",
            "t(ts: year, month from 2020-05-01 to 2021-01-01 12:30)",
        ),
        ("t(d: year from 2020-01-01 12:00 to 2021-01-01)", "t(d: year from 2020-01-01 to 2021-01-01)"),
        ("t(ts: day from yesterday to 2021)", "t(ts: day from 2020-01-01 to 2030-01-01)"),
        ("t(ts: day from 2020-01-01)", "t(ts: day from 2020-01-01 to 2030-01-01)"),
        ("t(ts: day from 2021-01-01 to 2020-01-01 06:00)", "t(ts: day from 2020-01-01 06:00 to 2021-01-01)"),
        ("t(d: day, year from 2021-01-01 to 2020-01-01)", "t(d: year, day from 2020-01-01 to 2021-01-01)"),
        ("t(d: year, hour)", "t(d: year, day)"),
        ("p(p: quantiles (3, 1, 2), 2)", "p(p: quantiles (1, 2, 3), 2)"),
        ("p(p: quantiles (1, 5, 25))", "p(p: quantiles (1, 5, 25), 2)"),
        ("p(p: quantiles (1, 5))", "p(p: quantiles (1, 5, 9), 2)"),
        ("t ts: year, month", "t(ts: year, month)"),
        ("p: linear 0..10", "p(p: linear 0..10)"),
        ("p(p: quantiles (1, 2), 1)", "p(p: quantiles, 1) to learn the range from the first rows"),
        ("p(p: quantiles, 20)", "p(p: quantiles, 16)"),
        ("p(p: linear, 40)", "p(p: linear, 31)"),
        ("p(p: linear 0..1, 2.5)", "p(p: linear 0..1, 3)"),
        ("c(c: hash 40)", "c(c: hash 31)"),
        ("c(c: hash 8, 4)", "c(c: hash 4, 8)"),
        ("c; a(c, p, c)", "a(c, p)"),
        ("x(c, d); x(d: year)", "x_2(d: year)"),
        ("x(p: year)", "x(p: linear) or x(p: hash)"),
        ("x(c: linear)", "x(c) or x(c: hash)"),
        ("x(ts: quantiles)", "x(ts: year, month, day, hour)"),
        ("x(c: linear 5)", "x(c) or x(c: hash)"),
    ] {
        let error = parse(wrong, &columns).unwrap_err();
        let hint = error.hint().unwrap_or_default();
        assert!(hint.contains(want), "{wrong}: {error}, {hint}");
        for shown in want.split(" to learn ").next().unwrap_or_default().split(" or ") {
            assert!(parse(shown, &columns).is_ok(), "{wrong}: {shown}");
        }
    }
    let hint = |wrong: &str| parse(wrong, &columns).unwrap_err().hint().map(str::to_owned);
    assert_eq!(hint("c; c").as_deref(), Some("leave one of them out"));
    let words = "n halvings make 2^n parts; leave the count out for the default";
    assert_eq!(hint("p(p: linear, 40, 50)").as_deref(), Some(words), "no mend that is known is right");
}

#[test]
fn measures_are_columns_separated_by_commas() {
    let ids = |text| parse_measures(text, &columns());
    assert_eq!(ids(" price , Quantity").unwrap(), [ColumnId(4), ColumnId(5)]);
    assert!(ids("").unwrap().is_empty());
    for (text, part) in [
        ("pric", "there is no column pric"),
        ("price,", "expected a column, found the end"),
        ("price quantity", "expected a comma, found quantity"),
        ("price, price", "measure price is named twice"),
    ] {
        let error = ids(text).unwrap_err();
        assert!(error.message().contains(part) && error.hint().is_some() == (part != "measure price is named twice"));
    }
    let names = [ColumnId(8), ColumnId(4)];
    assert_eq!(ids(&show_names(&names, &columns())).unwrap(), names);
}

/// Dimensions over `columns()`, valid but for names that may repeat.
fn any_dimension() -> impl Strategy<Value = (Vec<LevelSource>, KeyRange)> {
    let path = Just((0..columns().len() as u32).collect::<Vec<_>>()).prop_shuffle();
    let path = (path, 1usize..=4).prop_map(|(ids, length)| {
        (ids.into_iter().take(length).map(|id| LevelSource::Column(ColumnId(id))).collect::<Vec<_>>(), KeyRange::None)
    });
    let units = proptest::sample::subsequence(CalendarUnit::ALL.to_vec(), 1..=6);
    let span = prop::option::of((-4_000_000_000_000_000i64..4_000_000_000_000_000, 1i64..4_000_000_000_000_000));
    let calendar = (prop_oneof![Just(0), Just(7), Just(10)], units, span).prop_map(|(column, units, span)| {
        let is_date = column == 7;
        let range = span.map_or(KeyRange::Learnt, |(low, length)| {
            let unit = if is_date { 1_000_000_000 } else { 1 };
            let low = low / unit;
            KeyRange::Linear { low: low as f64, high: (low + length / unit + 1) as f64 }
        });
        let fits = |unit: &CalendarUnit| !is_date || *unit <= CalendarUnit::Day;
        let mut units: Vec<CalendarUnit> = units.into_iter().filter(fits).collect();
        if units.is_empty() {
            units.push(CalendarUnit::Month);
        }
        (units.into_iter().map(|unit| LevelSource::Calendar(ColumnId(column), unit)).collect(), range)
    });
    let local = proptest::sample::subsequence(CalendarUnit::ALL.to_vec(), 1..=6).prop_map(|units| {
        (units.into_iter().map(|unit| LevelSource::Local(ColumnId(10), unit)).collect(), KeyRange::Learnt)
    });
    let number = || prop_oneof![Just(4u32), Just(5), Just(6), Just(9)].prop_map(ColumnId);
    let ascending =
        |most: u8| proptest::sample::subsequence((1..=most).collect::<Vec<u8>>(), 1..=usize::from(most.min(5)));
    let linear = prop::option::of((-1e12f64..1e12, 1e-6f64..1e12));
    let linear = (number(), ascending(31), linear).prop_map(|(column, parts, span)| {
        let range =
            span.map_or(KeyRange::Learnt, |(low, length)| KeyRange::Linear { low, high: low + length.max(1.0) });
        (parts.into_iter().map(|halvings| LevelSource::Halved { column, halvings }).collect(), range)
    });
    let cuts = prop::option::of(prop::collection::vec(-1e9f64..1e9, 15));
    let quantiles = (number(), ascending(3), cuts).prop_map(|(column, mut parts, cuts)| {
        parts.push(4);
        let range = cuts.map_or(KeyRange::LearntQuantiles, |mut cuts| {
            cuts.sort_by(f64::total_cmp);
            KeyRange::Quantiles { cuts }
        });
        (parts.into_iter().map(|halvings| LevelSource::Halved { column, halvings }).collect(), range)
    });
    let hashed = (0u32..11, ascending(31)).prop_map(|(column, bits)| {
        let column = ColumnId(column);
        (bits.into_iter().map(|bits| LevelSource::Hashed { column, bits }).collect(), KeyRange::None)
    });
    prop_oneof![path, calendar, local, linear, quantiles, hashed]
}

fn any_dimensions() -> impl Strategy<Value = Vec<Dimension>> {
    let name = "[a-z_][a-z0-9_]{0,8}|country|price|from|to|[ -~äß]{1,8}";
    prop::collection::vec((name, any_dimension()), 0..=64).prop_map(|declared| {
        let columns = columns();
        let mut dimensions: Vec<Dimension> = Vec::new();
        for (name, (sources, range)) in declared {
            if dimensions.iter().all(|dimension| dimension.name != name) {
                let levels: Vec<Level> = sources.into_iter().map(|source| level(source, &columns)).collect();
                let is_local = matches!(levels[0].source, LevelSource::Local(..));
                let of = if name.len() % 2 == 0 { "Europe/Berlin" } else { "<+02>-02" };
                let zone = if is_local { zone(of).unwrap() } else { None };
                dimensions.push(Dimension { name, levels, range, zone });
            }
        }
        bits::share(&mut dimensions);
        dimensions
    })
}

proptest! {
    #[test]
    fn what_is_shown_is_read_back(dimensions in any_dimensions()) {
        let columns = columns();
        crate::validate::dimensions(&dimensions, &columns).unwrap();
        let text = show(&dimensions, &columns);
        let again = read(&text, &columns).map_err(|error| TestCaseError::fail(format!("{text}: {error}")))?;
        prop_assert_eq!(again, dimensions, "{}", text);
    }

    #[test]
    fn no_text_makes_it_panic(text in "[ -~äß\n]{0,60}") {
        let _ = read(&text, &columns());
        let _ = parse_measures(&text, &columns());
    }

    #[test]
    fn no_near_declaration_makes_it_panic(words in prop::collection::vec(
        prop_oneof![
            Just("country"), Just("sold_at"), Just("price"), Just("("), Just(")"), Just(":"), Just(","), Just(";"), Just("linear"),
            Just("hash"), Just("quantiles"), Just("year"), Just("day"), Just("from"), Just("to"), Just(".."), Just("12"), Just("-1"),
            Just("2020-01-01"), Just("\""), Just("born"), Just("at time zone"), Just("Europe/Berlin"), Just("'"),
        ], 0..20), spaced in any::<bool>()) {
        let _ = read(&words.join(if spaced { " " } else { "" }), &columns());
    }
}

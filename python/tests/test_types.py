"""Every type, there and back: as parameters, as dicts, from Arrow; to tuples, pyarrow, pandas, polars."""

import datetime as dt
import decimal
import math
import random
import uuid

import alluvia
import polars
import pyarrow as pa
import pytest

UTC = dt.timezone.utc
D = decimal.Decimal
COLUMNS = {
    "flag": "BOOLEAN", "small": "SMALLINT", "whole": "INT", "big": "BIGINT", "real4": "REAL", "real8": "DOUBLE", "price": "DECIMAL(12, 2)",
    "wide": "DECIMAL(38, 10)", "day": "DATE", "at": "TIMESTAMP", "at_zone": "TIMESTAMPTZ", "words": "TEXT", "raw": "BYTEA",
}
ROWS = [
    (True, 1, 2, 3, 0.5, 0.1, D("12.34"), D("-0.0000000001"), dt.date(2026, 11, 21), dt.datetime(2026, 11, 21, 10, 11, 12, 345678),
     dt.datetime(2026, 11, 21, 10, 11, 12, tzinfo=UTC), "it's ä\n\t\\ 🌊", b"\x00\xff'"),
    (False, -(2**15), -(2**31), -(2**63), -1.5, -1e300, D("-9999999999.99"), D("1234567890123456789012345678.0123456789"), dt.date(1, 1, 1),
     dt.datetime(1, 1, 1), dt.datetime(1, 1, 1, tzinfo=UTC), "", b""),
    (None,) * 13,
    (True, 2**15 - 1, 2**31 - 1, 2**63 - 1, math.inf, -math.inf, D("0.00"), D("0"), dt.date(9999, 12, 31),
     dt.datetime(9999, 12, 31, 23, 59, 59, 999999), dt.datetime(9999, 12, 31, 23, 59, 59, 999999, tzinfo=UTC), "$1 ? $name", b"\\x41"),
    (False, 0, 0, 0, -0.0, 5e-324, D("0.01"), D("0.5"), dt.date(1969, 12, 31), dt.datetime(1969, 12, 31, 23, 59, 59, 999999),
     dt.datetime(1969, 12, 31, 23, 59, 59, 999999, tzinfo=UTC), "NULL", bytes(range(256))),
]


@pytest.fixture
def table(db):
    columns = ", ".join(f"{name} {kind}" for name, kind in COLUMNS.items())
    db.sql(f"CREATE TABLE t (id INT, {columns})")
    return db


def numbered():
    return [(at, *row) for at, row in enumerate(ROWS)]


def back(db):
    return db.sql("SELECT * FROM t ORDER BY id").fetchall()


def test_parameters_of_every_type(table):
    for row in numbered():
        table.sql(f"INSERT INTO t VALUES ({', '.join('?' * len(row))})", row)
    assert back(table) == numbered()


def test_dicts_of_every_type(table):
    names = ["id", *COLUMNS]
    assert table.ingest("t", [dict(zip(names, row)) for row in numbered()]) == (len(ROWS), 2)
    assert back(table) == numbered()


def test_one_dict_at_a_time_has_other_types_each_time_and_arrives_the_same(table):
    names = ["id", *COLUMNS]
    for row in numbered():
        table.ingest("t", [{name: value for name, value in zip(names, row) if value is not None}])
    assert back(table) == numbered()


def test_arrow_gives_and_takes_every_type(table):
    names = ["id", *COLUMNS]
    table.ingest("t", [dict(zip(names, row)) for row in numbered()])
    arrow = table.sql("SELECT * FROM t ORDER BY id").arrow()
    assert [tuple(row.values()) for row in arrow.to_pylist()] == numbered()
    assert arrow.schema.field("words").type == pa.string() and arrow.schema.field("at_zone").type == pa.timestamp("us", "UTC")
    table.sql("DROP TABLE t")
    table.ingest("t", arrow, create=True)
    assert back(table) == numbered()


def test_polars_gives_and_takes_every_type(table):
    names = ["id", *COLUMNS]
    table.ingest("t", [dict(zip(names, row)) for row in numbered()])
    frame = table.sql("SELECT * FROM t ORDER BY id").pl()
    assert frame.schema["words"] == polars.String and frame.schema["price"] == polars.Decimal(12, 2)
    # polars counts from year 1 in microseconds as we do; its zone is a ZoneInfo.
    found = [tuple(v.astimezone(UTC) if isinstance(v, dt.datetime) and v.tzinfo else v for v in row) for row in frame.rows()]
    assert found == numbered()
    table.sql("DROP TABLE t")
    table.ingest("t", frame, create=True)
    assert back(table) == numbered()


def test_pandas_gives_and_takes_what_it_can(table):
    names = ["id", *COLUMNS]
    table.ingest("t", [dict(zip(names, row)) for row in numbered()])
    frame = table.sql("SELECT id, flag, real8, price, at, words FROM t WHERE id IN (0, 4) ORDER BY id").df()
    assert frame["price"].tolist() == [D("12.34"), D("0.01")] and frame["words"].tolist() == [ROWS[0][11], "NULL"]
    table.sql("CREATE TABLE u (id INT, flag BOOLEAN, real8 DOUBLE, price DECIMAL(12, 2), at TIMESTAMP, words TEXT)")
    table.ingest("u", frame)
    both = "SELECT id, flag, real8, price, at, words FROM {} WHERE id IN (0, 4) ORDER BY id"
    assert table.sql(both.format("u")).fetchall() == table.sql(both.format("t")).fetchall()


def test_nan_is_a_value_and_none_is_not(db):
    db.sql("CREATE TABLE f (id INT, x DOUBLE)")
    db.ingest("f", [{"id": 1, "x": math.nan}, {"id": 2, "x": None}, {"id": 3, "x": 1.0}])
    (one, two, three) = [x for _, x in db.sql("SELECT * FROM f ORDER BY id").fetchall()]
    assert math.isnan(one) and two is None and three == 1.0
    assert math.isnan(db.sql("SELECT ?", [math.nan]).fetchone()[0])
    # pandas has one for the other.
    db.ingest("f", db.sql("SELECT id + 3 AS id, CASE WHEN id < 3 THEN NULL ELSE x END AS x FROM f").df())
    assert db.sql("SELECT count(*), count(x) FROM f WHERE id > 3").fetchone() == (3, 1)


def test_days_and_times_agree_with_python(db):
    rng = random.Random(7)
    first, last = dt.date.min.toordinal(), dt.date.max.toordinal()
    days = [dt.date.fromordinal(rng.randint(first, last)) for _ in range(2_000)]
    days += [dt.date(year, 2, 28) + dt.timedelta(1) for year in (1600, 1700, 1900, 1999, 2000, 2024)]
    span = int((dt.datetime.max - dt.datetime.min).total_seconds() * 1_000_000)
    times = [dt.datetime.min + dt.timedelta(microseconds=rng.randint(0, span)) for _ in range(2_000)]
    db.sql("CREATE TABLE d (id INT, day DATE, text TEXT)")
    db.ingest("d", [{"id": at, "day": day, "text": day.isoformat()} for at, day in enumerate(days)])
    assert [row[0] for row in db.sql("SELECT day FROM d ORDER BY id").fetchall()] == days
    assert db.sql("SELECT count(*) FROM d WHERE day <> CAST(text AS DATE)").fetchone() == (0,)
    db.sql("CREATE TABLE m (id INT, at TIMESTAMP)")
    db.ingest("m", [{"id": at, "at": time} for at, time in enumerate(times)])
    assert [row[0] for row in db.sql("SELECT at FROM m ORDER BY id").fetchall()] == times


def test_zones_are_converted(db):
    db.sql("CREATE TABLE z (at TIMESTAMPTZ)")
    local = dt.datetime(2026, 7, 1, 12, tzinfo=dt.timezone(dt.timedelta(hours=2)))
    db.ingest("z", [{"at": local}])
    db.sql("INSERT INTO z VALUES (?)", [local])
    assert db.sql("SELECT DISTINCT at FROM z").fetchall() == [(local,)]
    assert db.sql("SELECT at FROM z").fetchone()[0].utcoffset() == dt.timedelta(0)


def test_results_of_types_that_no_column_has(db):
    row = db.sql("SELECT [1, NULL, 3], {'a': 1, 'b': 'x'}, INTERVAL '1 day 2 seconds', NULL, arrow_cast(1, 'UInt64'), TIME '10:11:12'").fetchone()
    assert row == ([1, None, 3], {"a": 1, "b": "x"}, dt.timedelta(days=1, seconds=2), None, 1, dt.time(10, 11, 12))
    with pytest.raises(alluvia.DataError, match="column months: an interval of months"):
        db.sql("SELECT INTERVAL '1 month' AS months").fetchall()


def test_times_that_python_does_not_have_are_refused_with_their_column(db):
    with pytest.raises(alluvia.DataError, match="column late: .* after year 9999"):
        db.sql("SELECT TIMESTAMP '9999-12-31 23:00:00' + INTERVAL '2 hours' AS late").fetchall()


def test_parameters_of_other_kinds(db):
    import numpy
    import pandas

    identity = uuid.uuid4()
    assert db.sql("SELECT ?, ?", [identity, dt.time(1, 2, 3)]).fetchone() == (str(identity), "01:02:03")
    assert db.sql("SELECT ?, ?", [numpy.int64(5), numpy.float32(0.5)]).fetchone() == (5, 0.5)
    assert db.sql("SELECT ?", [numpy.datetime64("2026-11-21T10:00:00", "ns")]).fetchone() == (dt.datetime(2026, 11, 21, 10),)
    assert db.sql("SELECT ?, ?", [pandas.NaT, pandas.NA]).fetchone() == (None, None)
    assert db.sql("SELECT ?", [pandas.Timestamp("2026-11-21 10:00", tz="Europe/Berlin")]).fetchone() == (
        dt.datetime(2026, 11, 21, 9, tzinfo=UTC),)
    assert db.sql("SELECT count(*) FROM generate_series(1, 10) AS s(n) WHERE n = ANY(?)", [[1, 5, 50]]).fetchone() == (2,)
    assert db.sql("SELECT ? = ?", [bytearray(b"ab"), memoryview(b"ab")]).fetchone() == (True,)
    assert db.sql("SELECT ?", [2**64]).fetchone() == (D(2**64),)


@pytest.mark.parametrize("value", [object(), D("NaN"), D("1e60"), {1, 2}])
def test_what_has_no_sql_value_is_refused_with_its_number(db, value):
    with pytest.raises(alluvia.Error, match=r"parameter \$2"):
        db.sql("SELECT ?, ?", [1, value])


def test_columns_of_mixed_values(db):
    db.sql("CREATE TABLE x (id INT, v DOUBLE, w TEXT, p DECIMAL(20, 5))")
    db.ingest("x", [{"id": 1, "v": 1, "w": "a", "p": 1}, {"id": 2, "v": 0.5, "w": 2, "p": D("0.50000")}, {"id": 3, "v": D("2.5"), "w": D("-0.05"), "p": "3.25"}])
    assert db.sql("SELECT * FROM x ORDER BY id").fetchall() == [
        (1, 1.0, "a", D("1.00000")), (2, 0.5, "2", D("0.50000")), (3, 2.5, "-0.05", D("3.25000"))]
    # 2^53 + 1 is no float: whole numbers stay exact beside one.
    db.sql("CREATE TABLE y (p DECIMAL(38, 2))")
    db.ingest("y", [{"p": 2**53 + 1}, {"p": 0.5}])
    assert {p for (p,) in db.sql("SELECT p FROM y")} == {D(2**53 + 1), D("0.50")}
    with pytest.raises(alluvia.ProgrammingError, match="column w: .*do not go together"):
        db.ingest("x", [{"w": True}, {"w": 1}])


def test_types_that_others_know_as_objects(db):
    db.sql("CREATE TABLE o (u UUID, j JSON, b JSONB, t TIME, i INTERVAL, n NUMERIC, c CHAR(4))")
    identity = uuid.UUID("a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11")
    row = (identity, {"b": [1, None]}, {"a": 1.5}, dt.time(1, 2, 3, 4), dt.timedelta(days=1, seconds=2), D("1.5"), "ab")
    db.ingest("o", [dict(zip("ujbtinc", row, strict=True))])
    assert db.sql("SELECT * FROM o").fetchall() == [(*row[:-1], "ab  ")]
    db.sql("INSERT INTO o (u, t, n) VALUES (?, ?, ?)", [identity, dt.time(1, 2, 3, 4), D("2.25")])
    assert db.sql("SELECT u, j, t, n, c FROM o WHERE n = 2.25").fetchall() == [(identity, None, dt.time(1, 2, 3, 4), D("2.25"), None)]
    assert db.sql("SELECT * FROM o").types == ["UUID", "JSON", "JSONB", "TIME", "INTERVAL", "NUMERIC", "CHAR(4)"]
    db.sql("INSERT INTO o (t) VALUES ('24:00')")
    with pytest.raises(alluvia.DataError, match="column t: the time 24:00:00"):
        db.sql("SELECT t FROM o WHERE u IS NULL").fetchall()


def test_lists_structs_and_maps_are_json(db):
    import pyarrow as pa

    table = pa.table({
        "l": pa.array([[1, 2], None, []], pa.list_(pa.int64())), "s": pa.array([{"a": 1}, None, {"a": None}]),
        "m": pa.array([[("k", 1)], None, []], pa.map_(pa.string(), pa.int64())), "u": pa.array([2**64 - 1, None, 0], pa.uint64()),
    })
    db.ingest("nested", table, create=True)
    assert db.sql("SELECT l, s, m, u FROM nested").fetchall() == [
        ([1, 2], {"a": 1}, {"k": 1}, D(2**64 - 1)), (None, None, None, None), ([], {"a": None}, {}, D(0))]


def test_results_are_shown_in_the_zone_of_their_session(db):
    with db.session() as session:
        session.sql("SET timezone = 'Europe/Berlin'")
        assert session.time_zone == "Europe/Berlin"
        result = session.sql("SELECT '2026-07-01 00:00Z'::timestamptz AS at")
        assert "2026-07-01 02:00:00+02:00" in repr(result) and "02:00:00+02:00" in result._repr_html_()
        # Values stay in UTC.
        assert result.fetchone()[0].utcoffset() == dt.timedelta(0)
        session.sql("SET timezone = '+02'")
        assert "2026-07-01 00:00:00+00:00" in repr(session.sql("SELECT '2026-07-01 00:00Z'::timestamptz AS at"))

"""Rows into tables: all or none, from every kind of source, many of them."""

import datetime as dt
import sqlite3

import alluvia
import numpy
import pandas
import polars
import pyarrow as pa
import pyarrow.dataset
import pytest

ROWS = 1_000_000


@pytest.fixture
def trips(db):
    db.sql("""CREATE TABLE trips (id BIGINT, kind TEXT, price DOUBLE, at TIMESTAMP)
              WITH (dimensions = 'kind; time(at: year, month, day)', measures = 'price')""")
    return db


def columns(rows):
    rng = numpy.random.default_rng(11)
    return {
        "id": numpy.arange(rows, dtype=numpy.int64),
        "kind": numpy.array(["car", "bus", "ferry"])[rng.integers(0, 3, rows)],
        "price": rng.integers(0, 10_000, rows) / 100,
        "at": numpy.datetime64("2026-01-01", "us") + rng.integers(0, 365 * 86_400, rows).astype("timedelta64[s]"),
    }


def totals(db):
    return db.sql("SELECT count(*), count(DISTINCT id), min(id), max(id), round(sum(price), 2), min(at), max(at) FROM trips").fetchone()


@pytest.mark.parametrize("of", [pandas.DataFrame, polars.DataFrame, pa.table], ids=["pandas", "polars", "pyarrow"])
def test_a_million_rows(trips, of):
    data = columns(ROWS)
    taken = trips.ingest("trips", of(data))
    assert taken.rows == ROWS and taken.version == 2
    found = totals(trips)
    assert found[:4] == (ROWS, ROWS, 0, ROWS - 1)
    assert found[4] == pytest.approx(data["price"].sum(), rel=1e-9)
    assert found[5:] == (data["at"].min().item(), data["at"].max().item())
    kinds = dict(trips.sql("SELECT kind, count(*) FROM trips GROUP BY kind").fetchall())
    assert kinds == {kind: int((data["kind"] == kind).sum()) for kind in kinds} and len(kinds) == 3
    # The model: the same rows, as the library itself has them.
    ours = trips.sql("SELECT * FROM trips WHERE id % 1000 = 7 ORDER BY id").arrow()
    theirs = pa.table(data).take(pa.array(range(7, ROWS, 1000)))
    assert ours.to_pylist() == theirs.to_pylist()


def test_other_sources(trips):
    table = pa.table(columns(1_000))
    sources = [
        table.to_reader(), table.to_batches()[0], polars.DataFrame(columns(1_000)).lazy(), pyarrow.dataset.dataset(table),
        pa.RecordBatchReader.from_batches(table.schema, iter(table.to_batches(max_chunksize=7))), (row for row in table.to_pylist()),
    ]
    for number, source in enumerate(sources, 1):
        assert trips.ingest("trips", source).rows == 1_000
        assert totals(trips)[0] == 1_000 * number
    # What a query gives can be taken as it comes.
    assert trips.ingest("trips", trips.sql("SELECT id + 1000 AS id, kind FROM trips")).rows == 6_000
    assert trips.sql("SELECT count(*), count(price) FROM trips").fetchone() == (12_000, 6_000)


def test_tables_of_other_schemas(trips):
    trips.sql("CREATE SCHEMA other")
    rows = [{"id": 1}, {"id": 2}]
    assert trips.ingest("trips", rows, schema="other", create=True).rows == 2
    assert trips.ingest("other.trips", rows).rows == 2
    assert trips.sql("SELECT count(*) FROM other.trips").fetchone() == (4,)
    assert totals(trips)[0] == 0
    with trips.session() as session:
        session.sql("SET search_path = other")
        assert session.ingest("trips", rows).rows == 2
        assert session.sql("SELECT count(*) FROM trips").fetchone() == (6,)
    with pytest.raises(alluvia.Error) as refused:
        trips.ingest("trips", rows, schema="nowhere")
    assert refused.value.sqlstate == "42P01"


def test_columns_by_name(trips):
    trips.ingest("trips", [{"KIND": "car", "Id": 1}, {"id": 2, "KIND": None}][:1])
    trips.ingest("trips", pa.table({"price": [1.5], "ID": pa.array([2], pa.uint8())}))
    assert trips.sql("SELECT id, kind, price FROM trips ORDER BY id").fetchall() == [(1, "car", None), (2, None, 1.5)]
    with pytest.raises(alluvia.ProgrammingError, match="has no column prise, which the data names") as caught:
        trips.ingest("trips", [{"prise": 1}])
    assert caught.value.sqlstate == "42703" and "price" in caught.value.hint
    with pytest.raises(alluvia.ProgrammingError, match="twice"):
        trips.ingest("trips", [{"id": 1, "ID": 2}])


def test_pandas_indexes(trips):
    frame = pandas.DataFrame({"price": [1.0, 2.0]}, index=[10, 20])
    trips.ingest("trips", frame)
    trips.ingest("trips", frame.rename_axis("id"))
    assert sorted(trips.sql("SELECT id, price FROM trips").fetchall(), key=str) == [(10, 1.0), (20, 2.0), (None, 1.0), (None, 2.0)]


def test_dictionaries_and_categories(trips):
    trips.ingest("trips", pa.table({"kind": pa.array(["car", None, "bus"]).dictionary_encode()}))
    trips.ingest("trips", pandas.DataFrame({"kind": pandas.Categorical(["car", "car"])}))
    trips.ingest("trips", polars.DataFrame({"kind": polars.Series(["bus"], dtype=polars.Categorical)}))
    assert sorted(trips.sql("SELECT kind, count(*) FROM trips GROUP BY kind").fetchall(), key=str) == [("bus", 2), ("car", 3), (None, 1)]


def test_a_bad_row_refuses_all_and_is_named(trips):
    good = pa.record_batch({"id": pa.array(range(70_000), pa.int64()), "price": pa.array(["1.5"] * 70_000)})
    bad = pa.record_batch({"id": pa.array([1, 2], pa.int64()), "price": pa.array(["2", "two"])})
    with pytest.raises(alluvia.DataError, match="row 70002, column price: .*two"):
        trips.ingest("trips", pa.Table.from_batches([good, bad]))
    with pytest.raises(alluvia.DataError, match="row 20001, column id"):
        trips.ingest("trips", ({"id": at if at < 20_000 else "many"} for at in range(20_001)))
    trips.sql("CREATE TABLE full (a INT NOT NULL, b INT)")
    with pytest.raises(alluvia.IntegrityError, match="row 2, column a"):
        trips.ingest("full", [{"a": 1}, {"b": 1}])
    assert totals(trips)[0] == 0 and trips.sql("SELECT count(*) FROM full").fetchone() == (0,)


def test_a_source_that_fails_leaves_nothing_and_its_error_arrives(trips):
    class Broken(Exception):
        pass

    def dicts():
        for at in range(50_000):
            yield {"id": at}
        raise Broken("the source")

    def batches():
        yield from pa.table({"id": pa.array(range(50_000), pa.int64())}).to_batches()
        raise Broken("the stream")

    with pytest.raises(Broken, match="the source"):
        trips.ingest("trips", dicts())
    with pytest.raises(alluvia.DataError, match="the stream"):
        trips.ingest("trips", pa.RecordBatchReader.from_batches(pa.schema([("id", pa.int64())]), batches()))
    with pytest.raises(TypeError, match="row 3 is no dict"):
        trips.ingest("trips", [{"id": 1}, {"id": 2}, (3,)])
    assert totals(trips)[0] == 0 and trips.sql("SELECT max(version) FROM alluvia.batches").fetchone() == (1,)


def test_a_source_that_belongs_to_this_thread(trips):
    other = sqlite3.connect(":memory:")
    other.execute("CREATE TABLE s (id INT, kind TEXT)")
    other.executemany("INSERT INTO s VALUES (?, ?)", [(at, "car") for at in range(30_000)])
    cursor = other.execute("SELECT id, kind FROM s")
    assert trips.ingest("trips", ({"id": id, "kind": kind} for id, kind in cursor)).rows == 30_000


@pytest.mark.parametrize("rows", [5, "text", b"bytes", {"id": 1}, [1], None, pa.array([1])])
def test_what_holds_no_rows_is_refused(trips, rows):
    with pytest.raises((TypeError, alluvia.Error)):
        trips.ingest("trips", rows)
    assert totals(trips)[0] == 0


def test_no_rows_are_no_batch(trips):
    assert trips.ingest("trips", []) == (0, None)
    assert trips.ingest("trips", pa.table(columns(0))) == (0, None)


def test_no_table_is_created_unasked(db):
    with pytest.raises(alluvia.ProgrammingError) as caught:
        db.ingest("nowhere", [{"a": 1}])
    assert caught.value.sqlstate == "42P01"


def test_tables_that_are_created(db):
    day = dt.date(2026, 11, 21)
    db.ingest("made", [{"a": 1, "b": "x", "c": day, "d": True, "e": 0.5}, {"a": None}], create=True)
    assert db.sql("SELECT * FROM made ORDER BY a").types == ["BIGINT", "TEXT", "DATE", "BOOLEAN", "DOUBLE"]
    assert db.ingest("made", pa.table({"a": [5]}), create=True).rows == 1
    assert db.sql("SELECT count(*) FROM made").fetchone() == (3,)
    with pytest.raises(alluvia.DataError):
        db.ingest("refused", ({"a": at if at < 20_000 else "text"} for at in range(20_001)), create=True)
    assert [name for (name,) in db.sql("SELECT table_name FROM alluvia.tables")] == ["made"]


def test_the_wide_and_the_deep(db):
    names = [f"c{at}" for at in range(300)]
    db.ingest("broad", pa.table({name: [at, None] for at, name in enumerate(names)}), create=True)
    assert db.sql("SELECT * FROM broad").fetchall() == [tuple(range(300)), (None,) * 300]
    long = "x" * (1 << 20)
    db.ingest("texts", [{"a": long}] * 20, create=True)
    assert db.sql("SELECT sum(length(a)) FROM texts").fetchone() == (20 << 20,)


@pytest.fixture
def people(db):
    db.sql("CREATE TABLE people (id BIGINT PRIMARY KEY, name TEXT NOT NULL, town TEXT, n INT)")
    db.ingest("people", [{"id": 1, "name": "Ann", "town": "Ulm", "n": 1}, {"id": 2, "name": "Bo", "town": "Linz", "n": 2}])
    return db


def everybody(db):
    return db.sql("SELECT id, name, town, n FROM people ORDER BY id").fetchall()


def test_what_becomes_of_rows_whose_keys_are_there(people):
    rows = [{"id": 2, "name": "Bob"}, {"id": 3, "name": "Cy"}]
    with pytest.raises(alluvia.IntegrityError) as caught:
        people.ingest("people", rows)
    assert caught.value.sqlstate == "23505"
    people.ingest("people", rows, on_conflict="nothing")
    assert everybody(people) == [(1, "Ann", "Ulm", 1), (2, "Bo", "Linz", 2), (3, "Cy", None, None)]
    people.ingest("people", pa.table({"id": [2], "name": ["Bob"]}), on_conflict="replace")
    assert everybody(people)[1] == (2, "Bob", None, None)


def test_patches_set_what_each_row_gives(people):
    people.ingest("people", [{"id": 1, "town": "Graz"}, {"id": 2, "n": 7}, {"id": 1, "n": None}, {"id": 1, "name": "Anna"}], op="patch")
    assert everybody(people) == [(1, "Anna", "Graz", None), (2, "Bo", "Linz", 7)]
    people.ingest("people", polars.DataFrame({"id": [1, 2], "n": [5, 6]}), op="patch")
    assert everybody(people) == [(1, "Anna", "Graz", 5), (2, "Bo", "Linz", 6)]
    with pytest.raises(alluvia.IntegrityError) as caught:
        people.ingest("people", [{"id": 1, "n": 0}, {"id": 9, "n": 0}], op="patch")
    assert caught.value.sqlstate == "23502"
    assert everybody(people)[0][3] == 5


def test_each_row_says_what_it_does(people):
    people.ingest("people", [
        {"_op": "delete", "id": 1}, {"_op": "patch", "id": 2, "town": "Wels"}, {"id": 3, "name": "Cy"}, {"_op": "p", "id": 3, "n": 3},
        {"_op": "upsert", "id": 1, "name": "Ann again"},
    ])
    assert everybody(people) == [(1, "Ann again", None, None), (2, "Bo", "Wels", 2), (3, "Cy", None, 3)]
    people.ingest("people", pa.table({"id": [1, 3]}), op="delete")
    assert everybody(people) == [(2, "Bo", "Wels", 2)]


def test_many_writers_patch_columns_of_one_row(people):
    """The newest commit wins column by column."""
    def write(column, last):
        with people.session() as session:
            for at in range(last + 1):
                session.ingest("people", [{"id": 1, column: at if column == "n" else str(at)}], op="patch")

    import threading
    threads = [threading.Thread(target=write, args=(column, 20)) for column in ("name", "town", "n")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert everybody(people)[0] == (1, "20", "20", 20)


@pytest.mark.parametrize("how, sqlstate", [
    ({"on_conflict": "update"}, "22023"), ({"op": "merge"}, "22023"), ({"on_conflict": "replace"}, "42P10"), ({"op": "delete"}, "42P10"),
])
def test_what_rows_cannot_do(trips, how, sqlstate):
    with pytest.raises(alluvia.Error) as caught:
        trips.ingest("trips", [{"id": 1}], **how)
    assert caught.value.sqlstate == sqlstate

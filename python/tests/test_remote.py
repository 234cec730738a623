"""A database that is open in this process, and one at a server: the same interface, the same answers."""

import datetime as dt
import decimal
import pathlib
import subprocess
import sys
import threading
from urllib.parse import quote

import alluvia
import pandas
import polars
import pyarrow as pa
import pytest
from alluvia import dbapi
from conftest import serving

UTC = dt.timezone.utc
ENDLESS = "SELECT count(*) FROM generate_series(1, 1000000000000) AS s(n) WHERE n % 7 = 3"
RUNNING = "SELECT count(*) FROM alluvia.sessions WHERE sql LIKE '%1000000000000%' AND sql NOT LIKE '%sessions%'"
CERTIFICATE = pathlib.Path(__file__).resolve().parents[2] / "crates" / "server-flight" / "tests" / "flight" / "certificate.pem"


@pytest.fixture
def db(where):
    how, what = where
    with getattr(alluvia, how)(what) as database:
        yield database


def becomes(db, sql, wanted):
    """Waits until a query of one value gives it."""
    with db.session() as session:
        waiting = threading.Event()
        for _ in range(600):
            found = session.sql(sql).fetchone()[0]
            if found == wanted:
                return
            waiting.wait(0.05)
    raise AssertionError(f"{sql} gives {found}, and not {wanted}")


def test_rows_go_in_and_come_out(db):
    db.sql("CREATE TABLE sales (country TEXT, price DOUBLE, n BIGINT) WITH (dimensions = 'country', measures = 'price')")
    table = pa.table({"country": ["Chile", "Peru", None], "price": [1.5, 2.5, None]})
    taken = db.ingest("sales", [{"country": "Chile", "n": 1}, {"country": "Ghana", "price": 4}])
    assert taken == (2, 2)
    for rows in (table, table.to_batches()[0], table.to_reader(), polars.from_arrow(table), table.to_pandas()):
        assert db.ingest("sales", rows).rows == 3
    assert db.ingest("sales", db.sql("SELECT country FROM sales WHERE country = 'Ghana'")).rows == 1
    result = db.sql("SELECT country, count(*) AS n, sum(price) AS total FROM sales GROUP BY country ORDER BY country NULLS LAST")
    expected = [("Chile", 6, 7.5), ("Ghana", 2, 4.0), ("Peru", 5, 12.5), (None, 5, None)]
    assert result.columns == ["country", "n", "total"] and result.types == ["TEXT", "BIGINT", "DOUBLE"]
    assert result.fetchall() == expected == [tuple(row.values()) for row in result.arrow().to_pylist()]
    assert result.pl().rows() == expected and result.df()["n"].tolist() == [6, 2, 5, 5]
    assert not result.arrow().schema.metadata and [str(field.type) for field in result.arrow().schema] == ["string", "int64", "double"]
    assert repr(result).splitlines()[3] == "| Chile   | 6 |   7.5 |" and "<td" in result._repr_html_()
    assert result.tag == "SELECT" and repr(db.sql("DROP TABLE sales")) == "DROP TABLE"


ROW = (
    True, -1, 2**40, 0.1, decimal.Decimal("-12.34"), dt.date(2026, 11, 21), dt.datetime(2026, 11, 21, 10, 11, 12, 345678),
    dt.datetime(2026, 11, 21, 10, 11, 12, tzinfo=UTC), "it's ä\n $1 ?", b"\x00\xff",
)
KINDS = ["BOOLEAN", "INT", "BIGINT", "DOUBLE", "DECIMAL(12, 2)", "DATE", "TIMESTAMP", "TIMESTAMPTZ", "TEXT", "BYTEA"]


def test_values_of_every_type_arrive_as_themselves(db):
    names = [f"c{at}" for at in range(len(ROW))]
    db.sql(f"CREATE TABLE t ({', '.join(f'{name} {kind}' for name, kind in zip(names, KINDS))})")
    insert = f"INSERT INTO t VALUES ({', '.join('?' * len(ROW))})"
    assert db.sql(insert, ROW).tag == "INSERT 0 1"
    db.sql(insert, [None] * len(ROW))
    db.ingest("t", [dict(zip(names, ROW))])
    assert db.sql("SELECT * FROM t WHERE c1 = ?", [-1]).fetchall() == [ROW, ROW]
    assert db.sql("SELECT * FROM t WHERE c1 IS NULL").fetchall() == [(None,) * len(ROW)]
    for name, value in zip(names, ROW):
        assert db.sql(f"SELECT count(*) FROM t WHERE {name} = $value", {"value": value}).fetchone() == (2,), name
    assert db.sql("SELECT count(*) FROM t WHERE c8 = ANY(?)", [[ROW[8], "other"]]).fetchone() == (2,)


def test_parameters(db):
    assert db.sql("SELECT $2 - $1", [1, 10]).fetchone() == (9,)
    assert db.sql("SELECT $a AS x, $b AS y", {"a": "x", "b": None}).fetchone() == ("x", None)
    for at in range(150):
        assert db.sql(f"SELECT ? + {at}", [1]).fetchone() == (at + 1,)
        assert db.sql("SELECT ? + 1", [at]).fetchone() == (at + 1,)
    for sql, parameters, said in [
        ("SELECT $1", [], "1 parameters, and 0"), ("SELECT $1", None, "1 parameters, and 0"), ("SELECT 1", [1], "0 parameters, and 1"),
        ("CREATE TABLE p (a INT)", [1], "no parameters"), ("SELECT 1; SELECT 2", [1], "take no parameters"),
    ]:
        with pytest.raises(alluvia.ProgrammingError, match=said) as caught:
            db.sql(sql, parameters)
        assert caught.value.sqlstate == "42601"


def test_several_statements_run_in_order_or_not_at_all(db):
    last = db.sql("CREATE TABLE s (a INT); INSERT INTO s VALUES (1);; INSERT INTO s VALUES (2) -- two; three\n; SELECT sum(a), '; ' FROM s;")
    assert last.fetchall() == [(3, "; ")]
    with pytest.raises(alluvia.ProgrammingError):
        db.sql("INSERT INTO s VALUES (3); SELEC 1")
    assert db.sql("SELECT count(*) FROM s").fetchone() == (2,)


def test_errors_are_of_the_same_classes(db):
    db.sql("CREATE TABLE t (a INT NOT NULL)")
    for sql, kind, state, said in [
        ("SELEC 1", alluvia.ProgrammingError, "42601", "SELEC"), ("SELECT * FROM nowhere", alluvia.ProgrammingError, "42P01", "nowhere"),
        ("SELECT b FROM t", alluvia.ProgrammingError, "42703", "b"), ("", alluvia.ProgrammingError, "42601", "no statement"),
        ("SET freshness = 'soon'", alluvia.ProgrammingError, "22023", "freshness"), ("CREATE SEQUENCE s", alluvia.NotSupportedError, "0A000", "CREATE SEQUENCE"),
        ("INSERT INTO t VALUES (NULL)", alluvia.IntegrityError, "23502", "a"), ("CREATE TABLE t (a INT)", alluvia.ProgrammingError, "42P07", "t"),
    ]:
        with pytest.raises(kind, match=said) as caught:
            db.sql(sql)
        assert caught.value.sqlstate == state, sql
    db.sql("CREATE TABLE places (country TEXT)")
    with pytest.raises(alluvia.ProgrammingError) as caught:
        db.sql("SELECT cuontry FROM places")
    assert caught.value.hint == "did you mean country?" and "hint" not in caught.value.message
    with pytest.raises(alluvia.DataError) as caught:
        db.sql("SELECT 10 / (150000 - n) FROM generate_series(1, 1000000) AS s(n)").fetchall()
    assert caught.value.sqlstate == "22012"
    assert db.sql("SELECT 1").fetchone() == (1,)


def test_columns_have_postgresqls_names_and_each_one_of_its_own(db):
    db.sql("CREATE TABLE named (a INT, b TEXT)")
    db.sql("INSERT INTO named VALUES (1, 'x')")
    result = db.sql("SELECT sum(a), sum(a) + 1, upper(b), sum(a), a::text, a FROM named GROUP BY a, b")
    wanted = ["sum", "?column?", "upper", "sum_1", "a", "a_1"]
    assert result.columns == wanted
    assert result.arrow().column_names == wanted
    for _ in range(2):
        assert db.sql("SELECT count(*), avg(a) FROM named").columns == ["count", "avg"]


def test_rows_are_kept_or_taken_in_any_mixture(db):
    many = 100_000
    result = db.sql(f"SELECT n FROM generate_series(1, {many}) AS s(n) ORDER BY n")
    seen = [result.fetchone()[0], *[n for (n,) in result.fetchmany(1_500)], *[n for (n,), _ in zip(result, range(2_000))]]
    # zip takes one more than it gives.
    assert seen == list(range(1, 3_502))
    assert result.arrow()["n"].to_pylist() == list(range(3_503, many + 1)) == [n for (n,) in result.fetchall()]
    assert pa.table(result).num_rows == many - 3_502 and result.fetchone() is None
    again = db.sql("SELECT 1 AS a")
    assert again.fetchall() == again.fetchall() == [(1,)] and again.pl().height == again.df().shape[0] == 1
    assert sum(batch.num_rows for batch in db.sql(f"SELECT n FROM generate_series(1, {many}) AS s(n)").batches()) == many


def test_answers_that_nobody_has_read_yet_wait_and_stop_nobody(db):
    waiting = [db.sql("SELECT n, repeat('x', 100) AS t FROM generate_series(1, 200000) AS s(n)") for _ in range(5)]
    assert db.sql("SELECT 1").fetchone() == (1,)
    for result in waiting:
        assert result.arrow().num_rows == 200_000


def test_what_was_used(db):
    db.sql("CREATE TABLE u (a BIGINT)")
    db.ingest("u", [{"a": at} for at in range(1_000)])
    result = db.sql("SELECT sum(a + 0) FROM u")
    assert result.as_of == (2, dt.timedelta(0))
    result.fetchall()
    assert result.used.rows_read == 1_000 and result.used.stage in ("ingested", "sorted", "merged") and result.used.version == 2
    old = db.sql("SELECT count(*) FROM u")
    db.ingest("u", [{"a": 1}])
    # The snapshot is that of the moment the statement was given.
    assert old.fetchone() == (1_000,) and old.as_of.version == 2
    assert db.sql("SHOW freshness").used is None and db.sql("SHOW freshness").bounds is None
    assert db.sql("DROP TABLE IF EXISTS gone").notices == ["there is no table 'gone' to drop"]


def test_settings_and_transactions_are_the_sessions(where, db):
    how, what = where
    # Servers send larger batches.
    default = ("32768",) if how == "connect" else ("8192",)
    db.sql("SET batch_size = 7")
    with db.session() as session:
        assert session.sql("SHOW batch_size").fetchone() == default and session.transaction == "idle"
        session.sql("CREATE TABLE t (a INT)")
        session.sql("BEGIN")
        assert session.ingest("t", [{"a": 1}]) == (1, None) and session.transaction == "open"
        assert session.sql("SELECT count(*) FROM t").fetchone() == (1,) and db.sql("SELECT count(*) FROM t").fetchone() == (0,)
        with pytest.raises(alluvia.DataError):
            session.sql("SELECT 1 / 0").fetchall()
        assert session.transaction == "failed"
        with pytest.raises(alluvia.ProgrammingError, match="ROLLBACK") as caught:
            session.ingest("t", [{"a": 1}])
        assert caught.value.sqlstate == "25P02"
        session.sql("ROLLBACK")
        assert session.ingest("t", [{"a": 1}]).rows == 1
        session.sql("BEGIN")
        session.sql("INSERT INTO t VALUES (2)")
    # What was open is rolled back.
    assert db.sql("SELECT count(*) FROM t").fetchone() == (1,) and db.sql("SHOW batch_size").fetchone() == ("7",)
    seen = []
    thread = threading.Thread(target=lambda: seen.append(db.sql("SHOW batch_size").fetchone()))
    thread.start()
    thread.join()
    assert seen == [default]
    if how == "connect":
        with alluvia.connect(what, settings={"freshness": "5s", "max_error": 0.01}) as other:
            assert other.sql("SHOW freshness").fetchone() == ("5s",)
            with other.session() as session:
                assert session.sql("SHOW max_error").fetchone() == ("0.01",)
        with pytest.raises(alluvia.ProgrammingError):
            alluvia.connect(what, settings={"freshness": "soon"})


def test_a_batch_is_one_version_or_nothing(db):
    db.sql("CREATE TABLE a (x INT); CREATE TABLE b (y TEXT)")
    versions = lambda: db.sql("SELECT max(version) FROM alluvia.batches").fetchone()[0]
    before = versions()
    with db.batch() as batch:
        assert batch.ingest("a", [{"x": 1}, {"x": 2}]) == (2, None)
        batch.sql("INSERT INTO b VALUES (?)", ["one"])
        assert batch.sql("SELECT count(*) FROM a").fetchone() == (2,) and db.sql("SELECT count(*) FROM a").fetchone() == (0,)
    assert versions() == before + 1
    with pytest.raises(KeyError), db.batch() as batch:
        batch.ingest("a", [{"x": 3}])
        raise KeyError
    with pytest.raises(alluvia.ProgrammingError, match="rolled back") as caught:
        with db.batch() as batch:
            try:
                batch.ingest("a", [{"x": "three"}])
            except alluvia.DataError:
                pass
    assert caught.value.sqlstate == "25P02"
    assert db.sql("SELECT (SELECT count(*) FROM a), (SELECT count(*) FROM b)").fetchone() == (2, 1) and versions() == before + 1


def test_rows_are_refused_as_a_whole_and_the_row_is_named(db):
    db.sql("CREATE TABLE t (id BIGINT, price DOUBLE)")
    good = pa.record_batch({"id": pa.array(range(70_000), pa.int64()), "price": pa.array(["1.5"] * 70_000)})
    bad = pa.record_batch({"id": pa.array([1, 2], pa.int64()), "price": pa.array(["2", "two"])})
    with pytest.raises(alluvia.DataError, match="row 70002, column price: .*two"):
        db.ingest("t", pa.Table.from_batches([good, bad]))
    # Of another type from the second batch of dicts on.
    with pytest.raises(alluvia.DataError, match="row 20001, column id"):
        db.ingest("t", ({"id": at if at < 20_000 else "many"} for at in range(20_001)))
    with pytest.raises(alluvia.ProgrammingError, match="prise") as caught:
        db.ingest("t", [{"prise": 1}])
    assert caught.value.sqlstate == "42703"
    assert db.sql("SELECT count(*) FROM t").fetchone() == (0,)
    assert db.ingest("t", ({"ID": at if at % 2 else str(at)} for at in range(40_000))).rows == 40_000
    assert db.sql("SELECT sum(id) FROM t").fetchone()[0] == sum(range(40_000))


def test_a_source_that_fails_leaves_nothing_and_its_error_arrives(db):
    class Broken(Exception):
        pass

    def dicts():
        for at in range(50_000):
            yield {"id": at}
        raise Broken("the source")

    def batches():
        yield from pa.table({"id": pa.array(range(50_000), pa.int64())}).to_batches()
        raise Broken("the stream")

    db.sql("CREATE TABLE t (id BIGINT)")
    for table in ("t", "made"):
        with pytest.raises(Broken, match="the source"):
            db.ingest(table, dicts(), create=True)
        with pytest.raises(alluvia.DataError, match="the stream"):
            db.ingest(table, pa.RecordBatchReader.from_batches(pa.schema([("id", pa.int64())]), batches()), create=True)
    assert db.sql("SELECT count(*) FROM t").fetchone() == (0,)
    assert [name for (name,) in db.sql("SELECT table_name FROM alluvia.tables")] == ["t"]


def test_tables_are_created_where_it_is_asked_for(db):
    with pytest.raises(alluvia.ProgrammingError) as caught:
        db.ingest("nowhere", [{"a": 1}])
    assert caught.value.sqlstate == "42P01"
    assert db.ingest("made", [{"a": 1, "b": "x"}, {"a": None}], create=True).rows == 2
    assert db.ingest("made", pa.table({"a": [5]}), create=True).rows == 1
    assert db.sql("SELECT * FROM made").types == ["BIGINT", "TEXT"] and db.sql("SELECT count(*) FROM made").fetchone() == (3,)
    assert db.ingest("made", []) == (0, None) and db.ingest("made", pa.table({"a": pa.array([], pa.int64())})) == (0, None)
    assert db.ingest("bare", pa.table({"a": pa.array([], pa.int64())}), create=True).rows == 0
    assert db.sql("SELECT count(*) FROM bare").fetchone() == (0,)


def test_many_rows(db):
    numpy = pytest.importorskip("numpy")
    count = 1_000_000
    data = {"id": numpy.arange(count), "price": numpy.arange(count) / 4, "kind": numpy.array(["a", "b", "c", "d"])[numpy.arange(count) % 4]}
    seen = []
    db.sql("CREATE TABLE t (id BIGINT, price DOUBLE, kind TEXT)")
    assert db.ingest("t", pandas.DataFrame(data), progress=seen.append).rows == count
    assert all(isinstance(progress, alluvia.Progress) for progress in seen)
    assert db.sql("SELECT count(*), sum(id), sum(price), count(DISTINCT kind) FROM t").fetchone() == (
        count, count * (count - 1) // 2, pytest.approx(data["price"].sum()), 4,
    )
    ours = db.sql("SELECT id, price, kind FROM t ORDER BY id").arrow()
    assert ours.equals(pa.table(data)) or ours.to_pylist() == pa.table(data).to_pylist()


ESTIMATED = "SELECT count(*) AS c, sum(n) AS s FROM many WHERE k < ?"


def many(db):
    """Rows enough that some of them may stand for all."""
    db.sql("CREATE TABLE many (k TEXT, n BIGINT) WITH (dimensions = 'k', measures = 'n')")
    db.sql("INSERT INTO many SELECT 'k' || (n * 7919 % 1000), n % 100 FROM generate_series(1, 700000) AS s(n)")
    db.sql("CALL alluvia.merge()")


def test_estimates_have_bounds(db):
    many(db)
    with db.session() as session:
        session.sql("SET cuboids = off")
        exact = session.sql(ESTIMATED, ["k7"])
        assert exact.bounds is None
        exact = exact.fetchone()
        session.sql("SET max_error = 0.3")
        result = session.sql(ESTIMATED, ["k7"])
        assert result.columns == ["c", "s"] and set(result.bounds) == {"c", "s"}
        row = result.fetchone()
        for at, name in enumerate(result.columns):
            (lower,), (upper,) = result.bounds[name]
            assert lower <= row[at] <= upper and 0.7 < row[at] / exact[at] < 1.3
        assert result.fetchone() is None and result.used.rows_read > 0 and result.as_of.lag == dt.timedelta(0)
        assert session.sql("SELECT max(k) FROM many").bounds is None and session.sql("SELECT 1").bounds is None
        session.sql("RESET max_error")
        assert session.sql(ESTIMATED, ["k7"]).bounds is None


def test_refinements_get_better_and_end_in_the_answer(db):
    many(db)
    with db.session() as session:
        session.sql("SET cuboids = off")
        exact = session.sql(ESTIMATED, ["k7"]).fetchone()
        for sql, parameters in ((ESTIMATED, ["k7"]), (ESTIMATED.replace("?", "'k7'"), None)):
            looks = list(session.refine(sql, parameters))
            assert len(looks) > 3
            for before, after in zip(looks, looks[1:]):
                assert before.fraction < after.fraction and before.elapsed <= after.elapsed and not before.is_last and not before.is_exact
                assert before.kind == "planned" and 1 <= before.look <= before.looks and before.confidence == 0.95
                assert before.as_of.version == after.as_of.version and before.columns == after.columns == ["c", "s"]
            # All at the end: what was given stays.
            for refinement in looks[:-1]:
                row = refinement.fetchone()
                for at, name in enumerate(refinement.columns):
                    (lower,), (upper,) = refinement.bounds[name]
                    assert lower <= row[at] <= upper and 0.8 < row[at] / exact[at] < 1.2
            last = looks[-1]
            assert last.is_last and last.is_exact and last.kind == "exact" and last.bounds is None and last.fetchone() == exact
            assert (last.fraction, last.error, last.confidence, last.groups_unseen) == (1.0, 0.0, 1.0, 0)
            assert last.tag == "SELECT" and last.used is not None
        session.sql("SET max_error = 0.3")
        last = list(session.refine(ESTIMATED, ["k7"]))[-1]
        assert last.is_last and not last.is_exact and last.error <= 0.3 and set(last.bounds) == {"c", "s"}


def test_what_is_never_estimated_has_one_refinement(db):
    (only,) = db.refine("SELECT n FROM generate_series(1, 3000) AS s(n) WHERE n > ? ORDER BY n", [1000])
    assert only.is_last and only.is_exact and only.bounds is None and (only.look, only.looks, only.fraction) == (0, 0, 1.0)
    assert [n for (n,) in only.fetchall()] == list(range(1001, 3001))
    (done,) = db.refine("CREATE TABLE t (a INT)")
    assert repr(done) == "CREATE TABLE" and done.as_of is None
    (named,) = db.session().refine("SELECT $a AS a", {"a": "x"})
    assert named.fetchone() == ("x",)
    for sql, parameters, state in [
        ("SELEC 1", None, "42601"), ("SELECT 1; SELECT 2", None, "42601"), ("SELECT $1", [], "42601"), ("CREATE TABLE u (a INT)", [1], "42601"),
        ("SELECT nothing", None, "42703"), ("", None, "42601"),
    ]:
        with pytest.raises(alluvia.ProgrammingError) as caught:
            db.refine(sql, parameters)
        assert caught.value.sqlstate == state, sql


def test_whoever_stops_refinements_has_stopped_the_statement(db):
    many(db)
    with db.session() as session:
        session.sql("SET cuboids = off")
        refinements = session.refine(ESTIMATED, ["k7"])
        first = next(refinements)
        assert not first.is_last
        refinements.close()
        with pytest.raises(alluvia.InterfaceError, match="closed"):
            next(refinements)
        assert first.fetchone() is not None and session.sql("SELECT 1").fetchone() == (1,)
    refinements = db.refine(ENDLESS)
    refinements.close()
    becomes(db, RUNNING, 0)
    ended = []

    def work(refinements):
        try:
            next(refinements)
        except alluvia.InterfaceError as error:
            ended.append(str(error))

    refinements = db.refine(ENDLESS)
    thread = threading.Thread(target=work, args=(refinements,))
    thread.start()
    while thread.is_alive():
        refinements.close()
        thread.join(0.02)
    assert len(ended) == 1 and "closed" in ended[0]
    becomes(db, RUNNING, 0)


def test_a_stop_does_not_reach_the_statement_after(db):
    with db.session() as session:
        session.sql("CREATE TABLE t (a INT)")
        for n in range(100):
            session.cancel()
            assert session.sql("SELECT ? + 1", [n]).fetchall() == [(n + 1,)]
            session.cancel()
            assert session.ingest("t", [{"a": n}]).rows == 1


def test_another_thread_watches_and_stops_a_statement(db):
    session = db.session()
    ended = []

    def work():
        try:
            session.sql(ENDLESS).fetchall()
        except alluvia.OperationalError as error:
            ended.append(error.sqlstate)

    thread = threading.Thread(target=work)
    thread.start()
    becomes(db, RUNNING, 1)
    assert isinstance(session.progress(), alluvia.Progress)
    while thread.is_alive():
        session.cancel()
        thread.join(0.02)
    assert ended == ["57014"] and session.sql("SELECT 1").fetchone() == (1,)
    becomes(db, RUNNING, 0)


def test_progress(db):
    with db.session() as session:
        session.sql("CREATE TABLE t (a BIGINT)")
        session.ingest("t", [{"a": 1}] * 1_000)
        assert session.progress().rows == 1_000

    def failing(progress):
        raise RuntimeError("the display")

    with pytest.raises(RuntimeError, match="the display"):
        db.sql(ENDLESS, progress=failing).fetchall()
    assert db.sql("SELECT 1").fetchone() == (1,)
    becomes(db, RUNNING, 0)


def test_a_result_that_is_closed_or_forgotten_stops_its_statement(db):
    rows = "SELECT n FROM generate_series(1, 1000000000000) AS s(n)"
    result = db.sql(rows)
    assert result.fetchone() is not None
    result.close()
    with pytest.raises(alluvia.InterfaceError, match="the result is closed"):
        result.fetchone()
    becomes(db, RUNNING, 0)
    other = db.sql(rows)
    assert other.fetchone() is not None
    del other
    becomes(db, RUNNING, 0)


def test_closing_ends_what_other_threads_run(where):
    how, what = where
    db = getattr(alluvia, how)(what)
    ended = []
    begun = threading.Barrier(4)

    def work(read):
        result = db.session().sql(ENDLESS)
        begun.wait()
        try:
            read(result)
        except alluvia.Error as error:
            ended.append(error)

    threads = [threading.Thread(target=work, args=(read,)) for read in (lambda r: r.fetchall(), lambda r: r.fetchone(), lambda r: repr(r))]
    for thread in threads:
        thread.start()
    begun.wait()
    db.close()
    db.close()
    for thread in threads:
        thread.join()
    assert len(ended) == 3 and db.closed and "closed" in repr(db)
    with pytest.raises(alluvia.InterfaceError, match="closed"):
        db.sql("SELECT 1")
    with getattr(alluvia, how)(what) as again:
        becomes(again, RUNNING, 0)
        # The sessions of the one before have ended: those of this thread and of `becomes` are left.
        if how == "connect":
            becomes(again, "SELECT count(*) FROM alluvia.sessions WHERE protocol = 'flight'", 2)


INTERRUPTED = """
import os, signal, sys, threading, alluvia
db = getattr(alluvia, sys.argv[1])(sys.argv[2])
db.sql("CREATE TABLE t (a INT)")

def interrupted(work):
    ended = threading.Event()
    def press():
        while not ended.wait(0.3):
            os.kill(os.getpid(), signal.SIGINT)
    thread = threading.Thread(target=press)
    thread.start()
    try:
        work()
    except KeyboardInterrupt:
        pass
    else:
        sys.exit("not interrupted")
    finally:
        while True:
            try:
                ended.set()
                thread.join()
                break
            except KeyboardInterrupt:
                pass

def dicts():
    while True:
        yield {"a": 1}

endless = "SELECT count(*) FROM generate_series(1, 1000000000000) AS s(n) WHERE n % 7 = 3"
interrupted(lambda: db.sql(endless).fetchall())
interrupted(lambda: db.sql(endless).arrow())
interrupted(lambda: next(db.refine(endless)))
interrupted(lambda: db.sql("INSERT INTO t SELECT n % 7 FROM generate_series(1, 1000000000000) AS s(n)"))
interrupted(lambda: db.ingest("t", dicts()))
assert db.sql("SELECT count(*) FROM t").fetchone() == (0,), "nothing is half applied"
assert db.ingest("t", [{"a": 1}]).rows == 1
db.close()
print("well")
"""


def test_ctrl_c_stops_a_statement_and_nothing_else(where):
    done = subprocess.run([sys.executable, "-c", INTERRUPTED, *where], capture_output=True, text=True, timeout=300)
    assert done.stdout == "well\n", done.stderr
    with getattr(alluvia, where[0])(where[1]) as db:
        becomes(db, RUNNING, 0)
        assert db.sql("SELECT count(*) FROM t").fetchone() == (1,)


def test_many_threads_write_and_read_one_database(db):
    db.sql("CREATE TABLE t (thread INT, n INT)")
    failures = []

    def work(thread):
        try:
            for n in range(10):
                db.ingest("t", [{"thread": thread, "n": n}])
                assert db.sql("SELECT count(*) FROM t WHERE thread = ?", [thread]).fetchone() == (n + 1,)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures, failures[0]
    assert db.sql("SELECT count(*) FROM t").fetchone() == (80,)


def test_db_api(db):
    connection = dbapi.connect(db)
    count = lambda: db.sql("SELECT count(*) FROM t").fetchone()[0]
    connection.execute("CREATE TABLE t (a INT, b DECIMAL(10, 2))")
    cursor = connection.cursor()
    assert cursor.executemany("INSERT INTO t VALUES (?, ?)", [(1, decimal.Decimal("1.50")), (2, None)]).rowcount == 2
    assert count() == 0
    connection.commit()
    assert count() == 2
    cursor.execute("SELECT a, b FROM t ORDER BY a")
    assert [column[0] for column in cursor.description] == ["a", "b"] and cursor.description[1][1] == dbapi.NUMBER
    assert cursor.description[1][4:6] == (10, 2) and cursor.fetchone() == (1, decimal.Decimal("1.50")) and cursor.fetchall() == [(2, None)]
    connection.execute("INSERT INTO t (a) VALUES (3)")
    connection.rollback()
    with pytest.raises(dbapi.DataError):
        connection.execute("INSERT INTO t (a) VALUES ('x')")
    with pytest.raises(dbapi.ProgrammingError, match="rolled back"):
        connection.commit()
    assert count() == 2
    connection.execute("INSERT INTO t (a) VALUES (4)")
    connection.close()
    assert count() == 2


def test_a_connection_of_db_api_opens_what_it_is_of(where):
    how, what = where
    connection = dbapi.connect(what)
    assert connection.execute("SELECT 1").fetchall() == [(1,)]
    connection.close()
    assert connection.database.closed
    with pytest.raises(dbapi.InterfaceError, match="the connection is closed"):
        connection.cursor()


def test_a_forked_process_is_told_and_harms_nothing(where):
    program = """
import os, sys, alluvia
db = getattr(alluvia, sys.argv[1])(sys.argv[2])
db.ingest("t", [{"a": 1}], create=True)
unread = db.sql("SELECT * FROM t")
child = os.fork()
if child == 0:
    for use in (lambda: db.sql("SELECT 1"), lambda: unread.fetchone(), lambda: db.session()):
        try:
            use()
        except alluvia.InterfaceError as error:
            assert "forked" in str(error)
        else:
            os._exit(3)
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0, "the child"
db.ingest("t", [{"a": 2}])
assert unread.fetchall() == [(1,)] and db.sql("SELECT count(*) FROM t").fetchone() == (2,)
"""
    subprocess.run([sys.executable, "-W", "ignore", "-c", program, *where], check=True, timeout=120)


def test_a_process_that_ends_without_closing_ends(where):
    program = """
import sys, threading, alluvia
db = getattr(alluvia, sys.argv[1])(sys.argv[2])
unread = db.sql("SELECT * FROM generate_series(1, 1000000000000)")
unread.fetchone()
threading.Thread(target=lambda: db.sql("SELECT count(*) FROM generate_series(1, 1000000000000)").fetchall(), daemon=True).start()
"""
    subprocess.run([sys.executable, "-c", program, *where], check=True, timeout=120, stderr=subprocess.DEVNULL)
    with getattr(alluvia, where[0])(where[1]) as db:
        becomes(db, RUNNING, 0)


def test_a_server_that_comes_back_is_used_again(tmp_path):
    with serving(tmp_path / "db") as server:
        db = alluvia.connect(server.url, settings={"freshness": "5s"})
        db.ingest("t", [{"a": 1}], create=True)
        lost = db.session()
        server.stop()
        with pytest.raises(alluvia.OperationalError):
            db.sql("SELECT 1")
    port = server.url.rpartition(":")[2]
    with serving(tmp_path / "db", listen=f"127.0.0.1:{port}"):
        said = []
        for _ in range(5):
            try:
                found = db.sql("SHOW freshness").fetchone()
                break
            except alluvia.OperationalError as error:
                said.append(error)
        # Who had a session there is told once that it is gone.
        assert said[-1].sqlstate == "28P01" and "session has ended" in str(said[-1]) and found == ("5s",)
        assert db.sql("SELECT count(*) FROM t").fetchone() == (1,)
        with pytest.raises(alluvia.OperationalError, match="session has ended"):
            lost.sql("SELECT 1")
        db.close()


def test_passwords(tmp_path, monkeypatch):
    monkeypatch.delenv("ALLUVIA_PASSWORD", raising=False)
    with serving(tmp_path / "db", "authentication=password") as server:
        password = server.said.split("shown this once: ")[1].split()[0]
        place = server.url.removeprefix("grpc://")
        who = "SELECT DISTINCT user_name FROM alluvia.sessions WHERE protocol = 'flight'"
        for options in ({"url": place, "user": "alluvia", "password": password}, {"url": f"grpc://alluvia:{quote(password, safe='')}@{place}"}):
            with alluvia.connect(**options) as db:
                assert db.sql(who).fetchall() == [("alluvia",)] and password not in db.path and password not in repr(db)
        monkeypatch.setenv("ALLUVIA_PASSWORD", password)
        with alluvia.connect(place, user="alluvia") as db:
            assert db.sql("SELECT 1").fetchone() == (1,)
        for options in ({}, {"user": "alluvia", "password": "wrong"}):
            with pytest.raises(alluvia.OperationalError) as caught:
                alluvia.connect(place, **options)
            assert caught.value.sqlstate == "28P01"


def test_tls(tmp_path):
    key = CERTIFICATE.with_name("key.pem")
    with serving(tmp_path / "db", f"tls_certificate={CERTIFICATE}", f"tls_key={key}") as server:
        assert server.url.startswith("grpc+tls://")
        for tls_ca in (CERTIFICATE, str(CERTIFICATE), CERTIFICATE.read_bytes()):
            with alluvia.connect(server.url, tls_ca=tls_ca) as db:
                assert db.sql("SELECT 1").fetchone() == (1,)
        with pytest.raises(alluvia.OperationalError):
            alluvia.connect(server.url)
        with pytest.raises(alluvia.OperationalError):
            alluvia.connect(server.url.replace("grpc+tls", "grpc"), timeout=5)


def test_what_names_no_server_is_refused():
    for url, kind, said in [
        ("", alluvia.ProgrammingError, "no host"), ("data/sales", alluvia.ProgrammingError, "alluvia.open"), ("host:port", alluvia.ProgrammingError, "host:port"),
        ("postgresql://localhost:5432/alluvia", alluvia.NotSupportedError, "psycopg"), ("grpc://a:secret@h/x", alluvia.ProgrammingError, "more than a host"),
    ]:
        with pytest.raises(kind, match=said) as caught:
            alluvia.connect(url)
        assert "secret" not in str(caught.value)
    with pytest.raises(TypeError, match="dbapi"):
        alluvia.connect(pathlib.Path("data"))
    # A port that nobody listens to: bound, and not listened on.
    import socket

    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        with pytest.raises(alluvia.OperationalError, match="there is no connection to 127.0.0.1") as caught:
            alluvia.connect(f"127.0.0.1:{taken.getsockname()[1]}")
    assert caught.value.sqlstate == "58030" and "alluvia serve" in caught.value.hint
    with pytest.raises(alluvia.Error):
        alluvia.connect("127.0.0.1:1", timeout=-1)

"""Results: what is kept, what is taken, what is shown, what was used."""

import subprocess
import sys

import alluvia
import polars
import pyarrow as pa
import pytest

MANY = 100_000


@pytest.fixture
def many(db):
    return lambda: db.sql(f"SELECT n FROM generate_series(1, {MANY}) AS s(n)")


def numbers(rows):
    return [n for (n,) in rows]


def test_what_is_read_whole_can_be_read_again(many):
    result = many()
    expected = list(range(1, MANY + 1))
    assert sorted(result.arrow()["n"].to_pylist()) == expected
    assert sorted(numbers(result.fetchall())) == sorted(result.df()["n"]) == sorted(result.pl()["n"]) == expected
    assert sorted(numbers(result)) == expected
    assert result.fetchall() == [] and result.fetchone() is None and result.arrow().num_rows == 0


def test_rows_are_taken_once_in_any_mixture(many):
    result = many()
    seen = [result.fetchone(), result.fetchone(), *result.fetchmany(1500)]
    seen += [row for row, _ in zip(result, range(2_000))]
    # zip takes one more than it gives.
    assert len(seen) == 3_502
    rest = result.arrow()["n"].to_pylist()
    assert len(rest) == MANY - 3_503 and len({*numbers(seen), *rest}) == MANY - 1
    assert result.fetchone() == (rest[0],)
    assert pa.table(result).num_rows == len(rest) - 1
    assert result.fetchone() is None


def test_streams_take_rows(many):
    assert sum(batch.num_rows for batch in many().batches()) == MANY
    assert pa.table(many()).num_rows == MANY
    assert polars.DataFrame(many()).height == MANY
    duckdb = pytest.importorskip("duckdb")
    ours = many()
    assert duckdb.sql("SELECT count(*), sum(n) FROM ours").fetchall() == [(MANY, MANY * (MANY + 1) // 2)]
    assert pa.schema(many()) == pa.schema([pa.field("n", pa.int64(), nullable=pa.schema(many()).field("n").nullable)])


def test_nothing_but_the_package_is_needed(tmp_path):
    program = """
import sys
for name in ("pyarrow", "pandas", "numpy"):
    sys.modules[name] = None
import alluvia
db = alluvia.open(sys.argv[1])
db.ingest("t", [{"a": 1, "b": "x"}], create=True)
assert db.sql("SELECT * FROM t").fetchall() == [(1, "x")]
db.ingest("t", db.sql("SELECT a + 1 AS a FROM t"))
repr(db.sql("SELECT * FROM t"))
import polars
frame = db.sql("SELECT * FROM t ORDER BY a").pl()
assert frame.rows() == [(1, "x"), (2, None)], frame
db.ingest("t", frame)
assert db.sql("SELECT count(*) FROM t").fetchone() == (4,)
try:
    db.sql("SELECT 1").arrow()
except ImportError:
    print("well")
"""
    done = subprocess.run([sys.executable, "-c", program, str(tmp_path / "db")], capture_output=True, text=True, timeout=120)
    assert done.stdout == "well\n", done.stderr


def test_a_table_is_shown_and_stays(db, many):
    result = db.sql("SELECT * FROM (VALUES (1, 'one', NULL), (22, '<b>', x'01')) AS t(id, words, raw) ORDER BY id")
    assert repr(result) == "\n".join([
        "+----+-------+------+", "| id | words | raw  |", "+----+-------+------+", "|  1 | one   | NULL |", "| 22 | <b>   | \\x01 |", "+----+-------+------+",
    ])
    shown = result._repr_html_()
    assert "&lt;b&gt;" in shown and "<b>" not in shown and '<td style="text-align:right">22</td>' in shown
    assert len(result.fetchall()) == 2
    long = many()
    assert repr(long).endswith("(the first 20 rows)") and len(repr(long).splitlines()) == 25
    assert len(long.fetchall()) == MANY
    assert repr(db.sql("SELECT 'x' WHERE false")).count("\n") == 3
    assert repr(db.sql("CREATE TABLE shown (a INT)")) == "CREATE TABLE" and db.sql("INSERT INTO shown VALUES (1)")._repr_html_() is None


def test_errors_come_when_the_statement_is_given(db):
    for sql, state, said in [
        ("SELEC 1", "42601", "SELEC"), ("SELECT * FROM nowhere", "42P01", "nowhere"), ("SELECT nothing", "42703", "nothing"), ("", "42601", "no statement"),
        ("SET freshness = 'soon'", "22023", "freshness"), ("CREATE SEQUENCE s", "0A000", "CREATE SEQUENCE"),
    ]:
        with pytest.raises(alluvia.DatabaseError, match=said) as caught:
            db.sql(sql)
        assert caught.value.sqlstate == state
    assert isinstance(caught.value, alluvia.NotSupportedError)


def test_errors_in_the_middle_of_rows(db):
    db.ingest("d", [{"a": at} for at in range(50_000)], create=True)
    for read in (lambda r: r.fetchall(), lambda r: r.arrow(), lambda r: list(r), lambda r: pa.table(r), lambda r: repr(r)):
        result = db.sql("SELECT 10 / (a - a) FROM d")
        with pytest.raises((alluvia.DataError, pa.ArrowInvalid, OSError), match="[Dd]ivi"):
            read(result)
    assert db.sql("SELECT 1").fetchone() == (1,)


def test_parameters(db):
    assert db.sql("SELECT $2 - $1", [1, 10]).fetchone() == (9,)
    assert db.sql("SELECT '?' AS a, \"?\", $$?$$ AS b, ? AS c -- ?\n/* ? */ FROM (SELECT 1 AS \"?\")", [5]).fetchone() == ("?", 1, "?", 5)
    assert db.sql("SELECT $a AS x, $b AS y, $a AS z", {"a": "x", "b": None, "unused": 1}).fetchone() == ("x", None, "x")
    for sql, parameters, said in [
        ("SELECT ?, ?", [1], "2 parameters, and 1"), ("SELECT $1", [], "1 parameters, and 0"), ("SELECT 1", [1], "0 parameters, and 1"), ("SELECT $a", {"b": 1}, r"\$a"),
        ("SELECT ?, $1", [1], "not both"), ("CREATE TABLE p (a INT)", [1], "no parameters"), ("SELECT 1; SELECT 2", [1], "take no parameters"),
        ("SELECT $1", None, "1 parameters, and 0"),
    ]:
        with pytest.raises(alluvia.ProgrammingError, match=said):
            db.sql(sql, parameters)
    with pytest.raises(TypeError):
        db.sql("SELECT ?", "x")


def test_several_statements_run_in_order(db):
    last = db.sql("CREATE TABLE s (a INT); INSERT INTO s VALUES (1); INSERT INTO s VALUES (2); SELECT sum(a) FROM s")
    assert last.fetchall() == [(3,)]


def test_what_was_used(db):
    db.ingest("u", [{"a": at} for at in range(1_000)], create=True)
    result = db.sql("SELECT sum(a + 0) FROM u")
    result.fetchall()
    # The table and its rows are one batch.
    assert result.as_of.version == 1 and result.as_of.lag.total_seconds() == 0
    assert result.used.rows_read == 1_000 and result.used.stage in ("ingested", "sorted", "merged")
    assert db.sql("SHOW freshness").used is None
    old = db.sql("SELECT count(*) FROM u")
    db.ingest("u", [{"a": 1}])
    # The snapshot is that of the moment the statement was given.
    assert old.fetchone() == (1_000,) and old.as_of.version == 1


def test_notices(db):
    assert db.sql("DROP TABLE IF EXISTS gone").notices == ["there is no table 'gone' to drop"]


def test_what_is_closed_says_so(db, many):
    result = many()
    result.fetchone()
    result.close()
    result.close()
    with pytest.raises(alluvia.InterfaceError, match="the result is closed"):
        result.fetchone()
    held = many()
    held.arrow()
    db.close()
    db.close()
    assert db.closed and "closed" in repr(db)
    with pytest.raises(alluvia.InterfaceError, match="closed"):
        db.sql("SELECT 1")
    with pytest.raises(alluvia.InterfaceError, match="closed"):
        held.fetchall()

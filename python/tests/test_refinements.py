"""Answers that get better while they are waited for, and bounds of estimates."""

import gc
import re
import subprocess
import sys
import threading
import types

import alluvia
import pyarrow as pa
import pytest

ROWS = 1_200_000
ITEMS = ", ".join(f"'item {item}'" for item in range(150))
BY_COUNTRY = f"SELECT country, count(*) AS n, avg(price) AS mean FROM sales WHERE item IN ({ITEMS}) GROUP BY country"
TOTAL = f"SELECT sum(cents) AS total FROM sales WHERE item IN ({ITEMS})"
ENDLESS = "SELECT count(*) FROM generate_series(1, 1000000000000) AS s(n) WHERE n % 7 = 3"
RUNNING = "SELECT count(*) FROM alluvia.queries WHERE status = 'running' AND sql LIKE 'SELECT country%'"


@pytest.fixture(scope="module")
def directory(tmp_path_factory):
    """Rows enough that some of them may stand for all."""
    directory = tmp_path_factory.mktemp("refined") / "db"
    numpy = pytest.importorskip("numpy")
    random = numpy.random.default_rng(5)
    with alluvia.open(directory, threads=2) as db:
        db.sql("""
            CREATE TABLE sales (country TEXT, item TEXT, price DOUBLE, cents BIGINT NOT NULL)
            WITH (dimensions = 'country; item', measures = 'price, cents')
        """)
        for _ in range(8):
            rows = ROWS // 8
            db.ingest("sales", pa.table({
                "country": pa.array([f"country {at}" for at in range(10)]).take(pa.array(random.integers(0, 10, rows))),
                "item": pa.array([f"item {at}" for at in range(300)]).take(pa.array(random.integers(0, 300, rows))),
                "price": 1.0 + random.integers(0, 10_000, rows) / 100.0,
                "cents": random.integers(0, 5_000, rows),
            }))
        db.sql("CALL alluvia.merge()")
    return directory


@pytest.fixture
def sales(directory):
    # A cuboid would have the answer.
    with alluvia.open(directory, threads=2, settings={"cuboids": "off"}) as db:
        yield db


def of_country(rows):
    return {country: (n, mean) for country, n, mean in rows}


def test_refinements_get_better_and_end_in_the_answer(sales):
    exact = of_country(sales.sql(BY_COUNTRY).fetchall())
    looks = list(sales.refine(BY_COUNTRY))
    assert len(looks) >= 3
    for before, after in zip(looks, looks[1:]):
        assert before.fraction < after.fraction and before.elapsed <= after.elapsed and not before.is_last
        assert before.kind == "planned" and 1 <= before.look <= before.looks and before.confidence == 0.95
        assert before.as_of.version == after.as_of.version and before.columns == after.columns == ["country", "n", "mean"]
    held = values = 0
    # All at the end: what was given stays.
    for refinement in looks[:-1]:
        rows = refinement.fetchall()
        assert set(refinement.bounds) == {"n", "mean"}
        for at, name in ((1, "n"), (2, "mean")):
            lower, upper = refinement.bounds[name]
            assert len(lower) == len(upper) == len(rows)
            for row, low, high in zip(rows, lower, upper):
                if low is None or high is None:
                    continue
                assert low <= row[at] <= high
                values += 1
                held += low <= exact[row[0]][at - 1] <= high
        assert refinement.arrow().num_rows == refinement.df().shape[0] == refinement.pl().height == len(rows)
    # By chance all but some of them.
    assert values > 0 and held > 0.5 * values
    last = looks[-1]
    assert last.is_last and last.is_exact and last.kind == "exact" and last.bounds is None
    assert (last.fraction, last.error, last.confidence, last.groups_unseen) == (1.0, 0.0, 1.0, 0)
    found = of_country(last.fetchall())
    assert found.keys() == exact.keys()
    for country, (n, mean) in exact.items():
        # Floats are added in another order.
        assert found[country] == (n, pytest.approx(mean, rel=1e-12))


def test_an_error_that_is_enough_ends_it(sales):
    with sales.session() as session:
        session.sql("SET max_error = 0.05")
        looks = list(session.refine(TOTAL))
        assert looks[-1].is_last and not looks[-1].is_exact and looks[-1].error <= 0.05 and looks[-1].fraction < 1
        assert all(not refinement.is_last and refinement.error > 0.05 / 1.05 for refinement in looks[:-1])


def test_an_ordinary_answer_has_bounds_where_it_is_estimated(sales):
    with sales.session() as session:
        assert session.sql(TOTAL).bounds is None
        session.sql("SET max_error = 0.05")
        result = session.sql(TOTAL)
        (total,) = result.fetchone()
        (lower,), (upper,) = result.bounds["total"]
        assert lower < total < upper and upper - lower <= 0.11 * total
        # It tells that it read a part, and can be asked again once it is read.
        assert result.fetchone() is None and list(result.bounds) == ["total"]
        assert result.tag == "SELECT" and result.used.rows_read < ROWS and result.as_of.lag.total_seconds() == 0
        # Shown, it says how far off it may be; what is left of a result that was read in part, too.
        shown = session.sql(TOTAL)
        assert re.search(r"^\| [\d,]+ ± [\d.]+ % \|$", repr(shown), re.MULTILINE) and "±" in shown._repr_html_(), repr(shown)
        groups = session.sql(BY_COUNTRY)
        first, rest = groups.fetchone(), repr(groups).splitlines()[3:-1]
        assert len(rest) == 9 and not any(first[0] in line for line in rest) and all(line.count("±") == 2 for line in rest)
        groups = session.sql(BY_COUNTRY)
        assert groups.arrow().num_rows == 10 and len(groups.bounds["mean"].upper) == 10
        # Never estimated.
        assert session.sql("SELECT max(price) FROM sales").bounds is None
        assert session.sql("SELECT 1").bounds is None and session.sql("SET max_error = 0.05").bounds is None
        # Estimated, and told by the statement alone.
        session.sql("SET error_action = 'mark'")
        marked = session.sql(TOTAL.replace(" FROM", ", lower_bound(sum(cents)), upper_bound(sum(cents)) FROM"))
        assert marked.bounds is None
        value, low, high = marked.fetchone()
        assert low <= value <= high
        session.sql("RESET error_action; RESET max_error")
        assert session.sql(TOTAL).bounds is None


def stop_by_closing(refinements):
    refinements.close()
    refinements.close()
    with pytest.raises(alluvia.InterfaceError, match="closed"):
        next(refinements)


def stop_by_leaving(refinements):
    with refinements as same:
        assert same is refinements


def stop_by_forgetting(refinements):
    # The caller's name of it goes with this frame.
    pass


@pytest.mark.parametrize("stop", [stop_by_closing, stop_by_leaving, stop_by_forgetting])
def test_whoever_stops_has_stopped_the_statement(sales, stop):
    other = sales.session()

    def begin():
        refinements = sales.refine(BY_COUNTRY)
        first = next(refinements)
        assert not first.is_last
        assert other.sql(RUNNING).fetchone() == (1,)
        stop(refinements)
        return first

    first = begin()
    gc.collect()
    assert other.sql(RUNNING).fetchone() == (0,)
    assert len(first.fetchall()) == len(first.bounds["n"].lower)


def test_a_cancelled_statement_says_so_and_has_ended(sales):
    with sales.session() as session:
        refinements = session.refine(BY_COUNTRY)
        next(refinements)
        session.cancel()
        with pytest.raises(alluvia.OperationalError) as caught:
            next(refinements)
        assert caught.value.sqlstate == "57014"
        with pytest.raises(alluvia.InterfaceError, match="closed"):
            next(refinements)
        assert list(session.refine(BY_COUNTRY))[-1].is_exact


def test_closing_the_database_ends_refinements(directory):
    with alluvia.open(directory, settings={"cuboids": "off"}) as db:
        refinements = db.refine(BY_COUNTRY)
        first = next(refinements)
    for use in (lambda: next(refinements), first.fetchall):
        with pytest.raises(alluvia.InterfaceError, match="closed"):
            use()
    alluvia.open(directory).close()


def test_what_is_never_estimated_has_one_refinement(db):
    (only,) = db.refine("SELECT n FROM generate_series(1, 3000) AS s(n) WHERE n > ? ORDER BY n", [1000])
    assert only.is_last and only.is_exact and only.bounds is None and (only.look, only.looks, only.fraction) == (0, 0, 1.0)
    assert [n for (n,) in only.fetchall()] == list(range(1001, 3001))
    (done,) = db.refine("CREATE TABLE t (a INT)")
    assert repr(done) == "CREATE TABLE" and done.as_of is None
    (named,) = db.session().refine("SELECT $a AS a", {"a": "x"})
    assert named.fetchone() == ("x",)
    refinements = db.refine("SELECT 1")
    assert next(refinements).fetchone() == (1,)
    assert next(refinements, None) is None and next(refinements, None) is None
    for sql, parameters, state in [("SELEC 1", None, "42601"), ("SELECT 1; SELECT 2", None, "42601"), ("SELECT $1", [], "42601"), ("SELECT nothing", None, "42703")]:
        with pytest.raises(alluvia.ProgrammingError) as caught:
            db.refine(sql, parameters)
        assert caught.value.sqlstate == state


def test_one_thread_waits_and_another_closes(db):
    refinements = db.refine(ENDLESS)
    ended = []

    def work():
        try:
            next(refinements)
        except alluvia.InterfaceError as error:
            ended.append(str(error))

    thread = threading.Thread(target=work)
    thread.start()
    while thread.is_alive():
        refinements.close()
        thread.join(0.02)
    assert len(ended) == 1 and "closed" in ended[0]
    assert db.sql("SELECT 1").fetchone() == (1,)


INTERRUPTED = """
import os, signal, sys, threading, alluvia
db = alluvia.open(sys.argv[1])
threading.Timer(0.5, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
try:
    next(db.refine(sys.argv[2]))
    print("not interrupted")
except KeyboardInterrupt:
    pass
assert db.sql("SELECT 1").fetchone() == (1,)
db.close()
print("well")
"""


def test_ctrl_c_stops_it(tmp_path):
    program = [sys.executable, "-c", INTERRUPTED, str(tmp_path / "db"), ENDLESS]
    done = subprocess.run(program, capture_output=True, text=True, timeout=300)
    assert done.stdout == "well\n", done.stderr


def test_it_is_shown(sales, monkeypatch):
    first = next(sales.refine(BY_COUNTRY))
    assert repr(first).splitlines()[-1].startswith(f"look {first.look} of {first.looks}: ") and "% of the rows read" in repr(first)
    assert f'<progress value="{first.fraction:.3f}">' in first._repr_html_()
    shown = []

    class Handle:
        def update(self, refinement):
            shown.append(refinement)

    def display(refinement, display_id):
        assert display_id and not shown
        shown.append(refinement)
        return Handle()

    notebook = types.ModuleType("IPython.display")
    notebook.display = display
    monkeypatch.setitem(sys.modules, "IPython", types.ModuleType("IPython"))
    monkeypatch.setitem(sys.modules, "IPython.display", notebook)
    sales.refine(BY_COUNTRY)._ipython_display_()
    assert len(shown) >= 3 and shown[-1].is_exact
    assert "progress" not in shown[-1]._repr_html_() and "look" not in repr(shown[-1])
    (once,) = sales.refine("SELECT max(price) FROM sales")
    assert repr(once).splitlines()[-1] == "nothing here is refined: this is the answer"

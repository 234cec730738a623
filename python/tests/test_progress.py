"""How far statements are: what another thread is told of them, of this process and of a server alike, and how it is shown."""

import contextlib
import sys
import threading
import types

import alluvia
import pytest
from alluvia import Progress, _progress

ROWS = 400_000
# It takes a second or more, and reads the table in parts.
SLOW = "SELECT max(md5(repeat(CAST(a AS TEXT), 500))) FROM slow"
ENDLESS = "SELECT count(*) FROM generate_series(1, 1000000000000) AS s(n) WHERE n % 7 = 3"
QUARTER = Progress("running", rows=3_000_000, seconds=2.0, fraction=0.25, rows_per_second=1_500_000.0, seconds_left=6.0)
SAID = "running: 3,000,000 rows, 2.0 s, 1,500,000 rows/s, 25 %, 6.0 s left"


@pytest.fixture
def db(where):
    how, what = where
    # Few threads, whatever machine this is. Here all of the engine's threads compute then, and whoever waits is shown how far they are all the
    # same; a server must have one left to answer.
    options = {"threads": 2} if how == "open" else {"settings": {"threads": 1}}
    with getattr(alluvia, how)(what, **options) as database:
        yield database


@pytest.fixture
def slow(db):
    db.sql("CREATE TABLE slow (a BIGINT)")
    db.sql(f"INSERT INTO slow SELECT n FROM generate_series(1, {ROWS}) AS s(n)")
    db.sql("CALL alluvia.merge()")
    return db


@contextlib.contextmanager
def running(session, run):
    """Has another thread run a statement of the session, again until whoever looks has seen enough: how long it takes is the machine's."""
    stopped, failures = threading.Event(), []

    def work():
        while not stopped.is_set():
            try:
                run()
            except BaseException as error:
                if getattr(error, "sqlstate", None) != "57014":
                    failures.append(error)
                    return

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield
    finally:
        stopped.set()
        while thread.is_alive():
            session.cancel()
            thread.join(0.02)
        assert not failures, failures[0]


def told_at_last(tell, is_wanted):
    """What is told, once it is what is wanted."""
    waiting = threading.Event()
    for _ in range(1_200):
        told = tell()
        if told is not None and is_wanted(told):
            return told
        waiting.wait(0.05)
    raise AssertionError(f"the last that was told is {told}")


def is_part(progress):
    return progress.fraction is not None and 0 < progress.fraction < 1


def is_idle(progress):
    return progress.phase == "idle"


def check_part(progress):
    assert isinstance(progress, Progress) and progress.phase == "running" and 0 < progress.rows <= ROWS and progress.seconds > 0
    assert progress.rows_per_second == pytest.approx(progress.rows / progress.seconds)
    assert progress.seconds_left == pytest.approx(progress.seconds * (1 - progress.fraction) / progress.fraction)
    assert " rows/s, " in str(progress) and " %, " in str(progress) and str(progress).endswith(" s left")
    assert progress._repr_html_().startswith('<progress value="0.')


def test_another_thread_sees_how_far_a_query_is(slow):
    session = slow.session()
    with running(session, lambda: session.sql(SLOW).fetchall()):
        check_part(told_at_last(session.progress, is_part))
        check_part(told_at_last(slow.progress, is_part))
    for tell in (session.progress, slow.progress):
        over = told_at_last(tell, is_idle)
        assert (over.fraction, over.seconds, over.rows_per_second, over.seconds_left) == (None, None, None, None)


def test_a_result_tells_how_far_its_own_statement_is(slow):
    session, results = slow.session(), []

    def run():
        result = session.sql(SLOW)
        results.append(result)
        result.fetchall()

    with running(session, run):
        check_part(told_at_last(lambda: results[-1].progress() if results else None, is_part))
    whole = session.sql("SELECT max(length(CAST(a AS TEXT))) FROM slow")
    assert whole.progress().phase == "running"
    whole.fetchall()
    over = whole.progress()
    assert (over.phase, over.fraction, over.seconds_left, over.rows) == ("idle", 1.0, 0.0, ROWS) and over.bytes > 0
    assert over.seconds > 0 and over.rows_per_second == pytest.approx(ROWS / over.seconds) and over == whole.progress()
    assert session.sql("CREATE TABLE other (a INT)").progress().fraction == 1.0
    assert session.sql("INSERT INTO other VALUES (1)").progress().phase == "idle"


def test_a_result_tells_nothing_of_the_statements_after_it(slow):
    with slow.session() as session:
        before = session.sql(ENDLESS)
        assert session.sql("SELECT count(*) FROM slow").fetchall() == [(ROWS,)]
        after = before.progress()
        assert after.phase == "running" and not after.rows and after.fraction is None and after.seconds_left is None and after.seconds > 0
        # What was not read to its end has no share.
        before.close()
        closed = before.progress()
        assert closed.phase == "idle" and closed.fraction is None and closed.seconds_left is None and closed == before.progress()


def test_what_has_no_measure_has_a_rate_and_no_time_left(db):
    session = db.session()
    with running(session, lambda: session.sql(ENDLESS).fetchall()):
        told = told_at_last(session.progress, lambda progress: progress.phase == "running")
        assert (told.fraction, told.seconds_left) == (None, None) and told.rows_per_second is not None
        assert "rows/s" in str(told) and "left" not in str(told) and told._repr_html_().startswith("<progress></progress> running: ")


def test_a_database_tells_of_whichever_thread_runs_something(db):
    assert db.progress().phase == "idle"
    stopped, taken = threading.Event(), []

    def rows():
        while not stopped.is_set():
            yield {"a": 1}

    thread = threading.Thread(target=lambda: taken.append(db.ingest("t", rows(), create=True).rows))
    thread.start()
    try:
        told = told_at_last(db.progress, lambda progress: progress.phase == "running" and progress.rows)
        assert told.rows_per_second > 0
    finally:
        stopped.set()
        thread.join()
    assert db.sql("SELECT count(*) FROM t").fetchall() == [(taken[0],)] and taken[0] >= told.rows
    assert told_at_last(db.progress, is_idle).fraction is None
    db.close()
    with pytest.raises(alluvia.InterfaceError, match="closed"):
        db.progress()


def test_a_function_is_told_how_far_it_is(slow):
    session, told = slow.session(), []
    with running(session, lambda: session.sql(SLOW, progress=told.append).fetchall()):
        check_part(told_at_last(lambda: next(filter(is_part, list(told)), None), is_part))
    assert all(progress.phase == "running" and progress.seconds >= 0 for progress in told)
    told.clear()
    session.sql("CREATE TABLE made (digest TEXT)")
    insert = f"INSERT INTO made {SLOW}"
    with running(session, lambda: session.sql(insert, progress=told.append)):
        assert told_at_last(lambda: next(filter(is_part, list(told)), None), is_part).seconds_left > 0


def test_refinements_tell_how_far_they_were(db):
    (only,) = db.refine("SELECT count(*) FROM generate_series(1, 1000) AS s(n)")
    told = only.progress()
    assert (told.phase, told.fraction, told.seconds_left) == ("idle", 1.0, 0.0) and told.seconds == only.elapsed.total_seconds()


@pytest.fixture
def notebook(monkeypatch):
    """Stands for IPython in a notebook: all that its cell has shown, one after the other."""
    shown = []

    class HTML:
        def __init__(self, data):
            self.data = data

    class Handle:
        def update(self, thing):
            shown.append(thing.data)

    def display(thing, display_id=False):
        assert display_id is True, "what is shown can be shown anew"
        shown.append(thing.data)
        return Handle()

    class ZMQInteractiveShell:
        pass

    ipython, module = types.ModuleType("IPython"), types.ModuleType("IPython.display")
    ipython.get_ipython, ipython.display = ZMQInteractiveShell, module
    module.HTML, module.display = HTML, display
    monkeypatch.setitem(sys.modules, "IPython", ipython)
    monkeypatch.setitem(sys.modules, "IPython.display", module)
    return shown


@pytest.fixture
def at_once(monkeypatch):
    monkeypatch.setattr(_progress, "_FIRST_SECONDS", 0)
    monkeypatch.setattr(_progress, "_EACH_SECONDS", 0)


def shows(progress, report):
    """Shows one after the other of what is told, as the engine has it shown."""
    told = iter(report)
    meter = _progress.Meter(lambda: next(told), progress)
    for _ in report:
        meter()
    meter.end()
    meter.end()


def test_a_notebook_shows_a_bar_that_moves_and_goes(notebook, at_once):
    # What the statement before has done is not told of this one.
    shows(True, [Progress("idle", rows=9), QUARTER, QUARTER._replace(fraction=None, seconds_left=None)])
    waits, quarter, rest, end = notebook
    assert waits.startswith("<progress></progress> running: 0.") and "9" not in waits.partition(" s")[2]
    assert quarter == f'<progress value="0.250"></progress> {SAID}'
    assert rest == "<progress></progress> running: 3,000,000 rows, 2.0 s, 1,500,000 rows/s" and end == ""


def test_what_is_made_from_a_notebooks_shell_is_one(notebook, at_once, monkeypatch):
    class Hosted(sys.modules["IPython"].get_ipython):
        pass

    monkeypatch.setattr(sys.modules["IPython"], "get_ipython", Hosted)
    shows(True, [QUARTER])
    assert len(notebook) == 2
    # IPython's own terminal is none.
    monkeypatch.setattr(sys.modules["IPython"], "get_ipython", object)
    shows(True, [QUARTER])
    assert len(notebook) == 2


def test_a_notebook_shows_a_statement_while_it_is_read(slow, notebook):
    session = slow.session()
    with running(session, lambda: session.sql(SLOW, progress=True).fetchall()):
        told_at_last(lambda: list(notebook), lambda shown: any('value="0.' in one and 'value="0.0' not in one for one in shown))
    assert notebook[-1] == ""


def test_a_terminal_shows_one_line_with_a_bar_where_there_is_room(at_once, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", str(len(SAID) + 24))
    shows(True, [QUARTER, Progress("running", seconds=3.0)])
    wide = f"{SAID} [=====               ]"
    short = "running: 3.0 s"
    assert capsys.readouterr().err == f"\r{wide}\r{short.ljust(len(wide))}\r{' ' * len(short)}\r"
    for columns, line in ((len(SAID) + 1, SAID), (20, SAID[:19])):
        monkeypatch.setenv("COLUMNS", str(columns))
        shows(True, [QUARTER])
        assert capsys.readouterr().err == f"\r{line}\r{' ' * len(line)}\r"

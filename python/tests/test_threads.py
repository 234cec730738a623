"""Many threads, a released interpreter, cancelling, Ctrl-C. Nothing here depends on how long things take."""

import os
import signal
import subprocess
import sys
import threading

import alluvia
import pytest

ENDLESS = "SELECT count(*) FROM generate_series(1, 1000000000000) AS s(n) WHERE n % 7 = 3"


def test_many_threads_write_and_read_one_database(db):
    db.sql("CREATE TABLE t (thread INT, n INT)")
    failures = []

    def work(thread):
        try:
            for n in range(20):
                db.ingest("t", [{"thread": thread, "n": n}])
                # Its own writes are seen, whole batches of others too.
                assert db.sql("SELECT count(*) FROM t WHERE thread = ?", [thread]).fetchone() == (n + 1,)
            with db.batch() as batch:
                batch.ingest("t", [{"thread": -thread, "n": n} for n in range(10)])
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(1, 9)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures, failures[0]
    assert db.sql("SELECT count(*) FROM t WHERE thread > 0").fetchone() == (160,)
    assert db.sql("SELECT thread, count(*) FROM t WHERE thread < 0 GROUP BY thread HAVING count(*) <> 10").fetchall() == []


def test_sessions_of_threads_are_their_own(db):
    db.sql("SET batch_size = 7")
    seen = []
    thread = threading.Thread(target=lambda: seen.append(db.sql("SHOW batch_size").fetchone()))
    thread.start()
    thread.join()
    assert seen == [("8192",)] and db.sql("SHOW batch_size").fetchone() == ("7",)


def test_the_interpreter_is_free_while_the_engine_works(db):
    # Another thread must run for the statement to end at all.
    session = db.session()
    running = threading.Event()
    ended = []

    def work():
        running.set()
        try:
            session.sql(ENDLESS).fetchall()
        except alluvia.OperationalError as error:
            ended.append(error.sqlstate)

    thread = threading.Thread(target=work)
    thread.start()
    running.wait()
    while thread.is_alive():
        session.cancel()
        thread.join(0.02)
    assert ended == ["57014"]


def test_closing_ends_what_other_threads_run(tmp_path):
    db = alluvia.open(tmp_path / "db")
    ended = []
    begun = threading.Barrier(4)

    def work(read):
        session = db.session()
        result = session.sql(ENDLESS)
        begun.wait()
        try:
            read(result)
        except alluvia.Error as error:
            ended.append(error)

    reads = [lambda r: r.fetchall(), lambda r: r.fetchone(), lambda r: repr(r)]
    threads = [threading.Thread(target=work, args=(read,)) for read in reads]
    for thread in threads:
        thread.start()
    begun.wait()
    db.close()
    for thread in threads:
        thread.join()
    assert len(ended) == 3
    alluvia.open(tmp_path / "db").close()


def test_one_thread_reads_a_result(db):
    session = db.session()
    result = session.sql(ENDLESS)
    begun = threading.Event()

    def work():
        begun.set()
        with pytest.raises(alluvia.Error):
            result.fetchall()

    thread = threading.Thread(target=work)
    thread.start()
    begun.wait()
    while thread.is_alive():
        try:
            result.close()
            result.fetchone()
        except alluvia.InterfaceError:
            pass
        session.cancel()
        thread.join(0.02)


INTERRUPTED = """
import os, signal, sys, threading, alluvia
db = alluvia.open(sys.argv[1])
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
interrupted(lambda: repr(db.sql(endless)))
interrupted(lambda: db.sql("INSERT INTO t SELECT n % 7 FROM generate_series(1, 1000000000000) AS s(n)"))
interrupted(lambda: db.ingest("t", dicts()))
assert db.sql("SELECT count(*) FROM t").fetchone() == (0,), "nothing is half applied"
assert db.ingest("t", [{"a": 1}]).rows == 1
db.close()
print("well")
"""


def test_ctrl_c_stops_a_statement_and_nothing_else(tmp_path):
    done = subprocess.run([sys.executable, "-c", INTERRUPTED, str(tmp_path / "db")], capture_output=True, text=True, timeout=300)
    assert done.stdout == "well\n", done.stderr


def test_a_killed_process_loses_nothing_that_was_acknowledged(tmp_path):
    program = """
import sys, alluvia
db = alluvia.open(sys.argv[1])
db.sql("CREATE TABLE t (a INT)")
a = 0
while True:
    db.ingest("t", [{"a": a}, {"a": a}])
    print(a, flush=True)
    a += 1
"""
    with subprocess.Popen([sys.executable, "-c", program, str(tmp_path / "db")], stdout=subprocess.PIPE, text=True) as child:
        acknowledged = -1
        for line in child.stdout:
            acknowledged = int(line)
            if acknowledged >= 50:
                os.kill(child.pid, signal.SIGKILL)
                break
        rest = child.stdout.read().split()
        acknowledged = int(rest[-1]) if rest else acknowledged
    with alluvia.open(tmp_path / "db") as db:
        counts = dict(db.sql("SELECT a, count(*) FROM t GROUP BY a").fetchall())
        assert set(counts) >= set(range(acknowledged + 1)) and set(counts.values()) == {2}


def test_progress(db):
    seen = []
    db.ingest("t", ({"a": at} for at in range(300_000)), create=True, progress=seen.append)
    result = db.sql("INSERT INTO t SELECT a FROM t", progress=seen.append)
    assert result.tag == "INSERT 0 300000"
    assert all(isinstance(progress, alluvia.Progress) and progress.seconds >= 0 for progress in seen)
    with db.session() as session:
        session.ingest("t", [{"a": 1}] * 1_000)
        assert session.progress().rows == 1_000

    def failing(progress):
        raise RuntimeError("the display")

    with pytest.raises(RuntimeError, match="the display"):
        db.sql(ENDLESS, progress=failing).fetchall()
    assert db.sql("SELECT 1").fetchone() == (1,)


def test_progress_in_a_terminal(db, capsys):
    with db.session() as session:
        def work():
            with pytest.raises(alluvia.OperationalError):
                session.sql(ENDLESS, progress=True).fetchall()

        thread = threading.Thread(target=work)
        thread.start()
        said = ""
        while "rows/s" not in said:
            thread.join(0.05)
            said += capsys.readouterr().err
        while thread.is_alive():
            session.cancel()
            thread.join(0.02)
    assert "\rrunning: " in said

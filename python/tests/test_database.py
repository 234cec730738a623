"""Opening, closing, sessions, batches."""

import os
import subprocess
import sys

import alluvia
import pytest


def test_what_was_acknowledged_is_there_after_opening_again(tmp_path):
    with alluvia.open(tmp_path / "db") as db:
        db.ingest("t", [{"a": 1}], create=True)
        unread = db.sql("SELECT * FROM t")
        session = db.session()
        session.sql("BEGIN")
        session.sql("INSERT INTO t VALUES (2)")
    # Closing ended the unread result and the open transaction, and released the directory.
    with alluvia.open(tmp_path / "db") as db:
        assert db.sql("SELECT a FROM t").fetchall() == [(1,)]
    with pytest.raises(alluvia.InterfaceError):
        unread.fetchall()


def test_a_directory_is_open_once(tmp_path):
    with alluvia.open(tmp_path / "db"):
        with pytest.raises(alluvia.OperationalError, match="open in another") as caught:
            alluvia.open(tmp_path / "db")
        assert caught.value.sqlstate == "55006"
    alluvia.open(tmp_path / "db").close()


def test_a_database_that_nobody_holds_is_closed(tmp_path):
    db = alluvia.open(tmp_path / "db")
    result = db.sql("SELECT 1")
    del db
    assert result.fetchone() == (1,)
    del result
    alluvia.open(tmp_path / "db").close()


def test_foreign_directories_and_wrong_options_are_refused(tmp_path):
    (tmp_path / "letter.txt").write_text("Dear")
    with pytest.raises(alluvia.Error, match="letter.txt"):
        alluvia.open(tmp_path)
    for options in ({"memory_limit": "lots"}, {"memory_limit": "1KB"}, {"threads": 0}, {"settings": {"freshness": "soon"}}, {"settings": {"no name": 1}}):
        with pytest.raises(alluvia.Error):
            alluvia.open(tmp_path / "db", **options)
    alluvia.open(tmp_path / "db", memory_limit=1 << 30, threads=1, spill_limit="1GB").close()


def test_settings_hold_for_every_session(tmp_path):
    with alluvia.open(tmp_path / "db", settings={"freshness": "5s", "batch_size": 100}) as db:
        assert db.sql("SHOW freshness").fetchone() == ("5s",)
        with db.session() as session:
            assert session.sql("SHOW batch_size").fetchone() == ("100",)
            session.sql("SET batch_size = 7")
        assert db.sql("SHOW batch_size").fetchone() == ("100",)


def test_a_batch_is_one_version(db):
    db.sql("CREATE TABLE a (x INT); CREATE TABLE b (y TEXT)")
    before = db.sql("SELECT max(version) FROM alluvia.batches").fetchone()[0]
    with db.batch() as batch:
        assert batch.ingest("a", [{"x": 1}, {"x": 2}]) == (2, None)
        batch.sql("INSERT INTO b VALUES (?)", ["one"])
        assert batch.sql("SELECT count(*) FROM a").fetchone() == (2,)
        assert db.sql("SELECT count(*) FROM a").fetchone() == (0,)
    assert db.sql("SELECT max(version) FROM alluvia.batches").fetchone()[0] == before + 1
    assert db.sql("SELECT (SELECT count(*) FROM a), (SELECT count(*) FROM b)").fetchone() == (2, 1)


def test_a_batch_that_fails_leaves_nothing(db):
    db.sql("CREATE TABLE a (x INT)")
    with pytest.raises(KeyError):
        with db.batch() as batch:
            batch.ingest("a", [{"x": 1}])
            raise KeyError
    with pytest.raises(alluvia.DataError):
        with db.batch() as batch:
            batch.ingest("a", [{"x": 1}])
            batch.ingest("a", [{"x": "one"}])
    with pytest.raises(alluvia.ProgrammingError, match="rolled back") as caught:
        with db.batch() as batch:
            batch.ingest("a", [{"x": 1}])
            try:
                batch.ingest("a", [{"x": "one"}])
            except alluvia.DataError:
                pass
    assert caught.value.sqlstate == "25P02"
    assert db.sql("SELECT count(*) FROM a").fetchone() == (0,)


def test_a_failed_transaction_takes_no_rows(db):
    db.sql("CREATE TABLE a (x INT)")
    db.sql("BEGIN")
    with pytest.raises(alluvia.DataError):
        db.sql("SELECT 1 / 0").fetchall()
    with pytest.raises(alluvia.ProgrammingError, match="ROLLBACK"):
        db.ingest("a", [{"x": 1}])
    db.sql("ROLLBACK")
    assert db.ingest("a", [{"x": 1}]).rows == 1


def test_a_forked_process_is_told_and_harms_nothing(tmp_path):
    program = """
import os, sys, alluvia
db = alluvia.open(sys.argv[1])
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
    del db, unread
    sys.exit(0)
assert os.waitpid(child, 0)[1] == 0, "the child"
db.ingest("t", [{"a": 2}])
assert unread.fetchall() == [(1,)] and db.sql("SELECT count(*) FROM t").fetchone() == (2,)
"""
    subprocess.run([sys.executable, "-W", "ignore", "-c", program, str(tmp_path / "db")], check=True, timeout=120)
    with alluvia.open(tmp_path / "db") as db:
        assert db.sql("SELECT count(*) FROM t").fetchone() == (2,)


def test_a_process_that_ends_without_closing_ends(tmp_path):
    program = """
import sys, threading, alluvia
db = alluvia.open(sys.argv[1], settings={"durability": "relaxed"})
db.ingest("t", [{"a": 1}], create=True)
unread = db.sql("SELECT * FROM generate_series(1, 100000000)")
unread.fetchone()
threading.Thread(target=lambda: db.sql("SELECT count(*) FROM generate_series(1, 100000000000)").fetchall(), daemon=True).start()
"""
    subprocess.run([sys.executable, "-c", program, str(tmp_path / "db")], check=True, timeout=120, stderr=subprocess.DEVNULL)
    with alluvia.open(tmp_path / "db") as db:
        assert db.sql("SELECT a FROM t").fetchall() == [(1,)]


def test_names_of_the_package():
    assert alluvia.__version__.count(".") == 2
    assert all(hasattr(alluvia, name) for name in alluvia.__all__)
    assert os.path.exists(os.path.join(os.path.dirname(alluvia.__file__), "py.typed"))

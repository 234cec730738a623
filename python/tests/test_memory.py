"""What is used many times is given back."""

import gc
import os
import weakref

import alluvia
import pyarrow as pa

BYTES_MAX = 48 << 20


def resident_bytes():
    gc.collect()
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def grows(work, times):
    """Bytes that `times` runs add to what some runs before have taken."""
    for _ in range(times // 4):
        work()
    before = resident_bytes()
    for _ in range(times):
        work()
    return resident_bytes() - before


def test_many_results(db):
    text = "x" * 100
    db.ingest("t", [{"a": at, "b": text} for at in range(2_000)], create=True)
    query = "SELECT a, b || a AS c FROM t"

    def work():
        # Each run handles about a megabyte: a leak of a fifth of it shows.
        assert len(db.sql(query).fetchall()) == 2_000
        assert db.sql(query).arrow().num_rows == 2_000
        unread = db.sql(query)
        unread.fetchone()
        reader = db.sql(query).batches()
        reader.read_next_batch()

    assert grows(work, 250) < BYTES_MAX


def test_a_thousand_ingests_errors_and_sessions(db):
    db.sql("CREATE TABLE t (a INT, b TEXT)")
    table = pa.table({"a": pa.array([1] * 500, pa.int32()), "b": ["x" * 100] * 500})
    wrong = pa.table({"a": ["x"] * 500})

    def work():
        db.sql("BEGIN")
        db.ingest("t", table)
        db.ingest("t", [{"a": 1, "b": "x" * 1_000}] * 50)
        db.sql("ROLLBACK")
        try:
            db.ingest("t", wrong)
        except alluvia.DataError:
            pass
        with db.session() as session:
            session.sql("SELECT ?", [b"x" * 10_000]).fetchone()

    assert grows(work, 1_000) < BYTES_MAX


def test_databases_are_given_back(tmp_path):
    def work():
        db = alluvia.open(tmp_path / "db", memory_limit="256MB", threads=1)
        db.sql("SELECT 1").fetchone()
        db.close()
        return weakref.ref(db)

    assert grows(work, 40) < BYTES_MAX
    assert work()() is None

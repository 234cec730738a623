"""DB-API 2.0 (PEP 249)."""

import datetime
import decimal

import alluvia
import pytest
from alluvia import dbapi


@pytest.fixture
def connection(db):
    connection = dbapi.connect(db)
    yield connection
    connection.close()


def test_the_module():
    assert (dbapi.apilevel, dbapi.threadsafety, dbapi.paramstyle) == ("2.0", 2, "qmark")
    assert all(getattr(dbapi, name) is not None for name in dbapi.__all__) and alluvia.dbapi is dbapi
    for name in ("InterfaceError", "DatabaseError"):
        assert issubclass(getattr(alluvia, name), alluvia.Error)
    for name in ("DataError", "OperationalError", "IntegrityError", "InternalError", "ProgrammingError", "NotSupportedError"):
        assert issubclass(getattr(alluvia, name), alluvia.DatabaseError) and getattr(dbapi.Connection, name) is getattr(alluvia, name) is getattr(dbapi, name)
    assert issubclass(alluvia.Error, Exception) and issubclass(alluvia.Warning, Exception)
    assert dbapi.Date(2026, 11, 21) == datetime.date(2026, 11, 21) and dbapi.Binary(b"x") == b"x"
    assert isinstance(dbapi.TimestampFromTicks(0), datetime.datetime) and isinstance(dbapi.DateFromTicks(0), datetime.date)
    assert isinstance(dbapi.TimeFromTicks(0), datetime.time)


def test_a_cursor(connection):
    cursor = connection.cursor()
    assert cursor.description is None and cursor.rowcount == -1
    cursor.execute("CREATE TABLE t (id INT, name TEXT, price DECIMAL(10, 2), at TIMESTAMP, raw BYTEA)")
    assert cursor.description is None
    at = datetime.datetime(2026, 11, 21)
    cursor.execute("INSERT INTO t VALUES (?, ?, ?, ?, ?)", (1, "one", decimal.Decimal("1.50"), at, b"x"))
    assert cursor.rowcount == 1
    cursor.executemany("INSERT INTO t (id, name) VALUES (?, ?)", [(n, str(n)) for n in range(2, 100)])
    assert cursor.rowcount == 98
    cursor.execute("SELECT * FROM t ORDER BY id")
    names, types, *_ = zip(*cursor.description)
    assert names == ("id", "name", "price", "at", "raw")
    assert types == (dbapi.NUMBER, dbapi.STRING, dbapi.NUMBER, dbapi.DATETIME, dbapi.BINARY)
    assert types[0] != dbapi.STRING and cursor.description[2][4:6] == (10, 2)
    assert cursor.fetchone() == (1, "one", decimal.Decimal("1.50"), at, b"x")
    assert [row[0] for row in cursor.fetchmany(3)] == [2, 3, 4] and cursor.fetchmany()[0][0] == 5
    assert [row[0] for row in cursor.fetchall()] == list(range(6, 100))
    assert cursor.fetchall() == [] and cursor.fetchone() is None and cursor.fetchmany(5) == []
    assert [row[0] for row in cursor.execute("SELECT id FROM t WHERE id < 4 ORDER BY id")] == [1, 2, 3]
    assert cursor.execute("SELECT count(*) AS n FROM t").arrow().to_pylist() == [{"n": 99}]
    cursor.close()
    with pytest.raises(alluvia.InterfaceError, match="the cursor is closed"):
        cursor.execute("SELECT 1")


def test_transactions(db, connection):
    count = lambda: db.sql("SELECT count(*) FROM t").fetchone()[0]
    connection.execute("CREATE TABLE t (a INT)")
    connection.execute("INSERT INTO t VALUES (1)")
    connection.execute("-- a comment\n insert into t values (2)")
    assert count() == 0 and connection.execute("SELECT count(*) FROM t").fetchone() == (2,)
    connection.commit()
    assert count() == 2
    connection.execute("INSERT INTO t VALUES (3)")
    connection.rollback()
    connection.rollback()
    connection.commit()
    assert count() == 2
    with connection:
        connection.execute("INSERT INTO t VALUES (4)")
    with pytest.raises(KeyError), connection:
        connection.execute("INSERT INTO t VALUES (5)")
        raise KeyError
    assert count() == 3
    with pytest.raises(alluvia.DataError):
        connection.cursor().executemany("INSERT INTO t VALUES (?)", [(6,), ("x",)])
    assert count() == 3
    connection.execute("INSERT INTO t VALUES (7)")
    with pytest.raises(alluvia.DataError):
        connection.execute("INSERT INTO t VALUES ('x')")
    with pytest.raises(alluvia.ProgrammingError, match="rolled back"):
        connection.commit()
    assert count() == 3
    connection.execute("INSERT INTO t VALUES (8)")
    connection.close()
    assert count() == 3


def test_updates_and_deletes_wait_for_commit(db):
    connection = dbapi.connect(db)
    connection.execute("CREATE TABLE kept (id INT, n INT)")
    connection.execute("INSERT INTO kept VALUES (1, 1), (2, 2)")
    connection.commit()
    connection.execute("UPDATE kept SET n = 7 WHERE id = 1")
    connection.execute("WITH gone AS (SELECT 2 AS id) DELETE FROM kept WHERE id IN (SELECT id FROM gone)")
    assert connection.execute("SELECT id, n FROM kept").fetchall() == [(1, 7)]
    connection.rollback()
    assert db.sql("SELECT id, n FROM kept ORDER BY id").fetchall() == [(1, 1), (2, 2)]


def test_many_upserts_see_each_other(connection):
    connection.execute("CREATE TABLE counts (id INT PRIMARY KEY, n INT)")
    cursor = connection.cursor()
    upsert = "INSERT INTO counts VALUES (?, 1) ON CONFLICT (id) DO UPDATE SET n = counts.n + 1"
    cursor.executemany(upsert, [(1,), (2,), (1,)])
    assert cursor.rowcount == 3
    assert cursor.execute("SELECT n FROM counts ORDER BY id").fetchall() == [(2,), (1,)]


def test_autocommit(db):
    connection = dbapi.connect(db, autocommit=True)
    connection.execute("CREATE TABLE t (a INT)")
    connection.execute("INSERT INTO t VALUES (1)")
    connection.cursor().executemany("INSERT INTO t VALUES (?)", [(2,), (3,)])
    assert db.sql("SELECT count(*) FROM t").fetchone() == (3,)
    assert db.sql("SELECT count(*) FROM alluvia.batches WHERE rows > 0").fetchone() == (2,)


def test_a_connection_that_opened_its_database_closes_it(tmp_path):
    connection = dbapi.connect(tmp_path / "db", threads=1)
    assert connection.execute("SELECT 1").fetchall() == [(1,)]
    connection.close()
    connection.close()
    with pytest.raises(alluvia.InterfaceError, match="the connection is closed"):
        connection.cursor()
    alluvia.open(tmp_path / "db").close()


def test_wrong_uses(connection):
    with pytest.raises(alluvia.ProgrammingError, match="no rows"):
        connection.cursor().fetchall()
    with pytest.raises(alluvia.NotSupportedError, match="no scheme") as caught:
        dbapi.connect("postgresql://localhost:5432/alluvia")
    assert "psycopg" in caught.value.hint


def test_pandas_reads_through_it(db, connection):
    import pandas

    db.ingest("t", [{"a": 1, "b": "x"}, {"a": 2, "b": "y"}], create=True)
    with pytest.warns(UserWarning, match="SQLAlchemy"):
        frame = pandas.read_sql("SELECT * FROM t WHERE a > ? ORDER BY a", connection, params=(0,))
    assert frame["b"].tolist() == ["x", "y"]

"""The server with its clients' own tools: psycopg 3, asyncpg, SQLAlchemy, pandas, psql.

Usage: wire.py PATH_TO_ALLUVIA
"""

import asyncio
import datetime
import decimal
import os
import pathlib
import pty
import shutil
import subprocess
import sys
import tempfile
import threading
from contextlib import contextmanager

import asyncpg
import pandas
import psycopg
import serving
import sqlalchemy
from psycopg import sql
from serving import check
from sqlalchemy.ext.asyncio import create_async_engine


@contextmanager
def served(binary, data, *settings):
    """A server on a free port; gives the port and what it said first."""
    with serving.server(binary, data, "off", *settings) as said:
        port = int(said[-1].split(" -p ")[1].split()[0])
        yield port, "".join(said)


ROW = (
    1, 2**40, "it's ä\n\t\\", 1.5, decimal.Decimal("12.34"), True, datetime.date(2026, 11, 21),
    datetime.datetime(2026, 11, 21, 10, 11, 12, 345678),
    datetime.datetime(2026, 11, 21, 10, 11, 12, tzinfo=datetime.timezone.utc), b"\x00\xff",
)
TABLE = "(a INT, b BIGINT, c TEXT, d DOUBLE, e DECIMAL(12, 2), f BOOLEAN, g DATE, h TIMESTAMP, i TIMESTAMPTZ, j BYTEA)"


def with_psycopg(port):
    target = f"host=127.0.0.1 port={port} user=alluvia dbname=alluvia"
    with psycopg.connect(target, autocommit=True) as connection:
        connection.execute(f"CREATE TABLE p {TABLE}")
        places = ", ".join(["%s"] * len(ROW))
        connection.execute(f"INSERT INTO p VALUES ({places})", ROW)
        connection.execute(f"INSERT INTO p VALUES ({places})", (None,) * len(ROW))
        for binary in (False, True):
            with connection.cursor(binary=binary) as cursor:
                cursor.execute("SELECT * FROM p WHERE a = %s", (1,))
                check(cursor.fetchall(), [ROW], f"psycopg, binary={binary}")
                for column, value in zip("abcdefghij", ROW):
                    cursor.execute(sql.SQL("SELECT count(*) FROM p WHERE {} = %s").format(sql.Identifier(column)), (value,))
                    check(cursor.fetchone(), (1,), f"psycopg, column {column}, binary={binary}")
                cursor.execute("SELECT * FROM p WHERE a IS NULL", prepare=True)
                check(cursor.fetchall(), [(None,) * len(ROW)], "psycopg, NULLs")
                cursor.execute("SELECT count(*) FROM p WHERE a = ANY(%s)", ([1, 5],))
                check(cursor.fetchone(), (1,), "psycopg, ANY")
        lists = [("a", [1, 5]), ("b", [2**40]), ("c", ["x", "it's ä\n\t\\"]), ("d", [1.5, 2.5]), ("e", [decimal.Decimal("12.340")]),
                 ("f", [True]), ("g", [datetime.date(2026, 11, 21)]), ("h", [ROW[7]])]
        for binary in (False, True):
            for column, values in lists:
                with connection.cursor(binary=binary) as cursor:
                    for prepare in (False, True):
                        any_of = sql.SQL("SELECT count(*) FROM p WHERE {} = ANY(%s)").format(sql.Identifier(column))
                        cursor.execute(any_of, (values,), prepare=prepare, binary=binary)
                        check(cursor.fetchone(), (1,), f"psycopg, ANY of column {column}, binary={binary}")
            with connection.cursor(binary=binary) as cursor:
                cursor.execute("SELECT %s::int[], %s::text[], %s::float8[], array_agg(a ORDER BY a) FROM p", ([1, None], ['a,"', ""], [0.5]))
                check(cursor.fetchone(), ([1, None], ['a,"', ""], [0.5], [1, None]), f"psycopg, lists, binary={binary}")
                cursor.execute("SELECT [[1,2],[3,4]]")
                check(cursor.fetchone(), ([[1, 2], [3, 4]],), f"psycopg, lists of lists, binary={binary}")
        connection.execute("CREATE TABLE n (a INT, b TEXT)")
        with connection.transaction():
            connection.execute("INSERT INTO n VALUES (-1, 'outer')")
            try:
                with connection.transaction():
                    connection.execute("INSERT INTO n VALUES (-2, 'inner')")
                    connection.execute("SELECT nothing")
            except psycopg.errors.UndefinedColumn:
                pass
            with connection.transaction("named"):
                connection.execute("INSERT INTO n VALUES (-3, 'kept')")
        check(connection.execute("SELECT a FROM n ORDER BY a").fetchall(), [(-3,), (-1,)], "psycopg, savepoints")
        connection.execute("DROP TABLE n")
        connection.execute("CREATE TABLE n (a INT, b TEXT)")
        with connection.cursor() as cursor:
            cursor.executemany("INSERT INTO n VALUES (%s, %s)", [(at, f"row {at}") for at in range(1000)])
            check(cursor.rowcount, 1000, "psycopg, executemany")
        with connection.pipeline():
            first = connection.execute("SELECT count(*) FROM n")
            second = connection.execute("SELECT max(a) FROM n")
            check((first.fetchone(), second.fetchone()), ((1000,), (999,)), "psycopg, pipeline")
        with connection.transaction():
            with connection.cursor(name="some") as cursor:
                cursor.itersize = 100
                cursor.execute("SELECT a FROM n ORDER BY a")
                check([row[0] for row in cursor], list(range(1000)), "psycopg, a cursor of the server")
        try:
            with connection.transaction():
                connection.execute("INSERT INTO n VALUES (1, 'x')")
                connection.execute("SELECT 1/0")
        except psycopg.errors.DivisionByZero:
            pass
        check(connection.execute("SELECT count(*) FROM n").fetchone(), (1000,), "psycopg, a transaction that fails")
        for format in ("text", "binary"):
            with connection.cursor() as cursor:
                with cursor.copy(f"COPY n FROM STDIN (FORMAT {format})") as copy:
                    if format == "binary":
                        copy.set_types(["int4", "text"])
                    for at in range(100):
                        copy.write_row((at, None if at % 10 == 0 else f"\\copied\t{at}\n"))
                check(cursor.rowcount, 100, f"psycopg, COPY in, {format}")
                with cursor.copy(f"COPY (SELECT a, b FROM n WHERE a < 3 ORDER BY a, b) TO STDOUT (FORMAT {format})") as copy:
                    copy.set_types(["int4", "text"])
                    rows = list(copy.rows())
            check(rows[0][0], 0, f"psycopg, COPY out, {format}")
            check(("\\copied\t1\n" in {row[1] for row in rows}), True, f"psycopg, texts of COPY, {format}")
        try:
            with connection.cursor().copy("COPY n FROM STDIN") as copy:
                copy.write("1\tx\nfour\ty\n")
        except psycopg.Error as error:
            check("line 2, column a: 'four'" in str(error), True, "psycopg, a bad row")
        notices = []
        connection.add_notice_handler(lambda notice: notices.append(notice.message_primary))
        connection.execute("SELECT count(*) FROM n WHERE b = 'row 5'").fetchall()
        check(notices, [], "psycopg, what a query used is not told unless it is asked for")
        connection.execute("SET report = 'notice'")
        connection.execute("SELECT count(*) FROM n WHERE b = 'row 5'").fetchall()
        connection.execute("RESET report")
        check(any("version" in notice and "stage" in notice for notice in notices), True, "psycopg, what a query used")
        for place in ("%t", "%b"):
            try:
                connection.execute(f"SELECT {place}", (decimal.Decimal("1234567890123456789012345678901234567890.5"),))
                raise AssertionError("a number of more digits than a DECIMAL has was taken")
            except psycopg.errors.NumericValueOutOfRange as error:
                check("more digits" in str(error), True, f"psycopg, too many digits as {place}")
        connection.read_only = True
        with connection.transaction():
            check(connection.execute("SHOW transaction_read_only").fetchone(), ("on",), "psycopg, read_only")
            check(connection.execute("SELECT count(*) FROM n").fetchone()[0] > 0, True, "psycopg, reads of read_only")
        try:
            with connection.transaction():
                connection.execute("INSERT INTO n VALUES (1, 'x')")
            check("refused", "taken", "psycopg, writes of read_only")
        except psycopg.errors.ReadOnlySqlTransaction:
            pass
        connection.read_only = None
        check(connection.info.server_version // 10000, 16, "psycopg, server_version")
        check(connection.info.parameter_status("TimeZone"), "UTC", "psycopg, TimeZone")


async def with_asyncpg(port):
    connection = await asyncpg.connect(host="127.0.0.1", port=port, user="alluvia", database="alluvia")
    await connection.execute(f"CREATE TABLE y {TABLE}")
    places = ", ".join(f"${at + 1}" for at in range(len(ROW)))
    await connection.execute(f"INSERT INTO y VALUES ({places})", *ROW)
    check(tuple(await connection.fetchrow("SELECT * FROM y WHERE a = $1 AND b > $2", 1, 5)), ROW, "asyncpg, a row")
    for condition, values in [
        ("a = ANY($1::int[])", [1, 5]), ("a = ANY($1)", [1, 5]), ("b = ANY($1::bigint[])", [2**40]), ("c = ANY($1)", [ROW[2], "x"]),
        ("d = ANY($1::float8[])", [1.5]), ("e = ANY($1)", [ROW[4]]), ("f = ANY($1)", [True]), ("g = ANY($1)", [ROW[6]]),
        ("h = ANY($1::timestamp[])", [ROW[7]]), ("i = ANY($1)", [ROW[8]]), ("a <> ALL($1)", [5]),
    ]:
        check(await connection.fetchval(f"SELECT count(*) FROM y WHERE {condition}", values), 1, f"asyncpg, {condition}")
    lists = await connection.fetchrow("SELECT $1::int[], $2::text[], $3::float8[], array_agg(b) FROM y", [1, None], ['a,"', ""], [])
    check(tuple(lists), ([1, None], ['a,"', ""], [], [2**40]), "asyncpg, lists")
    check(await connection.fetchval("SELECT [[1,2],[3,4]]"), [[1, 2], [3, 4]], "asyncpg, lists of lists")
    try:
        await connection.fetchval("SELECT [[1,2],[3]]")
        raise AssertionError("asyncpg, a list of lists without a binary form")
    except asyncpg.FeatureNotSupportedError:
        pass
    await connection.execute("INSERT INTO y (a, c) SELECT * FROM unnest($1::int[], $2::text[])", [-1, -2], ["p", None])
    check(await connection.fetchval("SELECT count(*) FROM y WHERE a < 0"), 2, "asyncpg, unnest")
    async with connection.transaction():
        await connection.execute("INSERT INTO y (a) VALUES (-3)")
        try:
            async with connection.transaction():
                await connection.execute("INSERT INTO y (a) VALUES (-4)")
                await connection.execute("SELECT nothing")
        except asyncpg.UndefinedColumnError:
            pass
    check(await connection.fetchval("SELECT array_agg(a ORDER BY a) FROM y WHERE a < -2"), [-3], "asyncpg, savepoints")
    oids = await connection.fetch("SELECT oid, typname FROM pg_type WHERE oid = ANY($1::oid[]) ORDER BY oid", [23, 25])
    check([tuple(row) for row in oids], [(23, "int4"), (25, "text")], "asyncpg, the catalog")
    await connection.execute("DROP TABLE y")
    await connection.execute(f"CREATE TABLE y {TABLE}")
    await connection.execute(f"INSERT INTO y VALUES ({places})", *ROW)
    await connection.executemany(f"INSERT INTO y (a, c) VALUES ($1, $2)", [(at, str(at)) for at in range(2, 502)])
    check(await connection.fetchval("SELECT count(*) FROM y"), 501, "asyncpg, executemany")
    async with connection.transaction():
        seen = [row["a"] async for row in connection.cursor("SELECT a FROM y ORDER BY a", prefetch=50)]
    check(seen, list(range(1, 502)), "asyncpg, a cursor")
    try:
        async with connection.transaction():
            await connection.execute("INSERT INTO y (a) VALUES (7)")
            await connection.execute("INSERT INTO y (a) VALUES ($1)", "seven")
    except asyncpg.DataError:
        pass
    check(await connection.fetchval("SELECT count(*) FROM y"), 501, "asyncpg, a transaction that fails")
    try:
        async with connection.transaction(readonly=True):
            check(await connection.fetchval("SELECT count(*) FROM y"), 501, "asyncpg, reads of readonly")
            await connection.execute("INSERT INTO y (a) VALUES (7)")
        check("refused", "taken", "asyncpg, writes of readonly")
    except asyncpg.ReadOnlySQLTransactionError:
        pass
    tag = await connection.copy_records_to_table("y", columns=["a", "c"], records=[(at, "r") for at in range(1000)])
    check(tag, "COPY 1000", "asyncpg, COPY in")
    statement = await connection.prepare("SELECT c, count(*) FROM y WHERE a = $1 GROUP BY c")
    check([parameter.name for parameter in statement.get_parameters()], ["int4"], "asyncpg, parameters")
    check([column.type.name for column in statement.get_attributes()], ["text", "int8"], "asyncpg, columns")
    try:
        await asyncio.wait_for(connection.fetch("SELECT count(*) FROM generate_series(1, 1000000000000)"), 0.3)
    except (asyncio.TimeoutError, asyncpg.QueryCanceledError):
        pass
    check(await connection.fetchval("SELECT 5"), 5, "asyncpg, after a cancel")
    for query, values, expected in [
        ("SELECT $1::numeric + 1", (decimal.Decimal("1.5"),), decimal.Decimal("2.5")),
        ("SELECT left(c, $1) FROM y WHERE a = $2 LIMIT $3", (1, 2, 1), "2"),
        ("SELECT coalesce(max(a), $1) FROM y WHERE a = $2", (7, -1), 7),
        ("SELECT count(*) FROM generate_series(1, $1)", (5,), 5),
        ("SELECT sum(a * length(b)) FROM unnest($1::int[], $2::text[]) AS t(a, b)", ([1, 2], ["x", "yz"]), 5),
    ]:
        check(await connection.fetchval(query, *values), expected, f"asyncpg, {query}")
    await connection.close()
    async with asyncpg.create_pool(host="127.0.0.1", port=port, user="alluvia", database="alluvia", min_size=2, max_size=2) as pool:
        await pool.execute("CREATE TABLE pooled (a INT)")
        await pool.execute("INSERT INTO pooled VALUES (1)")
        for _ in range(5):
            async with pool.acquire() as one, pool.acquire() as other:
                check([tuple(row) for row in await one.fetch("SELECT * FROM pooled")], [(1,)], "asyncpg, a pool")
                check(await other.fetchval("SELECT count(*) FROM pooled"), 1, "asyncpg, another of a pool")
        async with pool.acquire() as one, pool.acquire() as other:
            await one.fetch("SELECT * FROM pooled")
            await other.execute("ALTER TABLE pooled ADD COLUMN b TEXT")
            check([tuple(row) for row in await one.fetch("SELECT * FROM pooled")], [(1, None)], "asyncpg, a statement after ALTER TABLE")
        await pool.execute("DROP TABLE pooled")


async def with_asyncpg_reflection(port):
    engine = create_async_engine(f"postgresql+asyncpg://alluvia@127.0.0.1:{port}/alluvia")
    metadata = sqlalchemy.MetaData()
    async with engine.connect() as connection:
        await connection.run_sync(metadata.reflect)
    columns = [(column.name, str(column.type)) for column in metadata.tables["s"].columns]
    check(columns, [("a", "INTEGER"), ("b", "TEXT"), ("c", "NUMERIC(10, 2)")], "SQLAlchemy over asyncpg, reflection")
    await engine.dispose()


def with_transactions(port):
    """psycopg as it is unless it is told otherwise: it begins transactions by itself."""
    target = f"host=127.0.0.1 port={port} user=alluvia dbname=alluvia"
    with psycopg.connect(target) as connection, psycopg.connect(target, autocommit=True) as other:
        def seen():
            return other.execute("SELECT count(*) FROM pg_class WHERE relname = 'w'").fetchone()[0]

        def write():
            connection.execute("CREATE TABLE w (a INT, b TEXT)")
            with connection.cursor().copy("COPY w FROM STDIN") as copy:
                copy.write_row((1, "one"))
                copy.write_row((2, None))
            connection.execute("INSERT INTO w VALUES (%s, %s)", (3, "three"))
            check(connection.execute("SELECT count(*), sum(a) FROM w").fetchone(), (3, 6), "psycopg, its own table before COMMIT")
            check(seen(), 0, "psycopg, another's table before its COMMIT")

        write()
        connection.rollback()
        check(seen(), 0, "psycopg, a table after ROLLBACK")
        write()
        try:
            with connection.transaction():
                connection.execute("ALTER TABLE w ADD COLUMN c INT")
                connection.execute("INSERT INTO w VALUES (4, 'four', 4)")
                connection.execute("SELECT 1 / 0")
        except psycopg.errors.DivisionByZero:
            pass
        with connection.cursor().copy("COPY w TO STDOUT") as copy:
            check(len(list(copy.rows())), 3, "psycopg, COPY out of a transaction after a savepoint")
        connection.commit()
        check(other.execute("SELECT count(*), sum(a) FROM w").fetchone(), (3, 6), "psycopg, a table after COMMIT")
        connection.execute("DROP TABLE w")
        connection.commit()
        check(seen(), 0, "psycopg, a table that was dropped")


def with_sqlalchemy(port):
    engine = sqlalchemy.create_engine(f"postgresql+psycopg://alluvia@127.0.0.1:{port}/alluvia")
    metadata = sqlalchemy.MetaData()
    table = sqlalchemy.Table(
        "s", metadata,
        sqlalchemy.Column("a", sqlalchemy.Integer, nullable=False),
        sqlalchemy.Column("b", sqlalchemy.Text),
        sqlalchemy.Column("c", sqlalchemy.Numeric(10, 2)),
    )
    metadata.create_all(engine)
    with engine.connect() as connection:
        check(sqlalchemy.inspect(connection).has_table("s"), True, "SQLAlchemy, has_table")
    with engine.begin() as connection:
        other = sqlalchemy.Table("other", sqlalchemy.MetaData(), sqlalchemy.Column("x", sqlalchemy.Integer))
        other.create(connection)
        connection.execute(other.insert(), [{"x": 1}, {"x": 2}])
        check(sqlalchemy.inspect(connection).has_table("other"), True, "SQLAlchemy, has_table before COMMIT")
        found = connection.execute(sqlalchemy.select(sqlalchemy.func.sum(other.c.x)))
        check(found.scalar(), 3, "SQLAlchemy, a table and its rows in one transaction")
        other.drop(connection)
    check(sqlalchemy.inspect(engine).has_table("other"), False, "SQLAlchemy, a table that was dropped")
    frame = pandas.DataFrame({"a": [1, 2], "b": ["x", None]})
    for if_exists, rows in (("fail", 2), ("append", 4), ("replace", 2)):
        frame.to_sql("framed", engine, index=False, if_exists=if_exists)
        found = pandas.read_sql("SELECT count(*) AS n, sum(a) AS s, count(b) AS k FROM framed", engine)
        check(found.values.tolist(), [[rows, rows // 2 * 3, rows // 2]], f"pandas, to_sql with if_exists={if_exists}")
    with engine.begin() as connection:
        connection.execute(table.insert(), [{"a": at, "b": str(at), "c": decimal.Decimal(at) / 2} for at in range(10)])
    with engine.connect() as connection:
        found = connection.execute(sqlalchemy.select(table.c.b, table.c.c).where(table.c.a.in_([3, 4])).order_by(table.c.a))
        check(found.all(), [("3", decimal.Decimal("1.50")), ("4", decimal.Decimal("2.00"))], "SQLAlchemy, select")
        total = connection.execute(sqlalchemy.select(sqlalchemy.func.sum(table.c.c)).where(table.c.a > 5))
        check(total.scalar(), decimal.Decimal("15.00"), "SQLAlchemy, an aggregate")
        inspector = sqlalchemy.inspect(connection)
        check("s" in inspector.get_table_names(), True, "SQLAlchemy, tables")
        columns = [(column["name"], str(column["type"]), column["nullable"]) for column in inspector.get_columns("s")]
        check(columns, [("a", "INTEGER", False), ("b", "TEXT", True), ("c", "NUMERIC(10, 2)", True)], "SQLAlchemy, columns")
        inspected(inspector)
        reflected = sqlalchemy.Table("s", sqlalchemy.MetaData(), autoload_with=connection)
        check([column.name for column in reflected.columns], ["a", "b", "c"], "SQLAlchemy, a table from its catalog")
    with engine.begin() as connection:
        connection.execute(table.insert(), {"a": 100})
        try:
            with connection.begin_nested():
                connection.execute(table.insert(), {"a": 101})
                connection.execute(sqlalchemy.text("SELECT 1 / 0")).all()
        except sqlalchemy.exc.DataError:
            pass
        with connection.begin_nested():
            connection.execute(table.insert(), {"a": 102})
    with engine.connect() as connection:
        found = connection.execute(sqlalchemy.select(table.c.a).where(table.c.a >= 100).order_by(table.c.a))
        check(found.scalars().all(), [100, 102], "SQLAlchemy, a savepoint")
    engine.dispose()


def inspected(inspector):
    """What there is none of is told as none, and what there is not as missing."""
    no_key = {"name": None, "constrained_columns": []}
    for name, expected in [
        ("get_pk_constraint", no_key), ("get_indexes", []), ("get_foreign_keys", []), ("get_unique_constraints", []),
        ("get_check_constraints", []), ("get_table_comment", {"text": None}), ("get_table_options", {}),
    ]:
        found = getattr(inspector, name)("s")
        kept = {key: value for key, value in found.items() if key in no_key} if name == "get_pk_constraint" else found
        check(kept, expected, f"SQLAlchemy, {name}")
        try:
            getattr(inspector, name)("nothing")
            raise AssertionError(f"SQLAlchemy, {name} of a table that is not there")
        except sqlalchemy.exc.NoSuchTableError:
            pass
    check((inspector.has_table("s"), inspector.has_table("nothing")), (True, False), "SQLAlchemy, has_table")
    check("public" in inspector.get_schema_names(), True, "SQLAlchemy, get_schema_names")
    check(inspector.default_schema_name, "public", "SQLAlchemy, default_schema_name")
    for name in ("get_view_names", "get_materialized_view_names", "get_temp_table_names", "get_sequence_names", "get_enums", "get_domains"):
        check(getattr(inspector, name)(), [], f"SQLAlchemy, {name}")
    check(inspector.has_index("s", "x"), False, "SQLAlchemy, has_index")
    check("s" in {name for _, name in inspector.get_multi_columns()}, True, "SQLAlchemy, get_multi_columns")


def in_terminal(command, locale):
    """What a program writes to a terminal."""
    master, slave = pty.openpty()
    running = subprocess.Popen(command, stdin=slave, stdout=slave, stderr=slave, env={**os.environ, "LC_ALL": locale})
    os.close(slave)
    shown = b""
    while True:
        try:
            part = os.read(master, 4096)
        except OSError:  # The terminal is closed.
            part = b""
        if not part:
            break
        shown += part
    running.wait()
    os.close(master)
    return shown.decode(errors="replace")


def with_psql(port):
    if shutil.which("psql") is None:
        serving.apt("postgresql-client", "psql")

    def asked(*args, stdin=None):
        command = ["psql", "-X", "-h", "127.0.0.1", "-p", str(port), "-U", "alluvia", "-v", "ON_ERROR_STOP=1", *args, "alluvia"]
        done = subprocess.run(command, input=stdin, text=True, capture_output=True)
        assert done.returncode == 0, f"psql {args}: {done.stderr}"
        return done

    def psql(*args, stdin=None):
        return asked(*args, stdin=stdin).stdout

    # What a query used is told of tables, and not of what psql asks the catalog by itself.
    def silent(command):
        done = asked("-c", command)
        check("NOTICE" in done.stderr, False, f"psql, {command} without notices: {done.stderr}")
        return done.stdout

    psql("-c", "CREATE TABLE q (id BIGINT NOT NULL, name TEXT, price DECIMAL(10, 2))")
    for database, state in (("postgres", 0), ("alluvia", 0), ("sales", 2)):
        done = subprocess.run(["psql", "-X", "-h", "127.0.0.1", "-p", str(port), "-U", "alluvia", "-At", "-c", "SELECT current_database()", database],
                              capture_output=True, text=True)
        check(done.returncode, state, f"psql, database {database}: {done.stderr}")
        check("alluvia" in (done.stderr if state else done.stdout), True, f"psql, the database that there is instead of {database}")
    check(psql("-At", "-c", "COPY q FROM STDIN", stdin="1\tone\t1.50\n2\t\\N\t\\N\n"), "COPY 2\n", "psql, COPY in")
    check(psql("-At", "-c", "SELECT * FROM q ORDER BY id"), "1|one|1.50\n2||\n", "psql, rows")
    check(psql("-At", "-c", "COPY q TO STDOUT (FORMAT csv)").splitlines().__len__(), 2, "psql, COPY out")
    check("NOTICE" in asked("-c", "SELECT * FROM q").stderr, False, "psql, what a query used, where no person reads it")
    told = asked("-c", "SET report = 'notice'", "-c", "SELECT * FROM q").stderr
    check("NOTICE:  used version" in told, True, "psql, what a query used, if it is asked for")
    # In a terminal psql states its encoding, which of the C locale is none.
    for locale in ("C", "C.UTF-8"):
        shown = in_terminal(["psql", "-X", "-h", "127.0.0.1", "-p", str(port), "-U", "alluvia", "-P", "pager=off", "-c", "SELECT * FROM q", "alluvia"], locale)
        check("NOTICE:  used version" in shown and "one" in shown, True, f"psql in a terminal, locale {locale}: {shown}")
    check("NOTICE" in asked("-c", "SELECT 1").stderr, False, "psql, a query of no table")
    described = silent(r"\d q")
    for words in ("Table \"public.q\"", "id     | bigint", "not null", "numeric(10,2)"):
        check(words in described, True, f"psql, \\d shows {words}")
    check("q" in psql("-At", "-c", r"\dt"), True, "psql, \\dt")
    check("alluvia" in psql("-At", "-c", r"\l"), True, "psql, \\l")
    for command in (r"\d", r"\df", r"\dn", r"\du", r"\di", r"\dv", r"\d+ q", r"\dT", r"\dx", r"\dt+", r"\l+", r"\conninfo", r"\encoding"):
        silent(command)
    check("pg_catalog|upper|text|text|func" in psql("-At", "-c", r"\df upper"), True, "psql, \\df upper")
    check(len(psql("-At", "-c", r"\df").splitlines()) > 100, True, "psql, \\df")
    check("|sum|" in psql("-At", "-c", r"\da sum"), True, "psql, \\da")
    timed = psql("-c", r"\timing on", "-c", "SELECT 1")
    check("Time:" in timed, True, "psql, \\timing")


def with_cancel(binary, port):
    """`alluvia cancel` ends what a session runs, and leaves the session."""
    with psycopg.connect(f"host=127.0.0.1 port={port} user=alluvia dbname=alluvia", autocommit=True) as connection:
        session = connection.execute("SELECT session_id FROM alluvia.sessions WHERE state = 'active'").fetchone()[0]
        stopped = []

        def run():
            try:
                connection.execute("SELECT count(*) FROM generate_series(1, 1000000000000)")
            except psycopg.errors.QueryCanceled as error:
                stopped.append(error.sqlstate)

        running = threading.Thread(target=run)
        running.start()
        while True:
            done = subprocess.run([binary, "cancel", str(session), "--server", f"127.0.0.1:{port}"], text=True, capture_output=True)
            if "runs nothing" not in done.stderr:
                break
        running.join(60)
        check((done.returncode, stopped), (0, ["57014"]), "alluvia cancel")
        check(connection.execute("SELECT 1").fetchone(), (1,), "the session after alluvia cancel")


def with_passwords(binary, data):
    with served(binary, data, "authentication=password") as (port, said):
        password = said.split("shown this once: ")[1].split()[0]
        check((data / "passwords").stat().st_mode & 0o777, 0o600, "the file of passwords is its owner's")
        check(password in (data / "passwords").read_text(), False, "the password is not in it")
        with psycopg.connect(f"host=127.0.0.1 port={port} user=alluvia password={password}") as connection:
            check(connection.execute("SELECT 1").fetchone(), (1,), "psycopg, SCRAM")
        for wrong in ("nonsense", password + "x"):
            try:
                psycopg.connect(f"host=127.0.0.1 port={port} user=alluvia password={wrong}")
                raise AssertionError("a wrong password was taken")
            except psycopg.OperationalError as error:
                check("authentication failed" in str(error), True, "a wrong password")
    with served(binary, data, "authentication=password") as (port, said):
        check("shown this once" in said, False, "the password is made once")


def with_tls(binary, data, folder):
    if shutil.which("openssl") is None:
        print("wire: openssl is not installed, and TLS was not tried")
        return
    key, certificate = folder / "key.pem", folder / "certificate.pem"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-keyout", str(key),
         "-out", str(certificate), "-days", "2", "-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1"],
        check=True, capture_output=True,
    )
    with served(binary, data, f"tls_certificate={certificate}", f"tls_key={key}") as (port, _):
        target = f"host=127.0.0.1 port={port} user=alluvia sslmode=verify-full sslrootcert={certificate}"
        with psycopg.connect(target) as connection:
            check(connection.pgconn.ssl_in_use, True, "psycopg, TLS")
            cancel = [binary, "cancel", "4000000000", "--server", f"127.0.0.1:{port}", "--tls-ca", str(certificate)]
            told = subprocess.run(cancel, text=True, capture_output=True)
            check("session 4000000000 is not open" in told.stderr, True, "alluvia cancel, over TLS")
            check(connection.execute("SELECT 1").fetchone(), (1,), "psycopg, over TLS")


def main():
    binary = sys.argv[1]
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        with served(binary, folder / "db") as (port, _):
            with_psycopg(port)
            with_transactions(port)
            asyncio.run(with_asyncpg(port))
            with_sqlalchemy(port)
            asyncio.run(with_asyncpg_reflection(port))
            with_psql(port)
            with_cancel(binary, port)
        with_passwords(binary, folder / "db")
        with_tls(binary, folder / "db", folder)
    print("wire: psycopg", psycopg.__version__, "asyncpg", asyncpg.__version__, "SQLAlchemy", sqlalchemy.__version__)
    print(f"{serving.passed} passed, 0 failed")


main()

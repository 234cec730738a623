"""The server with its clients' own tools: psycopg 3, asyncpg, SQLAlchemy, psql.

Usage: wire.py PATH_TO_ALLUVIA
"""

import asyncio
import datetime
import decimal
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
from contextlib import contextmanager

import asyncpg
import psycopg
import serving
import sqlalchemy
from psycopg import sql
from serving import check


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
        except psycopg.errors.DataException:
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
        check(any("version" in notice and "stage" in notice for notice in notices), True, "psycopg, what a query used")
        check(connection.info.server_version // 10000, 16, "psycopg, server_version")
        check(connection.info.parameter_status("TimeZone"), "UTC", "psycopg, TimeZone")


async def with_asyncpg(port):
    connection = await asyncpg.connect(host="127.0.0.1", port=port, user="alluvia", database="alluvia")
    await connection.execute(f"CREATE TABLE y {TABLE}")
    places = ", ".join(f"${at + 1}" for at in range(len(ROW)))
    await connection.execute(f"INSERT INTO y VALUES ({places})", *ROW)
    check(tuple(await connection.fetchrow("SELECT * FROM y WHERE a = $1 AND b > $2", 1, 5)), ROW, "asyncpg, a row")
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
    await connection.close()


def with_sqlalchemy(port):
    # To ask for hstore SQLAlchemy would begin a transaction within one, and there is no SAVEPOINT.
    engine = sqlalchemy.create_engine(f"postgresql+psycopg://alluvia@127.0.0.1:{port}/alluvia", use_native_hstore=False)
    metadata = sqlalchemy.MetaData()
    table = sqlalchemy.Table(
        "s", metadata,
        sqlalchemy.Column("a", sqlalchemy.Integer, nullable=False),
        sqlalchemy.Column("b", sqlalchemy.Text),
        sqlalchemy.Column("c", sqlalchemy.Numeric(10, 2)),
    )
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        metadata.create_all(connection)
        check(sqlalchemy.inspect(connection).has_table("s"), True, "SQLAlchemy, has_table")
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
    engine.dispose()


def with_psql(port):
    if shutil.which("psql") is None:
        print("wire: psql is not installed, and was not tried")
        return

    def psql(*args, stdin=None):
        command = ["psql", "-X", "-h", "127.0.0.1", "-p", str(port), "-U", "alluvia", "-v", "ON_ERROR_STOP=1", *args, "alluvia"]
        done = subprocess.run(command, input=stdin, text=True, capture_output=True, env={**os.environ, "PGOPTIONS": "-c client_min_messages=warning"})
        assert done.returncode == 0, f"psql {args}: {done.stderr}"
        return done.stdout

    psql("-c", "CREATE TABLE q (id BIGINT NOT NULL, name TEXT, price DECIMAL(10, 2))")
    check(psql("-At", "-c", "COPY q FROM STDIN", stdin="1\tone\t1.50\n2\t\\N\t\\N\n"), "COPY 2\n", "psql, COPY in")
    check(psql("-At", "-c", "SELECT * FROM q ORDER BY id"), "1|one|1.50\n2||\n", "psql, rows")
    check(psql("-At", "-c", "COPY q TO STDOUT (FORMAT csv)").splitlines().__len__(), 2, "psql, COPY out")
    described = psql("-c", r"\d q")
    for words in ("Table \"public.q\"", "id     | bigint", "not null", "numeric(10,2)"):
        check(words in described, True, f"psql, \\d shows {words}")
    check("q" in psql("-At", "-c", r"\dt"), True, "psql, \\dt")
    check("alluvia" in psql("-At", "-c", r"\l"), True, "psql, \\l")
    for command in (r"\d", r"\df", r"\dn", r"\du", r"\di", r"\dv", r"\d+ q", r"\dT", r"\dx", r"\dt+", r"\l+", r"\conninfo", r"\encoding"):
        psql("-c", command)
    timed = psql("-c", r"\timing on", "-c", "SELECT 1")
    check("Time:" in timed, True, "psql, \\timing")


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
            check(connection.execute("SELECT 1").fetchone(), (1,), "psycopg, over TLS")


def main():
    binary = sys.argv[1]
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        with served(binary, folder / "db") as (port, _):
            with_psycopg(port)
            asyncio.run(with_asyncpg(port))
            with_sqlalchemy(port)
            with_psql(port)
        with_passwords(binary, folder / "db")
        with_tls(binary, folder / "db", folder)
    print("wire: psycopg", psycopg.__version__, "asyncpg", asyncpg.__version__, "SQLAlchemy", sqlalchemy.__version__)
    print(f"{serving.passed} passed, 0 failed")


main()

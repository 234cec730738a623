"""Flight SQL with the ADBC driver and with pyarrow's client.

Usage: flight.py PATH_TO_ALLUVIA
"""

import datetime
import decimal
import json
import pathlib
import sys
import tempfile
import threading
import time
from contextlib import contextmanager

import adbc_driver_manager
import pyarrow
import pyarrow.flight
import serving
from adbc_driver_flightsql import DatabaseOptions, dbapi
from serving import check

LONG = "SELECT count(*) AS n FROM generate_series(1, 1000000000000)"


@contextmanager
def served(binary, data, *settings):
    """A server on free ports; gives where Flight SQL is, and what it said."""
    with serving.server(binary, data, "off", *settings, flight="127.0.0.1:0") as said:
        target = next(line.split(" on ")[1].strip() for line in said if "Flight" in line)
        yield target, "".join(said)


def connect(target, autocommit=True, **options):
    return dbapi.connect(target, db_kwargs=options, autocommit=autocommit)


def fetched(cursor, sql, parameters=None):
    cursor.execute(sql, parameters)
    return cursor.fetchall()


def refused(call, kind, *words):
    """The call fails with this error, which names the thing."""
    try:
        call()
    except kind as error:
        for word in words:
            check(word in str(error), True, f"{word!r} in {error}")
        return
    raise AssertionError(f"no error, where one that names {words} is expected")


ROW = (
    1, 2**40, "it's ä\n\t\\", 1.5, decimal.Decimal("12.34"), True, datetime.date(2026, 11, 21),
    datetime.datetime(2026, 11, 21, 10, 11, 12, 345678),
    datetime.datetime(2026, 11, 21, 10, 11, 12, tzinfo=datetime.timezone.utc), b"\x00\xff",
)
TABLE = "(a INT, b BIGINT, c TEXT, d DOUBLE, e DECIMAL(12, 2), f BOOLEAN, g DATE, h TIMESTAMP, i TIMESTAMPTZ, j BYTEA)"


def with_values(target):
    with connect(target) as connection, connection.cursor() as cursor:
        cursor.execute(f"CREATE TABLE p {TABLE}")
        places = ", ".join(f"${at + 1}" for at in range(len(ROW)))
        cursor.executemany(f"INSERT INTO p VALUES ({places})", [ROW])
        check(cursor.rowcount, 1, "rows of an INSERT")
        cursor.execute("INSERT INTO p (a) VALUES (NULL)")
        check(cursor.rowcount, 1, "rows of an INSERT without parameters")
        found = fetched(cursor, "SELECT * FROM p WHERE a = $1", (1,))[0]
        check(found[:8] + found[9:], ROW[:8] + ROW[9:], "values")
        check(found[8].astimezone(datetime.timezone.utc), ROW[8], "a time with its zone")
        for column, value in zip("abcdefghij", ROW):
            check(fetched(cursor, f"SELECT count(*) FROM p WHERE {column} = $1", (value,)), [(1,)], f"column {column}")
        check(fetched(cursor, "SELECT * FROM p WHERE a IS NULL"), [(None,) * len(ROW)], "NULLs")
        check(fetched(cursor, "SELECT a FROM p WHERE c = $1", (None,)), [], "a NULL parameter")
        cursor.execute("SELECT a, c FROM p ORDER BY a")
        table = cursor.fetch_arrow_table()
        check([str(field.type) for field in table.schema], ["int32", "string"], "types that every client knows")
        refused(lambda: cursor.executemany("INSERT INTO p (a) VALUES ($1)", [("four",)]), dbapi.Error, "four")
        refused(lambda: fetched(cursor, "SELECT $1 + 1", (1, 2)), dbapi.Error, "1 parameters")
        refused(lambda: cursor.execute("SELECT * FROM nowhere"), dbapi.Error, "nowhere")
        refused(lambda: cursor.execute("SELEC 1"), dbapi.Error)
        # Several rows are one batch.
        before = fetched(cursor, "SELECT max(version) FROM alluvia.batches")[0][0]
        cursor.execute("CREATE TABLE many (a INT, b TEXT)")
        cursor.executemany("INSERT INTO many VALUES ($1, $2)", [(at, f"text {at}") for at in range(100)])
        check(cursor.rowcount, 100, "rows of executemany")
        after = fetched(cursor, "SELECT max(version) FROM alluvia.batches")[0][0]
        check(after - before, 2, "batches of a table and of its rows")
        bad = [(1, "x"), (None, "y"), (3, "z")]
        cursor.execute("CREATE TABLE strict (a INT NOT NULL, b TEXT)")
        refused(lambda: cursor.executemany("INSERT INTO strict VALUES ($1, $2)", bad), dbapi.Error, "row 2")
        check(fetched(cursor, "SELECT count(*) FROM strict"), [(0,)], "half of executemany")


def with_sessions(target):
    with connect(target) as connection, connection.cursor() as cursor:
        cursor.execute("SET freshness = '5s'")
        check(fetched(cursor, "SHOW freshness"), [("5s",)], "a setting stays")
        with connect(target) as other, other.cursor() as theirs:
            check(fetched(theirs, "SHOW freshness") == [("5s",)], False, "another connection's setting")
    with connect(target, autocommit=False) as connection, connection.cursor() as cursor:
        with connect(target) as other, other.cursor() as theirs:
            theirs.execute("CREATE TABLE t (a INT)")
            cursor.execute("INSERT INTO t VALUES (1)")
            check(fetched(cursor, "SELECT count(*) FROM t"), [(1,)], "own rows before COMMIT")
            check(fetched(theirs, "SELECT count(*) FROM t"), [(0,)], "others' rows before COMMIT")
            connection.commit()
            check(fetched(theirs, "SELECT count(*) FROM t"), [(1,)], "after COMMIT")
            cursor.executemany("INSERT INTO t VALUES ($1)", [(2,), (3,)])
            connection.rollback()
            check(fetched(theirs, "SELECT count(*) FROM t"), [(1,)], "after ROLLBACK")
            # The same statement, prepared in the transaction before.
            cursor.executemany("INSERT INTO t VALUES ($1)", [(2,), (3,)])
            connection.commit()
            check(fetched(theirs, "SELECT sum(a) FROM t"), [(6,)], "after the next COMMIT")
            # A table is the transaction's own until its end, as rows are.
            cursor.execute("CREATE TABLE made (a INT)")
            cursor.execute("INSERT INTO made VALUES (5)")
            check(fetched(cursor, "SELECT a FROM made"), [(5,)], "an own table before COMMIT")
            refused(lambda: fetched(theirs, "SELECT a FROM made"), dbapi.Error, "no table 'made'")
            connection.commit()
            check(fetched(theirs, "SELECT a FROM made"), [(5,)], "a table after COMMIT")
            refused(lambda: cursor.execute("CALL alluvia.merge()"), dbapi.Error, "inside a transaction")
            connection.rollback()
            refused(lambda: cursor.execute("COMMIT"), dbapi.Error, "transaction")
            connection.rollback()


def with_options(target):
    """Settings as the driver's session options, with and without a transaction of the driver's."""
    prefix = "adbc.flight.sql.session.option"
    for autocommit in (True, False):
        with connect(target, autocommit=autocommit) as connection, connection.cursor() as cursor:
            options = connection.adbc_connection
            options.set_options(**{f"{prefix}.freshness": "5s", f"{prefix}.max_error": "0.05", f"{prefix}bool.cuboids": "false"})
            for name, wanted in (("freshness", "5s"), ("max_error", "0.05"), ("cuboids", "off")):
                check(fetched(cursor, f"SHOW {name}"), [(wanted,)], f"{name} with autocommit={autocommit}")
                check(options.get_option(f"{prefix}.{name}"), wanted, f"the option {name}")
            check(json.loads(options.get_option(f"{prefix}s"))["freshness"], "5s", "all options")
            options.set_options(**{f"{prefix}erase.freshness": ""})
            check(options.get_option(f"{prefix}.freshness"), "default", "an option that was taken back")
            refused(lambda: options.set_options(**{f"{prefix}.max_error": "7"}), dbapi.Error, "max_error")
            refused(lambda: options.set_options(**{f"{prefix}.max_eror": "0.1"}), dbapi.Error, "max_eror")
            check(fetched(cursor, "SHOW max_error"), [("0.05",)], "an option that was refused changes nothing")


def with_ingest(target):
    count = 200_000
    table = pyarrow.table({
        "a": pyarrow.array(range(count), pyarrow.int64()),
        "b": pyarrow.array([f"text {at % 7}" for at in range(count)]),
        "c": pyarrow.array([at / 4 for at in range(count)]),
    })
    with connect(target) as connection, connection.cursor() as cursor:
        check(cursor.adbc_ingest("ing", table, mode="create"), count, "create")
        check(cursor.adbc_ingest("ing", table.to_reader(max_chunksize=1000), mode="append"), count, "append")
        check(cursor.adbc_ingest("ing", table.slice(0, 5), mode="create_append"), 5, "create_append, there")
        check(cursor.adbc_ingest("ing2", table.slice(0, 5), mode="create_append"), 5, "create_append, new")
        check(fetched(cursor, "SELECT count(*), sum(a) FROM ing"), [(2 * count + 5, count * (count - 1) + 10)], "rows")
        check(fetched(cursor, "SELECT * FROM ing2 ORDER BY a LIMIT 1"), [(0, "text 0", 0.0)], "a row")
        refused(lambda: cursor.adbc_ingest("ing", table, mode="create"), dbapi.Error, "already exists")
        refused(lambda: cursor.adbc_ingest("nowhere", table, mode="append"), dbapi.Error, "nowhere")
        refused(lambda: cursor.adbc_ingest("ing", table, mode="replace"), dbapi.NotSupportedError, "replacing")
        check(cursor.adbc_ingest("x", table.slice(0, 5), mode="create", temporary=True), 5, "a temporary table")
        check(fetched(cursor, "SELECT count(*), sum(a) FROM x"), [(5, 10)], "its rows")
        with connect(target) as another, another.cursor() as elsewhere:
            refused(lambda: elsewhere.execute("SELECT * FROM x"), dbapi.Error, "no table 'x'")
        refused(lambda: cursor.adbc_ingest("y", table, mode="create", temporary=True, db_schema_name="public"), dbapi.Error, "non-temporary schema")
        refused(lambda: cursor.adbc_ingest("x", table, mode="create", db_schema_name="alluvia"), dbapi.Error, "schema alluvia")

        def half():
            yield pyarrow.record_batch({"a": pyarrow.array([1], pyarrow.int64())})
            raise ValueError("the source fails")

        schema = pyarrow.schema([("a", pyarrow.int64())])
        broken = pyarrow.RecordBatchReader.from_batches(schema, half())
        refused(lambda: cursor.adbc_ingest("broken", broken, mode="create"), Exception)
        refused(lambda: cursor.execute("SELECT * FROM broken"), dbapi.Error, "broken")
        cursor.execute("CREATE TABLE notnull (a INT NOT NULL)")
        nulls = pyarrow.table({"a": pyarrow.array([1] * 50_000 + [None], pyarrow.int32())})
        refused(lambda: cursor.adbc_ingest("notnull", nulls, mode="append"), dbapi.Error, "a")
        check(fetched(cursor, "SELECT count(*) FROM notnull"), [(0,)], "half of an ingest")
    with connect(target, autocommit=False) as connection, connection.cursor() as cursor:
        cursor.adbc_ingest("ing2", table.slice(0, 10), mode="append")
        check(fetched(cursor, "SELECT count(*) FROM ing2"), [(15,)], "ingested rows")
        connection.rollback()
        # The driver names no transaction in its ingest, which is then one of its own.
        check(fetched(cursor, "SELECT count(*) FROM ing2"), [(15,)], "ingested rows after ROLLBACK")
        connection.rollback()


def with_metadata(target):
    with connect(target) as connection, connection.cursor() as cursor:
        cursor.execute("CREATE TABLE meta (a INT NOT NULL, b TEXT)")
        info = connection.adbc_get_info()
        check((info["vendor_name"], info["driver_name"]), ("Alluvia", "ADBC Flight SQL Driver - Go"), "names")
        check("SYSTEM TABLE" in connection.adbc_get_table_types(), True, "table types")
        schema = connection.adbc_get_table_schema("meta")
        check([(field.name, str(field.type), field.nullable) for field in schema],
              [("a", "int32", False), ("b", "string", True)], "a table's schema")
        listed = connection.adbc_get_objects(depth="all", table_name_filter="meta").read_all().to_pylist()
        schemas = [schema for catalog in listed for schema in catalog["catalog_db_schemas"]]
        tables = [(schema["db_schema_name"], table["table_name"], table["table_type"],
                   [column["column_name"] for column in table["table_columns"]])
                  for schema in schemas for table in schema["db_schema_tables"] or []]
        check(tables, [("public", "meta", "TABLE", ["a", "b"])], "objects")
        check([catalog["catalog_name"] for catalog in listed], ["alluvia"], "catalogs")
        check(fetched(cursor, "SELECT protocol FROM alluvia.sessions WHERE sql LIKE '%protocol%'"), [("flight",)], "sessions")
        columns = cursor.adbc_execute_schema("SELECT a, b FROM meta")
        check(columns.names, ["a", "b"], "a schema without running")


def with_streams(target):
    """A large answer comes piece by piece, and a cancel ends what runs."""
    with connect(target) as connection:
        with connection.cursor() as cursor:
            cursor.execute("SELECT value, 'text ' || value AS t FROM generate_series(1, 3000000)")
            rows = 0
            for batch in cursor.fetch_record_batch():
                rows += batch.num_rows
            check(rows, 3_000_000, "rows")
            cursor.execute("SELECT value FROM generate_series(1, 1000000000000)")
            reader = cursor.fetch_record_batch()
            check(reader.read_next_batch().num_rows > 0, True, "the first rows of very many")
        with connection.cursor() as cursor:
            refused(lambda: cursor.execute("SELECT 10 / (150000 - value) FROM generate_series(1, 1000000)").fetchall(),
                    dbapi.Error, "zero")
        with connection.cursor() as cursor:
            threading.Timer(1, cursor.adbc_cancel).start()
            refused(lambda: fetched(cursor, LONG), dbapi.Error)
        with connection.cursor() as cursor:
            quiet = "SELECT count(*) FROM alluvia.sessions WHERE sql LIKE '%1000000000000%' AND sql NOT LIKE '%sessions%'"
            until = time.monotonic() + 20
            while fetched(cursor, quiet) != [(0,)] and time.monotonic() < until:
                time.sleep(0.1)
            check(fetched(cursor, quiet), [(0,)], "what was cancelled, or left, has ended")


def any_of(name, value):
    """google.protobuf.Any of a Flight SQL command."""
    def field(number, data):
        return bytes([number << 3 | 2]) + length(len(data)) + data

    def length(count):
        out = b""
        while count > 127:
            out += bytes([count & 127 | 128])
            count >>= 7
        return out + bytes([count])

    url = f"type.googleapis.com/arrow.flight.protocol.sql.{name}".encode()
    return field(1, url) + field(2, field(1, value))


def with_pyarrow(target, user=None, password=None, **tls):
    with pyarrow.flight.connect(target, **tls) as client:
        options = pyarrow.flight.FlightCallOptions()
        if user:
            options = pyarrow.flight.FlightCallOptions(headers=[client.authenticate_basic_token(user, password)])
        descriptor = pyarrow.flight.FlightDescriptor.for_command(any_of("CommandStatementQuery", b"SELECT 1 AS a, 'x' AS b"))
        check(client.get_schema(descriptor, options).schema.names, ["a", "b"], "GetSchema")
        info = client.get_flight_info(descriptor, options)
        check(info.schema.names, ["a", "b"], "a schema before the rows")
        last, batches = None, []
        reader = client.do_get(info.endpoints[0].ticket, options)
        for chunk in reader:
            batches.append(chunk.data)
            last = chunk.app_metadata or last
        check(pyarrow.Table.from_batches(batches).to_pylist(), [{"a": 1, "b": "x"}], "rows")
        check(json.loads(last.to_pybytes())["tag"], "SELECT", "what is told after the rows")
        refused(lambda: client.do_get(info.endpoints[0].ticket, options).read_all(), pyarrow.ArrowException, "ticket")
        table = pyarrow.flight.FlightDescriptor.for_command(
            any_of("CommandStatementQuery", b"SELECT count(*) AS n FROM alluvia.batches"))
        again = client.get_flight_info(table, options)
        check(b"alluvia.tag" in again.schema.metadata, True, "metadata of the schema")
        actions = {action.type for action in client.list_actions(options)}
        check({"CreatePreparedStatement", "CancelFlightInfo"} <= actions, True, "actions")
        # What is offered beside the protocol, to any client.
        (state,) = client.do_action(pyarrow.flight.Action("alluvia.session", b""), options)
        check(json.loads(state.body.to_pybytes())["transaction"], "idle", "the state of a session")
        check(list(client.do_action(pyarrow.flight.Action("alluvia.cancel", b""), options)), [], "cancelling what does not run")
        check(list(client.do_action(pyarrow.flight.Action("alluvia.producer", b"nobody"), options)), [], "a producer without batches")


def with_passwords(binary, data):
    with served(binary, data, "authentication=password") as (target, said):
        password = said.split("shown this once: ")[1].split()[0]
        with connect(target, username="alluvia", password=password) as connection, connection.cursor() as cursor:
            check(fetched(cursor, "SELECT user_name FROM alluvia.sessions WHERE protocol = 'flight'"), [("alluvia",)], "user")
        for options in ({}, {"username": "alluvia", "password": "wrong"}):
            refused(lambda: fetched(connect(target, **options).cursor(), "SELECT 1"), dbapi.Error)
        with_pyarrow(target, "alluvia", password)
    tests = pathlib.Path(__file__).parent.parent / "crates/server-flight/tests/flight"
    certificate = tests / "certificate.pem"
    settings = ("authentication=password", f"tls_certificate={certificate}", f"tls_key={tests / 'key.pem'}")
    with served(binary, data, *settings) as (target, _):
        check(target.startswith("grpc+tls://"), True, "TLS is said")
        trusted = {DatabaseOptions.TLS_ROOT_CERTS.value: certificate.read_text()}
        with connect(target, username="alluvia", password=password, **trusted) as connection, connection.cursor() as cursor:
            check(fetched(cursor, "SELECT 1"), [(1,)], "TLS")
        with_pyarrow(target, "alluvia", password, tls_root_certs=certificate.read_bytes())
        refused(lambda: connect(target, username="alluvia", password=password), dbapi.Error, "certificate")


def main():
    binary = sys.argv[1]
    with tempfile.TemporaryDirectory() as folder:
        data = pathlib.Path(folder) / "db"
        with served(binary, data) as (target, _):
            with_values(target)
            with_sessions(target)
            with_options(target)
            with_ingest(target)
            with_metadata(target)
            with_streams(target)
            with_pyarrow(target)
        with served(binary, data) as (target, _):
            with connect(target) as connection, connection.cursor() as cursor:
                check(fetched(cursor, "SELECT count(*) FROM ing2"), [(15,)], "after a restart")
        with_passwords(binary, data)
    print(f"flight: adbc {adbc_driver_manager.__version__}, {serving.passed} passed, 0 failed")


if __name__ == "__main__":
    main()

"""Python's values of types through psycopg, asyncpg and ADBC: dumped and loaded by the drivers themselves. Part of client_rows.py.
"""

import datetime
import json
import pathlib
import subprocess
import tempfile
import uuid
from decimal import Decimal

import psycopg
import pyarrow
import pyarrow.parquet
from psycopg.types.json import Json, Jsonb

COLUMNS = "i INT, u UUID, j JSON, b JSONB, h TIME, s INTERVAL, p NUMERIC, c CHAR(5), w NUMERIC(20, 0), x NUMERIC(38, 10)"
DOCUMENT = {"b": [1, None, {"ü": "é 😀"}], "a": {"": "\u2028\"\\\n"}}
ROWS = [
    (0, uuid.UUID(int=0), DOCUMENT, DOCUMENT, datetime.time(0), datetime.timedelta(days=-3, seconds=-1, microseconds=-1), Decimal("-1234567890123456789012.1234567890123456"), "ab   ", Decimal(2**64 - 1), Decimal("9" * 28 + "." + "9" * 10)),
    (1, uuid.UUID(int=2**128 - 1), [], "text", datetime.time(23, 59, 59, 999999), datetime.timedelta(days=999999999), Decimal("1.5"), "ünïcö", Decimal(0), Decimal("-0.0000000001")),
    (2, *[None] * 9),
]
# Names of columns, the type that a parameter beside each is, and a value of that.
KINDS = {"u": "uuid", "b": "jsonb", "h": "time", "s": "interval", "p": "numeric", "c": "bpchar", "w": "numeric", "x": "numeric"}
AT = {"i": 0, "u": 1, "j": 2, "b": 3, "h": 4, "s": 5, "p": 6, "c": 7, "w": 8, "x": 9}
TYPES = ["int4", "uuid", "json", "jsonb", "time", "interval", "numeric", "bpchar", "numeric", "numeric"]


def with_psycopg(there, held):
    connection = there.psycopg
    there.execute(f"CREATE TABLE by_psycopg ({COLUMNS})")
    # The driver has no name for CHAR(n) where it writes COPY's binary form; as a parameter in binary a text is a text.
    kinds = ["text" if kind == "bpchar" else kind for kind in TYPES]
    sent = [tuple(row[:2]) + (row[2] if row[2] is None else Json(row[2]), row[3] if row[3] is None else Jsonb(row[3])) + (*row[4:7], row[7] and row[7].rstrip(), *row[8:]) for row in ROWS]
    for place in ("%t", "%b", "%s"):
        places = ", ".join([place] * 10)
        with connection.cursor() as cursor:
            held.hold(f"psycopg, INSERT by {place}", 3, lambda: cursor.executemany(f"INSERT INTO by_psycopg VALUES ({places})", sent) or cursor.rowcount)
    with psycopg.ClientCursor(connection) as cursor:
        held.hold("psycopg, INSERT of literals", 3, lambda: cursor.executemany(f"INSERT INTO by_psycopg VALUES ({', '.join(['%s'] * 10)})", sent) or cursor.rowcount)
    for format in ("text", "binary"):
        with connection.cursor() as cursor:
            def copied():
                with cursor.copy(f"COPY by_psycopg FROM STDIN (FORMAT {format})") as copy:
                    if format == "binary":
                        copy.set_types(kinds)
                    for row in sent:
                        copy.write_row(row)
                return cursor.rowcount

            held.hold(f"psycopg, COPY in, {format}", 3, copied)
    for format in ("text", "binary"):
        with connection.cursor() as cursor:
            def rows_of():
                with cursor.copy(f"COPY (SELECT * FROM by_psycopg ORDER BY i) TO STDOUT (FORMAT {format})") as copy:
                    copy.set_types(kinds)
                    return list(copy.rows())

            held.hold(f"psycopg, COPY out, {format}", [row for row in ROWS for _ in range(6)], rows_of)
    for binary in (False, True):
        with connection.cursor(binary=binary) as cursor:
            held.hold(f"psycopg, rows, binary={binary}", [row for row in ROWS for _ in range(6)], lambda: cursor.execute("SELECT * FROM by_psycopg ORDER BY i").fetchall())
            for name in KINDS:
                for place in ("%t", "%b", "%s"):
                    found = f"SELECT count(*) FROM by_psycopg WHERE {name} = {place}"
                    held.hold(f"psycopg, {found}, binary={binary}", (6,), lambda: cursor.execute(found, (sent[0][AT[name]],), prepare=True).fetchone())
                if name != "b":
                    found = f"SELECT count(*) FROM by_psycopg WHERE {name} = ANY(%s)"
                    held.hold(f"psycopg, {found}, binary={binary}", (12,), lambda: cursor.execute(found, ([sent[0][AT[name]], sent[1][AT[name]], None],), prepare=True, binary=binary).fetchone())
                listed = f"SELECT array_agg({name} ORDER BY i) FROM (SELECT DISTINCT ON (i) i, {name} FROM by_psycopg ORDER BY i) AS t"
                held.hold(f"psycopg, {listed}, binary={binary}", ([row[AT[name]] for row in ROWS],), lambda: cursor.execute(listed).fetchone())
    with connection.cursor() as cursor:
        cursor.execute("SELECT * FROM by_psycopg LIMIT 0", prepare=True)
        about = [(column.name, column.type_code, column.precision, column.scale, column.internal_size) for column in cursor.description[6:]]
        held.hold("psycopg, description", [("p", 1700, None, None, None), ("c", 1042, None, None, None), ("w", 1700, 20, 0, None), ("x", 1700, 38, 10, None)], lambda: about)


async def asyncpg_rows(connection, held, there):
    async def hold(what, expected, work):
        try:
            found = await work
        except Exception as error:
            held.hold(f"asyncpg, {what}", expected, lambda: raising(error))
        else:
            held.hold(f"asyncpg, {what}", expected, lambda: found)

    await connection.execute(f"CREATE TABLE by_asyncpg ({COLUMNS})")
    insert = f"INSERT INTO by_asyncpg VALUES ({', '.join(f'${at + 1}' for at in range(10))})"
    await hold("types of parameters", TYPES, parameters(connection, insert))
    # Without a codec of the caller's own, JSON is its text.
    texts = [(*row[:2], *(value if value is None else json.dumps(value) for value in row[2:4]), *row[4:]) for row in ROWS]
    await hold("executemany", None, connection.executemany(insert, texts))
    await hold("copy_records_to_table", "COPY 3", connection.copy_records_to_table("by_asyncpg", records=texts))
    rows = [(*row[:3], row[3] and printed(json.loads(row[3])), *row[4:]) for row in texts]
    await hold("rows", [row for row in rows for _ in range(2)], tuples(connection, "SELECT * FROM by_asyncpg ORDER BY i"))
    prepared = await connection.prepare("SELECT * FROM by_asyncpg")
    held.hold("asyncpg, types of columns", TYPES, lambda: [attribute.type.name for attribute in prepared.get_attributes()])
    for name, kind in KINDS.items():
        values = [row[AT[name]] for row in rows]
        found = f"SELECT count(*) FROM by_asyncpg WHERE {name} = $1"
        await hold(found, 2, connection.fetchval(found, values[0]))
        await hold(f"{found}: its type", [kind], parameters(connection, found))
        for element in ("", f"::{kind}[]"):
            found = f"SELECT count(*) FROM by_asyncpg WHERE {name} = ANY($1{element})"
            await hold(found, 4, connection.fetchval(found, values))
        listed = f"SELECT array_agg({name} ORDER BY i) FROM (SELECT DISTINCT ON (i) i, {name} FROM by_asyncpg ORDER BY i) AS t"
        await hold(listed, values, connection.fetchval(listed))
        await hold(f"$1::{kind}[] of {name}", values, connection.fetchval(f"SELECT $1::{kind}[]", values))
        await hold(f"coalesce({name}, $1)", values[1], connection.fetchval(f"SELECT coalesce({name}, $1) FROM by_asyncpg WHERE i = 2 LIMIT 1", values[1]))
        await hold(f"UPDATE of {name}", "UPDATE 2", connection.execute(f"UPDATE by_asyncpg SET {name} = $1 WHERE i = 2", values[1]))
        await hold(f"{name} after UPDATE", 4, connection.fetchval(f"SELECT count({name}) FROM by_asyncpg WHERE i > 0"))
        await hold(f"UPDATE of {name} to NULL", "UPDATE 2", connection.execute(f"UPDATE by_asyncpg SET {name} = $1 WHERE i = 2", None))
    unnested = "INSERT INTO by_asyncpg (i, u, b, h, s, p, c, w) SELECT * FROM unnest($1::int[], $2::uuid[], $3::jsonb[], $4::time[], $5::interval[], $6::numeric[], $7::bpchar[], $8::numeric[])"
    columns = [[10, 11, 12]] + [[row[AT[name]] for row in rows] for name in ("u", "b", "h", "s", "p", "c", "w")]
    await hold("unnest", "INSERT 0 3", connection.execute(unnested, *columns))
    whole = "SELECT u, b, h, s, p, c, w FROM by_asyncpg WHERE i >= 10 ORDER BY i"
    await hold("unnest, rows", list(zip(*columns[1:])), tuples(connection, whole))
    for asked, values, expected in (
        ("SELECT $1::interval + '1 day'::interval", (datetime.timedelta(hours=-2),), datetime.timedelta(hours=22)), ("SELECT h + $1::interval FROM by_asyncpg WHERE i = 1 LIMIT 1", (datetime.timedelta(microseconds=1),), datetime.time(0)),
        ("SELECT p + $1 FROM by_asyncpg WHERE i = 1 LIMIT 1", (Decimal("2.25"),), Decimal("3.75")), ("SELECT c || $1::text FROM by_asyncpg WHERE i = 0 LIMIT 1", ("x",), "abx"), ("SELECT b -> $1 FROM by_asyncpg WHERE i = 0 LIMIT 1", ("b",), json.dumps(DOCUMENT["b"], ensure_ascii=False)),
        ("SELECT b @> $1::jsonb FROM by_asyncpg WHERE i = 0 LIMIT 1", ('{"a": {}}',), True), ("SELECT b #>> $1::text[] FROM by_asyncpg WHERE i = 0 LIMIT 1", (["b", "2", "ü"],), "é 😀"), ("SELECT j ->> $1::text FROM by_asyncpg WHERE i = 0 LIMIT 1", ("b",), '[1, null, {"\\u00fc": "\\u00e9 \\ud83d\\ude00"}]'),
        ("SELECT $1::uuid::text", (uuid.UUID(int=7),), str(uuid.UUID(int=7))), ("SELECT sum(s) FROM by_asyncpg WHERE i = 0", (), datetime.timedelta(days=-6, seconds=-2, microseconds=-2)), ("SELECT max(h) FROM by_asyncpg", (), datetime.time(23, 59, 59, 999999)),
        ("SELECT $1::date + $2::time", (datetime.date(2026, 1, 1), datetime.time(1, 2, 3)), datetime.datetime(2026, 1, 1, 1, 2, 3)), ("SELECT $1 * $2::interval", (2.5, datetime.timedelta(hours=2)), datetime.timedelta(hours=5)),
    ):
        await hold(f"{asked} of {values!r}", expected, connection.fetchval(asked, *values))
    # With codecs as SQLAlchemy and Tortoise set them, which is by the types that the server tells.
    for kind in ("json", "jsonb"):
        await connection.set_type_codec(kind, encoder=json.dumps, decoder=json.loads, schema="pg_catalog")
    await hold("codecs, INSERT", "INSERT 0 1", connection.execute("INSERT INTO by_asyncpg (i, j, b) VALUES (20, $1, $2)", DOCUMENT, DOCUMENT))
    await hold("codecs, $1::jsonb", DOCUMENT, connection.fetchval("SELECT $1::jsonb", DOCUMENT))
    await hold("codecs, rows", [(DOCUMENT, DOCUMENT)], tuples(connection, "SELECT j, b FROM by_asyncpg WHERE i = 0 LIMIT 1"))
    await hold("codecs, a list", [DOCUMENT], connection.fetchval("SELECT array_agg(b) FROM (SELECT b FROM by_asyncpg WHERE i = 0 LIMIT 1) AS t"))
    # What Python has no value for: months, and the end of a day.
    for kind in ("interval", "time"):
        await connection.set_type_codec(kind, encoder=lambda value: value, decoder=lambda value: value, format="tuple", schema="pg_catalog")
    for kind, values in {"interval": [(-14, 3, -14_706_789_000), (2**31 - 1, -(2**31), 1), (-(2**31), 2**31 - 1, -1)], "time": [(86_400_000_000,), (0,)]}.items():
        for value in values:
            await hold(f"{kind} {value}", value, connection.fetchval(f"SELECT $1::{kind}", value))
        await connection.execute(f"CREATE TABLE tuples_{kind} (v {kind})")
        await hold(f"COPY of {kind}", f"COPY {len(values)}", connection.copy_records_to_table(f"tuples_{kind}", records=[(value,) for value in values]))
        await hold(f"rows of {kind}", sorted(values), sorted_values(connection, f"SELECT v FROM tuples_{kind}"))
        await hold(f"WHERE of {kind}", 1, connection.fetchval(f"SELECT count(*) FROM tuples_{kind} WHERE v = $1", values[0]))


def raising(error):
    raise error


async def tuples(connection, statement):
    return [tuple(row) for row in await connection.fetch(statement)]


async def sorted_values(connection, statement):
    return sorted(row[0] for row in await connection.fetch(statement))


async def parameters(connection, statement):
    return [parameter.name for parameter in (await connection.prepare(statement)).get_parameters()]


INGESTED = {
    "u64": (pyarrow.array([2**63 - 1, None], pyarrow.uint64()), "bigint", [2**63 - 1, None]), "u32": (pyarrow.array([2**32 - 1, None], pyarrow.uint32()), "bigint", [2**32 - 1, None]), "i8": (pyarrow.array([-128, None], pyarrow.int8()), "smallint", [-128, None]),
    "decimal": (pyarrow.array([Decimal("18446744073709551615"), None], pyarrow.decimal128(20, 0)), "numeric", ["18446744073709551615", None]), "scaled": (pyarrow.array([Decimal("-1.25"), None], pyarrow.decimal128(10, 2)), "numeric", ["-1.25", None]),
    "wide": (pyarrow.array([Decimal("9" * 28 + "." + "9" * 10), None], pyarrow.decimal128(38, 10)), "numeric", ["9" * 28 + "." + "9" * 10, None]), "time": (pyarrow.array([datetime.time(23, 59, 59, 999999), None], pyarrow.time64("us")), "time without time zone", [datetime.time(23, 59, 59, 999999), None]),
    "span": (pyarrow.array([pyarrow.MonthDayNano([-14, 3, -5000]), None], pyarrow.month_day_nano_interval()), "interval", [(-14, 3, -5000), None]), "duration": (pyarrow.array([-1, None], pyarrow.duration("us")), "interval", [(0, 0, -1000), None]),
    "uuid": (pyarrow.array([b"\xff" * 16, None], pyarrow.uuid()), "uuid", [uuid.UUID(int=2**128 - 1), None]), "json": (pyarrow.array(['{"ü":  "😀"}', None], pyarrow.json_()), "json", ['{"ü":  "😀"}', None]), "text": (pyarrow.array(["x", None]).dictionary_encode(), "text", ["x", None]),
    "bytes": (pyarrow.array([b"\0\xff", None], pyarrow.binary(2)), "bytea", [b"\0\xff", None]), "list": (pyarrow.array([[1, None], None], pyarrow.list_(pyarrow.int64())), "bigint[]", [[1, None], None]),
    "zoned": (pyarrow.array([1, None], pyarrow.timestamp("us", "Europe/Berlin")), "timestamp with time zone", [datetime.datetime(1970, 1, 1, 0, 0, 0, 1, tzinfo=datetime.timezone.utc), None]), "real": (pyarrow.array([1.5, None], pyarrow.float16()), "real", [1.5, None]),
}
ARROW = ["int32", "extension<arrow.uuid>", "extension<arrow.json>", "extension<arrow.json>", "time64[us]", "month_day_nano_interval", "numeric -1", "string", "numeric 1310724", "numeric 2490382"]


def with_adbc(there, held):
    for copy in ("true", "false"):
        with there.adbc.cursor(adbc_stmt_kwargs={"adbc.postgresql.use_copy": copy}) as cursor:

            def read():
                cursor.execute("SELECT * FROM by_psycopg WHERE i < 2 AND u IS NOT NULL ORDER BY i")
                table = cursor.fetch_arrow_table()
                kinds = [f"numeric {field.metadata[b'POSTGRESQL:typmod'].decode()}" if "opaque" in str(field.type) else str(field.type) for field in table.schema]
                rows = list(dict.fromkeys(repr(tuple(plain(value) for value in row.values())) for row in table.to_pylist()))
                return kinds, rows

            spans = {0: (0, -4, 86_398_999_999_000), 1: (0, 999999999, 0)}
            rows = [(row[0], row[1], json.dumps(row[2]), printed(row[3]), row[4], spans[row[0]], *(None if value is None else str(value) if not isinstance(value, Decimal) else format(value, "f") for value in row[6:])) for row in ROWS[:2]]
            held.hold(f"ADBC, rows, use_copy={copy}", (ARROW, [repr(row) for row in rows]), read)
    for name, (array, kind, values) in INGESTED.items():

        def ingest():
            with there.adbc.cursor() as cursor:
                cursor.execute("DROP TABLE IF EXISTS ingested")
                cursor.adbc_ingest("ingested", pyarrow.table({"n": [0, 1], "v": array}), mode="create")
                cursor.adbc_ingest("ingested", pyarrow.table({"n": [2, 3], "v": array}), mode="append")
                cursor.execute("SELECT DISTINCT pg_typeof(v)::text FROM ingested")
                types = [row[0] for row in cursor.fetchall()]
                cursor.execute("SELECT v FROM ingested ORDER BY n")
                return types, [plain(row["v"]) for row in cursor.fetch_arrow_table().to_pylist()]

        held.hold(f"ADBC, ingested {name}", ([kind], values * 2), ingest)
    for asked, values, expected in (
        ("SELECT $1::numeric AS v", (Decimal("1.5"),), "1.5"), ("SELECT $1::time AS v", (datetime.time(1, 2, 3, 4),), datetime.time(1, 2, 3, 4)), ("SELECT $1::interval AS v", (datetime.timedelta(-1, 2, 3),), (0, 0, -86_397_999_997_000)),
        ("SELECT $1::char(3) AS v", ("x",), "x  "), ("SELECT $1::uuid AS v", (str(uuid.UUID(int=7)),), uuid.UUID(int=7)), ("SELECT $1::jsonb AS v", ('{"b":1,  "a":"ü"}',), '{"a": "ü", "b": 1}'), ("SELECT $1::uuid AS v", (None,), None),
        ("SELECT count(*) AS v FROM by_psycopg WHERE w = $1", (Decimal("18446744073709551615"),), 6), ("SELECT count(*) AS v FROM by_psycopg WHERE h = $1", (datetime.time(0),), 6), ("SELECT count(*) AS v FROM by_psycopg WHERE x = $1", (ROWS[0][9],), 6),
        ("SELECT count(*) AS v FROM by_psycopg WHERE u = $1::uuid", (str(ROWS[1][1]),), 6),
    ):

        def one():
            with there.adbc.cursor() as cursor:
                cursor.execute(asked, values)
                return plain(cursor.fetch_arrow_table().to_pylist()[0]["v"])

        held.hold(f"ADBC, {asked} of {values!r}", expected, one)

    def names():
        with there.adbc.cursor() as cursor:
            cursor.execute("SELECT '1'::numeric, u::text FROM by_psycopg LIMIT 0")
            return [column[0] for column in cursor.description]

    held.hold("ADBC, names of casts", ["numeric", "u"], names)


def plain(value):
    return tuple(value) if isinstance(value, pyarrow.MonthDayNano) else value


def printed(document):
    """A document as JSONB prints it: short names first."""
    if isinstance(document, dict):
        document = {key: document[key] for key in sorted(document, key=lambda key: (len(key), key))}
    return json.dumps(document, ensure_ascii=False)


def unsigned(there, held):
    """Unsigned 64-bit numbers of Arrow and Parquet: what a load makes of them is NUMERIC(20,0) for every driver."""
    values = [2**64 - 1, 2**63, 0, None]
    if there.peer:
        there.execute("CREATE TABLE counters (i BIGINT, v NUMERIC(20, 0))")
        there.execute(f"INSERT INTO counters VALUES (0, {values[0]}), (1, {values[1]}), (2, 0), (3, NULL)")
    else:
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder) / "counters.parquet"
            pyarrow.parquet.write_table(pyarrow.table({"i": [0, 1, 2, 3], "v": pyarrow.array(values, pyarrow.uint64())}), file)
            done = subprocess.run([there.binary, "load", "--host", there.flight, "--user", there.user, "counters", str(file)], text=True, capture_output=True)
            assert done.returncode == 0, done.stderr
    expected = [None if value is None else Decimal(value) for value in values]
    for way in there.WAYS:
        numbers = [value if way != "ADBC" else None if value is None else str(value) for value in expected]
        held.hold("unsigned numbers", [(value,) for value in numbers], lambda: there.ask(way, "SELECT v FROM counters ORDER BY i"), way)
        total = Decimal(2**64 - 1 + 2**63)
        held.hold("sum of unsigned numbers", [(str(total) if way == "ADBC" else total, 3)], lambda: there.ask(way, "SELECT sum(v), count(v) FROM counters"), way)
        held.hold("unsigned numbers, WHERE", [(1,)], lambda: there.ask(way, "SELECT count(*) FROM counters WHERE v = $1", (Decimal(2**64 - 1),)), way)
    kind = "SELECT format_type(atttypid, atttypmod) FROM pg_attribute WHERE attrelid = 'counters'::regclass AND attname = 'v'"
    held.hold("the type of unsigned numbers", [("numeric(20,0)",)], lambda: there.ask("text", kind))
    held.hold("INSERT of unsigned numbers", "INSERT 0 1", lambda: there.ask("asyncpg", "INSERT INTO counters VALUES (4, $1)", (Decimal(2**64 - 1),)))
    held.hold("UPDATE of unsigned numbers", "ERROR 22003", lambda: there.ask("asyncpg", "UPDATE counters SET v = v * 10 WHERE i = 4"))


def run(there, held):
    with_psycopg(there, held)

    async def work():
        connection = await there.connect_asyncpg()
        try:
            await asyncpg_rows(connection, held, there)
        finally:
            await connection.close()

    there.run(work())
    with_adbc(there, held)
    unsigned(there, held)

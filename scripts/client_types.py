"""Values of types through psycopg, asyncpg and ADBC: as literals, as parameters and by COPY, in text and in binary, into tables and back.

Texts and bytes are those of PostgreSQL 15. Part of client_rows.py.
"""

import decimal
import io
import struct
import uuid

import psycopg
from held import outcome
from psycopg import pq


def interval(months, days, micros):
    return struct.pack(">qii", micros, days, months)


def numeric(text):
    """A NUMERIC's binary form: digits of four decimal places each, without the zeros at either end."""
    if text in ("NaN", "Infinity", "-Infinity"):
        return struct.pack(">hhHh", 0, 0, {"NaN": 0xC000, "Infinity": 0xD000, "-Infinity": 0xF000}[text], 0 if text == "NaN" else 32 if "Infinity" in text else 0)
    sign, whole = (0x4000, text[1:]) if text.startswith("-") else (0, text)
    before, _, behind = whole.partition(".")
    scale = len(behind)
    before = before.rjust((len(before) + 3) // 4 * 4, "0")
    behind = behind.ljust((len(behind) + 3) // 4 * 4, "0")
    digits = [int((before + behind)[at : at + 4]) for at in range(0, len(before + behind), 4)]
    weight = len(before) // 4 - 1
    while digits and digits[0] == 0:
        digits, weight = digits[1:], weight - 1
    while digits and digits[-1] == 0:
        digits = digits[:-1]
    return struct.pack(f">hhHH{len(digits)}H", len(digits), weight if digits else 0, sign, scale, *digits)


def day_time(text):
    hours, minutes, seconds = text.split(":")
    return struct.pack(">q", (int(hours) * 3600 + int(minutes) * 60) * 10**6 + int(decimal.Decimal(seconds) * 10**6))


HOUR = 3_600_000_000
NESTED = '{"b": 1,  "a" :[null,{"ü":"\\u00e9 \\ud83d\\ude00 😀"}],"b":2}'

# The type, its OID, how a text becomes bytes, and values: as it may be written, and as PostgreSQL prints it; those of intervals with their bytes.
TYPES = {
    "UUID": (2950, lambda text: uuid.UUID(text).bytes, [
        ("00000000-0000-0000-0000-000000000000",) * 2, ("ffffffff-ffff-ffff-ffff-ffffffffffff",) * 2, ("{A0EEBC999C0B4EF8BB6D6BB9BD380A11}", "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"),
        ("a0ee-bc99-9c0b-4ef8-bb6d-6bb9-bd38-0a12", "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a12"),
    ]),
    "JSON": (114, str.encode, [
        (NESTED, NESTED), ('"\\u0000"', '"\\u0000"'), (" [ 1e400,\n-0, 1.10 ] ", " [ 1e400,\n-0, 1.10 ] "), ("null", "null"), ("{}", "{}"), ('"😀\\ud83d\\ude00"', '"😀\\ud83d\\ude00"'),
    ]),
    "JSONB": (3802, lambda text: b"\1" + text.encode(), [
        (NESTED, '{"a": [null, {"ü": "é 😀 😀"}], "b": 2}'), ('{"bb":1,"a":{"c":{"d":[[[]]]}},"é":null}', '{"a": {"c": {"d": [[[]]]}}, "bb": 1, "é": null}'), ("[1.10, 1e2, -0, 1E-3, 1e30]", "[1.10, 100, 0, 0.001, 1000000000000000000000000000000]"),
        ("123456789012345678901234567890.5", "123456789012345678901234567890.5"), ('"\\t\\"\\\\\\/\\u0007\\u2028"', '"\\t\\"\\\\/\\u0007\u2028"'), ("null", "null"), ("[]", "[]"), ("true", "true"),
    ]),
    "TIME": (1083, day_time, [
        ("00:00", "00:00:00"), ("23:59:59.999999", "23:59:59.999999"), ("24:00:00", "24:00:00"), ("12:34:56.5", "12:34:56.5"), ("04:05:06.7891236", "04:05:06.789124"), ("04:05 PM", "16:05:00"), ("23:59:59.9999999", "24:00:00"),
    ]),
    "INTERVAL": (1186, None, [
        ("0", "00:00:00", interval(0, 0, 0)), ("-1 years -2 mons +3 days -04:05:06.789", "-1 years -2 mons +3 days -04:05:06.789", interval(-14, 3, -14_706_789_000)),
        ("P1Y2M3DT4H5M6.000007S", "1 year 2 mons 3 days 04:05:06.000007", interval(14, 3, 4 * HOUR + 306_000_007)), ("-0.000001 s", "-00:00:00.000001", interval(0, 0, -1)),
        ("2147483647 months", "178956970 years 7 mons", interval(2**31 - 1, 0, 0)), ("-2147483648 months", "-178956970 years -8 mons", interval(-(2**31), 0, 0)),
        ("2147483647 days", "2147483647 days", interval(0, 2**31 - 1, 0)), ("-2147483648 days", "-2147483648 days", interval(0, -(2**31), 0)),
        ("2562047:00:00", "2562047:00:00", interval(0, 0, 2562047 * HOUR)), ("-2562046 hours -59 min", "-2562046:59:00", interval(0, 0, -2562046 * HOUR - 59 * 60_000_000)),
        ("1 mon -1 day", "1 mon -1 days", interval(1, -1, 0)), ("90 min ago", "-01:30:00", interval(0, 0, -HOUR * 3 // 2)),
    ]),
    "NUMERIC": (1700, numeric, [
        ("0", "0"), ("-1.5", "-1.5"), ("1234567890123456789012.1234567890123456",) * 2, ("-9999999999999999999999.9999999999999999",) * 2, ("0.0000000000000001",) * 2, ("1e2", "100"), ("10000",) * 2,
        ("-10000.0001",) * 2,
    ]),
    "NUMERIC(20,0)": (1700, numeric, [("18446744073709551615",) * 2, ("0", "0"), ("-18446744073709551615",) * 2, ("0.5", "1"), ("99999999999999999999",) * 2]),
    "NUMERIC(38,10)": (1700, numeric, [("9999999999999999999999999999.9999999999",) * 2, ("-9999999999999999999999999999.9999999999",) * 2, ("0", "0.0000000000"), ("-0.0000000001",) * 2, ("1.5", "1.5000000000")]),
    "NUMERIC(38,38)": (1700, numeric, [("0." + "9" * 38,) * 2, ("-0." + "0" * 37 + "1",) * 2]),
    "NUMERIC(38,0)": (1700, numeric, [("9" * 38,) * 2, ("-" + "9" * 38,) * 2, ("1" + "0" * 37,) * 2]),
    "CHAR(5)": (1042, str.encode, [("ab", "ab   "), ("", "     "), ("ünïcö", "ünïcö"), (" a ", " a   "), ("😀", "😀    "), ("abcde   ", "abcde")]),
    "CHAR": (1042, str.encode, [("x", "x"), ("😀", "😀"), ("z  ", "z")]),
}
# What JSON has no order and no equality for.
UNEQUAL = {"JSON"}


class Column:
    """A type's values in a table: each way to write has rows of its own, of which the last is NULL."""

    def __init__(self, there, held, name):
        self.there, self.held, self.name = there, held, name
        self.oid, encode, values = TYPES[name]
        self.written = [value[0] for value in values]
        self.texts = [value[1] for value in values]
        self.bytes = [value[2] if len(value) > 2 else encode(value[1]) for value in values]
        self.table = "v_" + "".join(letter if letter.isalnum() else "_" for letter in name.lower())
        self.element = name.lower().split("(")[0].replace("char", "bpchar")
        self.ways = []

    def hold(self, what, expected, ask):
        self.held.hold(f"{self.name}: {what}", expected, ask)

    def make(self):
        self.there.execute(f"CREATE TABLE {self.table} (way TEXT, i INT, v {self.name})")

    def values(self, forms):
        return list(enumerate(forms)) + [(len(forms), None)]

    def write(self):
        """A way to write that fails for a value leaves out its rows, and is told."""
        for way, work in (
            ("literals", self.by_literals), ("text parameters", lambda: self.by_parameters("text parameters", self.written, 0)), ("binary parameters", lambda: self.by_parameters("binary parameters", self.bytes, 1)),
            ("COPY text", self.by_copy_text), ("COPY csv", self.by_copy_csv), ("COPY binary", self.by_copy_binary),
        ):
            try:
                self.there.execute("BEGIN")
                work()
                self.there.execute("COMMIT")
                self.ways.append(way)
            except psycopg.Error as error:
                self.there.execute("ROLLBACK")
                refused = error
                self.hold(f"written by {way}", "taken", lambda: raising(refused))

    def by_literals(self):
        rows = ", ".join(f"('literals', {at}, {quoted(text)})" for at, text in self.values(self.written))
        self.there.execute(f"INSERT INTO {self.table} VALUES {rows}")

    def by_parameters(self, way, forms, format):
        for at, form in self.values(forms):
            value = form.encode() if isinstance(form, str) else form
            self.there.raw(f"INSERT INTO {self.table} VALUES ($1, $2, $3)", [way.encode(), str(at).encode(), value], [25, 23, 0], [0, 0, format])

    def by_copy_text(self):
        with self.there.psycopg.cursor() as cursor, cursor.copy(f"COPY {self.table} FROM STDIN") as copy:
            for at, text in self.values(self.written):
                copy.write(f"COPY text\t{at}\t{escaped(text)}\n")

    def by_copy_csv(self):
        with self.there.psycopg.cursor() as cursor, cursor.copy(f"COPY {self.table} FROM STDIN (FORMAT csv)") as copy:
            for at, text in self.values(self.written):
                # An empty value in quotes is asked for by itself.
                doubled = "" if text is None else '" "' if text == "" else '"' + text.replace('"', '""') + '"'
                copy.write(f"COPY csv,{at},{doubled}\n")

    def by_copy_binary(self):
        with self.there.psycopg.cursor() as cursor, cursor.copy(f"COPY {self.table} FROM STDIN (FORMAT binary)") as copy:
            copy.write(binary_rows([("COPY binary".encode(), struct.pack(">i", at), form) for at, form in self.values(self.bytes)]))

    def read(self, when):
        query = f"SELECT v FROM {self.table} ORDER BY way, i"
        texts = [(None if text is None else text.encode(),) for _ in self.ways for _, text in self.values(self.texts)]
        forms = [(form,) for _ in self.ways for _, form in self.values(self.bytes)]
        self.hold(f"read by the simple protocol{when}", texts, lambda: self.simple(query))
        self.hold(f"read as text{when}", texts, lambda: self.there.raw(query))
        self.hold(f"read in binary{when}", forms, lambda: self.there.raw(query, result=1))
        self.hold(f"read as v::text{when}", [] if self.element == "bpchar" else texts, lambda: [] if self.element == "bpchar" else self.there.raw(f"SELECT v::text FROM {self.table} ORDER BY way, i"))
        copied = f"COPY (SELECT v FROM {self.table} ORDER BY way, i) TO STDOUT"
        self.hold(f"read by COPY text{when}", "".join(f"{escaped(None if text is None else text.decode())}\n" for (text,) in texts), lambda: self.copied(copied).decode())
        self.hold(f"read by COPY binary{when}", binary_rows(forms), lambda: self.copied(f"{copied} (FORMAT binary)"))

    def simple(self, query):
        done = self.there.psycopg.pgconn.exec_(query.encode())
        assert done.status == pq.ExecStatus.TUPLES_OK, done.error_message
        return [(done.get_value(row, 0),) for row in range(done.ntuples)]

    def copied(self, statement):
        body = io.BytesIO()
        with self.there.psycopg.cursor() as cursor, cursor.copy(statement) as copy:
            for piece in copy:
                body.write(piece)
        return body.getvalue()

    def described(self):
        with self.there.psycopg.cursor() as cursor:
            cursor.execute(f"SELECT v FROM {self.table} LIMIT 0", prepare=True)
            column = cursor.pgresult
            modifier = {"CHAR(5)": 9, "CHAR": 5, "NUMERIC(20,0)": 1310724, "NUMERIC(38,10)": 2490382, "NUMERIC(38,38)": 2490410, "NUMERIC(38,0)": 2490372}.get(self.name, -1)
            self.hold("type and modifier", (self.oid, modifier), lambda: (column.ftype(0), column.fmod(0)))

    def parameters(self):
        """Parameters that come back, and parameters that are compared, each in text and binary, with their type told and left open."""
        for oid in (0, self.oid):
            for format, sent in ((0, [written.encode() for written in self.written]), (1, self.bytes)):
                how = f"sent {'in binary' if format else 'as text'}, type {'told' if oid else 'left open'}"
                for result, expected in ((0, [text.encode() for text in self.texts]), (1, self.bytes)):
                    asked = f"SELECT $1::{self.name} AS r{oid}{format}{result}"
                    self.hold(f"$1::{self.name}, {how}, read {'in binary' if result else 'as text'}", expected, lambda: each(lambda value: self.there.raw(asked, [value], [oid], [format], result)[0][0], sent))
                if self.name in UNEQUAL:
                    continue
                # What a column of that scale rounds is not equal to what it became.
                sent = [text.encode() for text in self.texts] if self.name == "NUMERIC(20,0)" and not format else sent
                counts = [str(self.texts.count(text) * len(self.ways)).encode() for text in self.texts]
                asked = f"SELECT count(*) AS w{oid}{format} FROM {self.table} WHERE v = $1"
                self.hold(f"WHERE v = $1, {how}", counts, lambda: each(lambda value: self.there.raw(asked, [value], [oid], [format])[0][0], sent))
        self.hold("a parameter of NULL", [(None,)], lambda: self.there.raw(f"SELECT $1::{self.name}", [None]))

    def meaning(self):
        """Equality, order, groups and lists."""
        table, distinct = self.table, len(set(self.texts))
        if self.name not in UNEQUAL:
            self.hold("GROUP BY", distinct + 1, lambda: len(self.there.raw(f"SELECT v, count(*) FROM {table} GROUP BY v")))
            self.hold("count(DISTINCT)", [(str(distinct).encode(),)], lambda: self.there.raw(f"SELECT count(DISTINCT v) FROM {table}"))
            joined = sum(self.texts.count(text) for text in self.texts) * len(self.ways)
            self.hold("JOIN", [(str(joined).encode(),)], lambda: self.there.raw(f"SELECT count(*) FROM {table} AS a JOIN {table} AS b ON a.v = b.v WHERE a.way = 'literals'"))
            if self.name != "JSONB":
                order = [text.encode() for text, _ in sorted(set(zip(self.texts, self.bytes)), key=self.rank)]
                self.hold("ORDER BY", order, lambda: [row[0] for row in self.there.raw(f"SELECT v FROM {table} WHERE v IS NOT NULL GROUP BY v ORDER BY v")])
            if self.name not in ("JSONB", "UUID"):
                self.hold("min and max", [(order[0], order[-1])], lambda: self.there.raw(f"SELECT min(v), max(v) FROM {table}"))
        self.hold("coalesce", [(self.bytes[0],)], lambda: self.there.raw(f"SELECT coalesce(v, $1) FROM {table} WHERE v IS NULL LIMIT 1", [self.bytes[0]], [0], [1], 1))
        self.hold("CASE", [(self.bytes[-1],)], lambda: self.there.raw(f"SELECT CASE WHEN i < 0 THEN NULL ELSE v END FROM {table} WHERE way = 'literals' AND i = {len(self.bytes) - 1}", result=1))
        union = f"SELECT v FROM {table} WHERE way = 'literals' AND i = 0 UNION ALL SELECT v FROM {table} WHERE way = 'literals' AND i = 1"
        self.hold("UNION ALL", sorted(self.bytes[:2]), lambda: sorted(row[0] for row in self.there.raw(union, result=1)))
        listed = f"SELECT array_agg(v ORDER BY i) FROM {table} WHERE way = 'literals'"
        self.hold("a list, in binary", [(list_bytes(self.oid, [*self.bytes, None]),)], lambda: self.there.raw(listed, result=1))
        self.hold("a list, as text", [(list_text([*self.texts, None]).encode(),)], lambda: self.there.raw(listed))
        if self.name not in UNEQUAL:
            sent = [*self.written[:2], None]
            count = str(sum(self.texts.count(text) for text in self.texts[:2]) * len(self.ways)).encode()
            for element in ("", f"::{self.element}[]"):
                found = f"SELECT count(*) FROM {table} WHERE v = ANY($1{element})"
                self.hold(f"v = ANY($1{element}), as text", [(count,)], lambda: self.there.raw(found, [list_text(sent).encode()]))
                self.hold(f"v = ANY($1{element}), in binary", [(count,)], lambda: self.there.raw(found, [list_bytes(self.oid, [*self.bytes[:2], None])], None, [1]))

    def rank(self, pair):
        text, form = pair
        if self.element == "interval":
            micros, days, months = struct.unpack(">qii", form)
            return ((months * 30 + days) * 24 * HOUR + micros,)
        if self.element == "numeric":
            return (decimal.Decimal(text),)
        return (text.rstrip(" ").encode() if self.element == "bpchar" else text.encode(),)


def raising(error):
    raise error


def each(ask, values):
    """Answers, one for each value, of which some may be errors; one error if all are that."""
    found = [outcome(lambda: ask(value))[0] for value in values]
    return found[0] if isinstance(found[0], str) and len(set(found)) == 1 else found


def quoted(text):
    return "NULL" if text is None else "'" + text.replace("'", "''") + "'"


def escaped(text):
    return "\\N" if text is None else text.replace("\\", "\\\\").replace("\n", "\\n").replace("\t", "\\t")


def binary_rows(rows):
    body = b"PGCOPY\n\xff\r\n\0" + struct.pack(">ii", 0, 0)
    for row in rows:
        body += struct.pack(">h", len(row))
        for value in row:
            body += struct.pack(">i", -1) if value is None else struct.pack(">i", len(value)) + value
    return body + struct.pack(">h", -1)


def list_bytes(oid, values):
    body = struct.pack(">iiIii", 1, int(None in values), oid, len(values), 1)
    return body + b"".join(struct.pack(">i", -1) if value is None else struct.pack(">i", len(value)) + value for value in values)


def list_text(values):
    def item(text):
        if text is None:
            return "NULL"
        plain = text and not set(text) & set('{}",\\ \n\t') and text.upper() != "NULL"
        return text if plain else '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'

    return "{" + ",".join(map(item, values)) + "}"


REFUSED = [
    ("UUID", "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a1", "22P02"), ("UUID", "g0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11", "22P02"), ("JSON", "{", "22P02"), ("JSON", "{'a': 1}", "22P02"), ("JSON", "", "22P02"), ("JSONB", '"\\u0000"', "22P05"),
    ("JSONB", '"\\ud83d"', "22P02"), ("JSONB", "NaN", "22P02"), ("TIME", "24:00:00.000001", "22008"), ("TIME", "25:00", "22008"), ("TIME", "late", "22007"), ("INTERVAL", "2147483648 days", "22015"),
    ("INTERVAL", "1 fortnight", "22007"), ("INTERVAL", "178956971 years", "22008"), ("NUMERIC", "1,5", "22P02"), ("NUMERIC", "", "22P02"), ("NUMERIC(20,0)", "100000000000000000000", "22003"), ("NUMERIC(38,38)", "1", "22003"),
]
# Bytes that are no value; the state that they are refused with.
BAD_BYTES = [
    ("UUID", b"\0" * 15, "08P01"), ("UUID", b"\0" * 17, "22P03"), ("JSON", b"{", "22P02"), ("JSONB", b"\1{", "22P02"), ("JSONB", b"\2{}", "XX000"), ("TIME", struct.pack(">q", 24 * HOUR + 1), "22008"), ("TIME", struct.pack(">q", -1), "22008"),
    ("TIME", b"\0" * 7, "08P01"), ("INTERVAL", b"\0" * 15, "08P01"), ("NUMERIC", struct.pack(">hhHH", 0, 0, 0x1234, 0), "22P03"), ("NUMERIC", struct.pack(">hhHHH", 1, 0, 0, 0, 10000), "22P03"),
    ("CHAR(5)", b"\xff", "22021"),
]


def refused(there, held):
    """What is no value of a type, as a literal, as a parameter and in a column."""
    for kind, text, state in REFUSED:
        held.hold(f"{quoted(text)}::{kind}", f"ERROR {state}", lambda: there.raw(f"SELECT {quoted(text)}::{kind}"))
        held.hold(f"$1::{kind} of {text!r}", f"ERROR {state}", lambda: there.raw(f"SELECT $1::{kind}", [text.encode()]))
    for kind, form, state in BAD_BYTES:
        held.hold(f"$1::{kind} of bytes {form!r}", f"ERROR {state}", lambda: there.raw(f"SELECT $1::{kind}", [form], [TYPES[kind][0]], [1]))
    table = "v_char_5_"
    held.hold("'abcdef' into CHAR(5)", "ERROR 22001", lambda: there.raw(f"INSERT INTO {table} VALUES ('long', 0, $1)", [b"abcdef"]))
    for statement, expected in (
        ("SELECT 'abcdef'::char(5)", b"abcde"), (f"SELECT length(v) FROM {table} WHERE way = 'literals' AND i = 0", b"2"), (f"SELECT v || 'x' FROM {table} WHERE way = 'literals' AND i = 0", b"abx"),
        (f"SELECT octet_length(v) FROM {table} WHERE way = 'literals' AND i = 0", b"5"), (f"SELECT count(*) FROM {table} WHERE v = 'ab  ' AND way = 'literals'", b"1"),
        (f"SELECT count(*) FROM {table} WHERE v LIKE 'ab' AND way = 'literals'", b"0"), (f"SELECT v::text || '.' FROM {table} WHERE way = 'literals' AND i = 0", b"ab."),
        (f"SELECT to_json(v) FROM {table} WHERE way = 'literals' AND i = 0", b'"ab   "'), (f"SELECT upper(v) FROM {table} WHERE way = 'literals' AND i = 0", b"AB"),
    ):
        held.hold(statement, [(expected,)], lambda: there.raw(statement))
    empty = "COPY v_char_5_ FROM STDIN (FORMAT csv)"
    with there.psycopg.cursor() as cursor:
        with cursor.copy(empty) as copy:
            copy.write('quoted,0,""\n')
    held.hold("an empty CHAR(5) in quotes, by COPY csv", [(b"     ",)], lambda: there.raw("SELECT v FROM v_char_5_ WHERE way = 'quoted'"))
    there.execute("CREATE TABLE quoted (v TEXT)")
    with there.psycopg.cursor() as cursor:
        with cursor.copy("COPY quoted FROM STDIN (FORMAT csv)") as copy:
            copy.write('""\n')
    held.hold("an empty TEXT in quotes, by COPY csv", [(b"",)], lambda: there.raw("SELECT v FROM quoted"))
    there.execute("DROP TABLE quoted", "DELETE FROM v_char_5_ WHERE way = 'quoted'")
    held.hold("$1::char of an empty text", [(b" ",)], lambda: there.raw("SELECT $1::char", [b""]))
    held.hold("an empty text in CHAR", [(b" ",)], lambda: through_a_column(there, "CHAR", ""))
    for text in ("1.50", "NaN", "Infinity", "1e30", "0.00000000000000001", "-0.0", "100.00"):
        shown = format(decimal.Decimal(text), "f") if text not in ("NaN", "Infinity") else text
        shown = "0.0" if text == "-0.0" else shown
        held.hold(f"NUMERIC without precision: $1::numeric of {text}", [(shown.encode(),)], lambda: there.raw("SELECT $1::numeric", [text.encode()]))
        held.hold(f"NUMERIC without precision: {text} in a column", [(shown.encode(),)], lambda: through_a_column(there, "NUMERIC", text))
    for text, shown in (("2562047788:00:54.775807", "2562047788:00:54.775807"), ("-2562047788:00:54.775807", "-2562047788:00:54.775807"), ("2562048 hours", "2562048:00:00"), ("-2562047 hours -59 min", "-2562047:59:00")):
        held.hold(f"INTERVAL of {text}", [(shown.encode(),)], lambda: through_a_column(there, "INTERVAL", text))


def through_a_column(there, kind, text):
    there.execute(f"CREATE TABLE passing (v {kind})")
    try:
        there.raw("INSERT INTO passing VALUES ($1)", [text.encode()])
        return there.raw("SELECT v FROM passing")
    finally:
        there.execute("DROP TABLE passing")


def run(there, held):
    columns = [Column(there, held, name) for name in TYPES]
    for column in columns:
        column.make()
        column.write()
        column.described()
        column.read("")
        column.parameters()
        column.meaning()
    refused(there, held)
    if not there.peer:
        there.execute("CALL alluvia.merge()")
        for column in columns:
            column.read(", merged")

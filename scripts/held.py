"""What client_rows.py asks with: a server, connections of each driver, and what is as expected.

Each expectation is what PostgreSQL 15 gives. Where Alluvia is known to give something else, known.py lists its answer; an answer
that changes is a failure, also if it becomes PostgreSQL's.
"""

import asyncio
import datetime
import pathlib
import re
import subprocess
import sys
from contextlib import contextmanager

import adbc_driver_postgresql.dbapi
import asyncpg
import clients
import psycopg
import serving

# An answer of Alluvia that is too long to list: any but PostgreSQL's.
OTHERWISE = object()


class Held:
    """Counts what is as expected, and collects what is not. What is known to differ is listed by what is asked, or by that and a way."""

    def __init__(self, known, peer):
        self.known = {} if peer else known
        self.met, self.failures, self.passed = set(), [], 0

    def hold(self, what, expected, ask, way=None):
        """The answer of `ask`, with an error as `ERROR` and its SQLSTATE, is as expected, or as it is known to differ."""
        expected = plain(expected)
        found, said = outcome(ask)
        exact = f"{what} [{way}]" if way else what
        key = exact if exact in self.known else what
        if key in self.known:
            self.met.add(key)
            gone = repr(found) == repr(expected)
            if repr(found) == repr(self.known[key]) or self.known[key] is OTHERWISE and not gone:
                self.passed += 1
                return
            reason = "is as PostgreSQL's now: remove it from what is known to differ" if gone else f"is not what is known: {self.known[key]!r}"
            self.failures.append(f"{exact}: {found!r}{said} {reason}")
        elif repr(found) == repr(expected):
            self.passed += 1
        else:
            self.failures.append(f"{exact}:\n    found    {found!r:.600}{said}\n    expected {expected!r:.600}")

    def add(self, driver, passed, differing):
        """What a program of another language has held, and its differences: what, found and expected, as texts."""
        self.passed += passed
        for what, found, expected in differing:
            self.hold(f"{driver}: {what}", expected, lambda: found)

    def end(self):
        """The failures of all; what is known to differ and was not asked is one."""
        missed = [f"{key}: is known to differ, and was not asked" for key in self.known if key not in self.met]
        return self.failures + missed


def plain(value):
    """A value so that equal ones have equal texts: moments in UTC, whatever the driver's object for the zone is."""
    if isinstance(value, (list, tuple)):
        return type(value)(plain(part) for part in value)
    if isinstance(value, dict):
        return {key: plain(value[key]) for key in sorted(value)}
    zoned = isinstance(value, datetime.datetime) and value.tzinfo is not None
    return value.astimezone(datetime.timezone.utc) if zoned else value


def outcome(ask):
    """What is answered, and what is said beside an error."""
    try:
        return plain(ask()), ""
    except Exception as error:
        said = f" ({str(error).splitlines()[0] if str(error) else ''})"
        return f"ERROR {getattr(error, 'sqlstate', None) or type(error).__name__}", said


class Target:
    """A server, and connections to it by each driver. Statements are written with $1; ADBC has no simple protocol."""

    WAYS = ("simple", "text", "binary", "asyncpg", "ADBC")

    def __init__(self, host, port, user, database, peer=False, binary=None, flight=None):
        self.host, self.port, self.user, self.database, self.peer = host, port, user, database, peer
        self.binary, self.flight = binary, flight
        self.loop = asyncio.new_event_loop()
        self.url = f"postgresql://{user}@{host}:{port}/{database}"

    def __enter__(self):
        self.psycopg = self.connect()
        self.asyncpg = self.run(self.connect_asyncpg())
        self.adbc = adbc_driver_postgresql.dbapi.connect(self.url, autocommit=True)
        return self

    def __exit__(self, *_):
        self.psycopg.close()
        self.run(self.asyncpg.close())
        self.adbc.close()
        self.loop.close()

    def connect(self, **options):
        return psycopg.connect(self.url, autocommit=True, **options)

    def connect_asyncpg(self):
        return asyncpg.connect(host=self.host, port=self.port, user=self.user, database=self.database)

    def run(self, work):
        return self.loop.run_until_complete(work)

    def execute(self, *statements):
        """Statements for what follows, each of which has to be taken."""
        for statement in statements:
            self.psycopg.execute(statement)

    def ask(self, way, statement, arguments=()):
        """The rows of a statement, as a list of tuples; the tag of one that has none."""
        if way == "asyncpg":
            return self.run(self.ask_asyncpg(statement, arguments))
        if way == "ADBC":
            return self.ask_adbc(statement, arguments)
        simple = way == "simple"
        with (psycopg.ClientCursor if simple else psycopg.RawCursor)(self.psycopg) as cursor:
            if simple:
                cursor.execute(*by_percent(statement, arguments))
            else:
                cursor.execute(statement, arguments or None, prepare=True, binary=way == "binary")
            return cursor.fetchall() if cursor.description else cursor.statusmessage

    async def ask_asyncpg(self, statement, arguments):
        prepared = await self.asyncpg.prepare(statement)
        rows = [tuple(row) for row in await prepared.fetch(*arguments)]
        return rows if prepared.get_attributes() else prepared.get_statusmsg()

    def ask_adbc(self, statement, arguments):
        with self.adbc.cursor() as cursor:
            cursor.execute(statement, arguments or None)
            return [tuple(row) for row in cursor.fetchall()]

    def raw(self, statement, values=(), oids=None, formats=None, result=0):
        """libpq's own call, with bytes as they are: the rows as bytes."""
        pgconn = self.psycopg.pgconn
        done = pgconn.exec_params(statement.encode(), list(values), oids, formats, result)
        if done.status not in (psycopg.pq.ExecStatus.TUPLES_OK, psycopg.pq.ExecStatus.COMMAND_OK):
            raise psycopg.errors.lookup(done.error_field(psycopg.pq.DiagnosticField.SQLSTATE).decode())(done.error_message.decode())
        return [tuple(done.get_value(row, column) for column in range(done.nfields)) for row in range(done.ntuples)]


class Elsewhere:
    """The same by the drivers of Java and of JavaScript, beside this: their programs print what is not as expected, a line each."""

    def __init__(self, cache):
        cache.mkdir(parents=True, exist_ok=True)
        self.commands = {"pgjdbc": [clients.java(), "-cp", clients.pgjdbc(cache), str(clients.HERE / "Rows.java")], "node-postgres": clients.node_postgres(cache, "rows.js")}

    def start(self, there):
        target = [there.host, str(there.port), there.database]
        self.running = {driver: subprocess.Popen([*command, *target], text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE) for driver, command in self.commands.items()}

    def end(self, held):
        for driver, process in self.running.items():
            output, errors = process.communicate(timeout=300)
            *differing, last = output.splitlines() or [""]
            if process.returncode != 0 or not last.endswith(" passed"):
                sys.exit(f"client_rows: {driver}:\n{output[-2000:]}{errors[-4000:]}")
            held.add(driver, int(last.split()[-2]), [line.split("\t")[1:] for line in differing])
            print(f"client_rows: {last}")


def by_percent(statement, arguments):
    if not arguments:
        return statement, None
    order = [int(number) - 1 for number in re.findall(r"\$(\d+)", statement)]
    return re.sub(r"\$\d+", "%s", statement.replace("%", "%%")), [arguments[at] for at in order]


@contextmanager
def target(binary, peer, folder):
    """Alluvia's own server in a folder; or, if a peer is given as HOST:PORT, a database of that PostgreSQL made for this, and dropped."""
    if peer:
        host, port = peer.rsplit(":", 1)
        with psycopg.connect(host=host, port=port, user="alluvia", dbname="postgres", autocommit=True) as connection:
            connection.execute("DROP DATABASE IF EXISTS client_rows")
            connection.execute("CREATE DATABASE client_rows TEMPLATE template0 ENCODING 'UTF8'")
            connection.execute("ALTER DATABASE client_rows SET timezone = 'UTC'")
            try:
                with Target(host, port, "alluvia", "client_rows", peer=True) as found:
                    yield found
            finally:
                connection.execute("DROP DATABASE client_rows WITH (FORCE)")
        return
    with serving.server(binary, pathlib.Path(folder) / "db", "off", flight="127.0.0.1:0") as said:
        port = said[-1].split(" -p ")[1].split()[0]
        flight = next(line.split(" on ")[1].strip() for line in said if "Flight" in line)
        with Target("127.0.0.1", port, "alluvia", "alluvia", binary=binary, flight=flight) as found:
            yield found

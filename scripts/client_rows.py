"""What unmodified clients send, by the drivers that they send it with: psycopg 3, asyncpg, ADBC, psql, pgjdbc, node-postgres.

Usage: client_rows.py PATH_TO_ALLUVIA CACHE_FOLDER [--peer HOST:PORT]

The statements are those of ADBC, pgjdbc, Sequelize, TypeORM, dbt, Metabase, Django, pg_dump, Flyway, Superset, ibis, SQLMesh, Tableau,
pandas and Grafana. They run in the simple and the extended protocol, with results in text and in binary, and their answers are compared
with PostgreSQL 15's; known.py lists what is known to differ. With `--peer` all runs at a PostgreSQL, in a database that is made for it and
dropped (its role alluvia may make databases and roles), and nothing may differ.
"""

import datetime
import logging
import pathlib
import subprocess
import sys
import tempfile

import client_types
import client_values
import psycopg
from held import Elsewhere, Held, outcome, target
from known import KNOWN

UTC = datetime.timezone.utc
logging.getLogger("psycopg").setLevel(logging.ERROR)

ADBC_TYPES = (
    "SELECT oid, typname, typreceive, typbasetype, typrelid, typarray FROM pg_catalog.pg_type WHERE (typreceive != 0 OR typsend != 0)"
    " AND typtype != 'r' AND typreceive::TEXT != 'array_recv'"
)


class Rows:
    def __init__(self, there, held):
        self.there, self.held = there, held

    def all_ways(self, statement, expected, arguments=(), without=(), what=None):
        """A query by each driver, protocol and format."""
        for way in self.there.WAYS:
            if way not in without:
                self.held.hold(what or statement, expected, lambda: self.there.ask(way, statement, arguments), way)

    def tags(self, statement, tag, undo=None):
        """A statement without rows in both protocols; what undoes it stands between."""
        for way in ("simple", "text", "asyncpg"):
            self.held.hold(statement, tag, lambda: self.there.ask(way, statement), way)
            if undo:
                self.there.execute(undo)

    def one(self, what, expected, ask):
        self.held.hold(what, expected, ask)

    def state(self, connection, statement):
        return outcome(lambda: connection.execute(statement).statusmessage)[0]


def tables(rows):
    rows.there.execute(
        "CREATE TABLE airlines (carrier TEXT, name TEXT)",
        "INSERT INTO airlines VALUES ('aa', 'Air A'), ('bb', 'Bär')",
        "CREATE TABLE flights (carrier TEXT, n INT, at TIMESTAMPTZ)",
        "INSERT INTO flights VALUES ('aa', 1, '2020-06-01 12:00+00'), ('aa', 2, '2020-12-31 23:30+00'), ('bb', 3, NULL)",
    )


def adbc_types(rows):
    """ADBC asks for the types first, on every connection."""
    there = rows.there
    wanted = {
        "bool": 1000, "bytea": 1001, "int8": 1016, "int2": 1005, "int4": 1007, "text": 1009, "json": 199, "float4": 1021, "float8": 1022, "bpchar": 1014, "varchar": 1015,
        "date": 1182, "time": 1183, "timestamp": 1115, "timestamptz": 1185, "interval": 1187, "numeric": 1231, "uuid": 2951, "jsonb": 3807, "oid": 1028, "name": 1003,
    }
    for way in there.WAYS:
        rows.held.hold("ADBC's types", wanted, lambda: {row[1]: row[5] for row in there.ask(way, ADBC_TYPES) if row[1] in wanted}, way)
    receivers = "SELECT typname::text, typreceive::text, typreceive::oid::bigint, typreceive = 2408 AS b FROM pg_type WHERE typname IN ('int8', 'uuid', 'jsonb', '_int8') ORDER BY 1"
    rows.all_ways(receivers, [("_int8", "array_recv", 2400, False), ("int8", "int8recv", 2408, True), ("jsonb", "jsonb_recv", 3805, False), ("uuid", "uuid_recv", 2961, False)])
    rows.all_ways("SELECT 'int8recv'::regproc::oid::bigint, 'int8recv'::regproc = 2408, typreceive::oid = 'int8recv'::regproc FROM pg_type WHERE oid = 20", [(2408, True, True)])
    rows.all_ways("SELECT count(*) FROM pg_type WHERE typreceive = $1::oid", [(1,)], (2408,), without=("ADBC",))


def adbc_objects(rows):
    """Keys as lists of int2; options as lists of text; tableoid in catalogs."""
    there = rows.there
    there.execute("CREATE TABLE games (n INT CHECK (n > 0), kind TEXT, id BIGINT, PRIMARY KEY (id, kind))", "COMMENT ON COLUMN games.n IS 'how many'")

    def objects():
        found = there.adbc.adbc_get_objects(depth="all", db_schema_filter="public", table_name_filter="games").read_all().to_pylist()
        table = [table for catalog in found for schema in catalog["catalog_db_schemas"] or [] for table in schema["db_schema_tables"] or []][0]
        constraints = sorted((one["constraint_name"], one["constraint_type"], one["constraint_column_names"]) for one in table["table_constraints"])
        columns = [(one["column_name"], one["ordinal_position"], one["remarks"]) for one in table["table_columns"]]
        return table["table_name"], table["table_type"], columns, constraints

    expected = (
        "games", "table", [("n", 1, "how many"), ("kind", 2, None), ("id", 3, None)],
        [("games_n_check", "CHECK", ["n"]), ("games_pkey", "PRIMARY KEY", ["kind", "id"])],
    )
    found, said = outcome(objects)
    if isinstance(found, tuple):
        # The order within ARRAY_AGG(attname) is not ADBC's to choose.
        found = (*found[:3], [(name, kind, sorted(columns)) for name, kind, columns in found[3]])
        expected = (*expected[:3], [(name, kind, sorted(columns)) for name, kind, columns in expected[3]])
    rows.one("ADBC's get_objects", expected, lambda: found)
    of_games = "FROM pg_constraint WHERE conrelid = 'games'::regclass AND contype = 'p'"
    rows.all_ways(f"SELECT conkey, confkey, conkey[1], cardinality(conkey) {of_games}", [([3, 2], None, 3, 2)])
    rows.all_ways(f"SELECT unnest(conkey)::int AS k {of_games} ORDER BY k", [(2,), (3,)])
    rows.all_ways(f"SELECT k::int FROM pg_constraint CROSS JOIN UNNEST(conkey) AS k WHERE conrelid = 'games'::regclass AND contype = 'p' ORDER BY k", [(2,), (3,)])
    named = (
        "SELECT ARRAY_AGG(attname::text ORDER BY key) FROM (SELECT conrelid, UNNEST(conkey) AS key FROM pg_constraint WHERE conrelid = 'games'::regclass AND contype = 'p') AS keys"
        " JOIN pg_attribute ON attrelid = conrelid AND attnum = key"
    )
    rows.all_ways(named, [(["kind", "id"],)])
    rows.all_ways("SELECT reloptions, pg_typeof(reloptions)::text, tableoid::regclass::text FROM pg_class WHERE oid = 'games'::regclass", [(None, "text[]", "pg_class")])
    rows.all_ways("SELECT pg_typeof(conkey)::text, tableoid = 'pg_constraint'::regclass FROM pg_constraint WHERE conname = 'games_pkey'", [("smallint[]", True)])


def dates_with_zones(rows):
    """pgjdbc's setDate sends a date with the zone's offset, as a text whose type is left open."""
    there = rows.there
    there.execute("CREATE TABLE days (d DATE, t TIMESTAMP, z TIMESTAMPTZ)")
    day, moment, instant = datetime.date(2020, 6, 1), datetime.datetime(2020, 6, 1), datetime.datetime(2020, 5, 31, 22, tzinfo=UTC)
    sent = ("2020-06-01 +02",)
    for way in ("simple", "text", "binary"):
        for kind, value in (("date", day), ("timestamp", moment), ("timestamptz", instant)):
            rows.held.hold(f"'2020-06-01 +02'::{kind}", [(value,)], lambda: there.ask(way, f"SELECT '2020-06-01 +02'::{kind}"), way)
            rows.held.hold(f"'2020-06-01 +02' as a parameter, ::{kind}", [(value,)], lambda: there.ask(way, f"SELECT $1::{kind}", sent), way)
        rows.held.hold("INSERT of '2020-06-01 +02'", "INSERT 0 1", lambda: there.ask(way, "INSERT INTO days VALUES ($1, $2, $3)", sent * 3), way)
        rows.held.hold("WHERE with '2020-06-01 +02'", [(1,)], lambda: there.ask(way, "SELECT count(*) FROM days WHERE d = $1 AND t = $2 AND z = $3", sent * 3), way)
        rows.held.hold("what '2020-06-01 +02' became", [(day, moment, instant)], lambda: there.ask(way, "SELECT * FROM days"), way)
        there.execute("DELETE FROM days")


def columns_of_tables(rows):
    """libpq's PQftable and PQftablecol, in both protocols."""
    there = rows.there
    oid = there.ask("text", "SELECT 'airlines'::regclass::oid::bigint")[0][0]

    def columns(statement, prepare):
        with there.psycopg.cursor() as cursor:
            cursor.execute(statement, prepare=prepare)
            return [(cursor.pgresult.ftable(at) in (0, oid) and bool(cursor.pgresult.ftable(at)), cursor.pgresult.ftablecol(at)) for at in range(cursor.pgresult.nfields)]

    for prepare in (False, True):
        found = columns("SELECT name, a.carrier, name || '!' AS x, 1 FROM airlines AS a", prepare)
        rows.one(f"PQftable, prepared: {prepare}", [(True, 2), (True, 1), (False, 0), (False, 0)], lambda: found)


def functions_in_from(rows):
    rows.all_ways("SELECT * FROM upper($1) AS result", [("ABC",)], ("abc",))
    rows.all_ways("SELECT * FROM upper('abc')", [("ABC",)])
    rows.all_ways("SELECT * FROM upper($1, $2) AS result", "ERROR 42883", ("a", "b"), without=("ADBC",))
    rows.all_ways("SELECT upper.upper FROM upper('abc')", [("ABC",)])
    rows.all_ways("SELECT * FROM current_schema()", [("public",)])
    rows.all_ways("SELECT s.* FROM current_schema() AS s", [("public",)])
    rows.all_ways("SELECT n = now(), pg_typeof(n)::text FROM now() AS n", [(True, "timestamp with time zone")])
    rows.all_ways("SELECT * FROM current_database()", [(rows.there.database,)])
    rows.all_ways("SELECT f.x || '!' FROM lower('ABC') AS f(x)", [("abc!",)])
    rows.all_ways("SELECT x FROM abs($1::int) AS x WHERE x > 4", [(5,)], (-5,), without=("ADBC",))
    rows.all_ways("SELECT a.carrier, u FROM airlines AS a, upper(a.name) AS u ORDER BY a.carrier", [("aa", "AIR A"), ("bb", "BÄR")])
    rows.all_ways("SELECT a.carrier, u.v FROM airlines AS a CROSS JOIN LATERAL length(a.name) AS u(v) ORDER BY a.carrier", [("aa", 5), ("bb", 3)])
    rows.all_ways("SELECT * FROM nothing_here(1)", "ERROR 42883", without=("ADBC",))


def zones(rows):
    """Sequelize, Metabase and Django set the session's zone, each in its own way."""
    there = rows.there
    there.execute("CREATE TABLE moments (z TIMESTAMPTZ)", "INSERT INTO moments VALUES ('2020-06-01 12:00+00')")

    async def by_asyncpg(setting):
        await there.asyncpg.execute(setting)
        text = await there.asyncpg.fetchrow("SELECT z::text, date_trunc('day', z)::text, extract(hour FROM z)::int FROM moments")
        inserted = await there.asyncpg.fetchval("SELECT ('2020-06-01 12:00' || ':00')::timestamptz")
        shown = await there.asyncpg.fetchval("SHOW timezone")
        await there.asyncpg.execute("RESET timezone")
        return shown, *tuple(text), inserted.astimezone(UTC).hour

    def by_psycopg(setting, prepare):
        there.psycopg.execute(setting, prepare=prepare)
        shown = there.psycopg.execute("SHOW timezone", prepare=prepare).fetchone()[0]
        text = there.psycopg.execute("SELECT z::text, date_trunc('day', z)::text, extract(hour FROM z)::int FROM moments", prepare=prepare).fetchone()
        with there.psycopg.cursor(binary=prepare) as cursor:
            moment = cursor.execute("SELECT ('2020-06-01 12:00' || ':00')::timestamptz", prepare=prepare).fetchone()[0]
        there.psycopg.execute("RESET timezone")
        return shown, *text, moment.astimezone(UTC).hour

    for setting, expected in (
        ("SET TIME ZONE INTERVAL '+00:00' HOUR TO MINUTE", ("<+00>-00", "2020-06-01 12:00:00+00", "2020-06-01 00:00:00+00", 12, 12)),
        ("SET TIME ZONE INTERVAL '+05:30' HOUR TO MINUTE", ("<+05:30>-05:30", "2020-06-01 17:30:00+05:30", "2020-06-01 00:00:00+05:30", 17, 6)),
        ("SET TIME ZONE INTERVAL '-08:00' HOUR TO MINUTE", ("<-08>+08", "2020-06-01 04:00:00-08", "2020-06-01 00:00:00-08", 4, 20)),
        ("SET SESSION TIMEZONE TO 'America/New_York'", ("America/New_York", "2020-06-01 08:00:00-04", "2020-06-01 00:00:00-04", 8, 16)),
        ("SELECT set_config('TimeZone', 'Europe/Berlin', false)", ("Europe/Berlin", "2020-06-01 14:00:00+02", "2020-06-01 00:00:00+02", 14, 10)),
        ("SET TIME ZONE 'UTC'", ("UTC", "2020-06-01 12:00:00+00", "2020-06-01 00:00:00+00", 12, 12)),
        ("SET timezone = 'Nowhere/Else'", "ERROR 22023"),
    ):
        for way, ask in (("simple", lambda: by_psycopg(setting, False)), ("binary", lambda: by_psycopg(setting, True)), ("asyncpg", lambda: there.run(by_asyncpg(setting)))):
            rows.held.hold(setting, expected, ask, way)
    rows.all_ways("SELECT ('2020-06-01 12:00' || '')::timestamptz", [(datetime.datetime(2020, 6, 1, 12, tzinfo=UTC),)])
    rows.all_ways("SELECT set_config('TimeZone', $1, true)", [("Asia/Tokyo",)], ("Asia/Tokyo",))
    rows.one("ParameterStatus of TimeZone", ("America/New_York", "UTC"), lambda: reported(there.psycopg))


def reported(connection):
    """What the server reports to libpq when a setting changes."""
    before = connection.info.parameter_status("TimeZone")
    connection.execute("SET SESSION TIMEZONE TO 'America/New_York'")
    changed = connection.info.parameter_status("TimeZone")
    connection.execute("SET timezone = 'UTC'")
    back = connection.info.parameter_status("TimeZone")
    connection.execute("RESET timezone")
    return changed, back if before else before


def settings(rows):
    """pg_dump and createdb empty the search path; others read and set what they find in pg_settings."""
    there = rows.there
    with there.connect() as connection:
        asked = [
            ("SELECT pg_catalog.set_config('search_path', '', false)", [("",)]), ("SELECT count(*) FROM public.flights", [(3,)]), ("SELECT count(*) FROM flights", "ERROR 42P01"),
            ("SELECT current_schema()", [(None,)]), ("SELECT current_setting('search' || '_path')", [("",)]), ("SHOW search_path", [('',)]),
            ("SELECT 'public.flights'::regclass::text", [("public.flights",)]), ("SELECT pg_catalog.set_config('search_path', 'public', false)", [("public",)]),
            ("SELECT count(*) FROM flights", [(3,)]),
        ]
        for statement, expected in asked:
            rows.one(f"pg_dump: {statement}", expected, lambda: connection.execute(statement, prepare=True).fetchall())
    with there.connect() as connection:
        names = connection.execute("SELECT name FROM pg_settings ORDER BY name").fetchall()
        rows.one("current_setting of every setting", len(names), lambda: len(connection.execute("SELECT current_setting(s.name) FROM pg_settings s").fetchall()))
        for name, value, shown in (
            ("statement_timeout", "5s", "5s"), ("statement_timeout", "60000", "1min"), ("extra_float_digits", "3", "3"), ("application_name", "mine", "mine"), ("client_min_messages", "warning", "warning"),
            ("DateStyle", "ISO, MDY", "ISO, MDY"), ("IntervalStyle", "postgres", "postgres"), ("standard_conforming_strings", "on", "on"), ("bytea_output", "hex", "hex"), ("lock_timeout", "0", "0"),
            ("idle_in_transaction_session_timeout", "0", "0"), ("row_security", "off", "off"), ("client_encoding", "UTF8", "UTF8"), ("synchronize_seqscans", "off", "off"),
            ("default_transaction_isolation", "repeatable read", "repeatable read"), ("my.own", "x", "x"), ("work_mem", "64MB", "64MB"), ("search_path", "public, pg_catalog", "public, pg_catalog"),
        ):
            rows.one(f"set_config('{name}', '{value}')", (shown,), lambda: connection.execute("SELECT set_config(%s, %s, false)", (name, value)).fetchone())
            rows.one(f"set_config('{name}', '{value}'), what is then", (shown,), lambda: connection.execute("SELECT current_setting(%s)", (name,)).fetchone())
        at_once = "SELECT set_config('application_name', 'both', false), current_setting('application_name')"
        rows.one(at_once, ("both", "both"), lambda: connection.execute(at_once).fetchone())
    with there.connect() as connection:
        for statement, expected in (
            ("SELECT current_setting('no.such', true)", [(None,)]), ("SELECT current_setting('nosuch')", "ERROR 42704"), ("SELECT set_config('nosuch', 'x', false)", "ERROR 42704"),
            ("SELECT set_config('statement_timeout', 'soon', false)", "ERROR 22023"),
        ):
            rows.one(statement, expected, lambda: connection.execute(statement).fetchall())
        local = connection.transaction()
        with local:
            rows.one("set_config for a transaction", [("7s",)], lambda: connection.execute("SELECT set_config('statement_timeout', '7s', true)").fetchall())
        rows.one("after it", False, lambda: connection.execute("SHOW statement_timeout").fetchone()[0] == "7s")
        connection.execute("BEGIN")
        connection.execute("SELECT set_config('application_name', 'gone', false)")
        connection.execute("ROLLBACK")
        rows.one("set_config and ROLLBACK", False, lambda: connection.execute("SHOW application_name").fetchone()[0] == "gone")


def names(rows):
    """TypeORM's and psql's expressions that are names of things."""
    rows.all_ways("SELECT ('air' || 'lines')::regclass::text, ('int' || '8')::regtype::text, 'airlines'::regclass = ('air' || 'lines')::regclass", [("airlines", "bigint", True)])
    rows.all_ways("SELECT ($1::text || 'lines')::regclass::text", [("airlines",)], ("air",))
    rows.all_ways("SELECT (x || 'lines')::regclass::text FROM (VALUES ('air')) AS v(x)", [("airlines",)])
    rows.all_ways("SELECT ('no' || 'thing')::regclass", "ERROR 42P01", without=("ADBC",))
    rows.all_ways("SELECT ('no' || 'thing')::regtype", "ERROR 42704", without=("ADBC",))
    rows.all_ways("SELECT current_setting(s.name) FROM pg_settings AS s WHERE s.name = 'server_encoding'", [("UTF8",)])
    rows.all_ways("SELECT pg_tablespace_size('pg_default') > 0, pg_tablespace_size(oid) >= 0 FROM pg_tablespace WHERE spcname = 'pg_default'", [(True, True)])
    rows.all_ways("SELECT count(*) FROM pg_partition_tree('airlines')", [(0,)])
    rows.all_ways("SHOW password_encryption", [("scram-sha-256",)], without=("ADBC",))


def psql(rows):
    there = rows.there
    there.execute("CREATE VIEW shown AS SELECT carrier FROM airlines")

    def said(command):
        done = subprocess.run(["psql", "-X", "-At", "-v", "ON_ERROR_STOP=1", "-c", command, there.url], text=True, capture_output=True)
        return done.stdout if done.returncode == 0 else f"ERROR {done.stderr}"

    for command, part in ((r"\sv shown", "SELECT"), (r"\dconfig *", "TimeZone|"), (r"\db+", "pg_default|"), (r"\dL", ""), (r"\dP+", ""), (r"\dconfig search_path", "search_path|")):
        found = said(command)
        rows.one(f"psql {command}", True, lambda: part in found and not found.startswith("ERROR"))
    there.execute("DROP VIEW shown")


def locks(rows):
    """Flyway's and others' advisory locks, of two sessions."""
    there = rows.there
    key = 77433833903597
    with there.connect() as one, there.connect() as other:

        def asked(connection, statement):
            return connection.execute(statement, prepare=True).fetchone()[0]

        for connection, statement, expected in (
            (one, "BEGIN", None), (one, f"SELECT pg_try_advisory_xact_lock({key})", True), (one, f"SELECT pg_try_advisory_xact_lock({key})", True), (other, f"SELECT pg_try_advisory_lock({key})", False),
            (other, f"SELECT pg_try_advisory_lock_shared({key})", False), (other, f"SELECT pg_try_advisory_lock({key} + 1)", True), (one, "COMMIT", None), (other, f"SELECT pg_try_advisory_lock({key})", True),
            (one, f"SELECT pg_try_advisory_lock({key})", False), (other, f"SELECT pg_advisory_unlock({key})", True), (other, f"SELECT pg_advisory_unlock({key})", False),
            (one, f"SELECT pg_try_advisory_lock_shared({key})", True), (other, f"SELECT pg_try_advisory_lock_shared({key})", True), (other, "SELECT pg_advisory_unlock_all()", ""),
            (one, f"SELECT pg_advisory_unlock_shared({key})", True), (one, "SELECT pg_advisory_lock(1, 2)", ""), (other, "SELECT pg_try_advisory_lock(1, 2)", False),
            (other, "SELECT pg_try_advisory_lock(2, 1)", True), (one, "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND pid = pg_backend_pid() AND granted", 1),
        ):
            if expected is None:
                connection.execute(statement)
            else:
                rows.one(f"locks: {statement} {'of another' if connection is other else ''}", expected, lambda: asked(connection, statement))
    rows.all_ways("SELECT pg_try_advisory_xact_lock($1::bigint)", [(True,)], (key,))


def views(rows):
    """dbt, Superset, ibis and SQLMesh make, replace, rename and drop views."""
    there = rows.there
    name = f'"{there.database}"."public"'
    rows.tags(f'create view {name}."m__dbt_tmp" as (\n select carrier, n from {name}."flights" where n > 1\n)', "CREATE VIEW", 'DROP VIEW "m__dbt_tmp" CASCADE')
    there.execute(f'create view {name}."m__dbt_tmp" as (select carrier, n from {name}."flights" where n > 1)')
    rows.all_ways('SELECT * FROM m__dbt_tmp ORDER BY n', [("aa", 2), ("bb", 3)])
    rows.tags(f'alter view {name}."m__dbt_tmp" rename to "m"', "ALTER VIEW", 'ALTER VIEW m RENAME TO m__dbt_tmp')
    there.execute(f'alter table {name}."m__dbt_tmp" rename to "m"')
    rows.all_ways("SELECT count(*), sum(n)::int FROM m", [(2, 5)])
    rows.tags("CREATE OR REPLACE VIEW m AS SELECT carrier, n, n * 2 AS twice FROM flights", "CREATE VIEW")
    rows.all_ways("SELECT max(twice) FROM m", [(6,)])
    rows.one("CREATE OR REPLACE VIEW with other columns", "ERROR 42P16", lambda: rows.state(there.psycopg, "CREATE OR REPLACE VIEW m AS SELECT n FROM flights"))
    there.execute("CREATE VIEW upon AS SELECT twice FROM m")
    rows.one("DROP VIEW of what another reads", "ERROR 2BP01", lambda: rows.state(there.psycopg, "DROP VIEW m"))
    rows.one("DROP TABLE of what a view reads", "ERROR 2BP01", lambda: rows.state(there.psycopg, "DROP TABLE flights"))
    rows.one("DROP TABLE of a view", "ERROR 42809", lambda: rows.state(there.psycopg, "DROP TABLE m"))
    rows.one("INSERT INTO a view of expressions", "ERROR 55000", lambda: rows.state(there.psycopg, "CREATE VIEW counted AS SELECT count(*) AS n FROM flights; INSERT INTO counted VALUES (1)"))
    rows.one("DROP VIEW IF EXISTS", "DROP VIEW", lambda: rows.state(there.psycopg, "DROP VIEW IF EXISTS counted, never CASCADE"))
    rows.all_ways("SELECT table_name::text FROM information_schema.views WHERE table_schema = 'public' ORDER BY 1", [("m",), ("upon",)])
    rows.all_ways("SELECT relkind::text, pg_get_viewdef(oid) LIKE '%flights%' FROM pg_class WHERE relname = 'm'", [("v", True)])
    rows.one("DROP VIEW CASCADE", "DROP VIEW", lambda: rows.state(there.psycopg, f'drop view if exists {name}."m" cascade'))
    rows.one("a view that went with another", "ERROR 42P01", lambda: rows.state(there.psycopg, "SELECT * FROM upon"))
    with there.connect() as connection:
        rows.one("CREATE TEMPORARY VIEW", "CREATE VIEW", lambda: rows.state(connection, "CREATE TEMPORARY VIEW passing AS SELECT carrier, n FROM flights WHERE n = 3"))
        rows.one("a temporary view", [("bb", 3)], lambda: connection.execute("SELECT * FROM passing").fetchall())
        rows.one("a temporary view of another session", "ERROR 42P01", lambda: rows.state(there.psycopg, "SELECT * FROM passing"))


def temporary(rows):
    """dbt's second incremental run, ibis' memtable, Tableau's extracts."""
    there = rows.there
    with there.connect() as connection:
        for statement, expected in (
            ('create temporary table "m__dbt_tmp2026" as (select carrier, n from flights where n < 3)', "SELECT 2"), ("CREATE TEMPORARY TABLE t (a BIGINT, b TEXT, c NUMERIC(10, 2))", "CREATE TABLE"),
            ("INSERT INTO t VALUES (1, 'x', 1.5), (2, NULL, NULL)", "INSERT 0 2"), ("UPDATE t SET b = 'y' WHERE a = 2", "UPDATE 1"), ("DELETE FROM t WHERE a = 1", "DELETE 1"),
            ("CREATE TEMPORARY TABLE airlines (other INT)", "CREATE TABLE"), ("CREATE LOCAL TEMPORARY TABLE kept (a INT) ON COMMIT PRESERVE ROWS", "CREATE TABLE"),
        ):
            rows.one(statement, expected, lambda: rows.state(connection, statement))
        for binary in (False, True):
            with connection.cursor(binary=binary) as cursor:
                rows.one(f"a temporary table's rows, binary={binary}", [(2, "y", None)], lambda: cursor.execute("SELECT * FROM t").fetchall())
                rows.one(f"a temporary table before another of its name, binary={binary}", [], lambda: cursor.execute("SELECT other FROM airlines").fetchall())
                rows.one(f"the other by its schema, binary={binary}", 2, lambda: len(cursor.execute("SELECT * FROM public.airlines").fetchall()))
        rows.one("temporary tables in the catalog", [("t",)], lambda: connection.execute("SELECT relname::text FROM pg_class WHERE relpersistence = 't' AND relname = 't'").fetchall())
        for name in ("t", "kept", '"m__dbt_tmp2026"'):
            rows.one(f"{name} of another session", "ERROR 42P01", lambda: rows.state(there.psycopg, f"SELECT * FROM {name}"))
        joined = 'SELECT f.n, d.n FROM flights AS f JOIN "m__dbt_tmp2026" AS d USING (n) ORDER BY 1'
        rows.one("a join with a temporary table", [(1, 1), (2, 2)], lambda: connection.execute(joined).fetchall())
        connection.execute("BEGIN")
        connection.execute("CREATE TEMPORARY TABLE gone ON COMMIT DROP AS SELECT 1 AS a")
        rows.one("ON COMMIT DROP before", [(1,)], lambda: connection.execute("SELECT a FROM gone").fetchall())
        connection.execute("COMMIT")
        rows.one("ON COMMIT DROP after", "ERROR 42P01", lambda: rows.state(connection, "SELECT a FROM gone"))
        with connection.cursor() as cursor:
            with cursor.copy("COPY t FROM STDIN") as copy:
                copy.write("7\tseven\t7.25\n")
        rows.one("COPY into a temporary table", [(7, "seven", "7.25")], lambda: [(a, b, str(c)) for a, b, c in connection.execute("SELECT * FROM t WHERE a = 7").fetchall()])
    rows.one("a table of the name of a temporary one", [(2,)], lambda: there.psycopg.execute("SELECT count(*) FROM airlines").fetchall())


def schemas(rows):
    there = rows.there
    rows.tags('create schema if not exists "public_dbt_test__audit"', "CREATE SCHEMA")
    rows.one("CREATE SCHEMA again", "ERROR 42P06", lambda: rows.state(there.psycopg, 'CREATE SCHEMA "public_dbt_test__audit"'))
    there.execute('CREATE TABLE "public_dbt_test__audit".t (a INT)', 'INSERT INTO "public_dbt_test__audit".t VALUES (5)', "CREATE TABLE t (a INT)", "INSERT INTO t VALUES (6)")
    rows.all_ways(f'SELECT a FROM "{there.database}"."public_dbt_test__audit"."t"', [(5,)])
    rows.all_ways("SELECT a FROM t", [(6,)])
    with there.connect() as connection:
        connection.execute('SET search_path TO "public_dbt_test__audit", public')
        rows.one("search_path", ([(5,)], [(3,)]), lambda: (connection.execute("SELECT a FROM t").fetchall(), connection.execute("SELECT count(*) FROM flights").fetchall()))
        rows.one("current_schemas", [("public_dbt_test__audit", ["public_dbt_test__audit", "public"])], lambda: connection.execute("SELECT current_schema()::text, current_schemas(false)::text[]").fetchall())
    with there.connect(options="-c search_path=public_dbt_test__audit") as connection:
        rows.one("search_path of the connection", [(5,)], lambda: connection.execute("SELECT a FROM t").fetchall())
    rows.all_ways("SELECT table_schema::text FROM information_schema.tables WHERE table_name = 't' ORDER BY 1", [("public",), ("public_dbt_test__audit",)])
    rows.one("DROP SCHEMA of what holds something", "ERROR 2BP01", lambda: rows.state(there.psycopg, 'DROP SCHEMA "public_dbt_test__audit"'))
    rows.one("DROP SCHEMA CASCADE", "DROP SCHEMA", lambda: rows.state(there.psycopg, 'DROP SCHEMA IF EXISTS "public_dbt_test__audit" CASCADE'))
    there.execute("DROP TABLE t")


def comments_and_grants(rows):
    """dbt's persist_docs and grants, in its transaction."""
    there = rows.there
    there.execute("CREATE ROLE bob")
    try:
        asked = "SELECT obj_description('flights'::regclass, 'pg_class'), col_description('flights'::regclass, 2), has_table_privilege('bob', 'flights', 'SELECT'), has_table_privilege('bob', 'flights', 'INSERT')"
        name = f'"{there.database}"."public"."flights"'
        for end, expected in (("ROLLBACK", [(None, None, False, False)]), ("COMMIT", [("it's $ a 'table'", "a number", True, False)])):
            for statement in (
                "BEGIN", f"comment on table {name} is $dbt_comment_literal_block$it's $ a 'table'$dbt_comment_literal_block$;", f"comment on column {name}.n is $dbt$a number$dbt$",
                f"grant select on {name} to bob", end,
            ):
                rows.one(f"dbt: {statement} ({end})", True, lambda: not rows.state(there.psycopg, statement).startswith("ERROR"))
            rows.all_ways(asked, expected, what=f"comments and grants after {end}")
        rows.one("REVOKE", "REVOKE", lambda: rows.state(there.psycopg, f"revoke select on {name} from bob"))
        rows.one("GRANT to nobody that is there", "ERROR 42704", lambda: rows.state(there.psycopg, "GRANT SELECT ON flights TO nobody_here"))
    finally:
        there.execute("DROP ROLE bob")


def indexes(rows):
    """pandas' to_sql and dbt's hooks: taken, with a notice that they change nothing."""
    there = rows.there
    for statement, tag, undo in (
        ("CREATE INDEX ix_flights_n ON flights (n)", "CREATE INDEX", "DROP INDEX IF EXISTS ix_flights_n"), ('create index if not exists "ix" on "public"."flights" using btree (carrier, n)', "CREATE INDEX", 'DROP INDEX IF EXISTS "ix"'),
        ("CREATE INDEX ON flights (n DESC)", "CREATE INDEX", None), ("ANALYZE flights", "ANALYZE", None), ("ANALYZE", "ANALYZE", None), ("VACUUM", "VACUUM", None), ("VACUUM ANALYZE flights", "VACUUM", None),
        ("CREATE UNLOGGED TABLE quick (a INT)", "CREATE TABLE", "DROP TABLE quick"), ("REINDEX TABLE flights", "REINDEX", None),
    ):
        rows.tags(statement, tag, undo)
    rows.one("CREATE INDEX of no column", "ERROR 42703", lambda: rows.state(there.psycopg, "CREATE INDEX i ON flights (nothing)"))
    rows.one("CREATE INDEX of no table", "ERROR 42P01", lambda: rows.state(there.psycopg, "CREATE INDEX i ON nothing (a)"))
    rows.one("CREATE UNIQUE INDEX", "CREATE INDEX", lambda: rows.state(there.psycopg, "CREATE UNIQUE INDEX once ON flights (n)"))
    if not there.peer:
        notices = []
        with there.connect() as connection:
            connection.add_notice_handler(lambda notice: notices.append(notice.message_primary))
            for statement in ("CREATE INDEX told ON flights (n)", "ANALYZE flights", "VACUUM"):
                notices.clear()
                connection.execute(statement)
                rows.one(f"{statement} tells that it changes nothing", True, lambda: len(notices) == 1)


def qualified_stars(rows):
    there = rows.there
    name = f'"{there.database}"."public"'
    whole = f'SELECT flights.carrier, airlines.* FROM {name}."flights" JOIN {name}."airlines" ON flights.carrier = airlines.carrier WHERE n = 1'
    rows.all_ways(whole, [("aa", "aa", "Air A")])
    rows.all_ways(f'SELECT flights.*, a.name FROM {name}."flights" JOIN {name}."airlines" a USING (carrier) WHERE n = 3', [("bb", 3, None, "Bär")])
    rows.all_ways('SELECT columns.* FROM "information_schema"."columns" WHERE 1 = 0', [])
    rows.all_ways('SELECT "columns".column_name::text, ("columns".ordinal_position)::int FROM "information_schema"."columns" WHERE table_name = \'airlines\' ORDER BY 2', [("carrier", 1), ("name", 2)])
    rows.all_ways("SELECT public.airlines.name FROM public.airlines WHERE airlines.carrier = $1", [("Bär",)], ("bb",))


def buckets(rows):
    """Grafana's switch for TimescaleDB; PostgreSQL has no such function, and what date_bin gives is right."""
    if rows.there.peer:
        rows.one("time_bucket", "ERROR 42883", lambda: rows.state(rows.there.psycopg, "SELECT time_bucket('3600.000s', at) FROM flights"))
        return
    moment = datetime.datetime(2020, 6, 1, 12, tzinfo=UTC)
    statement = "SELECT time_bucket('3600.000s', at) AS \"time\", count(*) FROM flights WHERE at BETWEEN '2020-06-01T12:00:00Z' AND '2020-06-01T13:00:00Z' GROUP BY 1 ORDER BY 1"
    for way in rows.there.WAYS:
        rows.held.hold(statement, [(moment, 1)], lambda: rows.there.ask(way, statement), way)
    rows.all_ways("SELECT bool_and(time_bucket('300s', at) = date_bin('300s', at, '2000-01-03'::timestamptz)) FROM flights", [(True,)])


PARTS = (
    tables, adbc_types, adbc_objects, dates_with_zones, columns_of_tables, functions_in_from, zones, settings, names, psql, locks, views, temporary, schemas, comments_and_grants,
    indexes, qualified_stars, buckets,
)


def main():
    arguments = sys.argv[1:]
    peer = None
    if "--peer" in arguments:
        at = arguments.index("--peer")
        peer = arguments[at + 1]
        del arguments[at : at + 2]
    if len(arguments) != 2:
        sys.exit(__doc__.strip())
    held, elsewhere = Held(KNOWN, peer), Elsewhere(pathlib.Path(arguments[1]))
    with tempfile.TemporaryDirectory() as folder, target(arguments[0], peer, folder) as there:
        elsewhere.start(there)
        rows = Rows(there, held)
        for part in PARTS:
            part(rows)
        client_types.run(there, held)
        client_values.run(there, held)
        elsewhere.end(held)
    failures = held.end()
    for failure in failures:
        print(failure)
    print(f"{held.passed} passed, {len(failures)} failed")
    sys.exit(bool(failures))


if __name__ == "__main__":
    main()

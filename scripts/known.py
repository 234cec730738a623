"""What Alluvia is known to answer otherwise than PostgreSQL 15, of what client_rows.py asks: its answers, by what was asked.

An entry whose answer changes fails the script, also if it becomes PostgreSQL's: then it goes.
"""

from held import OTHERWISE

KNOWN = {
    # Bytes that are no value.
    "$1::UUID of bytes b'\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x00'": 'ERROR 22P03',
    "$1::JSONB of bytes b'\\x02{}'": 'ERROR 22P03',
    "$1::TIME of bytes b'\\x00\\x00\\x00\\x00\\x00\\x00\\x00'": 'ERROR 22P03',
    "$1::INTERVAL of bytes b'\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x00'": 'ERROR 22P03',
    "$1::NUMERIC of bytes b'\\x00\\x00\\x00\\x00\\x124\\x00\\x00'": [(b'0',)],
    # CHAR(n): blanks at the end are those of results, and not of what is made of them (docs/SQL.md).
    "CHAR(5): min and max": [(b'', b'\xf0\x9f\x98\x80')],
    "CHAR(5): coalesce": [(b'ab',)],
    "CHAR(5): a list, in binary": OTHERWISE,
    "CHAR(5): a list, as text": [(b'{ab,"",\xc3\xbcn\xc3\xafc\xc3\xb6," a",\xf0\x9f\x98\x80,abcde,NULL}',)],
    "CHAR: a list, in binary": OTHERWISE,
    "SELECT octet_length(v) FROM v_char_5_ WHERE way = 'literals' AND i = 0": [(b'2',)],
    "SELECT count(*) FROM v_char_5_ WHERE v LIKE 'ab' AND way = 'literals'": [(b'1',)],
    "SELECT to_json(v) FROM v_char_5_ WHERE way = 'literals' AND i = 0": [(b'"ab"',)],
    "an empty CHAR(5) in quotes, by COPY csv": [(None,)],
    "$1::char of an empty text": [(b'',)],
    "psycopg, SELECT array_agg(c ORDER BY i) FROM (SELECT DISTINCT ON (i) i, c FROM by_psycopg ORDER BY i) AS t, binary=False": (['ab', 'ünïcö', None],),
    "psycopg, SELECT array_agg(c ORDER BY i) FROM (SELECT DISTINCT ON (i) i, c FROM by_psycopg ORDER BY i) AS t, binary=True": (['ab', 'ünïcö', None],),
    "asyncpg, SELECT array_agg(c ORDER BY i) FROM (SELECT DISTINCT ON (i) i, c FROM by_asyncpg ORDER BY i) AS t": ['ab', 'ünïcö', None],
    "asyncpg, $1::bpchar[] of c": 'ERROR 22000',
    # Asked of pg_type and of other catalogs.
    "SELECT typname::text, typreceive::text, typreceive::oid::bigint, typreceive = 2408 AS b FROM pg_type WHERE typname IN ('int8', 'uuid', 'jsonb', '_int8') ORDER BY 1": OTHERWISE,
    "SELECT 'int8recv'::regproc::oid::bigint, 'int8recv'::regproc = 2408, typreceive::oid = 'int8recv'::regproc FROM pg_type WHERE oid = 20": 'ERROR 22P02',
    "SELECT count(*) FROM pg_type WHERE typreceive = $1::oid": 'ERROR 22P02',
    "pg_dump: SELECT 'public.flights'::regclass::text": [('16386',)],
    "SELECT count(*) FROM pg_partition_tree('airlines')": [(1,)],
    "psql \\dconfig *": False,
    "SELECT relkind::text, pg_get_viewdef(oid) LIKE '%flights%' FROM pg_class WHERE relname = 'm' [asyncpg]": [(b'v', True)],
    # The order of columns is not that of the table.
    "ADBC's get_objects": OTHERWISE,
    # Zones behind texts are those of dates in parameters alone (docs/KNOWN.md).
    "'2020-06-01 +02'::date": 'ERROR 22P02',
    "'2020-06-01 +02' as a parameter, ::date [simple]": 'ERROR 22P02',
    "'2020-06-01 +02'::timestamp": OTHERWISE,
    "'2020-06-01 +02' as a parameter, ::timestamp [simple]": OTHERWISE,
    "WHERE with '2020-06-01 +02' [simple]": 'ERROR 22P02',
    "what '2020-06-01 +02' became [simple]": OTHERWISE,
    "pgjdbc: what setDate wrote, simple": '[[2020-06-01, 2020-05-31 22:00:00, 2020-05-31 22:00:00, 10:11:12]]',
    "pgjdbc: what setTimestamp wrote, simple": '[[2020-06-01, 2020-06-01 08:11:12.5, 2020-06-01 08:11:12.5, 10:11:12]]',
    "pgjdbc: WHERE d = setDate, simple": 'ERROR 22P02',
    "pgjdbc: getDate and its kin, simple": '2020-06-01|2020-05-31 22:00:00.0|2020-06-01 00:00:00.0|10:11:12|2020-05-31T22:00Z',
    # Functions in FROM: of columns beside them.
    "SELECT a.carrier, u FROM airlines AS a, upper(a.name) AS u ORDER BY a.carrier": 'ERROR 42703',
    "SELECT a.carrier, u.v FROM airlines AS a CROSS JOIN LATERAL length(a.name) AS u(v) ORDER BY a.carrier": 'ERROR 42883',
    "SELECT * FROM nothing_here(1)": 'ERROR 42P01',
    # The driver refuses a BIGINT where it was told an INTEGER: abs of an INT is a BIGINT here.
    "pgjdbc: {? = call abs(?)}": 'ERROR 42821',
    # Settings.
    "set_config('idle_in_transaction_session_timeout', '0')": ('0s',),
    "set_config('idle_in_transaction_session_timeout', '0'), what is then": ('0s',),
    "set_config('my.own', 'x')": 'ERROR 22023',
    "set_config('my.own', 'x'), what is then": 'ERROR 22023',
    "set_config('work_mem', '64MB')": 'ERROR 22023',
    "set_config('work_mem', '64MB'), what is then": 'ERROR 22023',
    "SELECT set_config('application_name', 'both', false), current_setting('application_name')": ('both', 'mine'),
    "SELECT current_setting('nosuch')": 'ERROR 22023',
    "SELECT set_config('nosuch', 'x', false)": 'ERROR 22023',
    # JSON and JSONB in lists are texts.
    "JSON: a list, in binary": OTHERWISE,
    "JSONB: a list, in binary": OTHERWISE,
    "psycopg, SELECT array_agg(b ORDER BY i) FROM (SELECT DISTINCT ON (i) i, b FROM by_psycopg ORDER BY i) AS t, binary=False": (['{"a": {"": "\u2028\\"\\\\\\n"}, "b": [1, null, {"ü": "é 😀"}]}', '"text"', None],),
    "psycopg, SELECT array_agg(b ORDER BY i) FROM (SELECT DISTINCT ON (i) i, b FROM by_psycopg ORDER BY i) AS t, binary=True": (['{"a": {"": "\u2028\\"\\\\\\n"}, "b": [1, null, {"ü": "é 😀"}]}', '"text"', None],),
    "asyncpg, codecs, a list": ['{"a": {"": "\u2028\\"\\\\\\n"}, "b": [1, null, {"ü": "é 😀"}]}'],
    # NUMERIC without precision: 22 digits before the point and 16 behind, without zeros (docs/SQL.md).
    "NUMERIC(38,10): v = ANY($1::numeric[]), as text": 'ERROR 22003',
    "NUMERIC(38,10): v = ANY($1::numeric[]), in binary": 'ERROR 22003',
    "NUMERIC(38,38): v = ANY($1::numeric[]), as text": 'ERROR 22003',
    "NUMERIC(38,38): v = ANY($1::numeric[]), in binary": 'ERROR 22003',
    "NUMERIC(38,0): v = ANY($1::numeric[]), as text": 'ERROR 22003',
    "NUMERIC(38,0): v = ANY($1::numeric[]), in binary": 'ERROR 22003',
    "NUMERIC without precision: $1::numeric of 1.50": [(b'1.5',)],
    "NUMERIC without precision: 1.50 in a column": [(b'1.5',)],
    "NUMERIC without precision: $1::numeric of NaN": 'ERROR 22003',
    "NUMERIC without precision: NaN in a column": 'ERROR 22003',
    "NUMERIC without precision: $1::numeric of Infinity": 'ERROR 22003',
    "NUMERIC without precision: Infinity in a column": 'ERROR 22003',
    "NUMERIC without precision: $1::numeric of 1e30": 'ERROR 22003',
    "NUMERIC without precision: 1e30 in a column": 'ERROR 22003',
    "NUMERIC without precision: $1::numeric of 0.00000000000000001": 'ERROR 22003',
    "NUMERIC without precision: 0.00000000000000001 in a column": 'ERROR 22003',
    "NUMERIC without precision: $1::numeric of -0.0": [(b'0',)],
    "NUMERIC without precision: -0.0 in a column": [(b'0',)],
    "NUMERIC without precision: $1::numeric of 100.00": [(b'100',)],
    "NUMERIC without precision: 100.00 in a column": [(b'100',)],
    "asyncpg, SELECT count(*) FROM by_asyncpg WHERE x = ANY($1::numeric[])": 'ERROR 22003',
    "asyncpg, $1::numeric[] of x": 'ERROR 22003',
    "ADBC, ingested wide": 'ERROR 22003',
    "pgjdbc: 38 digits, INSERT, simple": 'ERROR 22003',
    "pgjdbc: 38 digits, WHERE, simple": 'ERROR 22003',
    "node-postgres: SELECT n FROM node_types WHERE x = $1::numeric [extended]": '"ERROR 22003"',
    "node-postgres: SELECT n FROM node_types WHERE x = $1::numeric [named]": '"ERROR 22003"',
    "node-postgres: SELECT n FROM node_types WHERE x = ANY($1::numeric[]) [extended]": '"ERROR 22003"',
    "node-postgres: SELECT n FROM node_types WHERE x = ANY($1::numeric[]) [named]": '"ERROR 22003"',
    # INTERVAL: bounds, and states of errors.
    "'2147483648 days'::INTERVAL": 'ERROR 22P02',
    "$1::INTERVAL of '2147483648 days'": 'ERROR 22007',
    "'1 fortnight'::INTERVAL": 'ERROR 22P02',
    "'178956971 years'::INTERVAL": 'ERROR 22P02',
    "$1::INTERVAL of '178956971 years'": 'ERROR 22007',
    "INTERVAL of 2562047788:00:54.775807": 'ERROR 22007',
    "INTERVAL of -2562047788:00:54.775807": 'ERROR 22007',
    "INTERVAL of 2562048 hours": 'ERROR 22007',
    "INTERVAL of -2562047 hours -59 min": 'ERROR 22007',
    # TIME as text.
    # Lists as parameters: of types other than numbers, texts, moments and UUIDs, and of no type.
    "asyncpg, $1::time[] of h": 'ERROR 22000',
    "asyncpg, $1::interval[] of s": 'ERROR 22000',
    "asyncpg, unnest": 'ERROR 22000',
    "asyncpg, unnest, rows": [],
    "pgjdbc: types, an array of UUIDs, simple": 'ERROR 42883',
    # Types of parameters in arithmetic.
    "asyncpg, SELECT $1 * $2::interval of (2.5, datetime.timedelta(seconds=7200))": 'ERROR 22000',
    # Columns of lists.
    "ADBC, ingested list": 'ERROR ProgrammingError',
}

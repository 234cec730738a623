"""pandas, ibis, SQLAlchemy (as Superset uses it) and ADBC's PostgreSQL driver, unmodified, at a server that speaks PostgreSQL's protocol.

Usage: frames.py HOST PORT USER DATABASE [PART ...]

It runs at PostgreSQL, too, which is how its expectations were found. Prints how many were as expected, exits 1 at the first that is not.
"""

import datetime
import decimal
import json
import sys
import uuid

HOST, PORT, USER, DATABASE = sys.argv[1:5]
URI = f"postgresql://{USER}@{HOST}:{PORT}/{DATABASE}"
passed = 0


def check(found, expected, what):
    global passed
    assert found == expected, f"{what}: {found!r}, and {expected!r} is expected"
    passed += 1


def engine():
    import sqlalchemy

    return sqlalchemy.create_engine(URI.replace("postgresql://", "postgresql+psycopg2://"))


def with_pandas():
    """to_sql and read_sql by SQLAlchemy, with what they make by themselves: an index, `if_exists`, a schema."""
    import pandas
    import sqlalchemy

    frame = pandas.DataFrame(
        {
            "n": [1, 2, 3],
            "x": [1.5, None, -2.0],
            "name": ["a", None, "ü"],
            "at": pandas.to_datetime(["2026-01-01 00:00:00", "2026-06-01 12:00:00", None]),
            "zoned": pandas.to_datetime(["2026-01-01", "2026-06-01", "2026-07-01"]).tz_localize("Europe/Berlin"),
            "flag": [True, False, True],
        }
    )
    made = engine()
    with made.begin() as connection:
        check(frame.to_sql("frame", connection, if_exists="replace"), 3, "to_sql with its index")
        check(frame.to_sql("frame", connection, if_exists="append"), 3, "to_sql appends")
        connection.execute(sqlalchemy.text("CREATE SCHEMA IF NOT EXISTS frames"))
        check(frame.to_sql("frame", connection, schema="frames", if_exists="replace", index=False, method="multi"), 3, "to_sql in a schema")
    with made.connect() as connection:
        back = pandas.read_sql("SELECT * FROM frame ORDER BY n, index", connection, index_col="index")
        check(list(back["n"]), [1, 1, 2, 2, 3, 3], "read_sql")
        check(back["zoned"].iloc[0].timestamp(), frame["zoned"].iloc[0].timestamp(), "an instant is the same instant")
        whole = pandas.read_sql_table("frame", connection, schema="frames")
        check((list(whole.columns), len(whole)), (list(frame.columns), 3), "read_sql_table in a schema")
        pieces = [len(piece) for piece in pandas.read_sql("SELECT n FROM frame", connection, chunksize=4)]
        check(pieces, [4, 2], "read_sql in pieces")
    typed = {"id": sqlalchemy.Uuid(), "doc": sqlalchemy.JSON(), "price": sqlalchemy.Numeric(), "day": sqlalchemy.Date(), "hour": sqlalchemy.Time(), "code": sqlalchemy.CHAR(3)}
    rows = pandas.DataFrame(
        {
            "id": [uuid.UUID(int=7)],
            "doc": [{"a": [1, None, "x"]}],
            "price": [decimal.Decimal("12.50")],
            "day": [datetime.date(2026, 2, 3)],
            "hour": [datetime.time(4, 5, 6)],
            "code": ["ab"],
        }
    )
    with made.begin() as connection:
        rows.to_sql("typed", connection, if_exists="replace", index=False, dtype=typed)
        found = connection.execute(sqlalchemy.text("SELECT id, doc, price, day, hour, code FROM typed")).one()
        check(tuple(found)[:2], (uuid.UUID(int=7), {"a": [1, None, "x"]}), "UUID and JSON")
        check(tuple(found)[2:5], (decimal.Decimal("12.5"), datetime.date(2026, 2, 3), datetime.time(4, 5, 6)), "NUMERIC, DATE, TIME")
        check(found[5], "ab ", "CHAR(3)")


def with_superset():
    """What Superset's PostgreSQL engine asks of SQLAlchemy: schemas, tables, views, columns, comments; views and tables of a query."""
    import sqlalchemy

    made = engine()
    with made.begin() as connection:
        for statement in (
            "DROP VIEW IF EXISTS chart_view CASCADE",
            "DROP TABLE IF EXISTS chart CASCADE",
            "DROP TABLE IF EXISTS saved",
            "CREATE TABLE chart (id SERIAL PRIMARY KEY, day DATE NOT NULL, amount NUMERIC(10, 2), doc JSONB, at TIMESTAMPTZ DEFAULT now())",
            "COMMENT ON TABLE chart IS 'what it''s for'",
            "COMMENT ON COLUMN chart.amount IS 'in euros'",
            "INSERT INTO chart (day, amount, doc) VALUES ('2026-01-01', 1.50, '{\"k\": 1}'), ('2026-01-08', 2.25, NULL)",
            "CREATE OR REPLACE VIEW chart_view AS SELECT day, amount FROM chart WHERE amount > 2",
            "CREATE TABLE saved AS SELECT * FROM chart_view LIMIT 1001",
        ):
            connection.execute(sqlalchemy.text(statement))
    inspector = sqlalchemy.inspect(made)
    check("public" in inspector.get_schema_names(), True, "schemas")
    check({"chart", "saved"} <= set(inspector.get_table_names("public")), True, "tables")
    check("chart_view" in inspector.get_view_names("public"), True, "views")
    check("chart_view" in inspector.get_table_names("public"), False, "a view is no table")
    columns = {column["name"]: column for column in inspector.get_columns("chart", "public")}
    check([str(columns[name]["type"]) for name in ("id", "day", "amount", "doc", "at")], ["INTEGER", "DATE", "NUMERIC(10, 2)", "JSONB", "TIMESTAMP"], "types")
    check((columns["day"]["nullable"], columns["amount"]["nullable"]), (False, True), "NOT NULL")
    check(columns["amount"]["comment"], "in euros", "a column's comment")
    check(inspector.get_table_comment("chart", "public")["text"], "what it's for", "a table's comment")
    check(inspector.get_pk_constraint("chart", "public")["constrained_columns"], ["id"], "the primary key")
    check(inspector.get_foreign_keys("chart", "public"), [], "no foreign keys")
    inspector.get_indexes("chart", "public")
    check(inspector.get_view_definition("chart_view", "public").strip().upper().startswith("SELECT"), True, "the view's text")
    with made.connect() as connection:
        by_week = "SELECT DATE_TRUNC('week', day) AS __timestamp, SUM(amount) AS \"SUM(amount)\" FROM public.chart WHERE day >= TO_DATE('2026-01-01', 'YYYY-MM-DD') AND day < TO_DATE('2027-01-01', 'YYYY-MM-DD') GROUP BY DATE_TRUNC('week', day) ORDER BY \"SUM(amount)\" DESC LIMIT 50000"
        rows = connection.execute(sqlalchemy.text(by_week)).all()
        check([str(row[1]) for row in rows], ["2.25", "1.50"], "a chart by weeks")
        check(connection.execute(sqlalchemy.text("EXPLAIN SELECT * FROM chart_view")).all() != [], True, "EXPLAIN")
        check(connection.execute(sqlalchemy.text("SELECT count(*) FROM saved")).scalar(), 1, "CREATE TABLE AS of a view")
    raw = made.raw_connection()
    cursor = raw.cursor()
    cursor.execute("SELECT day, amount, doc FROM chart ORDER BY id")
    names = [entry[0] for entry in cursor.description]
    check((names, cursor.fetchone()[2]), (["day", "amount", "doc"], {"k": 1}), "the driver's own description")
    raw.close()


def with_ibis():
    import ibis

    con = ibis.postgres.connect(host=HOST, port=int(PORT), user=USER, database=DATABASE)
    con.drop_view("busy", force=True)
    for name in ("flights", "copied", "part"):
        con.drop_table(name, force=True)
    con.create_table("flights", schema=ibis.schema({"carrier": "string", "delay": "float64", "day": "date", "n": "int64"}))
    con.insert("flights", [{"carrier": "aa", "delay": 1.5, "day": datetime.date(2026, 1, 1), "n": 1}, {"carrier": "bb", "delay": None, "day": datetime.date(2026, 1, 2), "n": 2}])
    flights = con.table("flights")
    check(flights.count().execute(), 2, "count")
    check("flights" in con.list_tables(), True, "list_tables")
    grouped = flights.group_by("carrier").agg(total=flights.n.sum(), mean=flights.delay.mean()).order_by("carrier")
    check(grouped.execute()["total"].tolist(), [1, 2], "group_by")
    view = con.create_view("busy", flights.filter(flights.n > 1))
    check(view.count().execute(), 1, "a view")
    extra = ibis.memtable({"carrier": ["aa", "bb"], "name": ["Air A", "Air B"]})
    joined = flights.join(extra, "carrier").select("name", "n").order_by("n")
    check(joined.execute()["name"].tolist(), ["Air A", "Air B"], "a join with a table in memory")
    con.create_table("copied", flights.mutate(twice=flights.n * 2))
    check(con.table("copied").twice.sum().execute(), 6, "create_table of an expression")
    con.create_table("part", flights.limit(1), temp=True)
    check(con.table("part").count().execute(), 1, "a temporary table")
    con.create_database("ibis_there", force=True)
    con.create_table("t", schema=ibis.schema({"x": "int32"}), database="ibis_there", overwrite=True)
    check(con.list_tables(database="ibis_there"), ["t"], "a table in a schema")
    con.truncate_table("copied")
    check(con.table("copied").count().execute(), 0, "truncate")
    sql = con.sql("SELECT carrier, n FROM flights")
    check(sql.schema().names, ("carrier", "n"), "the schema of a query")
    con.drop_table("copied")
    con.drop_table("t", database="ibis_there")
    con.drop_database("ibis_there")


def with_adbc():
    import adbc_driver_postgresql.dbapi
    import pandas
    import pyarrow

    table = pyarrow.table({"n": pyarrow.array([1, 2, None], pyarrow.int64()), "name": ["a", None, "c"], "x": [1.5, None, 2.5], "at": pyarrow.array([0, 1, None], pyarrow.timestamp("us"))})
    with adbc_driver_postgresql.dbapi.connect(URI) as connection:
        with connection.cursor() as cursor:
            cursor.execute("DROP TABLE IF EXISTS by_adbc")
            cursor.adbc_ingest("by_adbc", table, mode="create")
            cursor.adbc_ingest("by_adbc", table, mode="append")
            cursor.execute("SELECT n, name, x, at FROM by_adbc ORDER BY n NULLS LAST")
            back = cursor.fetch_arrow_table()
            check(back.column("n").to_pylist(), [1, 1, 2, 2, None, None], "what was ingested")
            check([str(field.type) for field in back.schema], ["int64", "string", "double", "timestamp[us]"], "types")
            cursor.execute("SELECT count(*) FROM by_adbc WHERE n = $1", (1,))
            check(cursor.fetchone()[0], 2, "a parameter")
            cursor.executemany("INSERT INTO by_adbc (n, name) VALUES ($1, $2)", [(7, "x"), (8, "y")])
        connection.commit()
        catalogs = connection.adbc_get_objects(depth="columns", db_schema_filter="public", table_name_filter="by_adbc").read_all().to_pylist()
        tables = [table for catalog in catalogs for schema in catalog["catalog_db_schemas"] or [] for table in schema["db_schema_tables"] or []]
        check([column["column_name"] for column in tables[0]["table_columns"]], ["n", "name", "x", "at"], "get_objects")
        check(connection.adbc_get_table_schema("by_adbc").names, ["n", "name", "x", "at"], "get_table_schema")
        check("table" in connection.adbc_get_table_types(), True, "table types")
        frame = pandas.read_sql("SELECT name FROM by_adbc WHERE n > 6 ORDER BY n", connection)
        check(list(frame["name"]), ["x", "y"], "pandas by ADBC")
        frame.to_sql("by_pandas", connection, if_exists="replace", index=False)
        check(len(pandas.read_sql("SELECT * FROM by_pandas", connection)), 2, "to_sql by ADBC")


PARTS = {"pandas": with_pandas, "superset": with_superset, "ibis": with_ibis, "adbc": with_adbc}

if __name__ == "__main__":
    for name in sys.argv[5:] or PARTS:
        PARTS[name]()
    print(f"{passed} as expected")

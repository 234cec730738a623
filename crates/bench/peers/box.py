"""One peer of `make bench NAME=box`: loads the table, then answers JSON lines of stdin with JSON lines on stdout.

Arguments: engine (duckdb, duckdb_files, duckdb_tables, clickhouse, datafusion), Parquet file (of duckdb_files several, a line each; of
duckdb_tables lines `table=file`, the one that is counted first), scratch folder, threads. The first line out says
{engine, version, load_s, rows}. Then, line for line:

    {"sql": "..."}                     -> {"ms": 1.5, "rows": [[...], ...]}
    {"many": ["...", ...], "seconds": 3}   -> {"queries": 80, "ms": 3100.0}

or {"error": "..."}. Time is taken here, around query and fetch, so that pipes and JSON cost no engine anything. `many` runs
whole passes over its list, one query after the other on all threads, until the seconds are over.
"""

import json
import math
import os
import sys
import time

DIMENSIONS = [
    ["country", "state", "city"],
    ["category", "brand", "item"],
    ["region", "segment", "customer"],
    ["year", "month", "day"],
    ["promo_kind", "promo"],
    ["channel", "device"],
    ["carrier", "service"],
    ["payment"],
]
# Bytes of Parquet up to which a peer holds the table in memory.
MEMORY_FILE_MAX = 1 << 30
LEVELS = [level for levels in DIMENSIONS for level in levels]


class DuckDB:
    """In memory, with the compression that its files have: 19 text columns fit, and its scans know the dictionaries. A table that
    would not fit while it is loaded lies in a file of its own format instead, which its buffers hold once it was read."""

    def __init__(self, file, scratch, threads):
        import duckdb

        self.version = duckdb.__version__
        self.connection = duckdb.connect()
        self.connection.execute('SET enable_progress_bar = false')
        self.connection.execute(f"SET threads = {threads}")
        self.connection.execute(f"SET temp_directory = '{scratch}/spilled'")
        if os.path.getsize(file) < MEMORY_FILE_MAX:
            self.connection.execute("ATTACH ':memory:' AS peer (COMPRESS)")
        else:
            self.connection.execute("SET preserve_insertion_order = false")
            self.connection.execute(f"ATTACH '{scratch}/peer.duckdb' AS peer")
        self.connection.execute("USE peer")
        self.connection.execute(f"CREATE TABLE retail AS SELECT * FROM read_parquet('{file}')")
        self.connection.execute("CHECKPOINT peer")

    def fetch(self, sql):
        return self.connection.execute(sql).fetchall()

    def rows(self, fetched):
        return fetched


class DuckDBFiles:
    """Over the files as they are."""

    def __init__(self, file, scratch, threads):
        import duckdb

        self.version = duckdb.__version__
        self.connection = duckdb.connect()
        self.connection.execute('SET enable_progress_bar = false')
        self.connection.execute(f"SET threads = {threads}")
        files = ", ".join(f"'{path}'" for path in file.split("\n"))
        self.connection.execute(f"CREATE VIEW retail AS SELECT * FROM read_parquet([{files}])")

    def fetch(self, sql):
        return self.connection.execute(sql).fetchall()

    def rows(self, fetched):
        return fetched


class DuckDBTables:
    """In memory, one table for each file."""

    def __init__(self, files, scratch, threads):
        import duckdb

        self.version = duckdb.__version__
        self.connection = duckdb.connect()
        self.connection.execute('SET enable_progress_bar = false')
        self.connection.execute(f"SET threads = {threads}")
        tables = [line.split("=", 1) for line in files.split("\n")]
        self.counted = tables[0][0]
        for table, file in tables:
            self.connection.execute(f"CREATE TABLE {table} AS SELECT * FROM read_parquet('{file}')")

    def fetch(self, sql):
        return self.connection.execute(sql).fetchall()

    def rows(self, fetched):
        return fetched


class ClickHouse:
    """MergeTree in a folder of this run, sorted by the coarsest levels; text as LowCardinality."""

    def __init__(self, file, scratch, threads):
        from chdb import session

        folder = os.path.join(scratch, "clickhouse")
        self.session = session.Session(folder)
        self.version = self._text("SELECT version()").strip().strip('"')
        columns = [f"{level} LowCardinality(String)" for level in LEVELS]
        columns += ["price Float64", "quantity Int32"]
        key = ", ".join(levels[0] for levels in DIMENSIONS)
        # Long lists of members are longer than ClickHouse takes by default. Settings in each query: not every build keeps SET.
        self.settings = f" SETTINGS max_threads = {threads}, max_query_size = 67108864, max_ast_elements = 10000000, max_expanded_ast_elements = 10000000"
        self._text("CREATE DATABASE IF NOT EXISTS peer ENGINE = Atomic")
        self._text(f"CREATE TABLE peer.retail ({', '.join(columns)}) ENGINE = MergeTree ORDER BY ({key})")
        names = ", ".join(LEVELS + ["price", "quantity"])
        self._text(f"INSERT INTO peer.retail SELECT {names} FROM file('{file}', Parquet)")
        self._text("OPTIMIZE TABLE peer.retail FINAL")
        self._text("USE peer")
        # The parser reads its limit before it sees the query's own settings.
        self._text("SET max_query_size = 67108864")

    def _text(self, sql):
        return str(self.session.query(sql, "TSV"))

    def fetch(self, sql):
        return str(self.session.query(sql + self.settings, "JSONCompactEachRow"))

    def rows(self, fetched):
        return [json.loads(line) for line in fetched.splitlines() if line]


class DataFusion:
    """Dictionary-encoded batches in memory, one partition a thread."""

    def __init__(self, file, scratch, threads):
        import datafusion
        import pyarrow.parquet

        self.version = datafusion.__version__
        table = pyarrow.parquet.read_table(file).unify_dictionaries()
        batches = table.to_batches(max_chunksize=int(os.environ.get("BOX_BATCH", 32768)))
        config = datafusion.SessionConfig().with_target_partitions(threads)
        self.context = datafusion.SessionContext(config)
        partitions = [batches[part::threads] for part in range(threads)]
        self.context.register_record_batches("retail", partitions)

    def fetch(self, sql):
        return self.context.sql(sql).collect()

    def rows(self, fetched):
        return [list(row.values()) for batch in fetched for row in batch.to_pylist()]


ENGINES = {
    "duckdb": DuckDB,
    "duckdb_files": DuckDBFiles,
    "duckdb_tables": DuckDBTables,
    "clickhouse": ClickHouse,
    "datafusion": DataFusion,
}


def plain(value):
    """What JSON can say; NaN, which ClickHouse gives for an average of nothing, is NULL."""
    if value is None or isinstance(value, (int, str)):
        return value
    value = float(value)
    return None if math.isnan(value) else value


def answer(engine, request):
    if "many" in request:
        count, start = 0, time.perf_counter()
        while True:
            for sql in request["many"]:
                engine.fetch(sql)
            count += len(request["many"])
            seconds = time.perf_counter() - start
            if seconds >= request["seconds"]:
                return {"queries": count, "ms": seconds * 1e3}
    start = time.perf_counter()
    fetched = engine.fetch(request["sql"])
    seconds = time.perf_counter() - start
    rows = [[plain(value) for value in row] for row in engine.rows(fetched)]
    return {"ms": seconds * 1e3, "rows": rows}


def main():
    # Engines may print; the pipe is for answers alone.
    pipe = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)

    def say(line):
        pipe.write(json.dumps(line) + "\n")
        pipe.flush()

    name, file, scratch, threads = sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4])
    try:
        start = time.perf_counter()
        engine = ENGINES[name](file, scratch, threads)
        load_s = time.perf_counter() - start
        rows = engine.rows(engine.fetch(f"SELECT count(*) FROM {getattr(engine, 'counted', 'retail')}"))[0][0]
        say({"engine": name, "version": engine.version, "load_s": load_s, "rows": int(rows)})
    except Exception as error:  # said to the bench, which decides
        say({"error": f"{type(error).__name__}: {error}"})
        return
    for line in sys.stdin:
        try:
            say(answer(engine, json.loads(line)))
        except Exception as error:
            say({"error": f"{type(error).__name__}: {error}"[:2000]})


main()

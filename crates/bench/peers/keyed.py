"""One peer of `make bench NAME=upsert`, `NAME=partial` and `NAME=point`: a table with a key, that answers JSON lines of stdin with JSON lines on stdout.

Arguments: engine (duckdb, rocksdb), Parquet file of the rows that are there, Parquet file of the templates of batches, one behind the
other, rows of a batch, scratch folder. The first line out says {engine, version, load_s, rows}. Then, line for line:

    {"upsert": 10.0, "from": 3}   -> {"batches": 80, "s": 10.1}     batches from the third on, each durable, until the seconds are over
    {"patch": 10.0, "from": 3}    -> {"batches": 80, "s": 10.1}     the same of batches that have some columns of rows that are there
    {"point": 10.0, "seed": 7}    -> {"reads": 100000, "s": 10.0}   whole rows of random keys
    {"range": 20000, "seconds": 10.0, "seed": 7} -> {"ranges": 500, "s": 10.0}   count and sum over so many neighbouring keys
    {"state": true}               -> {"rows": 1000, "sum": 5000}    how many rows there are, and the sum of their quantities

or {"error": "..."}. Batch n has the rows of template n modulo their number: the first half of them has the keys that it has, the second half
has new ones, which follow those of the batch before. Of patches all have the keys that they have.
"""

import json
import os
import random
import sys
import time

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq


class Batches:
    def __init__(self, file, rows, first_new):
        whole = pq.read_table(file)
        self.first_new, self.half = first_new, rows // 2
        self.templates = []
        for at in range(0, whole.num_rows, rows):
            self.templates.append(whole.slice(at, rows).combine_chunks())

    def ids(self, number):
        kept = self.templates[number % len(self.templates)].column("id").slice(0, self.half)
        first = self.first_new + number * self.half
        return pa.chunked_array(kept.chunks + [pa.array(range(first, first + self.half), pa.int64())])


class DuckDB:
    """In a file of its own, with the key's index; each batch is a transaction."""

    def __init__(self, base, batches, scratch):
        import duckdb

        self.version, self.batches = duckdb.__version__, batches
        self.connection = duckdb.connect(os.path.join(scratch, "keyed.duckdb"))
        self.connection.execute("SET enable_progress_bar = false; SET threads = 2")
        columns = ", ".join(
            f"{name} {kind}" + (" PRIMARY KEY" if name == "id" else "")
            for name, kind, *_ in self.connection.execute(f"DESCRIBE SELECT * FROM read_parquet('{base}')").fetchall()
        )
        self.connection.execute(f"CREATE TABLE t ({columns})")
        self.connection.execute(f"INSERT INTO t SELECT * FROM read_parquet('{base}')")
        self.connection.execute("CHECKPOINT")

    def upsert(self, number):
        template = self.batches.templates[number % len(self.batches.templates)]
        table = template.set_column(0, "id", self.batches.ids(number))
        self.connection.register("batch", table)
        self.connection.execute("INSERT OR REPLACE INTO t SELECT * FROM batch")
        self.connection.unregister("batch")

    def patch(self, number):
        table = self.batches.templates[number % len(self.batches.templates)]
        names = ", ".join(table.column_names)
        sets = ", ".join(f"{name} = excluded.{name}" for name in table.column_names if name != "id")
        self.connection.register("batch", table)
        self.connection.execute(f"INSERT INTO t ({names}) SELECT {names} FROM batch ON CONFLICT (id) DO UPDATE SET {sets}")
        self.connection.unregister("batch")

    def point(self, key):
        return self.connection.execute("SELECT * FROM t WHERE id = ?", [key]).fetchone()

    def range(self, low, high):
        return self.connection.execute("SELECT count(*), sum(quantity) FROM t WHERE id >= ? AND id < ?", [low, high]).fetchone()

    def state(self):
        rows, total = self.connection.execute("SELECT count(*), sum(quantity) FROM t").fetchone()
        return {"rows": rows, "sum": int(total)}


class RocksDB:
    """A store of bytes in key order; a row is its values, joined. Each batch is one synced write."""

    def __init__(self, base, batches, scratch):
        import rocksdict

        self.rocksdict, self.batches = rocksdict, batches
        self.version = getattr(rocksdict, "__version__", "rocksdict 0.3.29")
        options = rocksdict.Options(raw_mode=True)
        options.create_if_missing(True)
        options.increase_parallelism(2)
        self.database = rocksdict.Rdict(os.path.join(scratch, "keyed.rocksdb"), options)
        self.synced = rocksdict.WriteOptions()
        self.synced.sync = True
        for part in pq.ParquetFile(base).iter_batches(50_000):
            write = rocksdict.WriteBatch(raw_mode=True)
            for key, value in zip(part.column(0).to_pylist(), self.values(pa.Table.from_batches([part]))):
                write.put(key.to_bytes(8, "big"), value)
            self.database.write(write)
        self.database.flush()
        self.encoded = [self.values(template) for template in batches.templates]

    def values(self, table):
        columns = [pc.cast(column, pa.string()).to_pylist() for column in table.columns[1:]]
        return ["\t".join(row).encode() for row in zip(*columns)]

    def upsert(self, number):
        write = self.rocksdict.WriteBatch(raw_mode=True)
        values = self.encoded[number % len(self.encoded)]
        for key, value in zip(self.batches.ids(number).to_pylist(), values):
            write.put(key.to_bytes(8, "big"), value)
        self.database.write(write, self.synced)

    def point(self, key):
        return self.database[key.to_bytes(8, "big")].split(b"\t")

    def range(self, low, high):
        rows, total, end = 0, 0, high.to_bytes(8, "big")
        for key, value in self.database.items(from_key=low.to_bytes(8, "big")):
            if key >= end:
                break
            rows, total = rows + 1, total + int(value[value.rindex(b"\t") + 1 :])
        return rows, total

    def state(self):
        rows = total = 0
        for _, value in self.database.items():
            rows, total = rows + 1, total + int(value[value.rindex(b"\t") + 1 :])
        return {"rows": rows, "sum": total}


def serve(peer, asked, rows):
    start = time.monotonic()
    for what in ("upsert", "patch"):
        if what in asked:
            number = first = asked["from"]
            while time.monotonic() - start < asked[what]:
                getattr(peer, what)(number)
                number += 1
            return {"batches": number - first, "s": time.monotonic() - start}
    if "point" in asked:
        keys, reads = random.Random(asked["seed"]), 0
        while reads % 64 or time.monotonic() - start < asked["point"]:
            if peer.point(keys.randrange(rows)) is None:
                raise LookupError("a key that is there is not found")
            reads += 1
        return {"reads": reads, "s": time.monotonic() - start}
    if "range" in asked:
        keys, ranges = random.Random(asked["seed"]), 0
        while time.monotonic() - start < asked["seconds"]:
            low = keys.randrange(max(rows - asked["range"], 1))
            if peer.range(low, low + asked["range"])[0] != min(asked["range"], rows - low):
                raise LookupError("keys that are there are not found")
            ranges += 1
        return {"ranges": ranges, "s": time.monotonic() - start}
    return peer.state()


def main():
    engine, base, batches, batch_rows, scratch = sys.argv[1:]
    rows = pq.ParquetFile(base).metadata.num_rows
    start = time.monotonic()
    peer = {"duckdb": DuckDB, "rocksdb": RocksDB}[engine](base, Batches(batches, int(batch_rows), rows), scratch)
    ready = {"engine": engine, "version": peer.version, "load_s": time.monotonic() - start, "rows": rows}
    print(json.dumps(ready), flush=True)
    for line in sys.stdin:
        try:
            answer = serve(peer, json.loads(line), rows)
        except Exception as error:
            answer = {"error": str(error)}
        print(json.dumps(answer), flush=True)


main()

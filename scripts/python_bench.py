"""The Python package measured: rows in from Arrow, rows out to Arrow, beside pyarrow with Parquet of the same rows, in turns.

Usage: python_bench.py [--rows N] [--rounds N] [--data FOLDER]
"""

import argparse
import os
import pathlib
import platform
import shutil
import statistics
import tempfile
import time

import alluvia
import numpy
import pyarrow
import pyarrow.parquet

COLUMNS = "id, kind, price, quantity, at"
TABLE = """CREATE TABLE {} (id BIGINT, kind TEXT, price DOUBLE, quantity INT, at TIMESTAMP)
           {}"""
DIMENSIONS = "WITH (dimensions = 'kind; time(at: year, month, day)', measures = 'price, quantity')"


def made(rows):
    rng = numpy.random.default_rng(3)
    kinds = numpy.array([f"kind number {kind}" for kind in range(1_000)])
    return pyarrow.table({
        "id": numpy.arange(rows),
        "kind": pyarrow.array(kinds[rng.integers(0, 1_000, rows)]),
        "price": rng.integers(0, 100_000, rows) / 100,
        "quantity": rng.integers(0, 100, rows).astype(numpy.int32),
        "at": numpy.datetime64("2026-01-01", "us") + rng.integers(0, 365 * 86_400, rows).astype("timedelta64[s]"),
    })


def seconds(work):
    begin = time.perf_counter()
    work()
    return time.perf_counter() - begin


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=5_000_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--data", default=None)
    args = parser.parse_args()
    rows = args.rows
    folder = pathlib.Path(tempfile.mkdtemp(dir=args.data))
    try:
        table = made(rows)
        file, written = folder / "rows.parquet", folder / "written.parquet"
        pyarrow.parquet.write_table(table, file)
        ways = {}
        with alluvia.open(folder / "db") as db:
            def plain(number):
                db.sql(TABLE.format(f"plain{number}", ""))
                db.ingest(f"plain{number}", table)

            def dimensional(number):
                db.sql(TABLE.format(f"dim{number}", DIMENSIONS))
                db.ingest(f"dim{number}", table)

            db.sql(TABLE.format("fixed", ""))
            db.ingest("fixed", table)
            db.sql("CALL alluvia.merge()")
            small = db.sql(f"SELECT {COLUMNS} FROM fixed WHERE id < 100000").arrow()
            assert small.num_rows == min(rows, 100_000)
            steps = [
                ("in:  ingest of a pyarrow table", plain),
                ("in:  the same, with dimensions", dimensional),
                ("in:  pyarrow writes Parquet", lambda _: pyarrow.parquet.write_table(table, written)),
                ("out: sql().arrow()", lambda _: db.sql(f"SELECT {COLUMNS} FROM fixed").arrow()),
                ("out: sql().pl()", lambda _: db.sql(f"SELECT {COLUMNS} FROM fixed").pl()),
                ("out: pyarrow reads Parquet", lambda _: pyarrow.parquet.read_table(file)),
            ]
            for number in range(args.rounds):
                for name, work in steps:
                    ways.setdefault(name, []).append(seconds(lambda: work(number)))
                db.sql(f"DROP TABLE plain{number}, dim{number}")
            few = small.slice(0, min(rows, 100_000)).to_pylist()
            db.sql(TABLE.format("dicts", ""))
            dicts = len(few) / seconds(lambda: db.ingest("dicts", few))
            tuples = rows / seconds(lambda: db.sql(f"SELECT {COLUMNS} FROM fixed").fetchall())
        print(f"{rows:,} rows of 5 columns, median of {args.rounds} rounds in turns")
        print(f"alluvia {alluvia.__version__}, pyarrow {pyarrow.__version__}, {os.cpu_count()} cores, {platform.platform()}")
        speeds = {name: rows / statistics.median(took) for name, took in ways.items()}
        for name, speed in speeds.items():
            peer = speeds["in:  pyarrow writes Parquet" if name.startswith("in") else "out: pyarrow reads Parquet"]
            print(f"{name:<34} {speed:>12,.0f} rows/s   {speed / peer:.2f} of pyarrow")
        print(f"{'in:  100,000 dicts':<34} {dicts:>12,.0f} rows/s")
        print(f"{'out: fetchall()':<34} {tuples:>12,.0f} rows/s")
    finally:
        shutil.rmtree(folder)


main()

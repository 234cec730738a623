"""Segments are Parquet that DuckDB and pyarrow open as they are, and hold exactly the rows that were put in.

Usage: interop.py PATH_TO_ALLUVIA
"""

import json
import pathlib
import subprocess
import sys
import tempfile

import duckdb
import pyarrow.parquet as parquet

SETUP = """
CREATE TABLE trips (
  id BIGINT, kind TEXT, day DATE, at TIMESTAMP, seen TIMESTAMP WITH TIME ZONE, price DECIMAL(12, 2), ratio DOUBLE, ok BOOLEAN, raw BYTEA
) WITH (dimensions = 'kind; day(day: year, month, day)', measures = 'price');
INSERT INTO trips VALUES
  (1, 'bus', '2026-01-31', '2026-01-31 12:00:00', '2026-01-31 12:00:00+00', 12.50, 0.5, true, '\\x00ff'),
  (2, NULL, '2026-02-01', NULL, NULL, -3.25, 'NaN', false, NULL),
  (3, 'tram', NULL, '1969-12-31 23:59:59.999999', '2026-03-01 00:00:00+00', NULL, NULL, NULL, '\\x');
CALL alluvia.merge();
"""


def main() -> None:
    binary = sys.argv[1]
    with tempfile.TemporaryDirectory() as folder:
        data = pathlib.Path(folder) / "db"
        subprocess.run([binary, "sql", str(data)], input=SETUP, text=True, check=True, stdout=subprocess.DEVNULL)
        query = "SELECT id, kind, price FROM trips ORDER BY id"
        answer = subprocess.run(
            [binary, "sql", str(data), "--format", "json", "-c", query], text=True, check=True, capture_output=True
        ).stdout
        ours = [json.loads(line) for line in answer.splitlines()]
        files = sorted((data / "segments").glob("*.parquet"))
        assert files, "a merged table has segments"
        rows = sum(parquet.read_table(file).num_rows for file in files)
        assert rows == 3, f"pyarrow reads {rows} rows"
        names = parquet.read_schema(files[0]).names
        assert names[-2:] == ["_version", "_ordinal"], names
        theirs = duckdb.sql(f"SELECT id, kind, price FROM read_parquet({[str(f) for f in files]!r}) ORDER BY id").fetchall()
        assert [row["id"] for row in ours] == [row[0] for row in theirs] == [1, 2, 3], (ours, theirs)
        assert [row.get("kind") for row in ours] == [row[1] for row in theirs], (ours, theirs)
        prices = duckdb.sql(f"SELECT sum(price) FROM read_parquet({[str(f) for f in files]!r})").fetchall()[0]
        assert str(prices[0]) == "9.25", prices
    print("interop: DuckDB", duckdb.__version__, "and pyarrow", parquet.__name__, "read our segments")
    print("1 passed, 0 failed")


main()

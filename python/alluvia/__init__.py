"""Alluvia in Python: an analytical database for data that is still arriving, within this process.

>>> import alluvia, tempfile
>>> directory = tempfile.TemporaryDirectory()
>>> with alluvia.open(directory.name) as db:
...     db.sql("CREATE TABLE sales (country TEXT, price DOUBLE) WITH (dimensions = 'country', measures = 'price')")
...     db.ingest("sales", [{"country": "Chile", "price": 4.0}, {"country": "France", "price": 2.5}]).rows
...     db.sql("SELECT country, sum(price) AS total FROM sales GROUP BY country ORDER BY country")
CREATE TABLE
2
+---------+-------+
| country | total |
+---------+-------+
| Chile   |   4.0 |
| France  |   2.5 |
+---------+-------+
>>> directory.cleanup()

`open` gives a [Database][alluvia.Database]; `connect` a DB-API 2.0 connection. Values come as None, bool, int, float, str, bytes, Decimal,
date, datetime (aware, in UTC, if the column has a zone), timedelta, list and dict.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, Optional, Union

from . import _machine

_machine.check()

from ._alluvia import __version__
from ._database import Batch, Database, Ingested, Session
from ._dbapi import (
    BINARY, DATETIME, NUMBER, ROWID, STRING, Binary, Connection, Cursor, Date, DateFromTicks, Time, TimeFromTicks, Timestamp,
    TimestampFromTicks, apilevel, connect, paramstyle, threadsafety,
)
from ._errors import (
    DatabaseError, DataError, Error, IntegrityError, InterfaceError, InternalError, NotSupportedError, OperationalError,
    ProgrammingError, Warning,
)
from ._progress import Progress
from ._refinements import Refinement, Refinements
from ._result import AsOf, Bounds, Result, Used

__all__ = [
    "BINARY", "DATETIME", "NUMBER", "ROWID", "STRING",
    "AsOf", "Batch", "Binary", "Bounds", "Connection", "Cursor", "DataError", "Database", "DatabaseError", "Date", "DateFromTicks", "Error",
    "Ingested", "IntegrityError", "InterfaceError", "InternalError", "NotSupportedError", "OperationalError", "ProgrammingError",
    "Progress", "Refinement", "Refinements", "Result", "Session", "Time", "TimeFromTicks", "Timestamp", "TimestampFromTicks", "Used", "Warning",
    "__version__", "apilevel", "connect", "open", "paramstyle", "threadsafety",
]


def open(  # noqa: A001 - as other embedded databases have it
    path: Union[str, os.PathLike[str]],
    *,
    memory_limit: Union[str, int, None] = None,
    threads: Optional[int] = None,
    spill_limit: Union[str, int, None] = None,
    settings: Optional[Mapping[str, Any]] = None,
) -> Database:
    """Opens the database in a directory, creating it if there is none. One process at a time can have it open.

    `memory_limit` is what it may use in all (`"4GB"`; three quarters of the machine's by default), `spill_limit` what statements may write
    to disk meanwhile, `threads` one per core by default. `settings` hold for every session: `{"freshness": "5s"}`.
    """
    return Database(path, memory_limit=memory_limit, threads=threads, spill_limit=spill_limit, settings=settings)

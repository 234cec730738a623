"""Alluvia in Python: an analytical database for data that is still arriving, within this process or at a server.

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

`open` gives the [Database][alluvia.Database] in a directory, `connect` that of a server, with the same interface; `alluvia.dbapi` is DB-API 2.0 to
either. Values come as None, bool, int, float, str, bytes, Decimal,
date, datetime (aware, in UTC, if the column has a zone), timedelta, list and dict.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, Optional, Union

from . import _machine

_machine.check()

from ._alluvia import __version__
from ._database import Batch, Database, Ingested, Session, connected, opened_at
from ._errors import (
    DatabaseError, DataError, Error, IntegrityError, InterfaceError, InternalError, NotSupportedError, OperationalError,
    ProgrammingError, Warning,
)
from ._progress import Progress
from ._refinements import Refinement, Refinements
from ._result import AsOf, Bounds, Result, Used
from ._target import Certificates
from . import dbapi

__all__ = [
    "AsOf", "Batch", "Bounds", "DataError", "Database", "DatabaseError", "Error", "Ingested", "IntegrityError", "InterfaceError", "InternalError",
    "NotSupportedError", "OperationalError", "ProgrammingError", "Progress", "Refinement", "Refinements", "Result", "Session", "Used", "Warning",
    "__version__", "connect", "dbapi", "open",
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
    return opened_at(path, memory_limit=memory_limit, threads=threads, spill_limit=spill_limit, settings=settings)


def connect(
    url: str = "localhost",
    *,
    user: Optional[str] = None,
    password: Optional[str] = None,
    tls_ca: Certificates = None,
    timeout: float = 10.0,
    settings: Optional[Mapping[str, Any]] = None,
) -> Database:
    """Connects to a server (`alluvia serve`) over Flight SQL: the same [Database][alluvia.Database] as `open` gives, with its statements run
    there. (`alluvia.dbapi.connect` gives connections of DB-API.)

    `url` is `HOST`, `HOST:PORT` (50051 by default), `grpc://...`, or, within TLS, `grpc+tls://USER:PASSWORD@HOST:PORT`. Without a scheme
    another machine is spoken to within TLS, this one without. `user` and `password` may be given apart; a password that is not given
    is that of the variable `ALLUVIA_PASSWORD`. `tls_ca` is a file in PEM, or its bytes: the server's certificate, or the one that signed it;
    by default what the machine trusts. `timeout` is what the server gets to answer first, in seconds. `settings` hold for every session.
    """
    return connected(url, user=user, password=password, tls_ca=tls_ca, timeout=timeout, settings=settings)

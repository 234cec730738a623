"""DB-API 2.0 (PEP 249): this module is one, with `connect`, connections and cursors.

A connection is a session. Unless it is in autocommit mode, a transaction begins before the first INSERT, and `commit` ends it: one
atomic batch. Definitions (CREATE TABLE, ...) are batches of their own; while a transaction is open, they are part of it.
"""

from __future__ import annotations

import datetime
import os
import re
import time
from collections.abc import Iterable, Iterator
from types import TracebackType
from typing import Any, Optional, Union

from ._database import Database, Session, connected, opened_at
from ._errors import (
    DatabaseError, DataError, Error, IntegrityError, InterfaceError, InternalError, NotSupportedError, OperationalError,
    ProgrammingError, Warning,
)
from ._parameters import Parameters
from ._progress import Progress
from ._result import Result

__all__ = [
    "BINARY", "DATETIME", "NUMBER", "ROWID", "STRING",
    "Binary", "Connection", "Cursor", "DataError", "DatabaseError", "Date", "DateFromTicks", "Error", "IntegrityError", "InterfaceError",
    "InternalError", "NotSupportedError", "OperationalError", "ProgrammingError", "Time", "TimeFromTicks", "Timestamp",
    "TimestampFromTicks", "Warning", "apilevel", "connect", "paramstyle", "threadsafety",
]

apilevel = "2.0"
threadsafety = 2
paramstyle = "qmark"

Date = datetime.date
Time = datetime.time
Timestamp = datetime.datetime
Binary = bytes


def DateFromTicks(ticks: float) -> datetime.date:  # noqa: N802 - DB-API's name
    """The local day of a time in seconds."""
    return datetime.date(*time.localtime(ticks)[:3])


def TimeFromTicks(ticks: float) -> datetime.time:  # noqa: N802
    """The local time of day of a time in seconds."""
    return datetime.time(*time.localtime(ticks)[3:6])


def TimestampFromTicks(ticks: float) -> datetime.datetime:  # noqa: N802
    """The local date and time of a time in seconds."""
    return datetime.datetime(*time.localtime(ticks)[:6])


class _Type:
    """Equal to the names of the types that it stands for."""

    def __init__(self, *names: str) -> None:
        self._names = names

    def __eq__(self, other: object) -> bool:
        return isinstance(other, str) and other.partition("(")[0] in self._names

    def __hash__(self) -> int:
        return hash(self._names)


STRING = _Type("TEXT")
BINARY = _Type("BYTEA")
NUMBER = _Type("SMALLINT", "INT", "BIGINT", "REAL", "DOUBLE", "DECIMAL", "UInt64")
DATETIME = _Type("DATE", "TIMESTAMP", "TIMESTAMP WITH TIME ZONE")
ROWID = _Type()

_SPACE = r"(?:\s|--[^\n]*\n|/\*.*?\*/)*"
# What changes rows; behind WITH it may stand anywhere.
_CHANGE = re.compile(
    rf"{_SPACE}(?:(?:INSERT|UPDATE|DELETE|MERGE|TRUNCATE)\b|WITH\b.*\b(?:INSERT|UPDATE|DELETE|MERGE)\b)",
    re.IGNORECASE | re.DOTALL,
)
_DECIMAL = re.compile(r"DECIMAL\((\d+), ?(\d+)\)")
_COUNT = re.compile(r"(?:INSERT 0|UPDATE|DELETE|MERGE|COPY|SELECT|FETCH) (\d+)\Z")

Description = tuple[str, str, None, None, Optional[int], Optional[int], bool]


class Cursor:
    """Runs statements of a connection, and holds the last one's rows."""

    arraysize = 1

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.rowcount = -1
        self._result: Optional[Result] = None
        self._closed = False

    @property
    def description(self) -> Optional[list[Description]]:
        """Of each column the name, the type, and for decimals precision and scale; `None` if the last statement has no rows."""
        if self._result is None or not self._result.columns:
            return None
        described: list[Description] = []
        for name, type_name, nullable in self._result._rows.columns:
            decimal = _DECIMAL.match(type_name)
            precision, scale = (int(decimal[1]), int(decimal[2])) if decimal else (None, None)
            described.append((name, type_name, None, None, precision, scale, nullable))
        return described

    def execute(self, operation: str, parameters: Parameters = None) -> Cursor:
        """Runs a statement. Parameters are `?`, `$1` or `$name`."""
        session = self._open()
        if not self.connection.autocommit and _CHANGE.match(operation) and session.transaction == "idle":
            session.sql("BEGIN")
        return self._run(session, operation, parameters)

    def _run(self, session: Session, operation: str, parameters: Parameters) -> Cursor:
        self.rowcount = -1
        self._result = None
        self._result = session.sql(operation, parameters)
        count = _COUNT.match(self._result.tag)
        if count:
            self.rowcount = int(count[1])
        return self

    def executemany(self, operation: str, seq_of_parameters: Iterable[Parameters]) -> Cursor:
        """Runs a statement with each of the values; all of it is one batch."""
        session = self._open()
        own = session.transaction == "idle"
        if own:
            session.sql("BEGIN")
        rows = 0
        try:
            for parameters in seq_of_parameters:
                self._run(session, operation, parameters)
                rows += max(self.rowcount, 0)
        except BaseException:
            if own:
                session.sql("ROLLBACK")
            raise
        if own and self.connection.autocommit:
            session.sql("COMMIT")
        self._result = None
        self.rowcount = rows
        return self

    def fetchone(self) -> Optional[tuple[Any, ...]]:
        """Takes the next row; `None` after the last one."""
        return self._rows().fetchone()

    def fetchmany(self, size: Optional[int] = None) -> list[tuple[Any, ...]]:
        """Takes up to `size` rows (`arraysize` by default)."""
        return self._rows().fetchmany(self.arraysize if size is None else size)

    def fetchall(self) -> list[tuple[Any, ...]]:
        """Takes all rows that are left."""
        return self._rows()._rows.fetch()

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        return iter(self._rows())

    def arrow(self) -> Any:
        """All rows that are left as a pyarrow table."""
        return self._rows().arrow()

    def setinputsizes(self, sizes: Any) -> None:
        """Does nothing, as DB-API allows."""

    def setoutputsize(self, size: int, column: Optional[int] = None) -> None:
        """Does nothing, as DB-API allows."""

    def close(self) -> None:
        """Lets go of the rows."""
        if self._result is not None:
            self._result.close()
        self._result = None
        self._closed = True

    def __enter__(self) -> Cursor:
        return self

    def __exit__(
        self, kind: Optional[type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]
    ) -> None:
        self.close()

    def _open(self) -> Session:
        if self._closed:
            raise InterfaceError("the cursor is closed")
        return self.connection._open()

    def _rows(self) -> Result:
        self._open()
        if self._result is None or not self._result.columns:
            raise ProgrammingError("the last statement has no rows", sqlstate="24000")
        return self._result


class Connection:
    """A session as DB-API has it. As a context manager it commits, or rolls back after an exception, and stays open."""

    Warning = Warning
    Error = Error
    InterfaceError = InterfaceError
    DatabaseError = DatabaseError
    DataError = DataError
    OperationalError = OperationalError
    IntegrityError = IntegrityError
    InternalError = InternalError
    ProgrammingError = ProgrammingError
    NotSupportedError = NotSupportedError

    def __init__(self, database: Database, *, owns: bool, autocommit: bool = False) -> None:
        self._database = database
        self._owns = owns
        self._session: Optional[Session] = database.session()
        self.autocommit = autocommit

    @property
    def database(self) -> Database:
        """The database that it is of."""
        return self._database

    def cursor(self) -> Cursor:
        """A new cursor."""
        self._open()
        return Cursor(self)

    def execute(self, operation: str, parameters: Parameters = None) -> Cursor:
        """Runs a statement with a new cursor."""
        return self.cursor().execute(operation, parameters)

    def commit(self) -> None:
        """Ends the transaction, if there is one; its rows are one atomic batch."""
        session = self._open()
        if session.transaction == "failed":
            session.sql("ROLLBACK")
            raise ProgrammingError("the transaction was rolled back: a statement in it had failed", sqlstate="25P02")
        if session.transaction == "open":
            session.sql("COMMIT")

    def rollback(self) -> None:
        """Ends the transaction, if there is one, and leaves nothing of it."""
        session = self._open()
        if session.transaction != "idle":
            session.sql("ROLLBACK")

    def cancel(self) -> None:
        """Stops the running statement; may be called from any thread."""
        self._open().cancel()

    def progress(self) -> Progress:
        """How far the running statement is, or the last one; for another thread to look at."""
        return self._open().progress()

    def close(self) -> None:
        """Rolls back what is open. Closes the database too if `connect` opened it."""
        if self._session is not None:
            self._session.close()
            self._session = None
            if self._owns:
                self._database.close()

    def __enter__(self) -> Connection:
        return self

    def __exit__(
        self, kind: Optional[type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]
    ) -> None:
        if kind is None:
            self.commit()
        else:
            self.rollback()

    def _open(self) -> Session:
        if self._session is None:
            raise InterfaceError("the connection is closed")
        return self._session


def connect(
    database: Union[str, os.PathLike[str], Database], *, autocommit: bool = False, **options: Any
) -> Connection:
    """A DB-API connection: to an open database, which may have many; to the directory of one, with the options of
    [open][alluvia.open]; or, with a URL (`grpc://localhost`), to a server, with those of [connect][alluvia.connect].

    >>> connection = alluvia.dbapi.connect(db)
    >>> cursor = connection.cursor()
    >>> cursor.execute("SELECT ? * 2 AS twice", (21,)).fetchall()
    [(42,)]
    >>> connection.close()
    """
    if isinstance(database, Database):
        if options:
            raise TypeError(f"the database is open already: {', '.join(options)} come too late")
        return Connection(database, owns=False, autocommit=autocommit)
    path = os.fspath(database)
    opened = connected(path, **options) if "://" in path else opened_at(path, **options)
    try:
        return Connection(opened, owns=True, autocommit=autocommit)
    except BaseException:
        opened.close()
        raise

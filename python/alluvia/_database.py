"""Databases and sessions."""

from __future__ import annotations

import atexit
import itertools
import os
import re
import threading
import time
import weakref
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from types import TracebackType
from typing import Any, NamedTuple, Optional, Union

from . import _alluvia
from ._errors import Error, ProgrammingError
from ._parameters import Parameters, numbered
from ._progress import Meter, Progress, ProgressOption
from ._refinements import Refinements
from ._result import Result
from ._target import Certificates, certificates, target

_open_databases: weakref.WeakSet[Database] = weakref.WeakSet()
_SETTING = re.compile(r"[A-Za-z_][A-Za-z_0-9]*\Z")


class Ingested(NamedTuple):
    """What became of rows."""

    rows: int
    """How many there were."""
    version: Optional[int]
    """The version of their batch; `None` if there were no rows, or if they wait for a COMMIT."""


class Session:
    """A thread of statements with its own settings and transaction. Threads may share one; then its statements take turns.

    >>> with db.session() as session:
    ...     session.sql("SET freshness = '5s'")
    ...     session.sql("SHOW freshness").fetchone()
    SET
    ('5s',)
    """

    def __init__(self, core: _alluvia.Session, settings: Mapping[str, Any]) -> None:
        self._core = core
        self._numbers = itertools.count(1)
        # The statement that was given last, and when; until it is closed.
        self._statement = 0
        self._began: Optional[float] = None
        for name, value in settings.items():
            if not _SETTING.match(name):
                raise ProgrammingError(f"{name!r} is no name of a setting", sqlstate="22023")
            text = str(value).replace("'", "''")
            self._core.execute(f"SET {name} = '{text}'")

    def _begin(self) -> int:
        self._began = time.monotonic()
        number = self._statement = next(self._numbers)
        return number

    def sql(self, sql: str, parameters: Parameters = None, *, progress: ProgressOption = False) -> Result:
        """Runs a statement; see [Database.sql][alluvia.Database.sql]."""
        text, values = numbered(sql, parameters)
        meter = Meter(self.progress, progress) if progress else None
        statement = self._begin()
        try:
            rows = self._core.execute(text, values, meter)
        finally:
            if meter is not None:
                meter.end()
        return Result(rows, self, progress, statement)

    def refine(self, sql: str, parameters: Parameters = None) -> Refinements:
        """Begins a statement whose answer is wanted as far as it is known; see [Database.refine][alluvia.Database.refine]."""
        text, values = numbered(sql, parameters)
        begin = time.monotonic()
        self._begin()
        return Refinements(self._core.refine(text, values), self, begin)

    def ingest(
        self,
        table: str,
        rows: Any,
        *,
        create: bool = False,
        on_conflict: Optional[str] = None,
        op: Optional[str] = None,
        progress: ProgressOption = False,
        schema: Optional[str] = None,
    ) -> Ingested:
        """Takes rows into a table; see [Database.ingest][alluvia.Database.ingest]."""
        meter = Meter(self.progress, progress) if progress else None
        self._begin()
        try:
            return Ingested(*self._core.ingest(table, _rows_of(rows), create, on_conflict, op, meter, schema))
        finally:
            if meter is not None:
                meter.end()

    @property
    def transaction(self) -> str:
        """`idle`, `open` (between BEGIN and COMMIT) or `failed` (only ROLLBACK is taken)."""
        return self._core.transaction

    @property
    def time_zone(self) -> str:
        """The session's time zone, as SHOW prints it: results are shown in it, and their values stay in UTC."""
        return self._core.time_zone

    def cancel(self) -> None:
        """Stops the running statement; may be called from any thread."""
        self._core.cancel()

    def progress(self) -> Progress:
        """How far the running statement is, for another thread to look at. If none runs, `phase` is `idle`, and `rows` are those that the
        last one has taken in or put out."""
        return Progress(*self._core.progress())

    def close(self) -> None:
        """Stops what runs, and rolls back what is open."""
        self._began = None
        self._core.close()

    def __enter__(self) -> Session:
        return self

    def __exit__(
        self, kind: Optional[type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]
    ) -> None:
        self.close()


class Batch:
    """One atomic batch under way; see [Database.batch][alluvia.Database.batch]."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def sql(self, sql: str, parameters: Parameters = None) -> Result:
        """Runs a query or an INSERT within the batch; it sees the batch's rows."""
        return self._session.sql(sql, parameters)

    def ingest(
        self,
        table: str,
        rows: Any,
        *,
        on_conflict: Optional[str] = None,
        op: Optional[str] = None,
        schema: Optional[str] = None,
    ) -> Ingested:
        """Adds rows to the batch."""
        return self._session.ingest(table, rows, on_conflict=on_conflict, op=op, schema=schema)


class Database:
    """An open database: of this process, made by [open][alluvia.open], or of a server, made by [connect][alluvia.connect].

    Any thread may use it: each has a session of its own behind it, so a `SET` or `BEGIN` is the thread's. What must hold for all threads is
    given to `open` or `connect` as `settings`.
    """

    def __init__(self, core: _alluvia.Database, path: str, settings: Optional[Mapping[str, Any]]) -> None:
        self._core = core
        self._path = path
        self._settings = dict(settings or {})
        self._local = threading.local()
        self._sessions: weakref.WeakSet[Session] = weakref.WeakSet()
        self._sessions_lock = threading.Lock()
        _open_databases.add(self)
        try:
            self._session()
        except BaseException:
            self.close()
            raise

    @property
    def path(self) -> str:
        """The directory; of a server its URL, without a password."""
        return self._path

    @property
    def closed(self) -> bool:
        """Whether it is closed."""
        return self._core.closed

    def session(self) -> Session:
        """A new session, with settings and a transaction of its own. Cheap."""
        session = Session(self._core.session(), self._settings)
        with self._sessions_lock:
            self._sessions.add(session)
        return session

    def _session(self) -> Session:
        session: Optional[Session] = getattr(self._local, "session", None)
        # One that its server does not know any more has said so, to whoever used it last.
        if session is None or session._core.lost:
            session = self._local.session = self.session()
        return session

    def sql(self, sql: str, parameters: Parameters = None, *, progress: ProgressOption = False) -> Result:
        """Runs a statement in this thread's session. Several statements, without parameters, are run in order, and the last one's result
        is given.

        Parameters stand for constants: `$1`, `$2`, ... or `?` with a list, `$name` with a mapping.

        >>> db.sql("SELECT ? + 1 AS next", [41]).fetchone()
        (42,)
        >>> db.sql("SELECT $greeting || ', ' || $name AS words", {"greeting": "Good day", "name": "Ada"}).fetchone()
        ('Good day, Ada',)

        `progress=True` shows a line in the terminal or a bar in a notebook while it takes long; a function is called with each
        [Progress][alluvia.Progress]. Ctrl-C stops the statement.
        """
        return self._session().sql(sql, parameters, progress=progress)

    def refine(self, sql: str, parameters: Parameters = None) -> Refinements:
        """Begins one statement in this thread's session, and gives its answer as far as it is known: an iterator of
        [Refinement][alluvia.Refinement]s, each better than the one before, until the answer is exact, or within the session's `max_error`.

        >>> for refinement in db.refine("SELECT count(*) FROM generate_series(1, 1000) AS s(n) WHERE n > ?", [900]):
        ...     print(refinement.fetchone(), refinement.bounds, refinement.fraction)
        (100,) None 1.0

        A statement that is never estimated, as this one, or that is answered soon anyway, gives one refinement: its answer, whose rows are
        gathered in memory. Ctrl-C stops the statement; so do `close`, the end of a `with`, and forgetting the iterator. A server works ahead
        of whoever waits, and is stopped likewise.
        """
        return self._session().refine(sql, parameters)

    def ingest(
        self,
        table: str,
        rows: Any,
        *,
        create: bool = False,
        on_conflict: Optional[str] = None,
        op: Optional[str] = None,
        progress: ProgressOption = False,
        schema: Optional[str] = None,
    ) -> Ingested:
        """Takes rows into a table as one atomic batch, durable and visible when this returns.

        `rows` is a pandas, polars or pyarrow table, a result, anything with Arrow's PyCapsule interface, or an iterable of dicts. However
        many there are, memory is bounded. Columns are matched by name (exactly, else without regard to case); those that are missing
        are NULL; values are cast as INSERT casts them, and one that does not fit refuses the batch and names its row. If the source
        fails, nothing is applied.

        The table is named exactly, and looked up along the search path; `schema` says where it is, and so does `"s.t"`.

        `create=True` creates the table in the same batch, if there is none, with columns like those of the rows (and no dimensions); if
        the rows are refused, or somebody else creates the table meanwhile (SQLSTATE 42P07), nothing is applied.

        >>> db.ingest("words", [{"word": "one", "length": 3}, {"word": "three", "length": 5}], create=True).rows
        2
        >>> db.sql("SELECT sum(length) AS total FROM words").fetchone()
        (8,)

        In a table with a primary key `on_conflict` says what becomes of rows whose keys are there: `"error"`, `"nothing"` (they are passed
        over) or `"replace"`; by default what the table says. `op` says what rows do: `"insert"`, `"upsert"`, `"patch"` (the columns that
        the rows have are set, others stay) or `"delete"` (the rows need the key alone). A column `_op` says it of each row; rows of one
        key do so in their order.

        >>> db.sql("CREATE TABLE people (id BIGINT PRIMARY KEY, name TEXT, town TEXT)")
        CREATE TABLE
        >>> db.ingest("people", [{"id": 1, "name": "Ann", "town": "Ulm"}, {"id": 2, "name": "Bo", "town": "Linz"}]).rows
        2
        >>> taken = db.ingest("people", [{"id": 1, "name": "Anna", "town": "Ulm"}], on_conflict="replace")
        >>> taken = db.ingest("people", [{"id": 2, "town": "Graz"}], op="patch")
        >>> taken = db.ingest("people", [{"_op": "delete", "id": 1}, {"_op": "upsert", "id": 3, "name": "Cy"}])
        >>> db.sql("SELECT id, name, town FROM people ORDER BY id").fetchall()
        [(2, 'Bo', 'Graz'), (3, 'Cy', None)]
        """
        session = self._session()
        return session.ingest(
            table, rows, create=create, on_conflict=on_conflict, op=op, progress=progress, schema=schema
        )

    @contextmanager
    def batch(self) -> Iterator[Batch]:
        """One atomic batch of several steps, also into several tables: `BEGIN ... COMMIT` in a session of its own. An exception rolls
        it back.

        >>> db.sql("CREATE TABLE terms (term TEXT, length BIGINT)")
        CREATE TABLE
        >>> with db.batch() as batch:
        ...     taken = batch.ingest("terms", [{"term": "seven", "length": 5}])
        ...     batch.sql("INSERT INTO terms VALUES ('eleven', 6)")
        INSERT 0 1
        >>> db.sql("SELECT count(*) FROM terms").fetchone()
        (2,)
        """
        with self.session() as session:
            session.sql("BEGIN")
            try:
                yield Batch(session)
            except BaseException:
                try:
                    session.sql("ROLLBACK")
                except Error:
                    pass
                raise
            if session.transaction == "failed":
                session.sql("ROLLBACK")
                raise ProgrammingError("the batch was rolled back: a statement in it had failed", sqlstate="25P02")
            session.sql("COMMIT")

    def cancel(self) -> None:
        """Stops the running statement of this thread's session. (Use `session` for statements that another thread is to stop.)"""
        self._session().cancel()

    def progress(self) -> Progress:
        """How far the statement is that runs now, whichever thread gave it, in whichever session of this object; of several the one that
        began last. If none runs, `phase` is `idle`.

        >>> db.progress().phase
        'idle'
        """
        with self._sessions_lock:
            sessions = [(session._began, session) for session in self._sessions]
        begun = [(began, session) for began, session in sessions if began is not None and not session._core.lost]
        last: Optional[Progress] = None
        for _, session in sorted(begun, key=lambda pair: pair[0], reverse=True):
            progress = session.progress()
            if progress.phase != "idle":
                return progress
            last = last or progress
        # Where nothing was asked yet, this thread's session says so.
        return last or self._session().progress()

    def close(self) -> None:
        """Cancels what runs, ends sessions and results, and releases the directory or the connection. Does nothing the second time."""
        self._core.close()
        _open_databases.discard(self)

    def __enter__(self) -> Database:
        return self

    def __exit__(
        self, kind: Optional[type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<alluvia.Database {self._path!r}{', closed' if self.closed else ''}>"


@atexit.register
def _close_all() -> None:
    for database in list(_open_databases):
        try:
            database.close()
        except Error:
            pass


def opened_at(
    path: Union[str, os.PathLike[str]],
    *,
    memory_limit: Union[str, int, None] = None,
    threads: Optional[int] = None,
    spill_limit: Union[str, int, None] = None,
    settings: Optional[Mapping[str, Any]] = None,
) -> Database:
    """The database in a directory; see [open][alluvia.open]."""
    directory = os.fspath(path)
    return Database(_alluvia.Database(directory, _size(memory_limit), threads, _size(spill_limit)), directory, settings)


def connected(
    url: str,
    *,
    user: Optional[str] = None,
    password: Optional[str] = None,
    tls_ca: Certificates = None,
    timeout: float = 10.0,
    settings: Optional[Mapping[str, Any]] = None,
) -> Database:
    """The database of a server; see [connect][alluvia.connect]."""
    if not isinstance(url, str):
        raise TypeError(f"a host or a URL is wanted, and a {type(url).__name__} is given: alluvia.open opens directories, "
                        "and alluvia.dbapi.connect gives connections of DB-API")
    server = target(url, user, password, trusts=tls_ca is not None)
    trusted = certificates(tls_ca) if server.tls else None
    core = _alluvia.Database.connect(server.host, server.port, server.user, server.password, trusted, timeout)
    return Database(core, server.url, settings)


def _size(size: Union[str, int, None]) -> Optional[str]:
    return None if size is None else str(size)


def _rows_of(rows: Any) -> Any:
    """What the engine can read: pandas' index is columns only if it has names."""
    library = type(rows).__module__.partition(".")[0]
    if library == "pandas" and hasattr(rows, "reset_index") and hasattr(rows, "columns"):
        import pyarrow

        if any(name is not None for name in rows.index.names):
            rows = rows.reset_index()
        return pyarrow.Table.from_pandas(rows, preserve_index=False)
    if hasattr(rows, "__arrow_c_stream__") or hasattr(rows, "__arrow_c_array__"):
        return rows
    if library == "polars" and hasattr(rows, "collect"):
        return rows.collect()
    if library == "pyarrow" and hasattr(rows, "scanner"):
        return rows.scanner().to_reader()
    if isinstance(rows, Mapping):
        raise TypeError("rows are wanted, and one mapping is given: put it into a list")
    if isinstance(rows, Iterable) and not isinstance(rows, (str, bytes)):
        return (row if type(row) is dict else _dict_of(row) for row in rows)
    return rows


def _dict_of(row: Any) -> Any:
    return dict(row) if isinstance(row, Mapping) else row

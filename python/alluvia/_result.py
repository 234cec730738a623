"""The answer of a statement."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import TYPE_CHECKING, Any, NamedTuple, Optional

from . import _alluvia
from ._display import ROWS_MAX, html_table, in_zone, text_table, with_errors
from ._errors import Error
from ._progress import Meter, Progress, ProgressOption

if TYPE_CHECKING:
    import pandas
    import polars
    import pyarrow

    from ._database import Session


class AsOf(NamedTuple):
    """Which batches an answer includes."""

    version: int
    """Everything through this version is in the answer, and nothing above it."""
    lag: timedelta
    """How long ago the first batch that the answer lacks became visible; zero when it lacks none."""


class Bounds(NamedTuple):
    """Where the exact values of an estimated column are, row by row; `None` where nothing is known."""

    lower: list[Any]
    """They are not below these."""
    upper: list[Any]
    """They are not above these."""


class Used(NamedTuple):
    """What a statement read of the database's tables; complete once its rows were read. (A server tells the counts then; they are 0
    before.)"""

    version: int
    """Everything through this version is in the answer, and nothing above it."""
    lag: timedelta
    """How long ago the first batch that the answer lacks became visible; zero when it lacks none."""
    stage: str
    """The least organised stage that had to be read: `ingested`, `sorted` or `merged`."""
    segments_read: int
    segments_skipped: int
    blocks_read: int
    blocks_skipped: int
    rows_read: int
    """Rows of the blocks and tail runs that were read, before filters."""
    tail_rows: int
    """Of these, rows of the tail and of the open transaction."""
    bytes_read: int
    """Bytes fetched from segments, compressed."""


class Result:
    """The answer of one statement.

    The statement ran (or runs) on the snapshot of the moment it was given; rows come as they are asked for. `arrow`, `df`, `pl`
    and `fetchall` read all rows and keep them, so they can be called again. `fetchone`, `fetchmany`, iteration and the Arrow
    stream interface *take* rows: each comes once, and the rest can then be had in any way.

    >>> r = db.sql("SELECT * FROM (VALUES (1, 'one'), (2, 'two')) AS t(number, name) ORDER BY number")
    >>> r.columns
    ['number', 'name']
    >>> r
    +--------+------+
    | number | name |
    +--------+------+
    |      1 | one  |
    |      2 | two  |
    +--------+------+
    >>> r.fetchall()
    [(1, 'one'), (2, 'two')]
    >>> r.arrow().num_rows
    2
    """

    def __init__(self, rows: _alluvia.Rows, session: Session, progress: ProgressOption, statement: int) -> None:
        self._rows = rows
        # Its number among those of the session.
        self._statement = statement
        # Its session lives as long: what a thread that ends asked for can be read by another.
        self._session = session
        self._progress_option = progress

    @property
    def columns(self) -> list[str]:
        """The columns' names; empty for a statement without rows."""
        return [name for name, _, _ in self._rows.columns]

    @property
    def types(self) -> list[str]:
        """The columns' types as SQL writes them.

        >>> db.sql("SELECT 1 AS a, 'x' AS b, DATE '2026-11-21' AS c").types
        ['BIGINT', 'TEXT', 'DATE']
        """
        return [type_name for _, type_name, _ in self._rows.columns]

    @property
    def tag(self) -> str:
        """What was done, as PostgreSQL says it: `SELECT`, `INSERT 0 5`, `CREATE TABLE`."""
        return self._rows.tag

    @property
    def notices(self) -> list[str]:
        """Things to know that are not rows, such as how many rows a COPY skipped."""
        return self._rows.notices

    @property
    def used(self) -> Optional[Used]:
        """What the statement read; `None` for one that reads no table. Complete once all rows were read."""
        used = self._rows.used()
        if used is None:
            return None
        return Used(used[0], timedelta(seconds=used[1]), *used[2:])

    @property
    def as_of(self) -> Optional[AsOf]:
        """Which batches the answer includes; `None` for a statement that reads no table."""
        used = self.used
        return None if used is None else AsOf(used.version, used.lag)

    @property
    def bounds(self) -> Optional[dict[str, Bounds]]:
        """Of each column that is estimated, by its name, where the exact values are, for all rows of the answer, whether they were taken or
        not. `None` if the answer is exact.

        Answers are estimated under `SET max_error` alone. Under an `error_action` other than `escalate` bounds are not told here:
        `lower_bound(sum(x))` and `upper_bound(sum(x))` in the statement tell them.

        >>> db.sql("SELECT count(*) FROM generate_series(1, 3)").bounds is None
        True
        """
        columns = self._rows.bounds()
        return None if columns is None else {name: Bounds(lower, upper) for name, lower, upper in columns}

    def progress(self) -> Progress:
        """How far the statement is, for another thread to look at while this one reads; or what it came to: when all rows were read,
        `fraction` is 1. Rows come as they are asked for, so a result that nobody reads stands still.

        A server tells of the statement that its session has begun last: of others nothing is known but their seconds, until they end.

        >>> r = db.sql("SELECT count(*) FROM generate_series(1, 1000)")
        >>> r.progress().phase, r.fetchall(), r.progress().phase, r.progress().fraction
        ('running', [(1000,)], 'idle', 1.0)
        """
        return Progress(*self._rows.progress(self._statement == self._session._statement))

    def arrow(self) -> pyarrow.Table:
        """All rows that were not taken, as a pyarrow table."""
        import pyarrow

        return pyarrow.RecordBatchReader.from_stream(_Kept(self, plain=True)).read_all()

    def df(self) -> pandas.DataFrame:
        """All rows that were not taken, as a pandas data frame. Decimals are `Decimal`, dates `date`; NULL in a column of integers makes it
        one of floats, as pandas has it."""
        return self.arrow().to_pandas()

    def pl(self) -> polars.DataFrame:
        """All rows that were not taken, as a polars data frame."""
        import polars

        return polars.DataFrame(_Kept(self, plain=False))

    def fetchall(self) -> list[tuple[Any, ...]]:
        """All rows that were not taken, as tuples."""
        with _Metered(self) as look:
            return self._rows.all(look)

    def fetchone(self) -> Optional[tuple[Any, ...]]:
        """Takes the next row; `None` after the last one."""
        return self._rows.fetch_one()

    def fetchmany(self, size: int = 1) -> list[tuple[Any, ...]]:
        """Takes up to `size` rows."""
        return self._rows.fetch(size)

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        """Takes rows one by one.

        >>> [number for (number,) in db.sql("SELECT * FROM generate_series(1, 3)")]
        [1, 2, 3]
        """
        return iter(self._rows)

    def batches(self) -> pyarrow.RecordBatchReader:
        """Takes all rows as a stream of Arrow batches, in bounded memory."""
        import pyarrow

        return pyarrow.RecordBatchReader.from_stream(self)

    def __arrow_c_stream__(self, requested_schema: object = None) -> Any:
        """Arrow's PyCapsule interface: takes all rows, as they are read."""
        return self._rows.arrow_stream(plain=True, keep=False)

    def __arrow_c_schema__(self) -> Any:
        """Arrow's PyCapsule interface: the columns."""
        return self._rows.arrow_schema(plain=True)

    def close(self) -> None:
        """Stops the statement and lets go of its rows."""
        self._rows.close()

    def _peek(self) -> tuple[list[str], list[str], list[tuple[Any, ...]], bool]:
        rows, more = self._rows.peek(ROWS_MAX)
        if any("WITH TIME ZONE" in name for name in self.types):
            try:
                rows = in_zone(rows, self._session.time_zone)
            except Error:
                # Of a session that is closed nobody knows the zone.
                pass
        bounds = self._rows.peek_bounds(ROWS_MAX)
        if bounds is not None:
            rows = with_errors(self.columns, rows, {name: (lower, upper) for name, lower, upper in bounds}, self._is_known)
        return self.columns, self.types, rows, more

    _is_known = True
    """Whether something is known of every value."""

    def __repr__(self) -> str:
        if not self._rows.columns:
            return self.tag
        return text_table(*self._peek())

    def _repr_html_(self) -> Optional[str]:
        if not self._rows.columns:
            return None
        return html_table(*self._peek())


class _Kept:
    """All rows of a result, which stay with it."""

    def __init__(self, result: Result, plain: bool) -> None:
        self._result = result
        self._plain = plain

    def __arrow_c_schema__(self) -> Any:
        return self._result._rows.arrow_schema(plain=self._plain)

    def __arrow_c_stream__(self, requested_schema: object = None) -> Any:
        with _Metered(self._result) as look:
            return self._result._rows.arrow_stream(plain=self._plain, keep=True, look=look)


class _Metered:
    """Shows progress while rows are read, if the result was asked for with it."""

    def __init__(self, result: Result) -> None:
        self._meter = Meter(result.progress, result._progress_option) if result._progress_option else None

    def __enter__(self) -> Optional[Meter]:
        return self._meter

    def __exit__(self, *_: object) -> None:
        if self._meter is not None:
            self._meter.end()

"""Answers that get better while they are waited for."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from datetime import timedelta
from types import TracebackType
from typing import TYPE_CHECKING, Optional

from . import _alluvia
from ._progress import Progress
from ._result import Result

if TYPE_CHECKING:
    from ._database import Session


def _off(error: float) -> str:
    return f"at most {100 * error:.2g} % off" if math.isfinite(error) else "some values are not known yet"


class Refinement(Result):
    """The answer as far as it is known: a [Result][alluvia.Result] with all rows, the columns, order and limit of the answer, and how
    sure it is. It stays when the next one comes.

    >>> last = list(db.refine("SELECT * FROM generate_series(1, 3)"))[-1]
    >>> last.is_last, last.is_exact, last.fraction, last.fetchall()
    (True, True, 1.0, [(1,), (2,), (3,)])
    """

    def __init__(self, rows: _alluvia.Rows, session: Session, figures: _alluvia.Figures, elapsed: timedelta) -> None:
        super().__init__(rows, session, False, 0)
        (
            self._look, self._looks, self._kind, self._confidence, self._error, self._fraction, self._groups_unseen, self._is_last,
        ) = figures
        self._elapsed = elapsed
        self._is_known = math.isfinite(self._error)

    @property
    def look(self) -> int:
        """The planned look at samples that this is, from 1; 0 of an exact answer."""
        return self._look

    @property
    def looks(self) -> int:
        """Looks that are planned; 0 of a statement that is never estimated."""
        return self._looks

    @property
    def kind(self) -> str:
        """What the bounds are: `planned` (one of so many planned looks at samples, each with its share of the error) or `exact`."""
        return self._kind

    @property
    def confidence(self) -> float:
        """How often *all* intervals that one value has in all refinements of a statement hold the exact one, over the choice of the sample:
        so one may stop at whichever, for whatever reason. 1 of an exact answer."""
        return self._confidence

    @property
    def error(self) -> float:
        """The most that a value may be off, as a share: of the exact value, or of the estimate where that is less, as where the exact value may be
        next to 0. Infinite where nothing is known, 0 of an exact answer."""
        return self._error

    @property
    def fraction(self) -> float:
        """The share of the rows that the exact answer reads that were read so far, from 0 to 1."""
        return self._fraction

    @property
    def groups_unseen(self) -> int:
        """Groups that may exist and were not seen yet."""
        return self._groups_unseen

    @property
    def elapsed(self) -> timedelta:
        """From the beginning of the statement until this was known."""
        return self._elapsed

    @property
    def is_last(self) -> bool:
        """Whether it is the answer: exact, or within `max_error`."""
        return self._is_last

    @property
    def is_exact(self) -> bool:
        """Whether nothing in it is estimated."""
        return self._kind == "exact"

    def progress(self) -> Progress:
        """How far the statement was when this was known."""
        used, seconds, fraction = self.used, self._elapsed.total_seconds(), self._fraction
        rows = None if used is None else used.rows_read
        left = 0.0 if self._is_last else seconds * (1 - fraction) / fraction if fraction else None
        return Progress(
            "idle" if self._is_last else "running",
            rows=rows,
            bytes=None if used is None else used.bytes_read or None,
            seconds=seconds,
            fraction=fraction,
            rows_per_second=rows / seconds if rows is not None and seconds else None,
            seconds_left=left,
        )

    def _sureness(self) -> Optional[str]:
        """What stands below an estimate, and below an answer that nobody could see closing."""
        if self._looks == 0:
            return "nothing here is refined: this is the answer" if self.columns else None
        if self.is_exact:
            return None
        parts = [f"{100 * self.fraction:.0f} % of the rows read", _off(self.error)]
        if self.groups_unseen:
            parts.append(f"up to {self.groups_unseen} groups not seen yet")
        return f"look {self.look} of {self.looks}: {', '.join(parts)}"

    def __repr__(self) -> str:
        sureness = self._sureness()
        return super().__repr__() if sureness is None else f"{super().__repr__()}\n{sureness}"

    def _repr_html_(self) -> Optional[str]:
        shown, sureness = super()._repr_html_(), self._sureness()
        if shown is None or sureness is None:
            return shown
        if self.is_exact:
            return f"{shown}{sureness}"
        return f'{shown}<progress value="{self.fraction:.3f}"></progress> {sureness}'


class Refinements:
    """Refinements of one statement, each better than the one before; the last is the answer. Made by
    [Database.refine][alluvia.Database.refine].

    The engine works while the next one is waited for (a server's also ahead of that). Closing it, leaving its `with`, and forgetting it stop the statement. At the end of a
    notebook's cell it is shown refining, in place.

    >>> with db.refine("SELECT count(*) AS numbers FROM generate_series(1, 1000)") as refinements:
    ...     for refinement in refinements:
    ...         if refinement.error < 0.02:
    ...             break
    >>> refinement.fetchone()
    (1000,)
    """

    def __init__(self, core: _alluvia.Refinements, session: Session, begin: float) -> None:
        self._core = core
        self._session = session
        self._begin = begin

    def __iter__(self) -> Iterator[Refinement]:
        return self

    def __next__(self) -> Refinement:
        told = self._core.next()
        if told is None:
            raise StopIteration
        rows, figures = told
        return Refinement(rows, self._session, figures, timedelta(seconds=time.monotonic() - self._begin))

    def progress(self) -> Progress:
        """How far the session's statement is, for another thread to look at; see [Session.progress][alluvia.Session.progress]."""
        return self._session.progress()

    def close(self) -> None:
        """Stops the statement. What was given before stays."""
        self._core.close()

    def __enter__(self) -> Refinements:
        return self

    def __exit__(
        self, kind: Optional[type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]
    ) -> None:
        self.close()

    def _ipython_display_(self) -> None:
        from IPython.display import display  # type: ignore[import-not-found,unused-ignore]

        handle = None
        for refinement in self:
            if handle is None:
                handle = display(refinement, display_id=True)
            else:
                handle.update(refinement)

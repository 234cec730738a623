"""How far a statement is: figures, and their display in a terminal or a notebook."""

from __future__ import annotations

import shutil
import sys
import time
from typing import Any, Callable, NamedTuple, Optional, Union


class Progress(NamedTuple):
    """How far a statement is. `None` is what nobody knows.

    >>> half = Progress("running", rows=3_000_000, seconds=2.0, fraction=0.25, rows_per_second=1_500_000, seconds_left=6.0)
    >>> print(half)
    running: 3,000,000 rows, 2.0 s, 1,500,000 rows/s, 25 %, 6.0 s left
    >>> print(Progress("idle"))
    idle
    """

    phase: str
    """`idle` (nothing runs), `running`, `finishing` (sorting and syncing what was staged) or `committing`."""
    rows: Optional[int] = None
    """Rows taken in or put out, or read by a query."""
    bytes: Optional[int] = None
    """Bytes of files that were read, or that a query has fetched from segments, compressed."""
    bytes_total: Optional[int] = None
    """Bytes of the files to read."""
    seconds: Optional[float] = None
    """Since the statement began; of a result that has ended, until then."""
    fraction: Optional[float] = None
    """The part that is done, from 0 to 1, which it is at the end alone: of the files that are read, or of the rows that a query reads, sorts,
    groups and writes. It never goes back, and is `None` where nothing bounds what there is to do."""
    rows_per_second: Optional[float] = None
    """Rows in the mean since the statement began."""
    seconds_left: Optional[float] = None
    """What is left if it goes on as it went."""

    def __str__(self) -> str:
        """One line."""
        parts = []
        if self.rows is not None:
            parts.append(f"{self.rows:,} rows")
        if self.seconds is not None:
            parts.append(f"{self.seconds:.1f} s")
        if self.rows_per_second is not None:
            parts.append(f"{self.rows_per_second:,.0f} rows/s")
        if self.fraction is not None:
            parts.append(f"{100 * self.fraction:.0f} %")
        if self.seconds_left is not None and self.phase != "idle":
            parts.append(f"{self.seconds_left:.1f} s left")
        return f"{self.phase}: {', '.join(parts)}" if parts else self.phase

    def _repr_html_(self) -> str:
        """A bar, which only moves to and fro where the fraction is not known."""
        value = "" if self.fraction is None else f' value="{self.fraction:.3f}"'
        return f"<progress{value}></progress> {self}"


ProgressOption = Union[bool, Callable[[Progress], Any]]
"""`True` shows a line in the terminal, or a bar in a notebook; a function is called with each [Progress][alluvia.Progress]."""

_FIRST_SECONDS = 0.5
_EACH_SECONDS = 0.2


class Meter:
    """Shows a statement's progress while it is waited for. The engine calls it some times a second."""

    def __init__(self, report: Callable[[], Progress], option: ProgressOption) -> None:
        self._report = report
        self._begin = time.monotonic()
        self._next = self._begin + (0 if callable(option) else _FIRST_SECONDS)
        self._show: Callable[[Progress], Any] = option if callable(option) else _display()

    def __call__(self) -> None:
        now = time.monotonic()
        if now >= self._next:
            self._next = now + _EACH_SECONDS
            progress = self._report()
            if progress.phase == "idle":
                # It waits for its turn, or has just ended: what is told is of the statement before, or of nothing that is left.
                progress = Progress("running", seconds=now - self._begin)
            self._show(progress)

    def end(self) -> None:
        """The statement is over: what was shown goes."""
        end = getattr(self._show, "end", None)
        if end is not None:
            end()


_BAR_MIN, _BAR_MAX = 5, 30


def bar(fraction: float, width: int) -> str:
    """A bar of characters.

    >>> bar(0.25, 10)
    '[==        ]'
    """
    return f"[{('=' * int(fraction * width)).ljust(width)}]"


class _Line:
    """One line of a terminal, written over: the figures, and a bar if there is room."""

    def __init__(self) -> None:
        self._width = 0

    def __call__(self, progress: Progress) -> None:
        # A line that wraps could not be written over.
        columns = shutil.get_terminal_size().columns - 1
        line = str(progress)[:columns]
        room = min(columns - len(line) - 3, _BAR_MAX)
        if progress.fraction is not None and room >= _BAR_MIN:
            line += f" {bar(progress.fraction, room)}"
        sys.stderr.write("\r" + line.ljust(self._width))
        sys.stderr.flush()
        self._width = len(line)

    def end(self) -> None:
        if self._width:
            sys.stderr.write("\r" + " " * self._width + "\r")
            sys.stderr.flush()
            self._width = 0


class _Bar:
    """A bar in a notebook."""

    def __init__(self) -> None:
        self._handle: Any = None

    def __call__(self, progress: Progress) -> None:
        from IPython.display import HTML, display  # type: ignore[import-not-found,unused-ignore]

        shown = HTML(progress._repr_html_())
        if self._handle is None:
            self._handle = display(shown, display_id=True)
        else:
            self._handle.update(shown)

    def end(self) -> None:
        if self._handle is not None:
            from IPython.display import HTML

            self._handle.update(HTML(""))
            self._handle = None


def _display() -> Callable[[Progress], Any]:
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    # Those of hosted notebooks are made from Jupyter's.
    if any(kind.__name__ == "ZMQInteractiveShell" for kind in type(shell).__mro__):
        return _Bar()
    return _Line()

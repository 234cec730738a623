"""How far a statement is: figures, and their display in a terminal or a notebook."""

from __future__ import annotations

import sys
import time
from typing import Any, Callable, NamedTuple, Optional, Union


class Progress(NamedTuple):
    """What a statement has done so far."""

    phase: str
    """`idle` (nothing that takes long), `running`, `finishing` (sorting and syncing what was staged) or `committing`."""
    rows: int
    """Rows taken in or put out, or read by a query."""
    bytes_done: int
    """Bytes of the input that were read."""
    bytes_total: int
    """Bytes of the input; 0 where that is not known."""
    seconds: float
    """Since the statement began."""

    @property
    def fraction(self) -> Optional[float]:
        """The part that is done, from 0 to 1; `None` where that is not known.

        >>> Progress("running", 10, 50, 200, 1.0).fraction
        0.25
        """
        return min(1.0, self.bytes_done / self.bytes_total) if self.bytes_total else None

    def __str__(self) -> str:
        """One line.

        >>> print(Progress("running", 3000000, 50, 200, 2.0))
        running: 3,000,000 rows, 2.0 s, 1,500,000 rows/s, 25 %, 6.0 s left
        """
        parts = [f"{self.rows:,} rows", f"{self.seconds:.1f} s"]
        if self.seconds > 0:
            parts.append(f"{self.rows / self.seconds:,.0f} rows/s")
        fraction = self.fraction
        if fraction:
            parts += [f"{fraction:.0%}".replace("%", " %"), f"{self.seconds / fraction * (1 - fraction):.1f} s left"]
        return f"{self.phase}: {', '.join(parts)}"


ProgressOption = Union[bool, Callable[[Progress], Any]]
"""`True` shows a line in the terminal, or a bar in a notebook; a function is called with each [Progress][alluvia.Progress]."""

_FIRST_SECONDS = 0.5
_EACH_SECONDS = 0.2


class Meter:
    """Shows a statement's progress while it is waited for. The engine calls it some times a second."""

    def __init__(self, figures: Callable[[], tuple[str, int, int, int]], option: ProgressOption) -> None:
        self._figures = figures
        self._begin = time.monotonic()
        self._next = self._begin + (0 if callable(option) else _FIRST_SECONDS)
        self._show: Callable[[Progress], Any] = option if callable(option) else _display()

    def __call__(self) -> None:
        now = time.monotonic()
        if now >= self._next:
            self._next = now + _EACH_SECONDS
            self._show(Progress(*self._figures(), seconds=now - self._begin))

    def end(self) -> None:
        """The statement is over: what was shown goes."""
        end = getattr(self._show, "end", None)
        if end is not None:
            end()


class _Line:
    """One line of a terminal, written over."""

    def __init__(self) -> None:
        self._width = 0

    def __call__(self, progress: Progress) -> None:
        line = str(progress)
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

        fraction = progress.fraction
        value = "" if fraction is None else f' value="{fraction:.3f}"'
        shown = HTML(f"<progress{value}></progress> {progress}")
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
    if shell is not None and type(shell).__name__ == "ZMQInteractiveShell":
        return _Bar()
    return _Line()

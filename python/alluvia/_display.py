"""Results as tables, for terminals and notebooks."""

from __future__ import annotations

import html
import math
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

ROWS_MAX = 20
"""Rows that are shown of a result."""
WIDTH_MAX = 60
"""Characters that are shown of a value."""

_NUMBERS = ("SMALLINT", "INT", "BIGINT", "REAL", "DOUBLE", "DECIMAL", "UInt64")


def shown(value: Any) -> str:
    """A value as it stands in a table.

    >>> [shown(value) for value in (None, True, 1.5, "a\\nb", b"\\x01")]
    ['NULL', 'true', '1.5', 'a b', '\\\\x01']
    """
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, bytes):
        return _cut("\\x" + value[:WIDTH_MAX].hex())
    return _cut(" ".join(str(value).split("\n")))


def in_zone(rows: Sequence[tuple[Any, ...]], name: str) -> list[tuple[Any, ...]]:
    """Rows whose moments are those that clocks of a zone show; as they are where Python knows no zone of this name.

    >>> from datetime import timezone
    >>> [(moment,)] = in_zone([(datetime(2026, 7, 1, tzinfo=timezone.utc),)], "Europe/Berlin")
    >>> str(moment)
    '2026-07-01 02:00:00+02:00'
    """
    try:
        zone = ZoneInfo(name)
    except (ValueError, OSError, LookupError):
        return list(rows)

    def shown_there(value: Any) -> Any:
        if not isinstance(value, datetime) or value.tzinfo is None:
            return value
        try:
            return value.astimezone(zone)
        except OverflowError:
            # Next to the first and the last year.
            return value

    return [tuple(map(shown_there, row)) for row in rows]


SHARE_MAX = 10
"""A value that may be off more often than so many times itself is shown with how much it may be off, and not with the share."""


def with_errors(
    names: Sequence[str],
    rows: Sequence[tuple[Any, ...]],
    bounds: Mapping[str, tuple[Sequence[Any], Sequence[Any]]],
    is_known: bool,
) -> list[tuple[Any, ...]]:
    """Rows whose estimated values are texts that say what they may be off, row by row of `bounds`: lower ones, upper ones. Where something
    is known of every value, one without bounds is NULL, as an average of no values.

    >>> with_errors(["a", "n"], [("x", 22577225), ("y", 7000), ("z", None)], {"n": ([22464339, 7000, None], [22600000, 7000, None])}, False)
    [('x', '22,577,225 ± 0.5 %'), ('y', '7,000'), ('z', '? ± ?')]
    """

    def texts(at: int, row: tuple[Any, ...]) -> tuple[Any, ...]:
        values = list(row)
        for place, name in enumerate(names):
            if name in bounds:
                lower, upper = bounds[name]
                if not (is_known and row[place] is None):
                    values[place] = estimated(row[place], lower[at], upper[at])
        return tuple(values)

    return [texts(at, row) for at, row in enumerate(rows)]


def estimated(value: Any, lower: Any, upper: Any) -> str:
    """A value as it is shown that is between these: with no more digits than make sense, and what it may be off rounded up, never less than
    it is.

    >>> [estimated(*case) for case in ((485.022904, 476.5, 493.5), (-0.0012345, -0.0013345, -0.0012), (3, 0, 123), (1.5, 1.5, 1.5))]
    ['485.0 ± 1.8 %', '-0.00123 ± 8.5 %', '3 ± 120', '1.5']
    """
    if value is None or lower is None or upper is None:
        return "? ± ?" if value is None else f"{shown(value)} ± ?"
    if lower == upper:
        return _grouped(value)
    off = float(max(value - lower, upper - value))
    if not math.isfinite(off):
        return f"{shown(value)} ± ?"
    places = 0 if isinstance(value, int) else min(max(1 - math.floor(math.log10(off)), 0), 12)
    text = f"{value:,.{places}f}"
    off += abs(float(text.replace(",", "")) - float(value))
    if off <= SHARE_MAX * abs(float(value)):
        return f"{text} ± {_rounded_up(100 * off / abs(float(value)))} %"
    return f"{text} ± {_rounded_up(off)}"


def _grouped(value: Any) -> str:
    """A number with commas between its thousands.

    >>> [_grouped(value) for value in (1234567, -1234.5, float("inf"), 1e20)]
    ['1,234,567', '-1,234.5', 'inf', '1e+20']
    """
    return f"{value:,}"


def _rounded_up(value: float) -> str:
    """Two digits, without zeros at the end of a fraction.

    >>> [_rounded_up(value) for value in (0.501, 0.5, 12.1, 1234.0, 0.0012)]
    ['0.51', '0.5', '13', '1,300', '0.0012']
    """
    places = 1 - math.floor(math.log10(value))
    # What has so few digits already is not rounded further up for the last bit.
    up = math.ceil(value * 10.0**places * (1 - 1e-12)) / 10.0**places
    text = f"{up:,.{max(places, 0)}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def _cut(text: str) -> str:
    return text if len(text) <= WIDTH_MAX else text[: WIDTH_MAX - 3] + "..."


def is_number(type_name: str) -> bool:
    """Whether values of the type stand on the right."""
    return type_name.startswith(_NUMBERS)


def text_table(names: Sequence[str], types: Sequence[str], rows: Sequence[Sequence[Any]], more: bool) -> str:
    """A table of plain characters.

    >>> print(text_table(["a", "b"], ["TEXT", "BIGINT"], [("x", 1), (None, 20)], False))
    +------+----+
    | a    |  b |
    +------+----+
    | x    |  1 |
    | NULL | 20 |
    +------+----+
    """
    cells = [[shown(value) for value in row] for row in rows]
    widths = [max([len(name), *(len(row[at]) for row in cells)]) for at, name in enumerate(names)]
    right = [is_number(name) for name in types]

    def line(values: Sequence[str]) -> str:
        padded = (v.rjust(w) if r else v.ljust(w) for v, w, r in zip(values, widths, right))
        return "| " + " | ".join(padded) + " |"

    rule = "+" + "+".join("-" * (width + 2) for width in widths) + "+"
    lines = [rule, line([_cut(name) for name in names]), rule, *(line(row) for row in cells), rule]
    if more:
        lines.append(f"(the first {len(cells)} rows)")
    return "\n".join(lines)


def html_table(names: Sequence[str], types: Sequence[str], rows: Sequence[Sequence[Any]], more: bool) -> str:
    """A table for notebooks."""
    align = ["right" if is_number(name) else "left" for name in types]
    head = "".join(
        f'<th style="text-align:{a}" title="{html.escape(t)}">{html.escape(n)}</th>' for n, t, a in zip(names, types, align)
    )
    body = "".join(
        "<tr>" + "".join(f'<td style="text-align:{a}">{html.escape(shown(v))}</td>' for v, a in zip(row, align)) + "</tr>"
        for row in rows
    )
    note = f"<caption>the first {len(rows)} rows</caption>" if more else ""
    return f"<table>{note}<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"

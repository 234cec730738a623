"""Results as tables, for terminals and notebooks."""

from __future__ import annotations

import html
import math
import sys
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
PLACES_MAX = 15
"""With more digits behind the point, or zeros before it, a number is written with its power of ten."""
TINY = 1e-5
"""What is at least this has no power of ten, however many digits make sense."""


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
    >>> [estimated(*case) for case in ((1.04, -3.96, 6.04), (4.884e-16, 1e-20, 8e-16), (2.0, 2.0, float("nan")), (None, None, None))]
    ['1.0 ± 510 %', '4.9e-16 ± 100 %', '2.0 ± ?', '? ± ?']
    """
    if value is None or lower is None or upper is None:
        return "? ± ?" if value is None else f"{shown(value)} ± ?"
    if lower == upper:
        return f"{value:,}"
    below, above = float(value - lower), float(upper - value)
    if not (math.isfinite(below) and math.isfinite(above)):
        return f"{shown(value)} ± ?"
    off = max(below, above, abs(float(value)) * sys.float_info.epsilon, sys.float_info.min)
    places = 1 - math.floor(math.log10(off))
    if isinstance(value, int):
        text = f"{value:,}"
    elif places <= PLACES_MAX or abs(value) >= TINY:
        text = f"{value:,.{min(max(places, 0), PLACES_MAX)}f}"
    else:
        digits = math.floor(math.log10(abs(value))) + places if value else 0
        text = f"{value:.{min(max(digits, 0), 16)}e}"
    # What is shown is what the reader takes the share of.
    read = float(text.replace(",", ""))
    off += abs(read - float(value))
    if off <= SHARE_MAX * abs(read):
        return f"{text} ± {_rounded_up(100 * off / abs(read))} %"
    return f"{text} ± {_rounded_up(off)}"


def _rounded_up(value: float) -> str:
    """Two digits, without zeros at the end of a fraction.

    >>> [_rounded_up(value) for value in (0.501, 0.5, 12.1, 1234.0, 0.0012, 9.96e-30)]
    ['0.51', '0.5', '13', '1,300', '0.0012', '1e-29']
    """
    text = f"{value:.1e}"
    mantissa, exponent = text.split("e")
    number, power = int(mantissa.replace(".", "")), int(exponent) - 1
    # What has so few digits already is not rounded further up for the last bit.
    if float(text) < value * (1 - 1e-12):
        number += 1
    while number and number % 10 == 0:
        number, power = number // 10, power + 1
    if not number:
        return "0"
    if not -PLACES_MAX <= power <= PLACES_MAX:
        return f"{number}e{power}"
    if power >= 0:
        return f"{number * 10**power:,}"
    digits = str(number).rjust(1 - power, "0")
    return f"{digits[:power]}.{digits[power:]}"


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

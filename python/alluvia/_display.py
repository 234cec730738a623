"""Results as tables, for terminals and notebooks."""

from __future__ import annotations

import html
from collections.abc import Sequence
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

"""Parameters of statements: the engine's `$1`, and `?` and `$name`, which become it.

Texts, quoted names and comments are left alone: one scan of the statement tells them apart.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Optional, Union

from ._errors import ProgrammingError

Parameters = Union[Sequence[Any], Mapping[str, Any], None]

_TOKEN = re.compile(
    r"""
      (?P<skip>
          [eE]'(?:[^'\\]|\\.|'')*' | '(?:[^']|'')*' | "(?:[^"]|"")*"
        | --[^\n]* | /\*.*?\*/
        | \$(?P<tag>[A-Za-z_]\w*)?\$.*?\$(?P=tag)\$ | \$\$.*?\$\$
      )
    | (?<![\w$])\$(?P<number>\d+)
    | (?<![\w$])\$(?P<name>[A-Za-z_]\w*)
    | (?P<mark>\?)
    """,
    re.VERBOSE | re.DOTALL,
)


def numbered(sql: str, parameters: Parameters) -> tuple[str, Optional[list[Any]]]:
    """The statement with numbered parameters, and their values.

    >>> numbered("SELECT ? + ?, '?'", [1, 2])
    ("SELECT $1 + $2, '?'", [1, 2])
    >>> numbered("SELECT $a + $b * $a", {"a": 1, "b": 2})
    ('SELECT $1 + $2 * $1', [1, 2])
    >>> numbered("SELECT $2 - $1", (1, 2))
    ('SELECT $2 - $1', [1, 2])
    """
    if parameters is None:
        return sql, None
    if isinstance(parameters, Mapping):
        return _named(sql, parameters)
    if isinstance(parameters, (str, bytes)) or not isinstance(parameters, Sequence):
        raise TypeError(f"parameters are a list, a tuple or a mapping, and a {type(parameters).__name__} is given")
    values = list(parameters)
    matches = list(_TOKEN.finditer(sql)) if "?" in sql else []
    marks = [match for match in matches if match["mark"]]
    if not marks:
        return sql, values
    if any(match["number"] for match in matches):
        raise ProgrammingError("a statement has either ? or $1, $2, ..., and not both", sqlstate="42601")
    if len(marks) != len(values):
        raise ProgrammingError(f"the statement has {len(marks)} parameters, and {len(values)} values are given", sqlstate="42601")
    pieces, at = [], 0
    for number, mark in enumerate(marks, 1):
        pieces += [sql[at : mark.start()], f"${number}"]
        at = mark.end()
    return "".join([*pieces, sql[at:]]), values


def _named(sql: str, parameters: Mapping[str, Any]) -> tuple[str, list[Any]]:
    numbers: dict[str, int] = {}
    pieces, at = [], 0
    for match in _TOKEN.finditer(sql):
        name = match["name"]
        if name is None:
            continue
        if name not in parameters:
            raise ProgrammingError(f"there is no value for parameter ${name}", sqlstate="42P02")
        number = numbers.setdefault(name, len(numbers) + 1)
        pieces += [sql[at : match.start()], f"${number}"]
        at = match.end()
    return "".join([*pieces, sql[at:]]), [parameters[name] for name in numbers]

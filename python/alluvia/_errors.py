"""Exceptions: DB-API 2.0's, with the SQLSTATE and what to do."""

from __future__ import annotations

from typing import Optional


class Warning(Exception):  # noqa: A001 - DB-API's name
    """Something to know that is no error."""


class Error(Exception):
    """Any error of the database. `sqlstate` is PostgreSQL's code of it, `hint` says what can be done."""

    sqlstate: Optional[str] = None
    hint: Optional[str] = None

    def __init__(self, message: str = "", *, sqlstate: Optional[str] = None, hint: Optional[str] = None) -> None:
        super().__init__(message if hint is None else f"{message}\nhint: {hint}")
        self.message = message
        self.sqlstate = sqlstate
        self.hint = hint


class InterfaceError(Error):
    """The interface was used wrongly: something is closed, or another thread reads it."""


class DatabaseError(Error):
    """An error of the database itself."""


class DataError(DatabaseError):
    """A value cannot be what it should be."""


class OperationalError(DatabaseError):
    """Not the program's fault: cancelled, out of memory, disk full, directory in use, no connection, wrong password."""


class IntegrityError(DatabaseError):
    """NULL in a NOT NULL column."""


class InternalError(DatabaseError):
    """A defect of the database, or damage to its files."""


class ProgrammingError(DatabaseError):
    """The statement is wrong: syntax, names, types, parameters, transactions."""


class NotSupportedError(DatabaseError):
    """Understood, and not built."""


_CLASSES: dict[str, type[Error]] = {
    "08": InterfaceError,
    "0A": NotSupportedError,
    "22": DataError,
    "22023": ProgrammingError,
    "23": IntegrityError,
    "25": ProgrammingError,
    "26": ProgrammingError,
    "28": OperationalError,
    "34": ProgrammingError,
    "40": OperationalError,
    "42": ProgrammingError,
    "53": OperationalError,
    "55": OperationalError,
    "57": OperationalError,
    "58": OperationalError,
    "XX": InternalError,
}


def error_of(sqlstate: str, message: str, hint: Optional[str]) -> Error:
    """The exception of an error of the engine.

    >>> error_of("42P01", "there is no table 't'", None)
    ProgrammingError("there is no table 't'")
    """
    found = _CLASSES.get(sqlstate) or _CLASSES.get(sqlstate[:2], DatabaseError)
    return found(message, sqlstate=sqlstate, hint=hint)

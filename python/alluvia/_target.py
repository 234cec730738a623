"""Which server is meant, and how it is to be spoken to.

A host without a scheme is spoken to within TLS, unless it is this machine itself: `alluvia serve` listens to other machines with TLS alone.
"""

from __future__ import annotations

import ipaddress
import os
import re
import ssl
from typing import NamedTuple, Optional, Union
from urllib.parse import unquote, urlsplit

from ._errors import NotSupportedError, OperationalError, ProgrammingError

PORT = 50051
PASSWORD = "ALLUVIA_PASSWORD"
"""The variable of the environment that holds the password, where none is given; the command line's, too."""

_PLAIN, _TLS = ("grpc", "grpc+tcp"), ("grpc+tls",)
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")

Certificates = Union[str, "os.PathLike[str]", bytes, None]


class Target(NamedTuple):
    """A server, and who connects."""

    host: str
    port: int
    user: Optional[str]
    password: Optional[str]
    tls: bool

    @property
    def url(self) -> str:
        """Without the password.

        >>> target("ada:secret@db.example.com").url
        'grpc+tls://ada@db.example.com:50051'
        """
        user = f"{self.user}@" if self.user else ""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"grpc{'+tls' if self.tls else ''}://{user}{host}:{self.port}"


def target(url: str, user: Optional[str] = None, password: Optional[str] = None, *, trusts: bool = False) -> Target:
    """What a text names; `trusts` says that certificates to trust are given.

    >>> target("localhost")
    Target(host='localhost', port=50051, user=None, password=None, tls=False)
    >>> target("db.example.com:7000").tls, target("grpc://db.example.com").tls, target("127.0.0.1", trusts=True).tls
    (True, False, True)
    >>> target("grpc+tls://ada:p%40ss@[::1]:7000")
    Target(host='::1', port=7000, user='ada', password='p@ss', tls=True)
    """
    scheme = _SCHEME.match(url)
    try:
        parts = urlsplit(url if scheme else f"//{url}")
        host, port = parts.hostname, parts.port
    except ValueError as error:
        raise _wrong(url, str(error)) from None
    if scheme and parts.scheme not in _PLAIN + _TLS:
        raise NotSupportedError(
            f"{parts.scheme}:// is no scheme of this package",
            sqlstate="0A000",
            hint="it speaks Flight SQL: write HOST:PORT, grpc://HOST:PORT or grpc+tls://HOST:PORT; "
            "of PostgreSQL's protocol there are psycopg and asyncpg",
        )
    if not host:
        raise _wrong(url, "it names no host")
    if parts.path.strip("/") or parts.query or parts.fragment:
        raise _wrong(url, "it has more than a host and a port; a directory is opened by alluvia.open")
    if user is None and parts.username:
        user = unquote(parts.username)
        password = unquote(parts.password) if password is None and parts.password is not None else password
    if user is None and password is not None:
        raise _wrong(url, "there is a password, and no user")
    if user is not None and password is None:
        password = os.environ.get(PASSWORD)
    if scheme:
        tls = parts.scheme in _TLS
        if trusts and not tls:
            raise _wrong(url, "tls_ca is given, and grpc:// is without TLS; write grpc+tls://")
    else:
        tls = trusts or not _is_here(host)
    return Target(host, PORT if port is None else port, user, password, tls)


def certificates(tls_ca: Certificates) -> bytes:
    """PEM of what is to be trusted: a file's, or as given; else what the machine trusts."""
    if isinstance(tls_ca, bytes):
        return tls_ca
    if tls_ca is not None:
        with open(tls_ca, "rb") as file:
            return file.read()
    trusted = ssl.create_default_context().get_ca_certs(binary_form=True)
    if not trusted:
        raise OperationalError(
            "this machine has no list of certificates to trust",
            sqlstate="58030",
            hint="give the server's certificate, or the one that signed it, as tls_ca",
        )
    return "".join(ssl.DER_cert_to_PEM_cert(der) for der in trusted).encode()


def _is_here(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _wrong(url: str, what: str) -> ProgrammingError:
    shown = re.sub(r"(?<=:)[^:@/]*(?=@)", "...", url)
    return ProgrammingError(
        f"{shown!r} names no server: {what}", sqlstate="22023", hint="write HOST, HOST:PORT, or grpc+tls://USER:PASSWORD@HOST:PORT"
    )

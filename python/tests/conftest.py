import contextlib
import os
import pathlib
import signal
import subprocess
import types

import alluvia
import pytest

@pytest.fixture
def db(tmp_path):
    with alluvia.open(tmp_path / "db", memory_limit="1GB", threads=2) as database:
        yield database


def program():
    """The program `alluvia` of this checkout. A test that needs it and has none fails, and says how to give it."""
    stated = os.environ.get("ALLUVIA_PROGRAM")
    target = os.environ.get("CARGO_TARGET_DIR") or pathlib.Path.home() / ".cache" / "alluvia" / "target"
    found = pathlib.Path(stated) if stated else pathlib.Path(target) / "debug" / "alluvia"
    if not found.is_file():
        why = "which ALLUVIA_PROGRAM names" if stated else "where `cargo build` puts it"
        pytest.fail(f"servers are tested with the program alluvia, and there is none at {found}, {why}: state it as ALLUVIA_PROGRAM=PATH")
    return str(found)


@contextlib.contextmanager
def serving(data, *settings, listen="127.0.0.1:0"):
    """A server of the database in a directory: where it speaks Flight SQL, what it said first, and how to have it end."""
    args = [program(), "serve", str(data), "--listen", "127.0.0.1:0", "--http-listen", "off", "--flight-listen", listen]
    for setting in ("memory_limit=1GB", *settings):
        args += ["--set", setting]
    with subprocess.Popen(args, stdout=subprocess.PIPE, text=True) as process:
        said = []
        for line in process.stdout:
            said.append(line)
            if line.startswith("  psql "):
                break

        def stop():
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
            assert process.wait(60) == 0, "the server stops"

        try:
            urls = [line.split(" on ")[1].strip() for line in said if "Flight" in line]
            assert urls, f"the server does not say where it speaks Flight SQL: {said}"
            yield types.SimpleNamespace(url=urls[0], said="".join(said), stop=stop)
        finally:
            stop()


@pytest.fixture
def server(tmp_path):
    with serving(tmp_path / "served") as server:
        yield server


@pytest.fixture(params=["open", "connect"])
def where(request, tmp_path):
    """Which function opens a database, and what it is given: one body of tests for both."""
    if request.param == "open":
        yield "open", str(tmp_path / "db")
    else:
        with serving(tmp_path / "db") as server:
            yield "connect", server.url

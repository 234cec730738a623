"""A PostgreSQL of a script's own, to compare with."""

import os
import pathlib
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager

import psycopg

READY_SECONDS = 60


def programs():
    """The folder with initdb and postgres: on the path, or where Debian has them."""
    on_path = shutil.which("initdb")
    if on_path:
        return pathlib.Path(on_path).resolve().parent
    found = sorted(pathlib.Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    if not found:
        sys.exit("PostgreSQL is not installed, and is needed to compare with (Debian's package is postgresql)")
    return found[-1].parent


@contextmanager
def postgres(**settings):
    """A server with its default settings but for these, in a folder that goes with it; gives the port. The user is alluvia, without a password."""
    folder = pathlib.Path(tempfile.mkdtemp(prefix="alluvia-postgres-"))
    # It refuses to run as root, and its files must be its own.
    as_user = []
    if os.geteuid() == 0:
        as_user = ["setpriv", "--reuid", "postgres", "--regid", "postgres", "--clear-groups"]
        shutil.chown(folder, "postgres", "postgres")
    server = None
    try:
        made = subprocess.run([*as_user, programs() / "initdb", "-D", folder / "data", "-A", "trust", "-U", "alluvia", "-E", "UTF8"], text=True, capture_output=True, cwd="/")
        if made.returncode != 0:
            sys.exit(f"initdb failed: {made.stderr[-2000:]}")
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        options = [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
        with open(folder / "log", "w") as log:
            command = [*as_user, programs() / "postgres", "-D", folder / "data", "-k", folder, "-p", str(port), "-c", "listen_addresses=127.0.0.1", *options]
            server = subprocess.Popen(command, stdout=log, stderr=log, cwd="/")
        wait_until_ready(server, port, folder / "log")
        yield port
    finally:
        if server and server.poll() is None:
            server.send_signal(signal.SIGINT)
            server.wait(60)
        shutil.rmtree(folder, ignore_errors=True)


def wait_until_ready(server, port, log):
    end = time.monotonic() + READY_SECONDS
    while True:
        try:
            return psycopg.connect(host="127.0.0.1", port=port, user="alluvia", dbname="postgres").close()
        except psycopg.OperationalError as error:
            if server.poll() is not None or time.monotonic() > end:
                sys.exit(f"PostgreSQL did not start: {error}\n{log.read_text()[-2000:]}")
            time.sleep(0.1)

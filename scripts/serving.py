"""A server to try, and what was found of it; shared by the scripts that run clients against it."""

import signal
import subprocess
from contextlib import contextmanager

passed = 0


def check(found, expected, what):
    global passed
    assert found == expected, f"{what}: {found!r}, and {expected!r} is expected"
    passed += 1


@contextmanager
def server(binary, data, http, *settings, flight="off"):
    """A server on free ports, HTTP at `http` and Flight SQL at `flight` ("off" for none); gives the lines that it said first."""
    args = [binary, "serve", str(data), "--listen", "127.0.0.1:0", "--http-listen", http, "--flight-listen", flight]
    for setting in settings:
        args += ["--set", setting]
    with subprocess.Popen(args, stdout=subprocess.PIPE, text=True) as process:
        said = []
        for line in process.stdout:
            said.append(line)
            if line.startswith("  psql "):
                break
        try:
            yield said
        finally:
            process.send_signal(signal.SIGTERM)
            check(process.wait(30), 0, "the server stops")

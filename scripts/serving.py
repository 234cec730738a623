"""A server to try, and what was found of it; shared by the scripts that run clients against it."""

import os
import shutil
import signal
import subprocess
import sys
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


def apt(package, what):
    """Installs a package of the machine, where root may."""
    if os.geteuid() != 0 or shutil.which("apt-get") is None:
        sys.exit(f"the tests need {what}: please install it (Debian's package is {package})")
    for command in (["update", "-qq"], ["install", "-y", "-qq", "--no-install-recommends", package]):
        done = subprocess.run(["apt-get", *command], capture_output=True, text=True, env={**os.environ, "DEBIAN_FRONTEND": "noninteractive"})
        if done.returncode != 0:
            sys.exit(f"the tests need {what}, and apt-get cannot install {package}:\n{done.stderr[-2000:]}")

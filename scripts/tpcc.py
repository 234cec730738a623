"""TPC-C by go-tpc, unmodified, over PostgreSQL's protocol with Go's lib/pq: at Alluvia, and in turns with it at a PostgreSQL.

Usage: tpcc.py PATH_TO_ALLUVIA CACHE_FOLDER [--warehouses N] [--seconds S] [--threads N] [--peer] [--turns N]

go-tpc is built once into the cache folder, pinned, through Go's module proxy; Go has to be there. Each server is new, with its own settings and with
fsync; PostgreSQL has shared_buffers of 512 MB. The last line is JSON: `tpm_c` (new orders a minute, the median of the turns), `to_postgresql` (how many
times PostgreSQL's, the median of the turns), `errors` (transactions that failed; go-tpc tries none again), `check` (TPC-C's consistency conditions
3.3.2, "passed" or the first that does not hold), `p99_ms` by transaction (of the worst turn; go-tpc counts in steps of a tenth, from 1 ms), and
`cpu_ms`, what the server took of the machine for each transaction. PATH_TO_ALLUVIA may be `postgresql`, which tries the script itself.
"""

import argparse
import collections
import contextlib
import json
import os
import pathlib
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

import serving
from postgres import postgres

VERSION = "v1.0.12"
PACKAGE = f"github.com/pingcap/go-tpc/cmd/go-tpc@{VERSION}"
WARMING_SECONDS = 3
PREPARE_SECONDS = 3600
SUMMARY = re.compile(r"^\[Summary\] (\w+) - .*?Count: (\d+), .*? 99th\(ms\): ([\d.]+)", re.MULTILINE)
FAILED = re.compile(r"^\[[\d: -]+\] execute run failed, err (.*)", re.MULTILINE)


def fail(message):
    sys.exit(f"tpcc: {message}")


def go_tpc(cache):
    """The program, built the first time."""
    folder = cache.resolve() / "go-tpc" / VERSION
    program = folder / "go-tpc"
    if not program.exists():
        if shutil.which("go") is None:
            fail("go-tpc is built by Go, which is not there: please install it (Debian's package is golang-go, of version 1.21 or later)")
        settings = {**os.environ, "GOBIN": str(folder), "GOTOOLCHAIN": "local", "CGO_ENABLED": "0"}
        done = subprocess.run(["go", "install", PACKAGE], text=True, capture_output=True, env=settings)
        if done.returncode != 0 or not program.exists():
            said = "\n".join(line for line in done.stderr.splitlines() if not line.startswith("go: downloading"))
            fail(f"building {PACKAGE} failed. It is needed once, and comes through Go's module proxy.\n{said[-2000:]}")
    return program


class Server:
    """A server that runs, as go-tpc reaches it."""

    def __init__(self, name, port, database, process, options):
        self.name, self.process, self.options = name, process, options
        self.fixed = ["-d", "postgres", "-H", "127.0.0.1", "-P", str(port), "-U", "alluvia", "-D", database, "--conn-params", "sslmode=disable"]
        self.fixed += ["--warehouses", str(options.warehouses)]
        self.turns, self.errors, self.check = [], collections.Counter(), None

    def go_tpc(self, *arguments, seconds=PREPARE_SECONDS, workload="tpcc", threads=None):
        """What it printed."""
        print(f"{workload}: {self.name}: {' '.join(arguments)}", flush=True)
        threads = self.options.threads if threads is None else threads
        try:
            done = subprocess.run([self.options.program, workload, *arguments, "-T", str(threads), *self.fixed], text=True, capture_output=True, timeout=seconds)
        except subprocess.TimeoutExpired:
            fail(f"{self.name}: {' '.join(arguments)} does not end in {seconds} s")
        if done.returncode != 0 or "failed to ping" in done.stdout:
            fail(f"{self.name}: {' '.join(arguments)}:\n{done.stdout[-2000:]}{done.stderr[-4000:]}")
        return done.stdout

    def prepare(self):
        """Its own check afterwards is left to `check`: its threads there take one another's connections."""
        self.go_tpc("prepare", "--no-check")

    def run(self, seconds):
        """What is measured; errors are counted of all."""
        used, start = cpu_seconds(self.process), time.monotonic()
        said = self.go_tpc("run", "--ignore-error", "--time", f"{seconds}s", seconds=seconds + 300)
        used, took = cpu_seconds(self.process) - used, time.monotonic() - start
        tpm = re.search(r"^tpmC: ([\d.]+)", said, re.MULTILINE)
        counts = {kind.lower(): (int(count), float(p99)) for kind, count, p99 in SUMMARY.findall(said)}
        # By these lines: go-tpc's own counts leave out those of which a statement could not be prepared.
        self.errors += collections.Counter(re.sub(r" \(thread \d+\)", "", message) for message in FAILED.findall(said))
        done = {kind: found for kind, found in counts.items() if not kind.endswith("_err")}
        transactions = sum(count for count, _ in done.values())
        turn = {
            "tpm_c": float(tpm[1]) if tpm else 0.0, "p99_ms": {kind: p99 for kind, (_, p99) in done.items()},
            "cpu_ms": round(1000 * used / transactions, 2) if transactions else None,
        }
        print(f"tpcc: {self.name}: {json.dumps(turn)}, {transactions} transactions in {took:.1f} s, {self.errors.total()} errors", flush=True)
        return turn

    def consistency(self, *arguments):
        """The first condition that does not hold stays."""
        said = self.go_tpc("check", *arguments)
        wrong = re.search(r"^execute check failed, err (.*)", said, re.MULTILINE)
        conditions = set(re.findall(r"at condition ([\d.]+)", said))
        if self.check in (None, "passed"):
            self.check = wrong[1] if wrong else "passed" if len(conditions) >= 11 else f"only {sorted(conditions)} were checked"

    def result(self):
        kinds = sorted({kind for turn in self.turns for kind in turn["p99_ms"]})
        used = [turn["cpu_ms"] for turn in self.turns if turn["cpu_ms"] is not None]
        return {
            "tpm_c": statistics.median(turn["tpm_c"] for turn in self.turns), "errors": self.errors.total(), "check": self.check,
            "p99_ms": {kind: max(turn["p99_ms"].get(kind, 0.0) for turn in self.turns) for kind in kinds},
            "cpu_ms": statistics.median(used) if used else None,
        }


def children():
    own = os.getpid()
    return set(pathlib.Path(f"/proc/{own}/task/{own}/children").read_text().split())


def cpu_seconds(process):
    """What a process and its children took; what has ended is counted by who waited for it."""
    try:
        fields = pathlib.Path(f"/proc/{process}/stat").read_text().rsplit(") ", 1)[1].split()
        below = pathlib.Path(f"/proc/{process}/task/{process}/children").read_text().split()
    except (OSError, IndexError):
        return 0.0
    # The names of the fields are utime, stime, cutime and cstime.
    return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK") + sum(map(cpu_seconds, below))


@contextlib.contextmanager
def server(name, options):
    """A new one, of Alluvia's program or a PostgreSQL."""
    before = children()
    with contextlib.ExitStack() as stack:
        if name == "PostgreSQL" or options.binary == "postgresql":
            port, database = stack.enter_context(postgres(shared_buffers="512MB")), "postgres"
        else:
            folder = stack.enter_context(tempfile.TemporaryDirectory())
            said = stack.enter_context(serving.server(options.binary, pathlib.Path(folder) / "db", "off"))
            if not said or " -p " not in said[-1]:
                fail(f"{options.binary} did not start: {''.join(said)}")
            port, database = said[-1].split(" -p ")[1].split()[0], "alluvia"
        yield Server(name, port, database, (children() - before).pop(), options)


def main():
    parser = argparse.ArgumentParser(usage=__doc__.split("Usage: ")[1].split("\n")[0])
    parser.add_argument("binary")
    parser.add_argument("cache", type=pathlib.Path)
    for name, default in (("warehouses", 1), ("seconds", 10), ("threads", 8), ("turns", 1)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--peer", action="store_true")
    options = parser.parse_args()
    options.program = go_tpc(options.cache)
    with contextlib.ExitStack() as stack:
        ours = stack.enter_context(server("Alluvia" if options.binary != "postgresql" else "postgresql", options))
        servers = [ours] + ([stack.enter_context(server("PostgreSQL", options))] if options.peer else [])
        for one in servers:
            one.prepare()
        # All twelve conditions hold of what was loaded; one of them is of no other state.
        ours.consistency("--check-all")
        for one in servers:
            one.run(WARMING_SECONDS)
        for _ in range(options.turns):
            for one in servers:
                one.turns.append(one.run(options.seconds))
        for one in servers:
            one.consistency()
    found = ours.result() | {"to_postgresql": None}
    for message, count in ours.errors.most_common(10):
        print(f"tpcc: {count} times: {message}")
    if options.peer:
        ratios = [a["tpm_c"] / b["tpm_c"] for a, b in zip(ours.turns, servers[1].turns) if b["tpm_c"]]
        found["to_postgresql"] = round(statistics.median(ratios), 2) if ratios else None
        found["postgresql"] = servers[1].result()
    found |= {"warehouses": options.warehouses, "threads": options.threads, "seconds": options.seconds, "turns": options.turns}
    print(json.dumps(found))
    sys.exit(ours.check != "passed" or bool(ours.errors))


if __name__ == "__main__":
    main()

"""pgbench, unmodified: at Alluvia, and in turns with it at a PostgreSQL.

Usage: pgbench.py PATH_TO_ALLUVIA [--peer] [--seconds S] [--clients N] [--scale N] [--turns N]

`pgbench -i` as it is, then each of its scripts in each protocol: tpcb-like, simple-update (-N), select-only (-S). Where `-i` is refused that is a failure,
its tables are made with their keys by CREATE TABLE, and the rest is tried. At the end the sums of balances are those of the history. The last line is JSON:
by script and protocol `tps` (the median of the turns), `to_postgresql` (how many times PostgreSQL's, the median of the turns), `p99_ms` (the worst turn) and
`cpu_ms` (what the server took for a transaction); `errors` (transactions that failed), `check` (the sums, "passed" or what differs), `init` (of `-i`, and of `-i --foreign-keys` with rows that the server makes).
PATH_TO_ALLUVIA may be `postgresql`, which tries the script itself.
"""

import argparse
import contextlib
import json
import pathlib
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

import psycopg

from checks import target
from postgres import programs
from tpcc import children, cpu_seconds

SCRIPTS = {"tpcb": [], "simple_update": ["-N"], "select_only": ["-S"]}
PROTOCOLS = ("simple", "extended", "prepared")
BY_HAND = """CREATE TABLE pgbench_history (tid INT, bid INT, aid INT, delta INT, mtime TIMESTAMP, filler CHAR(22));
CREATE TABLE pgbench_tellers (tid INT NOT NULL PRIMARY KEY, bid INT, tbalance INT, filler CHAR(84));
CREATE TABLE pgbench_accounts (aid INT NOT NULL PRIMARY KEY, bid INT, abalance INT, filler CHAR(84));
CREATE TABLE pgbench_branches (bid INT NOT NULL PRIMARY KEY, bbalance INT, filler CHAR(88))"""
# Of `simple_update` tellers and branches know nothing.
SUMS = """SELECT (SELECT sum(abalance) FROM pgbench_accounts), (SELECT sum(tbalance) FROM pgbench_tellers), (SELECT sum(bbalance) FROM pgbench_branches),
(SELECT sum(delta) FROM pgbench_history), (SELECT count(*) FROM pgbench_history)"""


def pgbench():
    found = shutil.which("pgbench") or programs() / "pgbench"
    if not pathlib.Path(found).exists():
        sys.exit("pgbench is not there: please install it (Debian's package is postgresql)")
    return str(found)


class Server:
    def __init__(self, name, port, database, process, options):
        self.name, self.process, self.options = name, process, options
        self.url = f"postgresql://alluvia@127.0.0.1:{port}/{database}"
        self.fixed = ["-h", "127.0.0.1", "-p", str(port), "-U", "alluvia"]
        self.database, self.turns, self.wrong, self.errors, self.sums = database, {}, [], 0, [0] * 5

    def tell(self, text):
        print(f"pgbench: {self.name}: {text}", flush=True)

    def fails(self, what):
        self.wrong.append(f"{self.name}: {what}")
        self.tell(what)

    def run(self, *arguments):
        return subprocess.run([pgbench(), *self.fixed, *arguments, self.database], text=True, capture_output=True, timeout=1200)

    def ask(self, sql):
        with psycopg.connect(self.url, autocommit=True) as connection:
            cursor = connection.execute(sql)
            return cursor.fetchone() if cursor.description else None

    def init(self, *options):
        """How `pgbench -i` ends."""
        done = self.run("-i", "-s", str(self.options.scale), *options)
        if done.returncode == 0:
            return "passed"
        refused = " ".join([line for line in done.stderr.splitlines() if "ERROR" in line or "HINT" in line or "error:" in line][:3])
        self.fails(f"pgbench {' '.join(['-i', *options])}: {refused}")
        return refused

    def prepare(self):
        began = time.monotonic()
        # Before the plain one, which begins with DROP TABLE; and rows that the server makes.
        self.inits = {"foreign_keys": self.init("--foreign-keys", "-I", "dtGvpf")}
        if self.inits["foreign_keys"] == "passed":
            self.short("with foreign keys")
        self.inits["plain"] = self.init()
        if self.inits["plain"] != "passed":
            for statement in ["DROP TABLE IF EXISTS pgbench_accounts, pgbench_branches, pgbench_history, pgbench_tellers", *BY_HAND.split(";\n")]:
                self.ask(statement)
            # G: by INSERT ... SELECT at the server.
            for step in ("g", "G"):
                done = self.run("-i", "-I", step, "-s", str(self.options.scale))
                if done.returncode == 0:
                    break
                self.fails(f"pgbench -i -I {step}: {' '.join(line for line in done.stderr.splitlines() if 'rror' in line)}")
            else:
                sys.exit(f"pgbench: {self.name}: the rows are not loaded")
        self.tell(f"{self.options.scale}00000 accounts after {time.monotonic() - began:.1f} s")
        self.short("as it is")
        self.consistency()

    def short(self, what):
        """A run as it is, with VACUUM and TRUNCATE before."""
        done = self.run("-t", "10", "-c", "2")
        if done.returncode != 0 or "processed: 20/20" not in done.stdout:
            self.fails(f"{what}: 10 transactions of two clients: {done.stdout[-300:]}{done.stderr[-600:]}")

    def turn(self, script, protocol):
        with tempfile.TemporaryDirectory() as folder:
            used = cpu_seconds(self.process)
            done = self.run("-n", "-M", protocol, "-T", str(self.options.seconds), "-c", str(self.options.clients), "-j", "2",
                            "-l", f"--log-prefix={folder}/log", *SCRIPTS[script])
            used = cpu_seconds(self.process) - used
            # Microseconds, in the third column.
            times = sorted(int(line.split()[2]) for log in pathlib.Path(folder).iterdir() for line in log.read_text().splitlines() if line.split()[2].isdigit())
        failed = re.search(r"number of failed transactions: (\d+)", done.stdout)
        self.errors += int(failed[1]) if failed else 0
        aborted = [line for line in done.stderr.splitlines() if "ERROR" in line or "aborted" in line]
        if done.returncode != 0 or aborted:
            self.errors += max(len(aborted), 1)
            self.fails(f"{script}, {protocol}: {' '.join(aborted[:2])[:600] or done.stderr[-600:]}")
        tps = re.search(r"^tps = ([\d.]+)", done.stdout, re.MULTILINE)
        found = {"tps": round(float(tps[1]), 1) if tps else 0.0, "p99_ms": times[len(times) * 99 // 100] / 1000 if times else None,
                 "cpu_ms": round(1000 * used / len(times), 3) if times else None}
        self.tell(f"{script}, {protocol}: {json.dumps(found)}, {len(times)} transactions")
        self.turns.setdefault(f"{script}_{protocol}", []).append(found)
        self.consistency(all_tables=script != "simple_update")

    def consistency(self, all_tables=True):
        """What was added since the last time is the same in all four; of `simple_update` in accounts and history."""
        sums = [int(value or 0) for value in self.ask(SUMS)]
        accounts, tellers, branches, history, _ = (now - before for now, before in zip(sums, self.sums))
        self.sums = sums
        if accounts != history or (all_tables and not tellers == branches == history) or (not all_tables and (tellers or branches)):
            self.fails(f"sums differ: accounts {accounts}, tellers {tellers}, branches {branches}, history {history}")

    def result(self):
        return {key: {
            "tps": statistics.median(turn["tps"] for turn in turns), "p99_ms": max(turn["p99_ms"] or 0 for turn in turns),
            "cpu_ms": statistics.median(turn["cpu_ms"] or 0 for turn in turns),
        } for key, turns in self.turns.items()}


@contextlib.contextmanager
def server(name, options):
    before = children()
    with target(options.binary, name == "PostgreSQL" or options.binary == "postgresql") as (port, database):
        yield Server(name, port, database, (children() - before).pop(), options)


def main():
    parser = argparse.ArgumentParser(usage=__doc__.split("Usage: ")[1].split("\n")[0])
    parser.add_argument("binary")
    for name, default in (("seconds", 5), ("clients", 4), ("scale", 1), ("turns", 1)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--peer", action="store_true")
    options = parser.parse_args()
    with contextlib.ExitStack() as stack:
        servers = [stack.enter_context(server("Alluvia" if options.binary != "postgresql" else "postgresql", options))]
        servers += [stack.enter_context(server("PostgreSQL", options))] if options.peer else []
        for one in servers:
            one.prepare()
        for _ in range(options.turns):
            for script in SCRIPTS:
                for protocol in PROTOCOLS:
                    for one in servers:
                        one.turn(script, protocol)
    ours = servers[0]
    found = ours.result()
    if options.peer:
        for key, turns in ours.turns.items():
            ratios = [a["tps"] / b["tps"] for a, b in zip(turns, servers[1].turns[key]) if b["tps"]]
            found[key]["to_postgresql"] = round(statistics.median(ratios), 3) if ratios else None
        found["postgresql"] = servers[1].result()
    wrong = [one for server in servers for one in server.wrong]
    for one in wrong:
        print(f"differs: {one}")
    sums = [one for one in ours.wrong if "sums differ" in one]
    found |= {"errors": ours.errors, "init": ours.inits, "check": sums[0] if sums else "passed"}
    found |= {"scale": options.scale, "clients": options.clients, "seconds": options.seconds, "turns": options.turns}
    print(json.dumps(found))
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()

"""Isolation and row locks: schedules step by step, many sessions on few rows, and cycles of random transactions, at three levels.

Usage: isolation.py PATH_TO_ALLUVIA [--peer] [--only NAME] [--seed N]

The expected outcomes stand in isolation_schedules.py (Hermitage's list), isolation_locks.py and isolation_settings.py; each schedule runs in the
simple and in the extended protocol. isolation_load.py and isolation_cycles.py have the rest. With `--peer` all runs at a PostgreSQL that is started
for it, and nothing may differ but what PEER has. `--only` takes the schedules and parts whose names have the text in them.
"""

import argparse
import itertools
import pathlib
import sys
import tempfile
from contextlib import contextmanager

import isolation_cycles
import isolation_load
import isolation_locks
import isolation_schedules
import isolation_settings
import serving
from isolation_sessions import Play
from postgres import postgres

SCHEDULES = [
    *isolation_schedules.HERMITAGE, *isolation_schedules.READS, *isolation_settings.SETTINGS, *isolation_settings.SEEN,
    *isolation_locks.ROWS, *isolation_locks.WAITED, *isolation_locks.INSERTS, *isolation_locks.ENDS,
]
# What PostgreSQL is known to do otherwise, by schedule and step, and why. The schedule ends there.
PEER = {
    ("who waits for a row comes before who shares it later", "T3: SELECT * FROM test WHERE id = 1 FOR SHARE"):
        ("1 10", "who shares a row does not queue behind who waits to write it, so sharers that follow one another can keep a writer waiting for ever"),
    ("who waits first comes first", "T2:"):
        ("UPDATE 1 or waits", "who has waited for a row that was changed goes to its new version, where who has waited behind may be first"),
}
# The same of Alluvia: docs/SQL.md and docs/KNOWN.md have these. An entry of which the outcome changes fails.
OURS = {
    ("PMP, predicate many preceders, write", "T2:"):
        ("DELETE 1 or 40001", "a statement that has waited looks for its rows anew, and finds those that have come to meet its condition"),
    ("a row that came meanwhile is of the next statement", "T2:"):
        ("UPDATE 3 or 40001", "the same"),
    ("a row that is gone", "T3:"):
        ("waits or 40001", "a lock that was waited for is held to the end of the transaction, also where the row was gone"),
    ("rows that another has not changed", "T1: COMMIT"):
        ("COMMIT or 40001", "SERIALIZABLE compares whole tables"),
    ("writes of different rows", "T2: COMMIT"):
        ("COMMIT or 40001", "SERIALIZABLE compares whole tables, also what an UPDATE has read"),
    ("the level that is set for what follows", "A: START TRANSACTION"):
        ("BEGIN", "the command tag"),
    ("READ UNCOMMITTED is READ COMMITTED", "A: SHOW transaction_isolation"):
        ("read committed", "it shows what holds"),
}


@contextmanager
def target(binary, is_peer):
    """A server that ends with this, and how to reach it."""
    if is_peer:
        with postgres(deadlock_timeout="100ms") as port:
            yield f"postgresql://alluvia@127.0.0.1:{port}/postgres"
        return
    with tempfile.TemporaryDirectory() as folder, serving.server(binary, pathlib.Path(folder) / "db", "off") as said:
        if not said or " -p " not in said[-1]:
            sys.exit(f"{binary} did not start: {''.join(said)}")
        port = said[-1].split(" -p ")[1].split()[0]
        yield f"postgresql://alluvia@127.0.0.1:{port}/alluvia?options=-c%20client_min_messages%3Dwarning"


class Tries:
    """What was as expected, and what was not, printed as it is found."""

    def __init__(self, url, only):
        self.url, self.only, self.passed, self.failed = url, only.lower(), 0, 0

    def takes(self, name):
        return self.only in name.lower()

    def add(self, passed, failures):
        self.passed += passed
        self.failed += len(failures)
        for failure in failures:
            print(failure, flush=True)

    def schedules(self, differing):
        met = set()

        def known(name, line):
            if (name, line) in differing:
                met.add((name, line))
                return differing[name, line][0]

        for schedule, prepared in itertools.product(filter(lambda one: self.takes(one.name), SCHEDULES), (False, True)):
            for level in schedule.levels:
                held, failure = Play(self.url, schedule, level, prepared, known).run()
                self.add(held, [failure] if failure else [])
        if not self.only:
            self.add(0, [f"{name}: {line}: is known to differ, and was not asked" for name, line in differing if (name, line) not in met])

    def load(self, is_peer):
        for part in isolation_load.PARTS:
            if self.takes(part.__name__):
                load = isolation_load.Load(self.url, locks_within=is_peer)
                try:
                    part(load)
                except Exception as error:
                    load.failures.append(f"{part.__name__}: {type(error).__name__} {error}")
                self.add(load.held, load.failures)

    def cycles(self, seed):
        if self.takes("cycles"):
            self.add(isolation_cycles.try_itself(), [])
            for prepared in (False, True):
                self.add(*isolation_cycles.run(self.url, seed, prepared))


def main():
    parser = argparse.ArgumentParser(usage=__doc__.split("Usage: ")[1].split("\n")[0])
    parser.add_argument("binary")
    parser.add_argument("--peer", action="store_true")
    parser.add_argument("--only", default="")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    with target(options.binary, options.peer) as url:
        tries = Tries(url, options.only)
        tries.schedules(PEER if options.peer else OURS)
        tries.load(options.peer)
        tries.cycles(options.seed)
    print(f"{tries.passed} passed, {tries.failed} failed")
    sys.exit(bool(tries.failed))


if __name__ == "__main__":
    main()

"""CH-benCHmark by go-tpc, unmodified: TPC-C's transactions with 22 analytic queries beside them, at Alluvia, and in turns with it at a PostgreSQL.

Usage: ch.py PATH_TO_ALLUVIA CACHE_FOLDER [--warehouses N] [--seconds S] [--threads N] [--peer] [--turns N] [--only answers]

Servers, go-tpc and its consistency check are as in tpcc.py. With `--peer` Alluvia is given PostgreSQL's rows first, and each of the 22 queries has to answer
with the same rows. Then three kinds of turns: transactions alone, one stream of queries alone, both together. The last line is JSON: `answers` (queries that
answer as PostgreSQL does, of 22), `refused`, `differ`; `tpm_c` and `tpm_c_together`, `queries_s` and `queries_s_together` (one over the mean of the queries'
mean times, of those that were run in both), `oltp_loss_queries` (the part of new orders that is lost to the queries), `olap_loss` (the part of queries that
is lost to transactions), `p99_ms` and `p99_together_ms` of new orders, `seconds_by_query`; `errors`, `check`, and the same of PostgreSQL.
PATH_TO_ALLUVIA may be `postgresql`, which tries the script itself.
"""

import argparse
import collections
import contextlib
import json
import math
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile
import time
from decimal import Decimal

import psycopg

import serving
import tpcc
from checks import one_line
from postgres import postgres
from tpcc import FAILED, SUMMARY, VERSION, fail

QUERY = re.compile(r"^\t(q\d+) += `\s*/\*PLACEHOLDER\*/(.*?)`", re.MULTILINE | re.DOTALL)
TIMES = re.compile(r"^\[Summary\] (Q\d+) +- Count: (\d+), Sum\(ms\): ([\d.]+)", re.MULTILINE)
TABLES = ("warehouse", "district", "customer", "history", "new_order", "orders", "order_line", "stock", "item", "nation", "region", "supplier")
QUERY_SECONDS = 120


def queries(cache):
    """The texts, from go-tpc's source of the same version; kept in the cache folder."""
    kept = cache.resolve() / "go-tpc" / VERSION / "queries.json"
    if not kept.exists():
        done = subprocess.run(["go", "mod", "download", "-json", f"github.com/pingcap/go-tpc@{VERSION}"], text=True, capture_output=True)
        if done.returncode != 0:
            fail(f"go-tpc's source is not there: {done.stderr[-1000:]}{done.stdout[-1000:]}")
        source = pathlib.Path(json.loads(done.stdout)["Dir"]) / "ch" / "query.go"
        kept.write_text(json.dumps(dict(QUERY.findall(source.read_text()))))
    found = json.loads(kept.read_text())
    if len(found) != 22:
        fail(f"go-tpc has {len(found)} queries, and not 22")
    return found


class Server(tpcc.Server):
    """With what go-tpc's `ch` adds."""

    def __init__(self, name, port, database, process, options):
        super().__init__(name, port, database, process, options)
        self.url = f"postgresql://alluvia@127.0.0.1:{port}/{database}"
        self.kinds = {"oltp": [], "olap": [], "both": []}
        self.wrong, self.times = {}, {}

    def prepare(self):
        super().prepare()
        self.go_tpc("prepare", "--analyze", workload="ch", threads=1)

    def take(self, other):
        """All rows of another server, by COPY, in the place of its own."""
        with psycopg.connect(other.url) as theirs, psycopg.connect(self.url, autocommit=True) as ours:
            for table in TABLES:
                columns = ", ".join(column.name for column in theirs.execute(f"SELECT * FROM {table} LIMIT 0").description)
                ours.execute(f"TRUNCATE {table}")
                with theirs.cursor().copy(f"COPY {table} ({columns}) TO STDOUT") as out, ours.cursor().copy(f"COPY {table} ({columns}) FROM STDIN") as into:
                    for part in out:
                        into.write(part)
                counts = [one.execute(f"SELECT count(*) FROM {table}").fetchone()[0] for one in (theirs, ours)]
                if counts[0] != counts[1]:
                    fail(f"{table} has {counts[0]} rows, and {counts[1]} were copied")
            ours.execute("ANALYZE")

    def ask(self, name, sql):
        """Rows in their order; None if it is refused. The better of two times."""
        best = math.inf
        with psycopg.connect(self.url, autocommit=True) as connection:
            connection.execute(f"SET statement_timeout = '{QUERY_SECONDS}s'")
            for _ in range(2):
                began = time.monotonic()
                try:
                    rows = connection.execute(sql).fetchall()
                except psycopg.Error as error:
                    self.wrong[name] = one_line(error)
                    return None
                best = min(best, time.monotonic() - began)
        self.times[name] = round(best, 4)
        return rows

    def turn(self, kind):
        """One kind of load."""
        workers = self.options.threads if kind != "olap" else 0
        streams = 1 if kind != "oltp" else 0
        said = self.go_tpc("run", "--ignore-error", "--time", f"{self.options.seconds}s", "-t", str(streams),
                           seconds=self.options.seconds + 600, workload="ch", threads=workers)
        found = [re.sub(r" \(thread \d+\)", "", message) for message in FAILED.findall(said)]
        self.errors += collections.Counter(found)
        tpm = re.search(r"^tpmC: ([\d.]+)", said, re.MULTILINE)
        p99 = {name.lower(): float(value) for name, _, value in SUMMARY.findall(said) if not name.endswith("_ERR")}
        means = {name.lower(): float(total) / 1000 / int(count) for name, count, total in TIMES.findall(said) if int(count)}
        turn = {"tpm_c": float(tpm[1]) if tpm and workers else None, "p99_ms": p99.get("new_order"), "means": means}
        asked = f", {len(means)} queries of {sum(means.values()):.2f} s in all" if streams else ""
        print(f"ch: {self.name}: {kind}: {turn['tpm_c']} new orders a minute, p99 {turn['p99_ms']} ms{asked}, {len(found)} errors", flush=True)
        self.kinds[kind].append(turn)

    def outcome(self):
        """Medians of the turns."""
        def median(kind, key):
            found = [turn[key] for turn in self.kinds[kind] if turn[key] is not None]
            return statistics.median(found) if found else None

        def means(kind):
            every = collections.defaultdict(list)
            for turn in self.kinds[kind]:
                for name, mean in turn["means"].items():
                    every[name].append(mean)
            return {name: statistics.median(found) for name, found in every.items()}

        alone, together = means("olap"), means("both")
        both = sorted(alone.keys() & together.keys())
        rates = [len(both) / total if (total := sum(of[name] for name in both)) else None for of in (alone, together)]

        def loss(before, after):
            return round(1 - after / before, 3) if before and after is not None else None

        return {
            "tpm_c": median("oltp", "tpm_c"), "tpm_c_together": median("both", "tpm_c"), "oltp_loss_queries": loss(median("oltp", "tpm_c"), median("both", "tpm_c")),
            "queries_s": rates[0] and round(rates[0], 3), "queries_s_together": rates[1] and round(rates[1], 3), "olap_loss": loss(*rates), "queries_timed": len(both),
            "p99_ms": median("oltp", "p99_ms"), "p99_together_ms": median("both", "p99_ms"), "seconds_by_query": self.times,
            "errors": self.errors.total(), "check": self.check,
        }


def value(one):
    """Texts without the blanks of CHAR(n); numbers as numbers; moments as PostgreSQL's text has them."""
    if isinstance(one, str):
        return one.rstrip()
    if isinstance(one, (int, float, Decimal)) and not isinstance(one, bool):
        return float(one)
    return one


def same(one, other):
    if isinstance(one, float) and isinstance(other, float):
        # Averages of decimals have other digits behind the point.
        return math.isclose(one, other, rel_tol=1e-6, abs_tol=1e-4)
    return one == other


def differing(ours, theirs):
    """What is not the same; the order of rows is not looked at where it is not said."""
    if len(ours) != len(theirs):
        return f"{len(ours)} rows, and {len(theirs)} are expected"
    # Rounded, for values that are nearly the same have to stand at one place.
    def key(row):
        return [(one is None, round(one, 2) if isinstance(one, float) else 0, str(one) if not isinstance(one, float) else "") for one in row]

    for mine, other in zip(sorted(ours, key=key), sorted(theirs, key=key)):
        if len(mine) != len(other) or not all(same(a, b) for a, b in zip(mine, other)):
            return f"{mine!r}, and {other!r} is expected"[:500]
    return None


def compare(ours, theirs, texts):
    """How many answer alike; what is refused, and what differs."""
    alike, refused, differ = 0, {}, {}
    for name, sql in texts.items():
        answers = [one.ask(name, sql) for one in (ours, theirs)]
        if answers[1] is None:
            fail(f"PostgreSQL refuses {name}: {theirs.wrong[name]}")
        if answers[0] is None:
            refused[name] = ours.wrong[name]
        else:
            found = differing(*([[value(one) for one in row] for row in rows] for rows in answers))
            if found:
                differ[name] = found
            else:
                alike += 1
        told = "ok" if name not in refused | differ else f"FAILED: {refused.get(name) or differ.get(name)}"
        print(f"ch: {name}: {told}; {len(answers[1])} rows; {ours.times.get(name)} s, PostgreSQL {theirs.times.get(name)} s", flush=True)
    return {"answers": alike, "refused": refused, "differ": differ}


@contextlib.contextmanager
def server(name, options):
    before = tpcc.children()
    with contextlib.ExitStack() as stack:
        if name == "PostgreSQL" or options.binary == "postgresql":
            port, database = stack.enter_context(postgres(shared_buffers="512MB")), "postgres"
        else:
            folder = stack.enter_context(tempfile.TemporaryDirectory())
            said = stack.enter_context(serving.server(options.binary, pathlib.Path(folder) / "db", "off"))
            if not said or " -p " not in said[-1]:
                fail(f"{options.binary} did not start: {''.join(said)}")
            port, database = said[-1].split(" -p ")[1].split()[0], "alluvia"
        yield Server(name, port, database, (tpcc.children() - before).pop(), options)


def main():
    parser = argparse.ArgumentParser(usage=__doc__.split("Usage: ")[1].split("\n")[0])
    parser.add_argument("binary")
    parser.add_argument("cache", type=pathlib.Path)
    for name, default in (("warehouses", 1), ("seconds", 20), ("threads", 4), ("turns", 1)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--peer", action="store_true")
    parser.add_argument("--only", choices=["answers"])
    options = parser.parse_args()
    options.program = tpcc.go_tpc(options.cache)
    texts = queries(options.cache)
    found = {"answers": None, "refused": {}, "differ": {}}
    with contextlib.ExitStack() as stack:
        ours = stack.enter_context(server("Alluvia" if options.binary != "postgresql" else "postgresql", options))
        servers = [ours] + ([stack.enter_context(server("PostgreSQL", options))] if options.peer else [])
        for one in servers:
            one.prepare()
        if options.peer:
            ours.take(servers[1])
            found = compare(ours, servers[1], texts)
        if options.only is None:
            for one in servers:
                one.run(tpcc.WARMING_SECONDS)
                one.turns.clear()
            for _ in range(options.turns):
                for kind in ours.kinds:
                    for one in servers:
                        one.turn(kind)
            for one in servers:
                one.consistency()
    found |= ours.outcome()
    for message, count in ours.errors.most_common(30):
        print(f"ch: {count} times: {message[:400]}")
    if options.peer:
        found["postgresql"] = servers[1].outcome()
        pairs = [("tpm_c", "to_postgresql_tpm_c"), ("queries_s", "to_postgresql_queries_s")]
        found |= {name: round(found[key] / found["postgresql"][key], 3) if found[key] and found["postgresql"][key] else None for key, name in pairs}
    found |= {"warehouses": options.warehouses, "threads": options.threads, "seconds": options.seconds, "turns": options.turns}
    print(json.dumps(found))
    sys.exit(bool(found["refused"] or found["differ"] or ours.errors or (options.only is None and ours.check != "passed")))


if __name__ == "__main__":
    main()

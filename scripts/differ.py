"""Whole SQL statements, ours against DuckDB's: random tables, random SELECTs (statements.py), the same answers.

Usage: differ.py PATH_TO_ALLUVIA [--seed N] [--seconds S] [--rounds R] [--statements N] [--failures N] [--judge DSN]

Each round has a seed: three random tables, in stages from tail to merged, random settings, and statements on them. Answers are compared as
multisets, or in order where ORDER BY names all columns; doubles nearly, everything else exactly. A statement that one side refuses is counted
by the message; "a defect" in a message is a failure. A difference is shown with its seed, made smaller, with both answers. --judge names
a PostgreSQL server, whose meaning decides: where it agrees with us, the difference is the dialects'.
"""

import argparse
import collections
import datetime
import decimal
import pathlib
import random
import re
import sys
import tempfile
import threading
import time

import duckdb
import psycopg
import serving
from statements import Order, Table, Writer, render, smaller

TIMEOUT_SECONDS = 2
SETTINGS = {
    "short_path": ["on", "on", "off"], "index_rule": ["on", "on", "off"], "predicate_cache": ["on", "off"], "cuboids": ["on", "off"],
    "batch_size": ["8192", "64", "3"], "threads": ["1", "2", "4"],
}


class Refused(Exception):
    """A side did not answer."""


class Ours:
    dialect = "ours"

    def __init__(self, target):
        self.connection = psycopg.connect(target, autocommit=True)
        self.connection.execute(f"SET statement_timeout = '{TIMEOUT_SECONDS}s'")

    def answer(self, sql):
        return self.run(sql)

    def run(self, sql):
        try:
            cursor = self.connection.execute(sql)
            return cursor.fetchall() if cursor.description else []
        except psycopg.Error as error:
            raise Refused(f"{error.sqlstate}: {error}") from None


class Peer:
    dialect = "peer"

    def __init__(self):
        self.connection = duckdb.connect(config={"threads": 1})

    def run(self, sql):
        try:
            return self.connection.execute(sql).fetchall()
        except duckdb.Error as error:
            raise Refused(str(error)) from None

    def answer(self, sql):
        """As `run`, and not for long."""
        timer = threading.Timer(TIMEOUT_SECONDS, self.connection.interrupt)
        timer.start()
        try:
            return self.run(sql)
        finally:
            timer.cancel()
            timer.join()


def plain(value):
    """A value as it is compared: dates are moments, and numbers of all types are numbers."""
    if isinstance(value, datetime.date) and not isinstance(value, datetime.datetime):
        return datetime.datetime.combine(value, datetime.time())
    return value


def key(row):
    def one(value):
        if value is None:
            return (0, 0)
        if isinstance(value, bool):
            return (1, value)
        if isinstance(value, (int, float, decimal.Decimal)):
            return (2, round(float(value), 6))
        return (3, value) if isinstance(value, str) else (4, str(value))
    return [one(value) for value in row]


def equal(a, b):
    if isinstance(a, float) or isinstance(b, float):
        if isinstance(a, (int, float, decimal.Decimal)) and isinstance(b, (int, float, decimal.Decimal)):
            return abs(float(a) - float(b)) <= 1e-9 * max(1.0, abs(float(a)), abs(float(b)))
    return a == b and isinstance(a, bool) == isinstance(b, bool)


def same(ours, theirs, is_ordered):
    if len(ours) != len(theirs):
        return False
    ours, theirs = ([tuple(map(plain, row)) for row in rows] for rows in (ours, theirs))
    if not is_ordered:
        ours, theirs = sorted(ours, key=key), sorted(theirs, key=key)
    return all(len(a) == len(b) and all(map(equal, a, b)) for a, b in zip(ours, theirs))


def is_ordered(statement):
    query = statement.parts[-1]
    return any(isinstance(part, Order) for part in query.parts)


def shown(rows, limit=12):
    lines = [", ".join("NULL" if value is None else str(value) for value in row) for row in sorted(rows, key=key)[:limit]]
    return "\n".join([f"    {line}" for line in lines] + ([f"    ... {len(rows)} rows"] if len(rows) > limit else []) or ["    no rows"])


class Round:
    """Three tables, and what is asked of them."""

    def __init__(self, seed, sides):
        self.seed, self.sides = seed, sides
        self.rng = random.Random(seed)
        self.tables = [Table(self.rng, name) for name in ("r", "s", "t")]
        self.settings = {name: self.rng.choice(values) for name, values in SETTINGS.items()}
        self.parts = {table.name: self.split(table.rows) for table in self.tables}
        self.load(self.tables, self.parts)
        for name, setting in self.settings.items():
            sides[0].run(f"SET {name} = '{setting}'")

    def split(self, rows):
        """Rows in parts, and what is called after each: the last ones stay in the tail."""
        parts = []
        while rows:
            count = self.rng.randint(1, len(rows)) if len(rows) > 1 else 1
            parts.append((rows[:count], self.rng.choice([None, "flush", "merge"])))
            rows = rows[count:]
        return parts

    def load(self, tables, parts):
        for side in self.sides:
            for table in tables:
                side.run(f"DROP TABLE IF EXISTS {table.name}")
                side.run(table.create(side.dialect if side is self.sides[0] else "peer"))
            most = max(len(parts[table.name]) for table in tables)
            for at in range(most):
                call = None
                for table in tables:
                    if at < len(parts[table.name]):
                        rows, call_after = parts[table.name][at]
                        for start in range(0, len(rows), 250):
                            side.run(table.insert(rows[start:start + 250]))
                        call = call or call_after
                if call and side is self.sides[0]:
                    side.run(f"CALL alluvia.{call}()")

    def ask(self, statement, count=2):
        """What the first sides say, `Refused` in the place of an answer."""
        answers = []
        for side in self.sides[:count]:
            try:
                answers.append(side.answer(render(statement, side.dialect)))
            except Refused as refused:
                answers.append(refused)
        return answers

    def differs(self, statement, count=2):
        """Whether we are wrong, by the last of the sides that are asked."""
        try:
            answers = self.ask(statement, count)
        except StopIteration:
            return None
        ours, theirs = answers[0], answers[-1]
        if is_defect(ours):
            return answers
        if isinstance(ours, Refused) or isinstance(theirs, Refused):
            return None
        return None if same(ours, theirs, is_ordered(statement)) else answers

    def smallest(self, statement, count, seconds):
        """The statement, made smaller as long as it differs, and then its tables."""
        wrong = self.differs(statement, count)
        was_defect, until = is_defect(wrong[0]), time.monotonic() + seconds
        still = lambda found: found is not None and is_defect(found[0]) == was_defect

        def step(statement):
            for less in smaller(statement):
                if time.monotonic() > until:
                    return None
                if still(self.differs(less, count)):
                    return less
            return None

        while (less := step(statement)) is not None:
            statement = less
        parts = dict(self.parts)
        for table in [table for table in self.tables if is_read(table, render(statement, "ours"))]:
            size = 2
            while time.monotonic() < until + seconds / 2:
                rows = [row for some, _ in parts[table.name] for row in some]
                if not rows:
                    break
                step = max(1, len(rows) // size)
                for start in range(0, len(rows), step):
                    fewer = rows[:start] + rows[start + step:]
                    for tried in ([(fewer, None)], [(fewer, "merge")]):
                        tried = tried if fewer else []
                        self.load(self.tables, parts | {table.name: tried})
                        if still(self.differs(statement, count)):
                            parts[table.name] = tried
                            break
                    else:
                        continue
                    break
                else:
                    if step == 1:
                        break
                    size *= 2
        self.load(self.tables, parts)
        answers = self.differs(statement, count)
        self.load(self.tables, self.parts)
        return statement, parts, answers or wrong


def is_read(table, text):
    return re.search(rf"(FROM|JOIN) {table.name}\b", text) is not None


def is_defect(answer):
    return isinstance(answer, Refused) and ("defect" in str(answer) or "XX000" in str(answer) or "connection" in str(answer))


def form(message):
    """A message without what is the statement's own."""
    message = re.sub(r"(\"[^\"]*\"|'[^']*')", "X", str(message).split("\n")[0])
    return re.sub(r"\b[a-z]\d+\b(\.\w+)?|\d+", "_", message)[:110]


class Report:
    def __init__(self):
        self.refused = [collections.Counter(), collections.Counter()]
        self.counts = collections.Counter()
        self.failures = 0

    def failure(self, asked, statement, count, seconds, judged):
        self.failures += 1
        print(f"\n=== failure {self.failures}: --seed {asked.seed} (settings {asked.settings})", flush=True)
        print(render(statement, "ours"))
        statement, parts, answers = asked.smallest(statement, count, seconds)
        text = render(statement, "ours")
        print(f"--- smaller:\n{text};")
        for table in asked.tables:
            if is_read(table, text):
                print(f"  {table.create('ours')};")
                for rows, call in parts[table.name]:
                    text_of_rows = table.insert(rows)
                    print(f"  {text_of_rows if len(text_of_rows) < 1500 else text_of_rows[:1500] + ' ...'};" + (f" CALL alluvia.{call}();" if call else ""))
        for name, answer in zip(("ours", "DuckDB", "PostgreSQL"), answers):
            print(f"  {name}:\n    {answer}" if isinstance(answer, Refused) else f"  {name}: {len(answer)} rows\n{shown(answer)}")
        if judged is not None:
            print(f"  PostgreSQL says: {judged}", flush=True)

    def summary(self, rounds, seconds):
        print(f"\ndiffer: {self.counts['compared']} answers compared in {rounds} rounds, {seconds:.0f} s; {self.failures} failures; "
              f"{self.counts['both refuse']} refused by both, {self.counts['dialect']} where PostgreSQL agrees with us and DuckDB does not")
        for who, counter in zip(("we refuse", "DuckDB refuses"), self.refused):
            print(f"{who} {counter.total()} that the other answers:")
            for message, count in counter.most_common(25):
                print(f"  {count:6} {message}")


def judged(asked, statement, answers):
    """None if the judge has nothing to say, or whether we are right."""
    if len(asked.sides) < 3:
        return None
    try:
        decided = asked.sides[2].run(render(statement, "ours"))
    except Refused as refused:
        return f"refused, {refused}"
    if isinstance(answers[0], Refused):
        return "an answer"
    agreed = [same(answer, decided, is_ordered(statement)) for answer in answers[:2]]
    return {(True, False): "ours", (False, True): "DuckDB's"}.get(tuple(agreed), "neither")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("binary")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10**9))
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--rounds", type=int, default=None)
    parser.add_argument("--statements", type=int, default=60)
    parser.add_argument("--failures", type=int, default=10)
    parser.add_argument("--shrink", type=float, default=30)
    parser.add_argument("--judge")
    options = parser.parse_args()
    report, begin, rounds = Report(), time.monotonic(), 0
    print(f"differ: --seed {options.seed}")
    with tempfile.TemporaryDirectory() as folder, serving.server(options.binary, pathlib.Path(folder) / "db", "off") as said:
        port = int(said[-1].split(" -p ")[1].split()[0])
        sides = [Ours(f"host=127.0.0.1 port={port} user=alluvia dbname=alluvia"), Peer()]
        if options.judge:
            sides.append(Ours(options.judge))
        while report.failures < options.failures and time.monotonic() - begin < options.seconds and rounds != options.rounds:
            asked = Round(options.seed + rounds, sides)
            rounds += 1
            # Statements of their own randomness: making one smaller must not change the next.
            for at in range(options.statements):
                statement = Writer(random.Random(f"{asked.seed} {at}"), asked.tables).statement()
                answers = asked.ask(statement)
                one(report, asked, statement, answers, options.shrink)
                if report.failures >= options.failures or time.monotonic() - begin > options.seconds:
                    break
    report.summary(rounds, time.monotonic() - begin)
    sys.exit(1 if report.failures else 0)


def one(report, asked, statement, answers, seconds):
    ours, theirs = answers
    if is_defect(ours):
        report.failure(asked, statement, 2, seconds, judged(asked, statement, answers))
    elif isinstance(ours, Refused) and isinstance(theirs, Refused):
        report.counts["both refuse"] += 1
    elif isinstance(ours, Refused) or isinstance(theirs, Refused):
        refused = 0 if isinstance(ours, Refused) else 1
        report.refused[refused][form(answers[refused])] += 1
    elif same(ours, theirs, is_ordered(statement)):
        report.counts["compared"] += 1
    else:
        decided = judged(asked, statement, answers)
        if decided == "ours":
            report.counts["dialect"] += 1
            print(f"dialect, seed {asked.seed}: {render(statement, 'ours')[:300]}", flush=True)
        else:
            report.failure(asked, statement, 3 if decided in ("DuckDB's", "neither") else 2, seconds, decided)


main()

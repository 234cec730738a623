"""The five as one: a table with a key, dimensions and a foreign key, and everything that they bring, in one story; through one process, and through a cluster's gateway.

Usage: five.py PATH_TO_ALLUVIA [--peer] [--rows N] [--only one|gateway]

Rows are loaded by COPY. Transactions of an unmodified client change them; boxes are answered by the index and by cuboids, at once and by the model's numbers;
an estimate has bounds that hold what is true; three freshnesses see what they may; a person is forgotten, down to the bytes; processes are killed by
`kill -9` while rows come, and nothing that was acknowledged is lost. What a cluster refuses is in REFUSED, by name: another refusal fails, and so does one that
is no refusal any more. With `--peer` the parts that PostgreSQL has run at a PostgreSQL.
"""

import argparse
import collections
import pathlib
import random
import re
import tempfile
import threading
import time
from datetime import datetime, timedelta
from decimal import Decimal

import psycopg

from checks import Checks, one_line
from five_places import STARTED, Gateway, One, Peer
from postgres import postgres

PLACES = {"CH": ["Bern", "Basel", "Zug"], "DE": ["Köln", "Bonn"], "FR": ["Lyon", "Nice", "Lille", "Brest"], "IT": ["Rome"]}
CITIES = [("Bern", "Köln", "Lyon", "Rome"), ("Basel", "Bonn", "Nice"), ("Zug", "Lille", "Brest")]
KINDS, DEVICES = ["view", "buy", "return"], ["phone", "desk", "tv", "car"]
DIMENSIONS = "dimensions = 'place(country, city); kind; device; time(seen_at: year, month, day)', measures = 'amount, points'"
# What a cluster does not do yet, by name: the SQLSTATE, or what it does instead. docs/KNOWN.md has each.
REFUSED = {
    ("gateway", "a lock of a row"): "0A000",
    ("gateway", "purge"): "0A000",
}
# What a gateway does otherwise, and says so: a transaction is REPEATABLE READ there, no cuboid answers, and an estimate is exact.
# In one process samples of a table with dead rows are not drawn yet.
OTHERWISE = {("one", "changed: the estimate is of a sample"), ("gateway", "READ COMMITTED"), ("gateway", "a cuboid answers"), ("gateway", "loaded: the estimate is of a sample"), ("gateway", "changed: the estimate is of a sample")}


class Story:
    def __init__(self, place, checks, rows):
        self.place, self.checks, self.rows = place, checks, rows
        self.visits, self.people, self.rng = {}, {}, random.Random(5)
        self.is_peer = place.kind == "peer"

    def connect(self, **settings):
        connection = psycopg.connect(self.place.url(), autocommit=True, connect_timeout=10)
        for name, value in settings.items():
            connection.execute(f"SET {name} = '{value}'")
        return connection

    def named(self, what):
        return f"{self.place.kind}: {what}"

    def say(self, what, wrong=None):
        self.checks.say(self.named(what), wrong)

    def equal(self, what, found, expected):
        if (self.place.kind, what) in OTHERWISE:
            self.say(f"{what}: otherwise, as is known" if found != expected else what, None if found != expected else "is as in one process: take it out of OTHERWISE")
            return
        self.checks.equal(self.named(what), found, expected)

    def tried(self, what, action):
        """The action's value, if it is not refused; what is refused is told, and has to be in the list."""
        known = REFUSED.get((self.place.kind, what))
        try:
            value = action()
        except psycopg.Error as error:
            self.say(f"{what}: refused, as is known" if error.sqlstate == known else what, None if error.sqlstate == known else f"{error.sqlstate} {one_line(error)}")
            return None
        if known:
            self.say(what, "is not refused any more: take it out of REFUSED")
        return True if value is None else value

    # The table, and the model's answers.

    def make(self):
        options = "" if self.is_peer else f" WITH ({DIMENSIONS})"
        with self.connect() as connection:
            connection.execute("CREATE TABLE person (id BIGINT PRIMARY KEY, name TEXT NOT NULL, balance BIGINT NOT NULL)")
            columns = "country TEXT, city TEXT, kind TEXT, device TEXT, seen_at TIMESTAMP, amount DECIMAL(12, 2), points INT"
            try:
                connection.execute(f"CREATE TABLE visit (id BIGINT PRIMARY KEY, person_id BIGINT NOT NULL REFERENCES person ON DELETE CASCADE, {columns}){options}")
                self.has_foreign_key = True
            except psycopg.errors.FeatureNotSupported as error:
                print(f"note    {self.named('there is no foreign key')}: {one_line(error)}")
                connection.execute(f"CREATE TABLE visit (id BIGINT PRIMARY KEY, person_id BIGINT NOT NULL, {columns}){options}")
                self.has_foreign_key = False
            for key in range(1, 201):
                self.people[key] = (f"Person-{key:03}-Zebedäus-{key * 7919}", 1000)
            with connection.cursor().copy("COPY person FROM STDIN") as copy:
                for key, fields in self.people.items():
                    copy.write_row((key, *fields))
            began = time.monotonic()
            with connection.cursor().copy("COPY visit FROM STDIN") as copy:
                for key in range(self.rows):
                    self.visits[key] = self.visit()
                    copy.write_row((key, *self.visits[key]))
            print(f"note    {self.named('rows loaded')}: {self.rows} in {time.monotonic() - began:.1f} s")

    def visit(self, person=None):
        rng = self.rng
        country = rng.choice(list(PLACES))
        at = datetime(2024, 1, 1) + timedelta(seconds=rng.randrange(86400 * 900))
        amount = Decimal(min(int(rng.expovariate(1 / 4000)), 99999)) / 100
        return person or rng.randrange(1, 201), country, rng.choice(PLACES[country]), rng.choice(KINDS), rng.choice(DEVICES), at, amount, rng.randrange(100)

    def totals(self, group, condition):
        found = collections.defaultdict(lambda: [0, Decimal(0), 0])
        for row in self.visits.values():
            if condition(row):
                cell = found[group(row)]
                cell[0], cell[1], cell[2] = cell[0] + 1, cell[1] + row[6], cell[2] + row[7]
        return sorted((*key, *cell) for key, cell in found.items())

    def boxes(self):
        """Aggregates over boxes, by SQL and by the model."""
        yield ("by country", "SELECT country, count(*), sum(amount), sum(points) FROM visit GROUP BY country",
               self.totals(lambda row: (row[1],), lambda row: True))
        yield ("a box by city", "SELECT city, count(*), sum(amount), sum(points) FROM visit WHERE country = 'FR' AND kind IN ('buy', 'return') GROUP BY city",
               self.totals(lambda row: (row[2],), lambda row: row[1] == "FR" and row[3] in ("buy", "return")))
        yield ("a box by month", "SELECT date_trunc('month', seen_at), count(*), sum(amount), sum(points) FROM visit WHERE seen_at >= '2025-03-01' AND device = 'tv' GROUP BY 1",
               self.totals(lambda row: (row[5].replace(day=1, hour=0, minute=0, second=0),), lambda row: row[5] >= datetime(2025, 3, 1) and row[4] == "tv"))
        yield ("a box that cuts a day", "SELECT kind, count(*), sum(amount), sum(points) FROM visit WHERE seen_at BETWEEN '2024-05-05 10:30' AND '2025-06-06 07:08:09' GROUP BY kind",
               self.totals(lambda row: (row[3],), lambda row: datetime(2024, 5, 5, 10, 30) <= row[5] <= datetime(2025, 6, 6, 7, 8, 9)))

    def compare(self, when, connection=None):
        with connection or self.connect() as asked:
            for what, sql, expected in self.boxes():
                found = self.tried(f"{when}: {what}", lambda: sorted(tuple(row) for row in asked.execute(sql)))
                if found is not None:
                    self.equal(f"{when}: {what}", found, expected)

    # The parts.

    def transactions(self):
        """An unmodified client: all or nothing, savepoints, locks, upserts."""
        key = self.rows
        with self.connect() as connection:
            with connection.transaction():
                new = {key + number: self.visit() for number in range(5)}
                for number, row in new.items():
                    connection.execute("INSERT INTO visit VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s)", (number, *row))
                try:
                    with connection.transaction():
                        connection.execute("UPDATE visit SET amount = 0 WHERE id < 1000")
                        raise RuntimeError
                except RuntimeError:
                    pass
                self.equal("own rows are seen inside", connection.execute("SELECT count(*), sum(amount) FROM visit").fetchone(),
                           (len(self.visits) + 5, sum(row[6] for row in [*self.visits.values(), *new.values()])))
                with self.connect() as other:
                    self.equal("nobody else sees them", other.execute("SELECT count(*) FROM visit").fetchone()[0], len(self.visits))
            self.visits |= new
            with connection.transaction(force_rollback=True):
                connection.execute("DELETE FROM visit WHERE country = 'IT'")
            for number in range(50):
                changed = self.rng.choice(list(self.visits))
                row = self.visits[changed]
                row = (*row[:1], "DE", "Bonn", *row[3:6], row[6] + 1, row[7])
                sql = "UPDATE visit SET country = 'DE', city = 'Bonn', amount = amount + 1 WHERE id = %s"
                self.equal(f"UPDATE by key {number}", connection.execute(sql, (changed,)).rowcount, 1)
                self.visits[changed] = row
            sql = "INSERT INTO visit VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s) ON CONFLICT (id) DO UPDATE SET points = visit.points + excluded.points RETURNING points"
            row = self.visits[7]
            self.equal("an upsert", connection.execute(sql, (7, *row)).fetchone()[0], 2 * row[7])
            self.visits[7] = (*row[:7], 2 * row[7])
            try:
                connection.execute("INSERT INTO visit (id, person_id) VALUES (7, 1)")
                self.say("a key that is there is refused", "is let through")
            except psycopg.Error as error:
                self.equal("a key that is there is refused", error.sqlstate, "23505")
            if self.has_foreign_key:
                try:
                    connection.execute("INSERT INTO visit (id, person_id) VALUES (-1, 999999)")
                    self.say("a visit of nobody is refused", "is let through")
                except psycopg.Error as error:
                    self.equal("a visit of nobody is refused", error.sqlstate, "23503")
            with connection.transaction(), self.connect() as other:
                before = connection.execute("SELECT balance FROM person WHERE id = 1").fetchone()[0]
                other.execute("UPDATE person SET balance = balance + 1 WHERE id = 1")
                self.equal("READ COMMITTED", connection.execute("SELECT balance FROM person WHERE id = 1").fetchone()[0], before + 1)
                self.people[1] = (self.people[1][0], before + 1)
        self.tried("a lock of a row", self.locked)
        self.transfers()
        self.compare("after transactions")

    def locked(self):
        with self.connect() as connection, connection.transaction():
            connection.execute("SELECT * FROM person WHERE id = 2 FOR UPDATE")
            with self.connect() as other:
                try:
                    other.execute("SELECT * FROM person WHERE id = 2 FOR UPDATE NOWAIT")
                    self.say("a lock that another has", "is given twice")
                except psycopg.errors.LockNotAvailable:
                    self.say("a lock that another has")

    def transfers(self):
        """Four clients move money; what fails with 40001 or 40P01 is run again. The sum stays."""
        wrong = []

        def move(seed):
            rng = random.Random(seed)
            try:
                with self.connect() as connection:
                    for _ in range(15):
                        one, other = rng.sample(range(1, 11), 2)
                        for _ in range(200):
                            try:
                                with connection.transaction():
                                    connection.execute("UPDATE person SET balance = balance - 10 WHERE id = %s", (one,))
                                    connection.execute("UPDATE person SET balance = balance + 10 WHERE id = %s", (other,))
                                break
                            except (psycopg.errors.SerializationFailure, psycopg.errors.DeadlockDetected):
                                continue
                        else:
                            raise RuntimeError("refused 200 times")
            except Exception as error:
                wrong.append(one_line(error))

        clients = [threading.Thread(target=move, args=(seed,)) for seed in range(4)]
        for client in clients:
            client.start()
        for client in clients:
            client.join(120)
        self.equal("four clients move money", wrong, [])
        with self.connect() as connection:
            self.equal("and the sum stays", connection.execute("SELECT sum(balance) FROM person").fetchone()[0], sum(balance for _, balance in self.people.values()))

    def cuboids(self):
        if self.is_peer:
            return
        with self.connect() as connection:
            connection.execute("CALL alluvia.merge()")
            self.compare("merged")
            connection.execute("CALL alluvia.build_cuboids()")
            self.compare("with cuboids")
            told = [connection.execute(f"EXPLAIN ANALYZE {sql}").fetchall() for _, sql, _ in list(self.boxes())[:3]]
            self.equal("a cuboid answers", [bool(re.search(r"(?i)cuboid[^\n]*(answer|cells|yes|=1)", str(rows))) for rows in told], [True] * 3)
            # They follow what transactions change, at once.
            key = max(self.visits) + 1
            self.visits[key] = self.visit()
            connection.execute("INSERT INTO visit VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s)", (key, *self.visits[key]))
            gone = self.rng.choice(list(self.visits))
            del self.visits[gone]
            connection.execute("DELETE FROM visit WHERE id = %s", (gone,))
            self.compare("cuboids after a row came and one went")

        def pinned():
            with self.connect() as connection:
                connection.execute("CALL alluvia.pin_cuboid('visit', 'country, kind, month')")
        self.tried("a cuboid that is pinned", pinned)

    def estimates(self, when="loaded"):
        if self.is_peer:
            return
        with self.connect(cuboids="off") as connection:
            connection.execute("CALL alluvia.merge()")
            connection.execute("SET max_error = 0.2")
            held, near, sampled, exact = [], [], [], []
            # Boxes that share no row, so that an unlucky sample of one is none of another.
            boxes = [(cities, devices) for cities in CITIES for devices in (("phone", "tv"), ("desk", "car"))]
            for cities, devices in boxes:
                count, amount, _ = self.totals(lambda row: (), lambda row: row[2] in cities and row[4] in devices)[0]
                condition = f"city IN {cities} AND device IN {devices}"
                sql = f"""SELECT count(*), sum(amount), lower_bound(count(*)), upper_bound(count(*)), lower_bound(sum(amount)), upper_bound(sum(amount))
                    FROM visit WHERE {condition}"""
                found = [float(value) for value in connection.execute(sql).fetchone()]
                held.append(found[2] <= count <= found[3] and found[4] - 0.01 <= float(amount) <= found[5] + 0.01)
                near.append(all(upper - value <= 0.2 * upper + 0.01 for value, upper in ((found[0], found[3]), (found[1], found[5]))))
                told = "\n".join(str(row[-1]) for row in connection.execute(f"EXPLAIN ANALYZE {sql}").fetchall())
                sampled.append("Exact:" not in told)
                connection.execute("SET max_error = 0")
                exact.append(connection.execute(f"SELECT count(*), sum(amount) FROM visit WHERE {condition}").fetchone() == (count, amount))
                connection.execute("SET max_error = 0.2")
            # At confidence 0.95: that more than two of six miss comes twice in a thousand times.
            self.say(f"{when}: bounds hold what is true", f"of {len(held)} only {sum(held)}" if sum(held) < 4 else None)
            self.equal(f"{when}: the estimate is near enough", all(near), True)
            self.equal(f"{when}: the estimate is of a sample", any(sampled), True)
            self.equal(f"{when}: exact again", all(exact), True)
            print(f"note    {self.named(when)}: of {len(held)} boxes {sum(sampled)} are estimated, of {sum(held)} the bounds hold what is true")

    def estimates_again(self):
        self.estimates("changed")

    def freshness(self):
        if self.is_peer:
            return
        before = len(self.visits)
        with self.connect() as writer:
            # All is merged, and older than two seconds.
            writer.execute("CALL alluvia.merge()")
            time.sleep(2.2)
            counts = []
            for number in range(6):
                key = max(self.visits) + 1
                self.visits[key] = self.visit()
                writer.execute("INSERT INTO visit VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s)", (key, *self.visits[key]))
                found = []
                for fresh in ("merged", "2s", "0s"):
                    with self.connect(freshness=fresh) as reader:
                        found.append(reader.execute("SELECT count(*) FROM visit").fetchone()[0])
                counts.append((before + number + 1, *found))
            wrong = [one for one in counts if one[3] != one[0] or not before <= one[1] <= one[0] or not before <= one[2] <= one[0]]
            self.say("0s sees all; 2s and merged what there was before, or more", f"(there, merged, 2s, 0s): {wrong}" if wrong else None)
            print(f"note    {self.named('freshness')}: (there, merged, 2s, 0s) {counts}")
            time.sleep(2.2)
            writer.execute("CALL alluvia.merge()")
            found = []
            for fresh in ("merged", "2s", "0s"):
                with self.connect(freshness=fresh) as reader:
                    found.append(reader.execute("SELECT count(*) FROM visit").fetchone()[0])
            self.equal("after a merge all three see all", found, [len(self.visits)] * 3)

    def forgotten(self):
        """A person goes, with all visits; then the bytes of the name."""
        person = 77
        name = self.people.pop(person)[0].encode()
        with self.connect() as connection:
            if not self.is_peer:
                connection.execute("CALL alluvia.flush()")
            was_there = self.holds(name)
            if not self.has_foreign_key:
                connection.execute("DELETE FROM visit WHERE person_id = %s", (person,))
            connection.execute("DELETE FROM person WHERE id = %s", (person,))
            self.visits = {key: row for key, row in self.visits.items() if row[0] != person}
            self.equal("a person is gone", connection.execute("SELECT count(*), count(CASE WHEN person_id = %s THEN 1 END) FROM visit", (person,)).fetchone(), (len(self.visits), 0))
        self.compare("without the person")
        if self.is_peer:
            return

        def purge():
            with self.connect() as connection:
                connection.execute("CALL alluvia.purge()")
        if self.tried("purge", purge):
            self.equal("the name was in files before", bool(was_there), True)
            self.equal("and is in none after purge", self.holds(name), [])
            self.compare("after purge")

    def holds(self, name):
        """Files in which the bytes are; PostgreSQL's are its own business."""
        files = [path for path in pathlib.Path(self.place.data).rglob("*") if path.is_file()] if self.place.data else []
        found = []
        for path in files:
            try:
                if name in path.read_bytes():
                    found.append(path.name)
            except OSError:
                pass
        return found

    def killed(self):
        """Each process is killed while rows come; what was acknowledged is there, once, and no part of a transaction is."""
        for name, process in self.place.killed:
            first = max(self.visits) + 1
            sent, acknowledged, stop, ended = {}, set(), threading.Event(), []

            def write():
                number = 0
                while not stop.is_set():
                    keys = [first + 2 * number, first + 2 * number + 1]
                    number += 1
                    sent[keys[0]] = [self.visit(), self.visit()]
                    try:
                        with psycopg.connect(self.place.url(), connect_timeout=5) as connection:
                            for key, row in zip(keys, sent[keys[0]]):
                                connection.execute("INSERT INTO visit VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s)", (key, *row))
                            connection.commit()
                        acknowledged.add(keys[0])
                    except psycopg.Error as error:
                        ended.append(one_line(error))
                        time.sleep(0.05)
                    except Exception as error:
                        ended.append(one_line(error))
                        time.sleep(0.05)

            writer = threading.Thread(target=write)
            writer.start()
            time.sleep(1.5)
            before = len(acknowledged)
            process.kill()
            time.sleep(0.3)
            began = time.monotonic()
            process.start()
            took = time.monotonic() - began
            while len(acknowledged) <= before + 2 and time.monotonic() - began < STARTED:
                time.sleep(0.05)
            again = time.monotonic() - began
            stop.set()
            writer.join(60)
            self.say(f"{name} is killed, and rows come again", None if len(acknowledged) > before + 2 else f"no row is taken after {STARTED} s: {ended[-1:]}")
            with self.connect() as connection:
                found = dict(connection.execute("SELECT id, person_id FROM visit WHERE id >= %s", (first,)).fetchall())
                count = connection.execute("SELECT count(*) FROM visit WHERE id >= %s", (first,)).fetchone()[0]
            for key, rows in sent.items():
                there = [one in found for one in (key, key + 1)]
                if key in acknowledged and there != [True, True]:
                    self.say(f"{name}: what was acknowledged is there", f"of {key} there is {there}")
                elif there[0] != there[1]:
                    self.say(f"{name}: a transaction is whole or not there", f"of {key} there is {there}")
                if there == [True, True]:
                    self.visits[key], self.visits[key + 1] = rows
            self.equal(f"{name}: each row is there once", count, len(found))
            print(f"note    {self.named(name)}: {before} transactions before, {len(acknowledged)} in all, {len(ended)} refused meanwhile; started in {took:.1f} s, writes after {again:.1f} s")
            self.compare(f"after {name} was killed")

    def tell(self):
        for part in (self.make, self.estimates, self.transactions, self.cuboids, self.estimates_again, self.freshness, self.forgotten, self.killed):
            try:
                part()
            except Exception as error:
                self.say(part.__name__, f"{one_line(error)} (line {error.__traceback__.tb_next.tb_lineno if error.__traceback__.tb_next else '?'})")
                if part == self.make:
                    return


def main():
    parser = argparse.ArgumentParser(usage=__doc__.split("Usage: ")[1].split("\n")[0])
    parser.add_argument("program")
    parser.add_argument("--peer", action="store_true")
    parser.add_argument("--rows", type=int, default=1_500_000)
    parser.add_argument("--only", choices=["one", "gateway"])
    options = parser.parse_args()
    checks = Checks()
    if options.peer:
        with postgres() as port:
            Story(Peer(port), checks, options.rows).tell()
        checks.end()
    program = str(pathlib.Path(options.program).resolve())
    for place in (One, Gateway):
        if options.only in (None, place.kind):
            with tempfile.TemporaryDirectory() as folder:
                made = place(program, pathlib.Path(folder))
                try:
                    # A gateway gathers the rows of a table with a key.
                    Story(made, checks, options.rows if place is One else options.rows // 20).tell()
                finally:
                    checks.equal(f"{place.kind}: it stops", made.stop(), 0)
    checks.end()


if __name__ == "__main__":
    main()

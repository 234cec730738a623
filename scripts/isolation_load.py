"""Many sessions on few rows: nothing is lost, nothing is done twice, deadlocks end, and nobody waits for ever."""

import collections
import itertools
import random
import threading

import psycopg
from isolation_sessions import COMMITTED, ENDS_SECONDS, LEVELS, SERIALIZABLE, Session

THREADS = 8
REFUSED = ("40001", "40P01")


class Load:
    """A server, whether it locks rows within a statement, and what was not as expected of it."""

    def __init__(self, url, locks_within):
        self.url, self.locks_within, self.held, self.failures = url, locks_within, 0, []

    def connect(self):
        return psycopg.connect(self.url, autocommit=True)

    def make(self, *statements):
        with self.connect() as connection:
            for statement in ("DROP TABLE IF EXISTS test", *statements):
                connection.execute(statement)

    def ask(self, statement):
        with self.connect() as connection:
            return connection.execute(statement).fetchall()

    def hold(self, what, found, expected):
        if found == expected:
            self.held += 1
        else:
            self.failures.append(f"{what}:\n    found    {found!r:.300}\n    expected {expected!r:.300}")

    def in_threads(self, what, count, work):
        """Runs `work(connection, number)` in threads with a connection each; none may fail. Gives what they gave."""
        gave, errors = [None] * count, []

        def run(number):
            try:
                with self.connect() as connection:
                    connection.execute(f"SET lock_timeout = '{ENDS_SECONDS}s'")
                    gave[number] = work(connection, number)
            except Exception as error:
                errors.append(f"{getattr(error, 'sqlstate', None)} {type(error).__name__}: {error}".strip())

        threads = [threading.Thread(target=run, args=(number,), daemon=True) for number in range(count)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(4 * ENDS_SECONDS)
        self.hold(f"{what}: threads that do not end", sum(thread.is_alive() for thread in threads), 0)
        self.hold(f"{what}: errors", errors, [])
        return gave


def until_done(connection, level, work):
    """A transaction, again as long as it is refused; gives how often it was."""
    for refused in itertools.count():
        try:
            connection.execute(f"BEGIN ISOLATION LEVEL {level}")
            work(connection)
            connection.execute("COMMIT")
            return refused
        except psycopg.Error as error:
            connection.execute("ROLLBACK")
            if error.sqlstate not in REFUSED:
                raise


def updates(load):
    """UPDATE t SET v = v + 1 of one row, in each way: no error at READ COMMITTED, and no update is lost at any level."""
    update = "UPDATE test SET value = value + 1 WHERE id = 1"

    def alone(connection, _):
        for _ in range(100):
            connection.execute(update)

    def in_transactions(connection, _):
        for _ in range(50):
            connection.execute(f"BEGIN ISOLATION LEVEL {COMMITTED}")
            connection.execute(update)
            connection.execute("COMMIT")

    def by_client(connection, _):
        for _ in range(25):
            connection.execute(f"BEGIN ISOLATION LEVEL {COMMITTED}")
            value = connection.execute("SELECT value FROM test WHERE id = 1 FOR UPDATE").fetchone()[0]
            connection.execute("UPDATE test SET value = %s WHERE id = 1", (value + 1,))
            connection.execute("COMMIT")

    def again(level):
        return lambda connection, _: [until_done(connection, level, lambda c: c.execute(update)) for _ in range(10)]

    ways = [("alone", alone, 100), ("in transactions", in_transactions, 50), ("FOR UPDATE and a value of the client's", by_client, 25)]
    ways += [(f"again until it is done, {level}", again(level), 10) for level in LEVELS[1:]]
    for name, work, each in ways:
        what = f"UPDATE v = v + 1, {name}"
        load.make("CREATE TABLE test (id INT PRIMARY KEY, value INT)", "INSERT INTO test VALUES (1, 0), (2, 0)")
        load.in_threads(what, THREADS, work)
        load.hold(what, load.ask("SELECT value FROM test WHERE id = 1"), [(THREADS * each,)])


def upserts(load):
    what = "counters by ON CONFLICT DO UPDATE"
    load.make("CREATE TABLE test (id INT PRIMARY KEY, value INT)")
    upsert = "INSERT INTO test VALUES (%s, 1) ON CONFLICT (id) DO UPDATE SET value = test.value + 1"

    def work(connection, number):
        for at in range(100):
            connection.execute(upsert, ((number + at) % 5,))

    load.in_threads(what, THREADS, work)
    load.hold(what, load.ask("SELECT id, value FROM test ORDER BY id"), [(key, THREADS * 20) for key in range(5)])


def inserts(load):
    """One of those that insert a key has it, and the others are told 23505; with DO NOTHING, that they did nothing."""
    for name, rest, keys in (("INSERT of one key", "", 30), ("INSERT of one key, DO NOTHING", " ON CONFLICT DO NOTHING", 30)):
        load.make("CREATE TABLE test (id INT PRIMARY KEY, value INT)")

        def work(connection, number):
            done = []
            for key in range(keys):
                try:
                    done.append(connection.execute(f"INSERT INTO test VALUES ({key}, {number}){rest}").statusmessage)
                except psycopg.errors.UniqueViolation as error:
                    done.append(error.sqlstate)
            return done

        gave = load.in_threads(name, THREADS, work)
        told = collections.Counter(tag for done in gave for tag in done or [])
        load.hold(name, dict(told), {"INSERT 0 1": keys, "INSERT 0 0" if rest else "23505": keys * (THREADS - 1)})
        inserted = [(key, number) for number, done in enumerate(gave) for key, tag in enumerate(done or []) if tag == "INSERT 0 1"]
        load.hold(f"{name}: the rows are of who was told so", load.ask("SELECT id, value FROM test ORDER BY id"), sorted(inserted))


def jobs(load):
    """Workers take rows from a queue with SKIP LOCKED: each once."""
    take = "SELECT id FROM test WHERE state = 'new' ORDER BY id LIMIT 3 FOR UPDATE SKIP LOCKED"
    remove = "DELETE FROM test WHERE id IN (SELECT id FROM test ORDER BY id LIMIT 3 FOR UPDATE SKIP LOCKED) RETURNING id"

    def taken(connection, _):
        mine = []
        while True:
            connection.execute("BEGIN")
            rows = [row[0] for row in connection.execute(take).fetchall()]
            for row in rows:
                connection.execute("UPDATE test SET state = 'done' WHERE id = %s", (row,))
            connection.execute("COMMIT")
            # None may be free while others have them all, so who finds none looks whether there are some.
            if not rows and not connection.execute("SELECT count(*) FROM test WHERE state = 'new'").fetchone()[0]:
                return mine
            mine += rows

    def removed(connection, _):
        mine = []
        while connection.execute("SELECT count(*) FROM test").fetchone()[0]:
            mine += [row[0] for row in connection.execute(remove).fetchall()]
        return mine

    works = [("taken in transactions", taken)] + [("removed in one statement", removed)] * load.locks_within
    for name, work in works:
        what = f"jobs of a queue, {name}"
        load.make("CREATE TABLE test (id INT PRIMARY KEY, state TEXT)", "INSERT INTO test SELECT i, 'new' FROM generate_series(1, 200) AS s(i)")
        gave = load.in_threads(what, 4, work)
        load.hold(what, sorted(row for mine in gave for row in mine or []), list(range(1, 201)))


def deadlocks(load):
    """Sessions in a ring, each with a row that the one before wants: one is told 40P01, and the others go on."""
    first, shared = "UPDATE test SET value = 1 WHERE id = {}", "SELECT id FROM test WHERE id = 0 FOR SHARE"
    rings = [(f"a deadlock of {count}", count, lambda at: first.format(at), lambda at, count=count: first.format((at + 1) % count)) for count in (2, 3, 5)]
    rings.append(("a deadlock of two that share a row, and both want to write it", 2, lambda at: shared, lambda at: first.format(0)))
    for what, count, has, wants in rings:
        load.make("CREATE TABLE test (id INT PRIMARY KEY, value INT)", "INSERT INTO test SELECT i, 0 FROM generate_series(0, 9) AS s(i)")
        sessions = [Session(load.url) for _ in range(count)]
        try:
            for at, session in enumerate(sessions):
                load.hold(f"{what}: BEGIN and the first lock", (session.run("BEGIN"), session.run(has(at)) in ("UPDATE 1", "0")), ("BEGIN", True))
            for at, session in enumerate(sessions):
                session.start(wants(at))
            # Whoever is done ends its transaction, which lets the next one go on.
            ended, open_ones, rounds = [], list(sessions), 0
            while open_ones and rounds < 100 * ENDS_SECONDS:
                rounds += 1
                for session in list(open_ones):
                    found = session.outcome(0.01)
                    if found != "waits":
                        ended.append((found, session.run("COMMIT")))
                        open_ones.remove(session)
            load.hold(what, sorted(ended), [("40P01", "ROLLBACK")] + [("UPDATE 1", "COMMIT")] * (count - 1))
        finally:
            for session in sessions:
                session.close()


def transfers(load):
    """Money goes between accounts, in an order that makes deadlocks: no sum ever differs, at any level, for readers neither."""
    for level in LEVELS:
        what = f"transfers between accounts, {level}"
        load.make("CREATE TABLE test (id INT PRIMARY KEY, value INT)", "INSERT INTO test SELECT i, 100 FROM generate_series(0, 5) AS s(i)")

        def work(connection, number):
            chosen = random.Random(number)
            for _ in range(20):
                if number == 0:
                    found = connection.execute("SELECT sum(value), count(*) FROM test").fetchone()
                    assert found == (600, 6), f"a reader found {found}"
                    continue
                one, other = chosen.sample(range(6), 2)
                until_done(connection, level, lambda c: [c.execute("UPDATE test SET value = value + %s WHERE id = %s", (amount, key)) for amount, key in ((-7, one), (7, other))])

        load.in_threads(what, THREADS, work)
        load.hold(what, load.ask("SELECT sum(value), count(*) FROM test"), [(600, 6)])


def on_call(load):
    """Write skew under load: of two doctors one stays on call, as each looks before it leaves."""
    what = "two doctors, SERIALIZABLE"
    load.make("CREATE TABLE test (id INT PRIMARY KEY, value INT)", "INSERT INTO test VALUES (0, 1), (1, 1)")

    def work(connection, number):
        def change(c):
            there = c.execute("SELECT sum(value) FROM test").fetchone()[0]
            assert there > 0, "nobody was on call"
            c.execute("UPDATE test SET value = %s WHERE id = %s", (0 if there == 2 else 1, number % 2))

        return sum(until_done(connection, SERIALIZABLE, change) for _ in range(20))

    load.in_threads(what, 4, work)
    load.hold(what, load.ask("SELECT sum(value) > 0 FROM test"), [(True,)])


def turns(load):
    """Everybody comes to lock a row in turn: between a request and the lock that it gets there are few locks of others."""
    what = "nobody waits for ever"
    load.make("CREATE TABLE test (id INT PRIMARY KEY, value INT)", "INSERT INTO test VALUES (1, 0)")
    granted = itertools.count()
    last = [0]

    def work(connection, _):
        longest = 0
        for _ in range(30):
            connection.execute("BEGIN")
            before = last[0]
            connection.execute("SELECT value FROM test WHERE id = 1 FOR UPDATE")
            last[0] = next(granted)
            longest = max(longest, last[0] - before)
            connection.execute("UPDATE test SET value = value + 1 WHERE id = 1")
            connection.execute("COMMIT")
        return longest

    longest = load.in_threads(what, THREADS, work)
    # With turns there are as many as threads, and some that pass while a client is slow; without, nearly all that there are.
    most = 8 * THREADS
    load.hold(f"{what}: at most {most} of others come before ({longest})", all(one is not None and one <= most for one in longest), True)
    load.hold(what, load.ask("SELECT value FROM test"), [(THREADS * 30,)])


def lost(load):
    """Connections are lost in the midst of transactions: others go on, and what was told to be committed is there."""
    what = "connections that are lost"
    load.make("CREATE TABLE test (id INT PRIMARY KEY, value INT)", "INSERT INTO test VALUES (1, 0)")

    def work(connection, number):
        chosen, done = random.Random(number), 0
        for _ in range(15):
            if chosen.random() < 0.5:
                connection.execute("UPDATE test SET value = value + 1 WHERE id = 1")
                done += 1
                continue
            session = Session(load.url)
            session.run("BEGIN")
            session.start("UPDATE test SET value = value + 1000 WHERE id = 1")
            session.outcome(chosen.choice((0, 0.02, ENDS_SECONDS)))
            session.drop()
            session.close()
        return done

    gave = load.in_threads(what, THREADS, work)
    load.hold(what, load.ask("SELECT value FROM test"), [(sum(done or 0 for done in gave),)])
    load.hold(f"{what}, and the row is free", load.ask("SELECT id FROM test FOR UPDATE NOWAIT"), [(1,)])


PARTS = (updates, upserts, inserts, jobs, deadlocks, transfers, on_call, turns, lost)

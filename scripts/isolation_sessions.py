"""Sessions whose statements may wait for one another, and schedules of their steps.

A schedule is a text, a step a line: `T1: UPDATE test SET value = 11 WHERE id = 1 => UPDATE 1`. Left of `=>` stand the session and its
statement, right of it the outcome:

- rows as `1 10, 2 20`, or `no rows`; the tag of a statement without rows; an error's SQLSTATE; `lost` where the connection is;
- `waits` where the statement does not end; a later step of the session without a statement has its end;
- `one | two | three` at READ COMMITTED, REPEATABLE READ and SERIALIZABLE; of two the second is of both of the last; `a or b` is either.

A session of the name T1, T2, ... begins a transaction of the level before its first statement, and a session A, B, ... does not. In a
transaction that has failed each statement has to be 25P02, and COMMIT to be ROLLBACK, so schedules leave that out. `drop` ends a connection as
a machine does that stops, `cancel` asks to end what runs. `refused: => some` holds that a session at least was told 40001; `none` is none.
"""

import os
import queue
import re
import socket
import threading
import time

import psycopg

LEVELS = COMMITTED, REPEATABLE, SERIALIZABLE = "READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE"
# How long a statement may take until it waits, if pg_locks does not tell that it does; what it then has to end if it waits for nothing; and what
# it may take that has to end. A slow machine makes no wrong answer of a right one by the last two.
WAITS_SECONDS = 0.3
STILL_SECONDS = 0.05
ENDS_SECONDS = 20
FAILED = psycopg.pq.TransactionStatus.INERROR


class Session:
    """A connection with a thread of its own, so that its statement may wait while others go on."""

    def __init__(self, url, prepared=False):
        self.connection = psycopg.connect(url, autocommit=True, prepare_threshold=None)
        self.prepared = prepared
        self.asked, self.told = queue.Queue(), queue.Queue()
        self.is_busy = self.is_dropped = False
        self.thread = threading.Thread(target=self.work, daemon=True)
        self.thread.start()

    def work(self):
        while (statement := self.asked.get()) is not None:
            self.told.put(self.ask(statement))

    def ask(self, statement):
        try:
            cursor = self.connection.execute(statement, prepare=self.prepared)
            return shown(cursor.fetchall()) if cursor.description else cursor.statusmessage
        except psycopg.Error as error:
            return error.sqlstate or "lost"

    def start(self, statement):
        self.asked.put(statement)
        self.is_busy = True

    def outcome(self, seconds=ENDS_SECONDS):
        """What the statement that was started ended with, or `waits`."""
        try:
            found = self.told.get(timeout=seconds)
        except queue.Empty:
            return "waits"
        self.is_busy = False
        return found

    def outcome_of_wait(self, watcher):
        """As `outcome`, where a statement is to wait: until a lock is told that it has not, and a moment longer."""
        end = time.monotonic() + WAITS_SECONDS
        asked = "SELECT count(*) FROM pg_locks WHERE pid = %s AND NOT granted"
        while self.told.empty() and time.monotonic() < end and not watcher.execute(asked, (self.connection.info.backend_pid,)).fetchone()[0]:
            time.sleep(0.01)
        return self.outcome(STILL_SECONDS)

    def run(self, statement):
        self.start(statement)
        return self.outcome()

    def status(self):
        return None if self.is_busy or self.connection.closed else self.connection.info.transaction_status

    def drop(self):
        """The connection is gone, without a word. Once: its number may be another one's afterwards."""
        if self.is_dropped:
            return
        self.is_dropped = True
        with socket.socket(fileno=os.dup(self.connection.pgconn.socket)) as duplicate:
            duplicate.shutdown(socket.SHUT_RDWR)

    def close(self):
        if self.is_busy:
            self.drop()
            self.outcome()
        self.asked.put(None)
        self.thread.join(ENDS_SECONDS)
        self.connection.close()


def shown(rows):
    return ", ".join(" ".join(str(value) for value in row) for row in rows) or "no rows"


class Schedule:
    """Steps with their outcomes, and at which levels they are held."""

    def __init__(self, name, text, levels=LEVELS, setup=()):
        self.name, self.levels, self.setup = name, levels, setup
        self.steps = [Step(line) for line in text.strip().splitlines()]


class Step:
    def __init__(self, line):
        found = re.fullmatch(r"\s*(\w+):(.*?)=>(.+)", line)
        assert found, f"no step of a schedule: {line}"
        self.session, self.statement = found[1], " ".join(found[2].split())
        outcomes = [part.strip() for part in found[3].split("|")]
        self.outcomes = outcomes + outcomes[-1:] * (len(LEVELS) - len(outcomes))
        self.line = f"{self.session}: {self.statement}".strip()

    def expected(self, level):
        return self.outcomes[LEVELS.index(level)]


class Play:
    """A schedule at a level, on tables of its own. `known` gives the other outcome of a step that is known, or none; such a one ends the schedule."""

    def __init__(self, url, schedule, level, prepared, known):
        self.url, self.schedule, self.level, self.prepared, self.known = url, schedule, level, prepared, known
        self.sessions, self.refused = {}, False

    def run(self):
        """The number of steps that were as expected, and a text of the first that was not: what follows it means nothing."""
        held = 0
        self.watcher = psycopg.connect(self.url, autocommit=True)
        try:
            self.prepare()
            for step in self.schedule.steps:
                known = self.known(self.schedule.name, step.line)
                found, expected = self.step(step, known or step.expected(self.level))
                if found not in expected.split(" or "):
                    return held, self.told(step.line, found, expected)
                held += 1
                if known:
                    break
        except psycopg.Error as error:
            return held, self.told("before it", f"{error.sqlstate} {error}", "no error")
        finally:
            for session in (*self.sessions.values(), self.watcher):
                session.close()
        return held, None

    def told(self, what, found, expected):
        way = ", prepared" if self.prepared else ""
        return f"{self.schedule.name}, {self.level}{way}: {what}\n    found    {found}\n    expected {expected}"

    def prepare(self):
        statements = [
            "DROP TABLE IF EXISTS test", "CREATE TABLE test (id INT PRIMARY KEY, value INT)", "INSERT INTO test (id, value) VALUES (1, 10), (2, 20)",
            *self.schedule.setup,
        ]
        for statement in statements:
            self.watcher.execute(statement)

    def step(self, step, expected):
        """What it ended with, and what it had to."""
        if step.session == "refused":
            return ("some" if self.refused else "none"), expected
        if step.session not in self.sessions:
            session = self.sessions[step.session] = Session(self.url, self.prepared)
            begun = session.run(f"BEGIN ISOLATION LEVEL {self.level}") if step.session.startswith("T") else "BEGIN"
            if begun != "BEGIN":
                return begun, "BEGIN"
        session = self.sessions[step.session]
        if step.statement in ("drop", "cancel"):
            session.drop() if step.statement == "drop" else session.connection.cancel_safe(timeout=ENDS_SECONDS)
            return "done", expected
        if bool(step.statement) == session.is_busy:
            # It was refused already, where the schedule leaves open by which statement; else the step before is wrong.
            is_refused = not session.is_busy and session.status() == FAILED
            return ("waits" if session.is_busy else "does not wait"), ("does not wait" if is_refused else expected)
        if step.statement:
            expected = in_failed(step.statement) if session.status() == FAILED else expected
            session.start(step.statement)
        found = session.outcome_of_wait(self.watcher) if "waits" in expected.split(" or ") else session.outcome()
        self.refused |= found == "40001"
        return found, expected


def in_failed(statement):
    """What a statement ends with in a transaction that has failed."""
    return "ROLLBACK" if statement.split()[0] in ("COMMIT", "ROLLBACK") else "25P02"

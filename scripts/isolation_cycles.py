"""Random transactions at each level, and cycles of what they tell of one another, as Elle searches for them (Kingsbury and Alvaro, VLDB 2020).

Transactions append numbers that come once to lists, and read lists. The lists at the end have the order of all writes, so each read tells whom
it has seen and whom not:

- ww: the one's number stands before the other's in a list; wr: one has read the other's number as the last one;
- rw: one has read a list without the other's number, which comes next in it;
- rt: one was over before the other began, as their clients have it.

By level: READ COMMITTED has no cycle without an rw; REPEATABLE READ, which is snapshot isolation, none without two rw in sequence (Cerone and
Gotsman); SERIALIZABLE has none at all. Beside cycles: no number of a transaction that was rolled back is read, none of one that was committed is
missing, no read is of a list that never was, and a transaction sees its own writes.

`isolation_cycles.py` alone tries itself: histories with a bug in each must be found, those without must not.
"""

import collections
import itertools
import random
import sys
import threading

import psycopg
from isolation_sessions import LEVELS

THREADS = 8
TRANSACTIONS = 1500
LIVE_LISTS, LONGEST = 4, 30
REFUSED = ("40001", "40P01")
COMMITTED, ROLLED_BACK = "committed", "rolled back"
# The names of what is found, in the order of the levels that allow it.
CYCLES = ("G0 (ww)", "G1c (ww, wr)", "G-single (no two rw in sequence)", "G2 (rw)")
ALLOWED = {LEVELS[0]: CYCLES[2:], LEVELS[1]: CYCLES[3:], LEVELS[2]: ()}


class Transaction:
    """What a client did and was told: operations are ("append", list, number) and ("read", list, numbers)."""

    def __init__(self, name, begun=0):
        self.name, self.begun, self.ended, self.state, self.operations = name, begun, None, None, []

    def __repr__(self):
        return f"{self.name} ({', '.join(f'{kind} {key} {value}' for kind, key, value in self.operations)})"


class Workload:
    """Random transactions by threads. Lists are left for new ones when they are long, so that there are always some that are not there yet."""

    def __init__(self, url, level, seed, prepared):
        self.url, self.level, self.seed, self.prepared = url, level, seed, prepared
        self.clock, self.numbers, self.appended = itertools.count(1), itertools.count(1), collections.Counter()
        self.first, self.errors, self.history = 0, [], []

    def run(self, transactions):
        """The history, and the lists at the end."""
        with psycopg.connect(self.url, autocommit=True) as connection:
            connection.execute("DROP TABLE IF EXISTS lists")
            connection.execute("CREATE TABLE lists (k INT PRIMARY KEY, list TEXT NOT NULL)")
        threads = [threading.Thread(target=self.client, args=(number, transactions // THREADS), daemon=True) for number in range(THREADS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(600)
        self.errors += ["a thread does not end" for thread in threads if thread.is_alive()]
        with psycopg.connect(self.url, autocommit=True) as connection:
            lists = {key: numbers_of(text) for key, text in connection.execute("SELECT k, list FROM lists").fetchall()}
        return self.history, lists

    def client(self, number, transactions):
        chosen = random.Random(f"{self.seed} {number}")
        try:
            with psycopg.connect(self.url, autocommit=True, prepare_threshold=0 if self.prepared else None) as connection:
                for at in range(transactions):
                    self.transaction(connection, chosen, f"T{number}.{at}")
        except Exception as error:
            self.errors.append(f"{getattr(error, 'sqlstate', None)} {error}".strip())

    def transaction(self, connection, chosen, name):
        done = Transaction(name, next(self.clock))
        try:
            connection.execute(f"BEGIN ISOLATION LEVEL {self.level}")
            for _ in range(chosen.randint(1, 5)):
                done.operations += self.operation(connection, chosen)
            end = "ROLLBACK" if chosen.random() < 0.05 else "COMMIT"
            done.state = ROLLED_BACK if end == "ROLLBACK" else COMMITTED
            connection.execute(end)
        except psycopg.Error as error:
            done.state = ROLLED_BACK
            connection.execute("ROLLBACK")
            if error.sqlstate not in REFUSED:
                raise
        done.ended = next(self.clock)
        self.history.append(done)

    def operation(self, connection, chosen):
        key = self.first + chosen.randrange(LIVE_LISTS)
        kind = chosen.random()
        if kind < 0.45:
            number = next(self.numbers)
            self.appended[key] += 1
            self.first += self.appended[self.first] >= LONGEST
            values = {"key": key, "number": f" {number}"}
            # UPDATE finds nothing where the list is not there yet.
            changed = connection.execute("UPDATE lists SET list = list || %(number)s WHERE k = %(key)s", values).rowcount
            if changed == 0:
                connection.execute("INSERT INTO lists AS l VALUES (%(key)s, %(number)s) ON CONFLICT (k) DO UPDATE SET list = l.list || %(number)s", values)
            return [("append", key, number)]
        if kind < 0.85:
            lock = " FOR UPDATE" if kind < 0.5 else ""
            row = connection.execute(f"SELECT list FROM lists WHERE k = %s{lock}", (key,)).fetchone()
            return [("read", key, numbers_of(row[0] if row else ""))]
        rows = dict(connection.execute("SELECT k, list FROM lists WHERE k BETWEEN %s AND %s", (key, key + 2)).fetchall())
        return [("read", at, numbers_of(rows.get(at, ""))) for at in range(key, key + 3)]


def numbers_of(text):
    return [int(part) for part in text.split()]


class Findings:
    """What a history shows: the edges between transactions, and what is wrong beside them."""

    def __init__(self, history, lists):
        self.history, self.lists, self.wrong, self.missed = history, lists, [], []
        self.edges = collections.defaultdict(dict)
        self.writer = {}
        for transaction in history:
            self.writes(transaction)
        for transaction in history:
            self.reads(transaction)
        self.orders()
        self.times()

    def edge(self, source, target, kind):
        """Of two kinds the one that allows less stays: they are added in that order."""
        if source is not target:
            self.edges[source].setdefault(target, kind)

    def writes(self, transaction):
        for kind, key, value in transaction.operations:
            if kind != "append":
                continue
            self.writer[key, value] = transaction
            is_there = value in self.lists.get(key, ())
            if is_there and transaction.state == ROLLED_BACK:
                self.wrong.append(f"G1a: {value} of {transaction}, which was rolled back, is in the list {key}")
            if not is_there and transaction.state == COMMITTED:
                self.wrong.append(f"lost: {value} of {transaction} is not in the list {key}")

    def reads(self, transaction):
        """Also of those that were rolled back: what they have read was told, too."""
        own = collections.defaultdict(list)
        for kind, key, value in transaction.operations:
            if kind == "append":
                own[key].append(value)
                continue
            mine = own[key]
            if value[len(value) - len(mine):] != mine:
                self.wrong.append(f"own writes: {transaction} has read {value} of the list {key}, and {mine} were its own")
            others = value[:len(value) - len(mine)]
            final = self.lists.get(key, [])
            if others != final[:len(others)]:
                self.wrong.append(f"G1a or lost: {transaction} has read {others} of the list {key}, which in the end is {final[:len(others)]}")
            elif others:
                last = self.writer.get((key, others[-1]))
                later = final[len(others)] if len(others) < len(final) else None
                if last and last is not transaction and self.writer.get((key, later)) is last:
                    self.wrong.append(f"G1b: {transaction} has read {others} of the list {key}, and {later} is of {last}, too")

    def orders(self):
        for key, final in self.lists.items():
            writers = [self.writer.get((key, value)) for value in final]
            if None in writers:
                self.wrong.append(f"a number that nobody appended is in the list {key}: {final}")
                return
            for one, other in zip(writers, writers[1:]):
                self.edge(one, other, "ww")
        committed = [one for one in self.history if one.state == COMMITTED]
        told = [(one, key, value) for one in committed for kind, key, value in one.operations if kind == "read"]
        for transaction, key, value in told:
            others = [number for number in value if self.writer.get((key, number)) is not transaction]
            if others and (key, others[-1]) in self.writer:
                self.edge(self.writer[key, others[-1]], transaction, "wr")
        for transaction, key, value in told:
            final = self.lists.get(key, [])
            if len(value) < len(final):
                self.missed.append((transaction, self.writer[key, final[len(value)]]))

    def times(self):
        """Who was over before another began, by a chain of moments: an edge each instead of one for each two transactions."""
        committed = [one for one in self.history if one.state == COMMITTED]
        moments = [(one.ended, True, one) for one in committed] + [(one.begun, False, one) for one in committed]
        last = None
        for at, is_end, transaction in sorted(moments, key=lambda moment: moment[0]):
            if is_end:
                moment = ("moment", at)
                self.edge(transaction, moment, "rt")
                if last:
                    self.edge(last, moment, "rt")
                last = moment
            elif last:
                self.edge(last, transaction, "rt")
        for one, other in self.missed:
            self.edge(one, other, "rw")

    def cycles(self):
        """A shortest cycle of each kind that there is; of each the least that it is made of."""
        found = {}
        for name, kinds in ((CYCLES[0], ("ww", "rt")), (CYCLES[1], ("ww", "wr", "rt")), (CYCLES[3], ("ww", "wr", "rt", "rw"))):
            cycle = shortest({source: [(target, kind) for target, kind in targets.items() if kind in kinds] for source, targets in self.edges.items()})
            if cycle:
                found[name] = told_as_text(cycle)
        # A state is a transaction and whether an rw has led to it, where no other may follow.
        states = collections.defaultdict(list)
        for source, targets in self.edges.items():
            for target, kind in targets.items():
                states[source, False].append(((target, kind == "rw"), kind))
                if kind != "rw":
                    states[source, True].append(((target, False), kind))
        cycle = shortest(states)
        if cycle and CYCLES[1] not in found:
            found[CYCLES[2]] = told_as_text([(state[0], kind) for state, kind in cycle])
        return found

    def broken(self, level):
        """What the level does not allow."""
        return self.wrong + [f"{name}: {cycle}" for name, cycle in self.cycles().items() if name not in ALLOWED[level]]


def told_as_text(cycle):
    shown = [f"{source if isinstance(source, Transaction) else '(over, before the next began)'} -{kind}->" for source, kind in cycle]
    return "\n        ".join(["", *shown])


def shortest(edges):
    """A shortest cycle of one strongly connected part, as (node, kind of the edge that leaves it), or none."""
    part = strongly_connected(edges)
    if not part:
        return None
    best = None
    for start in sorted(part, key=str)[:200]:
        came, waiting = {}, collections.deque([start])
        while waiting and start not in came:
            node = waiting.popleft()
            for target, kind in edges.get(node, ()):
                if target in part and target not in came:
                    came[target] = (node, kind)
                    waiting.append(target)
        path, node = [], start
        while not path or node != start:
            node, kind = came[node]
            path.append((node, kind))
        if best is None or len(path) < len(best):
            best = path[::-1]
    return best


def strongly_connected(edges):
    """The smallest part of more than one node, each of which reaches the others, by Tarjan; without recursion, as paths are long."""
    index, low, stack, on_stack, parts = {}, {}, [], set(), []
    for root in list(edges):
        if root in index:
            continue
        work = [(root, iter(edges.get(root, ())))]
        index[root] = low[root] = len(index)
        stack.append(root)
        on_stack.add(root)
        while work:
            node, targets = work[-1]
            for target, _ in targets:
                if target not in index:
                    index[target] = low[target] = len(index)
                    stack.append(target)
                    on_stack.add(target)
                    work.append((target, iter(edges.get(target, ()))))
                    break
                if target in on_stack:
                    low[node] = min(low[node], index[target])
            else:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[node])
                if low[node] == index[node]:
                    part = set()
                    while not part or member != node:
                        member = stack.pop()
                        on_stack.discard(member)
                        part.add(member)
                    if len(part) > 1:
                        parts.append(part)
    return min(parts, key=len, default=None)


def run(url, seed, prepared=False, transactions=TRANSACTIONS):
    """The number of transactions by level that were as they should be, and a text for each finding; prints what the levels let pass."""
    held, failures = 0, []
    for level in LEVELS:
        workload = Workload(url, level, seed, prepared)
        history, lists = workload.run(transactions)
        findings = Findings(history, lists)
        broken = [f"cycles, {level}, seed {seed}: {finding}" for finding in workload.errors + findings.broken(level)]
        states = collections.Counter(one.state for one in history)
        let = ", ".join(findings.cycles()) or "no cycle"
        print(f"cycles: {level}: {states[COMMITTED]} committed, {states[ROLLED_BACK]} rolled back or refused, {sum(map(len, findings.edges.values()))} edges; {let}", flush=True)
        held += len(history) if not broken else 0
        failures += broken
    return held, failures


def tried(name, begun, ended, *operations, state=COMMITTED):
    """A transaction of a history that is made up: `a1` appends 1 to the list a, `a:1 2` reads 1, 2."""
    made = Transaction(name, begun)
    made.ended, made.state = ended, state
    for operation in operations:
        key, rest = operation[0], operation[1:]
        made.operations.append(("read", key, numbers_of(rest[1:])) if rest.startswith(":") else ("append", key, int(rest)))
    return made


# What each is of, its transactions, the lists at the end, and the first words of what has to be found; all of them at once, the times are no help.
PLANTED = [
    ("two writes in two orders", [("a1", "b1"), ("a2", "b2")], {"a": [1, 2], "b": [2, 1]}, CYCLES[0]),
    ("each has read the other", [("a1", "b:2"), ("b2", "a:1")], {"a": [1], "b": [2]}, CYCLES[1]),
    ("a read before and a read after", [("a1", "b2"), ("a:", "b:2")], {"a": [1], "b": [2]}, CYCLES[2]),
    ("a lost update", [("a1",), ("a:1", "a2"), ("a:1", "a3")], {"a": [1, 2, 3]}, CYCLES[2]),
    ("two readers see two writes in two orders", [("a1",), ("b2",), ("a:1", "b:"), ("a:", "b:2")], {"a": [1], "b": [2]}, CYCLES[2]),
    ("write skew", [("a:", "b1"), ("b:", "a2")], {"a": [2], "b": [1]}, CYCLES[3]),
    ("write skew of three", [("a:", "b1"), ("b:", "c2"), ("c:", "a3")], {"a": [3], "b": [1], "c": [2]}, CYCLES[3]),
    ("a transaction that reads alone", [("a:", "b:", "b1"), ("a2",), ("a:2", "b:")], {"a": [2], "b": [1]}, CYCLES[3]),
    ("a write that is lost", [("a1",), ("a2",)], {"a": [2]}, "lost"),
    ("a read of what was not the last write", [("a1", "a2"), ("a:1",)], {"a": [1, 2]}, "G1b"),
    ("a read of what never was", [("a1",), ("a2",), ("a:2",)], {"a": [1, 2]}, "G1a or lost"),
    ("an own write that is not read", [("a1", "a:")], {"a": [1]}, "own writes"),
]
RIGHT = [
    ("one after the other", [("a1", "b2"), ("a:1", "b:2", "a3"), ("a:1 3", "b:2")], {"a": [1, 3], "b": [2]}),
    ("own writes", [("a:", "a1", "a2", "a:1 2"), ("a:1 2", "a3", "a:1 2 3")], {"a": [1, 2, 3]}),
]


def serial(count, seed):
    """A history of transactions that went one after the other, though they were open together."""
    chosen, lists, history, numbers = random.Random(seed), collections.defaultdict(list), [], itertools.count(1)
    for at in range(count):
        done = Transaction(f"S{at}", 10 * at)
        done.ended, done.state = 10 * at + 35, COMMITTED
        for _ in range(chosen.randint(1, 4)):
            key = f"s{at // 50 + chosen.randrange(3)}"
            if chosen.random() < 0.5:
                lists[key].append(next(numbers))
                done.operations.append(("append", key, lists[key][-1]))
            else:
                done.operations.append(("read", key, list(lists[key])))
        history.append(done)
    return history, dict(lists)


def try_itself():
    """Each planted bug is found, under its name, alone and among others that are right, and is let pass where a level allows it."""
    tries = 0
    for others, beside in (([], {}), serial(300, 1)):
        for what, operations, lists, expected in PLANTED + [(*right, None) for right in RIGHT]:
            history = others + [tried(f"T{at}", 0, 10**6, *each) for at, each in enumerate(operations)]
            findings = Findings(history, {**beside, **lists})
            for level in LEVELS:
                broken, is_allowed = findings.broken(level), expected is None or expected in ALLOWED[level]
                assert (not broken) if is_allowed else any(one.startswith(expected) for one in broken), f"{what}, {level}: {broken}"
                tries += 1
    stale = [tried("T1", 0, 1, "a1"), tried("T2", 2, 3, "a:")]
    assert [one[:len(CYCLES[2])] for one in Findings(stale, {"a": [1]}).broken(LEVELS[1])] == [CYCLES[2]], "a read of what was before"
    undone = [tried("T1", 0, 1, "a1", state=ROLLED_BACK), tried("T2", 0, 1, "a:1")]
    assert Findings(undone, {"a": []}).broken(LEVELS[0]) and Findings(undone, {"a": [1]}).broken(LEVELS[0]), "what was rolled back"
    assert not Findings([undone[0], tried("T2", 0, 1, "a:")], {}).broken(LEVELS[2]), "what was rolled back, and not read"
    return tries + 3


if __name__ == "__main__":
    print(f"{try_itself()} passed, 0 failed")
    sys.exit()

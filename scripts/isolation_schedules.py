"""Hermitage's schedules (Martin Kleppmann, github.com/ept/hermitage), each at the three levels, and others of the same kind.

The steps are Hermitage's for PostgreSQL, with the same statements at each level, so that what a level allows is seen beside what it does not.
isolation_sessions.py tells how they are written.
"""

from isolation_sessions import Schedule

HERMITAGE = [
    Schedule("G0, write cycles", """
        T1: UPDATE test SET value = 11 WHERE id = 1 => UPDATE 1
        T2: UPDATE test SET value = 12 WHERE id = 1 => waits
        T1: UPDATE test SET value = 21 WHERE id = 2 => UPDATE 1
        T1: COMMIT => COMMIT
        T2: => UPDATE 1 | 40001
        A: SELECT * FROM test ORDER BY id => 1 11, 2 21
        T2: UPDATE test SET value = 22 WHERE id = 2 => UPDATE 1
        T2: COMMIT => COMMIT
        A: SELECT * FROM test ORDER BY id => 1 12, 2 22 | 1 11, 2 21
    """),
    Schedule("G1a, aborted reads", """
        T1: UPDATE test SET value = 101 WHERE id = 1 => UPDATE 1
        T2: SELECT * FROM test ORDER BY id => 1 10, 2 20
        T1: ROLLBACK => ROLLBACK
        T2: SELECT * FROM test ORDER BY id => 1 10, 2 20
        T2: COMMIT => COMMIT
    """),
    Schedule("G1b, intermediate reads", """
        T1: UPDATE test SET value = 101 WHERE id = 1 => UPDATE 1
        T2: SELECT * FROM test ORDER BY id => 1 10, 2 20
        T1: UPDATE test SET value = 11 WHERE id = 1 => UPDATE 1
        T1: COMMIT => COMMIT
        T2: SELECT * FROM test ORDER BY id => 1 11, 2 20 | 1 10, 2 20
        T2: COMMIT => COMMIT
    """),
    Schedule("G1c, circular information flow", """
        T1: UPDATE test SET value = 11 WHERE id = 1 => UPDATE 1
        T2: UPDATE test SET value = 22 WHERE id = 2 => UPDATE 1
        T1: SELECT * FROM test WHERE id = 2 => 2 20
        T2: SELECT * FROM test WHERE id = 1 => 1 10
        T1: COMMIT => COMMIT | COMMIT | COMMIT or 40001
        T2: COMMIT => COMMIT | COMMIT | COMMIT or 40001
        refused: => none | none | some
    """),
    Schedule("OTV, observed transaction vanishes", """
        T1: UPDATE test SET value = 11 WHERE id = 1 => UPDATE 1
        T1: UPDATE test SET value = 19 WHERE id = 2 => UPDATE 1
        T2: UPDATE test SET value = 12 WHERE id = 1 => waits
        T1: COMMIT => COMMIT
        T2: => UPDATE 1 | 40001
        T3: SELECT * FROM test WHERE id = 1 => 1 11
        T2: UPDATE test SET value = 18 WHERE id = 2 => UPDATE 1
        T3: SELECT * FROM test WHERE id = 2 => 2 19
        T2: COMMIT => COMMIT
        T3: SELECT * FROM test WHERE id = 2 => 2 18 | 2 19
        T3: SELECT * FROM test WHERE id = 1 => 1 12 | 1 11
        T3: COMMIT => COMMIT
    """),
    Schedule("PMP, predicate many preceders, read", """
        T1: SELECT * FROM test WHERE value = 30 => no rows
        T2: INSERT INTO test (id, value) VALUES (3, 30) => INSERT 0 1
        T2: COMMIT => COMMIT
        T1: SELECT * FROM test WHERE value % 3 = 0 => 3 30 | no rows
        T1: COMMIT => COMMIT
    """),
    Schedule("PMP, predicate many preceders, write", """
        T1: UPDATE test SET value = value + 10 => UPDATE 2
        T2: DELETE FROM test WHERE value = 20 => waits
        T1: COMMIT => COMMIT
        T2: => DELETE 0 | 40001
        T2: SELECT * FROM test WHERE value = 20 => 1 20
        T2: COMMIT => COMMIT
        A: SELECT * FROM test ORDER BY id => 1 20, 2 30
    """),
    Schedule("P4, lost update", """
        T1: SELECT * FROM test WHERE id = 1 => 1 10
        T2: SELECT * FROM test WHERE id = 1 => 1 10
        T1: UPDATE test SET value = 11 WHERE id = 1 => UPDATE 1
        T2: UPDATE test SET value = 11 WHERE id = 1 => waits
        T1: COMMIT => COMMIT
        T2: => UPDATE 1 | 40001
        T2: COMMIT => COMMIT
    """),
    Schedule("G-single, read skew", """
        T1: SELECT * FROM test WHERE id = 1 => 1 10
        T2: SELECT * FROM test WHERE id = 1 => 1 10
        T2: SELECT * FROM test WHERE id = 2 => 2 20
        T2: UPDATE test SET value = 12 WHERE id = 1 => UPDATE 1
        T2: UPDATE test SET value = 18 WHERE id = 2 => UPDATE 1
        T2: COMMIT => COMMIT
        T1: SELECT * FROM test WHERE id = 2 => 2 18 | 2 20
        T1: COMMIT => COMMIT
    """),
    Schedule("G-single, read skew by predicates", """
        T1: SELECT * FROM test WHERE value % 5 = 0 ORDER BY id => 1 10, 2 20
        T2: UPDATE test SET value = 12 WHERE value = 10 => UPDATE 1
        T2: COMMIT => COMMIT
        T1: SELECT * FROM test WHERE value % 3 = 0 => 1 12 | no rows
        T1: COMMIT => COMMIT
    """),
    Schedule("G-single, read skew with a write by predicate", """
        T1: SELECT * FROM test WHERE id = 1 => 1 10
        T2: SELECT * FROM test ORDER BY id => 1 10, 2 20
        T2: UPDATE test SET value = 12 WHERE id = 1 => UPDATE 1
        T2: UPDATE test SET value = 18 WHERE id = 2 => UPDATE 1
        T2: COMMIT => COMMIT
        T1: DELETE FROM test WHERE value = 20 => DELETE 0 | 40001
        T1: COMMIT => COMMIT
        A: SELECT * FROM test ORDER BY id => 1 12, 2 18
    """),
    Schedule("G-single, read skew with a write that goes between", """
        T1: SELECT * FROM test WHERE id = 1 => 1 10
        T2: UPDATE test SET value = 12 WHERE id = 1 => UPDATE 1
        T2: UPDATE test SET value = 18 WHERE id = 2 => UPDATE 1
        T1: DELETE FROM test WHERE value = 20 => waits
        T2: COMMIT => COMMIT
        T1: => DELETE 0 | 40001
        T1: COMMIT => COMMIT
    """),
    Schedule("G2-item, write skew", """
        T1: SELECT * FROM test WHERE id IN (1, 2) ORDER BY id => 1 10, 2 20
        T2: SELECT * FROM test WHERE id IN (1, 2) ORDER BY id => 1 10, 2 20
        T1: UPDATE test SET value = 11 WHERE id = 1 => UPDATE 1
        T2: UPDATE test SET value = 21 WHERE id = 2 => UPDATE 1
        T1: COMMIT => COMMIT | COMMIT | COMMIT or 40001
        T2: COMMIT => COMMIT | COMMIT | COMMIT or 40001
        refused: => none | none | some
        A: SELECT * FROM test ORDER BY id => 1 11, 2 21 | 1 11, 2 21 | 1 11, 2 20 or 1 10, 2 21
    """),
    Schedule("G2, anti-dependency cycles", """
        T1: SELECT * FROM test WHERE value % 3 = 0 => no rows
        T2: SELECT * FROM test WHERE value % 3 = 0 => no rows
        T1: INSERT INTO test (id, value) VALUES (3, 30) => INSERT 0 1
        T2: INSERT INTO test (id, value) VALUES (4, 42) => INSERT 0 1 | INSERT 0 1 | INSERT 0 1 or 40001
        T1: COMMIT => COMMIT | COMMIT | COMMIT or 40001
        T2: COMMIT => COMMIT | COMMIT | COMMIT or 40001
        refused: => none | none | some
        A: SELECT * FROM test WHERE value % 3 = 0 ORDER BY id => 3 30, 4 42 | 3 30, 4 42 | 3 30 or 4 42
    """),
    Schedule("G2, two anti-dependency edges (Fekete et al.)", """
        T1: SELECT * FROM test ORDER BY id => 1 10, 2 20
        T2: UPDATE test SET value = value + 5 WHERE id = 2 => UPDATE 1
        T2: COMMIT => COMMIT
        T3: SELECT * FROM test ORDER BY id => 1 10, 2 25
        T3: COMMIT => COMMIT
        T1: UPDATE test SET value = 0 WHERE id = 1 => UPDATE 1 | UPDATE 1 | UPDATE 1 or 40001
        T1: COMMIT => COMMIT | COMMIT | 40001
        A: SELECT * FROM test ORDER BY id => 1 0, 2 25 | 1 0, 2 25 | 1 10, 2 25
    """),
]

# A row by key, a key that is not there, a range, an aggregate, another table, and what UPDATE and INSERT read by themselves: each is a read.
READS = [
    Schedule("G2, three transactions in a ring", """
        T1: SELECT * FROM test WHERE id = 1 => 1 10
        T2: SELECT * FROM test WHERE id = 2 => 2 20
        T3: SELECT * FROM test WHERE id = 3 => 3 30
        T1: UPDATE test SET value = 21 WHERE id = 2 => UPDATE 1
        T2: UPDATE test SET value = 31 WHERE id = 3 => UPDATE 1 | UPDATE 1 | UPDATE 1 or 40001
        T3: UPDATE test SET value = 11 WHERE id = 1 => UPDATE 1 | UPDATE 1 | UPDATE 1 or 40001
        T1: COMMIT => COMMIT | COMMIT | COMMIT or 40001
        T2: COMMIT => COMMIT | COMMIT | COMMIT or 40001
        T3: COMMIT => COMMIT | COMMIT | COMMIT or 40001
        refused: => none | none | some
    """, setup=["INSERT INTO test VALUES (3, 30)"]),
    Schedule("G2, keys that are not there", """
        T1: SELECT * FROM test WHERE id = 3 => no rows
        T2: SELECT * FROM test WHERE id = 4 => no rows
        T1: INSERT INTO test VALUES (4, 40) => INSERT 0 1
        T2: INSERT INTO test VALUES (3, 30) => INSERT 0 1 | INSERT 0 1 | INSERT 0 1 or 40001
        T1: COMMIT => COMMIT | COMMIT | COMMIT or 40001
        T2: COMMIT => COMMIT | COMMIT | COMMIT or 40001
        refused: => none | none | some
    """),
    Schedule("G2, ranges of keys", """
        T1: SELECT * FROM test WHERE id BETWEEN 10 AND 19 => no rows
        T2: SELECT * FROM test WHERE id BETWEEN 20 AND 29 => no rows
        T1: INSERT INTO test VALUES (25, 0) => INSERT 0 1
        T2: INSERT INTO test VALUES (15, 0) => INSERT 0 1 | INSERT 0 1 | INSERT 0 1 or 40001
        T1: COMMIT => COMMIT | COMMIT | COMMIT or 40001
        T2: COMMIT => COMMIT | COMMIT | COMMIT or 40001
        refused: => none | none | some
    """),
    Schedule("G2, aggregates and deletes", """
        T1: SELECT count(*), sum(value) FROM test => 2 30
        T2: SELECT count(*), sum(value) FROM test => 2 30
        T1: DELETE FROM test WHERE id = 1 => DELETE 1
        T2: DELETE FROM test WHERE id = 2 => DELETE 1 | DELETE 1 | DELETE 1 or 40001
        T1: COMMIT => COMMIT | COMMIT | COMMIT or 40001
        T2: COMMIT => COMMIT | COMMIT | COMMIT or 40001
        refused: => none | none | some
    """),
    Schedule("G2, two tables", """
        T1: SELECT count(*) FROM other => 1
        T2: SELECT count(*) FROM test => 2
        T1: INSERT INTO test VALUES (3, 30) => INSERT 0 1
        T2: INSERT INTO other VALUES (2, 2) => INSERT 0 1 | INSERT 0 1 | INSERT 0 1 or 40001
        T1: COMMIT => COMMIT | COMMIT | COMMIT or 40001
        T2: COMMIT => COMMIT | COMMIT | COMMIT or 40001
        refused: => none | none | some
    """, setup=["DROP TABLE IF EXISTS other", "CREATE TABLE other (id INT PRIMARY KEY, value INT)", "INSERT INTO other VALUES (1, 1)"]),
    Schedule("G2, what UPDATE reads", """
        T1: UPDATE test SET value = (SELECT value FROM test WHERE id = 2) WHERE id = 1 => UPDATE 1
        T2: UPDATE test SET value = (SELECT value FROM test WHERE id = 1) WHERE id = 2 => UPDATE 1 | UPDATE 1 | UPDATE 1 or 40001
        T1: COMMIT => COMMIT | COMMIT | COMMIT or 40001
        T2: COMMIT => COMMIT | COMMIT | COMMIT or 40001
        refused: => none | none | some
        A: SELECT * FROM test ORDER BY id => 1 20, 2 10 | 1 20, 2 10 | 1 20, 2 20 or 1 10, 2 10
    """),
    Schedule("G2, what INSERT ... SELECT reads", """
        T1: INSERT INTO test SELECT 3, count(*) FROM test => INSERT 0 1
        T2: INSERT INTO test SELECT 4, count(*) FROM test => INSERT 0 1 | INSERT 0 1 | INSERT 0 1 or 40001
        T1: COMMIT => COMMIT | COMMIT | COMMIT or 40001
        T2: COMMIT => COMMIT | COMMIT | COMMIT or 40001
        refused: => none | none | some
    """),
    Schedule("G2, reads before ROLLBACK TO", """
        T1: SAVEPOINT s => SAVEPOINT
        T1: SELECT * FROM test ORDER BY id => 1 10, 2 20
        T1: ROLLBACK TO s => ROLLBACK
        T2: SELECT * FROM test ORDER BY id => 1 10, 2 20
        T1: UPDATE test SET value = 11 WHERE id = 1 => UPDATE 1
        T2: UPDATE test SET value = 21 WHERE id = 2 => UPDATE 1 | UPDATE 1 | UPDATE 1 or 40001
        T1: COMMIT => COMMIT | COMMIT | COMMIT or 40001
        T2: COMMIT => COMMIT | COMMIT | COMMIT or 40001
        refused: => none | none | some
    """),
    # Validation at commit refuses what it has read before another's change, also where no cycle would come of it; PostgreSQL does not.
    Schedule("a read that another has changed, and a write of something else", """
        T1: SELECT * FROM test WHERE id = 1 => 1 10
        A: UPDATE test SET value = 11 WHERE id = 1 => UPDATE 1
        T1: INSERT INTO test VALUES (3, 30) => INSERT 0 1
        T1: COMMIT => COMMIT | COMMIT | COMMIT or 40001
    """),
    Schedule("rows that another has not changed", """
        T1: SELECT * FROM test WHERE id = 1 => 1 10
        A: UPDATE test SET value = 21 WHERE id = 2 => UPDATE 1
        T1: UPDATE test SET value = 11 WHERE id = 1 => UPDATE 1
        T1: SELECT * FROM test WHERE id = 1 => 1 11
        T1: COMMIT => COMMIT
        A: SELECT * FROM test ORDER BY id => 1 11, 2 21
    """),
    Schedule("a transaction that only reads is never refused", """
        T1: SELECT sum(value) FROM test => 30
        A: UPDATE test SET value = value + 1 => UPDATE 2
        T1: SELECT sum(value) FROM test => 32 | 30
        A: INSERT INTO test VALUES (3, 30) => INSERT 0 1
        T1: SELECT sum(value) FROM test => 62 | 30
        T1: COMMIT => COMMIT
    """),
]

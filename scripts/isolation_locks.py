"""Schedules of row locks: who waits for whom, and what a statement does that has waited. isolation_sessions.py tells how they are written."""

from isolation_sessions import COMMITTED, Schedule

ROWS = [
    Schedule("FOR UPDATE and FOR UPDATE", """
        T1: SELECT * FROM test WHERE id = 1 FOR UPDATE => 1 10
        T2: SELECT * FROM test WHERE id = 1 FOR UPDATE => waits
        T1: UPDATE test SET value = 11 WHERE id = 1 => UPDATE 1
        T1: COMMIT => COMMIT
        T2: => 1 11 | 40001
        T2: UPDATE test SET value = value + 1 WHERE id = 1 => UPDATE 1
        T2: COMMIT => COMMIT
        A: SELECT * FROM test WHERE id = 1 => 1 12 | 1 11
    """),
    Schedule("FOR UPDATE of what was only locked", """
        T1: SELECT * FROM test WHERE id = 1 FOR UPDATE => 1 10
        T2: SELECT * FROM test WHERE id = 1 FOR UPDATE => waits
        T1: COMMIT => COMMIT
        T2: => 1 10
        T2: UPDATE test SET value = 11 WHERE id = 1 => UPDATE 1
        T2: COMMIT => COMMIT
    """),
    Schedule("FOR UPDATE of what was rolled back", """
        T1: UPDATE test SET value = 11 WHERE id = 1 => UPDATE 1
        T2: SELECT * FROM test WHERE id = 1 FOR UPDATE => waits
        T1: ROLLBACK => ROLLBACK
        T2: => 1 10
    """),
    Schedule("FOR UPDATE and writes, and not reads", """
        T1: SELECT * FROM test WHERE id = 1 FOR UPDATE => 1 10
        T2: UPDATE test SET value = 11 WHERE id = 1 => waits
        T3: DELETE FROM test WHERE id = 1 => waits
        T4: SELECT * FROM test ORDER BY id => 1 10, 2 20
        T4: UPDATE test SET value = 21 WHERE id = 2 => UPDATE 1
        T1: COMMIT => COMMIT
        T2: => UPDATE 1
        T2: COMMIT => COMMIT
        T3: => DELETE 1 | 40001
    """),
    Schedule("FOR SHARE", """
        T1: SELECT * FROM test WHERE id = 1 FOR SHARE => 1 10
        T2: SELECT * FROM test WHERE id = 1 FOR SHARE => 1 10
        T3: UPDATE test SET value = 11 WHERE id = 1 => waits
        T1: COMMIT => COMMIT
        T3: => waits
        T2: COMMIT => COMMIT
        T3: => UPDATE 1
        T4: SELECT * FROM test WHERE id = 1 FOR SHARE => waits
        T3: ROLLBACK => ROLLBACK
        T4: => 1 10
    """),
    Schedule("FOR SHARE and FOR UPDATE", """
        T1: SELECT * FROM test WHERE id = 1 FOR SHARE => 1 10
        T2: SELECT * FROM test WHERE id = 1 FOR UPDATE => waits
        T1: UPDATE test SET value = 11 WHERE id = 1 => UPDATE 1
        T1: COMMIT => COMMIT
        T2: => 1 11 | 40001
    """),
    Schedule("who waits for a row comes before who shares it later", """
        T1: SELECT * FROM test WHERE id = 1 FOR SHARE => 1 10
        T2: SELECT * FROM test WHERE id = 1 FOR UPDATE => waits
        T3: SELECT * FROM test WHERE id = 1 FOR SHARE => waits
        T1: COMMIT => COMMIT
        T2: => 1 10
        T2: COMMIT => COMMIT
        T3: => 1 10
    """, levels=[COMMITTED]),
    Schedule("who waits first comes first", """
        T1: UPDATE test SET value = value + 1 WHERE id = 1 => UPDATE 1
        T2: UPDATE test SET value = value * 10 WHERE id = 1 => waits
        T3: UPDATE test SET value = value + 3 WHERE id = 1 => waits
        T1: COMMIT => COMMIT
        T2: => UPDATE 1
        T3: => waits
        T2: COMMIT => COMMIT
        T3: => UPDATE 1
        T3: SELECT value FROM test WHERE id = 1 => 113
    """, levels=[COMMITTED]),
    Schedule("NOWAIT", """
        T1: UPDATE test SET value = 11 WHERE id = 1 => UPDATE 1
        A: SELECT * FROM test WHERE id = 1 FOR UPDATE NOWAIT => 55P03
        A: SELECT * FROM test WHERE id = 1 FOR SHARE NOWAIT => 55P03
        A: SELECT * FROM test WHERE id = 2 FOR UPDATE NOWAIT => 2 20
        A: SELECT * FROM test ORDER BY id FOR UPDATE NOWAIT => 55P03
        T2: SELECT * FROM test WHERE id = 2 FOR SHARE NOWAIT => 2 20
        A: SELECT * FROM test WHERE id = 2 FOR SHARE NOWAIT => 2 20
        T2: SELECT * FROM test WHERE id = 1 FOR UPDATE NOWAIT => 55P03
        T2: SELECT 1 => 25P02
        T2: ROLLBACK => ROLLBACK
        T1: COMMIT => COMMIT
        A: SELECT * FROM test WHERE id = 1 FOR UPDATE NOWAIT => 1 11
    """),
    Schedule("SKIP LOCKED", """
        T1: SELECT * FROM test WHERE id = 1 FOR UPDATE => 1 10
        A: SELECT * FROM test ORDER BY id FOR UPDATE SKIP LOCKED => 2 20, 3 30, 4 40
        A: SELECT * FROM test WHERE id = 1 FOR SHARE SKIP LOCKED => no rows
        T2: SELECT id FROM test ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED => 2
        T3: SELECT id FROM test ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED => 3
        T4: DELETE FROM test WHERE id = (SELECT id FROM test ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED) RETURNING id => 4
        A: SELECT id FROM test ORDER BY id FOR SHARE SKIP LOCKED => no rows
        T1: COMMIT => COMMIT
        T2: ROLLBACK => ROLLBACK
        T4: COMMIT => COMMIT
        A: SELECT id FROM test ORDER BY id FOR UPDATE SKIP LOCKED => 1, 2
    """, setup=["INSERT INTO test VALUES (3, 30), (4, 40)"]),
    Schedule("rows of a join, by its tables", """
        T1: SELECT t.id, o.id FROM test t JOIN other o ON o.id = t.id WHERE t.id = 1 FOR UPDATE OF t => 1 1
        A: SELECT id FROM other WHERE id = 1 FOR UPDATE NOWAIT => 1
        A: SELECT id FROM test WHERE id = 1 FOR UPDATE NOWAIT => 55P03
        T2: SELECT t.id, o.id FROM test t, other o WHERE o.id = t.id AND t.id = 2 FOR UPDATE => 2 2
        A: SELECT id FROM other WHERE id = 2 FOR UPDATE NOWAIT => 55P03
        A: SELECT id FROM test WHERE id = 2 FOR UPDATE NOWAIT => 55P03
    """, levels=[COMMITTED], setup=["DROP TABLE IF EXISTS other", "CREATE TABLE other (id INT PRIMARY KEY)", "INSERT INTO other VALUES (1), (2)"]),
    Schedule("FOR UPDATE of what is no row of a table", """
        A: SELECT count(*) FROM test FOR UPDATE => 0A000
        A: SELECT value, count(*) FROM test GROUP BY value FOR UPDATE => 0A000
        A: SELECT DISTINCT value FROM test FOR UPDATE => 0A000
        A: SELECT id FROM test UNION SELECT id FROM test FOR UPDATE => 0A000
        A: SELECT id FROM test FOR UPDATE OF nothing => 42P01
        T1: SET TRANSACTION READ ONLY => SET
        T1: SELECT id FROM test FOR UPDATE => 25006
    """, levels=[COMMITTED]),
    Schedule("FOR NO KEY UPDATE and FOR KEY SHARE", """
        T1: SELECT * FROM test WHERE id = 1 FOR NO KEY UPDATE => 1 10
        A: SELECT * FROM test WHERE id = 1 FOR NO KEY UPDATE NOWAIT => 55P03
        A: SELECT * FROM test WHERE id = 1 FOR SHARE NOWAIT => 55P03
        T2: SELECT * FROM test WHERE id = 2 FOR KEY SHARE => 2 20
        A: SELECT * FROM test WHERE id = 2 FOR KEY SHARE NOWAIT => 2 20
        A: SELECT * FROM test WHERE id = 2 FOR UPDATE NOWAIT => 55P03
    """, levels=[COMMITTED]),
]

WAITED = [
    Schedule("UPDATE without a transaction, of what a transaction has locked", """
        T1: SELECT * FROM test WHERE id = 1 FOR UPDATE => 1 10
        A: UPDATE test SET value = value + 1 WHERE id = 1 => waits
        T1: UPDATE test SET value = 20 WHERE id = 1 => UPDATE 1
        T1: COMMIT => COMMIT
        A: => UPDATE 1
        A: SELECT * FROM test WHERE id = 1 => 1 21
    """),
    Schedule("a condition that no longer holds", """
        T1: UPDATE test SET value = 15 WHERE id = 1 => UPDATE 1
        A: UPDATE test SET value = value + 1 WHERE value = 10 => waits
        B: SELECT * FROM test WHERE value = 10 FOR UPDATE => waits
        C: DELETE FROM test WHERE value = 10 AND id = 1 => waits
        T1: COMMIT => COMMIT
        A: => UPDATE 0
        B: => no rows
        C: => DELETE 0
        A: SELECT * FROM test ORDER BY id => 1 15, 2 20
    """, levels=[COMMITTED]),
    Schedule("a row that is gone", """
        T1: DELETE FROM test WHERE id = 1 => DELETE 1
        T2: UPDATE test SET value = value + 1 WHERE id = 1 => waits
        T3: SELECT * FROM test WHERE id = 1 FOR UPDATE => waits
        T1: COMMIT => COMMIT
        T2: => UPDATE 0 | 40001
        T3: => no rows | 40001
    """),
    Schedule("a row that came meanwhile is of the next statement", """
        T1: UPDATE test SET value = value + 1 WHERE id = 1 => UPDATE 1
        T1: INSERT INTO test VALUES (3, 30) => INSERT 0 1
        T2: UPDATE test SET value = value + 100 WHERE value > 0 => waits
        T1: COMMIT => COMMIT
        T2: => UPDATE 2 | 40001
        T2: SELECT * FROM test ORDER BY id => 1 111, 2 120, 3 30
        T2: UPDATE test SET value = value + 100 WHERE value > 0 => UPDATE 3
        T2: COMMIT => COMMIT
    """),
    # An UPDATE of the key is a delete and an insert here: who waits for the row finds it gone. In PostgreSQL it is the same row still.
    Schedule("a row whose key has changed", """
        T1: UPDATE test SET id = 5 WHERE id = 1 => UPDATE 1
        A: UPDATE test SET value = value + 1 WHERE id = 1 => waits
        B: UPDATE test SET value = value + 1 WHERE value = 10 => waits
        T1: COMMIT => COMMIT
        A: => UPDATE 0
        B: => UPDATE 0 or UPDATE 1
        A: SELECT * FROM test ORDER BY id => 2 20, 5 10 or 2 20, 5 11
    """, levels=[COMMITTED]),
    Schedule("writes of different rows", """
        T1: UPDATE test SET value = 11 WHERE id = 1 => UPDATE 1
        T2: UPDATE test SET value = 21 WHERE id = 2 => UPDATE 1
        T3: INSERT INTO test VALUES (3, 30) => INSERT 0 1
        T1: COMMIT => COMMIT
        T2: COMMIT => COMMIT
        T3: COMMIT => COMMIT
        A: SELECT * FROM test ORDER BY id => 1 11, 2 21, 3 30
    """),
    Schedule("UPDATE with RETURNING, after a wait", """
        T1: UPDATE test SET value = value + 1 WHERE id = 1 RETURNING value => 11
        A: UPDATE test SET value = value + 1 WHERE id = 1 RETURNING id, value => waits
        T1: COMMIT => COMMIT
        A: => 1 12
    """, levels=[COMMITTED]),
]

INSERTS = [
    Schedule("one key by two, and the first commits", """
        T1: INSERT INTO test VALUES (3, 30) => INSERT 0 1
        T2: INSERT INTO test VALUES (3, 31) => waits
        T1: COMMIT => COMMIT
        T2: => 23505 | 23505 or 40001
        A: SELECT * FROM test WHERE id = 3 => 3 30
    """),
    Schedule("one key by two, and the first rolls back", """
        T1: INSERT INTO test VALUES (3, 30) => INSERT 0 1
        T2: INSERT INTO test VALUES (3, 31) => waits
        T1: ROLLBACK => ROLLBACK
        T2: => INSERT 0 1
        T2: COMMIT => COMMIT
        A: SELECT * FROM test WHERE id = 3 => 3 31
    """),
    Schedule("a key that is being deleted", """
        T1: DELETE FROM test WHERE id = 1 => DELETE 1
        A: INSERT INTO test VALUES (1, 11) => waits
        T1: COMMIT => COMMIT
        A: => INSERT 0 1
        T2: DELETE FROM test WHERE id = 1 => DELETE 1
        A: INSERT INTO test VALUES (1, 12) => waits
        T2: ROLLBACK => ROLLBACK
        A: => 23505
        A: SELECT * FROM test WHERE id = 1 => 1 11
    """),
    Schedule("what is not committed is not there for reads and writes", """
        T1: INSERT INTO test VALUES (3, 30) => INSERT 0 1
        T2: SELECT * FROM test WHERE id = 3 FOR UPDATE => no rows
        T2: UPDATE test SET value = 31 WHERE id = 3 => UPDATE 0
        T2: DELETE FROM test WHERE id = 3 => DELETE 0
        T1: SELECT * FROM test WHERE id = 3 => 3 30
    """),
    Schedule("ON CONFLICT DO NOTHING", """
        T1: INSERT INTO test VALUES (3, 30) => INSERT 0 1
        T2: INSERT INTO test VALUES (3, 31) ON CONFLICT DO NOTHING => waits
        T1: COMMIT => COMMIT
        T2: => INSERT 0 0 | 40001
    """),
    Schedule("ON CONFLICT DO UPDATE", """
        T1: INSERT INTO test VALUES (3, 30) => INSERT 0 1
        T2: INSERT INTO test VALUES (3, 1) ON CONFLICT (id) DO UPDATE SET value = test.value + excluded.value => waits
        T1: COMMIT => COMMIT
        T2: => INSERT 0 1 | 40001
        T2: COMMIT => COMMIT
        A: SELECT * FROM test WHERE id = 3 => 3 31 | 3 30
    """),
    Schedule("ON CONFLICT DO UPDATE of a row that is being changed", """
        T1: UPDATE test SET value = 15 WHERE id = 1 => UPDATE 1
        A: INSERT INTO test VALUES (1, 1) ON CONFLICT (id) DO UPDATE SET value = test.value + excluded.value => waits
        T1: COMMIT => COMMIT
        A: => INSERT 0 1
        A: SELECT * FROM test WHERE id = 1 => 1 16
    """),
]

ENDS = [
    Schedule("lock_timeout", """
        T1: UPDATE test SET value = 11 WHERE id = 1 => UPDATE 1
        A: SET lock_timeout = '50ms' => SET
        A: UPDATE test SET value = 12 WHERE id = 1 => 55P03
        A: SELECT * FROM test WHERE id = 1 FOR UPDATE => 55P03
        A: SELECT * FROM test WHERE id = 1 => 1 10
        T2: SET LOCAL lock_timeout = '50ms' => SET
        T2: SELECT * FROM test WHERE id = 1 FOR SHARE => 55P03
        T2: ROLLBACK => ROLLBACK
        T2: SHOW lock_timeout => 0
        A: INSERT INTO test VALUES (1, 0) ON CONFLICT (id) DO UPDATE SET value = 0 => 55P03
        T1: COMMIT => COMMIT
        A: UPDATE test SET value = 12 WHERE id = 1 => UPDATE 1
    """, levels=[COMMITTED]),
    Schedule("statement_timeout and cancel end a wait", """
        T1: UPDATE test SET value = 11 WHERE id = 1 => UPDATE 1
        A: SET statement_timeout = '100ms' => SET
        A: UPDATE test SET value = 12 WHERE id = 1 => 57014
        B: UPDATE test SET value = 12 WHERE id = 1 => waits
        C: UPDATE test SET value = value + 1 WHERE id = 1 => waits
        B: cancel => done
        B: => 57014
        C: => waits
        T1: COMMIT => COMMIT
        C: => UPDATE 1
        B: SELECT * FROM test WHERE id = 1 => 1 12
    """, levels=[COMMITTED]),
    Schedule("a connection that is lost, of who has a lock", """
        T1: UPDATE test SET value = 11 WHERE id = 1 => UPDATE 1
        T1: INSERT INTO test VALUES (3, 30) => INSERT 0 1
        T2: SELECT * FROM test WHERE id = 1 FOR UPDATE => waits
        A: INSERT INTO test VALUES (3, 31) => waits
        T1: drop => done
        T2: => 1 10
        A: => INSERT 0 1
    """),
    Schedule("a connection that is lost, of who waits", """
        T1: UPDATE test SET value = value + 1 WHERE id = 1 => UPDATE 1
        T2: UPDATE test SET value = value + 10 WHERE id = 1 => waits
        T3: UPDATE test SET value = value + 100 WHERE id = 1 => waits
        T2: drop => done
        T2: => lost
        T1: COMMIT => COMMIT
        T3: => UPDATE 1
        T3: SELECT value FROM test WHERE id = 1 => 111
    """, levels=[COMMITTED]),
    Schedule("an error frees the locks, before ROLLBACK does", """
        T1: UPDATE test SET value = 11 WHERE id = 1 => UPDATE 1
        A: SELECT * FROM test WHERE id = 1 FOR UPDATE => waits
        T1: SELECT 1 / 0 => 22012
        A: => 1 10
        T1: ROLLBACK => ROLLBACK
    """),
    Schedule("ROLLBACK TO frees what was locked after the savepoint", """
        T1: SELECT * FROM test WHERE id = 1 FOR UPDATE => 1 10
        T1: SAVEPOINT s => SAVEPOINT
        T1: UPDATE test SET value = 21 WHERE id = 2 => UPDATE 1
        T1: SELECT * FROM test WHERE id = 3 FOR UPDATE => 3 30
        A: UPDATE test SET value = value + 2 WHERE id = 2 => waits
        B: SELECT * FROM test WHERE id = 3 FOR UPDATE => waits
        T1: ROLLBACK TO s => ROLLBACK
        A: => UPDATE 1
        B: => 3 30
        A: SELECT * FROM test WHERE id = 1 FOR UPDATE NOWAIT => 55P03
        T1: SELECT value FROM test WHERE id = 2 => 22 | 20
        T1: COMMIT => COMMIT
        A: SELECT * FROM test ORDER BY id => 1 10, 2 22, 3 30
    """, setup=["INSERT INTO test VALUES (3, 30)"]),
    Schedule("RELEASE keeps them, and so does a lock from before", """
        T1: SAVEPOINT s => SAVEPOINT
        T1: UPDATE test SET value = 11 WHERE id = 1 => UPDATE 1
        T1: RELEASE SAVEPOINT s => RELEASE
        A: SELECT id FROM test WHERE id = 1 FOR UPDATE NOWAIT => 55P03
        T1: SELECT id FROM test WHERE id = 2 FOR UPDATE => 2
        T1: SAVEPOINT s => SAVEPOINT
        T1: UPDATE test SET value = 21 WHERE id = 2 => UPDATE 1
        T1: ROLLBACK TO SAVEPOINT s => ROLLBACK
        A: SELECT id FROM test WHERE id = 2 FOR UPDATE NOWAIT => 55P03
        T1: COMMIT => COMMIT
        A: SELECT * FROM test ORDER BY id => 1 11, 2 20
    """, levels=[COMMITTED]),
    Schedule("a savepoint saves a transaction from a lock that it cannot have", """
        T1: UPDATE test SET value = 11 WHERE id = 1 => UPDATE 1
        T2: UPDATE test SET value = 21 WHERE id = 2 => UPDATE 1
        T2: SAVEPOINT s => SAVEPOINT
        T2: SELECT * FROM test WHERE id = 1 FOR UPDATE NOWAIT => 55P03
        T2: SELECT 1 => 25P02
        T2: ROLLBACK TO s => ROLLBACK
        T2: INSERT INTO test VALUES (2, 0) => 23505
        T2: ROLLBACK TO s => ROLLBACK
        T2: SELECT * FROM test ORDER BY id => 1 10, 2 21
        T2: COMMIT => COMMIT
        A: SELECT * FROM test WHERE id = 2 => 2 21
    """),
]

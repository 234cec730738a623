"""Schedules of levels: how they are set and shown, and what a statement sees of others. isolation_sessions.py tells how they are written."""

from isolation_sessions import COMMITTED, REPEATABLE, Schedule

SETTINGS = [
    Schedule("the level of a transaction", """
        T1: SHOW transaction_isolation => read committed | repeatable read | serializable
        T1: SHOW TRANSACTION ISOLATION LEVEL => read committed | repeatable read | serializable
        T1: SELECT current_setting('transaction_isolation') => read committed | repeatable read | serializable
        T1: SHOW default_transaction_isolation => read committed
        T1: COMMIT => COMMIT
        T1: SHOW transaction_isolation => read committed
    """),
    Schedule("the level that is set for what follows", """
        A: SHOW default_transaction_isolation => read committed
        A: SET default_transaction_isolation = 'serializable' => SET
        A: SHOW transaction_isolation => serializable
        A: BEGIN => BEGIN
        A: SHOW transaction_isolation => serializable
        A: COMMIT => COMMIT
        A: BEGIN ISOLATION LEVEL REPEATABLE READ => BEGIN
        A: SHOW transaction_isolation => repeatable read
        A: ROLLBACK => ROLLBACK
        A: SET SESSION CHARACTERISTICS AS TRANSACTION ISOLATION LEVEL REPEATABLE READ => SET
        A: SHOW default_transaction_isolation => repeatable read
        A: START TRANSACTION => START TRANSACTION
        A: SHOW transaction_isolation => repeatable read
        A: COMMIT => COMMIT
        A: RESET default_transaction_isolation => RESET
        A: SHOW transaction_isolation => read committed
        A: SET default_transaction_isolation = 'chaos' => 22023
        A: BEGIN TRANSACTION ISOLATION LEVEL SERIALIZABLE, READ WRITE => BEGIN
        A: SHOW transaction_isolation => serializable
        A: COMMIT => COMMIT
        A: START TRANSACTION ISOLATION LEVEL SERIALIZABLE READ ONLY => START TRANSACTION
        A: SHOW transaction_read_only => on
        A: INSERT INTO test VALUES (3, 30) => 25006
        A: COMMIT => ROLLBACK
    """, levels=[COMMITTED]),
    Schedule("READ UNCOMMITTED is READ COMMITTED", """
        T1: UPDATE test SET value = 11 WHERE id = 1 => UPDATE 1
        A: BEGIN ISOLATION LEVEL READ UNCOMMITTED => BEGIN
        A: SHOW transaction_isolation => read uncommitted
        A: SELECT * FROM test WHERE id = 1 => 1 10
        T1: COMMIT => COMMIT
        A: SELECT * FROM test WHERE id = 1 => 1 11
        A: COMMIT => COMMIT
    """, levels=[COMMITTED]),
    Schedule("SET TRANSACTION", """
        A: BEGIN => BEGIN
        A: SET TRANSACTION ISOLATION LEVEL SERIALIZABLE => SET
        A: SHOW transaction_isolation => serializable
        A: SELECT count(*) FROM test => 2
        A: SET TRANSACTION ISOLATION LEVEL SERIALIZABLE => SET or 25001
        A: ROLLBACK => ROLLBACK
        A: BEGIN => BEGIN
        A: SET transaction_isolation = 'repeatable read' => SET
        A: SHOW transaction_isolation => repeatable read
        A: SELECT count(*) FROM test => 2
        A: SET TRANSACTION ISOLATION LEVEL SERIALIZABLE => 25001
        A: SELECT count(*) FROM test => 25P02
        A: ROLLBACK => ROLLBACK
        A: BEGIN => BEGIN
        A: INSERT INTO test VALUES (3, 30) => INSERT 0 1
        A: SET TRANSACTION ISOLATION LEVEL REPEATABLE READ => 25001
        A: ROLLBACK => ROLLBACK
        A: BEGIN => BEGIN
        A: SAVEPOINT s => SAVEPOINT
        A: SET TRANSACTION ISOLATION LEVEL REPEATABLE READ => 25001
        A: ROLLBACK => ROLLBACK
        A: SHOW transaction_isolation => read committed
    """, levels=[COMMITTED]),
]

SEEN = [
    Schedule("each statement anew, or as at the first", """
        T1: SELECT * FROM test WHERE id = 1 => 1 10
        A: UPDATE test SET value = 11 WHERE id = 1 => UPDATE 1
        T1: SELECT * FROM test WHERE id = 1 => 1 11 | 1 10
        A: INSERT INTO test VALUES (3, 30) => INSERT 0 1
        A: DELETE FROM test WHERE id = 2 => DELETE 1
        T1: SELECT * FROM test ORDER BY id => 1 11, 3 30 | 1 10, 2 20
        T1: SELECT count(*), sum(value) FROM test => 2 41 | 2 30
        T1: COMMIT => COMMIT
        T1: SELECT * FROM test ORDER BY id => 1 11, 3 30
    """),
    Schedule("an own write beside those of others", """
        T1: UPDATE test SET value = 21 WHERE id = 2 => UPDATE 1
        T1: INSERT INTO test VALUES (4, 40) => INSERT 0 1
        A: UPDATE test SET value = 11 WHERE id = 1 => UPDATE 1
        A: INSERT INTO test VALUES (3, 30) => INSERT 0 1
        A: SELECT * FROM test ORDER BY id => 1 11, 2 20, 3 30
        T1: SELECT * FROM test ORDER BY id => 1 11, 2 21, 3 30, 4 40 | 1 10, 2 21, 4 40
        T1: SELECT sum(value) FROM test => 102 | 71
        T1: DELETE FROM test WHERE value >= 30 => DELETE 2 | DELETE 1
        T1: COMMIT => COMMIT
        A: SELECT * FROM test ORDER BY id => 1 11, 2 21 | 1 11, 2 21, 3 30
    """, levels=[COMMITTED, REPEATABLE]),
    Schedule("BEGIN alone takes no snapshot", """
        T1: SHOW transaction_isolation => read committed | repeatable read | serializable
        A: UPDATE test SET value = 11 WHERE id = 1 => UPDATE 1
        T1: SELECT * FROM test WHERE id = 1 => 1 11 | 1 11 or 1 10
        T1: COMMIT => COMMIT
    """),
    Schedule("savepoints, and what others see of them", """
        T1: INSERT INTO test VALUES (3, 30) => INSERT 0 1
        T1: SAVEPOINT s => SAVEPOINT
        T1: UPDATE test SET value = value + 1 => UPDATE 3
        T1: DELETE FROM test WHERE id = 2 => DELETE 1
        T1: SELECT * FROM test ORDER BY id => 1 11, 3 31
        T1: SAVEPOINT s => SAVEPOINT
        T1: INSERT INTO test VALUES (2, 22) => INSERT 0 1
        T1: SELECT * FROM test ORDER BY id => 1 11, 2 22, 3 31
        T1: ROLLBACK TO s => ROLLBACK
        T1: RELEASE s => RELEASE
        T1: SELECT * FROM test ORDER BY id => 1 11, 3 31
        T1: ROLLBACK TO s => ROLLBACK
        T1: SELECT * FROM test ORDER BY id => 1 10, 2 20, 3 30
        T1: UPDATE test SET value = 12 WHERE id = 1 => UPDATE 1
        A: SELECT * FROM test ORDER BY id => 1 10, 2 20
        T1: COMMIT => COMMIT
        A: SELECT * FROM test ORDER BY id => 1 12, 2 20, 3 30
    """),
]

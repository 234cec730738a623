"""The shell as somebody sees it who types into a terminal: prompt, hints, tables that fit, estimates, and how one leaves.

usage: terminal.py ALLUVIA

The program runs on a terminal of this script's own, whose screen a terminal emulator (pyte) draws.
"""

import fcntl
import os
import pathlib
import pty
import re
import select
import signal
import struct
import sys
import tempfile
import termios
import time

import pyte

COLUMNS, LINES = 100, 50
PATIENCE = 60.0
"""Seconds until what is waited for counts as not coming."""

MANY = (
    "CREATE TABLE many (k TEXT, g TEXT, n BIGINT) WITH (dimensions = 'k; g', measures = 'n'); "
    "INSERT INTO many SELECT 'k' || (value * 7919 % 1000), 'g' || value % 3, value % 100 FROM generate_series(1, 700000) AS s(value); "
    "CALL alluvia.merge();"
)


class Terminal:
    """A program on a terminal, and what is on its screen."""

    def __init__(self, program, args, folder):
        self.screen = pyte.HistoryScreen(COLUMNS, LINES, history=5_000)
        self.stream = pyte.ByteStream(self.screen)
        self.child, self.terminal = pty.fork()
        if self.child == 0:
            os.chdir(folder)
            os.environ.update(TERM="xterm-256color", HOME=str(folder), LANG="C.UTF-8")
            os.execv(program, [program, *args])
        fcntl.ioctl(self.terminal, termios.TIOCSWINSZ, struct.pack("HHHH", LINES, COLUMNS, 0, 0))
        # A program asks where the cursor is.
        self.screen.write_process_input = lambda text: os.write(self.terminal, text.encode())

    def look(self, seconds=0.05):
        """Draws what has come; whether the program may write more."""
        if not select.select([self.terminal], [], [], seconds)[0]:
            return True
        try:
            data = os.read(self.terminal, 1 << 16)
        except OSError:  # the program has ended
            return False
        self.stream.feed(data)
        return bool(data)

    def lines(self):
        """All lines, those that have left the screen too."""
        above = ["".join(line[at].data for at in range(COLUMNS)) for line in self.screen.history.top]
        return [line.rstrip() for line in above + list(self.screen.display)]

    def until(self, what, pattern):
        """Waits until the screen shows a pattern; gives the match."""
        end = time.monotonic() + PATIENCE
        while True:
            found = re.search(pattern, "\n".join(self.lines()), re.MULTILINE)
            if found:
                return found
            if not self.look() or time.monotonic() > end:
                sys.exit(f"{what}: {pattern!r} is not on the screen:\n" + "\n".join(self.lines()[-LINES:]))

    def forget(self):
        """Empties the screen, so that what comes is new."""
        self.screen.history.top.clear()
        self.screen.erase_in_display(2)

    def type(self, text):
        os.write(self.terminal, text.encode())

    def ask(self, what, text, pattern):
        """Types a line on an empty screen, and waits for a pattern."""
        self.forget()
        self.type(text + "\r")
        return self.until(what, pattern)

    def leave(self, word):
        """Types a word that leaves; the program ends with 0."""
        self.type(word + "\r")
        end = time.monotonic() + PATIENCE
        while self.look() and time.monotonic() < end:
            pass
        _, status = os.waitpid(self.child, 0)
        os.close(self.terminal)
        assert os.waitstatus_to_exitcode(status) == 0, f"{word} left with {status}"

    def kill(self):
        os.kill(self.child, signal.SIGKILL)
        os.waitpid(self.child, 0)
        os.close(self.terminal)


def first_steps(program, folder):
    """A new directory is told; words that somebody tries are known; a statement that has begun says how one leaves it."""
    shell = Terminal(program, ["sql", "./typo"], folder)
    shell.until("a directory that is made is told", r"NOTICE: created .*typo: there was no database")
    shell.until("the banner says how one goes on", r"Statements end with ';'\. help lists the commands, exit leaves\.")
    shell.until("the prompt", r"^typo>")
    shell.ask("help lists the commands", "help", r"\\timing")
    shell.ask("\\h tells of a statement", "\\h select", r"(?i)select")
    shell.forget()
    shell.type("SELECT 41\r")
    shell.until("how a statement is ended or dropped", r"';' ends the statement, Ctrl-C drops it")
    shell.type("help")
    shell.until("a word within a statement", r"a statement has begun: Ctrl-C drops it, then it is a command")
    shell.type("\x03")
    shell.ask("after Ctrl-C the next one is whole", "SELECT 42 AS answer;", r"\| 42 +\|")
    shell.ask("an error says what to do", "SELECT cuontry FROM alluvia.tables;", r"there is no column cuontry")
    shell.ask("the screen", "SELECT 'still here' AS a;", r"still here")
    shell.type("clear\r")
    end = time.monotonic() + PATIENCE
    while any("still here" in line for line in shell.screen.display):
        assert shell.look() and time.monotonic() < end, "clear leaves the screen as it was"
    shell.leave("exit")


def tables_that_fit(program, folder):
    """A table on a terminal has 40 rows and the terminal's width, and says what it does not show."""
    shell = Terminal(program, ["sql", ":memory:"], folder)
    shell.until("the prompt", r"^memory>")
    shell.ask("forty rows", "SELECT value FROM generate_series(1, 100) AS s(value);", r"^\(100 rows, the first 40 shown: \\rows all shows more\)$")
    assert not any(line == "| 41    |" for line in shell.lines()), "there are more than forty"
    shell.ask("all of them", "\\rows all", r"^memory>")
    shell.ask("all of them", "SELECT value FROM generate_series(1, 100) AS s(value);", r"^\(100 rows\)$")
    long = "repeat('long ', 100)"
    shell.ask("a value that is cut", f"SELECT {long} AS a, {long} AS b, 3 AS c;", r"^\(1 row\)$")
    drawn = [line for line in shell.lines() if line.startswith("|")]
    assert any("…" in line for line in drawn) and all(len(line) < COLUMNS for line in drawn), drawn
    shell.ask("names are PostgreSQL's", "SELECT count(*), sum(1), 1 + 1;", r"^\| count \| sum \| \?column\? \|$")
    shell.leave("\\q")


def estimates(program, folder):
    """Estimates look like estimates, also while they close; what is not estimated says so."""
    shell = Terminal(program, ["sql", "./many"], folder)
    shell.until("the prompt", r"^many>")
    shell.ask("rows enough", MANY, r"^CALL$")
    shell.ask("\\d tells what tables hold", "\\d", r"^\| public \| many \| table \| 700000 \| .*\| g, k .*\|")
    shell.ask("a setting", "SET cuboids = off; SET max_error = 0.1;", r"SET\s+SET")
    shell.ask("an estimate", "SELECT count(*) FROM many WHERE k < 'k7';", r"^\| [\d,]+ ± [\d.]+ % +\|$")
    shell.until("what it means", r"^\(1 row, estimates: each within its ± at confidence 0\.95\)$")
    shell.ask("to its end", "SET max_error = 0;", r"^SET$")
    shell.ask("to its end", "\\progressive on", r"Progressive answers are on")
    shell.ask("the answer at last", "SELECT count(*) FROM many WHERE k < 'k7';", r"^\| \d+ +\|$")
    shell.ask("nothing is estimated", "SELECT max(n) FROM many;", r"nothing here is refined: this is the answer")
    shell.leave("quit")


def second_process(program, folder):
    """Whoever comes second is told who has the directory."""
    first = Terminal(program, ["sql", "./many"], folder)
    first.until("the prompt", r"^many>")
    second = Terminal(program, ["sql", "./many"], folder)
    second.until("who has it", rf"many is open in another process, process {first.child}")
    second.kill()
    first.kill()


def main():
    program = str(pathlib.Path(sys.argv[1]).resolve())
    cases = [first_steps, tables_that_fit, estimates, second_process]
    with tempfile.TemporaryDirectory() as folder:
        for case in cases:
            case(program, folder)
    print(f"terminal: {len(cases)} scenes as they should be")


if __name__ == "__main__":
    main()

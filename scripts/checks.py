"""What a script found of a server, a line each; and the server: Alluvia's program, or with `--peer` a PostgreSQL, at which the script itself is proven."""

import pathlib
import sys
import tempfile
from contextlib import contextmanager

import serving
from postgres import postgres


@contextmanager
def target(program, is_peer):
    """A new server that ends with this: its port and its database. The user is alluvia, without a password."""
    if is_peer:
        with postgres() as port:
            yield port, "postgres"
        return
    with tempfile.TemporaryDirectory() as folder, serving.server(program, pathlib.Path(folder) / "db", "off") as said:
        if not said or " -p " not in said[-1]:
            sys.exit(f"{program} did not start: {''.join(said)}")
        yield int(said[-1].split(" -p ")[1].split()[0]), "alluvia"


def one_line(error):
    return " ".join(f"{type(error).__name__}: {error}".split())[:400]


class Checks:
    """A check that fails is told, and the next one is made."""

    def __init__(self):
        self.passed, self.failed = 0, []

    def say(self, what, wrong=None):
        if wrong is None:
            self.passed += 1
            print(f"ok      {what}", flush=True)
        else:
            self.failed.append(f"{what}: {wrong}")
            print(f"FAILED  {what}: {wrong}", flush=True)

    def equal(self, what, found, expected):
        if isinstance(found, list) and isinstance(expected, list) and len(found) == len(expected) > 3:
            # Where they begin to differ.
            at = next((place for place, pair in enumerate(zip(found, expected)) if pair[0] != pair[1]), 0)
            differ = f"of {len(found)} the {at + 1}th is {found[at]!r}, and {expected[at]!r} is expected" if found != expected else None
        else:
            differ = f"{repr(found)[:500]}, and {repr(expected)[:500]} is expected" if found != expected else None
        self.say(what, differ)

    @contextmanager
    def part(self, what):
        """Passes if what it is around does not raise."""
        try:
            yield
        except Exception as error:
            self.say(what, one_line(error))
        else:
            self.say(what)

    def raises(self, what, kind, action):
        """Passes if the action is refused with an error of this kind."""
        try:
            action()
        except kind:
            self.say(what)
        except Exception as error:
            self.say(what, f"{one_line(error)}, and {kind.__name__} is expected")
        else:
            self.say(what, f"is let through, and {kind.__name__} is expected")

    def end(self):
        for failure in self.failed:
            print(f"differs: {failure}")
        print(f"{self.passed} passed, {len(self.failed)} failed")
        sys.exit(bool(self.failed))

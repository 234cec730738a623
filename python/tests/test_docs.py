"""The documentation is run: docstrings of the package, and docs/PYTHON.md."""

import doctest
import importlib
import pathlib
import pkgutil

import alluvia
import pytest

MODULES = ["alluvia", *(f"alluvia.{module.name}" for module in pkgutil.iter_modules(alluvia.__path__) if module.name != "_alluvia")]
TOUR = pathlib.Path(__file__).resolve().parents[2] / "docs" / "PYTHON.md"


@pytest.mark.parametrize("name", MODULES)
def test_docstrings(name, db):
    module = importlib.import_module(name)
    names = {"db": db, "alluvia": alluvia}
    finder = doctest.DocTestFinder(exclude_empty=True)
    runner = doctest.DocTestRunner()
    said = []
    for example in finder.find(module, name, extraglobs=names):
        if example.examples and (example.name == name or example.name.startswith(f"{name}.")):
            runner.run(example, out=said.append)
    assert runner.failures == 0, "".join(said)


def test_the_tour(tmp_path, monkeypatch, server):
    monkeypatch.chdir(tmp_path)
    # The fence that ends a block is no output.
    text = "\n".join("" if line.startswith("```") else line for line in TOUR.read_text().splitlines())
    example = doctest.DocTestParser().get_doctest(text, {"server": server.url}, TOUR.name, str(TOUR), 0)
    runner = doctest.DocTestRunner()
    said = []
    runner.run(example, out=said.append)
    assert runner.failures == 0, "".join(said)
    assert runner.tries > 20


def test_everything_public_is_documented():
    public = [(name, getattr(module, name)) for module in (alluvia, alluvia.dbapi) for name in module.__all__]
    for name, thing in public:
        if isinstance(thing, type) and thing.__module__.startswith("alluvia"):
            assert thing.__doc__, name
            for member, value in vars(thing).items():
                if not member.startswith("_") and (callable(value) or isinstance(value, property)) and not isinstance(value, type):
                    assert value.__doc__, f"{name}.{member}"

"""A Django project, unmodified, with Django's own backend for PostgreSQL: migrations, requests, admin, a second migration, dumps.

Usage: django_app.py PATH_TO_ALLUVIA [--peer]

The project is apps/library, copied to a folder of its own. What is expected of each request, and of the tables at the end, is told by a model that
apps/library/first.py keeps. Where `migrate` fails nothing else is tried. With `--peer` all runs at a PostgreSQL.
"""

import argparse
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

from checks import Checks, target

HERE = pathlib.Path(__file__).resolve().parent
# The second state of the models: what is replaced, in models.py and in what uses it. A column comes, one goes, one has another name, three another type; an index and a table come.
LATER = [
    ("models.py", "    active = models.BooleanField(default=True)\n", "    friends = models.ManyToManyField(\"self\")\n"),
    ("models.py", "    summary = models.TextField(blank=True)\n",
     "    summary = models.TextField(blank=True, default=\"none\")\n    language = models.CharField(max_length=5, default=\"en\")\n    pages = models.IntegerField(null=True, db_index=True)\n"),
    ("models.py", "title = models.CharField(max_length=200)", "title = models.CharField(max_length=300)"),
    ("models.py", "year = models.IntegerField(db_index=True)", "year = models.BigIntegerField(db_index=True)"),
    ("models.py", "        ordering = [\"title\"]\n", "        ordering = [\"title\"]\n        indexes = [models.Index(fields=[\"year\", \"price\"], name=\"by_year_and_price\")]\n"),
    ("models.py", "    text = models.TextField(blank=True)", "    body = models.TextField(blank=True)"),
    ("views.py", "Max(\"books__price\")).filter(active=True)", "Max(\"books__price\"))"),
]


class Project:
    def __init__(self, folder, port, database, checks):
        self.folder, self.checks = folder, checks
        shutil.copytree(HERE / "apps" / "library", folder, dirs_exist_ok=True)
        self.settings = {**os.environ, "LIBRARY_PORT": str(port), "LIBRARY_DATABASE": database, "PYTHONPATH": str(HERE), "PYTHONDONTWRITEBYTECODE": "1"}

    def run(self, *arguments, given=""):
        return subprocess.run([sys.executable, *arguments], cwd=self.folder, env=self.settings, input=given, text=True, capture_output=True, timeout=900)

    def manage(self, *arguments, given="", has=()):
        """A command of manage.py; whether it ended well, and says what it has to."""
        done = self.run("manage.py", *arguments, given=given)
        what = "manage.py " + " ".join(arguments)
        if done.returncode != 0:
            lines = [line for line in done.stderr.splitlines() if line.strip()]
            at = [line.strip() for line in done.stdout.splitlines() if line.strip().startswith("Applying")][-1:]
            self.checks.say(what, " ".join([*at, *lines[-4:]])[:800])
            return None
        missing = [text for text in has if not re.search(text, done.stdout)]
        self.checks.say(what, f"says nothing of {missing}: {done.stdout[-800:]}" if missing else None)
        return done.stdout

    def part(self, name, *arguments):
        """A script of the project's, whose lines are checks."""
        done = self.run(name, *arguments)
        sys.stdout.write(done.stdout)
        lines = done.stdout.splitlines()
        self.checks.passed += sum(line.startswith("ok ") for line in lines)
        self.checks.failed += [line.removeprefix("FAILED").strip() for line in lines if line.startswith("FAILED")]
        if done.returncode not in (0, 1) or "Traceback" in done.stderr:
            self.checks.say(name, " ".join(done.stderr.splitlines()[-3:])[:800])

    def models(self, *, is_later):
        """Gives the models their first or their second state."""
        for name, *states in LATER:
            before, after = states if is_later else reversed(states)
            path = self.folder / "catalog" / name
            text = path.read_text()
            if before not in text:
                sys.exit(f"{name} has no {before!r}")
            path.write_text(text.replace(before, after))


def story(project):
    project.manage("check", "--database", "default")
    project.manage("makemigrations", "catalog", has=["Create model Author", "Create model Review"])
    if project.manage("migrate", has=["Applying catalog.0001_initial... OK", "Applying sessions.0001_initial... OK"]) is None:
        return
    project.manage("makemigrations", "--check", "--dry-run", has=["No changes"])
    project.settings["DJANGO_SUPERUSER_PASSWORD"] = "secret"
    project.manage("createsuperuser", "--noinput", "--username", "root", "--email", "root@example.org", has=["created"])
    model = str(project.folder / "model.json")
    project.part("first.py", "--model", model)
    project.manage("dumpdata", "-o", "all.json", "--natural-foreign", "-e", "contenttypes", "-e", "auth.permission", "-e", "admin.logentry")
    project.models(is_later=True)
    # It asks whether the column has another name.
    project.manage("makemigrations", "catalog", "--name", "later", given="y\n", has=["Add field language", "Remove field active", "Alter field year", "Rename field text", "index by_year_and_price"])
    if project.manage("migrate", has=["Applying catalog.0002_later... OK"]) is None:
        return
    project.part("later.py", model)
    project.manage("inspectdb", has=["class CatalogBook", "models.ForeignKey\\('?CatalogAuthor", "isbn = models.CharField\\(unique=True", "models.JSONField", "unique_together = \\(\\('author', 'title'\\)"])
    project.manage("migrate", "catalog", "0001", has=["Unapplying catalog.0002_later... OK"])
    project.manage("migrate", "catalog", has=["Applying catalog.0002_later... OK"])
    project.manage("migrate", "catalog", "0001", has=["Unapplying catalog.0002_later... OK"])
    project.models(is_later=False)
    project.manage("flush", "--noinput")
    loaded = project.manage("loaddata", "all.json", has=["Installed [1-9]\\d* object"])
    if loaded is not None:
        project.part("again.py", model)
    project.manage("clearsessions")
    project.manage("migrate", "catalog", "zero", has=["Unapplying catalog.0001_initial... OK"])


def main():
    parser = argparse.ArgumentParser(usage=__doc__.split("Usage: ")[1].split("\n")[0])
    parser.add_argument("program")
    parser.add_argument("--peer", action="store_true")
    options = parser.parse_args()
    checks = Checks()
    with target(options.program, options.peer) as (port, database), tempfile.TemporaryDirectory() as folder:
        story(Project(pathlib.Path(folder), port, database, checks))
    checks.end()


if __name__ == "__main__":
    main()

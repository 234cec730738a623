"""The server with tools of analysts, unmodified: dbt, pandas, ibis, ADBC's PostgreSQL driver, SQLAlchemy as Superset uses it.

Usage: tools.py PATH_TO_ALLUVIA CACHE_FOLDER [--quick]

The tools are installed once, pinned, from PyPI into an environment in the cache folder. `--quick` leaves dbt out, which takes a
minute. PATH_TO_ALLUVIA may be `postgresql://USER@HOST:PORT/DATABASE`: then the same runs at that server, which may be PostgreSQL itself.
"""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import venv

import serving

HERE = pathlib.Path(__file__).parent / "tools"
# Twice, so that tables and views of before are replaced; then anew.
DBT = (["build"], ["build"], ["docs", "generate"], ["build", "--full-refresh"])


def fail(message):
    sys.exit(f"tools: {message}")


def environment(cache):
    """The Python of the tools' environment, which is made anew when what it has to have changes."""
    wanted = (HERE / "requirements.txt").read_text()
    folder = cache / "environment"
    marker = folder / "requirements.txt"
    python = str(folder / "bin" / "python")
    if not marker.exists() or marker.read_text() != wanted:
        shutil.rmtree(folder, ignore_errors=True)
        venv.create(folder, with_pip=True)
        pip = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--only-binary", ":all:"]
        done = subprocess.run([*pip, "-r", str(HERE / "requirements.txt")], text=True, capture_output=True)
        if done.returncode != 0:
            fail(f"installing the tools failed. They are needed once, and come over the network.\n{done.stderr[-2000:]}")
        marker.write_text(wanted)
    return python


def frames(python, host, port, user, database):
    command = [python, str(HERE / "frames.py"), host, port, user, database]
    done = subprocess.run(command, text=True, capture_output=True)
    if done.returncode != 0:
        fail(done.stdout + done.stderr[-4000:])
    print(f"pandas, Superset's SQLAlchemy, ibis, ADBC: {done.stdout.strip()}")


def dbt(python, host, port, user, database):
    """A project with seeds, views, tables, incremental models, a snapshot, tests of data and of units, grants, documents."""
    program = str(pathlib.Path(python).parent / "dbt")
    names = {"SHOP_HOST": host, "SHOP_PORT": port, "SHOP_USER": user, "SHOP_DATABASE": database}
    with tempfile.TemporaryDirectory() as folder:
        project = pathlib.Path(folder) / "shop"
        shutil.copytree(HERE / "dbt", project)
        for command in DBT:
            arguments = [program, "--no-use-colors", "--no-send-anonymous-usage-stats", *command, "--profiles-dir", str(project)]
            done = subprocess.run(arguments, cwd=project, text=True, capture_output=True, env={**os.environ, **names})
            if done.returncode != 0:
                fail(f"dbt {' '.join(command)}:\n{done.stdout[-6000:]}{done.stderr[-2000:]}")
            said = re.search(r"Done\. (.*)", done.stdout)
            print(f"dbt {' '.join(command)}: {said[1] if said else 'done'}")


def main():
    arguments = [argument for argument in sys.argv[1:] if argument != "--quick"]
    if len(arguments) != 2:
        sys.exit(__doc__.strip())
    cache = pathlib.Path(arguments[1]).resolve()
    cache.mkdir(parents=True, exist_ok=True)
    python = environment(cache)
    parts = [frames] if "--quick" in sys.argv else [frames, dbt]
    elsewhere = re.fullmatch(r"postgres(?:ql)?://(\w+)@([\w.]+):(\d+)/(\w+)", arguments[0])
    if elsewhere:
        user, host, port, database = elsewhere.groups()
        for part in parts:
            part(python, host, port, user, database)
        return
    with tempfile.TemporaryDirectory() as folder:
        with serving.server(arguments[0], pathlib.Path(folder) / "db", "off") as said:
            port = said[-1].split(" -p ")[1].split()[0]
            reporter = f"postgresql://alluvia@127.0.0.1:{port}/alluvia"
            subprocess.run([python, "-c", "import psycopg, sys; psycopg.connect(sys.argv[1], autocommit=True).execute('CREATE ROLE reporter')", reporter], check=True)
            for part in parts:
                part(python, "127.0.0.1", port, "alluvia", "alluvia")


if __name__ == "__main__":
    main()

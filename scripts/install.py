"""What the README says of installing, typed as it stands there, in an empty folder and with an empty home.

Usage: install.py ARCHIVE

The archive is packed as `make dist` packs it, of whatever program was built. Every command of the section is typed, or is listed here
with who runs it. Times are printed, and decide nothing.
"""

import os
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile
import time

from serving import check

ROOT = pathlib.Path(__file__).resolve().parent.parent
ROWS = 100_000
COUNTRIES = ("Chile", "France", "Norway")
# Typed otherwise than it stands there: the demo ends sooner.
SHORTER = {"./alluvia demo": "./alluvia demo --seconds 1"}
# Not typed here, with who does.
ELSEWHERE = {
    "pip install ./alluvia-*.whl": "the step python_package of xtask, with the wheel of the tests",
    "sudo apt install ./alluvia_*.deb": "by hand: a test installs nothing on the machine",
}


def commands():
    """The lines of the section's blocks, without their comments."""
    section = re.search(r"^## Install\n(.*?)^## ", (ROOT / "README.md").read_text(), re.MULTILINE | re.DOTALL)[1]
    lines = "".join(re.findall(r"^```sh\n(.*?)^```$", section, re.MULTILINE | re.DOTALL)).splitlines()
    return [re.sub(r"\s+# .*", "", line) for line in lines]


def write_rows(path):
    """A file as the reader has one; gives what the README's question is answered with. Prices are quarters, whose sums are exact."""
    totals = {country: [0, 0.0] for country in COUNTRIES}
    with path.open("w") as file:
        file.write("sold_at,country,category,price,quantity\n")
        for row in range(ROWS):
            country, price, quantity = COUNTRIES[row % 3], (row * 7919 % 400) / 4, 1 + row % 5
            file.write(f"2026-{1 + row % 12:02}-{1 + row % 28:02} 10:00:00,{country},{('Books', 'Music')[row % 2]},{price},{quantity}\n")
            totals[country][0] += 1
            totals[country][1] += price * quantity
    return [[country, str(sales), str(revenue)] for country, (sales, revenue) in totals.items()]


def cells(table):
    """The rows of a table as the shell draws it, without its head."""
    lines = [line for line in table.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[1:]]


def typed(lines, folder, home):
    """Types the lines into one shell, as a person would; gives what each printed, and its seconds."""
    mark = "typed: done"
    environment = {"PATH": os.environ["PATH"], "HOME": str(home), "LANG": "C.UTF-8"}
    answers, start = [], time.monotonic()
    with subprocess.Popen(
        ["bash"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=folder, env=environment
    ) as shell:
        for line in lines:
            print(f"$ {line}", flush=True)
            began, said = time.monotonic(), []
            shell.stdin.write(f"{line} </dev/null; ended=$?; echo; echo {shlex.quote(mark)} $ended\n")
            shell.stdin.flush()
            for answer in shell.stdout:
                if answer.startswith(mark):
                    break
                said.append(answer)
            else:
                sys.exit(f"install: the shell ended at {line}\n{''.join(said)}")
            if answer.split()[-1] != "0":
                sys.exit(f"install: {line} ended with {answer.split()[-1]}\n{''.join(said)}")
            answers.append("".join(said))
            print(f"  {time.monotonic() - began:.2f} s")
        shell.stdin.close()
    print(f"{time.monotonic() - start:.1f} s from the archive to the answer")
    return answers


def main():
    archive = pathlib.Path(sys.argv[1]).resolve()
    lines = commands()
    missing = [line for line in [*ELSEWHERE, *SHORTER] if line not in lines]
    check(missing, [], "what is listed in scripts/install.py stands in the README")
    lines = [SHORTER.get(line, line) for line in lines if line not in ELSEWHERE]
    with tempfile.TemporaryDirectory() as scratch:
        home, folder = pathlib.Path(scratch) / "home", pathlib.Path(scratch) / "folder"
        home.mkdir()
        folder.mkdir()
        (folder / archive.name).symlink_to(archive)
        expected = write_rows(home / "sales.csv")
        answers = dict(zip([*lines, "./alluvia --version"], typed([*lines, "./alluvia --version"], folder, home)))
        left = sorted(path.name for path in home.iterdir())
    version = re.search(r"^alluvia-(.+)-x86_64-linux\.tar\.gz$", archive.name)[1]
    check(answers["./alluvia --version"].strip(), f"alluvia {version}", "the version is the archive's")
    check("Nothing is lost." in answers["./alluvia demo --seconds 1"], True, "the demo goes to its end")
    said = "".join(answer for line, answer in answers.items() if line.startswith("./alluvia load "))
    check(f"COPY {ROWS} " in said, True, f"the file is loaded:\n{said}")
    said = "".join(answer for line, answer in answers.items() if line.startswith("./alluvia sql "))
    check(cells(said), expected, f"the answer:\n{said}")
    check(left, ["sales.csv"], "nothing is left in the home")


main()

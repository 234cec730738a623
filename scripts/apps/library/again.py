"""After a dump was loaded into tables that were emptied, with the models of before: the next row has a number of its own."""

import json
import os
import sys

import django

os.environ["DJANGO_SETTINGS_MODULE"] = "settings"
django.setup()

from checks import Checks
from django.db import connection

checks = Checks()
with open(sys.argv[1]) as read:
    model = json.load(read)
with checks.part("the next author's number is above those that were loaded"), connection.cursor() as cursor:
    cursor.execute("SELECT count(*), max(id) FROM catalog_author")
    count, last = cursor.fetchone()
    assert count == len(model["authors"]), count
    cursor.execute("INSERT INTO catalog_author (name, active) VALUES ('Next', true) RETURNING id")
    assert cursor.fetchone()[0] > last
sys.exit(bool(checks.failed))

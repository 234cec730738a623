"""After the second migration: what was there is there, columns that came have their defaults, the names that changed hold."""

import json
import os
import sys

import django

os.environ["DJANGO_SETTINGS_MODULE"] = "settings"
django.setup()

from catalog.models import Author, Book, Review
from checks import Checks
from django.db import IntegrityError, connection, transaction

checks = Checks()
with open(sys.argv[1]) as read:
    model = json.load(read)
with checks.part("what was there is there"):
    found = {str(pk): [name, email] for pk, name, email in Author.objects.values_list("pk", "name", "email")}
    assert found == {key: [one["name"], one["email"]] for key, one in model["authors"].items()}, found
    found = {str(pk): [title, str(price)] for pk, title, price in Book.objects.values_list("pk", "title", "price")}
    assert found == {key: [one["title"], one["price"]] for key, one in model["books"].items()}, found
    found = sorted([book, reader, stars, body] for book, reader, stars, body in Review.objects.values_list("book_id", "reader_id", "stars", "body"))
    assert found == sorted(model["reviews"]), found
with checks.part("a column that came has its default in all rows"):
    assert set(Book.objects.values_list("language", "pages")) == {("en", None)}
with checks.part("a column that went is gone"):
    with connection.cursor() as cursor:
        assert "active" not in {column.name for column in connection.introspection.get_table_description(cursor, "catalog_author")}
with checks.part("a column takes what its new type takes"):
    book = Book.objects.order_by("pk").first()
    book.year, book.title, book.pages, book.language = 5_000_000_000, "t" * 250, 7, "de"
    book.save()
    book.refresh_from_db()
    assert (book.year, book.title, book.pages, book.language) == (5_000_000_000, "t" * 250, 7, "de"), book
    # What the types of before take: the migration is taken back.
    Book.objects.filter(pk=book.pk).update(year=2000, title="short")
with checks.part("the new table of both"):
    author = Author.objects.order_by("pk").first()
    author.friends.add(*Author.objects.order_by("pk")[1:4])
    assert author.friends.count() == 3
    author.friends.add(*Author.objects.order_by("pk")[1:4])
    assert Author.objects.filter(friends__books__isnull=False, pk=author.pk).distinct().count() <= 1
    author.friends.remove(author.friends.order_by("pk").first())
    assert author.friends.count() == 2
with checks.part("indexes and constraints by introspection"):
    with connection.cursor() as cursor:
        constraints = connection.introspection.get_constraints(cursor, Book._meta.db_table)
    kinds = {(tuple(one["columns"]), kind) for one in constraints.values() for kind in ("primary_key", "unique", "foreign_key", "index", "check") if one[kind]}
    wanted = {(("id",), "primary_key"), (("isbn",), "unique"), (("author_id", "title"), "unique"), (("author_id",), "foreign_key"), (("year", "price"), "index")}
    assert wanted <= kinds, f"{wanted - kinds} are not among {sorted(kinds, key=str)}"


def twice():
    with transaction.atomic():
        Author.objects.create(name=Author.objects.order_by("pk").first().name)


checks.raises("a name that is there is still refused", IntegrityError, twice)
sys.exit(bool(checks.failed))

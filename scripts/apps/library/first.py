"""Some 200 requests by the test client, and what the tables have to have after them, by a model that is kept beside. Prints the model as JSON at the end."""

import json
import os
import random
import sys
import threading
from datetime import datetime, timedelta, timezone
from decimal import Decimal

import django

os.environ["DJANGO_SETTINGS_MODULE"] = "settings"
django.setup()

from catalog.models import Author, Book, Review
from checks import Checks
from django.contrib.auth.models import User
from django.db import IntegrityError, connection, connections, transaction
from django.test import Client

checks = Checks()
client = Client(raise_request_exception=True)
rng = random.Random(30)
authors, books, reviews = {}, {}, {}
TAGS = ["poetry", "travel", "cooking", "history", "science"]


def ask(method, path, **body):
    """Status and answer; an exception of the view is this request's."""
    given = {"data": json.dumps(body), "content_type": "application/json"} if method != "get" else {"data": body}
    answer = getattr(client, method)(path, **given)
    return answer.status_code, json.loads(answer.content)


def expect(what, method, path, expected, **body):
    with checks.part(what) if expected is None else quiet(what):
        found = ask(method, path, **body)
        if expected is None:
            assert found[0] == 200, found
        else:
            checks.equal(what, found, expected)
        return found[1]


class quiet:
    """Tells of an exception alone: the check itself is the caller's."""

    def __init__(self, what):
        self.what = what

    def __enter__(self):
        pass

    def __exit__(self, kind, error, trace):
        if error is not None and isinstance(error, Exception):
            checks.say(self.what, " ".join(f"{kind.__name__}: {error}".split())[:400])
            return True


def make():
    for number in range(12):
        fields = {"name": f"Author {number:02}", "email": f"a{number}@example.org" if number % 3 else None, "born": f"19{50 + number}-02-{number + 1:02}"}
        found = expect(f"author {number} is made", "post", "/authors/", None, **fields)
        if found:
            authors[found["id"]] = fields | {"active": True}
    for number in range(60):
        at = datetime(2020 + number % 5, 1 + number % 12, 1 + number % 28, 10, 11, 12, 345678, tzinfo=timezone.utc) + timedelta(hours=number)
        fields = {
            "author_id": rng.choice(sorted(authors)) if authors else 1, "title": f"Title {number:02} of ' \\ % ü", "isbn": f"978{number:010}", "year": 2000 + number % 7,
            "price": f"{rng.randrange(500, 9900) / 100:.2f}", "copies": rng.randrange(0, 4), "in_print": bool(number % 4),
            "published_at": at.isoformat() if number % 5 else None, "details": {"pages": 100 + number, "tags": rng.sample(TAGS, 2), "nested": {"a": [1, None, 2.5]}},
            "summary": "line\nanother" * (number % 3),
        }
        found = expect(f"book {number} is made", "post", "/books/", None, **fields)
        if found:
            books[found["id"]] = fields
    users = [User.objects.create_user(f"reader{number}") for number in range(4)]
    for number in range(40):
        book, reader, stars = rng.choice(sorted(books)), rng.choice(users).pk, rng.randrange(1, 6)
        is_new = (book, reader) not in reviews
        found = expect(f"review {number} is made or changed", "post", f"/books/{book}/reviews/", None, reader=reader, stars=stars, text=f"it is {stars}")
        if found:
            checks.equal(f"review {number} is new or not", found["is_new"], is_new)
            reviews[book, reader] = (stars, f"it is {stars}")
    return users


def listed(condition):
    found = sorted((book["title"], key) for key, book in books.items() if condition(book, key))
    return 200, {"count": len(found), "books": [[title, authors[books[key]["author_id"]]["name"], books[key]["price"]] for title, key in found[:10]]}


def lists():
    name = authors[min(authors)]["name"]
    stars = {key: max((s for (book, _), (s, _) in reviews.items() if book == key), default=None) for key in books}
    asked = [
        ({}, lambda b, k: True), ({"author": name}, lambda b, k: authors[b["author_id"]]["name"] == name), ({"from": 2003}, lambda b, k: b["year"] >= 2003),
        ({"from": 2001, "to": 2004}, lambda b, k: 2001 <= b["year"] < 2004), ({"below": "40.50"}, lambda b, k: Decimal(b["price"]) < Decimal("40.50")),
        ({"title": "title 1"}, lambda b, k: b["title"].startswith("Title 1")), ({"tag": "poetry"}, lambda b, k: "poetry" in b["details"].get("tags", [])),
        ({"pages": 130}, lambda b, k: b["details"].get("pages", 0) > 130), ({"in_print": "no"}, lambda b, k: not b["in_print"]),
        ({"either": "3"}, lambda b, k: "3" in b["title"] or "3" in authors[b["author_id"]]["name"]), ({"years": "2000,2006"}, lambda b, k: b["year"] in (2000, 2006)),
        ({"published": 2021}, lambda b, k: (b["published_at"] or "").startswith("2021")), ({"has": "nested"}, lambda b, k: "nested" in b["details"]), ({"has": "none"}, lambda b, k: False),
        ({"unpublished": 1}, lambda b, k: b["published_at"] is None), ({"unread": 1}, lambda b, k: stars[k] is None), ({"reviewed": 4}, lambda b, k: (stars[k] or 0) >= 4),
        ({"from": 2002, "in_print": "yes", "tag": "science", "below": "80"},
         lambda b, k: b["year"] >= 2002 and b["in_print"] and "science" in b["details"].get("tags", []) and Decimal(b["price"]) < 80),
    ]
    for filters, condition in asked:
        expect(f"books by {filters}", "get", "/books/", listed(condition), **filters)
    with quiet("page 2"):
        found = ask("get", "/books/", page=2)[1]
        checks.equal("page 2", [one[0] for one in found["books"]], sorted(book["title"] for book in books.values())[20:30])
    counts = {key: sum(book["author_id"] == key for book in books.values()) for key in authors}
    dearest = {key: max((Decimal(book["price"]) for book in books.values() if book["author_id"] == key), default=None) for key in authors}
    for at_least in (0, 3, 6):
        wanted = [[authors[key]["name"], counts[key], None if dearest[key] is None else str(dearest[key])] for key in authors if authors[key]["active"] and counts[key] >= at_least]
        expect(f"authors of at least {at_least} books", "get", "/authors/", (200, sorted(wanted, key=lambda one: (-one[1], one[0]))), prolific=at_least)
    for key in sorted(authors)[:4]:
        own = sorted((book["title"], sorted(s for (of, _), (s, _) in reviews.items() if of == other)) for other, book in books.items() if book["author_id"] == key)
        expect(f"author {authors[key]['name']} with books and reviews", "get", f"/authors/{key}/", (200, {"name": authors[key]["name"], "books": [list(one) for one in own]}))
    for key in sorted(books)[:8]:
        wanted = {name: value for name, value in books[key].items() if name != "author_id"}
        with quiet(f"book {key}"):
            found = ask("get", f"/books/{key}/")[1]
            if found["published_at"]:
                found["published_at"] = datetime.fromisoformat(found["published_at"])
                wanted["published_at"] = datetime.fromisoformat(wanted["published_at"]).replace(microsecond=345000)
            checks.equal(f"book {key}", found, wanted)


def figures():
    prices = [Decimal(book["price"]) for book in books.values()]
    by_year = {}
    for book in books.values():
        n, total = by_year.get(book["year"], (0, Decimal(0)))
        by_year[book["year"]] = (n + 1, total + Decimal(book["price"]))
    months = {}
    for book in books.values():
        if book["published_at"]:
            month = book["published_at"][:7] + "-01T00:00:00Z"
            months[month] = months.get(month, 0) + 1
    with quiet("figures"):
        status, found = ask("get", "/figures/")
        checks.equal("count, sum, min of all", [found["all"][name] for name in ("n", "total", "least", "authors")],
                     [len(books), str(sum(prices)), str(min(prices)), len({book["author_id"] for book in books.values()})])
        checks.equal("avg of all", round(found["all"]["mean"], 6), round(sum(book["year"] for book in books.values()) / len(books), 6))
        checks.equal("count and sum by year", found["by_year"], [[year, n, str(total)] for year, (n, total) in sorted(by_year.items())])
        checks.equal("count with a filter", found["dear"], sum(price > 50 for price in prices))
        checks.equal("count by month", found["months"], [[month, n] for month, n in sorted(months.items())])
        checks.equal("years of a moment", found["years"], sorted({int(month[:4]) for month in months}))
        best = {}
        for book in books.values():
            best.setdefault(book["author_id"], []).append((Decimal(book["price"]), book["title"]))
        checks.equal("a window's rank", found["dearest"], sorted([authors[key]["name"], title] for key, own in best.items() for price, title in own if price == max(own)[0]))
        means = {}
        for (key, _), (stars, _) in reviews.items():
            means.setdefault(key, []).append(stars)
        wanted = sorted(((-sum(own) / len(own), books[key]["title"]) for key, own in means.items() if sum(own) / len(own) >= 3))[:5]
        checks.equal("avg of reviews, HAVING", [title for title, _ in found["stars"]], [title for _, title in wanted])
        names = sorted((one["name"].lower(), one["email"] or one["name"]) for one in authors.values())[:5]
        checks.equal("lower, coalesce", found["names"], [list(one) for one in names])
        newest = []
        for key in sorted(authors, key=lambda key: authors[key]["name"])[:5]:
            own = sorted((-book["year"], book["title"]) for book in books.values() if book["author_id"] == key)
            newest.append([authors[key]["name"], own[0][1] if own else None])
        checks.equal("a subquery of the row", found["newest"], newest)
        checks.equal("a union", found["both"], [[one["name"]] for one in sorted(authors.values(), key=lambda one: one["name"])[:3]])


def changes():
    for key in sorted(authors)[:3]:
        expect(f"author {key} is edited", "put", f"/authors/{key}/", (200, {"id": key}), active=False, born=None)
        authors[key] |= {"active": False, "born": None}
    for key in sorted(books)[5:12]:
        expect(f"book {key} is edited", "put", f"/books/{key}/", (200, {"changed": 1}), year=1999, summary="edited", details={"edited": True})
        books[key] |= {"year": 1999, "summary": "edited", "details": {"edited": True}}
    for key in sorted(books)[:15]:
        left = books[key]["copies"] - 1 if books[key]["copies"] else None
        expect(f"book {key} is lent", "post", f"/books/{key}/lend/", (200, {"copies": left}))
        books[key]["copies"] = left or 0
    for asked in ({"year": 2001, "by": "3.25", "bound": "60"}, {"year": 2002, "by": "1.10", "bound": "50", "fail": True}, {"year": 2003, "by": "-2.00", "bound": "45.5"}):
        kept = undone = 0
        for book in books.values():
            if book["year"] == asked["year"]:
                price = Decimal(book["price"]) + Decimal(asked["by"])
                kept, undone = (kept, undone + 1) if price > Decimal(asked["bound"]) else (kept + 1, undone)
                if price <= Decimal(asked["bound"]) and not asked.get("fail"):
                    book["price"] = str(price)
        expect(f"prices of {asked['year']}, savepoints that roll back", "post", "/prices/", (200, {"kept": kept, "undone": undone}), **asked)


def refused(users):
    key, other = sorted(books)[:2]
    twice = {name: value for name, value in books[key].items()}
    expect("an ISBN that is there is refused", "post", "/books/", (409, {"refused": "23505"}), **(twice | {"title": "another"}))
    expect("a title that the author has is refused", "post", "/books/", (409, {"refused": "23505"}), **(twice | {"isbn": "new"}))
    expect("a name that is there is refused", "post", "/authors/", (409, {"refused": "23505"}), name=authors[min(authors)]["name"])
    expect("a change to an ISBN that is there is refused", "put", f"/books/{key}/", (409, {"refused": "23505"}), isbn=books[other]["isbn"])
    expect("more than five stars are refused", "post", f"/books/{key}/reviews/", (409, {"refused": "23514"}), reader=users[0].pk, stars=6)
    expect("a number below zero is refused", "put", f"/books/{key}/", (409, {"refused": "23514"}), copies=-1)

    def orphan():
        with transaction.atomic():
            Book.objects.create(**(twice | {"author_id": 999_999, "isbn": "orphan", "title": "orphan"}))
    checks.raises("a book without its author is refused, at the end of the transaction", IntegrityError, orphan)

    def left_behind():
        with transaction.atomic(), connection.cursor() as cursor:
            cursor.execute("DELETE FROM catalog_author WHERE id = %s", [books[key]["author_id"]])
            cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")
    checks.raises("an author who has books is not taken away", IntegrityError, left_behind)
    with checks.part("within a transaction, a duplicate undoes its savepoint alone"), transaction.atomic():
        author = Author.objects.create(name="Within")
        try:
            with transaction.atomic():
                Author.objects.create(name="Within")
        except IntegrityError:
            pass
        else:
            raise AssertionError("a duplicate was let through")
        author.email = "within@example.org"
        author.save()
        authors[author.pk] = {"name": "Within", "email": "within@example.org", "born": None, "active": True}

    def taken():
        with transaction.atomic():
            Book.objects.select_for_update(nowait=True).get(pk=key)
    with transaction.atomic():
        with quiet("FOR UPDATE holds the row"):
            Book.objects.select_for_update().get(pk=key)
            second = connection.copy()
            try:
                with second.cursor() as cursor:
                    checks.raises("another's FOR UPDATE NOWAIT is refused", Exception, lambda: cursor.execute("SELECT * FROM catalog_book WHERE id = %s FOR UPDATE NOWAIT", [key]))
                    cursor.execute("SELECT id FROM catalog_book WHERE id IN (%s, %s) ORDER BY id FOR UPDATE SKIP LOCKED", [key, other])
                    checks.equal("SKIP LOCKED passes over it", cursor.fetchall(), [(other,)])
            finally:
                second.close()
    with checks.part("get_or_create, bulk_create with conflicts passed over and with upsert, bulk_update, in_bulk, iterator"):
        assert Author.objects.get_or_create(name="Within")[1] is False
        Author.objects.bulk_create([Author(name="Within"), Author(name="Bulk 1"), Author(name="Bulk 2")], ignore_conflicts=True)
        Author.objects.bulk_create([Author(name="Bulk 1", email="b1@example.org"), Author(name="Bulk 3")], update_conflicts=True, unique_fields=["name"], update_fields=["email"])
        many = list(Author.objects.filter(name__startswith="Bulk").order_by("name"))
        assert [one.email for one in many] == ["b1@example.org", None, None], many
        for number, one in enumerate(many):
            one.active = number == 1
        Author.objects.bulk_update(many, ["active"])
        assert [one.active for one in Author.objects.in_bulk([one.pk for one in many]).values()].count(True) == 1
        with transaction.atomic():
            assert len(list(Author.objects.filter(name__startswith="Bulk").iterator(chunk_size=2))) == 3
        Author.objects.filter(name__startswith="Bulk").delete()


def together(action, threads=4):
    """What threads answered, each with a client and a connection of its own; an exception is told as it is."""
    found = []

    def run(number):
        try:
            found.append(action(number))
        except Exception as error:
            found.append(" ".join(f"{type(error).__name__}: {error}".split())[:300])
        finally:
            connections.close_all()
    started = [threading.Thread(target=run, args=(number,)) for number in range(threads)]
    for one in started:
        one.start()
    for one in started:
        one.join(120)
    return found


def at_once():
    """Requests of several threads: copies are lent once each, one row comes of a name, and no book is left without its author."""
    key = sorted(books)[2]
    Book.objects.filter(pk=key).update(copies=25)
    books[key]["copies"] = 0
    found = together(lambda _: [json.loads(Client().post(f"/books/{key}/lend/").content)["copies"] for _ in range(8)])
    lent = [one for of in found for one in of] if all(isinstance(of, list) for of in found) else found
    checks.equal("four threads lend 25 copies", sorted((one for one in lent if one is not None), reverse=True), list(range(24, -1, -1)))
    before = Author.objects.count()
    made = together(lambda _: [Author.objects.get_or_create(name=f"At once {number}")[1] for number in range(10)])
    checks.equal("get_or_create of four threads makes each name once", (sum(sum(of) for of in made if isinstance(of, list)), Author.objects.count() - before), (10, 10))
    checks.equal("and none of them fails", [one for one in made if not isinstance(one, list)], [])
    wrong = []
    for attempt in range(12):
        author = Author.objects.create(name=f"At once goes {attempt}")

        def either(number):
            try:
                with transaction.atomic():
                    if number:
                        Book.objects.create(author_id=author.pk, title="t", isbn=f"once{attempt}", year=1, price=1)
                    else:
                        with connection.cursor() as cursor:
                            cursor.execute("DELETE FROM catalog_author WHERE id = %s", [author.pk])
                return True
            except IntegrityError as error:
                return error.__cause__.sqlstate
        answers = together(either, threads=2)
        there = (Author.objects.filter(pk=author.pk).exists(), Book.objects.filter(isbn=f"once{attempt}").exists())
        if there not in ((True, True), (False, False)) or sorted(map(str, answers)) != ["23503", "True"]:
            wrong.append((answers, there))
    checks.equal("an author goes while a book comes: one of the two is refused", wrong, [])
    Author.objects.filter(name__startswith="At once").delete()


def deletes():
    key = sorted(books)[20]
    counted = {"catalog.Book": 1}
    n = sum(of == key for of, _ in reviews)
    if n:
        counted["catalog.Review"] = n
    expect("a book goes with its reviews", "delete", f"/books/{key}/", (200, counted))
    del books[key]
    key = sorted(authors)[1]
    own = [book for book, fields in books.items() if fields["author_id"] == key]
    for gone in [book for book, _ in reviews if book not in books or book in own]:
        for pair in [pair for pair in reviews if pair[0] == gone]:
            del reviews[pair]
    for book in own:
        del books[book]
    with quiet("an author goes with all books"):
        found = ask("delete", f"/authors/{key}/")[1]
        checks.equal("an author goes with all books", (found.get("catalog.Author"), found.get("catalog.Book", 0)), (1, len(own)))
    del authors[key]


def page(what, path, *texts, method="get", status=200, **data):
    with quiet(what):
        answer = getattr(client, method)(path, data, follow=True)
        text = answer.content.decode()
        missing = [one for one in texts if one not in text]
        checks.say(what, None if answer.status_code == status and not missing else f"status {answer.status_code}, without {missing}: {text[:300]}")


def administer(users):
    page("admin asks who it is", "/admin/", "Log in")
    page("admin refuses a wrong password", "/admin/login/?next=/admin/", "Please enter the correct", method="post", username="root", password="wrong")
    page("admin lets in", "/admin/login/?next=/admin/", "Site administration", "Authors", method="post", username="root", password="secret")
    page("admin lists books", "/admin/catalog/book/", "Select book to change", f"{len(books)} books")
    page("admin lists books of a year", "/admin/catalog/book/?year__exact=2004", "2004")
    page("admin searches", "/admin/catalog/book/?q=Title+3", "Title 3")
    page("admin lists authors, sorted", "/admin/catalog/author/?o=-1", f"{len(authors)} authors")
    page("admin shows a form", "/admin/catalog/book/add/", "Add book")
    page("admin adds an author", "/admin/catalog/author/add/", "was added successfully", method="post", name="By admin", email="admin@example.org", born="1970-01-02", active="on")
    page("admin refuses a name that is there", "/admin/catalog/author/add/", "already exists", method="post", name="By admin", email="")
    with quiet("the author of admin"):
        author = Author.objects.get(name="By admin")
        authors[author.pk] = {"name": "By admin", "email": "admin@example.org", "born": "1970-01-02", "active": True}
        form = {"author": author.pk, "title": "Adm", "isbn": "adm", "year": 2010, "price": "9.90", "copies": 3, "in_print": "on", "details": "{\"a\": 1}",
                "published_at_0": "2024-02-03", "published_at_1": "04:05:06", "summary": "s", "reviews-TOTAL_FORMS": 1, "reviews-INITIAL_FORMS": 0,
                "reviews-0-reader": users[0].pk, "reviews-0-stars": 4, "reviews-0-text": "fine"}
        page("admin adds a book and a review", "/admin/catalog/book/add/", "was added successfully", method="post", **form)
        book = Book.objects.get(isbn="adm")
        books[book.pk] = {"author_id": author.pk, "title": "Changed", "isbn": "adm", "year": 2010, "price": "9.90", "copies": 3, "in_print": False, "published_at": "2024-02-03T04:05:06+00:00",
                          "details": {"a": 1}, "summary": "s"}
        review = Review.objects.get(book=book)
        reviews[book.pk, users[0].pk] = (5, "fine")
        form |= {"title": "Changed", "reviews-INITIAL_FORMS": 1, "reviews-0-id": review.pk, "reviews-0-book": book.pk, "reviews-0-stars": 5}
        del form["in_print"]
        page("admin changes both", f"/admin/catalog/book/{book.pk}/change/", "was changed successfully", method="post", **form)
        page("admin shows the history", f"/admin/catalog/book/{book.pk}/history/", "Changed Title")
        victim = sorted(key for key in books if any(of == key for of, _ in reviews))[0]
        n = sum(of == victim for of, _ in reviews)
        page("admin says what goes along", f"/admin/catalog/book/{victim}/delete/", "Are you sure", f"Reviews: {n}")
        page("admin takes it away", f"/admin/catalog/book/{victim}/delete/", "was deleted successfully", method="post", post="yes")
        del books[victim]
        for pair in [pair for pair in reviews if pair[0] == victim]:
            del reviews[pair]
        pair = sorted(books)[-3:-1]
        page("admin asks before it takes away several", "/admin/catalog/book/", "Are you sure", method="post", action="delete_selected", _selected_action=pair)
        page("admin takes away several", "/admin/catalog/book/", "Successfully deleted 2 books", method="post", action="delete_selected", _selected_action=pair, post="yes")
        for key in pair:
            del books[key]
            for gone in [one for one in reviews if one[0] == key]:
                del reviews[gone]
    page("admin logs out", "/admin/logout/", "Log in", method="post")


def compare():
    with quiet("authors at the end"):
        found = {one.pk: {"name": one.name, "email": one.email, "born": one.born and str(one.born), "active": one.active} for one in Author.objects.all()}
        checks.equal("authors at the end", found, authors)
    with quiet("books at the end"):
        names = ["author_id", "title", "isbn", "year", "price", "copies", "in_print", "published_at", "details", "summary"]
        found = {one["id"]: {name: one[name] for name in names} | {"price": str(one["price"])} for one in Book.objects.values("id", *names)}
        wanted = {key: book | {"published_at": book["published_at"] and datetime.fromisoformat(book["published_at"])} for key, book in books.items()}
        checks.equal("books at the end", found, wanted)
    with quiet("reviews at the end"):
        found = {(book, reader): (stars, text) for book, reader, stars, text in Review.objects.values_list("book_id", "reader_id", "stars", "text")}
        checks.equal("reviews at the end", found, reviews)


def guarded(what, action, *arguments):
    try:
        return action(*arguments)
    except Exception as error:
        checks.say(what, " ".join(f"{type(error).__name__}: {error}".split())[:400])
        return None


readers = guarded("authors, books, reviews are made", make)
for action in (lists, figures, changes, figures, lists):
    guarded(action.__name__, action)
if readers:
    guarded("what is refused", refused, readers)
    guarded("at once", at_once)
guarded("what is taken away", deletes)
if readers:
    guarded("admin", administer, readers)
compare()
if "--model" in sys.argv:
    with open(sys.argv[sys.argv.index("--model") + 1], "w") as out:
        json.dump({"authors": authors, "books": books, "reviews": [[*pair, *values] for pair, values in reviews.items()]}, out)
sys.exit(bool(checks.failed))

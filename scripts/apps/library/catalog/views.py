"""Each answers with JSON. A statement that the database refuses for its constraints is 409."""

import functools
import json
from decimal import Decimal

from django.db import IntegrityError, transaction
from django.db.models import Avg, Count, Exists, F, Max, Min, OuterRef, Q, Subquery, Sum, Window
from django.db.models.functions import Coalesce, ExtractYear, Lower, Rank, TruncMonth
from django.http import JsonResponse
from django.views.decorators.csrf import csrf_exempt

from .models import Author, Book, Review


def answered(view):
    @csrf_exempt
    @functools.wraps(view)
    def asked(request, *arguments, **names):
        try:
            return JsonResponse(view(request, *arguments, **names), safe=False)
        except IntegrityError as error:
            return JsonResponse({"refused": error.__cause__.sqlstate}, status=409)
    return asked


def body(request):
    return json.loads(request.body or "{}")


@answered
def authors(request):
    if request.method == "POST":
        return {"id": Author.objects.create(**body(request)).pk}
    found = Author.objects.annotate(n=Count("books"), dearest=Max("books__price")).filter(active=True)
    if "name" in request.GET:
        found = found.filter(name__icontains=request.GET["name"])
    if "prolific" in request.GET:
        found = found.filter(n__gte=int(request.GET["prolific"]))
    return [[one.name, one.n, one.dearest] for one in found.order_by("-n", "name")]


@answered
def author(request, key):
    if request.method == "DELETE":
        return Author.objects.get(pk=key).delete()[1]
    if request.method == "PUT":
        one = Author.objects.get(pk=key)
        for name, value in body(request).items():
            setattr(one, name, value)
        one.save()
        return {"id": one.pk}
    one = Author.objects.prefetch_related("books__reviews").get(pk=key)
    return {"name": one.name, "books": [[book.title, sorted(review.stars for review in book.reviews.all())] for book in one.books.all()]}


@answered
def books(request):
    if request.method == "POST":
        return {"id": Book.objects.create(**body(request)).pk}
    found, asked = Book.objects.select_related("author"), request.GET
    filters = {
        "author": lambda value: Q(author__name=value), "from": lambda value: Q(year__gte=int(value)), "to": lambda value: Q(year__lt=int(value)),
        "below": lambda value: Q(price__lt=Decimal(value)), "title": lambda value: Q(title__istartswith=value), "tag": lambda value: Q(details__tags__contains=[value]),
        "pages": lambda value: Q(details__pages__gt=int(value)), "in_print": lambda value: Q(in_print=value == "yes"),
        "either": lambda value: Q(title__contains=value) | Q(author__name__contains=value), "years": lambda value: Q(year__in=[int(one) for one in value.split(",")]),
        "published": lambda value: Q(published_at__year=int(value)), "has": lambda value: Q(details__has_key=value), "unpublished": lambda _: Q(published_at__isnull=True),
    }
    for name, condition in filters.items():
        if name in asked:
            found = found.filter(condition(asked[name]))
    if "unread" in asked:
        found = found.filter(~Exists(Review.objects.filter(book=OuterRef("pk"))))
    if "reviewed" in asked:
        found = found.filter(reviews__stars__gte=int(asked["reviewed"])).distinct()
    first = int(asked.get("page", 0)) * 10
    return {"count": found.count(), "books": [[one.title, one.author.name, str(one.price)] for one in found.order_by("title", "pk")[first:first + 10]]}


@answered
def book(request, key):
    if request.method == "DELETE":
        return Book.objects.get(pk=key).delete()[1]
    if request.method == "PUT":
        return {"changed": Book.objects.filter(pk=key).update(**body(request))}
    one = Book.objects.values("title", "isbn", "year", "price", "copies", "in_print", "published_at", "details", "summary").get(pk=key)
    return one


@answered
def reviews(request, key):
    asked = body(request)
    one, is_new = Review.objects.update_or_create(book_id=key, reader_id=asked.pop("reader"), defaults=asked)
    return {"id": one.pk, "is_new": is_new}


@answered
@transaction.atomic
def lend(request, key):
    """Takes a copy; the rows that others hold are waited for, or passed over."""
    one = Book.objects.select_for_update(of=("self",)).select_related("author").get(pk=key)
    if one.copies == 0:
        return {"copies": None}
    one.copies = F("copies") - 1
    one.save(update_fields=["copies"])
    one.refresh_from_db(fields=["copies"])
    return {"copies": one.copies}


@answered
def prices(request):
    """Raises the prices of a year; of those that would go past a bound, nothing is kept: a savepoint each."""
    asked, kept, undone = body(request), 0, 0
    with transaction.atomic():
        for one in Book.objects.select_for_update().filter(year=asked["year"]).order_by("pk"):
            try:
                with transaction.atomic():
                    Book.objects.filter(pk=one.pk).update(price=F("price") + Decimal(asked["by"]))
                    if Book.objects.get(pk=one.pk).price > Decimal(asked["bound"]):
                        raise ValueError
                    kept += 1
            except ValueError:
                undone += 1
        if asked.get("fail"):
            transaction.set_rollback(True)
    return {"kept": kept, "undone": undone}


@answered
def figures(request):
    newest = Book.objects.filter(author=OuterRef("pk")).order_by("-year", "title").values("title")[:1]
    ranked = Book.objects.annotate(rank=Window(Rank(), partition_by=F("author"), order_by=F("price").desc()))
    return {
        "all": Book.objects.aggregate(n=Count("id"), total=Sum("price"), least=Min("price"), mean=Avg("year"), authors=Count("author", distinct=True)),
        "by_year": list(Book.objects.order_by().values("year").annotate(n=Count("id"), total=Sum("price")).order_by("year").values_list("year", "n", "total")),
        "dear": Book.objects.aggregate(n=Count("id", filter=Q(price__gt=50)))["n"],
        "stars": list(Book.objects.annotate(mean=Avg("reviews__stars")).filter(mean__gte=3).order_by("-mean", "title").values_list("title", "mean")[:5]),
        "newest": list(Author.objects.annotate(newest=Subquery(newest)).order_by("name").values_list("name", "newest")[:5]),
        "months": list(Book.objects.filter(published_at__isnull=False).annotate(month=TruncMonth("published_at")).order_by().values("month").annotate(n=Count("id")).order_by("month").values_list("month", "n")),
        "dearest": sorted(ranked.filter(rank=1).values_list("author__name", "title")),
        "names": list(Author.objects.annotate(low=Lower("name"), mail=Coalesce("email", "name")).order_by("low").values_list("low", "mail")[:5]),
        "years": list(Book.objects.filter(published_at__isnull=False).annotate(of=ExtractYear("published_at")).values_list("of", flat=True).distinct().order_by("of")),
        "both": list(Author.objects.values_list("name").union(Book.objects.values_list("title")).order_by("name")[:3]),
    }

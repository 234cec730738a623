from django.conf import settings
from django.db import models


class Author(models.Model):
    name = models.CharField(max_length=100, unique=True)
    email = models.EmailField(unique=True, null=True, blank=True)
    born = models.DateField(null=True, blank=True)
    active = models.BooleanField(default=True)

    def __str__(self):
        return self.name


class Book(models.Model):
    author = models.ForeignKey(Author, on_delete=models.CASCADE, related_name="books")
    title = models.CharField(max_length=200)
    isbn = models.CharField(max_length=13, unique=True)
    year = models.IntegerField(db_index=True)
    price = models.DecimalField(max_digits=8, decimal_places=2)
    copies = models.PositiveSmallIntegerField(default=1)
    in_print = models.BooleanField(default=True)
    published_at = models.DateTimeField(null=True, blank=True)
    details = models.JSONField(default=dict, blank=True)
    summary = models.TextField(blank=True)

    class Meta:
        unique_together = [("author", "title")]
        ordering = ["title"]

    def __str__(self):
        return self.title


class Review(models.Model):
    book = models.ForeignKey(Book, on_delete=models.CASCADE, related_name="reviews")
    reader = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.SET_NULL, null=True, blank=True)
    stars = models.PositiveSmallIntegerField()
    text = models.TextField(blank=True)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        unique_together = [("book", "reader")]
        constraints = [models.CheckConstraint(condition=models.Q(stars__lte=5), name="at_most_five_stars")]

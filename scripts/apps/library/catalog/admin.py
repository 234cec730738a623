from django.contrib import admin

from .models import Author, Book, Review


class Reviews(admin.TabularInline):
    model = Review
    extra = 0


@admin.register(Author)
class AuthorAdmin(admin.ModelAdmin):
    list_display = ["name", "email"]
    search_fields = ["name"]


@admin.register(Book)
class BookAdmin(admin.ModelAdmin):
    list_display = ["title", "author", "price", "year"]
    list_filter = ["year", "author"]
    search_fields = ["title", "author__name"]
    date_hierarchy = "published_at"
    inlines = [Reviews]

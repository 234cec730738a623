from catalog import views
from django.contrib import admin
from django.urls import path

urlpatterns = [
    path("admin/", admin.site.urls),
    path("authors/", views.authors),
    path("authors/<int:key>/", views.author),
    path("books/", views.books),
    path("books/<int:key>/", views.book),
    path("books/<int:key>/reviews/", views.reviews),
    path("books/<int:key>/lend/", views.lend),
    path("prices/", views.prices),
    path("figures/", views.figures),
]

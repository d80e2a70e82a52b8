"""Django: models that `inspectdb` has written, and what its ORM sends for them."""

import io
import json
import sys

import django
from django.conf import settings
from django.core.management import call_command
from django.db import connection, models, transaction
from django.db.models import F, Q, Value, functions

settings.configure(
    DATABASES={
        "default": {
            "ENGINE": "django.db.backends.postgresql",
            "HOST": "127.0.0.1",
            "PORT": sys.argv[1],
            "NAME": "trilayer",
            "USER": "analyst",
            "PASSWORD": "none",
        }
    },
    INSTALLED_APPS=[],
    USE_TZ=True,
    TIME_ZONE="Europe/Berlin",
)
django.setup()


def listed(rows):
    return [[str(value) if hasattr(value, "isoformat") else value for value in row] for row in rows]


written = io.StringIO()
call_command("inspectdb", "by_minute", stdout=written, include_views=True)
source = written.getvalue()
made = {}
exec(
    source.replace("class Meta:", "class Meta:\n        app_label = 'views'"), made
)  # Django's own text
Sale = made["ByMinute"]
sales = Sale.objects.all()
day = sales.annotate(day=functions.TruncDay("minute"), month=functions.TruncMonth("minute")).values(
    "day", "month"
)
others = Sale.objects.filter(minute=models.OuterRef("minute")).exclude(
    buyer=models.OuterRef("buyer")
)
with transaction.atomic():
    streamed = [sale.buyer for sale in sales.order_by("buyer").iterator(chunk_size=2)]
with connection.cursor() as cursor:
    tables = connection.introspection.table_names(cursor, include_views=True)
    cursor.execute("SELECT count(*) FROM by_minute WHERE buyer LIKE %s", ["%o%"])
    raw = cursor.fetchone()[0]

sys.stdout.write(
    json.dumps(
        {
            "fields": {f.name: type(f).__name__ for f in Sale._meta.get_fields()},
            "tables": tables,
            "raw": raw,
            "streamed": streamed,
            "all": listed(sales.order_by("buyer").values_list("buyer", "minute", "n", "revenue")),
            "got": sales.get(buyer="zoë").revenue,
            "counted": [sales.count(), sales.filter(revenue__gt=11).count()],
            "exists": [sales.filter(buyer="bob").exists(), sales.filter(buyer="eve").exists()],
            "aggregated": sales.aggregate(
                total=models.Sum("revenue"),
                mean=models.Avg("revenue"),
                most=models.Max("minute__hour"),
                large=models.Count("buyer", filter=Q(revenue__gte=22)),
                some=functions.Coalesce(models.Sum("n"), 0),
            ),
            "by day": listed(
                day.annotate(total=models.Sum("revenue"), n=models.Count("*"))
                .order_by("day")
                .values_list("day", "month", "total", "n")
            ),
            "texts": listed(
                sales.annotate(
                    big=functions.Upper("buyer"),
                    size=functions.Length("buyer"),
                    both=functions.Concat(
                        "buyer", Value(":"), "n", output_field=models.TextField()
                    ),
                    as_text=functions.Cast("revenue", models.TextField()),
                )
                .order_by("-buyer")
                .values_list("big", "size", "both", "as_text")
            ),
            "filters": [
                sales.filter(**{lookup: value}).count()
                for lookup, value in {
                    "buyer__icontains": "O",
                    "buyer__startswith": "b",
                    "buyer__iexact": "ANN",
                    "buyer__regex": "^[ab]",
                    "buyer__iregex": "^A",
                    "buyer__in": ["ann", "zoë"],
                    "minute__date": "1970-01-01",
                    "minute__year": 1970,
                    "minute__week_day": 5,
                    "minute__range": ["1970-01-01T00:01:30Z", "1970-01-02T00:00:00Z"],
                    "revenue__isnull": False,
                    "minute__lt": functions.Now(),
                    "buyer__contains": "%",
                }.items()
            ],
            "places": listed(
                sales.annotate(
                    place=models.Window(functions.RowNumber(), order_by=F("revenue").desc()),
                    share=models.ExpressionWrapper(
                        F("revenue") * 1.0 / F("n"), models.FloatField()
                    ),
                    hour=functions.Extract("minute", "hour"),
                    kind=models.Case(
                        models.When(revenue__gt=100, then=Value("dear")), default=Value("cheap")
                    ),
                    has_others=models.Exists(others),
                    next_buyer=models.Subquery(others.order_by("buyer").values("buyer")[:1]),
                )
                .order_by("place")
                .values_list("buyer", "place", "share", "hour", "kind", "has_others", "next_buyer")
            ),
            "united": listed(
                sales.filter(n=3)
                .values_list("buyer")
                .union(sales.values_list("buyer"))
                .order_by("buyer")
            ),
            "distinct": listed(
                sales.order_by("minute", "-revenue").distinct("minute").values_list("buyer")
            ),
            "dates": listed([[each] for each in sales.datetimes("minute", "minute")]),
        },
        default=float,
    )
)

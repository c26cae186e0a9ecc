"""A shop on Django, in one file: an order and its message are committed together, or neither is.

pip install 'jdbcstore[postgresql]' django
jdbcstore broker --url sqlite:///shop.db                       # in another terminal
python examples/outbox_django.py runserver
curl -X POST localhost:8000/orders -d item=apples -d amount=3
"""

from __future__ import annotations

import os
import sys

import django
from django.conf import settings
from django.core.management import execute_from_command_line
from django.db import connection, transaction
from django.http import HttpRequest, HttpResponseBadRequest, JsonResponse
from django.urls import path
from django.views.decorators.csrf import csrf_exempt

import jdbcstore

settings.configure(
    DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": os.environ.get("SHOP_DB", "shop.db")}},
    ROOT_URLCONF=__name__,
    ALLOWED_HOSTS=["*"],
    DEBUG=False,
    SECRET_KEY="an example has no secrets",
)
django.setup()


@csrf_exempt  # type: ignore[untyped-decorator]  # Django has no types
def orders(request: HttpRequest) -> JsonResponse | HttpResponseBadRequest:
    item, amount = request.POST["item"], int(request.POST["amount"])
    try:
        with transaction.atomic():
            with connection.cursor() as cursor:
                cursor.execute("INSERT INTO shop_orders (item, amount) VALUES (%s, %s)", [item, amount])
            jdbcstore.enlist(connection).send("ORDERS", {"item": item, "amount": amount})
            if amount < 1:  # too late for the row and for the message: both are rolled back
                raise ValueError("order at least one")
    except ValueError as error:
        return HttpResponseBadRequest(str(error))
    return JsonResponse({"item": item}, status=201)


urlpatterns = [path("orders", orders)]

if __name__ == "__main__":
    with connection.cursor() as cursor:
        cursor.execute("CREATE TABLE IF NOT EXISTS shop_orders (id INTEGER PRIMARY KEY, item TEXT, amount INTEGER)")
    execute_from_command_line(sys.argv)

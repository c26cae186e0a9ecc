"""A Django program that sends through the outbox: ``python -m tests.sql.django_outbox URL``.

In a process of its own, since PyMySQL in the place of mysqlclient, which needs no compiler, changes modules for good.
Two messages are committed, a third is not; what a connection without a transaction is told is printed.
"""

from __future__ import annotations

import sys

import pymysql
from django import setup
from django.conf import settings
from django.db import connection, transaction
from sqlalchemy import make_url

import jdbcstore
from jdbcstore.errors import ConfigurationError

BODY = bytes(range(256))


def main(url: str) -> None:
    pymysql.version_info = (2, 2, 7, "final", 0)
    pymysql.install_as_MySQLdb()
    parsed = make_url(url)
    backend = {"sqlite": "sqlite3", "mariadb": "mysql"}.get(parsed.get_backend_name(), parsed.get_backend_name())
    own = {"NAME": parsed.database}
    if backend != "sqlite3":
        own |= {"HOST": parsed.host or "", "PORT": str(parsed.port), "USER": parsed.username or ""}
        own["PASSWORD"] = parsed.password or ""
    settings.configure(USE_TZ=True, DATABASES={"default": {"ENGINE": f"django.db.backends.{backend}", **own}})
    setup()
    with transaction.atomic():
        outbox = jdbcstore.enlist(connection)
        outbox.send("ORDERS", BODY, properties={"n": 1}, priority=9, ttl_ms=600_000, correlation_id="c-1")
        outbox.send("ORDERS,topic://PRICES", "größer")
    try:
        with transaction.atomic():
            jdbcstore.enlist(connection).send("ORDERS", "never")
            raise KeyError
    except KeyError:
        pass
    try:
        jdbcstore.enlist(connection)
    except ConfigurationError as error:
        print(error)


if __name__ == "__main__":
    main(sys.argv[1])

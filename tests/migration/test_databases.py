"""``jdbcstore migrate`` between databases: the other store is the same store."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

from jdbcstore.config.urls import open_store
from jdbcstore.migration import migrate
from tests.migration import rich


def seen(url: str) -> dict[str, Any]:
    with open_store(url) as adapter:
        return rich.seen(adapter)


def test_a_rich_store_through_all_databases(tmp_path: Path, postgresql18_url: str, mysql_url: str) -> None:
    urls = [f"sqlite:///{tmp_path / 'first.db'}", postgresql18_url, mysql_url]
    urls.append(f"sqlite:///{tmp_path / 'last.db'}")
    with open_store(urls[0]) as adapter:
        rich.fill(adapter)
        before = rich.seen(adapter)
    for source, target in pairwise(urls):
        done = migrate(source, target)
        assert (done.messages, done.copied, done.is_live) == (144, 144, False)
    assert seen(urls[-1]) == before
    ends = []
    for url in (urls[0], urls[-1]):
        with open_store(url) as adapter:
            rich.decided(adapter, commits=True)
            ends.append(rich.seen(adapter))
    assert ends[0] == ends[1]

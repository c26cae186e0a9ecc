"""What fails over and over is told once, and once that it is over."""

from __future__ import annotations

from jdbcstore.trouble import Trouble


def test_it_is_news_once_for_each_reason() -> None:
    trouble = Trouble()
    assert [trouble.goes_on(reason) for reason in ("full", "full", "read-only", "read-only", "full")] == [
        *(True, False, True, False, True)
    ]


def test_its_end_is_news_once_and_then_it_begins_anew() -> None:
    trouble = Trouble()
    assert trouble.is_over() == 0
    trouble.goes_on("full")
    trouble.goes_on("full")
    assert (trouble.is_over(), trouble.is_over()) == (2, 0)
    assert trouble.goes_on("full")

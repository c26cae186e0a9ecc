"""What a real ActiveMQ answered: `tests/compat/selectors.py` tells how it was asked."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from jdbcstore.errors import SelectorError
from jdbcstore.message import Message
from jdbcstore.openwire import unmarshal_message
from jdbcstore.selector import Selector

FIRST, *LINES = (Path(__file__).parents[2] / "vectors" / "selectors.jsonl").read_text("ascii").splitlines()
MESSAGES: dict[str, Message] = {
    name: unmarshal_message(bytes.fromhex(digits)) for name, digits in json.loads(FIRST).items()
}
VECTORS: list[dict[str, Any]] = [json.loads(line) for line in LINES]
SUBJECTS = sorted({vector["about"] for vector in VECTORS})
NOT_FOLLOWED = "not followed"
LETTERS = {True: "T", False: "F", None: "N"}


def answers(selector: str) -> str | None:
    """A letter for each message; None if the selector cannot be read."""
    try:
        parsed = Selector.parse(selector)
    except SelectorError:
        return None
    return "".join(LETTERS[parsed.evaluate(message)] for message in MESSAGES.values())


def agree(ours: str | None, theirs: str | None) -> bool:
    """Whether the answers are the same; where ActiveMQ fails with an exception any answer will do."""
    if ours is None or theirs is None:
        return ours is theirs
    return all(their in (our, "!") for our, their in zip(ours, theirs, strict=True))


@pytest.mark.parametrize("about", [subject for subject in SUBJECTS if subject != NOT_FOLLOWED])
def test_the_answers_are_those_of_activemq(about: str) -> None:
    vectors = [vector for vector in VECTORS if vector["about"] == about]
    assert len(vectors) > 20
    different = {
        vector["selector"]: (answers(vector["selector"]), vector.get("results"))
        for vector in vectors
        if not agree(answers(vector["selector"]), vector.get("results"))
    }
    assert different == {}


@pytest.mark.parametrize("selector", [vector["selector"] for vector in VECTORS if vector["about"] == NOT_FOLLOWED])
def test_what_is_not_followed_is_refused(selector: str) -> None:
    with pytest.raises(SelectorError):
        Selector.parse(selector)


def test_the_messages_are_as_many_and_as_different_as_the_answers_claim() -> None:
    assert {"bare", "typed", "extremes", "strange", "texts", "stomp", "headers", "moved"} <= MESSAGES.keys()
    assert {len(vector["results"]) for vector in VECTORS if "results" in vector} == {len(MESSAGES)}
    letters = "".join(vector.get("results", "") for vector in VECTORS)
    assert min(letters.count(letter) for letter in "TFN!") > 500

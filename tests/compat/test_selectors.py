"""Random selectors and messages, new ones in every run: what the installed ActiveMQ says, we say.

Where ActiveMQ fails with an exception anything will do, and ``--`` without a line break is an error for us only.
"""

from __future__ import annotations

from random import Random, SystemRandom

import pytest

from jdbcstore.errors import SelectorError
from jdbcstore.message import Message
from jdbcstore.selector import Selector
from tests.compat.selectors import Answer, ask, random_messages, random_selector, random_words
from tests.examples import examples

SELECTORS = examples(2500)
MESSAGES = 40


@pytest.fixture
def random() -> Random:
    """Another one in every run; a failure shows selectors and messages."""
    return Random(SystemRandom().getrandbits(64))


def answer(selector: str, messages: list[Message]) -> Answer:
    """What we say."""
    try:
        parsed = Selector.parse(selector)
    except SelectorError as error:
        return Answer(error=str(error))
    letters = {True: "T", False: "F", None: "N"}
    return Answer(results="".join(letters[parsed.evaluate(message)] for message in messages))


def differences(class_path: str, selectors: list[str], messages: list[Message]) -> list[object]:
    """Selectors with another answer than ActiveMQ's, and the first message that shows it."""
    found = list[object]()
    answers = ask(class_path, selectors, messages)
    assert len({answer.results for answer in answers}) > 20
    for selector, theirs in zip(selectors, answers, strict=True):
        ours = answer(selector, messages)
        if ours.results is None or theirs.results is None:
            if (ours.error is None) != (theirs.error is None):
                found.append((selector, ours, theirs))
            continue
        for message, our, their in zip(messages, ours.results, theirs.results, strict=True):
            if their not in (our, "!"):
                found.append((selector, our, their, dict(message.properties)))
                break
    return found


def test_random_selectors_mean_the_same(class_path: str, random: Random) -> None:
    selectors = [random_selector(random) for _ in range(SELECTORS)]
    assert differences(class_path, selectors, random_messages(random, MESSAGES)) == []


def test_random_words_are_refused_by_both_or_mean_the_same(class_path: str, random: Random) -> None:
    selectors = [words for words in (random_words(random) for _ in range(4 * SELECTORS)) if not _open_comment(words)]
    assert differences(class_path, selectors, random_messages(random, MESSAGES)) == []


def _open_comment(words: str) -> bool:
    try:
        Selector.parse(words)
    except SelectorError as error:
        return error.found.startswith("--")
    return False

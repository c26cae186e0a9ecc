"""A real ActiveMQ as oracle. Its threads race, so it does not always answer the same; ours gives one of its answers."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import TypeVar

__all__ = ["differences"]

Answer = TypeVar("Answer")

#: How often the real one is asked again for what is different.
_TIMES_AGAIN = 2


def differences(
    ours: Mapping[str, Answer],
    real: Mapping[str, Answer],
    ask_again: Callable[[Collection[str]], Mapping[str, Answer]],
    *,
    is_answer: Callable[[Answer], bool] = lambda _: True,
) -> dict[str, tuple[Answer, list[Answer]]]:
    """What ours answers and the real one never did. Ours is not asked again: how its own threads race has to be seen.

    Args:
        ours: by the name of the check.
        real: the real one's answers, by the same names.
        ask_again: asks the real one for these checks; it may answer others too. It must not see what was left before.
        is_answer: whether the real one has answered at all; a check for which it was too late has no answer.

    Returns:
        By the check ours, and all that the real one has answered.

    Raises:
        AssertionError: the checks are not the same.
    """
    assert ours.keys() == real.keys(), sorted(ours.keys() ^ real.keys())
    answers = {name: [answer] for name, answer in real.items()}

    def different() -> dict[str, tuple[Answer, list[Answer]]]:
        return {
            name: (ours[name], given) for name, given in answers.items() if ours[name] not in filter(is_answer, given)
        }

    for _ in range(_TIMES_AGAIN):
        left = different()
        if not left:
            break
        for name, answer in ask_again(sorted(left)).items():
            answers[name].append(answer)
    return different()

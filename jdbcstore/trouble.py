"""What fails and is tried again, over and over: the log says once that it does, and once that it is over."""

from __future__ import annotations

__all__ = ["Trouble"]


class Trouble:
    """Whether something fails just now."""

    __slots__ = ("_failures", "_reason")

    def __init__(self) -> None:
        self._failures = 0
        self._reason = ""

    def goes_on(self, reason: object) -> bool:
        """It has failed once more.

        Args:
            reason: why.

        Returns:
            Whether that is news: it has not failed before, or for another reason.
        """
        known, self._reason = self._reason, str(reason)
        self._failures += 1
        return self._failures == 1 or known != self._reason

    def is_over(self) -> int:
        """It has gone well. Returns how often it had failed before; 0 if that is no news."""
        failures, self._failures = self._failures, 0
        return failures

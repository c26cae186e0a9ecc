"""How many clients there may be, in all and of one address."""

from __future__ import annotations

__all__ = ["Seats"]


class Seats:
    """The clients that are counted.

    Args:
        clients_max: in all.
        per_address_max: of one address.
    """

    __slots__ = ("_by_address", "_count", "_per_address_max", "clients_max")

    def __init__(self, clients_max: int, per_address_max: int) -> None:
        self.clients_max = clients_max
        self._per_address_max = per_address_max
        self._by_address: dict[str, int] = {}
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def take(self, address: str) -> bool:
        """Count a client in; False if it is one too many. `leave` in any case."""
        of_address = self._by_address.get(address, 0)
        is_room = self._count < self.clients_max and of_address < self._per_address_max
        self._count += 1
        self._by_address[address] = of_address + 1
        return is_room

    def leave(self, address: str) -> None:
        """Count a client out."""
        self._count -= 1
        left = self._by_address[address] - 1
        if left:
            self._by_address[address] = left
        else:
            del self._by_address[address]

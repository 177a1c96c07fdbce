"""Takes an input apart: numbers, choices and pieces, read off its bytes one after the other."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeVar

T = TypeVar("T")


class Choices:
    """Reads an input from its beginning; beyond its end all bytes are 0."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._position = 0

    @property
    def left(self) -> int:
        """How many bytes are left."""
        return max(len(self._data) - self._position, 0)

    def take(self, size: int) -> bytes:
        """Return so many bytes."""
        piece = self._data[self._position : self._position + size]
        self._position += size
        return piece.ljust(size, b"\0")

    def number(self, size: int = 1) -> int:
        """Return an unsigned number of so many bytes."""
        return int.from_bytes(self.take(size), "big")

    def one_of(self, values: Sequence[T]) -> T:
        """Return one of at most 65,536 values."""
        return values[self.number(1 if len(values) <= 256 else 2) % len(values)]

    def piece(self) -> bytes:
        """Return bytes with their length (two bytes) before them: as many of them as there are."""
        return self.take(min(self.number(2), self.left))

    def rest(self) -> bytes:
        """Return all that is left."""
        return self.take(self.left)


def pieces(parts: Iterable[bytes]) -> bytes:
    """Make what `Choices.piece` reads, one after the other."""
    return b"".join(len(part).to_bytes(2, "big") + part for part in parts)

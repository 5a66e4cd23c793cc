"""The numbers that `ord` gives to symbols."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

_COMPUTED = 1 << 62  # the numbers of symbols that are computed begin here


class Ordinals:
    """Numbers of symbols from 0 on, as they appear: in the program, then in what is read.

    A symbol that is computed is met in an order that depends on how queries run, so it has a number
    of 62 bits that depends on it alone. Two symbols of one number would be an error.
    """

    def __init__(self, symbols: Iterable[str]) -> None:
        self._numbers: dict[str, int] = {}
        self._computed: dict[int, str] = {}
        self.add(symbols)

    def add(self, symbols: Iterable[str]) -> None:
        """Number the symbols that have no number."""
        for symbol in symbols:
            self._numbers.setdefault(symbol, len(self._numbers))

    def __call__(self, symbol: str) -> int:
        """Give a symbol's number."""
        number = self._numbers.get(symbol)
        if number is None:
            digest = hashlib.blake2b(symbol.encode(), digest_size=8).digest()
            number = _COMPUTED + int.from_bytes(digest) % _COMPUTED
            other = self._computed.setdefault(number, symbol)
            if other != symbol:
                raise ValueError(f"ord of {symbol!r} and of {other!r} would be the same number")
        return number

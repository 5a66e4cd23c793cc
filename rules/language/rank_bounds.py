"""For which ranks and lengths of lists a rule is proved, where that is not for all.

A rule of status `bounded` is one for these only: as a condition of the rule, `Within` keeps it from
being applied elsewhere.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

# "rank(X)", "len(b)" of a list of dimensions or operands, "dim(s, 0)" for the entries of an
# operand that is a list, "outputs(Y)" for the outputs of a node that the pattern doesn't name.
MEASURE = re.compile(r"(rank|len|dim|outputs)\(([^,()]+)(?:, 0)?\)")
Row = tuple[int | None, ...]


@dataclass(frozen=True)
class Within:
    """The combinations of ranks and lengths that were proved.

    `rows` hold a number for each of `names`, None where what is measured is absent. Of a name in
    `beyond` all larger numbers are proved as well, beside the same numbers of the others.
    """

    names: tuple[str, ...]
    rows: frozenset[Row]
    beyond: frozenset[str] = frozenset()

    def __str__(self) -> str:
        if len(self.names) == 1:
            return f"proved for {self.words} only"
        shown = ", ".join(f"[{', '.join(map(str, row))}]" for row in self.listed())
        return f"proved for {', '.join(self.names)} in {shown} only"

    @property
    def words(self) -> str:
        """What was proved: "ranks 0 to 3 of X", or up to which numbers of several names."""
        if len(self.names) == 1:
            return _words(self.names[0], spans(n for (n,) in self.rows if n is not None))
        most = ", ".join(str(self._largest(column)) for column in range(len(self.names)))
        return f"{', '.join(self.names)} up to {most}"

    def holds(self, numbers: Sequence[int | None]) -> bool:
        """Whether these numbers, one for each of `names`, are among those that were proved."""
        row = tuple(
            min(number, self._largest(column))
            if number is not None and name in self.beyond
            else number
            for column, (name, number) in enumerate(zip(self.names, numbers, strict=True))
        )
        return row in self.rows

    def _largest(self, column: int) -> int:
        return max((row[column] or 0 for row in self.rows), default=0)

    def listed(self) -> list[Row]:
        """The rows in order; what is absent comes first."""
        return sorted(self.rows, key=lambda row: [-1 if n is None else n for n in row])


def separate(
    names: Sequence[str], rows: Iterable[Row], beyond: Iterable[str]
) -> tuple[Within, ...]:
    """Say of each name by itself which numbers are proved, where they combine freely.

    A name of which all larger numbers are proved too is left out where nothing depends on it.
    """
    remaining, together = set(rows), list(names)
    independent: list[Within] = []
    lifted = frozenset(beyond)
    for name in names:
        place = together.index(name)
        numbers = {row[place] for row in remaining}
        others = {(*row[:place], *row[place + 1 :]) for row in remaining}
        if len(numbers) * len(others) != len(remaining):
            continue
        if name not in lifted:
            independent.append(Within((name,), frozenset((n,) for n in numbers)))
        together.remove(name)
        remaining = others
    if together:
        independent.append(Within(tuple(together), frozenset(remaining), lifted & set(together)))
    return tuple(independent)


def spans(numbers: Iterable[int]) -> str:
    """Numbers in words: "0 to 3", "2 or 4"."""
    parts: list[tuple[int, int]] = []
    for number in sorted(set(numbers)):
        if parts and parts[-1][1] == number - 1:
            parts[-1] = (parts[-1][0], number)
        else:
            parts.append((number, number))
    return " or ".join(str(a) if a == b else f"{a} to {b}" for a, b in parts)


def measure_of(name: str) -> tuple[str, str]:
    """What a name measures, and of what: "rank", "X"."""
    parts = MEASURE.fullmatch(name)
    assert parts is not None, name
    return parts[1], parts[2]


def _words(name: str, numbers: str) -> str:
    quantity, of = measure_of(name)
    return {
        "rank": f"ranks {numbers} of {of}",
        "len": f"lengths {numbers} of {of}",
        "dim": f"lengths {numbers} of {of}",
        "outputs": f"{numbers} unused outputs of {of}",
    }[quantity]


# ---------------------------------------------------------------------------------- as a record


def as_record(lengths: Iterable[Within]) -> dict[str, list[object]]:
    """As plain values: {"rank(X)": [0, 1, 2], "len(a), len(b)": [[0, 0], [1, 0]]}.

    A name of which all larger numbers are proved too ends with " on".
    """
    record: dict[str, list[object]] = {}
    for within in lengths:
        names = [f"{name} on" if name in within.beyond else name for name in within.names]
        rows = within.listed()
        record[", ".join(names)] = [row[0] if len(names) == 1 else list(row) for row in rows]
    return record


def from_record(record: Mapping[str, object]) -> tuple[Within, ...]:
    """The reverse of `as_record`; ValueError for what it doesn't write."""
    lengths = []
    for key, listed in record.items():
        spelled = re.split(r"(?<=\)),\s|(?<= on),\s", key)
        names = tuple(name.removesuffix(" on") for name in spelled)
        if not all(map(MEASURE.fullmatch, names)) or not isinstance(listed, list):
            raise ValueError(f"{key!r}: {listed!r}")
        rows = [tuple(row) if isinstance(row, list) else (row,) for row in listed]
        for row in rows:
            if len(row) != len(names) or not all(n is None or type(n) is int for n in row):
                raise ValueError(f"{key!r}: {listed!r}")
        beyond = {n for n, text in zip(names, spelled, strict=True) if text.endswith(" on")}
        lengths.append(Within(names, frozenset(rows), frozenset(beyond)))
    return tuple(lengths)

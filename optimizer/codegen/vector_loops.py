"""The innermost loop of a kernel: cells side by side, and what is reduced over them.

Functions of circular.h have a rare case that no vector has. So the loop around such a call is made
several: one computes the arguments, each_sin_64 or one like it the function, and another the rest,
which reads what it gave. A compiler leaves out of each what nothing there needs.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from .expressions import C_TYPES, SUFFIXES, Reduction

# Elements at a time: what a call costs is little beside them, and a thread's stack has room.
MOST = 256
_CALL = re.compile(r"\b(sin|cos|tan)_(32|64)\(")
_DECLARED = re.compile(r"const (?:float|double) (\w+) = ")
_TYPES = {"32": "float", "64": "double"}


@dataclass(frozen=True)
class _Call:
    """A call whose argument has no other in it: in line number `line`, from `start` to `end`."""

    line: int
    start: int
    end: int
    function: str
    bits: str
    argument: str


def split(variable: str, first: str, end: str, body: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return what computes the functions of elements `first` to `end`, and the body that reads it.

    `body` are the statements for element `variable`, of which those that begin with `const` declare
    what others read; without such a call it is returned as it is. At most MOST elements.
    """
    lines, before = list(body), []
    arguments: dict[tuple[str, str], str] = {}
    mark = _first(lines)
    while mark is not None:
        kind, key = _TYPES[mark.bits], (mark.argument, mark.bits)
        place = f"[{variable} - ({first})]"
        if key not in arguments:
            name = arguments[key] = f"each_x{len(arguments)}"
            constant_lines = [line for line in lines[: mark.line] if line.startswith("const ")]
            before += [
                f"{kind} {name}[{MOST}] __attribute__((aligned(64)));",
                "#pragma omp simd",
                f"for (i64 {variable} = {first}; {variable} < {end}; {variable}++) {{",
                *(f"  {line}" for line in constant_lines),
                f"  {name}{place} = {mark.argument};",
                "}",
            ]
            lines = [_reading_element(line, mark.argument, f"{name}{place}") for line in lines]
            mark = _first(lines)
            assert mark is not None
        name, results = arguments[key], f"each_y{len(before)}"
        before += [
            f"{kind} {results}[{MOST}] __attribute__((aligned(64)));",
            f"each_{mark.function}_{mark.bits}({name}, {results}, ({end}) - ({first}));",
        ]
        line = lines[mark.line]
        lines[mark.line] = line[: mark.start] + results + place + line[mark.end :]
        mark = _first(lines)
    return before, lines


def _reading_element(line: str, argument: str, element: str) -> str:
    """Read an argument where it was computed anew, so that it isn't in both loops."""
    declared = _DECLARED.match(line)
    if declared is None or declared[1] != argument:
        return line
    return f"{declared[0]}{element};"


def _first(lines: Sequence[str]) -> _Call | None:
    for number, line in enumerate(lines):
        for call in _CALL.finditer(line):
            end = _closed(line, call.end())
            argument = line[call.end() : end - 1]
            if not _CALL.search(argument):
                return _Call(number, call.start(), end, call[1], call[2], argument)
    return None


def _closed(line: str, position: int) -> int:
    """Return the place behind the parenthesis that was opened before `position`."""
    depth = 1
    while depth:
        depth += {"(": 1, ")": -1}.get(line[position], 0)
        position += 1
    return position


# The value of a reduction over nothing.
IDENTITY = {"sum": "0", "prod": "1", "max": "-INFINITY", "min": "INFINITY"}


@dataclass(frozen=True)
class Fold:
    """A reduction over the cells of a loop, into local variables that `declare` declares.

    Comparisons lose a NaN; so the least and the greatest element remember that there was one. The
    sums of lanes go into the double `lanes_into`, if it is named: all of them in the accumulator
    would be rounded once more.
    """

    reduction: Reduction
    lanes_into: str = ""

    @property
    def name(self) -> str:
        """The accumulator."""
        return f"s{self.reduction.node}"

    @property
    def c_type(self) -> str:
        """The accumulator's type."""
        return C_TYPES[self.reduction.dtype]

    def declare(self) -> str:
        """Return the declarations, at the identity."""
        text = f"{self.c_type} {self.name} = {IDENTITY[self.reduction.kind]};"
        return text + (f" {self._flag} n{self.name} = 0;" if self._compares else "")

    def clause(self) -> str:
        """Return the clauses of the loop's pragma."""
        symbol = {"sum": "+", "prod": "*"}.get(self.reduction.kind, self.reduction.kind)
        text = f" reduction({symbol}:{self.name})"
        return text + (f" reduction(|:n{self.name})" if self._compares else "")

    def step(self) -> str:
        """Return the statement inside of the loop."""
        return self._step(self.name)

    def declare_lanes(self, count: str) -> list[str]:
        """Return the declarations of as many accumulators, at the identity."""
        loop_head = f"for (i64 j = 0; j < {count}; j++)"
        lines = [f"{self.c_type} q{self.name}[{count}];"]
        lines.append(f"{loop_head} q{self.name}[j] = {IDENTITY[self.reduction.kind]};")
        flags = f"{self._flag} nq{self.name}[{count}] = {{0}};"
        return [*lines, flags] if self._compares else lines

    def step_lanes(self, lane: str = "j") -> str:
        """Return the statement inside of the loop, into an accumulator."""
        return self._step(f"q{self.name}[{lane}]")

    def _step(self, name: str) -> str:
        """Return the statement that takes an element into an accumulator."""
        kind, body = self.reduction.kind, self.reduction.body
        if self._compares:
            order = "<" if kind == "max" else ">"
            return (
                f"{{ const {self.c_type} t = {body}; "
                f"{name} = {name} {order} t ? t : {name}; n{name} |= t != t; }}"
            )
        return f"{name} {'+' if kind == 'sum' else '*'}= {body};"

    def gather_lanes(self, count: str) -> list[str]:
        """Return the statements that reduce the accumulators to the one of `result`."""
        return [self.declare(), f"for (i64 j = 0; j < {count}; j++) {self.join_lanes('j')}"]

    def join_lanes(self, lane: str) -> str:
        """Return the statement that takes the accumulator of a lane into where results go."""
        if self.lanes_into:
            return f"{self.lanes_into} += q{self.name}[{lane}];"
        fold = Fold(replace(self.reduction, body=f"q{self.name}[{lane}]"))
        flags = f" n{self.name} |= nq{self.name}[{lane}];" if self._compares else ""
        return f"{{ {fold.step()}{flags} }}"

    def lane_clause(self) -> str:
        """Return the clauses of the pragma of a loop over lanes."""
        return f" reduction(+:{self.lanes_into})" if self.lanes_into else self.clause()

    def result(self) -> str:
        """Return the reduced value."""
        if self._compares:
            nan = f"({self.c_type})NAN"
            return f"(n{self.name} ? {nan} : {self.name})"
        return self.name

    @property
    def _flag(self) -> str:
        """An integer as wide as the elements, so that both fill as many lanes."""
        return "int32_t" if self.reduction.dtype == "float32" else "i64"

    @property
    def _compares(self) -> bool:
        return self.reduction.kind in ("max", "min")


def combine(kind: str, dtype: str, first: str, other: str) -> str:
    """Return two reduced values as one."""
    if kind in ("max", "min"):
        return f"{kind}_{SUFFIXES[dtype]}({first}, {other})"
    return f"{first} {'+' if kind == 'sum' else '*'} {other}"


@dataclass(frozen=True)
class OverTiles:
    """What the tiles of a loop are reduced to: the variable `prefix` with the reduction's number.

    Sums are `compensated` (`total` of common.h), or doubles like other results.
    """

    fold: Fold
    prefix: str
    compensated: bool = True

    @property
    def name(self) -> str:
        """The variable."""
        return f"{self.prefix}{self.fold.reduction.node}"

    @property
    def _is_total(self) -> bool:
        return self.compensated and self.fold.reduction.kind == "sum"

    def declare(self) -> str:
        """Return the declaration, at the identity."""
        if self._is_total:
            return f"total {self.name} = {{0, 0}};"
        return f"double {self.name} = {IDENTITY[self.fold.reduction.kind]};"

    def collect(self) -> str:
        """Return the statement that takes a tile's result into it."""
        if self._is_total:
            return f"add(&{self.name}, {self.fold.result()});"
        kind = self.fold.reduction.kind
        return f"{self.name} = {combine(kind, 'float64', self.name, self.fold.result())};"

    @property
    def folded(self) -> Fold:
        """The fold of a tile."""
        if self.compensated or self.fold.reduction.kind != "sum":
            return self.fold
        return replace(self.fold, lanes_into=self.name)

    @property
    def value(self) -> str:
        """Its value, a double."""
        return f"value({self.name})" if self._is_total else self.name


def simd_loop(
    variable: str,
    first: str,
    end: str,
    body: Sequence[str],
    folds: Sequence[Fold],
    indent: str,
    lanes: str = "",
) -> list[str]:
    """Return a loop whose steps don't depend on each other, but for the folds.

    So many `lanes` are computed at a time, each with accumulators of its own: a vector waits for
    its own last sum, and by themselves compilers keep one of them. For little work, which fits the
    registers so often; without that is left to the compiler.
    """
    before, rest = split(variable, "each_from", "each_to", [*body, *(f.step() for f in folds)])
    if before:
        few = _loop(variable, "each_from", "each_to", rest, folds)
        lines = [
            f"for (i64 each_from = {first}; each_from < {end}; each_from += {MOST}) {{",
            f"  const i64 each_to = LEAST(each_from + {MOST}, {end});",
            *(f"  {line}" for line in [*before, *few]),
            "}",
        ]
    elif lanes:
        lines = _by_lanes(variable, first, end, body, folds, lanes)
    else:
        lines = _loop(variable, first, end, rest, folds)
    return [f"{indent}{line}" for line in lines]


def _by_lanes(
    variable: str,
    first: str,
    end: str,
    body: Sequence[str],
    folds: Sequence[Fold],
    lanes: str,
) -> list[str]:
    """Return a loop of steps that are vectors of known number, unrolled, and one for the rest."""
    begin = f"{variable}_from"
    rest = _loop(variable, begin, end, [*body, *(fold.step() for fold in folds)], folds)
    joined: list[str] = []
    if folds:
        clauses = "".join(fold.lane_clause() for fold in folds)
        statements = [fold.join_lanes("lane") for fold in folds]
        joined = _loop_with(clauses, "lane", "0", lanes, statements)
    return [
        "{",
        f"  i64 {begin} = {first};",
        *(f"  {line}" for fold in folds for line in fold.declare_lanes(lanes)),
        f"  for (; {begin} + {lanes} <= {end}; {begin} += {lanes}) {{",
        "    #pragma omp simd",
        f"    for (i64 lane = 0; lane < {lanes}; lane++) {{",
        f"      const i64 {variable} = {begin} + lane;",
        *(f"      {line}" for line in [*body, *(fold.step_lanes("lane") for fold in folds)]),
        "    }",
        "  }",
        *(f"  {line}" for line in [*rest, *joined]),
        "}",
    ]


def _loop(
    variable: str, first: str, end: str, body: Sequence[str], folds: Sequence[Fold]
) -> list[str]:
    return _loop_with("".join(fold.clause() for fold in folds), variable, first, end, body)


def _loop_with(clauses: str, variable: str, first: str, end: str, body: Sequence[str]) -> list[str]:
    return [
        f"#pragma omp simd{clauses}",
        f"for (i64 {variable} = {first}; {variable} < {end}; {variable}++) {{",
        *(f"  {line}" for line in body),
        "}",
    ]


def tile(
    variable: str,
    first: str,
    end: str,
    body: Sequence[str],
    wholes: Sequence[OverTiles],
    indent: str,
    lanes: str = "",
) -> list[str]:
    """Return the loop over a tile, whose results are taken into what all tiles are reduced to."""
    folds = [whole.folded for whole in wholes]
    return [
        *(f"{indent}{fold.declare()}" for fold in folds),
        *simd_loop(variable, first, end, body, folds, indent, lanes),
        *(f"{indent}{whole.collect()}" for whole in wholes),
    ]


def tiles(
    variable: str,
    first: str,
    end: str,
    body: Sequence[str],
    wholes: Sequence[OverTiles],
    indent: str,
    lanes: str = "",
) -> list[str]:
    """Return the same for each TILE of a loop."""
    return [
        f"{indent}for (i64 start = {first}; start < {end}; start += TILE) {{",
        f"{indent}  const i64 stop = LEAST(start + TILE, {end});",
        *tile(variable, "start", "stop", body, wholes, f"{indent}  ", lanes),
        f"{indent}}}",
    ]

"""Records and algebraic data types: their types, and how their values are kept, read and spelled.

Souffle numbers records in a table and compares the numbers. Here a value is its contents, as JSON:
[1,"a"] for a record, null for nil, ["Branch",1] for a branch. Equal contents have equal text, so
that joins, sets and recursions need no table; floats are texts inside, since JSON knows no
infinity. Values of any depth are read and spelled without recursion.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TypeVar

from ...terms.syntax_tree import Place, walk
from .syntax import DatalogError, Expression, Functor, TypeDeclaration, Wildcard

RECORD, NIL, BRANCH = "[]", "nil", "$"  # how functors that build values are called
Value = None | int | float | str | tuple[object, ...]


@dataclass(frozen=True)
class Structure:
    """A record type, whose one branch has no name, or an algebraic type: kinds of its fields."""

    name: str
    branches: Mapping[str, tuple[str, ...]]

    @property
    def is_record(self) -> bool:
        """Whether its values are records or nil."""
        return "" in self.branches


Structures = Mapping[str, Structure]


def builds(node: Expression) -> bool:
    """Say whether an expression is a record, nil or a branch."""
    return isinstance(node, Functor) and (node.name in (RECORD, NIL) or node.name[0] == BRANCH)


def is_pattern(node: Expression) -> bool:
    """Say whether a structure holds an underscore, so that it has no value."""
    return any(isinstance(part, Wildcard) for part in walk(node))


def fields(node: Functor) -> Iterator[tuple[int, Expression]]:
    """Visit the fields of a structure with their places in its JSON."""
    return enumerate(node.arguments, node.name[0] == BRANCH)


def declared(
    types: Mapping[str, TypeDeclaration], kinds: Mapping[str, str]
) -> dict[str, Structure]:
    """Give the structures among declared types; raises DatalogError for fields without type."""
    structures: dict[str, Structure] = {}
    places: dict[str, Place] = {}
    for declaration in types.values():
        if not declaration.branches:
            continue
        for branch in declaration.branches:
            if branch.name and branch.name in places:
                raise DatalogError.at(
                    branch.position,
                    f"branch {branch.name} is declared twice (first in line "
                    f"{places[branch.name].line})",
                )
            places[branch.name] = branch.position
            names: set[str] = set()
            for field in branch.attributes:
                if field.type_name not in kinds:
                    raise DatalogError.at(field.position, f"type {field.type_name} is not defined")
                if field.name in names:
                    raise DatalogError.at(
                        field.position, f"type {declaration.name} has two fields named {field.name}"
                    )
                names.add(field.name)
        branches = {
            b.name: tuple(kinds[f.type_name] for f in b.attributes) for b in declaration.branches
        }
        structures[declaration.name] = Structure(declaration.name, branches)
    return structures


# -- values


@dataclass
class _Open:
    """A structure whose fields are being read: the kinds still to come, and what is there."""

    kinds: list[str]
    items: list[object]


def decode(text: str, kind: str, structures: Structures) -> Value:
    """Read the JSON of a value: records and branches as tuples, nil as None.

    A branch's tuple begins with its name. Raises ValueError for text that is no value of the kind.
    """
    tokens = _JSON.finditer(text)
    stack: list[_Open] = []
    wanted = kind
    while True:
        token = next(tokens, None)
        word = token.group(1) if token else ""
        value: object
        if wanted in structures and word == "[":
            structure = structures[wanted]
            opened = _Open([], [])
            if structure.is_record:
                opened.kinds = list(structure.branches[""])
            else:
                token = next(tokens, None)
                name = json.loads(token.group(1)) if token and token.group(1)[0] == '"' else ""
                if name not in structure.branches:
                    raise ValueError(f"no branch of {wanted}")
                opened = _Open(list(structure.branches[name]), [name])
            stack.append(opened)
        else:
            value = _scalar(word, wanted, structures)
            if not stack:
                break
            stack[-1].items.append(value)
        while stack and not stack[-1].kinds:
            token = next(tokens, None)
            if token is None or token.group(1) != "]":
                raise ValueError("a structure has too many fields")
            value = tuple(stack.pop().items)
            if not stack:
                break
            stack[-1].items.append(value)
        if not stack:
            break
        if stack[-1].items:
            token = next(tokens, None)
            if token is None or token.group(1) != ",":
                raise ValueError("a structure has too few fields")
        wanted = stack[-1].kinds.pop(0)
    if next(tokens, None) is not None:
        raise ValueError("text follows a value")
    return value  # type: ignore[return-value]


_JSON = re.compile(r'\s*("(?:[^"\\]|\\.)*"|[\[\],]|[^\s\[\],"]+|")', re.DOTALL)


def _scalar(word: str, kind: str, structures: Structures) -> object:
    structure = structures.get(kind)
    if structure is not None:
        if structure.is_record and word == "null":
            return None
        raise ValueError(f"no value of {kind}")
    if kind in ("symbol", "float"):
        text = json.loads(word) if word[:1] == '"' else None
        if not isinstance(text, str):
            raise ValueError(f"no {kind}")
        return text if kind == "symbol" else float(text)
    least = -(1 << 63) if kind == "number" else 0
    if not re.fullmatch(r"-?[0-9]+", word) or not 0 <= int(word) - least < 1 << 64:
        raise ValueError(f"no {kind}")
    return int(word)


def encode(value: object, kind: str, structures: Structures) -> str:
    """Write a value, as `decode` gives it, as JSON; raises ValueError for any other."""
    return _written(value, kind, structures, _AS_JSON)


def spell(value: object, kind: str, structures: Structures, symbol: Callable[[str], str]) -> str:
    """Spell a value as Souffle prints it: [1, x], nil, $Branch(1, 2), $Leaf."""
    form = _Form(", ", lambda name: (f"${name}(", ")") if name else ("[", "]"), "nil", {})
    form.scalars = {
        "symbol": lambda v: symbol(_typed(v, str)),
        "float": lambda v: spell_float(_typed(v, float)),
        **dict.fromkeys(("number", "unsigned"), str),
    }
    return _written(value, kind, structures, form)


@dataclass
class _Form:
    """A notation: what is between fields and around them, nil, and how scalars look."""

    comma: str
    around: Callable[[str], tuple[str, str]]
    nil: str
    scalars: dict[str, Callable[[object], str]]


_T = TypeVar("_T")


def _typed(value: object, wanted: type[_T]) -> _T:
    if not isinstance(value, wanted) or isinstance(value, bool):
        raise ValueError(f"{value!r} is no {wanted.__name__}")
    return value


def _integer(value: object, least: int) -> str:
    number = _typed(value, int)
    if not 0 <= number - least < 1 << 64:
        raise ValueError(f"{number} does not fit in 64 bits")
    return str(number)


def _json_branch(name: str) -> tuple[str, str]:
    return (f"[{json.dumps(name)}", "]") if name else ("[", "]")


_AS_JSON = _Form(
    ",",
    _json_branch,
    "null",
    {
        "symbol": lambda v: json.dumps(_typed(v, str), ensure_ascii=False),
        "float": lambda v: json.dumps(repr(_typed(v, float))),
        "number": lambda v: _integer(v, -(1 << 63)),
        "unsigned": lambda v: _integer(v, 0),
    },
)


def _written(value: object, kind: str, structures: Structures, form: _Form) -> str:
    out: list[str] = []
    # What is still to be written, last first: text, or a value with its kind.
    work: list[str | tuple[object, str]] = [(value, kind)]
    while work:
        item = work.pop()
        if isinstance(item, str):
            out.append(item)
            continue
        value, kind = item
        structure = structures.get(kind)
        if structure is None:
            out.append(form.scalars[kind](value))
            continue
        if value is None and structure.is_record:
            out.append(form.nil)
            continue
        parts = list(_typed(value, tuple))
        name = "" if structure.is_record else _typed(parts.pop(0) if parts else None, str)
        kinds = structure.branches.get(name)
        if kinds is None or len(kinds) != len(parts):
            raise ValueError(f"{value!r} is no {structure.name}")
        begin, end = form.around(name)
        if name and not kinds and form is not _AS_JSON:
            out.append(f"${name}")
            continue
        out.append(begin)
        work.append(end)
        for place in range(len(parts) - 1, -1, -1):
            work.append((parts[place], kinds[place]))
            if place or (name and form is _AS_JSON):
                work.append(form.comma)
    return "".join(out)


def spell_float(value: float) -> str:
    """Spell a float with 17 significant digits, as Souffle's writer does."""
    if math.isnan(value):
        return "-nan" if math.copysign(1.0, value) < 0 else "nan"
    return f"{value:.17g}"


# -- reading what is spelled

_SPACE = re.compile(r"\s*")
_NAME = re.compile(r"[A-Za-z_?][\w?.]*")
_NUMBER = re.compile(r"[+-]?[0-9A-Za-z.]+(?:(?<=[eE])[+-][0-9]+)?")
_QUOTED = re.compile(r'"((?:[^"\\]|\\.)*)"', re.DOTALL)


def read(
    text: str,
    kind: str,
    structures: Structures,
    scalar: Callable[[str, str], int | float | None],
) -> str:
    """Read a value as Souffle prints it, and give its JSON; raises ValueError.

    `scalar` reads a number of a kind. A symbol goes up to the next comma or bracket, or is quoted.
    """
    stack: list[tuple[_Open, str]] = []
    position, wanted = _SPACE.match(text, 0).end(), kind  # type: ignore[union-attr]
    while True:
        value: object
        opened = _opened(text, position, wanted, structures)
        if opened is not None:
            fields_of, closing, position = opened
            if closing:
                stack.append((fields_of, closing))
            else:
                value = tuple(fields_of.items)
        elif wanted in structures:
            if not (structures[wanted].is_record and text.startswith("nil", position)):
                raise ValueError(f"no {wanted} at {text[position : position + 20]!r}")
            value, position = None, position + 3
        else:
            value, position = _read_scalar(text, position, wanted, stack[-1][1], scalar)
        if opened is None or not opened[1]:
            if not stack:
                break
            stack[-1][0].items.append(value)
        while stack and not stack[-1][0].kinds:
            position = _SPACE.match(text, position).end()  # type: ignore[union-attr]
            done, closing = stack.pop()
            if not text.startswith(closing, position):
                raise ValueError(f"{closing!r} is missing at {text[position : position + 20]!r}")
            value, position = tuple(done.items), position + 1
            if not stack:
                break
            stack[-1][0].items.append(value)
        if not stack:
            break
        position = _SPACE.match(text, position).end()  # type: ignore[union-attr]
        top = stack[-1][0]
        if top.items[1 if stack[-1][1] == ")" else 0 :]:
            if not text.startswith(",", position):
                raise ValueError(f"',' is missing at {text[position : position + 20]!r}")
            position = _SPACE.match(text, position + 1).end()  # type: ignore[union-attr]
        wanted = top.kinds.pop(0)
    if text[position:].strip():
        raise ValueError(f"text follows a value: {text[position : position + 20]!r}")
    return encode(value, kind, structures)


def _opened(
    text: str, position: int, kind: str, structures: Structures
) -> tuple[_Open, str, int] | None:
    """Read where a structure begins: its fields to come, what closes it, and where they start."""
    structure = structures.get(kind)
    if structure is None:
        return None
    if structure.is_record:
        if not text.startswith("[", position):
            return None
        start = _SPACE.match(text, position + 1).end()  # type: ignore[union-attr]
        return _Open(list(structure.branches[""]), []), "]", start
    name = _NAME.match(text, position + 1) if text.startswith(BRANCH, position) else None
    if name is None or name.group() not in structure.branches:
        raise ValueError(f"no branch of {kind} at {text[position : position + 20]!r}")
    kinds = list(structure.branches[name.group()])
    after = _SPACE.match(text, name.end()).end()  # type: ignore[union-attr]
    if not text.startswith("(", after):
        if kinds:
            raise ValueError(f"'(' is missing at {text[after : after + 20]!r}")
        return _Open([], [name.group()]), "", name.end()
    start = _SPACE.match(text, after + 1).end()  # type: ignore[union-attr]
    return _Open(kinds, [name.group()]), ")", start


def _read_scalar(
    text: str,
    position: int,
    kind: str,
    closing: str,
    scalar: Callable[[str, str], int | float | None],
) -> tuple[object, int]:
    if kind == "symbol":
        quoted = _QUOTED.match(text, position)
        if quoted:
            return re.sub(r"\\(.)", r"\1", quoted.group(1), flags=re.DOTALL), quoted.end()
        end = position
        while end < len(text) and text[end] not in f",{closing}":
            end += 1
        return text[position:end], end
    word = _NUMBER.match(text, position)
    value = scalar(word.group(), kind) if word else None
    if word is None or value is None:
        raise ValueError(f"no {kind} at {text[position : position + 20]!r}")
    return value, word.end()

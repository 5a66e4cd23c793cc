"""Operator specifications by name and operator set, with what is derived from their text."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from importlib import resources
from typing import TYPE_CHECKING, Any

from ..errors import TensologError
from ..terms.index_notation import Term
from .classes import Classification, classifications
from .derive import bytes_moved, element_types, operations, sparse_safe_inputs
from .expand import Expansion, RankError, Shape, expand
from .functions import ShapeError, UnknownNumberError
from .parsed import parsed
from .parser import SpecificationError
from .syntax import Function, Opaque, Operator

if TYPE_CHECKING:
    import numpy.typing as npt

_STATEMENT = re.compile(r"^(op|def|opaque)\s+([\w.]+)", re.MULTILINE)


class OpaqueOperatorError(TensologError):
    """An operator whose meaning is not specified was asked for it."""


@dataclass(frozen=True)
class Specification:
    """What one version of an operator means; `opaque` says why it has no meaning here."""

    domain: str
    op_type: str
    opset: int
    blocks: tuple[Operator, ...]
    opaque: str | None = None

    @property
    def kind(self) -> str:
        """The operator's class: elementwise, contraction, reduction, movement, …"""
        return self._classification.kind

    @property
    def commutative(self) -> bool:
        """Whether the operands may be permuted."""
        return self._classification.commutative(self.opset)

    @property
    def _classification(self) -> Classification:
        return classifications().get((self.domain, self.op_type), Classification())

    @cached_property
    def hash(self) -> str:
        """A hash of all text that the meaning depends on, shared functions included."""
        texts = [block.text for block in self.blocks]
        text = "\n".join([*texts, *_called(texts), self.opaque or ""])
        return hashlib.sha256(text.encode()).hexdigest()

    def expand(
        self,
        shapes: Sequence[Shape | None],
        attributes: Mapping[str, object] | None = None,
        *,
        values: Mapping[int, object] | None = None,
        outputs: int | None = None,
    ) -> Expansion:
        """Return shapes and values as terms; dimensions are numbers or names of unknown ones.

        `values` holds the contents of inputs that must be known (axes, a new shape), by position;
        `outputs` says how many outputs the node has. Raises ShapeError where nothing fits.
        """
        if self.opaque is not None:
            raise OpaqueOperatorError(f"{self.op_type} is opaque: {self.opaque}")
        refusal: RankError | None = None
        for block in self.blocks:
            try:
                return expand(block, functions(), shapes, attributes or {}, values or {}, outputs)
            except RankError as error:
                refusal = refusal or error
            except (TypeError, IndexError, ValueError, AttributeError) as error:
                kind = UnknownNumberError if isinstance(error, TypeError) else ShapeError
                raise kind(
                    f"{self.op_type}: an attribute or an input of the wrong kind ({error})"
                ) from error
        raise ShapeError(str(refusal))

    def shapes(
        self,
        shapes: Sequence[Shape | None],
        attributes: Mapping[str, object] | None = None,
        *,
        values: Mapping[int, object] | None = None,
        outputs: int | None = None,
    ) -> list[tuple[Term, ...]]:
        """Return the shapes of the outputs; see expand for the arguments and errors."""
        expansion = self.expand(shapes, attributes, values=values, outputs=outputs)
        return [output.shape for output in expansion.outputs]

    def types(
        self,
        types: Sequence[str | None],
        shapes: Sequence[Shape | None],
        attributes: Mapping[str, object] | None = None,
        *,
        values: Mapping[int, object] | None = None,
        outputs: int | None = None,
    ) -> list[str]:
        """Return the outputs' element types ("float32"), from those of the inputs by position."""
        expansion = self.expand(shapes, attributes, values=values, outputs=outputs)
        return element_types(expansion, types)

    def evaluate(
        self,
        inputs: Sequence[npt.NDArray[Any] | None],
        attributes: Mapping[str, object] | None = None,
        *,
        outputs: int | None = None,
    ) -> list[npt.NDArray[Any]]:
        """Return the outputs for arrays; None is an absent input. Raises ShapeError."""
        from .evaluate import evaluate

        values = {
            position: array.tolist()
            for position, array in enumerate(inputs)
            if array is not None and position in self.known_inputs
        }
        shapes = [None if array is None else array.shape for array in inputs]
        expansion = self.expand(shapes, attributes, values=values, outputs=outputs)
        return evaluate(expansion, inputs)

    @cached_property
    def known_inputs(self) -> frozenset[int]:
        """Positions of the inputs whose contents must be known: axes, shapes, pads."""
        return frozenset(
            position
            for block in self.blocks
            for position, declared in enumerate(block.inputs)
            if declared.kind != "tensor"
        )

    def flops(
        self,
        shapes: Sequence[Shape | None],
        attributes: Mapping[str, object] | None = None,
        *,
        values: Mapping[int, object] | None = None,
        outputs: int | None = None,
    ) -> Term:
        """Return the number of primitives applied to elements; a MatMul has 2 m n k."""
        return operations(self.expand(shapes, attributes, values=values, outputs=outputs))

    def bytes(
        self,
        shapes: Sequence[Shape | None],
        attributes: Mapping[str, object] | None = None,
        *,
        element_bytes: int = 4,
        values: Mapping[int, object] | None = None,
        outputs: int | None = None,
    ) -> Term:
        """Return the bytes of inputs and outputs, each touched once."""
        expansion = self.expand(shapes, attributes, values=values, outputs=outputs)
        return bytes_moved(expansion, element_bytes)

    @cached_property
    def sparse_safe(self) -> tuple[str, ...]:
        """Inputs whose zeros make the output 0, without optional inputs, at default attributes."""
        for block in self.blocks:
            inputs = sparse_safe_inputs(block, functions())
            if inputs is not None:
                return inputs
        return ()


@dataclass(frozen=True)
class _Statement:
    kind: str
    name: str
    path: str
    line: int
    text: str


@cache
def _statements() -> tuple[_Statement, ...]:
    """Return the texts of all statements, unparsed."""
    statements: list[_Statement] = []
    for file in sorted(resources.files(__package__).iterdir(), key=lambda entry: entry.name):
        if not file.name.endswith(".ops") or file.name == "classes.ops":
            continue
        text = file.read_text(encoding="utf-8")
        starts = list(_STATEMENT.finditer(text))
        for number, start in enumerate(starts):
            end = starts[number + 1].start() if number + 1 < len(starts) else len(text)
            line = text.count("\n", 0, start.start()) + 1
            body = text[start.start() : end]
            statements.append(_Statement(start[1], start[2], file.name, line, body))
    return tuple(statements)


@cache
def _by_name() -> Mapping[str, tuple[_Statement, ...]]:
    statements: dict[str, tuple[_Statement, ...]] = {}
    for statement in _statements():
        if statement.kind != "def":
            statements[statement.name] = (*statements.get(statement.name, ()), statement)
    return statements


def _called(texts: Sequence[str]) -> list[str]:
    """Return the texts of the functions that texts call, directly or not, by name."""
    defined = {
        statement.name: statement.text for statement in _statements() if statement.kind == "def"
    }
    called: dict[str, str] = {}
    waiting = list(texts)
    while waiting:
        for name in re.findall(r"(\w+)\(", waiting.pop()):
            if name in defined and name not in called:
                called[name] = defined[name]
                waiting.append(called[name])
    return [called[name] for name in sorted(called)]


@cache
def functions() -> Mapping[str, Function]:
    """Return the functions that specifications share."""
    defined: dict[str, Function] = {}
    for statement in _statements():
        if statement.kind == "def":
            function = parsed(statement.text, statement.path, statement.line)
            assert isinstance(function, Function)
            if function.name in defined:
                raise SpecificationError(function.place, f"{function.name} is defined already")
            defined[function.name] = function
    return defined


@cache
def texts(name: str, domain: str = "") -> tuple[Operator | Opaque, ...]:
    """Return all blocks of text of an operator, of every operator set; none: ()."""
    from .check import check

    blocks: list[Operator | Opaque] = []
    for statement in _by_name().get(f"{domain}.{name}" if domain else name, ()):
        block = parsed(statement.text, statement.path, statement.line)
        assert isinstance(block, Operator | Opaque)
        if isinstance(block, Operator):
            check(block, functions())
        blocks.append(block)
    return tuple(blocks)


@cache
def specification(domain: str, op_type: str, opset: int) -> Specification | None:
    """Return what an operator means in operator set `opset`; None where nothing is said of it.

    Only the text of that operator is parsed, when it is first asked for.
    """
    domain = "" if domain == "ai.onnx" else domain
    blocks = []
    for statement in texts(op_type, domain):
        if isinstance(statement, Opaque):
            return Specification(domain, op_type, opset, (), statement.reason)
        if statement.opset_from <= opset and (
            statement.opset_to is None or opset <= statement.opset_to
        ):
            blocks.append(statement)
    return Specification(domain, op_type, opset, tuple(blocks)) if blocks else None


@cache
def specified(domain: str = "") -> tuple[str, ...]:
    """Return the names of a domain's operators with a specification, opaque ones included."""
    stated = [name.rpartition(".") for name in _by_name()]
    return tuple(sorted(name for where, _, name in stated if where == domain))

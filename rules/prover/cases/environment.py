"""One side of a rule in one case: the names, tensors and lists of which something is known."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace

from ....catalog.operators.derive import integer_range
from ....catalog.terms.index_notation import Term, is_integer
from ....catalog.terms.syntax_tree import Expression
from ...language.functions import UnknownError
from ...language.syntax import Rule, Star
from .axis_notation import NotationMattersError, Notations, names_in, parts
from .composition import Composition, algebra_of, described
from .enumeration import NoCaseError
from .symbolic_expressions import NoTermError, Progression, TermExpressions, Value


class Environment(TermExpressions):
    """Names, tensors and lists of one case, as far as they are known."""

    def __init__(self, rule: Rule, composition: Composition) -> None:
        self.rule = rule
        self.composition = composition
        self.names: dict[str, Value] = {}
        self.lists: dict[str, list[str]] = {}
        self.rests: dict[str, dict[str, Value]] = {}
        self.absent: set[str] = set()
        self.side_conditions: list[Term] = []
        self.progressions: dict[str, Progression] = {}
        self.ways = Notations()

    # ------------------------------------------------------------------ what expressions ask

    def shape_of(self, name: str) -> tuple[Term, ...]:
        """The shape of a tensor."""
        if name not in self.composition.tensors:
            raise UnknownError
        return self.composition.tensors[name].shape

    def dtype_of(self, name: str) -> str:
        """The element type of a tensor."""
        if name not in self.composition.tensors:
            raise UnknownError
        return self.composition.tensors[name].dtype

    def integers_of(self, name: str) -> tuple[Term, ...] | Progression:
        """The elements of a constant, or what it counts as where it is absent."""
        default = self.rule.operand(name).default
        if name in self.absent and default is not None:
            value = self.value(default)
            return value if isinstance(value, tuple) else (value,)
        if name in self.progressions:
            return self.progressions[name].written_out()
        tensor = self.composition.tensors.get(name)
        if tensor is None:
            raise UnknownError
        if tensor.contents is None:
            raise NoTermError
        return tensor.contents

    def shapes_of(self, name: str) -> tuple[tuple[Term, ...], ...]:
        """The shapes of the tensors that `*name` stands for."""
        if name not in self.lists:
            raise UnknownError
        return tuple(self.shape_of(tensor) for tensor in self.lists[name])

    def take_for_granted(self, term: Term) -> None:
        """Keep what must hold for the value that is being computed to be known."""
        if term is not True:
            self.side_conditions.append(term)

    def value(self, expression: Expression) -> Value:
        """The value of an expression in this case."""
        self.see(expression)
        return self.evaluate(expression)

    def holds(self, expression: Expression) -> Term:
        """The value of a condition as a truth value."""
        self.see(expression)
        term: Term = self.condition(expression)
        return term

    def compute(self, expression: Expression) -> None:
        """See whether there is a value, whichever it is; UnknownError where there is none."""
        leaders = self.ways.leaders(names_in(expression))
        self.ways.require_same(leaders, lambda way: len(self._written(way, expression)) > 0)
        self.evaluate(expression)

    def spliced(self, items: tuple[Expression, ...]) -> tuple[Value, ...]:
        """The values of list items."""
        for item in items:
            self.see(item)
        return self.entries(items)

    # -------------------------------------------------------------- however axes are written

    def see(self, expression: Expression) -> None:
        """See that an expression has one value however axes are written; else MattersError."""
        leaders = self.ways.leaders(names_in(expression)) if self.ways else frozenset()
        if not leaders:
            return
        if isinstance(expression, Star):
            raise NotationMattersError(leaders)
        try:
            if len(leaders) > 1 and (inner := parts(expression)):
                for part in inner:
                    self.see(part)
                return
        except NotationMattersError:
            pass  # together the parts may say the same all the same
        self.ways.require_same(leaders, lambda way: self._written(way, expression))

    def _written(self, way: Mapping[str, Value], expression: Expression) -> tuple[Value, ...]:
        """The value of an expression, and what must hold for it, with axes written so."""
        with self._writing(way):
            before, self.side_conditions = self.side_conditions, []
            try:
                return (self.evaluate(expression), *self.side_conditions)
            finally:
                self.side_conditions = before

    @contextmanager
    def _writing(self, way: Mapping[str, Value]) -> Iterator[None]:
        names, tensors, ways = self.names, self.composition.tensors, self.ways
        old_names = {name: names[name] for name in way if name in names}
        old_tensors = {name: tensors[name] for name in way if name in tensors}
        try:
            self.ways = Notations()  # within one way of writing there are no others
            names.update({name: way[name] for name in old_names})
            for name, tensor in old_tensors.items():
                contents = way[name] if isinstance(way[name], tuple) else (way[name],)
                tensors[name] = replace(tensor, contents=contents)
            yield
        finally:
            self.ways = ways
            names.update(old_names)
            tensors.update(old_tensors)

    def see_node(
        self,
        operator: str,
        inputs: Sequence[str | None],
        outputs: int,
        attributes: Mapping[str, Value],
        sources: Mapping[str, Expression],
        literals: Mapping[str, Expression],
    ) -> None:
        """See that a node means the same however axes are written; else MattersError.

        `sources` are the expressions of the attributes by name, and `literals` those of inputs.
        """
        if not self.ways:
            return
        names = {
            name for source in (*sources.values(), *literals.values()) for name in names_in(source)
        }
        leaders = self.ways.leaders({*names, *filter(None, inputs)})
        if not leaders:
            return
        known_inputs = described(operator, self.composition.opset).known_inputs
        data = [
            name for position, name in enumerate(inputs) if name and position not in known_inputs
        ]
        listed = {
            name
            for input_name in data
            if input_name in literals
            for name in names_in(literals[input_name])
        }
        if matter := self.ways.leaders({*data, *listed}):
            raise NotationMattersError(matter)

        def expanded(way: Mapping[str, Value]) -> object:
            values = {
                name: self._written(way, expression)
                for name, expression in {**sources, **literals}.items()
            }
            written = {name: values[name][0] for name in sources}
            with self._writing(way), self._writing({name: values[name][0] for name in literals}):
                expansion = self.composition.expansion(
                    operator, inputs, {**attributes, **written}, outputs
                )
            return expansion, [asked for _, *asked in values.values()]

        self.ways.require_same(leaders, expanded)


def fits_type(value: Term, dtype: str) -> bool:
    """Whether a number may be one of a type: fractions and irrational numbers are no integers."""
    if algebra_of(dtype) == "real":
        return True
    return is_integer(value) or isinstance(value, bool)


def require_in_range(value: Term, dtype: str) -> None:
    """Raise NoCaseError for an integer that the type doesn't hold: no rule matches or makes one."""
    limits = integer_range(dtype)
    if limits is not None and isinstance(value, int) and not limits[0] <= value <= limits[1]:
        raise NoCaseError(f"{value} is no {dtype}")

"""What a case makes up: element types, symbols for free numbers, and what is supposed of them."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from ...catalog.operators.terms import Symbol, Term
from ..conditions import Condition, conditions
from ..functions import UnknownError
from ..syntax import Rule
from .bounds import Bounds, spread
from .compose import Composition
from .element_types import limits_of, representatives, source_classes
from .enumeration import Choices, ContradictionError, Kind, NoCaseError
from .options import Options
from .patterns import equations, types_said
from .side import Side
from .spelling import spelling
from .statement import Extent, Obligation


class MadeUp(Side):
    """The left side before there is a node: types are chosen, and numbers are free.

    `known` replaces symbols by what an earlier attempt found them to equal; the lists that are
    tried are `longer` by so much than usually. How the axes in `told` are written is a choice.
    """

    def __init__(
        self,
        rule: Rule,
        choices: Choices,
        operators: Mapping[str, str],
        composition: Composition,
        known: Mapping[str, Term],
        longer: int = 0,
        told: Collection[str] = (),
    ) -> None:
        super().__init__(rule, composition)
        self.choices, self.operators, self.known = choices, operators, known
        self.longer = longer
        self.assumptions: list[Obligation] = []
        self.symbols: dict[str, Symbol] = {}
        self.kinds: dict[str, str] = {}
        self.bounds = Bounds()
        self.waiting: list[Condition] = list(conditions(rule))
        self.free: dict[str, Extent] = {}
        self.spatial: dict[str, bool] = {}
        self.made: set[str] = {o.value for node in rule.match for o in node.outputs}
        self.unused: dict[str, list[str]] = {}
        self.options = Options(
            choices,
            self.symbol,
            self._restrict,
            self._stretch,
            equations(rule),
            spelling(rule).lengths,
            self.ways,
            told,
        )
        self.dtypes = self._choose_types()

    def dtype_of(self, name: str) -> str:
        """The element type that was chosen for a tensor."""
        if name not in self.dtypes or name in self.absent:
            raise UnknownError
        return self.dtypes[name]

    def symbol(self, name: str, kind: str) -> Term:
        """An unknown number, or what it is known to be."""
        self.kinds.setdefault(name, kind)
        if name in self.known:
            return self.known[name]
        return self.symbols.setdefault(name, Symbol(name, kind))

    def suppose(self, text: str, term: Term) -> None:
        """Assume a condition; NoCaseError where it is seen to fail."""
        for part in spread(term):
            if part is False:
                raise NoCaseError(f"{text} doesn't hold")
            if not self.bounds.add(part):
                raise ContradictionError(f"{text} contradicts what is known")
            if part is not True:
                self.assumptions.append(Obligation(text, part))

    def _restrict(self, term: Term) -> None:
        self.suppose(str(term), term)

    def _stretch(self, name: str, length: int, most: int, *places: tuple[str, int]) -> None:
        """Note a length that might be any."""
        before = self.free.get(name, Extent(length, most))
        self.free[name] = Extent(length, most, tuple(dict.fromkeys((*before.places, *places))))

    def _choose_types(self) -> dict[str, str]:
        classes = source_classes(self.rule, self.composition.opset, self.operators)
        casts = any(n.op_type in ("Cast", "CastLike") for n in self.rule.match)
        saturates = any(
            n.op_type == "QuantizeLinear" for n in (*self.rule.match, *self.rule.rewrite)
        )
        types: dict[str, str] = {}
        self.integer_limits: dict[str, tuple[int, int]] = {}
        said = types_said(self.rule)
        asked = {classes.root(name) for name in said if name in classes.parents}
        for root in classes.roots():
            allowed = classes.of(root)
            options = representatives(allowed, both_integers=casts, each=saturates)
            alone = set(options) if saturates else set()
            if root in asked:  # the rule tells types of one algebra apart, by name or as the others
                named = set().union(*said.values()) & allowed
                others = representatives(allowed - named, both_integers=casts)
                options = tuple(dict.fromkeys((*options, *sorted(named), *others)))
                alone |= named
            kind: Kind = "index" if root in asked else "element"
            types[root] = self.choices.pick(f"type of {root}", options, kind)
            spoken_for = {types[root]} if types[root] in alone else allowed - alone
            if (limits := limits_of(spoken_for)) is not None:
                self.integer_limits[root] = limits
        for name in list(classes.parents):
            if (limits := self.integer_limits.get(classes.root(name))) is not None:
                self.integer_limits[name] = limits
        return {name: types[classes.root(name)] for name in list(classes.parents)}

"""A foreign rule, in the shapes of one reading, as the text of a rule.

What a foreign operator leaves implicit is written out: SAME is a padding of (k - 1) / 2 for kernels
of odd size; pooling by averages counts its padding, since only then is it the convolution with
TENSAT's Cpool; the constants are built by operators, at the sizes that unification finds.
"""

from __future__ import annotations

from dataclasses import dataclass

from .constants import merged, separated
from .nodes import Side, odd_kernels
from .operators import CONSTANTS
from .shapes import Bound, Reading, Shape, ShapeClashError, Shapes, shaped_like
from .sizes import Atom, Size, exact, size_text
from .terms import Apply, ForeignRule, Term, Variable, inputs, parts


@dataclass(frozen=True)
class Translation:
    """The text of a rule, and the conditions on sizes that its foreign form leaves unsaid.

    `conditions` are texts of the rule language over the inputs of `text`. `same`: both sides are
    the same operators, so that they are equal and nothing is to be rewritten. `witness`: the left
    side has a node for the proof only, since the right side has inputs of its own or the outputs
    have none in common; such a rule finds nothing in a graph. `flipped`: the right
    side of the foreign rule is matched and its left side made. `names` are what the inputs are
    called in the text.
    """

    text: str
    conditions: tuple[str, ...]
    reading: Reading
    flipped: bool
    same: bool
    witness: bool
    names: tuple[tuple[str, str], ...]


def translate(rule: ForeignRule, reading: Reading) -> Translation:
    """The rule under a reading; ShapeClashError where its shapes fit at no sizes.

    It is turned around where only that way it matches something, or where the constants then
    stand on the right side, which makes them.
    """
    translations: list[tuple[tuple[int, ...], Translation]] = []
    clash: ShapeClashError | None = None
    conditions: tuple[str, ...] | None = None
    for flipped in (False, True):
        try:
            writer = _Writer(_shapes(rule, reading, flipped))
            if conditions is None:  # what the rule needs as it is stated, from left to right
                conditions = writer.conditions()
            translations.append((writer.preference(), writer.translation(conditions)))
        except ShapeClashError as error:
            clash = clash or error
    if not translations:
        raise clash or ShapeClashError("the shapes fit at no sizes")
    return min(translations, key=lambda pair: pair[0])[1]


def _shapes(rule: ForeignRule, reading: Reading, flipped: bool) -> Shapes:
    """The shapes of a rule, found for each constant by itself."""
    separate = separated(rule)
    shapes = Shapes(separate, reading, flipped)
    together = merged(separate, shapes)
    return shapes if together == separate else Shapes(together, reading, flipped)


class _Writer:
    """Writes one rule."""

    def __init__(self, shapes: Shapes) -> None:
        self.shapes, self.rule = shapes, shapes.rule
        self.both = tuple(parts((*shapes.sources, *shapes.targets)))
        source_names = inputs(shapes.sources)
        self.extra = tuple(
            Variable(name) for name in inputs(shapes.targets) if name not in source_names
        )
        self.names: dict[Term, str] = {}
        for name in (*source_names, *(extra.name for extra in self.extra)):
            self.names[Variable(name)] = self._input_name(Variable(name))
        self.kept = (*self.extra, *_unconnected(shapes.sources))
        self.wide: dict[Atom, str] = {}
        self.bound = self._bound_atoms()
        self.source: Side | None = None

    def preference(self) -> tuple[int, ...]:
        """Which direction is better as a rule: the least."""
        source = self.shapes.sources
        bare = sum(isinstance(term, Variable) for term in source)
        constants = sum(isinstance(p, Apply) and p.operator in CONSTANTS for p in parts(source))
        return bare, len(self.extra), len(self.kept), constants, int(self.shapes.flipped)

    def translation(self, conditions: tuple[str, ...]) -> Translation:
        """The rule's text and what it assumes."""
        shapes = self.shapes
        match = Side(shapes, shapes.sources, "T", self.names, self._text, self._note_wide)
        rewrite = Side(shapes, shapes.targets, "R", self.names, self._text)
        lines = [f"rule {self.rule.name}", "  tags    explore", f"  source  [{self.rule.system}]"]
        lines.append(f"  opset   >= {15 if self.kept else 13}")
        lines.append(f"  given   {f',{NEXT}'.join(self._given_items(match))}")
        lines += ["  match", *(f"    {line}" for line in [*match.lines, *self._kept()])]
        lines += ["  rewrite", *(f"    {line}" for line in [*rewrite.lines, *self._kept()])]
        lines.append("  equal   rounding")
        if self._uses("iconv", "cpool", "imatmul", "enlarge", "enlarge_like"):
            lines.append("  finite_math")
        return Translation(
            "\n".join(lines) + "\n",
            conditions,
            shapes.reading,
            shapes.flipped,
            shapes.sources == shapes.targets,
            bool(self.kept),
            tuple((t.name, name) for t, name in self.names.items() if isinstance(t, Variable)),
        )

    def conditions(self) -> tuple[str, ...]:
        """What the right side needs beyond what the left side says of the sizes."""
        said = [
            _without_divisor(self._outside(a), self._outside(b))
            for a, b in self.shapes.conditions()
        ]
        said += [
            f"{self._outside(bound.least)} <= {self._outside(bound.most)}"
            for bound in self._late_bounds()
        ]
        said += [
            f"{_enclosed(self._outside(a))} % {_enclosed(self._outside(b))} = 0"
            for a, b in self._quotients()
        ]
        return tuple(dict.fromkeys(said))

    # ------------------------------------------------------------------------------- clauses

    def _given_items(self, match: Side) -> list[str]:
        # Constants are made of this type, and nothing ties those of unconnected inputs.
        dtype = "float32" if self._uses(*CONSTANTS) or self.kept else "float"
        items = []
        for term, name in self.names.items():
            shape = self.shapes.shape(term)
            sizes = "" if shape is None else f" [{self._shape_text(shape)}]"
            items.append(f"{name}{sizes} {dtype}")
        text = self._resolved_text
        odd = sorted(odd_kernels(self.shapes))
        items_given = [f"{self._atom_text(atom)} % 2 = 1" for atom in odd]
        items_given += [
            f"{text(bound.least)} <= {text(bound.most)}"
            for bound, _ in self.shapes.bounds
            if self._can_fail(bound)
        ]
        items_given += [
            f"{_enclosed(self._text(a))} % {_enclosed(self._text(b))} = 0"
            for a, b in self._quotients()
        ]
        late = self.shapes.equalities.open[self.shapes.open_before :]
        items_given += [f"{text(a)} = {text(b)}" for a, b in late]
        items_given += [
            f"shape({match.names[a]}) = shape({match.names[b]})" for a, b in self.shapes.agree
        ]
        return [*items, *dict.fromkeys(items_given)]

    def _quotients(self) -> list[tuple[Size, Size]]:
        """The divisions that must leave no rest: groups, and repetitions of an identity."""
        shapes = self.shapes
        atoms: set[Atom] = set()
        for term in self.both:
            if isinstance(term, Apply) and term.operator == "conv2d":
                atoms |= {a for a in shapes.group(term).atoms() if a.kind == "exact"}
            elif isinstance(term, Apply) and term.operator in ("iconv", "cpool"):
                shape = shapes.shape(term)
                if shape is not None and not shapes.square_constants:
                    atoms |= exact(shape.sizes[0], shape.sizes[1]).atoms()
        return [(a.parts[0], a.parts[1]) for a in sorted(atoms) if a.kind == "exact"]

    def _kept(self) -> list[str]:
        """Statements, the same on both sides, that tie the pattern together.

        They bring in the inputs of the right side alone, and join outputs that share no input.
        """
        first = next(iter(self.names.values()))
        names = [self.names[term] for term in self.kept]
        return [f"{name}_kept = CastLike({name}, {first})" for name in names]

    def _late_bounds(self) -> list[Bound]:
        """The bounds of the right side alone, in sizes as the left side has them."""
        sizes = self.shapes.sizes
        early: list[Bound] = []
        bounds: list[Bound] = []
        for bound, late in self.shapes.bounds:
            known_bound = Bound(bound.least.substitute(sizes), bound.most.substitute(sizes))
            implied = any(
                other.least == known_bound.least
                and ((known_bound.most - other.most).number or 0) >= 0
                for other in early
                if (known_bound.most - other.most).number is not None
            )
            if not late:
                early.append(known_bound)
            elif not implied and self._can_fail(bound):
                bounds.append(known_bound)
        return bounds

    def _can_fail(self, bound: Bound) -> bool:
        resolve = self.shapes.equalities.resolve
        gap = (resolve(bound.most) - resolve(bound.least)).number
        return gap is None or gap < 0

    def _input_name(self, term: Variable) -> str:
        number = term.name.removeprefix("input_")
        shape = self.shapes.shape(term)
        if shape is not None and shape.sizes == () and shape.rest is None:
            return f"S{number}"
        return f"{'W' if 'kh' in self.shapes.letters.get(term, ()) else 'X'}{number}"

    def _uses(self, *operators: str) -> bool:
        return any(isinstance(p, Apply) and p.operator in operators for p in self.both)

    # --------------------------------------------------------------------------------- sizes

    def _shape_text(self, shape: Shape) -> str:
        rest = [f"*{shape.rest}"] if shape.rest else []
        return ", ".join([*rest, *map(self._text, shape.sizes)])

    def _resolved_text(self, length: Size) -> str:
        return self._text(self.shapes.equalities.resolve(length))

    def _text(self, length: Size) -> str:
        """A size as an expression of the rule language."""
        return size_text(length, self._atom_text)

    def _atom_text(self, atom: Atom) -> str:
        if atom.kind == "wide":
            if atom not in self.wide:
                raise ShapeClashError("a size that broadcasts is not that of any matched value")
            return self.wide[atom]
        if atom not in self.bound:
            raise ShapeClashError(f"the size {atom.name} can't be told from the inputs")
        return atom.name

    def _note_wide(self, term: Term, name: str) -> None:
        """Sizes that broadcast are read off a value that has them."""
        shape = self.shapes.shape(term)
        for axis, length in enumerate(shape.sizes if shape else ()):
            for atom in length.atoms():
                if atom.kind == "wide" and length.unknown == atom:
                    self.wide.setdefault(atom, f"dim({name}, {axis})")

    def _bound_atoms(self) -> set[Atom]:
        """The unknowns that a shape or an attribute of the left side gives a value."""
        atoms: set[Atom] = set()
        for term in self.names:
            shape = self.shapes.shape(term)
            atoms |= {s.atom for s in (shape.sizes if shape else ()) if s.atom is not None}
        for term in parts(self.shapes.sources):
            if isinstance(term, Apply) and term.operator == "conv2d":
                group = self.shapes.group(term).atom
                atoms |= {group} if group else set()
        return atoms

    def _outside(self, length: Size) -> str:
        """A size in terms of the inputs as the left side has them."""
        places: dict[Atom, str] = {}
        for term, name in self.names.items():
            shape = self.shapes.shapes[term]
            for axis, item in enumerate(shape.sizes if shape else ()):
                before = item.substitute(self.shapes.sizes)
                if before.atom is not None:
                    places.setdefault(before.atom, f"dim({name}, {axis})")
        for term in parts(self.shapes.sources):
            if isinstance(term, Apply) and term.operator == "conv2d":
                group = self.shapes.groups[term].substitute(self.shapes.sizes).atom
                channels = self._channels(term)
                if group is not None and channels:
                    places.setdefault(group, channels)
        return size_text(length, lambda atom: places.get(atom, self.wide.get(atom, atom.name)))

    def _channels(self, term: Apply) -> str:
        """The groups of a convolution as its channels over those of its weight."""
        sides = [self.names.get(shaped_like(operand)) for operand in term.operands]
        return f"dim({sides[0]}, 1) / dim({sides[1]}, 1)" if all(sides) else ""


def _unconnected(outputs: tuple[Term, ...]) -> tuple[Variable, ...]:
    """One input of each output that has no part in common with those before."""
    groups: list[set[Term]] = []
    for output in outputs:
        connected = set(parts((output,)))
        unaffected = [group for group in groups if not group & connected]
        groups = [*unaffected, connected.union(*(group for group in groups if group & connected))]
    representatives = []
    for group in groups[1:]:
        variables = sorted((t for t in group if isinstance(t, Variable)), key=lambda t: t.name)
        representatives += variables[:1]
    return tuple(representatives)


def _enclosed(text: str) -> str:
    return f"({text})" if " + " in text or " - " in text or " * " in text else text


def _without_divisor(left: str, right: str) -> str:
    """An equation of two quotients by one divisor as that of their numerators."""
    (a, _, p), (b, _, q) = left.partition(" / "), right.partition(" / ")
    return f"{a} = {b}" if p and p == q else f"{left} = {right}"


NEXT = "\n          "

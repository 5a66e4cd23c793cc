"""Cuts as rules: each is stated in the rule language, and used once the gate has proved it.

A rule says that an operator on two pieces laid side by side is two operators, one on each. Its
sizes are symbols, the cut index among them, so that it holds wherever one cuts; and as a piece may
be cut again, for any number of parts. Sizes that belong to the operator, of windows and of new
shapes, are numbers.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

from ...catalog import Catalog
from ...profiles.kernel import Kernel, Opaque, TensorSpec, TensorValue
from ...rules import Rule, RuleError, parse_rules
from ...rules.gate.ledger.admission import proved
from ...rules.gate.ledger.fingerprints import normaliser
from ...rules.gate.ledger.ledger import ADMITTED
from ...rules.gate.ledger.proof_tables import store_verdicts
from ...rules.gate.prover_pool import prove_rules
from ...rules.gate.verdict import Verdict
from ...rules.language.rank_bounds import Within
from .operator_cuts import TARGETS, Cut, Slicing, axes_alike, is_window, known_inputs, output_shapes

_COMBINE = {"sum": "Add", "max": "Max", "min": "Min", "prod": "Mul"}
_PROOF_S = 8.0  # of work, for each rule
_SIZE = "nmkhwcdsrtuv"


class _UnsaidError(Exception):
    """A cut that the rule language has no words for."""


@lru_cache(maxsize=8192)
def rule_of(kernel: Kernel, cut: Cut) -> Rule | None:
    """Return the rule that a cut is an instance of; None where the language has no words for it."""
    try:
        body = _Statement(kernel, cut).text()
        digest = hashlib.sha256(body.encode()).hexdigest()[:8]
        name = f"Split{kernel.op_type}By{cut.kind.capitalize()}{digest}"
        (rule,) = parse_rules(f"rule {name}\n{body}", "cuts.rules")
    except (_UnsaidError, RuleError):
        return None
    return rule


@dataclass(frozen=True)
class Admitted:
    """Which cuts may be used: those whose rule is proved; `verdicts` were reached just now."""

    rules: Mapping[str, Rule]
    verdicts: tuple[tuple[Rule, Verdict], ...] = ()

    def holds(self, kernel: Kernel, cut: Cut) -> bool:
        """Tell whether a cut of an operator is proved."""
        rule = rule_of(kernel, cut)
        return rule is not None and rule.hash in self.rules


def admit(wanted: Iterable[tuple[Kernel, Cut]], catalog: Catalog) -> Admitted:
    """Prove cuts of operators, but for those that the catalog has a proof of; store the proofs.

    Each takes 0.2 to 3 s of a processor once.
    """
    stated = [rule_of(kernel, cut) for kernel, cut in wanted]
    rules = {rule.hash: rule for rule in stated if rule is not None}
    known = {
        rule.hash: rule
        for rule in proved(list(rules.values()), catalog)
        if all(map(_is_of_outputs, rule.proved_for))
    }
    seen = _looked_at(catalog, rules.keys() - known.keys())
    open_ = [rule for key, rule in sorted(rules.items()) if key not in known and key not in seen]
    with_verdicts: list[tuple[Rule, Verdict]] = []
    if open_:
        verdicts = prove_rules(open_, 1, timeout=_PROOF_S, search=1.0, infer=0.0)
        with_verdicts = list(zip(open_, verdicts, strict=True))
        if not catalog.read_only:
            store_verdicts(catalog, with_verdicts)
    for rule, verdict in with_verdicts:
        # Ranks are those of the operator; all that may be left open is which outputs are read.
        if verdict.status in ADMITTED and all(map(_is_of_outputs, verdict.within)):
            known[rule.hash] = rule
    return Admitted(known, tuple(with_verdicts))


def _is_of_outputs(within: Within) -> bool:
    return all(name.startswith("outputs(") for name in within.names)


def _looked_at(catalog: Catalog, hashes: Collection[str]) -> set[str]:
    """Return those that this prover has a verdict on already."""
    rows = catalog.sql(
        "SELECT rule_hash FROM proof WHERE prover = ? AND rule_hash IN"
        " (SELECT unnest(?::VARCHAR[]))",
        [normaliser(), sorted(hashes)],
    ).fetchall()
    return {key for (key,) in rows}


@dataclass
class _Statement:
    """The text of a rule: operands in pieces, the operator on all of them, and on each."""

    kernel: Kernel
    cut: Cut

    def text(self) -> str:
        kernel, cut = self.kernel, self.cut
        self.names = [
            f"{'XWBCDEFGHIJK'[p] if p < 12 else 'Z'}{p}" for p in range(len(kernel.inputs))
        ]
        self.known_positions = known_inputs(kernel)
        self.conditions: list[str] = ["n1 >= 1", "n2 >= 1"]
        self.operands: list[str] = []
        self.joins: list[str] = []
        self.attributes = {name: _attribute(value) for name, value in kernel.attributes}
        self.parts: list[dict[str, str]] = [dict(self.attributes), dict(self.attributes)]
        calls: list[list[str]] = [[], [], []]
        self.base = min(
            (
                Fraction(slice_.stride, slice_.divisor)
                for slice_ in cut.slices
                if slice_ is not None
            ),
        )
        unit = self.base * cut.granule
        if unit.denominator != 1:
            raise _UnsaidError
        if unit > 1 and not self._has_window():
            self.conditions += [f"n{part} % {unit} = 0" for part in (1, 2)]
        for position, (spec, slicing) in enumerate(zip(kernel.inputs, cut.slices, strict=True)):
            arguments = self._input(position, spec, slicing)
            for call, argument in zip(calls, arguments, strict=True):
                call.append(argument)
        if "group" in self.attributes and cut.slices[0] is not None and cut.slices[0].axis == 1:
            groups = kernel.attribute("group")
            if groups != cut.extent:
                raise _UnsaidError
            self.attributes["group"] = "g"
            self.conditions.append("g = n1 + n2")
            for part in (0, 1):
                self.parts[part]["group"] = f"n{part + 1}"
        return self._assembled(calls)

    def _has_window(self) -> bool:
        pairs = zip(self.kernel.inputs, self.cut.slices, strict=True)
        return any(s is not None and o is not None and is_window(s, o, self.cut) for s, o in pairs)

    def _input(
        self, position: int, spec: TensorSpec | None, slicing: Slicing | None
    ) -> tuple[str, str, str]:
        """Declare an input; return what the whole and either part are called with."""
        if spec is None:
            if any(later is not None for later in self.kernel.inputs[position:]):
                raise _UnsaidError
            return "", "", ""
        name = self.names[position]
        if position in self.known_positions:
            return self._known_operand(position, spec)
        if slicing is None:
            self.operands.append(f"{name} [{', '.join(self._sizes(position, spec))}] {spec.dtype}")
            second = "" if position in self.cut.once else name
            return name, name, second
        if is_window(spec, slicing, self.cut):
            return self._window(position, spec, slicing)
        ratio = Fraction(slicing.stride, slicing.divisor) / self.base
        if ratio.denominator != 1:
            raise _UnsaidError
        factor = f"{ratio} * " if ratio != 1 else ""
        for part in (1, 2):
            sizes = self._sizes(position, spec)
            sizes[slicing.axis] = f"{factor}n{part}"
            self.operands.append(f"{name}p{part} [{', '.join(sizes)}] {spec.dtype}")
        self.joins.append(f"{name} = Concat<axis={slicing.axis}>({name}p1, {name}p2)")
        return name, f"{name}p1", f"{name}p2"

    def _known_operand(self, position: int, spec: TensorSpec) -> tuple[str, str, str]:
        if self.cut.slices[position] is not None or spec.value is None:
            raise _UnsaidError
        value = list(spec.value)
        if TARGETS.get(self.kernel.op_type) == position:
            if self.kernel.attribute("allowzero"):
                raise _UnsaidError
            value = list(self._output_shape())
            if self.cut.axes:
                # What is left over, or as large as it is.
                value[self.cut.axes[0]] = -1 if self.kernel.op_type == "Reshape" else 1
        if not all(isinstance(number, int) for number in value):
            raise _UnsaidError
        text = f"[{', '.join(map(str, value))}]" if spec.shape else str(value[0])
        return text, text, text

    def _output_shape(self) -> tuple[int, ...]:
        return output_shapes(self.kernel)[0]

    def _window(self, position: int, spec: TensorSpec, slicing: Slicing) -> tuple[str, str, str]:
        """Say that both parts read what lies where they meet: a halo."""
        name, axis = self.names[position], slicing.axis
        rank = len(spec.shape) - 2
        halo = max(slicing.reach - slicing.stride, 0)
        pieces = ["p1", "h", "p2"] if halo else ["p1", "p2"]
        lengths = {"p1": "n1", "h": str(halo), "p2": "n2"}
        for piece in pieces:
            sizes = self._sizes(position, spec)
            sizes[axis] = lengths[piece]
            self.operands.append(f"{name}{piece} [{', '.join(sizes)}] {spec.dtype}")
        all_of = [f"{name}{piece}" for piece in pieces]
        self.joins.append(f"{name} = Concat<axis={axis}>({', '.join(all_of)})")
        low, high = axis - 2, axis - 2 + rank
        pads = self.kernel.attribute("pads", (0,) * (2 * rank))
        self.attributes["pads"] = "p"
        for place, pad in enumerate(pads):
            if place not in (low, high):
                self.conditions.append(f"p[{place}] = {pad}")
        self.conditions += [f"p[{low}] >= 0", f"p[{high}] >= 0"]
        self.conditions += [f"(n1 + p[{low}]) % {slicing.stride} = 0"] * (slicing.stride > 1)
        self.conditions.append(f"n1 + p[{low}] >= {slicing.stride}")
        self.conditions.append(f"n2 + p[{high}] >= {slicing.reach - halo}")
        for part, zero in ((0, high), (1, low)):
            entries = ["0" if place == zero else f"p[{place}]" for place in range(2 * rank)]
            self.parts[part]["pads"] = f"[{', '.join(entries)}]"
        if not halo:
            return name, f"{name}p1", f"{name}p2"
        self.first = [f"{name}a = Concat<axis={axis}>({name}p1, {name}h)"]
        self.first.append(f"{name}b = Concat<axis={axis}>({name}h, {name}p2)")
        return name, f"{name}a", f"{name}b"

    def _sizes(self, position: int, spec: TensorSpec) -> list[str]:
        """Name the sizes of an input: alike where one index runs along both."""
        alike, offsets = axes_alike(self.kernel)
        sizes = []
        for axis, size in enumerate(spec.shape):
            key = (position, axis)
            if size == 1 or key in offsets or self.kernel.op_type in TARGETS:
                sizes.append(str(size))
                continue
            group = min(alike.get(key, {key}) | {key})
            sizes.append(f"{_SIZE[group[1] % len(_SIZE)]}{group[0]}x{group[1]}")
        return sizes

    def _assembled(self, calls: list[list[str]]) -> str:
        kernel, cut = self.kernel, self.cut
        count = max(kernel.outputs, 1)
        outputs = [f"Y{number}" for number in range(count)]

        def call(attributes: Mapping[str, str], arguments: list[str]) -> str:
            while arguments and not arguments[-1]:
                arguments = arguments[:-1]
            inside = ", ".join(f"{name}={value}" for name, value in attributes.items())
            domain = f"{kernel.domain}." if kernel.domain else ""
            return (
                f"{domain}{kernel.op_type}{f'<{inside}>' if inside else ''}({', '.join(arguments)})"
            )

        left = [*self.joins, f"{', '.join(outputs)} = {call(self.attributes, calls[0])}"]
        right = list(getattr(self, "first", ()))
        for part in (0, 1):
            results = ", ".join(f"{name}p{part + 1}" for name in outputs)
            right.append(f"{results} = {call(self.parts[part], calls[part + 1])}")
        for number, name in enumerate(outputs):
            if cut.combine == "concat":
                right.append(f"{name} = Concat<axis={cut.axes[number]}>({name}p1, {name}p2)")
            else:
                right.append(f"{name} = {_COMBINE[cut.combine]}({name}p1, {name}p2)")
        target = "  target onnxruntime-cpu\n" if kernel.domain else ""
        # Concat of 13 and later; what an operator means does not change with the set it stands in.
        opset = (
            f"  opset {max(kernel.opset, 13)}..{max(kernel.opset, 13)}\n"
            if not kernel.domain
            else ""
        )
        lines = [
            f"  tags explore\n{target}{opset}  given",
            "    " + ",\n    ".join([*self.operands, *self.conditions]),
            "  match",
            *(f"    {line}" for line in left),
            "  rewrite",
            *(f"    {line}" for line in right),
            "  equal rounding",
        ]
        return "\n".join(lines) + "\n"


def _attribute(value: object) -> str:
    if isinstance(value, Opaque | TensorValue):
        raise _UnsaidError
    if isinstance(value, str):
        return '"' + value.replace('"', '\\"') + '"'
    if isinstance(value, tuple):
        return f"[{', '.join(map(_attribute, value))}]"
    return repr(value)

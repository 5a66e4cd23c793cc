"""An e-graph over a model: columns, and what is known of each class: type, constness, value."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from ..graph.fold import FOLD_LIMIT, fold_constants
from ..graph.graph import Constant, Graph, TensorType
from ..graph.infer import bind, bound_types, same_type, sharpen
from ..graph.simplify import is_pure
from ..match.arrays import Flags, Ints
from .canonical_nodes import Spelling
from .congruence import NONE, Columns, Row, Rows
from .inference import Inference, Operand, Operands, renamed
from .interning import CONSTANT, INPUT, SMALL_BYTES, Attributes, Vocabulary
from .provenance import Application

UNTYPED = -1


class EGraph:
    """E-nodes and classes of one model, and an analysis per class.

    At first, class v is the model's value v. `sizes` binds free dimensions where costs are asked
    for; types keep their names. Rules see it through `View`.
    """

    def __init__(
        self, graph: Graph, sizes: Mapping[str, int] | None = None, fold_limit: int = FOLD_LIMIT
    ) -> None:
        self.graph, self.sizes, self.fold_limit = graph, dict(sizes or {}), fold_limit
        self.columns = Columns()
        self.vocabulary = Vocabulary()
        self.inference = Inference(graph.base, self.vocabulary)
        self.spelling = Spelling(self)
        self.spellings: dict[int, dict[Row, None]] = {}  # e-node -> other ways it was written in
        self.types: list[int] = []
        self.sized: list[int] = []  # the types under the sizes that costs are asked for
        self.known: list[bool] = []
        self.constants: dict[int, int] = {}
        self.foldable: list[bool] = []
        self.origin: dict[int, int] = {}  # e-node -> the model's node
        self.made_by: dict[int, Application] = {}  # e-node -> the match that made it
        self._load()

    # ------------------------------------------------------------------------------ reading

    def find(self, value: int) -> int:
        """The class that a class is part of now."""
        return self.columns.find(value)

    def type(self, value: int) -> TensorType | None:
        """A class's element type and shape."""
        number = self.types[self.find(value)]
        return None if number == UNTYPED else self.vocabulary.types[number]

    def is_known(self, value: int) -> bool:
        """Whether a class's value depends on constants alone."""
        return self.known[self.find(value)]

    def working(self) -> int:
        """Count the e-nodes that are run with the model, if they are chosen."""
        columns = self.columns
        nodes, _, values = columns.gives(columns.living())
        run = nodes[~np.array(self.known, bool)[values]]
        return len(np.unique(run))

    def constant(self, value: int) -> Constant | None:
        """A class's value, where it is known already."""
        number = self.constants.get(self.find(value))
        return None if number is None else self.vocabulary.constants[number]

    def operands(self, values: Iterable[int], *, sized: bool = False) -> Operands:
        """What inference may know of operands."""
        return tuple(self._operand(value, sized) for value in values)

    def _operand(self, value: int, sized: bool) -> Operand | None:
        if value == NONE:
            return None
        leader = self.find(value)
        number = (self.sized if sized else self.types)[leader]
        constant = self.constants.get(leader)
        if constant is not None:
            size = self.vocabulary.constants[constant].type.size_bytes
            if size is None or size > SMALL_BYTES:
                constant = None
        return Operand(None if number == UNTYPED else number, self.known[leader], constant)

    # ------------------------------------------------------------------------------- loading

    def _load(self) -> None:
        graph, vocabulary = self.graph, self.vocabulary
        self.columns.new_classes(len(graph.names))
        sized = {v: bind(t, self.sizes) for v, t in graph.types.items()}
        if self.sizes:
            sized = bound_types(graph, self.sizes)
        for value in range(len(graph.names)):
            type_, bound = graph.types.get(value), sized.get(value)
            self.types.append(UNTYPED if type_ is None else vocabulary.type(type_))
            self.sized.append(UNTYPED if bound is None else vocabulary.type(bound))
            self.known.append(False)
        self._load_leaves()
        rows: list[Row] = []
        outputs: list[int] = []
        pure: list[bool] = []
        written: list[tuple[int, Row]] = []
        numbers = graph.order()
        for number in numbers:
            node = graph.nodes[number]
            present = tuple(value != NONE for value in node.outputs)
            pure.append(is_pure(graph, node))
            identity = None if pure[-1] else ("node", number)
            attributes = vocabulary.attribute(Attributes(dict(node.attributes), present, identity))
            # What a subgraph captures is read too; no rule's pattern has as many operands.
            reads = (*node.inputs, *sorted(node.captures))
            row = (vocabulary.operator(node.domain, node.op_type), attributes, reads)
            rows.append(self.spelling.canonical(row))
            self.spelling.remember(row, rows[-1])
            if rows[-1] != row:
                written.append((len(rows) - 1, row))
            outputs += node.outputs
        self.foldable += pure
        widths = np.array([len(graph.nodes[number].outputs) for number in numbers], np.int64)
        nodes = self.columns.append(Rows.of(rows), widths, np.array(outputs, np.int64))
        self.origin.update(zip(nodes.tolist(), numbers, strict=True))
        self.spellings.update((int(nodes[place]), {row: None}) for place, row in written)
        self.columns.union(np.empty(0, np.int64), np.empty(0, np.int64))
        self.rebuild()

    def _load_leaves(self) -> None:
        graph, vocabulary = self.graph, self.vocabulary
        leaves: list[Row] = []
        values: list[int] = []
        read = {v for node in graph.nodes.values() for v in node.reads} | set(graph.graph_outputs)
        for value in sorted(read | set(graph.graph_inputs)):
            if value in graph.producer:
                continue
            kind, number = INPUT, value
            if value in graph.constants:
                kind, number = (
                    CONSTANT,
                    vocabulary.constant(graph.constants[value], ("value", value)),
                )
                self.constants[value] = number
                self.known[value] = True
            attributes = vocabulary.attribute(Attributes({}, (True,), (kind, number)))
            leaves.append((vocabulary.operator("", kind), attributes, ()))
            values.append(value)
            self.foldable.append(False)
        self.columns.append(
            Rows.of(leaves), np.ones(len(leaves), np.int64), np.array(values, np.int64)
        )

    # -------------------------------------------------------------------------------- growing

    def intern(self, rows: Sequence[Row]) -> list[int | None]:
        """The e-nodes of (operator, attributes, operands), made where there is none.

        None where the operands don't fit the operator.
        """
        asked, rows = rows, [self.spelling.canonical(row) for row in rows]
        fitting: list[int] = []
        for place, (operator, attributes, operands) in enumerate(rows):
            if self._inferred(operator, attributes, operands) is not None:
                fitting.append(place)
        result: list[int | None] = [None] * len(rows)
        if not fitting:
            return result
        if len(fitting) == 1:
            (place,) = fitting
            width = len(self.vocabulary.attributes[rows[place][1]].present)
            node, is_new = self.columns.intern_row(rows[place], width)
            if is_new:
                self._analyse(node)
            result[place] = node
            self._note(asked, rows, result)
            return result
        chosen = [rows[place] for place in fitting]
        widths = np.array([len(self.vocabulary.attributes[row[1]].present) for row in chosen])
        nodes, new = self.columns.intern(Rows.of(chosen), widths)
        for place, node in zip(fitting, nodes.tolist(), strict=True):
            result[place] = node
        for node in nodes[new].tolist():
            self._analyse(node)
        self._note(asked, rows, result)
        return result

    def _note(self, asked: Sequence[Row], rows: Sequence[Row], nodes: Sequence[int | None]) -> None:
        """Remember e-nodes that were asked for in another spelling than their own."""
        for row, known_row, node in zip(asked, rows, nodes, strict=True):
            if node is not None and row is not known_row and row != known_row:
                self.spellings.setdefault(node, {})[row] = None

    def written(self, node: int) -> tuple[int, tuple[int, ...]]:
        """The attributes and operands of an e-node as the model spells them, if it has its like."""
        columns = self.columns
        row = (columns.operator(node), columns.attribute(node), columns.operands(node))
        _, attributes, operands = self.spelling.written(row)
        return attributes, operands

    def leaf(self, constant: Constant, place: object) -> int:
        """The class of a constant; `place` tells apart those that are too large to compare."""
        number = self.vocabulary.constant(constant, place)
        kind = self.vocabulary.operator("", CONSTANT)
        attributes = self.vocabulary.attribute(Attributes({}, (True,), (CONSTANT, number)))
        (node,) = self.intern([(kind, attributes, ())])
        assert node is not None
        (value,) = self.columns.outputs(node)
        self.constants.setdefault(value, number)
        self.known[value] = True
        self.types[value] = self.sized[value] = self.vocabulary.type(constant.type)
        return value

    def _inferred(
        self, operator: int, attributes: int, operands: Sequence[int], *, sized: bool = False
    ) -> tuple[TensorType | None, ...] | None:
        if self.vocabulary.operators[operator].is_virtual:
            return tuple(None for _ in self.vocabulary.attributes[attributes].present)
        typed_operands = self.operands(operands, sized=sized)
        return self.inference.types(operator, attributes, typed_operands)

    def _analyse(self, node: int) -> None:
        """Find out the types of what a new e-node gives, and whether it can be folded."""
        operator, attributes = self.columns.operator(node), self.columns.attribute(node)
        operands = self.columns.operands(node)
        outputs = self.columns.outputs(node)
        types = self._inferred(operator, attributes, operands) or ()
        sized = types
        if any(t is None or t.size_bytes is None for t in types) or self.sizes:
            sized = self._inferred(operator, attributes, operands, sized=True) or types
        self._list_classes()
        for value, type_, bound in zip(outputs, types, sized, strict=False):
            if value != NONE:
                self.types[value] = self._typed(type_, value)
                self.sized[value] = self._typed(bound or type_, value)
        while len(self.foldable) < self.columns.size:
            self.foldable.append(False)
        self.foldable[node] = self._is_foldable(operator, operands, types)

    def _list_classes(self) -> None:
        """Give the classes that are new a place, of which nothing is known yet."""
        missing = self.columns.classes - len(self.types)
        self.types += [UNTYPED] * missing
        self.sized += [UNTYPED] * missing
        self.known += [False] * missing

    def _typed(self, type_: TensorType | None, value: int) -> int:
        return UNTYPED if type_ is None else self.vocabulary.type(renamed(type_, value))

    def _is_foldable(
        self, operator: int, operands: Sequence[int], types: Sequence[TensorType | None]
    ) -> bool:
        if self.vocabulary.operators[operator].is_virtual or not self.inference.is_pure(operator):
            return False
        sizes = [None if t is None else t.size_bytes for t in types]
        if any(size is None for size in sizes):
            return False
        read = [self.type(value) for value in operands if value != NONE]
        read_bytes = sum((t.size_bytes or 0) for t in read if t is not None)
        return sum(size for size in sizes if size is not None) <= max(self.fold_limit, read_bytes)

    def are_compatible(self, a: int, b: int) -> bool:
        """Whether two classes can be one: no known part of their types differs."""
        return same_type(self.type(a), self.type(b))

    # ------------------------------------------------------------------------------- settling

    def rebuild(self) -> None:
        """Close under congruence, and bring the analysis of all classes up to date."""
        while True:
            self._absorb(self.columns.rebuild())
            self._spread_constness()
            if not self._compute_constants():
                return

    def unite(self, a: Ints, b: Ints) -> None:
        """State that classes are equal, and close under congruence; nothing is computed."""
        self.columns.union(a, b)
        self._absorb(self.columns.rebuild())

    def declare_known(self, node: int) -> None:
        """State that what an e-node gives is computed before the model runs."""
        self.foldable[node] = True
        for value in self.columns.outputs(node):
            if value != NONE:
                self.known[value] = True

    def _absorb(self, merged: Sequence[tuple[int, int]]) -> None:
        """Know of a class what was known of any class that became part of it."""
        self._list_classes()
        for old, new in merged:
            for numbers in (self.types, self.sized):
                sharper = sharpen(self._type_of(numbers[new]), self._type_of(numbers[old]))
                if sharper is not None:
                    numbers[new] = self.vocabulary.type(sharper)
            self.known[new] = self.known[new] or self.known[old]
            if old in self.constants:
                self.constants.setdefault(new, self.constants[old])

    def _type_of(self, number: int) -> TensorType | None:
        return None if number == UNTYPED else self.vocabulary.types[number]

    def _spread_constness(self) -> None:
        """What only depends on constants is one, as far as it may be folded."""
        columns = self.columns
        living = columns.living()
        foldable = living[self._foldable_flags()[living]]
        owners, _, values = columns.reads(foldable)
        _, _, results = columns.gives(foldable)
        givers = columns.gives(foldable)[0]
        is_known = np.array(self.known, bool)
        while True:
            open_ = np.zeros(columns.size, bool)
            open_[owners[~is_known[values]]] = True
            news = results[~open_[givers] & ~is_known[results]]
            if not len(news):
                break
            is_known[news] = True
            self._touch_readers(np.unique(news))
        self.known = is_known.tolist()

    def _foldable_flags(self) -> Flags:
        return np.array(self.foldable, bool)

    def _touch_readers(self, classes: Ints) -> None:
        changed = np.zeros(self.columns.classes, bool)
        changed[classes] = True
        owners, _, values = self.columns.reads(self.columns.living())
        self.columns.touch(owners[changed[values]])

    def _compute_constants(self) -> bool:
        """Compute the small constants that can be computed now; True if there were any."""
        batch = self._computable()
        if not batch:
            return False
        vocabulary, columns = self.vocabulary, self.columns
        nodes = [
            (
                vocabulary.operators[columns.operator(node)],
                vocabulary.attributes[columns.attribute(node)],
                tuple(self._whole(value) for value in columns.operands(node)),
                [None if v == NONE else self.types[v] for v in columns.outputs(node)],
            )
            for node in batch
        ]
        graph, values = self.inference.graph_of(nodes)
        fold_constants(graph, self.fold_limit)
        constants: dict[int, Constant] = {}
        classes = [value for node in batch for value in columns.outputs(node)]
        for value, class_ in zip(values, classes, strict=True):
            if class_ != NONE and value in graph.constants:
                constants[class_] = graph.constants[value]
        for node in batch:  # it could not be computed, and is not tried again
            if not any(value in constants for value in columns.outputs(node)):
                self.foldable[node] = False
        if not constants:  # nothing to unite, and no reason to go on
            return False
        leaves = {
            class_: self.leaf(constants[class_], ("computed", class_)) for class_ in constants
        }
        for class_, leaf in leaves.items():
            self.constants[class_] = self.constants[leaf]
        pairs = np.array(list(leaves.items()), np.int64).reshape(-1, 2)
        columns.union(pairs[:, 0], pairs[:, 1])
        self._touch_readers(pairs[:, 0])
        return True

    def _computable(self) -> list[int]:
        columns = self.columns
        living = columns.living()
        chosen: list[int] = []
        taken: set[int] = set()
        is_known, is_constant = np.array(self.known, bool), np.zeros(columns.classes, bool)
        is_constant[np.fromiter(self.constants, np.int64, len(self.constants))] = True
        owners, _, results = columns.gives(living[self._foldable_flags()[living]])
        nodes = np.unique(owners[is_known[results]])
        left_out = np.zeros(columns.size, bool)
        givers, _, classes = columns.gives(nodes)
        left_out[givers[is_constant[classes]]] = True
        readers, _, read = columns.reads(nodes)
        left_out[readers[~is_constant[read]]] = True
        for node in nodes[~left_out[nodes]].tolist():
            outputs = [value for value in columns.outputs(node) if value != NONE]
            if all(value not in taken and self._is_small(value) for value in outputs):
                chosen.append(node)
                taken.update(outputs)
        return chosen

    def _is_small(self, value: int) -> bool:
        type_ = self.type(value)
        size = None if type_ is None else type_.size_bytes
        return size is not None and size <= SMALL_BYTES

    def _whole(self, value: int) -> Operand | None:
        return None if value == NONE else Operand(self.types[value], True, self.constants[value])

"""Foreign operators as statements of the rule language, in ONNX's operators."""

from __future__ import annotations

from collections.abc import Callable

from .operators import CONSTANTS, SAME, permutation
from .shapes import Shapes
from .sizes import Atom, Size, exact, size
from .terms import Apply, Term, parts

ONNX = {
    "relu": "Relu",
    "sigmoid": "Sigmoid",
    "tanh": "Tanh",
    "ewadd": "Add",
    "ewmul": "Mul",
    "smul": "Mul",
    "matmul": "MatMul",
}


class Side:
    """One side of a rule: `lines` are its statements, `names` what its terms are called.

    `text` writes a size; `on_node` is called for each term once it has a name.
    """

    def __init__(
        self,
        shapes: Shapes,
        outputs: tuple[Term, ...],
        prefix: str,
        names: dict[Term, str],
        text: Callable[[Size], str],
        on_node: Callable[[Term, str], None] = lambda term, name: None,
    ) -> None:
        self.shapes, self.outputs, self.prefix = shapes, outputs, prefix
        self.names, self.text = dict(names), text
        self.lines: list[str] = []
        self.odd = odd_kernels(shapes)
        self.results = [f"Y{i + 1}" if len(outputs) > 1 else "Y" for i in range(len(outputs))]
        self.count = 0
        for term in parts(outputs):
            if isinstance(term, Apply):
                if term not in self.names:
                    self._write(term)
                on_node(term, self.names[term])
        self._finish()

    def _name(self, term: Term) -> str:
        """The name of an output, or the next one of an interior value."""
        for term_out, result in zip(self.outputs, self.results, strict=True):
            if term_out == term:
                return result
        self.count += 1
        return f"{self.prefix}{self.count}"

    def _finish(self) -> None:
        """Outputs that are inputs, or twice the same value."""
        for term, result in zip(self.outputs, self.results, strict=True):
            if self.names[term] != result:
                value = self.names[term]
                source = f"Identity({value})" if self.prefix == "T" else value
                self.lines.append(f"{result} = {source}")

    def _write(self, term: Apply) -> None:
        if term.operator == "split":
            self._split(term)
            return
        name = self._name(term)
        operands = [self.names[operand] for operand in term.operands]
        self.names[term] = name
        self.lines.append(f"{name} = {self._operation(term, operands)}")

    def _split(self, term: Apply) -> None:
        """One Split for all the parts that are used."""
        lengths = self.shapes.split_sizes(term)
        read_parts = {
            part.output: part
            for part in parts(self.outputs)
            if isinstance(part, Apply)
            and (part.operator, part.operands) == (term.operator, term.operands)
            and part.parameter("axis") == term.parameter("axis")
        }
        names = []
        for i in range(len(lengths)):
            self.count += i not in read_parts
            names.append(
                self._name(read_parts[i])
                if i in read_parts
                else f"{self.prefix}{self.count}_unused"
            )
        self.names.update({part: names[i] for i, part in read_parts.items()})
        lengths_text = ", ".join(map(self.text, lengths))
        operand = self.names[term.operands[0]]
        axis = term.parameter("axis")
        self.lines.append(f"{', '.join(names)} = Split<axis={axis}>({operand}, [{lengths_text}])")

    # ------------------------------------------------------------------------------ operators

    def _operation(self, term: Apply, operands: list[str]) -> str:
        listed = ", ".join(operands)
        match term.operator:
            case "conv2d":
                return f"Conv{self._window(term)}({listed})"
            case "poolavg":
                return f"AveragePool{self._window(term)}({listed})"
            case "poolmax":
                return f"MaxPool{self._window(term)}({listed})"
            case "concat":
                return f"Concat<axis={term.parameter('axis')}>({listed})"
            case "transpose":
                shape = self.shapes.shape(term)
                order = permutation(term.parameter("perm"), len(shape.sizes) if shape else 0)
                return f"Transpose<perm={list(order or ())}>({listed})"
            case "enlarge" | "enlarge_like":
                return f"Pad({operands[0]}, {self._enlargement(term)})"
            case operator if operator in CONSTANTS:
                return self._constant(term)
        return f"{ONNX[term.operator]}({listed})"

    def _sizes(self, term: Term) -> tuple[Size, ...]:
        shape = self.shapes.shape(term)
        assert shape is not None
        return shape.sizes

    def _window(self, term: Apply) -> str:
        """The attributes of a convolution or a pooling, those left out that are as by default."""
        attributes: list[str] = []
        if term.operator == "conv2d":
            kernel = self._sizes(term.operands[1])[2:]
            group = self.shapes.group(term)
            attributes += [f"group={self.text(group)}"] if group.number != 1 else []
        else:
            kernel = (size(term.parameter("kernel_h")), size(term.parameter("kernel_w")))
            attributes += ["count_include_pad=1"] if term.operator == "poolavg" else []
            attributes += [f"kernel_shape=[{', '.join(map(self.text, kernel))}]"]
        if term.parameter("pad") == SAME:
            pads = [self._half(length - 1) for length in kernel]
            attributes += [f"pads=[{', '.join(pads * 2)}]"] if set(pads) != {"0"} else []
        strides = [term.parameter("stride_h"), term.parameter("stride_w")]
        attributes += [f"strides={strides}"] if strides != [1, 1] else []
        return f"<{', '.join(attributes)}>" if attributes else ""

    def _half(self, length: Size) -> str:
        """Half of a size, rounded down; see odd_kernels."""
        if length.number is not None:
            return str(length.number // 2)
        return f"({self.text(length)}) // 2"

    def _enlargement(self, term: Apply) -> str:
        """The pads that centre a kernel in a larger one, the odd one behind."""
        before, after = [], []
        for small, large in zip(
            self._sizes(term.operands[0])[2:], self._sizes(term)[2:], strict=True
        ):
            gap = large - small
            if gap.number is not None:
                low, high = str(gap.number // 2), str(gap.number - gap.number // 2)
            elif self._is_odd(small) and self._is_odd(large):
                low = high = self._half(gap)
            else:
                low, high = self._half(gap), self._half(gap + 1)
            before.append(low)
            after.append(high)
        return f"[0, 0, {', '.join(before)}, 0, 0, {', '.join(after)}]"

    def _is_odd(self, length: Size) -> bool:
        number = length.number
        return number % 2 == 1 if number is not None else length.atom in self.odd

    # ------------------------------------------------------------------------------ constants

    def _constant(self, term: Apply) -> str:
        sizes = self._sizes(term)
        listed = ", ".join(map(self.text, sizes))
        if term.operator == "ones":
            shape = self.shapes.shape(term)
            rest = f"*{shape.rest}, " if shape and shape.rest else ""
            return f"Add(ConstantOfShape([{(rest + listed).removesuffix(', ')}]), 1)"
        if term.operator == "imatmul":
            return f"EyeLike(ConstantOfShape([{listed}]))"
        identity = self._identity(sizes[0], sizes[1])
        kernel = [length.number or 1 for length in sizes[2:]]
        if term.operator == "cpool":
            area = kernel[0] * kernel[1]
            return f"Div(Expand({identity}, [{listed}]), {area})"
        before = [(k - 1) // 2 for k in kernel]
        after = [k - 1 - low for k, low in zip(kernel, before, strict=True)]
        if not any((*before, *after)):
            return identity
        pads = ", ".join(map(str, [0, 0, *before, 0, 0, *after]))
        return f"Pad({identity}, [{pads}])"

    def _identity(self, filters: Size, channels: Size) -> str:
        """A 1x1 kernel that hands every channel on, of as many groups as the sizes say."""
        repeats = exact(filters, channels)
        grouped = not self.shapes.square_constants
        rows = channels if grouped else filters
        eye = f"EyeLike(ConstantOfShape([{self.text(rows)}, {self.text(channels)}]))"
        kernel = f"Unsqueeze({eye}, [2, 3])"
        if not grouped or repeats.number == 1:
            return kernel
        return f"Tile({kernel}, [{self.text(repeats)}, 1, 1, 1])"


def odd_kernels(shapes: Shapes) -> set[Atom]:
    """The kernel sizes that must be odd, for SAME to pad by (k - 1) / 2 on both sides."""
    atoms: set[Atom] = set()
    for term in parts((*shapes.sources, *shapes.targets)):
        if not isinstance(term, Apply) or term.operator != "conv2d":
            continue
        weight = shapes.shape(term.operands[1])
        if weight is not None and term.parameter("pad") == SAME:
            atoms |= {s.atom for s in weight.sizes[2:] if s.atom is not None}
    return atoms

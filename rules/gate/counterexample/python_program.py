"""A counterexample as a short program that anyone can run.

With ONNX Runtime where the rule's operators are its; else in plain Python, one function for each
definition, which needs nothing at all.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import onnx

from ....catalog.operators.expand import Definition
from ....catalog.terms.index_notation import Read, Reduce, Symbol, Term, Variable
from ....catalog.terms.term_evaluator import TermEvaluator
from ...prover.statement import Statement
from ..evaluation.arithmetic import Array, Number, shape_at
from .difference import Difference

_MODELS = '''\
# {title}: {summary}
import numpy as np
import onnx.parser
import onnxruntime as ort

left = """{left}"""
right = """{right}"""
inputs = {{
{inputs}
}}


def run(text):
    model = onnx.parser.parse_model(text)
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    try:
        session = ort.InferenceSession(
            model.SerializeToString(), options, ["CPUExecutionProvider"]
        )
        wanted = {{i.name: {value} for i in session.get_inputs()}}
        return session.run(None, wanted)
    except Exception as error:
        return [str(error)]


for side, text in ({sides}):
    print(f"{{side}}:", *run(text), sep="\\n")
'''
_AS_IT_IS = "inputs[i.name]"
# Where a third model computes in double precision, its inputs must be of that type too.
_AS_ASKED = 'inputs[i.name].astype("d" if "double" in i.type else inputs[i.name].dtype)'


def models_program(
    title: str,
    summary: str,
    source: onnx.ModelProto,
    target: onnx.ModelProto,
    feeds: Mapping[str, Array],
    wide: onnx.ModelProto | None = None,
) -> str:
    """A program that runs two models on the same inputs under ONNX Runtime and prints both.

    `wide`: the left one in double precision, which is run too.
    """
    inputs = "\n".join(f'    "{name}": {_array(array)},' for name, array in feeds.items())
    sides = '("left", left), ("right", right)'
    right = _text(target)
    if wide is not None:
        sides += ', ("left, in float64", wide)'
        right += f'"""\nwide = """{_text(wide)}'
    return _MODELS.format(
        title=title,
        summary=summary,
        left=_text(source),
        right=right,
        inputs=inputs,
        sides=sides,
        value=_AS_IT_IS if wide is None else _AS_ASKED,
    )


def _text(model: onnx.ModelProto) -> str:
    """A model in ONNX's text form, its names spelled as identifiers."""
    named = onnx.ModelProto()
    named.CopyFrom(model)
    graph = named.graph
    kept = {value.name for value in (*graph.input, *graph.output)}
    names: dict[str, str] = {"": ""} | {name: name for name in kept}

    def plain(name: str) -> str:
        if name not in names:
            stem = "".join(c if c.isalnum() else "_" for c in name.rpartition("target.")[2])
            while stem in names.values():
                stem += "_"
            names[name] = stem
        return names[name]

    for tensor in graph.initializer:
        tensor.name = plain(tensor.name)
    for node in graph.node:
        node.ClearField("name")
        inputs, outputs = [plain(n) for n in node.input], [plain(n) for n in node.output]
        del node.input[:], node.output[:]
        node.input.extend(inputs)
        node.output.extend(outputs)
    return str(onnx.printer.to_text(named)).strip()


def _array(array: Array) -> str:
    values = np.asarray(array)
    if values.size == 0:
        return f"np.zeros({tuple(values.shape)}, np.{values.dtype.name})"
    if values.size > 64 and (values == values.reshape(-1)[0]).all():
        first = _number(values.reshape(-1)[0].item())
        return f"np.full({tuple(values.shape)}, {first}, np.{values.dtype.name})"
    numbers = ", ".join(_number(value) for value in values.reshape(-1).tolist())
    name = "bool_" if values.dtype.kind == "b" else values.dtype.name
    if values.ndim == 1:
        return f"np.array([{numbers}], np.{name})"
    if values.ndim == 0:
        return f"np.array({numbers}, np.{name})"
    return f"np.array([{numbers}], np.{name}).reshape{tuple(values.shape)}"


def _number(value: Any) -> str:
    if isinstance(value, float) and not math.isfinite(value):
        return "np.nan" if math.isnan(value) else f"{'-' if value < 0 else ''}np.inf"
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e15:
        return "-0.0" if value == 0 and math.copysign(1, value) < 0 else str(int(value))
    return repr(value)


# ----------------------------------------------------------------------------- plain Python

_HEAD = """\
# {title}: {summary}
import math
from fractions import Fraction
"""
_TAIL = """
for side, tensor in (("left", {left}), ("right", {right})):
    try:
        print(f"{{side}}[{places}] =", tensor({places}))
    except (ArithmeticError, ValueError, LookupError) as error:
        print(f"{{side}}[{places}] has no value:", error)
"""
_READ = '''

def element(tensor, *index):
    """An element, negative places excluded."""
    for place in index:
        if not 0 <= place < len(tensor):
            raise IndexError("a read out of bounds")
        tensor = tensor[place]
    return tensor
'''


def statement_program(statement: Statement, difference: Difference, summary: str) -> str:
    """A program in plain Python that computes both sides at the place where they differ."""
    symbols = difference.assignment.symbols
    lines = [_HEAD.format(title=statement.title, summary=summary)]
    for name, value in sorted(symbols.items()):
        lines.append(f"{_identifier(name)} = {_literal(value)}\n")
    for name, array in difference.assignment.arrays.items():
        lines.append(f"{_identifier(name)}_ = {_nested(array.tolist())}\n")
    lines.append(_READ)
    for operand in statement.operands:
        identifier = _identifier(operand.name)
        lines.append(
            f"\n\ndef {identifier}_at(*index):\n    return element({identifier}_, *index)\n"
        )
    for definition in statement.definitions:
        lines.append(_function(definition, symbols))
    equation = next((e for e in statement.equations if e.output == difference.output), None)
    if equation is None or difference.kind == "shape" or not difference.output:
        lines.append(f"\n\nprint({difference.text!r})\n")
        return "".join(lines)
    places = ", ".join(map(str, difference.index))
    lines.append("\n")
    lines.append(
        _TAIL.format(
            left=f"{_identifier(equation.source)}_at",
            right=f"{_identifier(equation.target)}_at",
            places=places,
        )
    )
    return "".join(lines)


def _function(definition: Definition, symbols: Mapping[str, Number]) -> str:
    indices = ", ".join(map(str, definition.indices))
    identifier = _identifier(definition.name)
    sizes = ""
    try:
        shape = shape_at(definition.shape, symbols)
        if shape:
            checks = " and ".join(
                f"0 <= {index} < {size}"
                for index, size in zip(definition.indices, shape, strict=True)
            )
            sizes = f'    if not ({checks}):\n        raise IndexError("a read out of bounds")\n'
    except Exception:  # a shape that is none: nothing of it is read
        sizes = ""
    value = _PythonText().value(definition.value)
    return f"\n\ndef {identifier}_at({indices}):\n{sizes}    return {value}\n"


def _identifier(name: str) -> str:
    plain = "".join(c if c.isalnum() else "_" for c in name)
    return plain if plain[:1].isalpha() else f"v{plain}"


def _literal(value: Any) -> str:
    if isinstance(value, Fraction):
        return f"Fraction({value.numerator}, {value.denominator})"
    if isinstance(value, float):
        return str(int(value)) if value.is_integer() else f'Fraction("{value!r}")'
    return repr(value)


def _nested(value: Any) -> str:
    if isinstance(value, list):
        return f"[{', '.join(map(_nested, value))}]"
    return _literal(value)


_INFIX = {
    "+": "+", "-": "-", "*": "*", "//": "//", "%": "%", "mod": "%", "=": "==", "!=": "!=",
    "<": "<", "<=": "<=", ">": ">", ">=": ">=", "and": "and", "or": "or", "xor": "^",
    "bit_and": "&", "bit_or": "|", "bit_xor": "^", "shift_left": "<<", "shift_right": ">>",
    "pow": "**",
}  # fmt: skip
_REDUCTIONS = {
    "sum": "sum", "prod": "math.prod", "max": "max", "min": "min", "any": "any", "all": "all",
}  # fmt: skip


class _PythonText(TermEvaluator[str]):
    """Writes terms as expressions; fractions stay exact, functions give floats."""

    def constant(self, value: bool | int | float) -> str:
        return _literal(value)

    def symbol(self, symbol: Symbol) -> str:
        return _identifier(symbol.name)

    def variable(self, variable: Variable) -> str:
        return str(variable)

    def apply(self, function: str, arguments: Sequence[str]) -> str:
        return _call(function, arguments)

    def read(self, element: Read) -> str:
        return f"{_identifier(element.tensor)}_at({', '.join(map(self.value, element.indices))})"

    def select(self, condition: Term, then: Term, otherwise: Term) -> str:
        return f"({self.value(then)} if {self.value(condition)} else {self.value(otherwise)})"

    def reduce(self, reduction: Reduce) -> str:
        loops = " ".join(
            f"for {variable} in range({self.value(extent)})"
            for variable, extent in zip(reduction.variables, reduction.extents, strict=True)
        )
        guard = "" if reduction.condition is True else f" if {self.value(reduction.condition)}"
        return f"{_REDUCTIONS[reduction.kind]}({self.value(reduction.body)} {loops}{guard})"


def _call(function: str, values: Sequence[str]) -> str:
    if function in _INFIX and len(values) == 2:
        return f"({values[0]} {_INFIX[function]} {values[1]})"
    match function:
        case "/":
            return f"(Fraction({values[0]}) / Fraction({values[1]}))"
        case "neg":
            return f"(-{values[0]})"
        case "not":
            return f"(not {values[0]})"
        case "max" | "min" | "abs" | "round":
            return f"{function}({', '.join(values)})"
        case "sign":
            return f"(({values[0]} > 0) - ({values[0]} < 0))"
        case "pi":
            return "math.pi"
        case "real":
            return values[0]
        case "int32":
            return f"int({values[0]})"
        case "isnan" | "is_positive_inf" | "is_negative_inf":
            return "False"
    if function.startswith("to_"):
        kind = function.removeprefix("to_")
        if kind == "bool":
            return f"bool({values[0]})"
        return f"int({values[0]})" if "int" in kind else values[0]
    return f"math.{function}({', '.join(values)})"

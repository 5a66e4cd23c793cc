"""Models as hostile to a rule as ONNX allows, and what the rule makes of them.

An instance of a rule is edited: attributes are left out, or given though they are defaults; axes
are counted from the other end; sizes become 0 or 1; ranks, element types and the operator set
change; two operands become one value; an output is read outside of the match, or by the match
itself; constants become inputs, and inputs constants. Then the optimizer's matcher says where the
rule matches, if it still does, and both models run under ONNX Runtime.
"""

from __future__ import annotations

import itertools

import numpy as np
import onnx
from onnx import helper, numpy_helper
from tensolog.catalog.operators.contributed import infer_shapes, schema
from tensolog.optimizer.graph.convert import load_graph, to_model
from tensolog.optimizer.graph.infer import infer_types
from tensolog.optimizer.match.matcher import Matcher
from tensolog.optimizer.match.rewrite import RewriteError, apply_match
from tensolog.profiles.kernels.faults import DIVISIONS, FATAL_WHEN_EMPTY
from tensolog.rules.compiler.model_view import dtype_name
from tensolog.rules.language import schemas

from .rewriting import run

FLOATING = ("float32", "float64", "float16")
TYPES = (*FLOATING, "int64", "int32", "uint8", "int8", "bool")
# What says that there is no kernel for an element type, which is no matter of a rule.
NO_KERNEL = ("NOT_IMPLEMENTED", "Could not find an implementation")
# Empty tensors on which a kernel ends the process, or of which it gives what nobody wrote.
FATAL = FATAL_WHEN_EMPTY | DIVISIONS | {"MatMulInteger", "ReduceMean", "Reshape"}


class UnfitError(Exception):
    """An edit that there is nothing for in a model, or that ONNX refuses."""


# ------------------------------------------------------------------------------------- edits


class Editor:
    """Edits one model at random."""

    def __init__(self, model, rng, extremes):
        self.model = onnx.ModelProto()
        self.model.CopyFrom(model)
        self.graph, self.rng, self.extremes = self.model.graph, rng, extremes

    # ---- what is there
    @property
    def opset(self):
        return next(o.version for o in self.model.opset_import if o.domain in ("", "ai.onnx"))

    def types(self):
        """The element type and shape of each value, by its name."""
        inferred = infer_shapes(self.model, strict=True).graph
        tensor_types = {
            i.name: i.type.tensor_type for i in (*inferred.value_info, *inferred.output)
        }
        tensor_types |= {i.name: i.type.tensor_type for i in inferred.input}
        value_types = {
            name: (type_.elem_type, tuple(d.dim_value for d in type_.shape.dim))
            for name, type_ in tensor_types.items()
        }
        return value_types | {t.name: (t.data_type, tuple(t.dims)) for t in self.graph.initializer}

    def constant(self, name):
        return next((t for t in self.graph.initializer if t.name == name), None)

    def input(self, name):
        return next((i for i in self.graph.input if i.name == name), None)

    def some(self, items):
        items = list(items)
        if not items:
            raise UnfitError
        return self.rng.choice(items)

    def node(self):
        return self.some(self.graph.node)

    def attributes_of(self, node):
        operator_schema = schema(node.op_type, self.opset, node.domain)
        return {} if operator_schema is None else operator_schema.attributes

    def rank(self, node):
        return len(self.types()[node.input[0]][1])

    # ---- attributes
    def leave_out(self):
        """Leave an attribute out at all nodes of an operator, or at one."""
        node = self.node()
        attribute_specs = self.attributes_of(node)
        name = self.some(a.name for a in node.attribute if not attribute_specs[a.name].required)
        for other in self.alike(node):
            kept = [a for a in other.attribute if a.name != name]
            del other.attribute[:]
            other.attribute.extend(kept)

    def give(self):
        """Give an attribute at all nodes of an operator, or at one."""
        node = self.node()
        there = {a.name for a in node.attribute}
        name = self.some(sorted(self.attributes_of(node).keys() - there))
        value = self.value(node, name)
        for other in self.alike(node):
            if name not in {a.name for a in other.attribute}:
                other.attribute.append(value)

    def alike(self, node):
        every = [other for other in self.graph.node if other.op_type == node.op_type]
        return every if self.rng.random() < 0.7 else [node]

    def value(self, node, name):
        spec = self.attributes_of(node)[name]
        default = schemas.default_of(spec)
        if default is not None and self.rng.random() < 0.4:
            return helper.make_attribute(name, default)
        rank = self.rank(node)
        spatial = max(rank - 2, 0)
        drawn = {
            "axis": lambda: self.rng.randrange(-rank, rank) if rank else 0,
            "perm": lambda: self.permutation(rank),
            "axes": lambda: self.axes(rank),
            "strides": lambda: [self.rng.randint(1, 2) for _ in range(spatial)],
            "dilations": lambda: [self.rng.randint(1, 2) for _ in range(spatial)],
            "pads": lambda: [self.rng.randint(0, 1) for _ in range(2 * spatial)],
            "auto_pad": lambda: self.rng.choice(["NOTSET", "VALID", "SAME_UPPER", "SAME_LOWER"]),
            "kernel_shape": lambda: list(self.types()[node.input[1]][1][2:]),
            "num_outputs": lambda: len(node.output),
            "split": lambda: self.split(node),
            "approximate": lambda: self.rng.choice(["none", "tanh"]),
            "saturate": lambda: 1,  # the runtime has another for casts to 8-bit floats alone
        }
        if name in drawn:
            drawn_value = drawn[name]()
            if drawn_value == []:
                raise UnfitError
            return helper.make_attribute(name, drawn_value)
        kind = spec.type
        if kind == onnx.defs.OpSchema.AttrType.INT:
            return helper.make_attribute(name, self.rng.choice([0, 1, 1, 2]))
        if kind == onnx.defs.OpSchema.AttrType.FLOAT:
            return helper.make_attribute(name, self.rng.choice([0.5, 1.0, 2.0, 0.125]))
        raise UnfitError

    def permutation(self, rank):
        order = list(range(rank))
        self.rng.shuffle(order)
        return order[::-1] if self.rng.random() < 0.3 else order

    def axes(self, rank):
        chosen = self.rng.sample(range(rank), self.rng.randint(1, rank)) if rank else []
        return [axis - rank if self.rng.random() < 0.4 else axis for axis in chosen]

    def split(self, node):
        axis = next((a.i for a in node.attribute if a.name == "axis"), 0)
        size = self.types()[node.input[0]][1][axis]
        parts = len(node.output)
        if parts < 2 or size < parts:
            raise UnfitError
        return [1] * (parts - 1) + [size - parts + 1]

    def count_from_the_other_end(self):
        """Spell an axis, or one of a list of axes, from the other end."""
        node = self.node()
        rank = self.rank(node)
        attribute = self.some(a for a in node.attribute if a.name in ("axis", "axes"))
        if attribute.name == "axis":
            attribute.i = attribute.i - rank if attribute.i >= 0 else attribute.i + rank
        else:
            position = self.some(range(len(attribute.ints)))
            attribute.ints[position] += -rank if attribute.ints[position] >= 0 else rank

    def count_listed_from_the_other_end(self):
        """Spell one of the axes of a constant from the other end."""
        node = self.some(n for n in self.graph.node if self._axes_input(n) is not None)
        tensor = self._axes_input(node)
        rank = self.rank(node)
        if node.op_type == "Unsqueeze":
            rank += numpy_helper.to_array(tensor).size
        array = numpy_helper.to_array(tensor).copy()
        if array.ndim != 1 or not array.size:
            raise UnfitError
        position = self.rng.randrange(array.size)
        array[position] += -rank if array[position] >= 0 else rank
        if self.rng.random() < 0.5:
            array = array[::-1].copy()
        tensor.CopyFrom(numpy_helper.from_array(array, tensor.name))

    def _axes_input(self, node):
        operator_schema = schema(node.op_type, self.opset, node.domain)
        names = [] if operator_schema is None else [i.name for i in operator_schema.inputs]
        for position, name in enumerate(node.input):
            if (
                position < len(names)
                and names[position] == "axes"
                and (tensor := self.constant(name))
            ):
                return tensor
        return None

    # ---- inputs
    def leave_input_out(self):
        """Leave an optional input out."""
        node = self.node()
        operator_schema = schema(node.op_type, self.opset, node.domain)
        if operator_schema is None:
            raise UnfitError
        optional = onnx.defs.OpSchema.FormalParameterOption.Optional
        position = self.some(
            position
            for position, name in enumerate(node.input)
            if name
            and position < len(operator_schema.inputs)
            and operator_schema.inputs[position].option == optional
        )
        node.input[position] = ""
        while node.input and not node.input[-1]:
            node.input.pop()

    def empty_list(self):
        """Let a list of axes have no entries."""
        tensor = self._axes_input(self.node())
        if tensor is None:
            raise UnfitError
        tensor.CopyFrom(numpy_helper.from_array(np.zeros(0, np.int64), tensor.name))

    def same_operand(self):
        """Let two operands be one value."""
        leaves = self.leaves()
        types = self.types()
        pairs = [
            (a, b) for a, b in itertools.permutations(leaves, 2) if types[a] == types[b] and a != b
        ]
        kept, gone = self.some(pairs)
        self.rename(gone, kept)
        self.drop_leaf(gone)

    def read_what_is_made(self):
        """Let an operand be what another node of the match makes."""
        types = self.types()
        outputs = [o for node in self.graph.node for o in node.output if o]
        pairs = [
            (leaf, value)
            for leaf in self.leaves()
            for value in outputs
            if types.get(leaf) == types.get(value) and value not in self.depends(leaf)
        ]
        leaf, value = self.some(pairs)
        self.rename(leaf, value)
        self.drop_leaf(leaf)
        self.sort()

    def depends(self, leaf):
        """The values that are made of a leaf."""
        dependents = {leaf}
        for node in self.graph.node:
            if dependents & set(node.input):
                dependents |= set(node.output)
        return dependents

    def sort(self):
        ready = set(self.leaves()) | {""}
        waiting, ordered = (
            [onnx.NodeProto.FromString(n.SerializeToString()) for n in self.graph.node],
            [],
        )
        while waiting:
            node = next((n for n in waiting if set(n.input) <= ready), None)
            if node is None:
                raise UnfitError
            waiting.remove(node)
            ready |= set(node.output)
            ordered.append(node)
        del self.graph.node[:]
        self.graph.node.extend(ordered)

    def leaves(self):
        return [i.name for i in self.graph.input] + [t.name for t in self.graph.initializer]

    def rename(self, old, new):
        for node in self.graph.node:
            for position, name in enumerate(node.input):
                if name == old:
                    node.input[position] = new

    def drop_leaf(self, name):
        for listed in (self.graph.input, self.graph.initializer):
            for item in list(listed):
                if item.name == name:
                    listed.remove(item)

    def make_input(self):
        """Let a constant be an input of the model."""
        tensor = self.some(self.graph.initializer)
        info = helper.make_tensor_value_info(tensor.name, tensor.data_type, list(tensor.dims))
        self.graph.initializer.remove(tensor)
        self.graph.input.append(info)

    def make_constant(self):
        """Let an input be a constant."""
        info = self.some(self.graph.input)
        type_ = info.type.tensor_type
        dtype = np.dtype(helper.tensor_dtype_to_np_dtype(type_.elem_type))
        array = numbers(self.rng, dtype, [d.dim_value for d in type_.shape.dim])
        self.graph.initializer.append(numpy_helper.from_array(array, info.name))
        self.graph.input.remove(info)

    def make_special(self):
        """Let a constant of one element be a number with laws of its own.

        NaN is none: of it rules promise nothing, and a plan is compared on the constants it has.
        Of extremes only what is equal to the bit promises anything: beside 1e30 sums lose all else.
        """
        tensor = self.some(t for t in self.graph.initializer if int(np.prod(t.dims)) == 1)
        array = numpy_helper.to_array(tensor)
        extremes = [1e-30, 1e30, np.inf, -np.inf] if self.extremes else []
        specials = {
            "f": [0.0, -0.0, 1.0, -1.0, *extremes],
            "i": [0, 1, -1],
            "u": [0, 1],
            "b": [False, True],
        }
        special = self.some(specials.get(array.dtype.kind, []))
        tensor.CopyFrom(numpy_helper.from_array(np.full_like(array, special), tensor.name))

    # ---- readers
    def read_elsewhere(self):
        """Let another node read a value of the model."""
        value = self.some([*self.leaves(), *(o for n in self.graph.node for o in n.output if o)])
        name = f"read.{len(self.graph.node)}"
        self.graph.node.append(helper.make_node("Identity", [value], [name], name=name))
        self.graph.output.append(helper.make_empty_tensor_value_info(name))

    def copy_outputs(self):
        """Let outputs of the match be read, and not be outputs of the model."""
        for output in self.graph.output:
            name = f"copy.{output.name}"
            self.graph.node.append(helper.make_node("Identity", [output.name], [name], name=name))
            output.name = name

    def give_out(self):
        """Let a value be an output of the model."""
        there = {o.name for o in self.graph.output}
        outputs = [o for n in self.graph.node for o in n.output if o and o not in there]
        self.graph.output.append(helper.make_empty_tensor_value_info(self.some(outputs)))

    # ---- sizes, ranks and types
    def resize(self):
        """Let all dimensions of one size have another, in lists of sizes too."""
        sizes = sorted({d for _, shape in self.types().values() for d in shape})
        old, new = self.some(sizes), self.rng.choice([0, 1, 1, 1, 2])
        for info in self.graph.input:
            for dim in info.type.tensor_type.shape.dim:
                dim.dim_value = new if dim.dim_value == old else dim.dim_value
        for tensor in self.graph.initializer:
            array = numpy_helper.to_array(tensor)
            if array.dtype.kind in "iu" and array.ndim == 1:
                array = np.where(array == old, new, array).astype(array.dtype)
            elif old in array.shape:
                shape = [new if d == old else d for d in array.shape]
                array = numbers(self.rng, array.dtype, shape)
            tensor.CopyFrom(numpy_helper.from_array(array, tensor.name))

    def reshape_leaf(self):
        """Give one leaf another shape: a size of 1, an axis more or less in front."""
        name = self.some(self.leaves())
        _, shape = self.types()[name]
        options = [(1, *shape), (2, *shape), shape[1:], shape[:-1], ()]
        options += [(*shape[:axis], 1, *shape[axis + 1 :]) for axis in range(len(shape))]
        new = self.some(option for option in options if option != shape)
        if (info := self.input(name)) is not None:
            elem = info.type.tensor_type.elem_type
            info.CopyFrom(helper.make_tensor_value_info(name, elem, list(new)))
        tensor = self.constant(name)
        if tensor is not None:
            array = numpy_helper.to_array(tensor)
            first_element = array.reshape(-1)[:1] if array.size else np.zeros(1, array.dtype)
            same = array.size and (array == first_element[0]).all()
            values = np.full(new, first_element[0], array.dtype) if same else None
            values = numbers(self.rng, array.dtype, new) if values is None else values
            tensor.CopyFrom(numpy_helper.from_array(values, name))

    def retype(self):
        """Let the most common element type be another one."""
        kinds = [i.type.tensor_type.elem_type for i in self.graph.input]
        old = self.some(kinds)
        new = helper.np_dtype_to_tensor_dtype(np.dtype(self.rng.choice(TYPES)))
        for info in (*self.graph.input, *self.graph.output):
            if info.type.tensor_type.elem_type == old:
                info.type.tensor_type.elem_type = new
        for tensor in self.graph.initializer:
            if tensor.data_type == old:
                array = numpy_helper.to_array(tensor)
                array = array.astype(helper.tensor_dtype_to_np_dtype(new))
                tensor.CopyFrom(numpy_helper.from_array(array, tensor.name))

    def other_opset(self):
        for entry in self.model.opset_import:
            if entry.domain in ("", "ai.onnx"):
                entry.version = self.rng.randint(schemas.EARLIEST_OPSET, 22)

    EDITS = (
        *(leave_out, give, give, count_from_the_other_end, count_listed_from_the_other_end),
        *(leave_input_out, empty_list, same_operand, same_operand, read_what_is_made),
        *(make_input, make_constant, make_special, read_elsewhere, give_out),
        *(resize, resize, reshape_leaf, reshape_leaf, retype, other_opset),
    )

    def finished(self):
        """The edited model, its outputs declared as inferred now; UnfitError if it is refused."""
        for node in self.graph.node:
            counted = [a.i for a in node.attribute if a.name == "num_outputs"]
            if counted and counted[0] != len(node.output):
                raise UnfitError  # onnx ends the process on them
        for info in self.graph.output:
            info.CopyFrom(helper.make_empty_tensor_value_info(info.name))
        del self.graph.value_info[:]
        inferred = infer_shapes(self.model, strict=True)
        self.model.CopyFrom(inferred)
        del self.graph.value_info[:]
        onnx.checker.check_model(self.model, full_check=True)
        return self.model


def edited(model, rng, most=3, extremes=False):
    """The model after a few edits; UnfitError where there is nothing to edit or ONNX refuses it."""
    editor = Editor(model, rng, extremes)
    if rng.random() < 0.8:
        editor.copy_outputs()
    for _ in range(rng.randint(1, most)):
        try:
            rng.choice(Editor.EDITS)(editor)
        except (UnfitError, KeyError, IndexError, ValueError, OverflowError):
            continue
        except onnx.shape_inference.InferenceError as error:
            raise UnfitError from error
    try:
        return editor.finished()
    except (
        onnx.shape_inference.InferenceError,
        onnx.checker.ValidationError,
        ValueError,  # a type that could not be inferred
    ) as error:
        raise UnfitError from error


# ----------------------------------------------------------------------------------- running


def numbers(rng, dtype, shape):
    """Numbers of a type; sums of small whole ones have no roundings."""
    draw = np.random.default_rng(rng.getrandbits(32))
    dtype = np.dtype(dtype)
    if dtype.kind == "b":
        return draw.integers(0, 2, shape).astype(dtype)
    if dtype.kind == "f":
        return np.asarray(draw.integers(-8, 9, shape) / 4 + 0.125, dtype)
    return draw.integers(0 if dtype.kind == "u" else -3, 4, shape).astype(dtype)


def feeds_of(model, rng):
    return {
        info.name: numbers(
            rng,
            helper.tensor_dtype_to_np_dtype(info.type.tensor_type.elem_type),
            [d.dim_value for d in info.type.tensor_type.shape.dim],
        )
        for info in model.graph.input
    }


def may_end_the_process(model):
    """Whether a kernel may divide by zero, or fall over a tensor without elements."""
    graph = infer_shapes(model).graph
    types = [i.type.tensor_type for i in (*graph.input, *graph.value_info, *graph.output)]
    shapes = [tuple(d.dim_value for d in t.shape.dim) for t in types]
    shapes += [tuple(t.dims) for t in graph.initializer]
    operators = {node.op_type for node in graph.node}
    whole = {"int64", "int32", "int8", "uint8"}
    kinds = {dtype_name(t.elem_type) for t in types} | {
        dtype_name(t.data_type) for t in graph.initializer
    }
    empty = any(0 in shape for shape in shapes)
    pools = any("Pool" in op or "Conv" in op for op in operators)
    return bool(
        (kinds & whole and operators & DIVISIONS) or (empty and (pools or operators & FATAL))
    )


class DifferError(AssertionError):
    """A rule that changes what a model computes."""


def check(rule, model, rng):
    """Apply a rule wherever it matches, each time alone; return what became of the matches.

    Outcomes: "equal", "refused" (the optimizer sees that the right side doesn't fit), "no kernel",
    "not run" (ONNX Runtime refuses the model itself). Raises DifferError.
    """
    opset = next(o.version for o in model.opset_import if o.domain in ("", "ai.onnx"))
    if not (rule.opset_from or 0) <= opset <= (rule.opset_to or opset):
        return []
    graph = load_graph(named(model, rng) if rng.random() < 0.3 else model)
    graph.types = infer_types(graph)
    outcomes = []
    for match in Matcher([rule]).find(graph):
        changed = graph.copy()
        try:
            apply_match(changed, match)
        except RewriteError as error:
            outcomes.append(("refused", str(error)))
            continue
        outcomes.append(compared(rule, model, to_model(changed), rng))
    return outcomes


def named(model, rng):
    """The model with names for some sizes of its inputs, one name for one size."""
    free = onnx.ModelProto()
    free.CopyFrom(model)
    for info in free.graph.input:
        for dim in info.type.tensor_type.shape.dim:
            if rng.random() < 0.5:
                dim.dim_param = f"size{dim.dim_value}"
    for info in free.graph.output:
        info.CopyFrom(helper.make_empty_tensor_value_info(info.name))
    return free


def compared(rule, before, after, rng):
    if may_end_the_process(before) or may_end_the_process(after):
        return ("not run", "ONNX Runtime might end the process")
    feeds = feeds_of(before, rng)
    try:
        left = run(before, feeds)
    except Exception as error:
        return ("not run", str(error))
    inferred = infer_shapes(before).graph.output
    for array, info in zip(left, inferred, strict=True):
        if list(array.shape) != [d.dim_value for d in info.type.tensor_type.shape.dim]:
            return ("not run", "ONNX Runtime gives another shape than ONNX says")
    try:
        right = run(after, feeds)
    except Exception as error:
        if any(text in str(error) for text in NO_KERNEL):
            return ("no kernel", str(error))
        raise DifferError(
            f"{failure_text(rule, before, after)}\nthe right side fails: {error}"
        ) from error
    for a, b in zip(left, right, strict=True):
        if a.dtype != b.dtype or a.shape != b.shape:
            told_types = f"{a.dtype} {a.shape} becomes {b.dtype} {b.shape}"
            raise DifferError(f"{failure_text(rule, before, after)}\n{told_types}")
        if not close(a, b):
            raise DifferError(f"{failure_text(rule, before, after)}\n{feeds}\n{a}\nbecomes\n{b}")
    return ("equal", "")


def close(a, b):
    if a.dtype.kind not in "fc":
        return np.array_equal(a, b)
    finite = np.isfinite(a)
    a, b = np.where(finite, a, 0).astype(np.float64), np.where(finite, b, 0).astype(np.float64)
    scale = np.abs(a).max(initial=1.0)
    return bool(np.all(np.abs(a - b) <= 2e-3 * scale))


def failure_text(rule, before, after):
    return f"{rule.name}\n{onnx.printer.to_text(before)}\n{onnx.printer.to_text(after)}"

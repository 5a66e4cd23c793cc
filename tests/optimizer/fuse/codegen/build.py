"""Programs of one fused operator, and what they must compute."""

import numpy as np
from tensolog.optimizer.codegen.unit import LEVELS, native_level
from tensolog.optimizer.fuse.codegen import compile_plan
from tensolog.optimizer.fuse.planning.fusion_plan import FusedOperator, FusionPlan
from tensolog.optimizer.fuse.program.dag import Node, Program
from tensolog.optimizer.fuse.program.evaluate import run


def reachable():
    """The instruction sets of this processor, best first."""
    names = list(LEVELS)
    return names[names.index(native_level()) :]


class Builder:
    """Nodes of one type, named by their numbers."""

    def __init__(self, dtype="float64"):
        self.dtype = dtype
        self.nodes = []
        self.arrays = []

    def add(self, op, *inputs, shape=(), dtype=None, nnz=None, layout="dense", **attributes):
        node = (len(self.nodes), op, inputs, attributes, shape, dtype or self.dtype, nnz, layout)
        self.nodes.append(Node(*node))
        return self.nodes[-1].id

    def input(self, array):
        self.arrays.append(array)
        sparse = hasattr(array, "tocsr")
        attributes = {"nnz": array.nnz, "layout": array.format} if sparse else {}
        return self.add("Input", shape=array.shape, dtype=array.dtype.name, **attributes)

    def constant(self, value, dtype=None):
        return self.add("Constant", value=value, dtype=dtype)

    def shape(self, node):
        return self.nodes[node].shape

    def cell(self, op, *inputs, dtype=None, **attributes):
        shape = np.broadcast_shapes(*map(self.shape, inputs))
        return self.add(op, *inputs, shape=shape, dtype=dtype, **attributes)

    def reduce(self, op, node, axes, keepdims=0):
        shape = self.shape(node)
        kept = [(1,) * keepdims if axis in axes else (n,) for axis, n in enumerate(shape)]
        return self.add(op, node, shape=sum(kept, ()), axes=axes, keepdims=keepdims)

    def matmul(self, a, b):
        shape = (np.ones(self.shape(a)) @ np.ones(self.shape(b))).shape
        return self.add("MatMul", a, b, shape=shape)

    def transpose(self, node):
        return self.add("Transpose", node, shape=self.shape(node)[::-1], perm=(1, 0))

    def program(self, *outputs):
        inputs = tuple(node.id for node in self.nodes if node.op == "Input")
        return Program(tuple(self.nodes), inputs, outputs)

    def compiled(self, outputs, template="Cell", driver=None, sparse=False, **options):
        """All computed nodes as one fused operator."""
        program = self.program(*outputs)
        covered = tuple(node.id for node in self.nodes if not node.is_leaf)
        inputs = tuple(node.id for node in self.nodes if node.is_leaf)
        unique_outputs = tuple(dict.fromkeys(outputs))
        operator = FusedOperator(
            template, covered, inputs, unique_outputs, (1, 1), "none", driver=driver, sparse=sparse
        )
        return compile_plan(program, FusionPlan((operator,), 0.0, "cost"), **options)

    def expected(self, outputs):
        """What NumPy computes, of sparse inputs made dense."""
        nodes = tuple(
            Node(n.id, n.op, n.inputs, n.attributes, n.shape, n.dtype) for n in self.nodes
        )
        dense = [a.toarray() if hasattr(a, "tocsr") else a for a in self.arrays]
        program = self.program(*outputs)
        return run(Program(nodes, program.inputs, program.outputs), dense)


def check(builder, outputs, *, tolerance=None, kernel=True, **options):
    """Run as one kernel, in one and two threads, and compare with NumPy; return the plan."""
    compiled = builder.compiled(outputs, **options)
    assert not (kernel and compiled.fallbacks), compiled.fallbacks
    expected = builder.expected(outputs)
    once = compiled.run(builder.arrays, 1)
    twice = compiled.run(builder.arrays, 2)
    for result, again, wanted in zip(once, twice, expected, strict=True):
        result, again = (a.toarray() if hasattr(a, "tocsr") else a for a in (result, again))
        assert result.shape == wanted.shape
        assert result.dtype == wanted.dtype
        np.testing.assert_array_equal(result, again)  # threads don't change results
        close(result, wanted, tolerance)
    return compiled


def close(result, wanted, tolerance=None):
    if wanted.dtype == bool:
        np.testing.assert_array_equal(result, wanted)
        return
    tolerance = tolerance or (1e-12 if wanted.dtype == np.float64 else 2e-5)
    scale = np.max(np.abs(wanted), initial=1e-300, where=np.isfinite(wanted))
    np.testing.assert_allclose(result, wanted, rtol=tolerance, atol=tolerance * scale)

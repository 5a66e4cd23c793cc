"""SciPy's sparse arrays and matrices inside of a fused function.

A sparse matrix of SciPy's answers `*` with the product of matrices, a sparse array with that of
elements; sums of a matrix are of type np.matrix. What would give one of those is left to SciPy.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from . import contractions, eager, reductions
from .expression import TRACED, Expression, cast, leaf
from .sparse import ZERO_TO_ZERO
from .trace import Trace, UnsupportedError
from .ufuncs import made, number, operand

# Methods of sparse objects, and the operators that map 0 to 0.
_METHODS = {
    "sqrt": "Sqrt",
    "sin": "Sin",
    "tan": "Tan",
    "arcsin": "Asin",
    "arctan": "Atan",
    "sinh": "Sinh",
    "tanh": "Tanh",
    "arcsinh": "Asinh",
    "arctanh": "Atanh",
    "floor": "Floor",
    "ceil": "Ceil",
    "rint": "Round",
    "sign": "Sign",
}
# Ufuncs that NumPy answers with a method of the sparse object.
_NAMED = frozenset(_METHODS) | {"absolute", "log1p", "expm1", "deg2rad", "rad2deg", "trunc"}


def wrap(trace: Trace, value: Any) -> Any:
    """Return a sparse argument that is traced, or itself where it isn't.

    Columns are held as the rows of the transpose, coordinates as rows; duplicates are added up.
    """
    import scipy.sparse

    if value.ndim != 2 or value.format not in ("csr", "csc", "coo"):
        trace.runner.note(f"a sparse argument in the format {value.format} isn't traced")
        return value
    if value.dtype.name not in TRACED or not value.dtype.isnative:
        trace.runner.note(f"a sparse argument of type {value.dtype} isn't traced")
        return value
    is_matrix = not isinstance(value, scipy.sparse.sparray)
    return LazySparse(trace, _expression_of(value), value.format, is_matrix, value)


def _expression_of(value: Any) -> Expression:
    import scipy.sparse

    if value.format == "csc":
        rows = scipy.sparse.csr_array(
            (value.data, value.indices, value.indptr), shape=value.shape[::-1]
        )
        return transposed(leaf(_canonical(rows, value)))
    return leaf(_canonical(scipy.sparse.csr_array(value), value))


def _canonical(rows: Any, given: Any) -> Any:
    if not rows.has_canonical_format:
        if np.may_share_memory(rows.data, given.data):
            rows = rows.copy()
        rows.sum_duplicates()
    return rows


def transposed(x: Expression) -> Expression:
    """Return the transpose of a sparse expression."""
    layout = {"csr": "csc", "csc": "csr"}[x.layout]
    shape = (x.shape[1], x.shape[0])
    return Expression("Transpose", (x,), shape, x.dtype, (("perm", (1, 0)),), layout, x.nnz)


def _pointwise(op: str, x: Expression, *others: Expression, dtype: str) -> Expression:
    """Return an operator that leaves zeros where x has them."""
    operands = (x, *others)
    return Expression(op, operands, x.shape, dtype, (), x.layout, x.nnz)


class LazySparse:
    """Stands for a sparse array, or a sparse matrix, of SciPy's.

    `_format` is the one that SciPy would give it, `_original` the argument that it stands for.
    """

    __slots__ = (
        "__weakref__",
        "_exposed",
        "_expression",
        "_family",
        "_format",
        "_is_matrix",
        "_original",
        "_trace",
    )

    __array_priority__ = 1001.0

    def __init__(
        self,
        trace: Trace,
        expression: Expression,
        layout: str,
        is_matrix: bool,
        original: Any = None,
    ) -> None:
        self._trace = trace
        self._expression = expression
        self._format = layout
        self._is_matrix = is_matrix
        self._original = original
        self._family = None
        self._exposed = False
        trace.register(self)

    def _like(self, expression: Expression, layout: str | None = None) -> LazySparse:
        self._trace.step(expression)
        return LazySparse(self._trace, expression, layout or self._format, self._is_matrix)

    def _traced(self) -> Expression:
        if self._trace.closed:
            raise UnsupportedError("after the call")
        if self._exposed:
            raise UnsupportedError("a sparse operand whose memory was given away")
        return self._expression

    def _tensolog_real(self) -> Any:
        """Return the object that it stands for; not to be written."""
        if self._original is None:
            import scipy.sparse

            value = self._trace.force(self._expression, "a function left to SciPy")
            kind = "matrix" if self._is_matrix else "array"
            value = value.asformat(self._format)
            self._original = getattr(scipy.sparse, f"{self._format}_{kind}")(value, copy=True)
        return self._original

    _tensolog_result = _tensolog_real

    # -- what is known without computing ---------------------------------------------------------

    @property  # type: ignore[misc]
    def __class__(self) -> Any:
        import scipy.sparse

        kind = "matrix" if self._is_matrix else "array"
        return getattr(scipy.sparse, f"{self._format}_{kind}")

    @property
    def shape(self) -> tuple[int, ...]:
        """The numbers of rows and columns."""
        return self._expression.shape

    @property
    def ndim(self) -> int:
        """The number of axes: 2."""
        return 2

    @property
    def dtype(self) -> np.dtype[Any]:
        """The type of the elements."""
        return np.dtype(self._expression.dtype)

    @property
    def format(self) -> str:
        """SciPy's name of the way in which it is held."""
        return self._format

    # -- products --------------------------------------------------------------------------------

    def __matmul__(self, other: Any) -> Any:
        return self._or_left("__matmul__", other, lambda: self._product(other, reflected=False))

    def __rmatmul__(self, other: Any) -> Any:
        return self._or_left("__rmatmul__", other, lambda: self._product(other, reflected=True))

    def dot(self, other: Any) -> Any:
        """Return the product of matrices, or by a number."""
        if np.ndim(other) == 0 and not hasattr(type(other), "tocsr"):
            return self._or_left("dot", other, lambda: self._times(other))
        return self._or_left("dot", other, lambda: self._product(other, reflected=False))

    def _product(self, other: Any, reflected: bool) -> Any:
        if hasattr(type(other), "tocsr"):
            raise UnsupportedError("a product of two sparse operands")
        if self._format == "coo" and 1 in self.shape:
            raise UnsupportedError("SciPy gives a number for one row in coordinates")
        x, dense = self._traced(), operand(self._trace, other)
        found = contractions.product(*((dense, x) if reflected else (x, dense)))
        return made(self._trace, found, not found.shape)

    def multiply(self, other: Any) -> Any:
        """Return the product by elements."""
        return self._or_left("multiply", other, lambda: self._times(other))

    def _times(self, other: Any) -> Any:
        x = self._traced()
        if type(other) in (int, float):
            return self._like(self._scaled("Mul", x, other))
        if type(other) is LazySparse:
            y = other._traced()
            if y.shape != x.shape or y.layout != x.layout:
                raise UnsupportedError("sparse operands of different shapes or layouts")
            kept = self._common(x, y)
            found = _pointwise("Mul", cast(x, kept), cast(y, kept), dtype=kept)
            found.nnz = min(x.nnz or 0, y.nnz or 0)
            return self._like(found, "csr" if self._format == "coo" else None)
        if hasattr(type(other), "tocsr"):
            raise UnsupportedError("a sparse operand that isn't traced")
        return self._by_dense("Mul", x, other)

    def _by_dense(self, op: str, x: Expression, other: Any) -> Any:
        dense = operand(self._trace, other)
        if len(dense.shape) > 2 or np.broadcast_shapes(dense.shape, x.shape) != x.shape:
            raise UnsupportedError("a dense operand that is larger than the sparse one")
        kept = self._common(x, dense)
        found = _pointwise(op, cast(x, kept), cast(dense, kept), dtype=kept)
        # SciPy multiplies by an array of one element as by a number, which keeps the format.
        return self._like(found, None if math.prod(dense.shape) == 1 else "coo")

    def _common(self, x: Expression, y: Expression) -> str:
        kept = np.result_type(np.dtype(x.dtype), np.dtype(y.dtype)).name
        if kept not in TRACED or kept == "bool":
            raise UnsupportedError(f"the type {kept}")
        return kept

    def _scaled(self, op: str, x: Expression, value: Any) -> Expression:
        kept = np.result_type(np.dtype(x.dtype), value).name
        if op == "Div":
            kept = "float64"  # SciPy's type, of float32 too
        if kept not in TRACED or kept == "bool":
            raise UnsupportedError(f"the type {kept}")
        return _pointwise(op, cast(x, kept), number(value, kept), dtype=kept)

    def __mul__(self, other: Any) -> Any:
        if self._is_matrix and np.ndim(other) != 0:
            return self._or_left("__mul__", other, lambda: self._product(other, reflected=False))
        return self._or_left("__mul__", other, lambda: self._times(other))

    def __rmul__(self, other: Any) -> Any:
        if self._is_matrix and np.ndim(other) != 0:
            return self._or_left("__rmul__", other, lambda: self._product(other, reflected=True))
        return self._or_left("__rmul__", other, lambda: self._times(other))

    def __truediv__(self, other: Any) -> Any:
        return self._or_left("__truediv__", other, lambda: self._divided(other))

    def _divided(self, other: Any) -> Any:
        x = self._traced()
        if type(other) in (int, float):
            return self._like(self._scaled("Div", x, other))
        if hasattr(type(other), "tocsr") or np.dtype(x.dtype).kind != "f":
            raise UnsupportedError("a quotient of two sparse operands")
        raise UnsupportedError("a quotient by elements")

    # -- sums ------------------------------------------------------------------------------------

    def __add__(self, other: Any) -> Any:
        return self._or_left("__add__", other, lambda: self._plus("Add", other, False))

    def __radd__(self, other: Any) -> Any:
        return self._or_left("__radd__", other, lambda: self._plus("Add", other, True))

    def __sub__(self, other: Any) -> Any:
        return self._or_left("__sub__", other, lambda: self._plus("Sub", other, False))

    def __rsub__(self, other: Any) -> Any:
        return self._or_left("__rsub__", other, lambda: self._plus("Sub", other, True))

    def _plus(self, op: str, other: Any, reflected: bool) -> Any:
        if type(other) is LazySparse:
            return self._plus_sparse(op, other)
        if self._is_matrix or hasattr(type(other), "tocsr") or type(other) in (int, float):
            raise UnsupportedError("a sum that SciPy makes a matrix")
        x, dense = self._traced(), operand(self._trace, other)
        if dense.shape != x.shape:
            raise UnsupportedError("a sum with another shape")
        kept = self._common(x, dense)
        pair = (cast(x, kept), cast(dense, kept))
        pair = pair[::-1] if reflected else pair
        return made(self._trace, Expression(op, pair, x.shape, kept))

    def _plus_sparse(self, op: str, other: LazySparse) -> Any:
        x, y = self._traced(), other._traced()
        if (x.shape, x.layout, self._is_matrix) != (y.shape, y.layout, other._is_matrix):
            raise UnsupportedError("sparse operands of different shapes or layouts")
        kept = self._common(x, y)
        entries = min((x.nnz or 0) + (y.nnz or 0), x.shape[0] * x.shape[1])
        pair = (cast(x, kept), cast(y, kept))
        found = Expression(op, pair, x.shape, kept, (), x.layout, entries)
        return self._like(found, "csr" if self._format == "coo" else None)

    def sum(self, axis: Any = None, dtype: Any = None, out: Any = None) -> Any:
        """Add up."""
        try:
            if dtype is not None or out is not None or (self._is_matrix and axis is not None):
                raise UnsupportedError("a sum that SciPy makes a matrix")
            x = self._traced()
            found = reductions.expression_of("sum", x, {"axis": axis})
        except UnsupportedError as refusal:
            return self._left("sum", (axis, dtype, out), {}, str(refusal))
        return made(self._trace, found, not found.shape)

    # -- by elements -----------------------------------------------------------------------------

    def __neg__(self) -> Any:
        return self._or_left("__neg__", None, lambda: self._unary("Neg"))

    def __abs__(self) -> Any:
        return self._or_left("__abs__", None, lambda: self._unary("Abs"))

    def _unary(self, op: str) -> Any:
        x = self._traced()
        if x.dtype not in ("float32", "float64") or op not in ZERO_TO_ZERO:
            raise UnsupportedError("whole numbers")
        return self._like(_pointwise(op, x, dtype=x.dtype))

    def __pow__(self, exponent: Any) -> Any:
        if self._is_matrix:
            return self._left("__pow__", (exponent,), {}, "a power of a matrix")
        return self.power(exponent)

    def power(self, exponent: Any, dtype: Any = None) -> Any:
        """Raise the elements to a power."""

        def traced() -> Any:
            x = self._traced()
            if type(exponent) not in (int, float) or exponent <= 0 or dtype is not None:
                raise UnsupportedError("a power that isn't a positive number")
            if x.dtype not in ("float32", "float64"):
                raise UnsupportedError("whole numbers")
            if exponent == 2:
                return self._like(_pointwise("Mul", x, x, dtype=x.dtype))
            return self._like(_pointwise("Pow", x, number(exponent, x.dtype), dtype=x.dtype))

        return self._or_left("power", exponent, traced)

    def astype(self, dtype: Any, casting: str = "unsafe", copy: bool = True) -> Any:
        """Return a copy in another type."""
        name = np.dtype(dtype).name
        if name not in TRACED or self._trace.closed or self._exposed or casting != "unsafe":
            return self._left("astype", (dtype, casting, copy), {}, "not traced")
        if name == self._expression.dtype:
            return self.copy()
        return self._like(cast(self._expression, name))

    def copy(self) -> Any:
        """Return a copy."""

        def traced() -> Any:
            x = self._traced()
            return self._like(_pointwise("Identity", x, dtype=x.dtype))

        return self._or_left("copy", None, traced)

    @property
    def T(self) -> Any:  # noqa: N802 NumPy's name
        """The transpose."""
        return self.transpose()

    def transpose(self, axes: Any = None, copy: bool = False) -> Any:
        """Return the transpose."""

        def traced() -> Any:
            if axes is not None:
                raise UnsupportedError("axes")
            flipped = {"csr": "csc", "csc": "csr", "coo": "coo"}[self._format]
            return self._like(transposed(self._traced()), flipped)

        return self._or_left("transpose", None, traced)

    def toarray(self, order: Any = None, out: Any = None) -> Any:
        """Return it as an ndarray."""
        if order is not None or out is not None or self._trace.closed or self._exposed:
            return self._left("toarray", (order, out), {}, "not traced")
        x = self._expression
        return made(self._trace, Expression("Identity", (x,), x.shape, x.dtype))

    # -- left to SciPy ---------------------------------------------------------------------------

    def _or_left(self, name: str, other: Any, traced: Callable[[], Any]) -> Any:
        try:
            return traced()
        except (UnsupportedError, ValueError) as refusal:
            arguments = () if other is None else (other,)
            return self._left(name, arguments, {}, str(refusal))

    def _left(self, name: str, arguments: Sequence[Any], options: Any, why: str) -> Any:
        self._trace.runner.note(f"sparse.{name}: by SciPy at once: {why}")
        self._trace.flush("a function left to SciPy")
        value = self._tensolog_real()
        found = getattr(value, name)(*eager.real(tuple(arguments)), **eager.real(dict(options)))
        if found is value:
            return self
        if self._trace.closed:
            return found
        if hasattr(found, "tocsr"):
            return wrap(self._trace, found)
        return eager.adopt(self._trace, found, ())

    def tocsr(self, copy: bool = False) -> Any:
        """Return it in CSR format."""
        if self._format == "csr" and not copy:
            return self
        return self._left("tocsr", (), {"copy": copy}, "another format")

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **options: Any) -> Any:
        if method == "__call__" and not options:
            if len(inputs) == 1 and ufunc.__name__ in _NAMED:
                return getattr(self, {"absolute": "__abs__"}.get(ufunc.__name__, ufunc.__name__))()
            reflected = _REFLECTED.get(ufunc)
            if len(inputs) == 2 and inputs[1] is self and reflected is not None:
                return getattr(self, reflected)(inputs[0])
        return getattr(ufunc, method)(*eager.real(inputs), **eager.real(options))

    def __getitem__(self, key: Any) -> Any:
        return self._left("__getitem__", (key,), {}, "an index")

    def __setitem__(self, key: Any, value: Any) -> None:
        key, value = eager.real(key), eager.real(value)
        self._trace.flush("an assignment into a sparse operand")
        self._tensolog_real()[key] = value
        self._expression = _expression_of(self._original)

    def __repr__(self) -> str:
        return repr(self._tensolog_real())

    def __getattr__(self, name: str) -> Any:
        if name in _METHODS:
            return lambda: self._or_left(name, None, lambda: self._unary(_METHODS[name]))
        if name.startswith("__"):
            raise AttributeError(name)
        value = self._tensolog_real()
        found = getattr(value, name)
        if callable(found):
            self._trace.flush(f".{name}()")
            self._exposed = True  # it may write, as eliminate_zeros does
            return lambda *arguments, **options: self._left(name, arguments, options, "not traced")
        if isinstance(found, np.ndarray):
            self._trace.flush(f".{name} gives the memory away")
            self._exposed = True
        return found


for _name in ("rtruediv", "lt", "le", "gt", "ge", "eq", "ne", "mod", "floordiv", "rpow"):

    def _operator(self: LazySparse, other: Any, _name: str = f"__{_name}__") -> Any:
        return self._left(_name, (other,), {}, "not traced")

    setattr(LazySparse, f"__{_name}__", _operator)

_REFLECTED = {
    np.multiply: "__rmul__",
    np.add: "__radd__",
    np.subtract: "__rsub__",
    np.matmul: "__rmatmul__",
    np.true_divide: "__rtruediv__",
    np.greater: "__lt__",
    np.less: "__gt__",
    np.greater_equal: "__le__",
    np.less_equal: "__ge__",
    np.equal: "__eq__",
    np.not_equal: "__ne__",
}
LazySparse.__hash__ = None  # type: ignore[assignment]

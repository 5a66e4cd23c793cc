"""SciPy's sparse arrays and matrices inside of a fused function."""

from __future__ import annotations

import copy
import math
import operator
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from ..tracing import eager
from ..tracing.expressions import Expression, Kind, Thunk
from ..tracing.trace import Trace, UnsupportedError
from . import sparse_operators as traced
from .sparse_values import LazySparseBase, canonical, refusal, sparse_thunk

# Imported within functions: SciPy, for programs that have sparse arrays.

# Ufuncs that NumPy answers with a method of the sparse object; it has others of its own for floor,
# ceil and trunc, which a sparse object doesn't have, and compares for sign.
_NAMED = frozenset(traced.METHODS) - {"floor", "ceil", "sign"} | {
    *("absolute", "deg2rad", "rad2deg")
}

_WRITING = frozenset(
    ["eliminate_zeros", "sum_duplicates", "sort_indices", "prune", "setdiag", "resize"]
)
# Formats that SciPy adds to in place.
_WRITTEN = frozenset(["lil", "dok"])


class LazySparse(LazySparseBase):
    """What SciPy's operators and methods give, traced or asked of SciPy at once."""

    __slots__ = ()

    def like(
        self, expression: Expression, layout: str | None = None, compared: bool = False
    ) -> LazySparse:
        """Return another one of its kind; UnsupportedError where SciPy keeps repeated entries."""
        if self._repeated:
            raise UnsupportedError("entries that stand twice, which SciPy keeps apart")
        thunk = self._trace.thunk_of(expression)
        layout = layout or self._format
        return LazySparse(self._trace, thunk, layout, self._is_matrix, compared=compared)

    def traced(self, compared: bool = False) -> Expression:
        """Return its expression; UnsupportedError where it can't be read later.

        That of one that was compared stores False, too, which few may see.
        """
        if self._trace.closed:
            raise UnsupportedError("after the call")
        if self._compared and not compared:
            raise UnsupportedError("entries that a comparison leaves")
        if self._exposed:
            raise UnsupportedError("a sparse operand whose memory was given away")
        return self._trace.read(self._thunk)

    # -- operators and methods -------------------------------------------------------------------

    def __mul__(self, other: Any) -> Any:
        product = self._is_matrix and np.ndim(other) != 0
        return self._or_left("__mul__", traced.product if product else traced.times, other)

    def __rmul__(self, other: Any) -> Any:
        product = self._is_matrix and np.ndim(other) != 0
        multiply = _TRACED["__rmatmul__"] if product else traced.times
        return self._or_left("__rmul__", multiply, other)

    def dot(self, other: Any) -> Any:
        """Return the product of matrices, or by a number."""
        number = np.ndim(other) == 0 and not traced.is_sparse_operand(other)
        return self._or_left("dot", traced.times if number else traced.product, other)

    def multiply(self, other: Any) -> Any:
        """Return the product by elements."""
        return self._or_left("multiply", traced.times, other)

    def __pow__(self, exponent: Any) -> Any:
        if self._is_matrix:
            return self._by_scipy("__pow__", (exponent,), {}, "a power of a matrix")
        return self.power(exponent)

    def power(self, exponent: Any, dtype: Any = None) -> Any:
        """Raise the elements to a power."""
        if dtype is not None:
            return self._by_scipy("power", (exponent, dtype), {}, "dtype=")
        return self._or_left("power", traced.power, exponent)

    def __neg__(self) -> Any:
        return self._or_left("__neg__", lambda x: traced.unary(x, "Neg"))

    def __abs__(self) -> Any:
        return self._or_left("__abs__", lambda x: traced.unary(x, "Abs"))

    def sum(self, axis: Any = None, dtype: Any = None, out: Any = None) -> Any:
        """Add up."""
        if dtype is not None or out is not None:
            return self._by_scipy("sum", (axis, dtype, out), {}, "dtype= or out=")
        return self._or_left("sum", traced.total, axis)

    def astype(self, dtype: Any, casting: str = "unsafe", copy: bool = True) -> Any:
        """Return a copy in another type."""
        if casting != "unsafe" or not copy:
            return self._by_scipy("astype", (dtype, casting, copy), {}, "casting= or copy=")
        return self._or_left("astype", traced.converted, dtype)

    def copy(self) -> Any:
        """Return a copy."""
        return self._or_left("copy", traced.copied)

    @property
    def T(self) -> Any:  # noqa: N802 NumPy's name
        """The transpose."""
        return self.transpose()

    def transpose(self, axes: Any = None, copy: bool = False) -> Any:
        """Return the transpose."""
        if axes is not None or copy:
            return self._by_scipy("transpose", (axes, copy), {}, "axes= or copy=")
        return self._or_left("transpose", traced.turned)

    def toarray(self, order: Any = None, out: Any = None) -> Any:
        """Return it as an ndarray."""
        if order is not None or out is not None:
            return self._by_scipy("toarray", (order, out), {}, "order= or out=")
        return self._or_left("toarray", traced.spread)

    def tocsr(self, copy: bool = False) -> Any:
        """Return it in CSR format."""
        if self._format == "csr" and not copy:
            return self
        return self._by_scipy("tocsr", (copy,), {}, "another format")

    # -- left to SciPy ---------------------------------------------------------------------------

    def _or_left(
        self,
        name: str,
        attempt: Callable[..., Any],
        *arguments: Any,
        arguments_of_scipy: Any = None,
    ) -> Any:
        try:
            if not self._trace.closed:
                self._trace.step()
            return attempt(self, *arguments)
        except (UnsupportedError, ValueError) as refusal:
            return self._by_scipy(
                name,
                arguments if arguments_of_scipy is None else arguments_of_scipy,
                {},
                str(refusal),
            )

    def _by_scipy(self, name: str, arguments: Sequence[Any], options: Any, why: str) -> Any:
        self._trace.runner.note(f"sparse.{name}: by SciPy at once: {why}")
        self._trace.flush("a function left to SciPy")
        value = self._tensolog_real()
        result = getattr(value, name)(*eager.real(tuple(arguments)), **eager.real(dict(options)))
        return self if result is value else self._adopted(result)

    def _adopted(self, result: Any) -> Any:
        if self._trace.closed:
            return result
        if not hasattr(result, "tocsr"):
            return eager.adopt(self._trace, result, ())
        lazy = wrap(self._trace, result)
        if _shares(result, self._original):
            self._exposed = True
            if type(lazy) is LazySparse:
                lazy._exposed = True
        return lazy

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **options: Any) -> Any:
        if method == "__call__" and not options:
            name = {"absolute": "__abs__"}.get(ufunc.__name__, ufunc.__name__)
            if len(inputs) == 1 and ufunc.__name__ in _NAMED and hasattr(self.__class__, name):
                return getattr(self, name)()
            reflected = _REFLECTED.get(ufunc)
            if len(inputs) == 2 and inputs[1] is self and reflected is not None:
                return getattr(self, reflected)(inputs[0])
        return getattr(ufunc, method)(*eager.real(inputs), **eager.real(options))

    def __getitem__(self, key: Any) -> Any:
        if not hasattr(self.__class__, "__getitem__"):
            raise TypeError(f"'{self.__class__.__name__}' object is not subscriptable")
        return self._by_scipy("__getitem__", (key,), {}, "an index")

    def __iter__(self) -> Any:
        return (self._adopted(row) for row in self._tensolog_real())

    def __bool__(self) -> bool:
        return bool(self._tensolog_real())

    def __contains__(self, item: Any) -> bool:
        return eager.real(item) in self._tensolog_real()

    def __round__(self, digits: int = 0) -> Any:
        return self._by_scipy("__round__", (digits,), {}, "not traced")

    def __copy__(self) -> Any:
        return self._adopted(copy.copy(self._tensolog_real()))

    def __deepcopy__(self, memo: Any) -> Any:
        return self.copy()

    def __reduce_ex__(self, protocol: Any) -> Any:
        return self._tensolog_real().__reduce_ex__(protocol)

    def __repr__(self) -> str:
        return repr(self._tensolog_real())

    def __getattr__(self, name: str) -> Any:
        if name in traced.METHODS:
            return lambda: self._or_left(name, lambda x: traced.unary(x, traced.METHODS[name]))
        if name.startswith("__"):
            raise AttributeError(name)
        attribute = getattr(self._tensolog_real(), name)
        if callable(attribute):
            if name in _WRITING:
                self._given_away(f".{name}()")
            return lambda *arguments, **options: self._by_scipy(
                name, arguments, options, "not traced"
            )
        if isinstance(attribute, np.ndarray):
            self._given_away(f".{name}")
        return attribute

    # -- writing ---------------------------------------------------------------------------------

    def __setitem__(self, key: Any, value: Any) -> None:
        if not hasattr(self.__class__, "__setitem__"):
            name = self.__class__.__name__
            raise TypeError(f"'{name}' object does not support item assignment")
        key, value = eager.real(key), eager.real(value)
        self._writable("an assignment into a sparse operand")[key] = value
        self._read_again()

    def _in_place(self, name: str, other: Any) -> Any:
        """Write it where SciPy does: traced formats only where it is scaled by a number."""
        by_number = np.ndim(other) == 0 and not traced.is_sparse_operand(other)
        scaled = by_number and name in ("__imul__", "__itruediv__")
        if not hasattr(self.__class__, name) or not (scaled or self._format in _WRITTEN):
            return NotImplemented
        other = eager.real(other)
        value = self._writable("a sparse operand is written")
        result = getattr(value, name)(other)
        if result is not value:
            return result if result is NotImplemented else self._adopted(result)
        self._read_again()
        return self


def _without_method(name: str, value: Any, other: Any) -> Any:
    """Return what Python makes of an operator that a sparse object lacks: others may have it."""
    if name.startswith("__r"):
        return getattr(operator, f"__{name[3:]}")(other, value)
    return getattr(operator, name)(value, other)


def _shares(result: Any, value: Any) -> bool:
    """Whether one written shows in the other; some formats hold no array of entries."""
    entries, other = (getattr(sparse, "data", None) for sparse in (result, value))
    return isinstance(entries, np.ndarray) and np.may_share_memory(entries, other)


_TRACED: Mapping[str, Callable[..., Any]] = {
    "__matmul__": traced.product,
    "__rmatmul__": partial(traced.product, reflected=True),
    "__truediv__": traced.divided,
    "__add__": traced.plus,
    "__radd__": partial(traced.plus, reflected=True),
    "__sub__": partial(traced.plus, op="Sub"),
    "__rsub__": partial(traced.plus, op="Sub", reflected=True),
}
_LEFT = ("rtruediv", "lt", "le", "gt", "ge", "eq", "ne", "mod", "floordiv", "rpow")

for _name, _attempt in _TRACED.items():

    def _binary(
        self: LazySparse, other: Any, _name: str = _name, _attempt: Callable[..., Any] = _attempt
    ) -> Any:
        return self._or_left(_name, _attempt, other)

    setattr(LazySparse, _name, _binary)

for _name in _LEFT:

    def _operator(self: LazySparse, other: Any, _name: str = f"__{_name}__") -> Any:
        if _name in traced.COMPARISONS and type(other) in (int, float):
            return self._or_left(
                _name, lambda x: traced.compared(x, _name, other), arguments_of_scipy=(other,)
            )
        if hasattr(self.__class__, _name):
            return self._by_scipy(_name, (other,), {}, "not traced")
        self._trace.flush("an operator that SciPy doesn't have")
        pair = (self._tensolog_real(), eager.real(other))
        return self._adopted(_without_method(_name, *pair))

    setattr(LazySparse, f"__{_name}__", _operator)

for _name in ("add", "sub", "mul", "truediv"):

    def _assigned(self: LazySparse, other: Any, _name: str = f"__i{_name}__") -> Any:
        return self._in_place(_name, other)

    setattr(LazySparse, f"__i{_name}__", _assigned)

for _name in ("data", "indices", "indptr", "row", "col"):

    def _get(self: LazySparse, _name: str = _name) -> Any:
        return getattr(self._given_away(f".{_name}"), _name)

    def _set(self: LazySparse, value: Any, _name: str = _name) -> None:
        setattr(self._given_away(f".{_name}"), _name, eager.real(value))

    setattr(LazySparse, _name, property(_get, _set))

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


def wrap(trace: Trace, value: Any, most_bytes: float = math.inf) -> Any:
    """Return what stands for a sparse object; SciPy answers all for one that can't be traced.

    One of more than `most_bytes` is held in blocks of rows, or of columns if it is CSC.
    """
    import scipy.sparse

    is_matrix = not isinstance(value, scipy.sparse.sparray)
    why = refusal(value)
    if why:
        trace.runner.note(f"a sparse operand isn't traced: {why}")
        thunk = Thunk.__new__(Thunk)
        thunk.resolve((), Kind(value.shape, value.dtype.name, nnz=value.nnz))  # SciPy has the value
        return LazySparse(trace, thunk, value.format, is_matrix, value, exposed=True)
    rows = canonical(value)
    thunk = sparse_thunk(trace, value, rows, most_bytes)
    repeated = bool(value.nnz != rows.nnz)
    return LazySparse(trace, thunk, value.format, is_matrix, value, repeated=repeated)

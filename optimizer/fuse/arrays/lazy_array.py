"""An array whose value is computed when it is needed; it does what an ndarray does."""

from __future__ import annotations

import operator
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from ..tracing import eager
from ..tracing.buffers import answer_for
from ..tracing.escapes import result
from ..tracing.expressions import Thunk
from ..tracing.marker_types import Lazy, is_lazy
from ..tracing.trace import Family, Trace, View
from . import reductions, ufuncs, views

# Imported within functions: NumPy's other functions, for programs that call one.

# Methods of ndarray that write into it.
_WRITING = frozenset(["sort", "partition", "fill", "put", "itemset", "resize", "setfield"])
# Methods of ufuncs that lose a reference to their arguments where an override raises (NumPy 2.4).
_LEAKING = frozenset(["reduce", "accumulate", "reduceat"])
# Attributes through which code outside can reach its memory.
_MEMORY = frozenset(["data", "ctypes", "base"])


class LazyArray(Lazy):
    """Stands for an ndarray, or (`_scalar`) for a NumPy number, inside of a fused function.

    `_views` leads from the memory of its family's root to the memory that it stands for.
    """

    __slots__ = ("__weakref__", "_family", "_scalar", "_thunk", "_trace", "_views")

    __array_priority__ = 1000.0

    def __init__(self, trace: Trace, thunk: Thunk, scalar: bool = False) -> None:
        self._trace = trace
        self._thunk = thunk
        self._scalar = scalar
        self._family: Family | None = None
        self._views: tuple[View, ...] = ()
        trace.add(self)

    # -- families --------------------------------------------------------------------------------

    def _joined(self) -> Family:
        """Return the family of arrays that share its memory; it starts one where there is none."""
        if self._family is None:
            self._join(Family(self._thunk))
        assert self._family is not None
        return self._family

    def _join(self, family: Family, views: tuple[View, ...] = ()) -> None:
        self._family, self._views = family, views
        family.join(weakref.ref(self))

    def _seen_in(self, array: Any) -> Any:
        for view in self._views:
            array = view(array)
        return array

    # -- what is known without computing ---------------------------------------------------------

    @property  # type: ignore[misc]
    def __class__(self) -> Any:  # isinstance(x, np.ndarray) holds, as it does of what it stands for
        return np.dtype(self._thunk.kind.dtype).type if self._scalar else np.ndarray

    @property
    def shape(self) -> tuple[int, ...]:
        """The lengths of the axes."""
        return self._thunk.kind.shape

    @shape.setter
    def shape(self, shape: Any) -> None:
        raise AttributeError("the shape can't be set inside of a fused function: use reshape")

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return len(self._thunk.kind.shape)

    @property
    def size(self) -> int:
        """The number of elements."""
        count = 1
        for extent in self._thunk.kind.shape:
            count *= extent
        return count

    @property
    def dtype(self) -> np.dtype[Any]:
        """The type of the elements."""
        return np.dtype(self._thunk.kind.dtype)

    @property
    def itemsize(self) -> int:
        """The bytes of one element."""
        return self.dtype.itemsize

    @property
    def nbytes(self) -> int:
        """The bytes of all elements."""
        return self.size * self.itemsize

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("len() of unsized object")
        return self.shape[0]

    # -- NumPy's protocols -----------------------------------------------------------------------

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **options: Any) -> Any:
        try:
            return ufuncs.apply(self._trace, ufunc, method, inputs, options)
        except Exception:
            if method in _LEAKING:
                for input_ in inputs:
                    if is_lazy(input_):
                        input_._trace.leak(input_)
            raise

    def __array_function__(self, function: Any, types: Any, arguments: Any, options: Any) -> Any:
        from . import functions

        return functions.apply(self._trace, function, arguments, options)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        if self._scalar or copy or (dtype is not None and np.dtype(dtype) != self.dtype):
            if copy is False and not self._scalar:
                raise ValueError("unable to avoid a copy while creating an array as requested")
            value = self._trace.force(self._thunk, "np.asarray")
            return np.array(value, dtype=dtype)
        return self._trace.expose(self, "np.asarray gives the memory away")

    # -- views -----------------------------------------------------------------------------------

    @property
    def T(self) -> Any:  # noqa: N802 NumPy's name
        """The transpose."""
        return views.transpose(self)

    @property
    def mT(self) -> Any:  # noqa: N802 NumPy's name
        """The transpose of the last two axes."""
        if self.ndim < 2:
            raise ValueError("matrix transpose with ndim < 2 is undefined")
        return views.transpose(self, (*range(self.ndim - 2), self.ndim - 1, self.ndim - 2))

    @property
    def real(self) -> Any:
        """The real part: itself, as of all arrays without complex numbers."""
        return self

    def conj(self) -> Any:
        """Return the complex conjugate: itself, as ndarray's method does."""
        return ufuncs.operator(self._trace, np.conjugate, (self,)) if self._scalar else self

    conjugate = conj

    def transpose(self, *axes: Any) -> Any:
        """Permute the axes."""
        if len(axes) == 1 and (axes[0] is None or isinstance(axes[0], tuple | list)):
            axes = () if axes[0] is None else tuple(axes[0])
        return views.transpose(self, axes or None)

    def reshape(self, *shape: Any, order: str = "C", copy: bool | None = None) -> Any:
        """Return the elements, in order, in another shape."""
        if len(shape) == 1 and isinstance(shape[0], tuple | list):
            shape = tuple(shape[0])
        if order != "C" or copy is not None:
            return eager.method(self, "reshape", shape, {"order": order, "copy": copy})
        return views.reshape(self, shape)

    def ravel(self, order: str = "C") -> Any:
        """Return the elements on one axis."""
        if order != "C":
            return eager.method(self, "ravel", (order,), {})
        return views.reshape(self, (self.size,))

    def flatten(self, order: str = "C") -> Any:
        """Return a copy of the elements on one axis."""
        if order != "C":
            return eager.method(self, "flatten", (order,), {})
        return views.copied(views.reshape(self, (self.size,)))

    def squeeze(self, axis: Any = None) -> Any:
        """Leave out axes of length 1."""
        return views.squeeze(self, axis)

    def swapaxes(self, axis1: Any, axis2: Any) -> Any:
        """Exchange two axes."""
        return np.swapaxes(self, axis1, axis2)

    def __getitem__(self, key: Any) -> Any:
        return views.item(self, key)

    def __setitem__(self, key: Any, value: Any) -> None:
        key, value = eager.real(key), eager.real(value)
        if self._scalar:
            raise TypeError(f"'numpy.{self.dtype.name}' object does not support item assignment")
        self._trace.runner.note("assignment to an index: computed before it by NumPy")
        self._trace.writable(self, "an assignment to an index")[key] = value

    def __iter__(self) -> Iterator[Any]:
        if not self.shape:
            raise TypeError("iteration over a 0-d array")
        return views.iterated(self)

    # -- copies ----------------------------------------------------------------------------------

    def copy(self, order: str = "C") -> Any:
        """Return a copy."""
        return views.copied(self)

    def astype(self, dtype: Any, *arguments: Any, **options: Any) -> Any:
        """Return a copy in another type."""
        return ufuncs.astype(self, dtype, arguments, options)

    def __copy__(self) -> Any:
        return views.copied(self)

    def __deepcopy__(self, memo: Any) -> Any:
        return views.copied(self)

    # -- by NumPy's functions; reductions are added below -----------------------------------------

    def dot(self, other: Any, out: Any = None) -> Any:
        """Return np.dot."""
        return np.dot(self, other) if out is None else np.dot(self, other, out=out)

    def clip(self, min: Any = None, max: Any = None, *arguments: Any, **options: Any) -> Any:
        """Limit the elements."""
        return np.clip(self, min, max, *arguments, **options)

    def round(self, decimals: Any = 0, out: Any = None) -> Any:
        """Round to so many decimals."""
        return np.round(self, decimals) if out is None else np.round(self, decimals, out)

    # -- arithmetic ------------------------------------------------------------------------------

    def __pow__(self, exponent: Any) -> Any:
        return ufuncs.power(self, exponent)

    def __ipow__(self, exponent: Any) -> Any:
        return ufuncs.apply(self._trace, np.power, "__call__", (self, exponent), {"out": (self,)})

    def __divmod__(self, other: Any) -> Any:
        return np.floor_divide(self, other), np.remainder(self, other)

    def __rdivmod__(self, other: Any) -> Any:
        return np.floor_divide(other, self), np.remainder(other, self)

    # -- what needs the value --------------------------------------------------------------------

    def _value(self, why: str) -> Any:
        value = self._trace.force(self._thunk, why)
        return value[()] if self._scalar else value

    def __hash__(self) -> int:
        if not self._scalar:
            raise TypeError("unhashable type: 'numpy.ndarray'")
        return hash(self._value("hash()"))

    def __bool__(self) -> bool:
        return bool(self._value("bool()"))

    def __float__(self) -> float:
        return float(self._value("float()"))

    def __int__(self) -> int:
        return int(self._value("int()"))

    def __complex__(self) -> complex:
        return complex(self._value("complex()"))

    def __index__(self) -> int:
        return operator.index(self._value("an index"))

    def __trunc__(self) -> int:
        return int(self._value("trunc()"))

    def __round__(self, digits: int | None = None) -> Any:
        return round(self._value("round()"), digits)

    def __repr__(self) -> str:
        return repr(self._value("repr()"))

    def __str__(self) -> str:
        return str(self._value("str()"))

    def __format__(self, spec: str) -> str:
        return format(self._value("format()"), spec)

    def __contains__(self, item: Any) -> bool:
        return eager.real(item) in self._value("in")

    def __reduce_ex__(self, protocol: Any) -> Any:
        return result(self).__reduce_ex__(protocol)

    # -- what others take memory by --------------------------------------------------------------

    @property
    def __array_interface__(self) -> Any:
        return self._exposed("__array_interface__").__array_interface__

    @property
    def __array_struct__(self) -> Any:
        return self._exposed("__array_struct__").__array_struct__

    def __dlpack__(self, **options: Any) -> Any:
        return self._exposed("__dlpack__").__dlpack__(**options)

    def __dlpack_device__(self) -> Any:
        return np.empty(0).__dlpack_device__()

    def _exposed(self, name: str) -> Any:
        if self._scalar:
            return self._value(name)
        return self._trace.expose(self, name)

    def __getattr__(self, name: str) -> Any:
        # NumPy and others probe for optional protocols by name: those aren't an ndarray's.
        if name.startswith("__") or not hasattr(np.ndarray, name):
            if self._scalar and not name.startswith("__"):
                return getattr(self._value(name), name)
            raise AttributeError(f"'numpy.ndarray' object has no attribute {name!r}")
        if name in _MEMORY:
            return getattr(self._trace.expose(self, f".{name}"), name)
        if name in _WRITING:
            return lambda *arguments, **options: getattr(
                self._trace.writable(self, f".{name}()"), name
            )(*eager.real(arguments), **eager.real(options))
        if callable(getattr(np.ndarray, name)):
            return lambda *arguments, **options: eager.method(self, name, arguments, options)
        return getattr(self._value(f".{name}"), name)


answer_for(LazyArray)


def _binary(name: str, ufunc: np.ufunc, reflected: bool, in_place: bool) -> Callable[..., Any]:
    def method(self: LazyArray, other: Any) -> Any:
        kind = type(other)
        inputs = (other, self) if reflected else (self, other)
        if kind in _KNOWN and not in_place:
            return ufuncs.operator(self._trace, ufunc, inputs)
        if getattr(kind, "__array_ufunc__", ()) is None:
            return NotImplemented
        if kind in _SEQUENCES:
            if self._scalar and ufunc is np.multiply:
                return NotImplemented  # it repeats them
            if kind in (str, bytes) and ufunc in (np.equal, np.not_equal):
                return _EQUALITY[ufunc](self._value("a comparison with a string"), other)
        if in_place:
            if self._scalar:
                return NotImplemented
            return ufunc(self, other, out=(self,))
        if not reflected and _answers_first(kind, name):
            return NotImplemented
        if hasattr(type(other), "tocsr"):
            return NotImplemented
        return ufunc(*inputs)

    method.__name__ = name
    return method


def _answers_first(kind: type, name: str) -> bool:
    """Tell whether Python asks the right operand before an array: np.matrix has its own product."""
    turned = f"__r{name[2:]}"
    return issubclass(kind, np.ndarray) and getattr(kind, turned, None) is not getattr(
        np.ndarray, turned, None
    )


_KNOWN = frozenset([LazyArray, np.ndarray, int, float, bool])
_SEQUENCES = frozenset([list, tuple, str, bytes])
_EQUALITY = {np.equal: operator.eq, np.not_equal: operator.ne}

for _name in reductions.METHODS:

    def _reduction(self: LazyArray, *arguments: Any, _name: str = _name, **options: Any) -> Any:
        return reductions.method(self, _name, arguments, options)

    setattr(LazyArray, _name, _reduction)

for _name, _ufunc in {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "truediv": np.true_divide,
    "floordiv": np.floor_divide,
    "mod": np.remainder,
    "matmul": np.matmul,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
    "lshift": np.left_shift,
    "rshift": np.right_shift,
}.items():
    setattr(LazyArray, f"__{_name}__", _binary(f"__{_name}__", _ufunc, False, False))
    setattr(LazyArray, f"__r{_name}__", _binary(f"__r{_name}__", _ufunc, True, False))
    setattr(LazyArray, f"__i{_name}__", _binary(f"__i{_name}__", _ufunc, False, True))

LazyArray.__rpow__ = _binary("__rpow__", np.power, True, False)  # type: ignore[attr-defined]

for _name, _ufunc in {
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
    "eq": np.equal,
    "ne": np.not_equal,
}.items():
    setattr(LazyArray, f"__{_name}__", _binary(f"__{_name}__", _ufunc, False, False))

for _name, _ufunc in {
    "neg": np.negative,
    "pos": np.positive,
    "abs": np.absolute,
    "invert": np.invert,
}.items():

    def _unary(self: LazyArray, _ufunc: np.ufunc = _ufunc) -> Any:
        return ufuncs.operator(self._trace, _ufunc, (self,))

    setattr(LazyArray, f"__{_name}__", _unary)

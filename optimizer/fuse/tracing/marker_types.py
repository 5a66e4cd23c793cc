"""What lazy arrays and fused functions are, for modules that those import."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeGuard

if TYPE_CHECKING:
    from ..arrays.lazy_array import LazyArray


# What holds no array.
PLAIN = frozenset([bool, int, float, complex, str, bytes, type(None)])


class Lazy:
    """What a lazy array is."""

    __slots__ = ()


def is_lazy(value: Any) -> TypeGuard[LazyArray]:
    """Whether a value is a lazy array, of this trace or of another."""
    return isinstance(value, Lazy)


class FusedFunction:
    """What a fused function is: the function that it stands for is `__wrapped__`."""

    __wrapped__: Callable[..., Any]

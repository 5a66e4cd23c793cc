"""What an attribute is where a node leaves it out, as far as the node's operands say it."""

from __future__ import annotations

from collections.abc import Sequence

from ..language.schemas import implicit_default

Shape = Sequence[int | str] | None


def implied_attribute(operator: str, name: str, shapes: Sequence[Shape]) -> object:
    """Give what leaving an attribute out means at operands of these shapes; None if unknown.

    Defaults of the schema are no matter here. The window of a convolution is that of its filters.
    """
    if name == "kernel_shape":
        filters = shapes[1] if "Conv" in operator and len(shapes) > 1 else None
        window = () if filters is None else tuple(filters[2:])
        return window if window and all(isinstance(size, int) for size in window) else None
    image = shapes[0] if shapes else None
    return implicit_default(operator, name, None if image is None else len(image))

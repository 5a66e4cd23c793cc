"""Components: templates of declarations and clauses, unfolded where .init names them."""

from __future__ import annotations

from .syntax import Block, DatalogError


def expand(block: Block) -> None:
    """Unfold every instance of a component into the program itself."""
    for instance in block.instances:
        raise DatalogError.at(instance.position, "components are outside the dialect")

"""What stands around the loops of a model's kernels: a function, operands, places of a unit."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from ...codegen.expressions import C_TYPES
from .affine import Extent
from .cells import Access
from .merged_loops import Groups


def function_text(lines: Iterable[str], *, reads_call: bool = True) -> str:
    """Return the function of a kernel: what a task, `own`, does of a call, `c`.

    Where it `reads_call` alone there is a `c`.
    """
    opening = ["static void NAME(i64 *given) {", "  const task *own = (const task *)given;"]
    if reads_call:
        opening.append("  const call *c = own->whole;")
    return "\n".join([*opening, *lines, "}"])


def operand(number: int, c_type: str = "float") -> str:
    """Return a pointer to the elements of an input."""
    return f"(const {c_type} *)c->in[{number}]"


def access_base(number: int, access: Access, inputs: Sequence[int]) -> str:
    """Return a pointer to where an access, of a number, begins."""
    return f"{operand(inputs.index(access.value), C_TYPES[access.dtype])} + c->offset[{number}]"


def access_pointers(accesses: Sequence[Access], inputs: Sequence[int]) -> list[str]:
    """Declare pointers to where accesses begin: a0, a1, and so on."""
    return [
        f"  const {C_TYPES[access.dtype]} *a{number} = {access_base(number, access, inputs)};"
        for number, access in enumerate(accesses)
    ]


def steps_along(number: int, groups: Iterable[int], table: str = "stride") -> str:
    """Return how far merged loops lead from where an access begins, or an output (`place`)."""
    return "".join(f" + i{group} * c->{table}[{number}][{group}]" for group in groups)


def unravelled(
    row: str, groups: Sequence[int], extent: Callable[[int], str], indent: str = "    "
) -> list[str]:
    """Declare which turn of each merged loop a row is, of rows that are counted: i0, i1, and so on.

    `extent` is the text of how often one runs.
    """
    if len(groups) < 2:
        return [f"{indent}const i64 i{group} = {row};" for group in groups]
    lines = [f"{indent}i64 rest = {row};"]
    for group in reversed(groups[1:]):
        count = extent(group)
        lines.append(f"{indent}const i64 i{group} = rest % {count}; rest /= {count};")
    return [*lines, f"{indent}const i64 i{groups[0]} = rest;"]


def initializer(fields: Mapping[str, str]) -> str:
    """Return the initializer of a struct, field by field."""
    return f"{{{', '.join(f'.{name} = {text}' for name, text in fields.items())}}}"


def enumerators(numbers: Mapping[str, int]) -> str:
    """Return what an enum of named numbers consists of."""
    return ", ".join(f"{name} = {value}" for name, value in numbers.items())


def filled(template: str, parts: Mapping[str, str]) -> str:
    """Return C with texts in the place of names that stand for them, one name after another."""
    for name, text in parts.items():
        template = template.replace(name, text)
    return template


def extent_text(extents: Sequence[Extent], groups: Groups, group: int) -> str:
    """Return how often a merged loop runs: a number where it is known."""
    product = known_extent(extents, groups, group)
    return f"c->extent[{group}]" if product is None else f"(i64){product}"


def known_extent(extents: Sequence[Extent], groups: Groups, group: int) -> int | None:
    """Return how often a merged loop runs, None where that is known as it runs alone."""
    product = 1
    for number in groups.loops(group):
        size = extents[number]
        if isinstance(size, str):
            return None
        product *= size
    return product

"""What operators.h reads of a kernel, and how ONNX Runtime finds the kernels, as C text."""

from __future__ import annotations

from collections.abc import Sequence

from ..kernel import Kernel
from .affine import Extent

# The level of instructions that every processor has, and what people call the others.
PLAIN, SPOKEN = "plain", {"avx512": "AVX-512", "avx2": "AVX2"}
TYPES = {
    "float32": "ELEMENT_FLOAT",
    **{name: f"ELEMENT_{name.upper()}" for name in ("bool", "float16", "bfloat16")},
    **{name: f"ELEMENT_{name.upper()}" for name in ("int8", "uint8", "int16", "uint16")},
    **{name: f"ELEMENT_{name.upper()}" for name in ("int32", "int64")},
}


def operation(kernel: Kernel) -> str:
    """Return the tables of one kernel; its function is exported under the name run_<kernel>."""
    shapes, name = kernel.shapes, kernel.name
    terms: list[str] = []
    for number, (_, place) in enumerate(shapes.accesses):
        for axis, index in enumerate(place):
            if index.offset:
                terms.append(f"{{{number}, {axis}, -1, {index.offset}}}")
            terms += [
                f"{{{number}, {axis}, {loop}, {factor}}}"
                for loop, factor in index.terms
                if loop == shapes.groups.loops(shapes.groups.of[loop])[-1]  # as far as it merged
            ]
    checks: list[str] = []
    for operand, (_, shape) in enumerate(shapes.inputs):
        for axis, size in enumerate(shape):
            if isinstance(size, str):
                checks.append(f"{{{operand}, {axis}, {shapes.extents.index(size)}, 0}}")
            else:
                checks.append(f"{{{operand}, {axis}, -1, {size}}}")
    extents, operands, axes = [], [], []
    for extent in shapes.extents:
        source = _place(extent, shapes.inputs)
        extents.append(str(extent) if isinstance(extent, int) else "-1")
        operands.append(str(source[0]))
        axes.append(str(source[1]))
    outputs = []
    for shape, place in shapes.outputs:
        loops = ", ".join("-1" if index.single is None else str(index.single) for index in place)
        sizes = ", ".join(str(size) if isinstance(size, int) else "0" for size in shape)
        outputs.append(f"{{{len(shape)}, {{{loops or 0}}}, {{{sizes or 0}}}}}")
    inputs = shapes.inputs
    output_types = shapes.output_types or ["float32"] * len(outputs)
    arrange, lines = kernel.arrange or "NULL", []
    if kernel.columns:
        function = kernel.arrange or "arrange_columns"
        arrange, columns = f"arrange_{name}", ", ".join(map(str, kernel.columns))
        lines.append(
            f"static void {arrange}(call *c, i64 grain) {{ {function}(c, grain, {columns}); }}"
        )
    lines += [
        _table("uint8_t", f"type_{name}", [TYPES[dtype] for dtype, _ in inputs]),
        _table("uint8_t", f"rank_{name}", [str(len(shape)) for _, shape in inputs]),
        _table("int16_t", f"access_{name}", [str(operand) for operand, _ in shapes.accesses]),
        _table("index_term", f"index_{name}", terms, "{0, 0, 0, 0}"),
        _table("axis_check", f"check_{name}", checks, "{0, 0, 0, 0}"),
        _table("i64", f"extent_{name}", extents),
        _table("int16_t", f"operand_{name}", operands),
        _table("int16_t", f"axis_{name}", axes),
        _table("int16_t", f"group_{name}", [str(group) for group in shapes.groups.of]),
        _table("output_shape", f"output_{name}", outputs),
        _table("uint8_t", f"made_{name}", [TYPES[dtype] for dtype in output_types]),
        f"static const operation what_{name} = {{",
        f'  "{name}", run_{name}, {len(inputs)}, {len(outputs)}, {len(extents)}, '
        f"{len(shapes.accesses)}, {len(terms)}, {len(checks)},",
        f"  type_{name}, rank_{name}, access_{name}, index_{name}, check_{name}, extent_{name}, "
        f"operand_{name}, axis_{name}, group_{name}, {shapes.groups.count}, output_{name}, "
        f"made_{name}, {shapes.picked},",
        f"  {kernel.block}, {kernel.grain}, {kernel.slots}, {kernel.room}, {int(kernel.flushes)}, "
        f"{arrange}}};",
    ]
    return "\n".join(lines)


def registration(kernels: Sequence[Kernel], domain: str, least: str) -> str:
    """Return the function that ONNX Runtime calls to learn of the kernels.

    `least` is the lowest level of instructions that they are compiled for.
    """
    missing = "NULL" if least == PLAIN else f'has_{least}() ? NULL : "{SPOKEN[least]}"'
    entries = ", ".join(f"ENTRY(&what_{kernel.name})" for kernel in kernels)
    return "\n".join(
        [
            f"static const entry entries[] = {{{entries}}};",
            "EXPORT STATUS RegisterCustomOps(void *options, const api_base *base) {",
            f"  const char *missing = {missing};",
            f'  return register_all(options, base, "{domain}", entries, {len(kernels)}, missing);',
            "}",
            "",
        ]
    )


def _place(extent: Extent, inputs: Sequence[tuple[str, tuple[Extent, ...]]]) -> tuple[int, int]:
    """Return an operand's axis of a size that is known only when it runs."""
    if isinstance(extent, int):
        return 0, 0
    return next(
        (operand, shape.index(extent))
        for operand, (_, shape) in enumerate(inputs)
        if extent in shape
    )


def _table(kind: str, name: str, entries: Sequence[str], nothing: str = "0") -> str:
    return f"static const {kind} {name}[] = {{{', '.join(entries) or nothing}}};"

"""A translation unit: generated kernels and what they need, for one or several processors."""

from __future__ import annotations

import importlib
import re
from collections.abc import Sequence
from functools import cache
from importlib import resources
from pathlib import Path

import numpy as np

from .compiler import Compiler

# Instruction sets of x86-64 by level, best first. "plain" is what every processor has, of any kind.
LEVELS = {
    "avx512": "avx512f,avx512dq,avx512vl,avx512bw,avx2,fma,f16c",
    "avx2": "avx2,fma,f16c",
    "plain": "",
}

_STATIC = re.compile(r"^static [^;{(]*?\b(\w+)\(", re.MULTILINE)
_NAMED = re.compile(
    r"^(?:CONVERT|ROW_OVER|REPEATED|CELLS|ROWS|FLUSH|EACH|ADD_UP_ROWS|ROWS_OF_CSR|ENTRIES|ENTRIES_TIMES)\((\w+),",
    re.MULTILINE,
)
_PRODUCT = re.compile(r"^static [^;{]*?\bE\((\w+)\)\(", re.MULTILINE)
_MACRO = re.compile(r"^#define (\w+)", re.MULTILINE)


@cache
def native_level() -> str:
    """Return the best level of this processor, as NumPy tells it."""
    module = "numpy._core" if np.lib.NumpyVersion(np.__version__) >= "2.0.0" else "numpy.core"
    features = importlib.import_module(f"{module}._multiarray_umath").__cpu_features__
    if features.get("AVX512_SKX"):
        return "avx512"
    if all(features.get(name) for name in ("AVX2", "FMA3", "F16C")):
        return "avx2"
    return "plain"


@cache
def has_tiles() -> bool:
    """Tell whether this processor has matrix tiles of bfloat16 numbers that kernels can use."""
    try:
        stated = Path("/proc/cpuinfo").read_text(encoding="ascii", errors="replace")
    except OSError:  # no Linux: kernels don't ask other systems for them
        return False
    flags = re.search(r"^flags\s*:(.*)$", stated, re.MULTILINE)
    has = flags is not None and {"amx_tile", "amx_bf16"} <= set(flags[1].split())
    return has and native_level() == "avx512"


@cache
def fixed_c(package: str, name: str) -> str:
    """Return a file of C beside the modules of a package."""
    return resources.files(package).joinpath(name).read_text(encoding="utf-8")


def _text(name: str) -> str:
    return fixed_c(str(__package__), name)


_END = "".join(f"\n#undef {name}" for name in ("T", "E", "V", "L"))


@cache
def _shared() -> str:
    """Return what the kernels call, compiled for each level anew."""
    return "\n".join(
        [
            "#ifdef FUSED",
            "#define FMA_64(a, b, c) __builtin_fma(a, b, c)",
            "#define FMA_32(a, b, c) __builtin_fmaf(a, b, c)",
            "#else",
            "#define FMA_64(a, b, c) ((a) * (b) + (c))",
            "#define FMA_32(a, b, c) ((a) * (b) + (c))",
            "#endif",
            _text("coefficients.h"),
            _text("elementary.h"),
            _text("circular.h"),
            _text("hyperbolic.h"),
            _text("powers.h"),
            _text("runtime.h"),
            _text("vectors.h"),
            *(
                f"#define T {t}\n#define E(name) name##_{bits}\n{_text('products.h')}{_END}"
                for t, bits in (("double", 64), ("float", 32))
            ),
        ]
    )


def unit(
    kernels: Sequence[tuple[str, str]],
    levels: Sequence[str],
    compiler: Compiler,
    *,
    asks_processor: bool = False,
) -> str:
    """Return the text of a translation unit of kernels, each a name and the text of a function.

    A kernel's text defines `static void <name>(i64 *a)`. With several levels (best first) the
    function that is exported asks the processor which it has; what follows the unit can ask it
    where `asks_processor`.
    """
    parts = [_text("common.h")]
    if asks_processor or len(levels) > 1 or any("has_tiles()" in text for _, text in kernels):
        parts.append(_text("processor.h"))
    parts += [_level(kernels, level, compiler) for level in levels]
    return "\n".join([*parts, *(_entry(name, levels) for name, _ in kernels), ""])


def _level(kernels: Sequence[tuple[str, str]], level: str, compiler: Compiler) -> str:
    body = "\n".join([_shared(), *(text for _, text in kernels)])
    names = sorted(
        {*_STATIC.findall(body), *_NAMED.findall(body), *(name for name, _ in kernels)}
        | {f"{name}_{bits}" for name in _PRODUCT.findall(body) for bits in (64, 32)}
    )
    chosen = f"LEVEL_{level.upper()}"
    lines = [f"#define {name} {name}_{level}" for name in names]
    lines.append(f"#define {chosen} 1")
    target = LEVELS[level]
    if target:
        lines.append("#define FUSED 1")
        if compiler.is_clang:
            attribute = f'__attribute__((target("{target}")))'
            lines.append(f"#pragma clang attribute push({attribute}, apply_to = function)")
        else:
            width = ",prefer-vector-width=512" if level == "avx512" else ""
            lines += ["#pragma GCC push_options", f'#pragma GCC target("{target}{width}")']
    else:
        lines += ["#ifdef __FP_FAST_FMA", "#define FUSED 1", "#endif"]
    lines.append(body)
    if target:
        lines.append(
            "#pragma clang attribute pop" if compiler.is_clang else "#pragma GCC pop_options"
        )
    macros = dict.fromkeys(_MACRO.findall(_text("vectors.h")))
    lines += [f"#undef {name}" for name in [*names, chosen, "FUSED", "FMA_64", "FMA_32", *macros]]
    return "\n".join(lines)


def _entry(name: str, levels: Sequence[str]) -> str:
    lines = [f"EXPORT void {name}(i64 *a) {{"]
    for level in levels[:-1]:
        lines.append(f"  if (has_{level}()) {{ {name}_{level}(a); return; }}")
    return "\n".join([*lines, f"  {name}_{levels[-1]}(a);", "}"])

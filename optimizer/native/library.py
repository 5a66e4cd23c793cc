"""The library of operators that goes with a model: one translation unit, compiled and cached."""

from __future__ import annotations

import hashlib
import os
import platform
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from ...profiles.sessions.deployed import DOMAIN
from ..codegen.compiler import (
    FLAGS,
    Compiler,
    CompilerError,
    absence,
    find_compiler,
    library_file,
    refusal,
)
from ..codegen.unit import LEVELS, fixed_c, unit
from . import headers
from .configurations import attention_configuration, product_configuration
from .configurations.chosen import Chosen
from .kernel import Kernel
from .loops.tables import operation, registration

# Files whose constants a configuration chooses, and where these are told.
CONFIGURED = {"product.h": product_configuration, "attention.h": attention_configuration}
SUFFIX = ".dll" if os.name == "nt" else ".so"


@dataclass(frozen=True)
class Library:
    """A compiled library: the operators' domain, the file, and the C text it was made of."""

    domain: str
    path: Path
    source: str

    @property
    def name(self) -> str:
        """The name of its file beside a model: no two libraries have the same."""
        return self.domain + SUFFIX


def require_compiler() -> Compiler:
    """Return the C compiler; CompilerError, saying what to do, where none works."""
    compiler = find_compiler()
    reason = absence() if compiler is None else refusal(compiler)
    if compiler is None or reason:
        raise CompilerError(f"the target onnxruntime-cpu+kernels: {reason}")
    return compiler


def build(
    kernels: Sequence[Kernel],
    *,
    levels: Sequence[str] | None = None,
    flags: Sequence[str] = FLAGS,
) -> Library:
    """Compile kernels, or find them compiled; equal ones are compiled once.

    `levels` are instruction sets, best first; the library asks the processor that it runs on, and
    isn't opened on one that has none of them.
    Raises CompilerError where there is no compiler, or it refuses.
    """
    compiler = require_compiler()
    distinct = list({kernel.name: kernel for kernel in kernels}.values())
    levels = levels or default_levels()
    texts = [(f"run_{kernel.name}", kernel.text) for kernel in distinct]
    supports = dict.fromkeys(
        _support(name, kernel.configuration)
        for kernel in distinct
        for name in kernel.support.split()
    )
    name, text = texts[0]
    texts[0] = (name, "\n".join([_text("call.h"), _text("brief.h"), *supports, text]))
    parts = [
        "#include <stdio.h>",
        unit(texts, levels, compiler, asks_processor=True),
        _text("runtime.h"),
        _text("operators.h"),
        *(operation(kernel) for kernel in distinct),
    ]
    body = "\n".join(parts)
    domain = DOMAIN + hashlib.sha256(body.encode()).hexdigest()[:16]
    source = "\n".join([body, registration(distinct, domain, levels[-1])])
    return Library(domain, library_file(source, compiler, flags), source)


@cache
def _support(name: str, chosen: Chosen[Any, Any] | None) -> str:
    """Return a file that kernels need, with the constants of a configuration in front."""
    text = _text(name)
    family = CONFIGURED.get(name)
    if family is None:
        return text
    constants = family.constants(chosen)
    return f"{constants}\n{text if chosen is None else family.specialised(text, chosen)}"


@cache
def default_levels() -> tuple[str, ...]:
    """Return all instruction sets of this kind of processor, best first."""
    return tuple(LEVELS) if platform.machine().lower() in ("x86_64", "amd64") else ("plain",)


def _text(name: str) -> str:
    return fixed_c(headers.__name__, name)

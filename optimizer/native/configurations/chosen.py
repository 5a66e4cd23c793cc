"""A configuration that a kernel has instead of the default, and the C constants that it becomes."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar


class Describable(Protocol):
    """What is chosen: numbers that a kernel's text, or how its work is divided, depends on."""

    @property
    def description(self) -> str:
        """Say it for people."""


Configuration_co = TypeVar("Configuration_co", bound=Describable, covariant=True)
Sizes_co = TypeVar("Sizes_co", covariant=True)


@dataclass(frozen=True)
class Chosen(Generic[Configuration_co, Sizes_co]):
    """A configuration that is no default, and the sizes of the kernel that it was chosen for.

    `level` names the instructions that it is for, where it is for one kind of processors alone.
    """

    configuration: Configuration_co
    sizes: Sizes_co
    level: str = ""


def no_others(sizes: object) -> tuple[()]:
    """Choose no configurations beside the default."""
    del sizes
    return ()


def by_level(macros: Mapping[str, str]) -> str:
    """Return the macros that levels define, those of each where that is compiled."""
    return "\n".join(
        [
            re.sub(r"^#define (\w+).*$", r"#undef \1", macros["plain"], flags=re.MULTILINE),
            "#if defined(LEVEL_AVX512)",
            macros["avx512"],
            "#elif defined(LEVEL_AVX2)",
            macros["avx2"],
            "#else",
            macros["plain"],
            "#endif",
        ]
    )

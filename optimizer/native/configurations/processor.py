"""The processor as the facts that configurations depend on."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from ....profiles.machine import cache_bytes
from ...codegen.unit import native_level

# Vector registers and float32 numbers of each, by level of instructions. "plain" is what x86-64 has
# at least; of other processors, some have more.
REGISTERS = {"avx512": (32, 16), "avx2": (16, 8), "plain": (16, 4)}
# Bytes of caches where the system does not tell: no current core has less.
LEAST_BYTES = (32 << 10, 256 << 10)


@dataclass(frozen=True)
class Processor:
    """A core: vector registers, float32 numbers of one, bytes of its first two caches."""

    level: str
    registers: int
    lanes: int
    first_cache_bytes: int
    second_cache_bytes: int


@cache
def processor(level: str = "") -> Processor:
    """Return this processor as kernels of a level of instructions use it, by default its best."""
    level = level or native_level()
    cache_sizes = cache_bytes()
    first, second = (
        cache_sizes.get(number, least) for number, least in zip((1, 2), LEAST_BYTES, strict=True)
    )
    return Processor(level, *REGISTERS[level], first, max(first, second))

"""Native kernels: C generated from the operators' specifications, compiled, cached and run."""

from .compiled import CompiledPlan, Step, compile_plan
from .compiler import Compiler, CompilerError, find_compiler
from .scalar import LoweringError

__all__ = [
    "CompiledPlan",
    "Compiler",
    "CompilerError",
    "LoweringError",
    "Step",
    "compile_plan",
    "find_compiler",
]

"""Native kernels of NumPy functions: C generated from the operators' specifications, and run.

Enters: a fusion plan. Leaves: what runs it. Begin with compiled.py. What the kernels of ONNX models
have in common with these is in `optimizer/codegen/`.

    compiled        a plan's operators lowered to kernels, compiled together, run in order
    cell_kernel     kernels over cells of one shape (Cell, MultiAgg)
    row_kernel      kernels over blocks of rows (Row); its text is built by
      row_text        the loops over a row, by stages of
      row_state       stages, buffers and views
      row_products    products of matrices among them
    entry_kernel    kernels over the stored entries of a sparse driver (Outer, sparse Cell)
      entry_text      and their text
    region_kernel   what kernels over rows and over entries have in common
    axis_classes    which axes of a region run together
    statements      a node's value, from its specification, as statements
    launch          arguments, threads, partial results
    tuning          how kernels' work is divided, chosen by their calls
"""

from ...codegen.compiler import Compiler, CompilerError, find_compiler
from ...codegen.expressions import LoweringError
from .compiled import CompiledPlan, Step, compile_plan

__all__ = [
    "CompiledPlan",
    "Compiler",
    "CompilerError",
    "LoweringError",
    "Step",
    "compile_plan",
    "find_compiler",
]

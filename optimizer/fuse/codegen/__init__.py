"""Native kernels: C generated from the operators' specifications, compiled, cached and run.

Enters: a fusion plan. Leaves: what runs it. Begin with compiled.py. The kernels for ONNX models
(optimizer/native) use unit, compiler, launch, statements and loops, too.

    compiled      a plan's operators lowered to kernels, compiled together, run in order
    cell_kernel   kernels over cells of one shape (Cell, MultiAgg)
    row_kernel    kernels over blocks of rows (Row); its text is built by
    row_text        the loops over a row, by stages of
    row_state       stages, buffers and views
    row_products    products of matrices among them
    entry_kernel  kernels over the stored entries of a sparse driver (Outer, sparse Cell)
    entry_text      and their text
    axes          which axes of a region run together
    statements    a node's value, from its specification, as C
    loops         innermost loops: vectors, reductions
    unit          a translation unit: kernels with the parts of the .h files that they need
    compiler      finds, runs and caches the C compiler
    launch        arguments, threads, partial results
    fit           fits the polynomials in coefficients.h
"""

from .compiled import CompiledPlan, Step, compile_plan
from .compiler import Compiler, CompilerError, find_compiler
from .statements import LoweringError

__all__ = [
    "CompiledPlan",
    "Compiler",
    "CompilerError",
    "LoweringError",
    "Step",
    "compile_plan",
    "find_compiler",
]

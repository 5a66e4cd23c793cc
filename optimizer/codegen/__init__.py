"""What kernels of NumPy functions and ONNX models have in common: C, from its terms to libraries.

In: terms of specifications, and statements for an element. Out: loops over vectors, and compiled
units. Begin with `expressions.py`.

    expressions    a term at one element as C, and the parts of a reduction
    vector_loops   innermost loops: vectors, what is reduced in them, tiles of it
    unit           a translation unit: kernels with the parts of the .h files that they need
    compiler       finds, runs and caches the C compiler
    joining        regions of one result each joined to kernels of several
    fit            fits the polynomials in coefficients.h

The .h files are fixed C: functions of vectors (`elementary.h`, `circular.h`, `hyperbolic.h`,
`powers.h`), products, threads (`pool.h`), what processors differ in (`processor.h`).
"""

from .compiler import Compiler, CompilerError, find_compiler
from .expressions import LoweringError

__all__ = ["Compiler", "CompilerError", "LoweringError", "find_compiler"]

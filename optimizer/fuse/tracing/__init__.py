"""One call of a fused function: what it computes is traced, and run region by region.

Enters: a function and its arguments. Leaves: its results, as real arrays. Begin with decorator.py.

    decorator      `fuse`, and a call: replayed, traced, or left as it is
    eligibility    which functions can be fused, and whether a call is (debuggers, `mode=`)
    trace          which arrays wait, when a region ends, who shares memory with whom
    marker_types   what lazy arrays and fused functions are, for modules that those import
    expressions    what waits, and the values that a region reads
    eager          functions that NumPy computes at once, and what is traced on from there
    escapes        lazy arrays that a call leaves somewhere are replaced by real ones
    buffers        C code that asks a lazy array for its memory
    liveness       which local variables are read again, by the function's bytecode
    region_engine  expressions that wait as a program, prepared once and kept by structure
    prepare        a program rewritten, planned, compiled
    region_race    kernels against SciPy, in a region's first calls
    replay         calls known to do what one before did, which aren't traced
    report         `explain`, and the tables behind `sql`
"""

"""The peers that run in one process with NumPy: numexpr, JAX, PyTorch eager and compiled.

Each gives a program as a function without arguments that returns when its result is there; its
arguments are converted before. One that isn't installed, or can't run a program, says so.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from .programs import Program


class MissingError(Exception):
    """A peer isn't installed, or has no form of a program; the message says which."""


Run = Callable[[], Any]


def numexpr(program: Program, arguments: tuple[Any, ...], threads: int) -> Run:
    try:
        import numexpr
    except ImportError:
        raise MissingError("not installed: pip install numexpr") from None
    if not program.numexpr:
        raise MissingError("only elementwise expressions and their sums")
    numexpr.set_num_threads(threads)
    named = dict(zip("XYZ", arguments, strict=False))

    def run() -> Any:
        results = [numexpr.evaluate(text, named) for text in program.numexpr]
        return results[0] if len(results) == 1 else tuple(results)

    return run


def jax(program: Program, arguments: tuple[Any, ...], threads: int) -> Run:
    try:
        import jax
    except ImportError:
        raise MissingError("not installed: pip install jax") from None
    jax.config.update("jax_enable_x64", True)
    jax.config.update("jax_platforms", "cpu")
    make, arrays = _form(program, arguments)
    compiled = jax.jit(make(jax.numpy))
    operands = [jax.numpy.asarray(operand) for operand in arrays]
    return lambda: jax.block_until_ready(compiled(*operands))


def torch(program: Program, arguments: tuple[Any, ...], threads: int) -> Run:
    module, function, operands = _torch(program, arguments, threads)
    return lambda: _without_gradients(module, function, operands)


def torch_compile(program: Program, arguments: tuple[Any, ...], threads: int) -> Run:
    module, function, operands = _torch(program, arguments, threads)
    compiled = module.compile(function, dynamic=False)
    return lambda: _without_gradients(module, compiled, operands)


def sampled_addmm(program: Program, arguments: tuple[Any, ...], threads: int) -> Run:
    """Return the weighted cross entropy by torch.sparse.sampled_addmm."""
    if "log(U" not in _name(program):
        raise MissingError("only products at the entries of a sparse matrix")
    module, _, _ = _torch(program, arguments, threads)
    S, U, V = arguments
    parts = [module.from_numpy(array) for array in (S.indptr, S.indices, S.data)]
    pattern = module.sparse_csr_tensor(*parts, size=S.shape)
    left, right, values = module.from_numpy(U), module.from_numpy(V).T, pattern.values()

    def run() -> Any:
        with module.no_grad():
            products = module.sparse.sampled_addmm(pattern, left, right, beta=0.0)
            return (values * module.log(products.values() + 1e-15)).sum()

    return run


PEERS: Mapping[str, Callable[[Program, tuple[Any, ...], int], Run]] = {
    "numexpr": numexpr,
    "JAX": jax,
    "torch": torch,
    "torch.compile": torch_compile,
    "sampled_addmm": sampled_addmm,
}


def _name(program: Program) -> str:
    from .programs import PROGRAMS

    return next(name for name, other in PROGRAMS.items() if other is program)


def _form(program: Program, arguments: tuple[Any, ...]) -> tuple[Any, tuple[Any, ...]]:
    """Return a program and its arguments, at the entries of a sparse argument."""
    if not hasattr(arguments[0], "indptr"):
        return program.make, arguments
    if program.entries is None:
        raise MissingError("no form for a sparse matrix")
    S = arguments[0].tocoo()
    rows, columns = (coordinates.astype("int64") for coordinates in S.coords)
    return program.entries, (S.data, rows, columns, *arguments[1:])


def _torch(program: Program, arguments: tuple[Any, ...], threads: int) -> tuple[Any, Any, Any]:
    try:
        import torch
    except ImportError:
        raise MissingError("not installed: pip install torch") from None
    torch.set_num_threads(threads)
    if hasattr(arguments[0], "indptr") and program.entries is None:
        S = arguments[0]
        parts = [torch.from_numpy(array) for array in (S.indptr, S.indices, S.data)]
        first = torch.sparse_csr_tensor(*parts, size=S.shape)
        operands = [first, *(torch.from_numpy(argument) for argument in arguments[1:])]
        return torch, program.make(torch), operands
    make, arrays = _form(program, arguments)
    return torch, make(torch), [torch.from_numpy(operand) for operand in arrays]


def _without_gradients(module: Any, function: Any, operands: Any) -> Any:
    with module.no_grad():
        return function(*operands)

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
        found = [numexpr.evaluate(text, named) for text in program.numexpr]
        return found[0] if len(found) == 1 else tuple(found)

    return run


def jax(program: Program, arguments: tuple[Any, ...], threads: int) -> Run:
    try:
        import jax
    except ImportError:
        raise MissingError("not installed: pip install jax") from None
    jax.config.update("jax_enable_x64", True)
    jax.config.update("jax_platforms", "cpu")
    make, given = _form(program, arguments)
    compiled = jax.jit(make(jax.numpy))
    held = [jax.numpy.asarray(one) for one in given]
    return lambda: jax.block_until_ready(compiled(*held))


def torch(program: Program, arguments: tuple[Any, ...], threads: int) -> Run:
    module, function, held = _torch(program, arguments, threads)
    return lambda: _without_gradients(module, function, held)


def torch_compile(program: Program, arguments: tuple[Any, ...], threads: int) -> Run:
    module, function, held = _torch(program, arguments, threads)
    compiled = module.compile(function, dynamic=False)
    return lambda: _without_gradients(module, compiled, held)


def sampled_addmm(program: Program, arguments: tuple[Any, ...], threads: int) -> Run:
    """Return the weighted cross entropy by torch.sparse.sampled_addmm."""
    if "log(U" not in _name(program):
        raise MissingError("only products at the entries of a sparse matrix")
    module, _, _ = _torch(program, arguments, threads)
    S, U, V = arguments
    parts = [module.from_numpy(one) for one in (S.indptr, S.indices, S.data)]
    pattern = module.sparse_csr_tensor(*parts, size=S.shape)
    left, right, values = module.from_numpy(U), module.from_numpy(V).T, pattern.values()

    def run() -> Any:
        with module.no_grad():
            found = module.sparse.sampled_addmm(pattern, left, right, beta=0.0)
            return (values * module.log(found.values() + 1e-15)).sum()

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

    return next(name for name, one in PROGRAMS.items() if one is program)


def _form(program: Program, arguments: tuple[Any, ...]) -> tuple[Any, tuple[Any, ...]]:
    """Return a program and its arguments, at the entries of a sparse argument."""
    if not hasattr(arguments[0], "indptr"):
        return program.make, arguments
    if program.entries is None:
        raise MissingError("no form for a sparse matrix")
    S = arguments[0].tocoo()
    rows, columns = (one.astype("int64") for one in S.coords)
    return program.entries, (S.data, rows, columns, *arguments[1:])


def _torch(program: Program, arguments: tuple[Any, ...], threads: int) -> tuple[Any, Any, Any]:
    try:
        import torch
    except ImportError:
        raise MissingError("not installed: pip install torch") from None
    torch.set_num_threads(threads)
    if hasattr(arguments[0], "indptr") and program.entries is None:
        S = arguments[0]
        parts = [torch.from_numpy(one) for one in (S.indptr, S.indices, S.data)]
        first = torch.sparse_csr_tensor(*parts, size=S.shape)
        held = [first, *(torch.from_numpy(one) for one in arguments[1:])]
        return torch, program.make(torch), held
    make, given = _form(program, arguments)
    return torch, make(torch), [torch.from_numpy(one) for one in given]


def _without_gradients(module: Any, function: Any, held: Any) -> Any:
    with module.no_grad():
        return function(*held)

"""tensolog: a declarative rule database and a Datalog-driven optimizer for tensor programs."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .catalog import Catalog
    from .opening import open_session
    from .optimizer import Optimization, optimize
    from .optimizer.fuse.tracing.decorator import fuse
    from .parallel.choosing.deploy import deploy
    from .parallel.serving.pool import open_parallel

__all__ = [
    "Catalog",
    "Optimization",
    "__version__",
    "deploy",
    "fuse",
    "open_parallel",
    "open_session",
    "optimize",
]
__version__ = "0.1.0"

# In a source checkout the other folders lie beside this one instead of inside it; without this line
# Python started in the checkout would find this folder first and miss them.
if (_checkout := Path(__file__).parent.parent / "catalog" / "store" / "schema.sql").exists():
    __path__.append(str(_checkout.parents[2]))

# Heavy modules load on first use: importing tensolog itself stays cheap.
_HOME = {
    "Catalog": ".catalog",
    "Optimization": ".optimizer",
    "deploy": ".parallel.choosing.deploy",
    "fuse": ".optimizer.fuse.tracing.decorator",
    "open_parallel": ".parallel.serving.pool",
    "open_session": ".opening",
    "optimize": ".optimizer",
}


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(import_module(_HOME[name], __name__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)

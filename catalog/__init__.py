"""What exists: models, operators, costs and rules as tables, and Datalog over them.

| folder | holds |
|---|---|
| `store/` | the DuckDB file: its schema, migrations, and who may write when |
| `onnx/` | models in and out, without loss |
| `operators/` | what operators compute, in `.ops` files |
| `datalog/` | the Datalog engine, in memory and on DuckDB |

Beside them lie what all packages share: errors, files that appear whole, what is kept on disk.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .errors import CatalogError, ModelError, TensologError
from .lazy_imports import lazily

if TYPE_CHECKING:
    from .store.catalog import Catalog

__all__ = ["Catalog", "CatalogError", "ModelError", "TensologError"]

# It loads DuckDB, which functions that are fused don't need.
__getattr__, __dir__ = lazily(__name__, {"Catalog": ".store.catalog"})

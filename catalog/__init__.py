"""What exists: models, operators, costs and rules as tables, and Datalog over them."""

from .errors import CatalogError, ModelError, TensologError
from .store import Catalog

__all__ = ["Catalog", "CatalogError", "ModelError", "TensologError"]

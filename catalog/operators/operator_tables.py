"""The operator tables: every version of every specification that the onnx package knows."""

from __future__ import annotations

from functools import cache
from importlib import metadata
from typing import TYPE_CHECKING

from .classes import classes_hash

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..store.catalog import Catalog


def fill_operators(catalog: Catalog) -> None:
    """Fill operator and operator_attribute once for each onnx release and text of classes.ops."""
    state = f"onnx {metadata.version('onnx')}, classes {classes_hash()}"
    known = catalog.connection.execute(
        "SELECT value FROM catalog_property WHERE name = 'operators'"
    ).fetchall()
    if known == [(state,)]:
        return
    with catalog.transaction():
        catalog.connection.execute("DELETE FROM operator_attribute")
        for table, columns in _columns().items():
            catalog.insert(table, columns, replace=table == "operator")
        catalog.insert("catalog_property", {"name": ["operators"], "value": [state]}, replace=True)


@cache
def _columns() -> dict[str, dict[str, Sequence[object]]]:
    """Return the columns of both tables, collected once for all catalogs of a process."""
    from .schemas import all_specifications  # onnx takes its time to load

    specifications = all_specifications()
    attributes = [(spec, attribute) for spec in specifications for attribute in spec.attributes]
    return {
        "operator": {
            "domain": [spec.domain for spec in specifications],
            "op_type": [spec.op_type for spec in specifications],
            "since_version": [spec.since_version for spec in specifications],
            "class": [spec.kind for spec in specifications],
            "commutative": [spec.commutative for spec in specifications],
            "deterministic": [spec.deterministic for spec in specifications],
            "min_inputs": [spec.min_inputs for spec in specifications],
            "max_inputs": [spec.max_inputs for spec in specifications],
            "min_outputs": [spec.min_outputs for spec in specifications],
            "max_outputs": [spec.max_outputs for spec in specifications],
            "deprecated": [spec.deprecated for spec in specifications],
        },
        "operator_attribute": {
            "domain": [spec.domain for spec, _ in attributes],
            "op_type": [spec.op_type for spec, _ in attributes],
            "since_version": [spec.since_version for spec, _ in attributes],
            "name": [attribute.name for _, attribute in attributes],
            "type": [attribute.type for _, attribute in attributes],
            "required": [attribute.required for _, attribute in attributes],
            "default_value": [attribute.default_text for _, attribute in attributes],
        },
    }

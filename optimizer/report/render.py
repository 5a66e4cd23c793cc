"""Fill the page's template with a report's data, escaped for its place in the page."""

from __future__ import annotations

from .schema import Report


def render_report(data: Report) -> str:
    """Return one HTML page that needs nothing from the network; `data` as in `schema.py`."""
    raise NotImplementedError

"""Fill the page's template with a report's data, escaped for its place in the page."""

from __future__ import annotations

import base64
import hashlib
import html
import json
import math
from collections.abc import Mapping
from importlib.resources import files
from string import Template
from typing import Any

from .schema import Report


def render_report(data: Report) -> str:
    """Return one HTML page that needs nothing from the network; `data` as in `schema.py`.

    The page's policy lets only its own scripts run, by their hashes, so a name in a model that
    looks like markup stays a name.
    """
    notice = f"/*\n{_read('LICENSE.dagre')}*/\n"
    layout = notice + _read("dagre.min.js") + _read("layout.js")
    script = _read("graph.js") + _read("page.js")
    style = _read("page.css")
    model = data.get("model", {})
    return Template(_read("page.html")).substitute(
        title=html.escape(f"{model.get('name') or 'model'} · tensolog"),
        style=style,
        style_hash=_hash(style),
        layout=layout,
        script=script,
        script_hashes=f"{_hash(layout)} {_hash(script)}",
        data=embedded_json(data),
    )


def embedded_json(data: object) -> str:
    """JSON that may stand inside a <script> element: no `<`, and null for NaN and infinities."""
    text = json.dumps(_finite(data), ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _finite(value: Any) -> Any:
    match value:
        case float():
            return value if math.isfinite(value) else None
        case Mapping():
            return {str(key): _finite(item) for key, item in value.items()}
        case list() | tuple():
            return [_finite(item) for item in value]
    return value


def _hash(text: str) -> str:
    """Name an inline script or style in the page's content security policy."""
    digest = hashlib.sha256(text.encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"


def _read(name: str) -> str:
    return files(__package__).joinpath(name).read_text(encoding="utf-8")

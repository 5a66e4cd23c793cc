"""The HTML report: one self-contained file that draws what an optimization did, and why."""

from __future__ import annotations

from .render import render_report
from .schema import Report, Summary

__all__ = ["Report", "Summary", "render_report"]

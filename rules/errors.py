"""What a rule author can get wrong, with the place and a hint."""

from __future__ import annotations

from ..catalog.errors import TensologError


class RuleError(TensologError):
    """A rule that can't be read or compiled: path, line and column (1-based), reason, hint."""

    def __init__(
        self, path: str, line: int, column: int, reason: str, hint: str | None = None
    ) -> None:
        self.path, self.line, self.column = path, line, column
        self.reason, self.hint = reason, hint
        advice = f"; {hint}" if hint else ""
        super().__init__(f"{path}:{line}:{column}: {reason}{advice}")

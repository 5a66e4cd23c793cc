"""What a rule author can get wrong, with the place and a hint."""

from __future__ import annotations

from collections.abc import Sequence

from ...catalog.errors import TensologError


class RuleError(TensologError):
    """A rule that can't be read or compiled: path, line and column (1-based), reason, hint."""

    def __init__(
        self, path: str, line: int, column: int, reason: str, hint: str | None = None
    ) -> None:
        self.path, self.line, self.column = path, line, column
        self.reason, self.hint = reason, hint
        advice = f"; {hint}" if hint else ""
        super().__init__(f"{path}:{line}:{column}: {reason}{advice}")


class SeveralRulesError(RuleError):
    """Several of them, a line each, in the order of the text; place and reason are the first's."""

    def __init__(self, errors: Sequence[RuleError]) -> None:
        first = errors[0]
        super().__init__(first.path, first.line, first.column, first.reason, first.hint)
        self.errors = tuple(errors)
        self.args = ("\n".join(map(str, errors)),)


def refuse_all(errors: Sequence[RuleError]) -> None:
    """Raise what was found, if anything was: each error on a line of its own."""
    single_errors: list[RuleError] = []
    for reported in errors:
        single_errors += reported.errors if isinstance(reported, SeveralRulesError) else [reported]
    distinct = {
        str(error): error
        for error in sorted(single_errors, key=lambda error: (error.line, error.column))
    }
    if len(distinct) > 1:
        raise SeveralRulesError(list(distinct.values()))
    for error in distinct.values():
        raise error

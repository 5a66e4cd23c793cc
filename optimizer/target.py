"""What a result is made for, where nobody said: native kernels, wherever they can be made."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from .codegen.compiler import absence, find_compiler, refusal
from .setting import CLASSES, KERNELS_TARGET, RUNTIME_TARGET, TARGETS, OptionError

if TYPE_CHECKING:
    from .report.schema import Target

AUTO = "auto"
ASKABLE = (AUTO, *TARGETS)
INSTALL = "pip install 'tensolog[kernels]'"
# Of sixteen models on three processors, two threads: benchmarks/README.md.
USUAL_GAIN = (
    "on sixteen models results with them take 0.79 to 0.82 of the time and those without 0.91 to "
    "0.93, by the geometric means of three processors"
)


@dataclass(frozen=True)
class TargetChoice:
    """The target that was asked for, the one that is taken, and why.

    `portable` asks for one plain file. Where kernels are left out, `advice` says what they usually
    gain and how to have them, `install` what has to be installed for that, as a command.
    """

    asked: str
    target: str
    reason: str
    portable: bool = False
    advice: str = ""
    install: str = ""

    def to_json(self) -> Target:
        """Give plain values."""
        return {
            "asked": self.asked,
            "chosen": self.target,
            "reason": self.reason,
            "portable": self.portable,
            "advice": self.advice,
            "install": self.install,
        }


def choose_target(
    asked: str = AUTO, *, portable: bool = False, allow: tuple[str, ...] = CLASSES
) -> TargetChoice:
    """Choose what `asked` stands for on this machine; OptionError for what can't be had together.

    "auto" stands for native kernels where a C compiler makes them. A target that is named is taken
    as it is.
    """
    if asked not in ASKABLE:
        raise OptionError(f"unknown target {asked!r}; known: {', '.join(ASKABLE)}")
    if portable and asked == KERNELS_TARGET:
        raise OptionError(
            f"a portable result has no native code, which the target {KERNELS_TARGET} asks for: "
            "leave out either"
        )
    if portable:
        target, reason = RUNTIME_TARGET if asked == AUTO else asked, "one plain file was asked for"
        return TargetChoice(asked, target, reason, portable, _left_out("leave out --portable"))
    if asked != AUTO:
        advice = "" if asked == KERNELS_TARGET else _left_out("leave out --target")
        return TargetChoice(asked, asked, "it was asked for", advice=advice)
    if "rounding" not in allow:
        reason = "kernels round otherwise, and only what is exact is allowed"
        advice = _left_out("--allow exact,rounding")
        return TargetChoice(asked, RUNTIME_TARGET, reason, advice=advice)
    compiler = find_compiler()
    reason = absence() if compiler is None else refusal(compiler)
    if compiler is None or reason:
        advice = _left_out("have a C compiler that works, and TENSOLOG_CC unset or naming it")
        return TargetChoice(asked, RUNTIME_TARGET, reason, advice=advice, install=INSTALL)
    reason = f"native kernels, compiled by {' '.join(compiler.command)}"
    return TargetChoice(asked, KERNELS_TARGET, reason)


def for_rules(target: str) -> str:
    """Return the target whose rules are asked about: those of "auto" are the runtime's."""
    return RUNTIME_TARGET if target == AUTO else target


def _left_out(remedy: str) -> str:
    return f"Native kernels are left out: {USUAL_GAIN}. To have them, {remedy}."

"""C text of a loop over steps: for each row all steps, with its states in the first cache."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ...codegen.expressions import literal
from ..loops.c_function import function_text, operand, steps_along, unravelled
from ..loops.row_text import RowWriter
from .step_cells import TIME

# Columns of a row whose steps are computed at a time, where nothing is reduced along it.
COLUMNS = 256


@dataclass(frozen=True)
class State:
    """A state: the access that reads it, and the output of a step that becomes it.

    It begins as what an input has, read by another `access` of the kernel's, or as the number
    `fill`. `is_row` says that it is one number a row; `result` is the kernel's output that it is
    when all is done, if any.
    """

    read: int
    output: int
    access: int | None
    operand: int
    fill: float
    is_row: bool
    result: int | None


@dataclass
class StepWriter(RowWriter):
    """Writes the function of a loop; the first merged loop is the one over steps.

    `states` are numbered; `stacked` are the outputs of a step that the kernel's first outputs have
    of all steps, `whole` the numbers of a row that states have room for.
    """

    states: Sequence[State] = ()
    stacked: Sequence[int] = ()
    whole: int = COLUMNS

    def text(self) -> str:
        """Return the definition of the function."""
        (cells,) = self.parts
        self.kept = self._kept(cells) if self.reduces else []
        state_cells = {state.read for state in self.states}
        lines = [
            f"  const i64 steps = {self._extent(TIME)}, inner = {self._extent(self._last)};",
        ]
        for number, access in enumerate(self.accesses):
            if number not in state_cells:
                lines.append(self._base(number, number, self.inputs.index(access.value)))
        for i, state in enumerate(self.states):
            if state.access is not None:
                lines.append(self._base(f"_{i}", state.access, state.operand))
        lines += [
            "  for (i64 unit = own->first; unit < own->end; unit++) {",
            *self._unit(),
        ]
        for position, state in enumerate(self.states):
            lines += self._begun(position, state)
        stored = (cell for cell in self.kept if cell not in self.lent)
        room = f"[{self.whole}] __attribute__((aligned(64)))"
        lines += [f"    float x{cell}{room};" for cell in stored]
        lines.append("    for (i64 t = 0; t < steps; t++) {")
        lines += self._step_pointers(state_cells)
        lines += [f"  {line}" for line in self._stages(cells)]
        for k, output in enumerate(self.stacked):
            if not self._is_direct(k):
                is_row = cells.cells[cells.outputs[output]].row
                lines += _copied(f"result{k}", f"q{output}", is_row, "      ")
        lines.append("    }")
        for k, state in enumerate(self.states):
            if state.result is not None:
                place = self._placed(state.result, state.is_row, timed=False)
                lines.append(f"    float *last{k} = {place};")
                lines += _copied(f"last{k}", f"s{k}[steps & 1]", state.is_row, "    ")
        return function_text([*lines, "  }"])

    @property
    def _last(self) -> int:
        return self.groups.count - 1

    def _unit(self) -> list[str]:
        """Say which row a unit is, and which columns of it."""
        lines = []
        if self.reduces:
            lines.append("    const i64 row = unit, base = 0, from = 0, to = inner;")
        else:
            lines += [
                "    const i64 row = unit / c->blocks, base = unit % c->blocks * c->block;",
                "    const i64 from = 0, to = LEAST(c->block, inner - base);",
            ]
        return [*lines, *unravelled("row", range(TIME + 1, self._last), self._extent)]

    def _begun(self, i: int, state: State) -> list[str]:
        """Declare a state, and let it begin."""
        size = 1 if state.is_row else self.whole
        lines = [f"    float s{i}[2][{size}] __attribute__((aligned(64)));"]
        if state.access is None:
            source = literal(state.fill)
        else:
            steps = self._steps(state.access)
            along = (
                "" if state.is_row else f" + (base + j) * c->stride[{state.access}][{self._last}]"
            )
            source = f"a_{i}[0{steps}{along}]"
        end = "1" if state.is_row else "to"
        return [*lines, f"    for (i64 j = 0; j < {end}; j++) s{i}[0][j] = {source};"]

    def _step_pointers(self, state_cells: set[int]) -> list[str]:
        """Point to what a step reads and writes."""
        lines = []
        for number in range(len(self.accesses)):
            if number not in state_cells:
                moved = f"{self._steps(number)} + t * c->stride[{number}][{TIME}]"
                if self.steps[number]:
                    moved += f" + {self.steps[number]} * base"
                lines.append(f"      const float *restrict p{number} = a{number}{moved};")
        for i, state in enumerate(self.states):
            lines += [
                f"      const float *restrict p{state.read} = s{i}[t & 1];",
                f"      float *restrict q{state.output} = s{i}[~t & 1];",
            ]
        (cells,) = self.parts
        for position, output in enumerate(self.stacked):
            name = f"q{output}" if self._is_direct(position) else f"result{position}"
            is_row = cells.cells[cells.outputs[output]].row
            lines.append(
                f"      float *restrict {name} = {self._placed(position, is_row, timed=True)};"
            )
        return lines

    def _is_direct(self, i: int) -> bool:
        """Tell whether a step writes an output of the kernel where it belongs, once."""
        output = self.stacked[i]
        is_state = any(state.output == output for state in self.states)
        return not is_state and output not in self.stacked[:i]

    def _steps(self, access: int) -> str:
        """Return how far the row's part of an access lies from its beginning."""
        return steps_along(access, range(TIME + 1, self._last))

    def _placed(self, output: int, is_row: bool, *, timed: bool) -> str:
        """Return where a row's part of an output lies."""
        moved = steps_along(output, range(TIME + 1, self._last), "place")
        moved += f" + t * c->place[{output}][{TIME}]" if timed else ""
        return f"(float *)c->out[{output}]{moved}{'' if is_row else ' + base'}"

    def _base(self, name: int | str, access: int, number: int) -> str:
        return f"  const float *a{name} = {operand(number)} + c->offset[{access}];"


def _copied(to: str, source: str, is_row: bool, indent: str) -> list[str]:
    end = "1" if is_row else "to"
    return [f"{indent}for (i64 j = 0; j < {end}; j++) {to}[j] = {source}[j];"]

"""A program as a module of Python: each stratum as loops over hash indexes, semi-naive.

python -m tensolog.catalog.datalog.memory.generate FILE.dl MODULE.py

writes it, for programs that come with tensolog.

The module has one function, which takes and returns rows, and imports neither this package nor a
database. Of few rows it derives in a millisecond what DuckDB takes fifty for: a plan a statement.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ..analysis.type_inference import FLOAT
from ..language.structures import decode
from ..language.syntax import Atom
from ..program import Program
from ..steps import Relation, Rule
from . import runtime
from .nested_loops import BeyondLoopsError, Index, Loops, Names, kept_apart, row, spelled

_HEAD = """from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any
"""
_DERIVE = '''def derive(
    given: Mapping[str, Iterable[tuple[Any, ...]]],
) -> dict[str, dict[tuple[Any, ...], None]]:
    """Return all relations, rows as keys, from the rows of those that are inputs."""
'''


def source(program: Program) -> str:
    """Write a program as a module; raises BeyondLoopsError, naming what loops don't do."""
    return _Module(program).text()


class _Module:
    """A program under translation."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.names = Names(kept_apart(program.relations, "rows_"))
        self.made: set[Index] = set()
        self.lines: list[tuple[int, str]] = []

    def text(self) -> str:
        """Write it."""
        self._check_structures()
        for stratum in self.program.strata:
            members = [self.program.relations[name] for name in stratum.relations]
            self._add(0, f"# {', '.join(stratum.relations)}")
            for relation in members:
                self._begin(relation)
            if stratum.recursive:
                self._recursive(members)
            else:
                for rule in members[0].rules:
                    self._rule(rule)
                self._choose(members[0], 0)
            for relation in members:
                if relation.is_equivalence:
                    rows = self.names.rows[relation.name]
                    self._add(0, f"{rows} = {self.names.call('closure', rows)}")
        self._add(0, "return {")
        for name, rows in self.names.rows.items():
            self._add(1, f"{name!r}: {rows},")
        self._add(0, "}")
        functions = [inspect.getsource(getattr(runtime, name)) for name in self.names.functions]
        body = "\n".join("    " * (level + 1) + line for level, line in self.lines)
        return "\n\n".join([_HEAD, *functions, _DERIVE + body]) + "\n"

    def _check_structures(self) -> None:
        """Refuse structures with floats: a database has them as texts, which tell -0.0 from 0.0."""
        structures = self.program.structures
        kinds = {kind for relation in self.program.relations.values() for kind in relation.kinds}
        queue = list(kinds)
        while queue:
            structure = structures.get(queue.pop())
            parts = structure.branches.values() if structure else ()
            fields = {kind for branch in parts for kind in branch}
            if FLOAT in fields:
                raise BeyondLoopsError("floats in records or algebraic data types")
            queue.extend(fields - kinds)
            kinds |= fields

    def _add(self, level: int, line: str) -> None:
        self.lines.append((level, line))

    def _begin(self, relation: Relation) -> None:
        """Write what a relation starts from: what was given, and its facts."""
        if relation.dominances:
            raise BeyondLoopsError("subsumption")
        if relation.keys and any(kind in self.program.structures for kind in relation.kinds):
            raise BeyondLoopsError("a choice among records, which have no order")
        rows = self.names.rows[relation.name]
        given = f"dict.fromkeys(given.get({relation.name!r}, ()))"
        self._add(0, f"{rows} = {given if relation.is_input else '{}'}")
        if relation.keys:
            name = self._called(relation.name, "keys")
            taken = self.names.call("taken", rows, repr(relation.keys))
            self._add(0, f"{name} = {taken}")
            self._add(0, f"{self._called(relation.name, 'found')} = {{}}")
        for fact in dict.fromkeys(relation.facts):
            target = self._target(relation)
            values = zip(fact, relation.kinds, strict=True)
            self._add(0, f"{target}[{row([self._constant(v, kind) for v, kind in values])}] = None")

    def _constant(self, value: Any, kind: str) -> str:
        structures = self.program.structures
        return repr(decode(value, kind, structures) if kind in structures else value)

    def _target(self, relation: Relation) -> str:
        """Name what a relation's first rows enter: where they are chosen from, what is found."""
        return self._called(relation.name, "found" if relation.keys else "rows")

    def _choose(self, relation: Relation, level: int) -> None:
        """Write that of what was found only what is chosen enters a relation."""
        if relation.keys:
            found, keys = (self._called(relation.name, p) for p in ("found", "keys"))
            self._add(
                level, f"{found} = {self.names.call('chosen', found, repr(relation.keys), keys)}"
            )
            if level == 0:
                self._add(level, f"{self.names.rows[relation.name]}.update({found})")

    def _rule(self, rule: Rule) -> None:
        """Write a rule that reads what is complete."""
        target = self._target(self.program.relations[rule.clause.head.name])
        loops = Loops(rule.clause, rule.kinds, self.names)
        loops.translate(lambda one: f"{target}[{one}] = None", None, "")
        self._write(loops)

    def _write(self, loops: Loops, level: int = 0) -> None:
        """Write loops after the indexes that they read; those of a recursion are there."""
        if level == 0:
            for index in [one for one in self.names.indexes if one not in self.made]:
                self._index(index)
        for inner, line in loops.lines:
            self._add(level + inner, line)

    def _index(self, index: Index) -> None:
        rows = self.names.rows[index.relation]
        self._add(0, f"{index.name(rows)} = {{}}")
        self._fill(0, index, rows)
        self.made.add(index)

    def _fill(self, level: int, index: Index, rows: str) -> None:
        """Write the loop that adds rows to an index."""
        name = index.name(self.names.rows[index.relation])
        values = spelled([f"one[{column}]" for column in index.values])
        keys = spelled([f"one[{column}]" for column in index.keys])
        self._add(level, f"for one in {rows}:")
        held = f"{name}.setdefault({keys}, {{}})" if index.keys else name
        self._add(level + 1, f"{held}[{values}] = None")

    # -- recursion

    def _recursive(self, members: Sequence[Relation]) -> None:
        """Write rounds: each rule once for each recursive atom, over what the last round found."""
        own = {relation.name for relation in members}
        rounds: list[tuple[Relation, Rule, Atom]] = []
        for relation in members:
            for rule in relation.rules:
                atoms = [b for b in rule.clause.body if isinstance(b, Atom) and b.name in own]
                rounds += [(relation, rule, atom) for atom in atoms]
                if not atoms:
                    self._rule(rule)
            self._choose(relation, 0)
        translated = []
        for relation, rule, atom in rounds:
            loops = Loops(rule.clause, rule.kinds, self.names)
            rows, found = (self._called(relation.name, prefix) for prefix in ("rows", "found"))
            keep = f"if (_ := {{}}) not in {rows}: {found}[_] = None"
            loops.translate(keep.format, atom, self._called(atom.name, "new"))
            translated.append(loops)
        wanted = [index for index in self.names.indexes if index not in self.made]
        for index in wanted:
            self._index(index)
        for name in own:
            self._add(0, f"{self._called(name, 'new')} = dict({self.names.rows[name]})")
        names = [relation.name for relation in members]
        self._add(0, f"while {' or '.join(self._called(name, 'new') for name in names)}:")
        for relation in members:
            if relation.limit is not None:
                self._add(1, f"if len({self.names.rows[relation.name]}) >= {relation.limit}:")
                self._add(2, "break")
        for name in names:
            self._add(1, f"{self._called(name, 'found')} = {{}}")
        for loops in translated:
            self._write(loops, 1)
        for name in names:
            new, found = self._called(name, "new"), self._called(name, "found")
            self._choose(self.program.relations[name], 1)
            self._add(1, f"{self.names.rows[name]}.update({found})")
            self._add(1, f"{new} = {found}")
            for index in wanted:
                if index.relation == name:
                    self._fill(1, index, new)

    def _called(self, name: str, prefix: str) -> str:
        return prefix + self.names.rows[name].removeprefix("rows")


def beyond(program: Program) -> str | None:
    """Say why a program can't be loops of Python; None where it can."""
    try:
        source(program)
    except BeyondLoopsError as reason:
        return str(reason)
    return None


def module(path: Path, written: Path) -> str:
    """Return the module of a program file, which says how it was made."""
    from ..program_files import read_program

    command = "python -m tensolog.catalog.datalog.memory.generate"
    arguments = f"{path.as_posix()} {written.as_posix()}"
    notes = "# ruff: noqa\n# fmt: off\n# mypy: ignore-errors"
    head = f'"""Generated by: {command} {arguments}"""\n\n{notes}\n\n'
    return head + source(read_program(path))


if __name__ == "__main__":
    _path, _written = map(Path, sys.argv[1:])
    _written.write_text(module(_path, _written), encoding="utf-8")

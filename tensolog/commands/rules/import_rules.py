"""`tensolog rules import`: rules of other systems through the gate."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from ...printing import echo
from .. import options as shared
from .arguments import counted, refuse

if TYPE_CHECKING:
    from ...rules.foreign.import_report import Report


@click.command(
    name="import", no_args_is_help=True, short_help="Read rules of TASO or TENSAT, and prove each."
)
@click.argument("file", metavar="FILE", type=shared.FILE)
@click.option(
    "-o",
    "--output",
    "--out",
    "out",
    metavar="FILE.rules",
    type=click.Path(path_type=Path),
    help="Write the rules that are proved and of use there.",
)
@shared.jobs_option
@shared.timeout_option("for one proof")
@shared.json_option
def import_rules(
    file: Path, out: Path | None, jobs: int | None, timeout: float, as_json: bool
) -> None:
    """Read rules of TASO (JSON lines) or equations of TENSAT, and prove each.

    Says of each whether it is proved as it stands, proved under a condition that was inferred,
    refuted with numbers, refused because its shapes don't fit, or unknown, with the reason. What
    can't be read is named with line and column, and the rest is read. Exits with 1 if a rule is
    refuted, refused or unreadable, as `check` does; the rules are written all the same.

    \b
    Examples:
      tensolog rules import taso_rules.jsonl -o taso.rules
      tensolog rules import equations.txt --json | jq .totals
    """
    if out is not None:
        out = shared.output_file(out, content="the rules")
        if out.exists():
            raise click.ClickException(f"{out} exists: name another file with --output")
    from ...profiles.machine import cores
    from ...progress import Progress
    from ...rules.foreign import import_rules as run
    from ...rules.foreign.import_report import Imported

    done = 0
    with Progress(quiet=as_json) as progress:

        def show_progress(imported: Imported) -> None:
            nonlocal done
            done += 1
            progress("proving", done, 0, f"{done} rules, {imported.name}: {imported.status}")

        progress("reading", 0, 1, str(file))
        report = run(file, workers=jobs or cores(), timeout=timeout, progress=show_progress)
    written = report.write(out) if out is not None else None
    if as_json:
        shared.print_json(report.record())
        _end(report)
        return
    from ...summary import columns

    rows = [(rule.status, str(rule.line), rule.name, _said(rule)) for rule in report.rules]
    if rows:
        click.echo(columns(rows, right=(1,), indent=""))
    totals = ", ".join(f"{count} {status}" for status, count in report.totals.items() if count)
    echo(f"{report.system}: {counted(len(report.rules), 'rule')}: {totals}")
    if out is not None:
        echo(f"{out}: {counted(written or 0, 'rule')}")
    _end(report)


def _end(report: Report) -> None:
    """End with a no where the file says something wrong."""
    if any(report.totals[status] for status in ("refuted", "refused", "unreadable")):
        refuse()


def _said(imported: object) -> str:
    from ...rules.foreign.import_report import Imported

    assert isinstance(imported, Imported)
    if imported.conditions:
        return "; ".join(condition.text for condition in imported.conditions)
    return imported.reason

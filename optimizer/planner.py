"""Plans derived from a graph by a choice of rules: the cheap ones always, the others by cost."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ..rules import Rule
from .egraph.absorbing_rules import is_naming
from .graph.graph import Graph
from .graph.infer import bound_types
from .lookups import merge_lookups
from .masked_attention import split_masked_attention
from .match.matcher import Matcher
from .match.rewrite import Step, clean, simplify
from .match.single_gains import explore
from .one_matrix import merge_products
from .phases import Phases
from .price import Prices
from .race.contest import Plan
from .setting import Setting

if TYPE_CHECKING:
    from .egraph.search import SearchResult

# Imported within functions: the searches, each for the phase that the budget lets begin.


class Planner:
    """Derives plans of one model; compiled rules and measured prices are shared by all of them."""

    def __init__(
        self,
        setting: Setting,
        phases: Phases,
        rules: Sequence[Rule],
        original: Graph,
        prices: Prices,
        given: Sequence[Step] = (),
    ) -> None:
        """Choose the rules that may be applied to this model at all.

        `original` is the graph that plans are derived from, `given` what was done to it before.
        """
        self.setting, self.phases, self.prices = setting, phases, prices
        self.original, self.base, self.given = original, tuple(rules), tuple(given)
        self.always = setting.select(rules, original, "always")
        explorative = setting.select(rules, original, "explore")
        # Kernels that a rule names hide operators from layouts and from fused kernels: one plan of
        # an e-graph has them, and no other.
        self.naming = [rule for rule in explorative if is_naming(rule)]
        self.explorative = [rule for rule in explorative if not is_naming(rule)]
        self.of_passes = setting.select(rules, original, "pass")
        # What `grow` found and from which plan, until its layouts are chosen.
        self.last_search: tuple[Plan, SearchResult] | None = None

    def assuming_finite(self, plan: Plan) -> set[str]:
        """Name the rules of a plan that promise their equality for finite numbers only."""
        used = {step.rule for step in plan.steps}
        return {rule.name for rule in self.always if rule.finite_math and rule.name in used}

    def forbid(self, names: Collection[str]) -> None:
        """Leave rules out of all plans that are derived from now on."""
        self.always, self.explorative, self.naming, self.of_passes = (
            [rule for rule in rules if rule.name not in names]
            for rules in (self.always, self.explorative, self.naming, self.of_passes)
        )

    def _matcher(self, rules: Sequence[Rule]) -> Matcher:
        return Matcher(rules)

    def simplify(self, name: str, rules: Collection[Rule] | None = None) -> Plan:
        """Derive a plan by folding, sharing, and what is always an improvement.

        `rules` restricts the choice of rules.
        """
        chosen = [rule for rule in self.always if rules is None or rule in rules]
        plan = Plan(name, self.original.copy())
        with self.phases("rewriting", name):
            plan.steps = list(self.given) + simplify(
                plan.graph,
                self._matcher(chosen),
                fold_limit=self.setting.fold_limit,
                on_round=lambda _, steps: self.phases.tell("rewriting", 0, 0, f"{steps} steps"),
            )
        return plan

    def explore(
        self,
        name: str,
        start: Plan,
        sizes: Mapping[str, int],
        rules: Collection[Rule] | None = None,
    ) -> Plan:
        """Derive a plan from another by the rewrites that measured costs favour."""
        always = [rule for rule in self.always if rules is None or rule in rules]
        chosen = [rule for rule in self.explorative if rules is None or rule in rules]
        plan = Plan(name, start.graph.copy())
        with self.phases("searching", name):
            plan.steps = start.steps + explore(
                plan.graph,
                self._matcher(chosen),
                self._matcher(always),
                self.prices,
                sizes=sizes,
                fold_limit=self.setting.fold_limit,
                progress=self.phases.tell,
            )
        return plan

    def grow(
        self,
        name: str,
        start: Plan,
        sizes: Mapping[str, int],
        count: int,
        kept: Path | None,
        *,
        hold: bool = False,
    ) -> list[Plan]:
        """Derive plans from another by an e-graph, then by single gains; the cheapest one first.

        At most `count`, which differ in the rules they use, and one more that names kernels, if
        there may be several at all. `kept` is a file that the e-graph is written to; with `hold` it
        is held for `lay_out_jointly`.
        """
        from .egraph.search import search
        from .egraph.search_tables import write_search
        from .explain.node_options import steps_not_in_plan

        naming = self.naming if count > 1 else []  # each plan more takes loading
        with self.phases("searching", name):
            found = search(
                start.graph,
                (*self.always, *self.explorative, *naming),
                self.prices,
                sizes=sizes,
                fold_limit=self.setting.fold_limit,
                rounding="rounding" in self.setting.allow,
                count=count,
                contributed=self.setting.contributes,
                progress=self.phases.tell,
            )
            if kept is not None:
                write_search(found, kept)
            left = steps_not_in_plan(found.egraph, found.growth, found.costs)
        self.last_search = (start, found) if hold else None
        plans = []
        every = [*found.plans, *([found.named] if found.named else ())]
        for place, derived in enumerate(every):
            clean(derived.graph, self.setting.fold_limit)
            own = name if place == 0 else f"{name} {place + 1}"
            grown = Plan(own, derived.graph, steps=[*start.steps, *derived.steps])
            rules = (*self.always, *self.explorative)
            allowed = [rule for rule in rules if rule.name not in derived.without]
            plans.append(self.explore(own, grown, sizes, allowed))
        plans[0].steps += left
        plans[0].gap = found.extraction.gap
        return plans

    def lay_out(self, name: str, start: Plan, sizes: Mapping[str, int]) -> list[Plan]:
        """Derive plans by choosing the layout of each value; the first equals `start` if none pays.

        For ONNX Runtime alone: it names kernels of its own. Where plans may have kernels, there is
        a second one with more convolutions in blocks, if there are some that kernels may compute.
        """
        from .layouts.plans import lay_out_for_kernels
        from .native.convolution.blocked import TILES

        with self.phases("searching", name):
            filters = TILES if self.setting.fuses else ()
            fold_limit = self.setting.fold_limit
            laid, further = lay_out_for_kernels(
                start.graph,
                self.prices,
                filters,
                self.of_passes,
                sizes=sizes,
                fold_limit=fold_limit,
            )
        plans = [Plan(name, start.graph.copy(), steps=list(start.steps))]
        if laid is not None:
            plans = [Plan(name, laid.graph, steps=[*start.steps, *laid.steps])]
        if further is not None:
            steps = [*start.steps, *further.steps]
            plans.append(Plan(f"{name} for kernels", further.graph, steps=steps))
        return plans

    def lay_out_jointly(
        self, name: str, forbidden: Collection[str], kept: Path | None
    ) -> tuple[Plan | None, Plan | None]:
        """Derive a plan by choosing rules and the layout of each value together.

        Out of what `grow` found and held, which is let go, without the rules of some names. None
        where nothing is held, or nothing would lie in blocks. The second one is for kernels, where
        rules have made convolutions that these may compute, else None. `kept` is a file that the
        e-graph is written to, blocked classes included.
        """
        from .egraph.search_tables import write_search
        from .layouts.plans import lay_out_jointly
        from .native.convolution.blocked import TILES

        if self.last_search is None:
            return None, None
        (start, found), self.last_search = self.last_search, None
        filters = TILES if self.setting.fuses else ()
        with self.phases("searching", name):
            laid, further = lay_out_jointly(
                found, (*self.always, *self.explorative, *self.of_passes), forbidden, filters
            )
            if laid is not None and kept is not None:
                write_search(found, kept, laid.account())
        first, second = (
            None if made is None else Plan(each, made.graph, steps=[*start.steps, *made.steps])
            for each, made in ((name, laid), (f"{name} for kernels", further))
        )
        return first, second

    def frees_convolutions(self) -> bool:
        """Whether rules have made convolutions for kernels in what `grow` found and held."""
        from .layouts.promising import frees
        from .native.convolution.blocked import TILES

        if self.last_search is None or not self.setting.fuses:
            return False
        _, found = self.last_search
        return frees(found.egraph, found.growth.applications, TILES)

    def attend(self, name: str, starts: Sequence[Plan]) -> Plan:
        """Derive a plan by computing attention under constant masks by blocks.

        From the first of `starts` that shows such attention; equal to the last one where none does.
        """
        with self.phases("rewriting", name):
            for start in starts:
                plan = Plan(name, start.graph.copy())
                found = split_masked_attention(plan.graph)
                plan.steps = start.steps + found
                if found:
                    break
        return plan

    def gather(self, name: str, start: Plan) -> Plan:
        """Derive a plan by merging lookups in several tables; equal to `start` without such."""
        plan = Plan(name, start.graph.copy())
        with self.phases("rewriting", name):
            plan.steps = [*start.steps, *merge_lookups(plan.graph)]
        return plan

    def join_rows(self, name: str, start: Plan, sizes: Mapping[str, int]) -> Plan:
        """Derive a plan by merging products of few rows with one matrix; equal without such."""
        plan = Plan(name, start.graph.copy())
        with self.phases("rewriting", name):
            types = bound_types(plan.graph, sizes)
            plan.steps = [*start.steps, *merge_products(plan.graph, types, self.of_passes)]
        return plan

    def matching(self, plan: Plan, rules: Sequence[Rule]) -> list[Rule]:
        """List the rules that match somewhere in a plan's graph."""
        found = {match.rule.name for match in self._matcher(rules).find(plan.graph)}
        return [rule for rule in rules if rule.name in found]

    def force(self, name: str, start: Plan, rules: Sequence[Rule]) -> Plan:
        """Derive a plan from another by applying rules wherever they match, whatever they cost."""
        plan = Plan(name, start.graph.copy())
        with self.phases("rewriting", name):
            plan.steps = start.steps + simplify(
                plan.graph, self._matcher(rules), fold_limit=self.setting.fold_limit
            )
        return plan

"""Plans derived from a model: by rules that always pay, by costs, by an e-graph, by layouts.

Each method of `Planner` derives plans from one that is there and leaves that one as it is. Which of
them are right, and which the fastest, is not decided here: see plan_selection.py.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ..rules import Rule
from .egraph.absorbing_rules import is_naming
from .graph.graph import Graph
from .graph.infer import bound_types
from .match.matcher import Matcher
from .match.rewrite import Step, clean, simplify
from .match.single_gains import explore
from .phases import Phases
from .price import Prices
from .race.contest import Plan
from .rewrites.merge_lookups import merge_lookups
from .rewrites.merge_products import merge_products
from .rewrites.split_masked_attention import split_masked_attention
from .setting import Setting

if TYPE_CHECKING:
    from .egraph.search import SearchResult

# Imported within functions: the searches, each for the phase that the budget lets begin.

# The plan that an e-graph derives; the others behind it are numbered.
EGRAPH = "e-graph"


class Planner:
    """Derives plans of one model; compiled rules and measured prices are shared by all of them."""

    def __init__(
        self,
        setting: Setting,
        phases: Phases,
        rules: Sequence[Rule],
        original: Graph,
        prices: Prices,
        steps_before: Sequence[Step] = (),
    ) -> None:
        """Choose the rules that may be applied to this model at all.

        `original` is the graph that plans are derived from, `steps_before` what was done to it
        before: each plan begins with these steps.
        """
        self.setting, self.phases, self.prices = setting, phases, prices
        self.original, self.base = original, tuple(rules)
        self.steps_before = tuple(steps_before)
        self.always = setting.select(rules, original, "always")
        explorative = setting.select(rules, original, "explore")
        # Kernels that a rule names hide operators from layouts and from fused kernels: one plan of
        # an e-graph has them, and no other.
        self.naming = [rule for rule in explorative if is_naming(rule)]
        self.explorative = [rule for rule in explorative if not is_naming(rule)]
        self.of_passes = setting.select(rules, original, "pass")
        # The last search of `search_egraph` and the plan it began with, until layouts are chosen.
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

    def simplify(self, name: str, rules: Collection[Rule] | None = None) -> Plan:
        """Derive a plan by folding, sharing, and what is always an improvement.

        `rules` restricts the choice of rules.
        """
        chosen = [rule for rule in self.always if rules is None or rule in rules]
        plan = Plan(name, self.original.copy())
        with self.phases("rewriting", name):
            plan.steps = list(self.steps_before) + simplify(
                plan.graph,
                Matcher(chosen),
                fold_limit=self.setting.fold_limit,
                on_round=lambda _, steps: self.phases.tell("rewriting", 0, 0, f"{steps} steps"),
            )
        return plan

    def apply_gains(
        self,
        name: str,
        start: Plan,
        sizes: Mapping[str, int],
        rules: Collection[Rule] | None = None,
    ) -> Plan:
        """Derive a plan from another by single rewrites that lower its cost, one by one."""
        always = [rule for rule in self.always if rules is None or rule in rules]
        chosen = [rule for rule in self.explorative if rules is None or rule in rules]
        plan = Plan(name, start.graph.copy())
        with self.phases("searching", name):
            plan.steps = start.steps + explore(
                plan.graph,
                Matcher(chosen),
                Matcher(always),
                self.prices,
                sizes=sizes,
                fold_limit=self.setting.fold_limit,
                progress=self.phases.tell,
            )
        return plan

    def search_egraph(
        self,
        start: Plan,
        sizes: Mapping[str, int],
        count: int,
        search_file: Path | None,
        *,
        lays_out: bool = False,
    ) -> list[Plan]:
        """Derive plans from another by an e-graph, then by single gains; the cheapest one first.

        At most `count`, which differ in the rules they use; where `count` is above 1, also one that
        names kernels of the runtime. `search_file` is a file that the e-graph is written to. With
        `lays_out` the e-graph stays in memory for `choose_rules_and_layouts`.
        """
        from .egraph.search import search
        from .egraph.search_tables import write_search
        from .explain.node_options import steps_not_in_plan

        naming = self.naming if count > 1 else []  # each plan more takes loading
        with self.phases("searching", EGRAPH):
            result = search(
                start.graph,
                (*self.always, *self.explorative, *naming),
                self.prices,
                sizes=sizes,
                fold_limit=self.setting.fold_limit,
                rounding="rounding" in self.setting.allow,
                count=count,
                contributed=self.setting.contributes,
                of_passes=self.of_passes,
                progress=self.phases.tell,
            )
            if search_file is not None:
                write_search(result, search_file)
            unplanned = steps_not_in_plan(result.egraph, result.growth, result.costs)
        self.last_search = (start, result) if lays_out else None
        plans = []
        every = [*result.plans, *([result.named] if result.named else ())]
        for place, derived in enumerate(every):
            clean(derived.graph, self.setting.fold_limit)
            plan_name = EGRAPH if place == 0 else f"{EGRAPH} {place + 1}"
            grown = Plan(plan_name, derived.graph, steps=[*start.steps, *derived.steps])
            rules = (*self.always, *self.explorative)
            allowed = [rule for rule in rules if rule.name not in derived.without]
            plans.append(self.apply_gains(plan_name, grown, sizes, allowed))
        plans[0].steps += unplanned
        plans[0].gap = result.extraction.gap
        return plans

    def choose_layouts(self, name: str, start: Plan, sizes: Mapping[str, int]) -> list[Plan]:
        """Derive plans by choosing the layout of each value; the first equals `start` if none pays.

        For ONNX Runtime alone, whose operators on blocked values they name. Where plans may have
        generated kernels, a second one has more convolutions in blocks, for these to compute.
        """
        from .layouts.plans import lay_out
        from .native.convolution.blocked import TILES

        with self.phases("searching", name):
            laid_out, further = lay_out(
                start.graph,
                self.prices,
                self.of_passes,
                filters=TILES if self.setting.fuses else (),
                sizes=sizes,
                fold_limit=self.setting.fold_limit,
            )
        plans = [Plan(name, start.graph.copy(), steps=list(start.steps))]
        if laid_out is not None:
            plans = [Plan(name, laid_out.graph, steps=[*start.steps, *laid_out.steps])]
        if further is not None:
            steps = [*start.steps, *further.steps]
            plans.append(Plan(f"{name} for kernels", further.graph, steps=steps))
        return plans

    def choose_rules_and_layouts(
        self, name: str, forbidden: Collection[str], search_file: Path | None
    ) -> tuple[Plan | None, Plan | None]:
        """Derive a plan by choosing rules and the layout of each value together.

        The e-graph is that of the last `search_egraph`, which is dropped then; rules whose names
        are `forbidden` are not used. None without such an e-graph, and where nothing would lie in
        blocks. The second plan is for generated kernels, where rules made convolutions for them,
        else None. `search_file` is a file that the e-graph is written to, with its blocked classes.
        """
        from .egraph.search_tables import write_search
        from .layouts.plans import lay_out_jointly
        from .native.convolution.blocked import TILES

        if self.last_search is None:
            return None, None
        (start, result), self.last_search = self.last_search, None
        filters = TILES if self.setting.fuses else ()
        with self.phases("searching", name):
            laid_out, further = lay_out_jointly(
                result, (*self.always, *self.explorative, *self.of_passes), forbidden, filters
            )
            if laid_out is not None and search_file is not None:
                write_search(result, search_file, laid_out.account())
        first, second = (
            None if plan is None else Plan(plan_name, plan.graph, steps=[*start.steps, *plan.steps])
            for plan_name, plan in ((name, laid_out), (f"{name} for kernels", further))
        )
        return first, second

    def makes_convolutions(self) -> bool:
        """Whether rules of the last search made convolutions for generated kernels."""
        from .layouts.promising import frees
        from .native.convolution.blocked import TILES

        if self.last_search is None or not self.setting.fuses:
            return False
        _, result = self.last_search
        return frees(result.egraph, result.growth.applications, TILES)

    def split_masked_attention(self, name: str, starts: Sequence[Plan]) -> Plan:
        """Derive a plan by computing attention under constant masks by blocks of rows.

        From the first of `starts` that has such attention; equal to the last one where none does.
        """
        with self.phases("rewriting", name):
            for start in starts:
                plan = Plan(name, start.graph.copy())
                splits = split_masked_attention(plan.graph)
                plan.steps = start.steps + splits
                if splits:
                    break
        return plan

    def merge_lookups(self, name: str, start: Plan) -> Plan:
        """Derive a plan by merging lookups in several tables; equal to `start` without such."""
        plan = Plan(name, start.graph.copy())
        with self.phases("rewriting", name):
            merged = merge_lookups(plan.graph, (*self.always, *self.of_passes))
            plan.steps = [*start.steps, *merged]
        return plan

    def merge_products(self, name: str, start: Plan, sizes: Mapping[str, int]) -> Plan:
        """Derive a plan by merging products of few rows with one matrix; equal without such."""
        plan = Plan(name, start.graph.copy())
        with self.phases("rewriting", name):
            types = bound_types(plan.graph, sizes)
            plan.steps = [*start.steps, *merge_products(plan.graph, types, self.of_passes)]
        return plan

    def rules_that_match(self, plan: Plan, rules: Sequence[Rule]) -> list[Rule]:
        """List the rules that match somewhere in a plan's graph."""
        names = {match.rule.name for match in Matcher(rules).find(plan.graph)}
        return [rule for rule in rules if rule.name in names]

    def apply_everywhere(self, name: str, start: Plan, rules: Sequence[Rule]) -> Plan:
        """Derive a plan from another by applying rules wherever they match, whatever that costs."""
        plan = Plan(name, start.graph.copy())
        with self.phases("rewriting", name):
            plan.steps = start.steps + simplify(
                plan.graph, Matcher(rules), fold_limit=self.setting.fold_limit
            )
        return plan

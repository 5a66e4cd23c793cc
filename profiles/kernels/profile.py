"""Profile: every kernel of a model measured, and summed up by operator."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from ...catalog import Catalog
from ..kernel import Kernel
from .costs import Cost, CostModel, Progress


@dataclass(frozen=True)
class KernelCost:
    """One distinct kernel of a model: its nodes, the cost of one run, why it may lack one."""

    kernel: Kernel
    count: int
    nodes: tuple[str, ...]
    cost: Cost
    failure: str | None

    @property
    def total_ns(self) -> float:
        """Nanoseconds of all its occurrences."""
        return self.count * self.cost.ns


@dataclass(frozen=True)
class OperatorCost:
    """All kernels of one operator: nodes, nanoseconds, and its share of the model's sum."""

    operator: str
    nodes: int
    ns: float
    share: float


@dataclass(frozen=True)
class Profile:
    """What a model's kernels cost, dearest first; `measured` counts the rows this call wrote."""

    kernels: tuple[KernelCost, ...]
    operators: tuple[OperatorCost, ...]
    total_ns: float
    measured: int
    bounds: int

    @property
    def complete(self) -> bool:
        """True where no kernel's cost is a bound."""
        return self.bounds == 0


def profile(
    catalog: Catalog,
    kernels: Sequence[tuple[str, Kernel]],
    *,
    threads: int,
    budget_s: float = 20.0,
    configuration: str = "all",
    progress: Progress | None = None,
    costs: CostModel | None = None,
) -> Profile:
    """Measure the kernels (node name, Kernel) that have no cost yet, and report all of them.

    Those with the largest bound times count go first, since the budget may end before the last.
    Kernels of constants only cost nothing and are left out.
    """
    model = costs or CostModel(catalog, threads=threads, configuration=configuration)
    counts: Counter[str] = Counter()
    nodes: dict[str, list[str]] = defaultdict(list)
    distinct: dict[str, Kernel] = {}
    for name, kernel in kernels:
        if kernel.is_constant:
            continue
        counts[kernel.hash] += 1
        nodes[kernel.hash].append(name)
        distinct.setdefault(kernel.hash, kernel)
    waiting = sorted(
        model.unmeasured(distinct.values()),
        key=lambda kernel: -counts[kernel.hash] * model.cost(kernel).ns,
    )
    measured = model.measure(waiting, budget_s=budget_s, progress=progress)
    rows = [
        KernelCost(
            kernel, counts[key], tuple(nodes[key]), model.cost(kernel), model.failure(kernel)
        )
        for key, kernel in distinct.items()
    ]
    rows.sort(key=lambda row: (-row.total_ns, row.kernel.label()))
    total = sum(row.total_ns for row in rows)
    sums: dict[str, tuple[int, float]] = {}
    for row in rows:
        domain, operator = row.kernel.domain, row.kernel.op_type
        name = f"{domain}.{operator}" if domain else operator
        count, ns = sums.get(name, (0, 0.0))
        sums[name] = (count + row.count, ns + row.total_ns)
    operators = [
        OperatorCost(name, count, ns, ns / total if total else 0.0)
        for name, (count, ns) in sums.items()
    ]
    operators.sort(key=lambda entry: (-entry.ns, entry.operator))
    bounds = sum(row.cost.source == "bound" for row in rows)
    return Profile(tuple(rows), tuple(operators), total, measured, bounds)

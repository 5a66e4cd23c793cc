"""Plans by random change: a Markov chain over plans that stays where they are good.

One operator is divided otherwise at a time; what is better is taken, what is worse with probability
exp(-alpha * loss), the loss in parts of the best score (FlexFlow, MLSys 2019, section 6). The seed
decides, and steps are counted: equal inputs give equal plans. Where an operator has few divisions
all of them are tried before, again and again (`descend`).
"""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Sequence

from ..simulation.placement import Config
from ..simulation.simulator import Simulation
from .goals import Goal, Score, score

_ALPHA = 40.0


def anneal(
    start: Simulation,
    configs: Sequence[Sequence[Config]],
    goal: Goal,
    *,
    steps: int,
    seed: int = 0,
) -> tuple[Simulation, Score]:
    """Return the best plan that so many changes of one operator lead to, from one to begin with."""
    draw = random.Random(seed)
    here, rank = start, score(start, goal)
    best, best_rank = here, rank
    open_ = [number for number, options in enumerate(configs) if len(options) > 1]
    for _ in range(steps if open_ else 0):
        number = draw.choice(open_)
        config = draw.choice(configs[number])
        if config == here.plan[number]:
            continue
        other = here.with_config(number, config)
        rank_of_other = score(other, goal)
        if rank_of_other < rank or draw.random() < _chance(rank_of_other, rank, best_rank):
            here, rank = other, rank_of_other
        if rank < best_rank:
            best, best_rank = here, rank
    return best, best_rank


def descend(
    start: Simulation, configs: Sequence[Sequence[Config]], goal: Goal, *, steps: int
) -> tuple[Simulation, Score]:
    """Divide one operator after the other as is best with all others as they are.

    Ends when none is divided otherwise, or after so many plans.
    """
    best, rank = start, score(start, goal)
    unchanged = 0
    for number in itertools.cycle(range(len(configs))):
        steps -= len(configs[number])
        if steps < 0 or unchanged == len(configs):
            break
        unchanged += 1
        for config in configs[number]:
            if config != best.plan[number]:
                other = best.with_config(number, config)
                rank_of_other = score(other, goal)
                if rank_of_other < rank:
                    best, rank, unchanged = other, rank_of_other, 0
    return best, rank


def _chance(score: Score, rank: Score, best: Score) -> float:
    if score.excess_bytes > rank.excess_bytes:
        return 0.0
    loss = (score.goal - rank.goal) / best.goal if best.goal > 0 else 0.0
    return math.exp(-_ALPHA * max(loss, 0.0))

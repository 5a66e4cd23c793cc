"""The cheapest plan of a region by trying all of them: an oracle that shares prices only.

A plan: any set of stored nodes (producers of any edge, not of points alone), for each stored node
any cover that is closed under edges to nodes that are not stored, and any grouping of aggregates.
"""

import itertools
import math

from tensolog.optimizer.fuse.planning.template_costs import Cover


def cheapest(prices, nodes, edges, forced, joins):
    """Return the least cost of all plans, in seconds."""
    producers = sorted({c for _, c in edges} - set(forced))
    below = {h: [c for g, c in edges if g == h] for h in nodes}
    joinable = sorted({node for pair in joins for node in pair if node in below})
    priced = {}

    def price(roots, covered):
        key = (roots, frozenset(covered))
        if key not in priced:
            priced[key] = _price(prices, edges, roots, covered)
        return priced[key]

    best = math.inf
    for count in range(len(producers) + 1):
        for chosen in itertools.combinations(producers, count):
            stored = set(forced) | set(chosen)
            total = sum(_operator(price, below, stored, (root,)) for root in stored - set(joinable))
            if total < best and joinable:
                total += min(
                    sum(_operator(price, below, stored, group) for group in grouping)
                    for grouping in _groupings(prices.graph, joinable)
                )
            best = min(best, total)
    return best


def _operator(price, below, stored, roots):
    """Return the least cost of an operator: each stored node below it is read or not."""
    reached = set(roots)
    waiting = list(roots)
    while waiting:
        for c in below[waiting.pop()]:
            if c not in reached:
                reached.add(c)
                waiting.append(c)
    met = sorted((reached & stored) - set(roots))
    best, seen = math.inf, set()
    for count in range(len(met) + 1):
        for read in itertools.combinations(met, count):
            covered, waiting = set(roots), list(roots)
            while waiting:
                for c in below[waiting.pop()]:
                    if c not in read and c not in covered:
                        covered.add(c)
                        waiting.append(c)
            if frozenset(covered) not in seen:
                seen.add(frozenset(covered))
                best = min(best, price(roots, covered))
    return best


def _price(prices, edges, roots, covered):
    inner, reads = set(), {}
    for h in sorted(covered):
        for operand in prices.graph.operands[h]:
            edge = (h, operand.node)
            if operand.node not in covered:
                reads[operand.node] = None
            elif edge in edges:
                inner.add(edge)
            else:
                return math.inf
    operator = prices.best(Cover(roots, tuple(sorted(covered)), frozenset(inner), tuple(reads)))
    return math.inf if operator is None else operator.cost_s


def _groupings(graph, roots):
    """Yield the groupings in which no group waits for another that waits for it."""
    for grouping in _set_partitions(list(roots)):
        after = {
            (a, b)
            for a, b in itertools.permutations(range(len(grouping)), 2)
            if any(graph.ancestors[x] >> y & 1 for x in grouping[b] for y in grouping[a])
        }
        inside = any(
            graph.ancestors[x] >> y & 1
            for group in grouping
            for x, y in itertools.permutations(group, 2)
        )
        if not inside and not _cyclic(after, len(grouping)):
            yield grouping


def _cyclic(after, count):
    for middle, a, b in itertools.product(range(count), repeat=3):
        if (a, middle) in after and (middle, b) in after:
            after.add((a, b))
    return any((number, number) in after for number in range(count))


def _set_partitions(members):
    if not members:
        yield []
        return
    first, *rest = members
    for others in _set_partitions(rest):
        yield [(first,), *others]
        for i, group in enumerate(others):
            yield [*others[:i], (first, *group), *others[i + 1 :]]

"""A lower bound of the costs of all plans in which some nodes are known to be stored or not.

An operator covers, at least, what its root reaches through nodes that are certainly not stored: so
much it computes, and what those read other than by edges it reads. Its time is at least its
writing plus the max of the two. What is left over, each input that no operator reads yet, each
node stored by choice (else it would not be stored) and each node that none computes yet, some
operator must still do; at best under the slack between reading and computing that they have:

    max(R + a, C + b) >= max(R, C) + max(0, a - (C - R)+, b - (R - C)+),  summed over operators.

What an undecided node leads to is part of that: stored, it is written (and read), else each of the
operators that cover a reader of it computes it, and reads what that takes, once more.

SystemML charges reads of stored nodes outside of the maximum and at their dense size: its bound is
none, and prunes optimal plans.
"""

from __future__ import annotations

from functools import cached_property

from .masks import mask, members
from .region import Region, Roots


class Bound:
    """Lower bounds over one region; parts are kept by the decisions that they depend on."""

    def __init__(self, region: Region) -> None:
        self.region = region
        self.minima = region.minima
        self._parts: dict[tuple[Roots, int], tuple[int, int, float, float, float]] = {}

    @cached_property
    def _inputs(self) -> int:
        found = 0
        for reads in self.minima.fixed.values():
            found |= reads
        return found

    @cached_property
    def _all_nodes(self) -> int:
        return mask(self.region.nodes)

    @cached_property
    def _readers(self) -> dict[int, int]:
        """For each candidate, the nodes that it may be fused into."""
        found = dict.fromkeys(self.region.candidates, 0)
        for h, c in self.region.edges:
            if c in found:
                found[c] |= 1 << h
        return found

    def of(self, stored: int, undecided: int) -> float:
        """Return seconds that no useful plan undercuts.

        `stored` and `undecided` are masks of candidates; all other candidates are not stored.
        """
        region, minima = self.region, self.minima
        joinable = region.joinable
        alone = (stored | region.forced) & ~mask(joinable)
        operators: list[Roots] = [(root,) for root in members(alone)]
        if joinable:
            operators.append(joinable)
        stops = stored | undecided | region.forced
        total = slack_to_read = slack_to_compute = 0.0
        covered = read = 0
        covers: list[int] = []
        for roots in operators:
            held, reads, writing_s, reading_s, computing_s = self._part(roots, stops)
            covers.append(held)
            covered |= held
            read |= reads
            if reading_s > computing_s:
                total += writing_s + reading_s
                slack_to_compute += reading_s - computing_s
            else:
                total += writing_s + computing_s
                slack_to_read += computing_s - reading_s
        to_read = minima.reading_s(self._inputs & ~read)
        to_read += minima.reading_s(stored & ~region.unread)
        left = self._all_nodes & ~covered
        to_compute = minima.held(left)[1] + minima.fusing_s(left & ~undecided)
        for node in members(undecided):
            readers = self._readers[node]
            times = sum(1 for held in covers if held & readers) - 1
            if times <= 0:
                to_compute += min(minima.write_s[node], minima.fused_s[node])
                continue
            more_to_read, more_to_compute = self._again(node, times, stops, covered, read)
            to_read += more_to_read
            to_compute += more_to_compute
            # What hangs on several nodes counts for one of them.
            below, reads, *_ = self._part((node,), stops)
            covered |= below
            read |= reads
        return total + max(0.0, to_read - slack_to_read, to_compute - slack_to_compute)

    def _again(
        self, node: int, times: int, stops: int, covered: int, read: int
    ) -> tuple[float, float]:
        """Return seconds of reading and of computing to which an undecided node leads at least.

        Not stored, it is computed so many times more than once, with what is below it for sure.
        """
        minima = self.minima
        below, reads, *_ = self._part((node,), stops)
        written_s = minima.write_s[node]
        read_s = 0.0 if self.region.unread >> node & 1 else minima.read_s[node]
        return (
            min(written_s + read_s, times * minima.reading_s(reads & ~read)),
            min(written_s, minima.fused_s[node] + times * minima.held(below & ~covered)[1]),
        )

    def _part(self, roots: Roots, stops: int) -> tuple[int, int, float, float, float]:
        region, minima = self.region, self.minima
        key = (roots, stops & region.reached(roots))
        found = self._parts.get(key)
        if found is None:
            held, _ = region.closure(roots, stops)
            if len(roots) == 1 and held == 1 << roots[0] and region.graph.is_view(roots[0]):
                found = held, 0, 0.0, 0.0, 0.0
            else:
                reads, computing_s = minima.covering(roots, held)
                writing_s = minima.writing_s(roots)
                found = held, reads, writing_s, minima.reading_s(reads), computing_s
            self._parts[key] = found
        return found

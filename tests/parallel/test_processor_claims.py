"""Pools of one machine get processors of their own, as long as there are enough of them."""

import os
import signal
import subprocess
import sys
import threading
import uuid
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tensolog.parallel.deployment.settings import Setting
from tensolog.parallel.serving import pinning, processor_claims
from tensolog.parallel.serving.pinning import Processor, assign_each
from tensolog.parallel.serving.processor_claims import claim_processors

from tensolog import open_parallel

from .plans import deployed, layer

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="names in the abstract namespace")
# Two sockets of two cores of two threads.
TWO_SOCKETS = tuple(Processor(n, n % 4 // 2, n // 4) for n in range(8))


@pytest.fixture(autouse=True)
def no_other_pools(monkeypatch):
    """See no pools but those of this test."""
    monkeypatch.setattr(processor_claims, "PREFIX", f"tensolog-test-{uuid.uuid4()}")


@pytest.fixture
def machine(monkeypatch):
    """Be on a machine of two sockets."""
    for module in (pinning, processor_claims):
        monkeypatch.setattr(module, "processors", lambda: tuple(range(8)))
    monkeypatch.setattr(pinning, "cores", lambda: 8)
    monkeypatch.setattr(pinning, "topology", lambda numbers: TWO_SOCKETS)


def test_pools_are_on_other_sockets_and_processors(machine):
    first, second = claim_processors([2]), claim_processors([2])
    assert (first.places, second.places) == (((0, 1),), ((2, 3),))
    third = claim_processors([1, 1])
    assert third.places == ((4,), (6,))  # the second threads, one of each socket
    assert {claim.others for claim in (first, second, third)} == {"none"}
    for claim in (first, second, third):
        claim.release()


def test_what_a_pool_gave_back_is_given_again(machine):
    first, second = claim_processors([4]), claim_processors([4])
    assert {*first.places[0], *second.places[0]} == set(range(8))
    first.release()
    again = claim_processors([4])
    assert again.places == first.places and again.others == "none"
    second.release()
    again.release()


def test_where_all_have_a_pool_those_of_the_fewest_are_shared(machine):
    claims = [claim_processors([1]) for _ in range(6)]
    both = claim_processors([2, 2])
    free = set(range(8)) - {number for claim in claims for number in claim.places[0]}
    assert free < {number for place in both.places for number in place}
    assert both.others == "some"
    # Bound to a memory node, not to processors that others have.
    assert {*both.places} == {(0, 1, 4, 5), (2, 3, 6, 7)}
    last = claim_processors([8])
    assert last.places == (tuple(range(8)),) and last.others == "some"
    for processor_claim in (*claims, both, last):
        processor_claim.release()


def test_pools_of_other_programs_are_seen_until_they_end(machine):
    code = (
        "import sys\n"
        "from tensolog.parallel.serving import pinning, processor_claims as c\n"
        "c.PREFIX = sys.argv[1]\n"
        "pinning.processors = c.processors = lambda: (0, 1)\n"
        "pinning.cores = lambda: 2\n"
        "claim = c.claim_processors([1, 1])\n"
        "print(claim.places, flush=True)\n"
        "sys.stdin.read()\n"
    )
    command = [sys.executable, "-c", code, processor_claims.PREFIX]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, **pipes) as program:
        assert program.stdout.readline() == "((0,), (1,))\n"
        here = claim_processors([2])
        assert here.places == ((2, 3),) and here.others == "none"
        here.release()
        program.kill()
    again = claim_processors([2])
    assert again.places == ((0, 1),) and again.others == "none"
    again.release()


def test_pools_that_are_opened_at_once_are_not_given_the_same(machine):
    barrier, claims = threading.Barrier(8), []

    def claim():
        barrier.wait()
        claims.append(claim_processors([1]))

    threads = [threading.Thread(target=claim) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(claim.places for claim in claims) == [((number,),) for number in range(8)]
    for processor_claim in claims:
        processor_claim.release()


def test_a_container_with_a_quota_claims_nothing(machine, monkeypatch):
    """Containers beside it can't be seen, and would all pin to the first processors."""
    monkeypatch.setattr(pinning, "cores", lambda: 4)
    for _ in range(2):
        claim = claim_processors([2, 2])
        assert claim.places == ((0, 1, 4, 5), (2, 3, 6, 7)) and claim.others == "unknown"
    with pytest.raises(ValueError, match="4 cores may be used"):
        claim_processors([5])


def test_more_than_this_process_may_use_is_refused(machine):
    with pytest.raises(ValueError, match="9 threads, and 8 cores may be used"):
        claim_processors([9])


@given(
    st.lists(st.tuples(st.integers(0, 2), st.integers(0, 3)), min_size=1, max_size=12), st.data()
)
def test_processors_of_the_fewest_pools_come_first(described, data):
    machine = [Processor(number, node) for number, (node, _) in enumerate(described)]
    loads = {number: load for number, (_, load) in enumerate(described)}
    count = data.draw(st.integers(1, len(machine)))
    places = assign_each([1] * count, machine, loads)
    assert max(Counter(place[0] for place in places).values()) == 1
    assert sorted(loads[place[0]] for place in places) == sorted(loads.values())[:count]


@pytest.mark.skipif(pinning.cores() < 2 or pinning.has_quota(), reason="needs two processors")
def test_two_sessions_in_one_process_have_processors_of_their_own(tmp_path):
    plan = deployed(layer(), tmp_path, Setting(1, 1, 4))
    with open_parallel(plan) as first, open_parallel(plan) as second:
        masks = [os.sched_getaffinity(claim.pids[0]) for claim in (first, second)]
        assert all(len(mask) == 1 for mask in masks) and not masks[0] & masks[1]
    with open_parallel(plan) as third:
        assert os.sched_getaffinity(third.pids[0]) == masks[0]


@pytest.mark.skipif(pinning.cores() < 2 or pinning.has_quota(), reason="needs two processors")
def test_pools_that_ask_for_more_than_there_is_let_go_of_their_processors(tmp_path):
    plan = deployed(layer(), tmp_path, Setting(1, 1, 4))
    more = replace(plan, setting=Setting(pinning.cores(), 1, 4))
    everywhere = set(pinning.processors())

    def masks(session):
        return [os.sched_getaffinity(pid) for pid in session.pids]

    with open_parallel(plan) as first:
        (pinned,) = masks(first)
        assert len(pinned) == 1
        with open_parallel(more) as second:
            nodes = [mask for session in (first, second) for mask in masks(session)]
            assert all(pinned < mask <= everywhere or mask == everywhere for mask in nodes)
            # One that is replaced meanwhile is not bound either.
            os.kill(first.pids[0], signal.SIGKILL)
            first.run({"x": np.zeros((1, 8), np.float32)})
            assert len(masks(first)[0]) > 1
        assert masks(first) == [pinned]

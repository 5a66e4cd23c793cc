"""Which processors instances get, on simulated machines."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tensolog.parallel.serving import pinning
from tensolog.parallel.serving.pinning import Processor, assign_each, topology


@pytest.fixture
def two_sockets(tmp_path):
    """Two sockets of two cores of two threads, numbered as Linux does: 0-3 cores, 4-7 siblings."""
    for number in range(8):
        folder = tmp_path / f"cpu{number}" / "topology"
        folder.mkdir(parents=True)
        node, core = number % 4 // 2, number % 4
        (folder / "physical_package_id").write_text(f"{node}\n")
        (folder / "thread_siblings_list").write_text(f"{core},{core + 4}\n")
        (tmp_path / f"cpu{number}" / f"node{node}").mkdir()
    return topology(range(8), tmp_path)


def nodes_of(places, machine):
    node = {processor.number: processor.node for processor in machine}
    return [{node[number] for number in place} for place in places]


def test_what_the_system_says_is_read(two_sockets):
    assert [processor.node for processor in two_sockets] == [0, 0, 1, 1] * 2
    assert [processor.sibling for processor in two_sockets] == [0] * 4 + [1] * 4


def test_both_sockets_are_used(two_sockets):
    places = assign_each([2, 2], two_sockets)
    assert places == ((0, 1), (2, 3))  # whole cores, one socket each
    assert nodes_of(assign_each([4] * 2, two_sockets), two_sockets) == [{0}, {1}]
    assert nodes_of(assign_each([1] * 4, two_sockets), two_sockets) == [{0}, {1}, {0}, {1}]


def test_an_instance_larger_than_a_socket_takes_of_both(two_sockets):
    (place,) = assign_each([8] * 1, two_sockets)
    assert place == tuple(range(8))


def test_a_system_that_tells_nothing(tmp_path):
    machine = topology([3, 5, 7], tmp_path)
    assert assign_each([1] * 3, machine) == ((3,), (5,), (7,))


@given(
    st.lists(st.tuples(st.integers(0, 3), st.integers(0, 1)), min_size=1, max_size=24),
    st.integers(1, 6),
    st.integers(1, 6),
)
def test_no_processor_serves_two_instances(described, instances, threads):
    machine = [Processor(number, *entry) for number, entry in enumerate(described)]
    if instances * threads > len(machine):
        with pytest.raises(ValueError, match="threads on"):
            assign_each([threads] * instances, machine)
        return
    places = assign_each([threads] * instances, machine)
    numbers = [number for place in places for number in place]
    assert len(numbers) == len(set(numbers)) == instances * threads
    assert all(len(place) == threads for place in places)


def test_no_more_than_the_quota_is_used(monkeypatch):
    monkeypatch.setattr(pinning, "cores", lambda: 2)
    monkeypatch.setattr(pinning, "processors", lambda: (0, 1, 2, 3))
    assert len(pinning.here(2, 1)) == 2
    with pytest.raises(ValueError, match="2 cores may be used"):
        pinning.here(3, 1)

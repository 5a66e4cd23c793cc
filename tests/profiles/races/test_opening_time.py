"""Openings raced: one of each model in every round, told apart beyond noise."""

from onnx import helper
from tensolog.profiles.races.opening_time import race_openings
from tensolog.profiles.sessions.execution import AS_WRITTEN

from tests.profiles.small_models import mlp
from tests.profiles.track import Track


def test_what_opens_faster_is_told():
    track = Track({"original": 30e6, "lean": 20e6, "same": 30e6})
    laps = race_openings(
        {"original": b"", "lean": b"", "same": b""},
        threads=1,
        budget_s=5.0,
        reference="original",
        loader=track.load,
        clock=track.clock,
    )
    assert laps["lean"].verdict == "faster"
    assert laps["same"].verdict == "noise"
    assert len({lap.samples for lap in laps.values()}) == 1


def test_sessions_are_opened():
    small = mlp()
    large = mlp()
    for number in range(100):
        large.graph.node.append(helper.make_node("Neg", ["x"], [f"n{number}"]))
        large.graph.output.append(helper.make_empty_tensor_value_info(f"n{number}"))
    laps = race_openings(
        {"small": small.SerializeToString(), "large": large.SerializeToString()},
        threads=1,
        budget_s=0.1,
        reference="small",
        executions={"small": AS_WRITTEN},
    )
    assert all(lap.median_ns > 0 for lap in laps.values())

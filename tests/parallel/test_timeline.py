"""What a plan does when, as spans and as a picture: against the schedule that it is made of."""

import random
from xml.etree import ElementTree

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tensolog.parallel.simulation.simulator import Simulation
from tensolog.parallel.simulation.spans import timeline_of
from tensolog.parallel.timeline import Span, Timeline, timeline_svg
from tensolog.parallel.typed_values import read_as

from ..campaigns import examples
from .models import random_graph, random_plan, space

SVG = "{http://www.w3.org/2000/svg}"


def simulated(seed, devices):
    draw = random.Random(seed).randrange
    space_ = space(random_graph(draw, 6), devices)
    return Simulation(space_.problem, random_plan(draw, space_))


@given(st.integers(0, 10**9), st.integers(1, 4))
@settings(max_examples=examples(60), deadline=None)
def test_a_timeline_is_its_schedule(seed, devices):
    simulation = simulated(seed, devices)
    timeline = timeline_of(simulation)
    assert timeline.seconds == pytest.approx(simulation.latency_s)
    busy = {}
    for task in simulation.schedule.tasks.values():
        if task.seconds or task.delay:
            busy[task.resource] = busy.get(task.resource, 0.0) + task.seconds
    shown_s = dict.fromkeys(range(len(timeline.lanes)), 0.0)
    for span in timeline.spans:
        shown_s[span.lane] += span.free_s - span.begin_s
    # Joined neighbours count what is between them, at most a 500th of the whole each time.
    slack = timeline.seconds * len(simulation.schedule.tasks) / 500
    for number, resource in enumerate(sorted(busy)):
        assert busy[resource] - 1e-12 <= shown_s[number] <= busy[resource] + slack
    sent = sum(bool(task.size_bytes) for task in simulation.schedule.tasks.values())
    assert sum(span.target >= 0 for span in timeline.spans) == sent
    assert read_as(Timeline, plain(timeline.to_json())) == timeline


def plain(values):
    """Give what JSON makes of values: tuples are lists."""
    if isinstance(values, dict):
        return {key: plain(value) for key, value in values.items()}
    return [plain(value) for value in values] if isinstance(values, list | tuple) else values


def test_the_picture_has_a_bar_for_each_span_and_nothing_outside():
    timeline = timeline_of(simulated(5, 3))
    assert any(span.target >= 0 for span in timeline.spans)
    picture = ElementTree.fromstring(timeline_svg(timeline, "a <plan> & its name"))
    assert picture.find(f"{SVG}title").text == "a <plan> & its name"
    groups = picture.findall(f"{SVG}g")
    assert len(groups) == len(timeline.spans)
    texts = {text.text for text in picture.iter(f"{SVG}text")}
    assert set(timeline.lanes) <= texts
    width, height = float(picture.get("width")), float(picture.get("height"))
    for bar in picture.iter(f"{SVG}rect"):
        assert 0 <= float(bar.get("x")) <= float(bar.get("x")) + float(bar.get("width")) <= width
        assert 0 <= float(bar.get("y")) <= height - float(bar.get("height"))
    assert "prefers-color-scheme: dark" in picture.find(f"{SVG}style").text


@pytest.mark.parametrize(
    ("span", "why"),
    [
        (Span(1, "compute", "a", 0.0, 1.0, 1.0), "no lane 1"),
        (Span(0, "send", "a", 0.0, 1.0, 1.0, 4), "or 4"),
        (Span(0, "compute", "a", 2.0, 1.0, 1.0), "'a' ends before it begins"),
    ],
)
def test_damaged_timelines_are_refused(span, why):
    with pytest.raises(ValueError, match=why):
        Timeline(("d0",), (span,))

"""The HTML report: self-contained, safe with hostile names, and drawn by a browser."""

import base64
import hashlib
import html
import json
import re
from html.parser import HTMLParser

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tensolog.optimizer.report import render_report
from tensolog.optimizer.report.render import embedded_json

from .browser import CHROMIUM, Browser
from .report_sketch import Sketch, report, residual_network, transformer

HOSTILE = [
    "</script><script>document.title='owned'</script>",
    "<img src=x onerror=\"document.title='owned'\">",
    "<!--<script>",
    "'\"><svg/onload=document.title='owned'>",
    "${document.title='owned'}",
    "$title $data",
    "\u2028\u2029\x00\x1b[2J",
    "größe 形状 \U0001f600",
]


class Page(HTMLParser):
    """Collects elements, their attributes, and the text of scripts."""

    def __init__(self, text):
        super().__init__()
        self.elements, self.texts, self.stack = [], {}, []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        self.stack.append((tag, dict(attrs).get("id")))

    def handle_endtag(self, tag):
        while self.stack and self.stack.pop()[0] != tag:
            pass

    def handle_data(self, data):
        if self.stack:
            self.texts.setdefault(self.stack[-1], []).append(data)

    def text(self, tag, identity=None):
        return "".join(self.texts.get((tag, identity), []))


def hostile_report():
    before = residual_network(2)
    for index, name in enumerate(HOSTILE):
        node = before["nodes"][index]
        node["name"] = node["op"] = name
        node["attributes"] = {name: name}
        node["rule"] = name
        before["constants"][name] = name
    data = report(before, residual_network(2, folded=True))
    data["model"]["name"] = HOSTILE[0]
    data["verdict"] = HOSTILE[1]
    data["steps"][0]["reason"] = HOSTILE[3]
    data["device"]["name"] = HOSTILE[2]
    return data


def test_needs_nothing_from_outside():
    page = Page(render_report(report(residual_network(2), residual_network(2, folded=True))))
    for tag, attributes in page.elements:
        assert tag not in ("iframe", "object", "embed", "base", "img"), tag
        assert "src" not in attributes
        assert not attributes.get("href", "data:").startswith(("http", "//"))
        assert not any(name.startswith("on") for name in attributes), attributes
    assert "@import" not in page.text("style") and "url(" not in page.text("style")


def test_policy_admits_its_own_scripts_only():
    text = render_report(report(residual_network(2), residual_network(2)))
    page = Page(text)
    policy = next(
        attributes["content"]
        for tag, attributes in page.elements
        if attributes.get("http-equiv") == "Content-Security-Policy"
    )
    assert policy.startswith("default-src 'none';")
    assert "unsafe" not in policy
    for part in (page.text("script"), page.text("script", "layout-code"), page.text("style")):
        digest = base64.b64encode(hashlib.sha256(part.encode()).digest()).decode()
        assert f"'sha256-{digest}'" in policy


def test_data_arrives_unchanged():
    data = report(residual_network(2), residual_network(2, folded=True))
    assert json.loads(Page(render_report(data)).text("script", "data")) == data


def test_hostile_names_stay_names():
    data = hostile_report()
    page = Page(render_report(data))
    assert json.loads(page.text("script", "data")) == data
    assert [tag for tag, _ in page.elements].count("script") == 3
    assert "img" not in {tag for tag, _ in page.elements}
    assert html.unescape(page.text("title")) == f"{HOSTILE[0]} · tensolog"


@given(st.recursive(st.text() | st.floats() | st.none(), st.lists))
def test_embedded_json_is_inert_and_exact(value):
    text = embedded_json(value)
    assert not re.search(r"[<>&\u2028\u2029]", text)

    def nulled(item):
        if isinstance(item, list):
            return [nulled(part) for part in item]
        finite = not isinstance(item, float) or abs(item) < float("inf")
        return item if finite else None

    assert json.loads(text) == nulled(value)


def test_least_report():
    data = {
        "tensolog": "0.1.0",
        "chosen": "original",
        "verdict": "kept",
        "nodes_before": 1,
        "nodes_after": 1,
    }
    assert json.loads(Page(render_report(data)).text("script", "data")) == data


def test_carries_the_licence_of_the_layout_library():
    page = render_report(report(residual_network(1), residual_network(1)))
    assert "Copyright (c) 2012-2014 Chris Pettitt" in page


ALL_DRAWN = """
    document.body.dataset.state === "ready" && views.before
    && [...document.querySelectorAll(".frame")].every(frame => frame.classList.contains("ready"))
"""


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    if CHROMIUM is None:
        pytest.skip("needs Chromium")
    with Browser(tmp_path_factory.mktemp("browser")) as opened:
        yield opened


def draw(browser, tmp_path, data):
    path = tmp_path / "report.html"
    path.write_text(render_report(data), encoding="utf-8")
    browser.problems.clear()
    browser.call("Page.navigate", url=path.as_uri())
    browser.wait_for("typeof views !== 'undefined'")
    browser.wait_for(ALL_DRAWN)


@pytest.mark.parametrize(
    "make",
    [
        pytest.param(hostile_report, id="hostile names"),
        pytest.param(lambda: report(transformer(50), transformer(40)), id="1,750 nodes"),
        pytest.param(
            lambda: report(residual_network(), residual_network(), chosen="original"), id="kept"
        ),
    ],
)
def test_draws_itself_in_a_browser(make, browser, tmp_path):
    data = make()
    draw(browser, tmp_path, data)
    assert browser.problems == []
    graphs = 1 if data["chosen"] == "original" else 2
    assert browser.evaluate("document.querySelectorAll('.frame.ready').length") == graphs
    assert browser.evaluate("document.title").endswith("tensolog")
    assert browser.evaluate("[...document.querySelectorAll('section')].map(s => s.id)") == [
        "graph",
        "operators",
        "steps",
        "candidates",
        "deviations",
        "misses",
        "machine",
    ]


@pytest.mark.parametrize(("rounds", "shown"), [(4, False), (5, True)])
def test_few_rounds_give_no_interval(rounds, shown, browser, tmp_path):
    data = report(residual_network(), residual_network(folded=True))
    for row in data["candidates"]:
        row["samples"] = rounds
    draw(browser, tmp_path, data)
    assert browser.problems == []
    bars = browser.evaluate("document.querySelectorAll('#candidates .range').length")
    assert bars == (len(data["candidates"]) if shown else 0)
    tiles = browser.evaluate("[...document.querySelectorAll('.note')].map(n => n.innerText).join()")
    assert f"{rounds} rounds" in tiles
    assert ("95 % interval" in tiles) == shown


def test_near_misses_name_their_rule_once(browser, tmp_path):
    data = report(residual_network(), residual_network(folded=True))
    (miss,) = data["near_misses"]
    miss["detail"] = f"{miss['rule']}: W2 is computed"
    draw(browser, tmp_path, data)
    text = browser.evaluate("document.querySelector('#misses').textContent")
    assert text.count(miss["rule"]) == 1 and "W2 is computed" in text


def test_no_boxes_overlap_and_edges_run_down(browser, tmp_path):
    draw(browser, tmp_path, report(residual_network(), residual_network(folded=True)))
    boxes = browser.evaluate("views.before.boxes.map(({x, y, w, h}) => ({x, y, w, h}))")
    for index, a in enumerate(boxes):
        for b in boxes[index + 1 :]:
            apart_x = abs(a["x"] - b["x"]) >= (a["w"] + b["w"]) / 2
            apart_y = abs(a["y"] - b["y"]) >= (a["h"] + b["h"]) / 2
            assert apart_x or apart_y
    for start, end in browser.evaluate("views.before.edges.map(({from, to}) => [from, to])"):
        assert boxes[start]["y"] < boxes[end]["y"]


def test_a_click_shows_the_node_and_search_finds_it(browser, tmp_path):
    before = residual_network()
    draw(browser, tmp_path, report(before, residual_network(folded=True)))
    wanted = next(node for node in before["nodes"] if node["rule"])
    browser.evaluate(
        f"views.before.select(views.before.indexOf({json.dumps(wanted['name'])}), {{reveal: true}})"
    )
    place = browser.evaluate("""(() => {
        const frame = views.before.canvas.getBoundingClientRect();
        const {view, boxes, selected} = views.before;
        const box = boxes[selected];
        views.before.select(-1);
        return {x: frame.left + view.x + box.x * view.scale, y: 0};
    })()""")
    assert browser.evaluate("document.querySelector('.detail').hidden")
    browser.evaluate("views.before.canvas.scrollIntoView({behavior: 'instant'})")
    place["y"] = browser.evaluate(
        "views.before.canvas.getBoundingClientRect().top + views.before.height / 2"
    )
    for kind in ("mousePressed", "mouseReleased"):
        browser.call("Input.dispatchMouseEvent", type=kind, button="left", clickCount=1, **place)
    detail = browser.evaluate("document.querySelector('.detail').innerText")
    for part in (wanted["op"], wanted["name"], wanted["rule"], wanted["inputs"][0]):
        assert part in detail
    browser.evaluate("""(() => {
        const input = document.querySelector('input[type=search]');
        input.value = 'maxpool';
        input.oninput();
    })()""")
    assert browser.evaluate("[...views.before.found].map(i => views.before.boxes[i].node.op)") == [
        "MaxPool"
    ]
    assert browser.problems == []


def test_a_long_chain_is_cut_into_pieces(browser, tmp_path):
    sketch = transformer(150)
    assert len(sketch["nodes"]) > 5000
    draw(browser, tmp_path, report(sketch, sketch, chosen="original"))
    assert browser.evaluate("views.before.boxes.every(box => Number.isFinite(box.x + box.y))")
    # Blocks stand below one another, and only the mask's edges are too long for the layout.
    assert browser.evaluate("views.before.size.width") < 1500
    far = browser.evaluate("views.before.edges.filter(edge => edge.far).map(edge => edge.value)")
    assert set(far) == {sketch["nodes"][0]["outputs"][0]}
    assert browser.problems == []


def test_what_can_not_be_cut_gets_plain_layers(browser, tmp_path):
    """A ladder: every layer feeds the next and the one after it."""
    rungs = Sketch()
    a, b = rungs.add("Relu", "x"), rungs.add("Relu", "x")
    for _ in range(900):
        a, b = rungs.add("Add", a, b), rungs.add("Mul", a, b)
    graph = rungs.graph(["x"], [a, b])
    draw(browser, tmp_path, report(graph, graph, chosen="original"))
    boxes = browser.evaluate("views.before.boxes.map(({x, y}) => [x, y])")
    assert len({tuple(box) for box in boxes}) == len(boxes)
    assert browser.problems == []

"""Notebooks show results as HTML that is well formed, names in it as text and nothing else."""

import json
import re
from html.parser import HTMLParser

import numpy as np
import onnx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import helper
from tensolog.optimizer import explain_model, explain_node
from tensolog.optimizer.report.notebook import SHOWN_LETTERS, Text, page, table

import tensolog

from .browser import CHROMIUM, Browser
from .commandline import model_proto

KNOWN = {"div", "b", "table", "tr", "th", "td", "details", "summary", "pre"}
HOSTILE = "<script>alert(1)</script>\"'><img src=x onerror=alert(2)>&lt;b&gt;"


class Shown(HTMLParser):
    """Texts of a fragment; anything but known tags and fixed attributes is an error."""

    def __init__(self, fragment):
        super().__init__()
        self.texts, self.open = [], []
        self.feed(fragment)
        self.close()
        assert not self.open

    def handle_starttag(self, tag, attrs):
        assert tag in KNOWN
        for name, value in attrs:
            assert name in ("style", "open")
            assert value is None or re.fullmatch(r"[\w:;.,%() -]*", value)
        self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.texts.append(data)

    def handle_decl(self, decl):
        raise AssertionError(decl)

    handle_comment = handle_pi = unknown_decl = handle_decl


@given(st.text(alphabet=st.sampled_from("<>&\"'/!-abc \n\\;#"), max_size=60))
def test_any_text_stays_text(text):
    lines = [line for block in text.split("\n\n") if block.strip() for line in block.split("\n")]
    shown = "".join(Shown(Text(text)._repr_html_()).texts)
    assert shown.replace("\n", "") == "".join(lines).replace("\n", "")
    assert "".join(Shown(page(table([text], [[text]]))).texts) == text * 2


def test_long_lines_are_cut_and_long_paragraphs_folded():
    fragment = Text("Title\n" + "x" * 100_000)._repr_html_()
    assert len(fragment) < 2 * SHOWN_LETTERS + 1000
    assert "<details open>" in fragment
    assert "<details>" in Text("Title\n" + "line\n" * 50)._repr_html_()


def hostile_model():
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["p"], name=HOSTILE + "matmul"),
        helper.make_node("Identity", ["p"], [HOSTILE], name=HOSTILE),
        helper.make_node("Add", [HOSTILE, "b"], ["s"], name=HOSTILE + "add"),
        helper.make_node("Relu", ["s"], ["r"], name=HOSTILE + "relu"),
        helper.make_node("Relu", ["r"], ["y"], name=HOSTILE + "again"),
    ]
    return model_proto(nodes)


def test_names_in_a_model_are_shown_as_they_are():
    model = hostile_model()
    explanation = explain_model(model)
    assert HOSTILE in "".join(Shown(explanation._repr_html_()).texts)
    with tensolog.Catalog(":memory:") as catalog:
        story = explain_node(model, HOSTILE + "matmul", catalog=catalog)
    assert HOSTILE in "".join(Shown(story._repr_html_()).texts)
    result = tensolog.optimize(model, budget=0.2, catalog=":memory:")
    shown = "".join(Shown(result._repr_html_()).texts)
    assert HOSTILE in shown and result.verdict in shown
    for candidate in result.measurements:
        assert candidate.candidate in shown
    assert HOSTILE in "".join(Shown(result.explain()._repr_html_()).texts)


@tensolog.fuse
def step(data, y, w):
    error = data @ w - y
    return w - data.T @ error, error @ error


def test_fused_functions_show_their_plans():
    step(np.ones((2000, 20)), np.ones(2000), np.ones(20))
    text = step.explain()
    assert isinstance(text, str)
    shown = "".join(Shown(text._repr_html_()).texts)
    assert shown.replace("\n", "") == str(text).replace("\n", "")
    for plan in step.plans:
        assert plan.summary() in Shown(plan._repr_html_()).texts


@pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium")
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_page_shows_it_readably(scheme, tmp_path):
    """Text contrasts with the page in both schemes, and no name runs or loads anything."""
    fragment = explain_model(hostile_model())._repr_html_() + page(table([HOSTILE], [[HOSTILE]]))
    page_path = tmp_path / "page.html"
    colours = "#111;color:#eee" if scheme == "dark" else "#fff;color:#111"
    page_path.write_text(
        f"<!doctype html><meta charset=utf-8><body style='background:{colours}'>{fragment}",
        encoding="utf-8",
    )
    with Browser(tmp_path) as browser:
        browser.call("Page.navigate", url=page_path.as_uri())
        browser.wait_for("document.readyState == 'complete'")
        assert browser.problems == []
        assert browser.evaluate("document.querySelectorAll('script, img').length") == 0
        colours = json.loads(
            browser.evaluate(
                "JSON.stringify([...document.querySelectorAll('pre, td, th, summary, div')].map("
                "e => [getComputedStyle(e).color, getComputedStyle(e).backgroundColor]))"
            )
        )
    expected = "rgb(238, 238, 238)" if scheme == "dark" else "rgb(17, 17, 17)"
    assert {colour for colour, _ in colours} == {expected}
    assert {back for _, back in colours} == {"rgba(0, 0, 0, 0)"}


def test_the_model_is_hostile_indeed():
    assert any("<script>" in node.name for node in hostile_model().graph.node)
    onnx.checker.check_model(hostile_model())

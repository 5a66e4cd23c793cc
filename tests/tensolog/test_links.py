"""Links between the pages lead somewhere: in the repository, and on the package's page."""

import importlib.util
import itertools
import re
from pathlib import Path

import pytest
from markdown_it import MarkdownIt

ROOT = Path(__file__).parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), ROOT / "benchmarks" / "README.md"])
AWAY = re.compile(r"[a-z][a-z+.-]*:")


def inline(text):
    """Each inline token of a page, with the block that it is of."""
    tokens = MarkdownIt("commonmark").enable("table").parse(text)
    return [
        (before.type, token)
        for before, token in itertools.pairwise(tokens)
        if token.type == "inline"
    ]


def links(text):
    for _, token in inline(text):
        for part in token.children:
            if part.type in ("link_open", "image"):
                yield part.attrs["href" if part.type == "link_open" else "src"]


def anchors(text):
    """What a link to a heading says behind `#`, as GitHub makes it, and the site too."""
    taken = set()
    for block, token in inline(text):
        if block == "heading_open":
            words = "".join(part.content for part in token.children)
            plain = anchor = re.sub(r"[^\w\- ]", "", words.lower()).replace(" ", "-")
            number = 0
            while anchor in taken:
                number += 1
                anchor = f"{plain}-{number}"
            taken.add(anchor)
    return taken


def broken(page):
    """The links of a page that lead nowhere, those to other places aside."""
    text = page.read_text(encoding="utf-8")
    for target in links(text):
        if AWAY.match(target):
            continue
        name, _, anchor = target.partition("#")
        path = page.parent / name if name else page
        if not path.exists():
            yield target
        elif anchor:
            known = anchors(path.read_text(encoding="utf-8")) if path.suffix == ".md" else ()
            if anchor not in known:
                yield target


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_links_lead_somewhere(page):
    assert list(broken(page)) == []


def test_every_page_is_reached_from_the_readme():
    reached, waiting = set(), [ROOT / "README.md"]
    while waiting:
        page = waiting.pop().resolve()
        if page in reached:
            continue
        reached.add(page)
        for target in links(page.read_text(encoding="utf-8")):
            name = target.partition("#")[0]
            if name.endswith(".md") and not AWAY.match(target):
                waiting.append(page.parent / name)
    assert {page.resolve() for page in PAGES} <= reached


def test_every_page_has_its_place_in_the_site():
    contents = (ROOT / "docs" / "conf.py").read_text(encoding="utf-8").splitlines()
    for page in PAGES:
        name = page.relative_to(ROOT).with_suffix("").as_posix()
        assert name in contents or name == "README", f"add {name} to CONTENTS of docs/conf.py"


PAGE = """# Title of `code`, and more

## Twice
## Twice

[a](other.md) [b](#title-of-code-and-more) [c](#twice-1) [d](other.md#there) [e](https://a.b/c)
[by name][name] `[no link](nowhere.md)`

| [in a table](nowhere-1.md) |
|---|

```md
[no link](nowhere.md)
# Not a heading
```

[f](#not-a-heading) [g](nowhere-2.md) ![h](nowhere-3.png) [i](other.md#not-there) [j](#twice-2)

[name]: nowhere-4.md
"""


def test_what_leads_nowhere_is_seen(tmp_path):
    page = tmp_path / "page.md"
    page.write_text(PAGE, encoding="utf-8")
    (tmp_path / "other.md").write_text("# There\n", encoding="utf-8")
    nowhere = {f"nowhere-{number}.{'png' if number == 3 else 'md'}" for number in (1, 2, 3, 4)}
    assert set(broken(page)) == nowhere | {"#not-a-heading", "other.md#not-there", "#twice-2"}


@pytest.fixture(scope="module")
def package():
    """setup.py, without running it."""
    spec = importlib.util.spec_from_file_location("package", ROOT / "setup.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("source", [None, "https://code.example/tensolog/"])
def test_no_link_of_the_package_page_needs_the_repository(source, package):
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    shown = package.shown_elsewhere(readme, source)
    assert all(AWAY.match(target) for target in links(shown))
    count = len(list(links(readme)))
    assert count > 10
    assert len(list(links(shown))) == (count if source else 0)
    if source:
        assert "](https://code.example/tensolog/blob/main/docs/guide.md)" in shown


def test_only_links_change_on_the_package_page(package):
    text = "[a](b.md) `[c](d.md)` [e](https://f) [g](#h) [`k` l](m.md)\n```py\nx[i](j)\n```\n"
    shown = text.replace("[a](b.md)", "a").replace("[`k` l](m.md)", "`k` l")
    assert package.shown_elsewhere(text, None) == shown

"""Every page is in the navigation of the site, and llms.txt lists them. `make docs` itself finds broken links."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

import pytest

from support.cases import for_each

ROOT = Path(__file__).parents[3]
SITE = runpy.run_path(str(ROOT / "docs" / "build_site.py"))
PLACES = SITE["navigation"]()


def test_every_page_is_in_the_navigation() -> None:
    """Every page under docs/ and spec/ is in the navigation of mkdocs.yml, once, and so are README and its like.

    Two pages are generated; STATUS.md is for contributors.
    """
    pages = [
        path.relative_to(ROOT).as_posix()
        for path in (*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "spec").rglob("*.md"))
    ]
    pages = [*({*pages} - {"docs/STATUS.md"}), *SITE["GENERATED"]]
    assert sorted(place.path for place in PLACES) == sorted(pages), "add the page to `nav` in mkdocs.yml"


def test_every_page_is_two_clicks_away() -> None:
    """A page is below a kind, or below a group of a kind: the kind is one click, the page another."""
    assert [place for place in PLACES if not 1 <= len(place.headings) <= 2] == []


def test_llms_txt_is_current() -> None:
    """llms.txt names the pages of the navigation, with the first sentence of each."""
    assert SITE["llms"]() == (ROOT / "llms.txt").read_text("utf-8"), "run python docs/build_site.py"


@for_each("place", PLACES, ids=lambda place: place.path)
def test_a_page_shows_nothing_that_is_for_its_tests(place: tuple[str, tuple[str, ...]]) -> None:
    """No comment is left outside of blocks of code, and the blocks are as they were."""
    text = SITE["text_of"](place[0])
    shown = SITE["shown"](text)
    fenced = re.compile(r"^( *)```.*?^ *```", re.DOTALL | re.MULTILINE)
    assert "<!--" not in fenced.sub("", shown)
    assert [m[0] for m in fenced.finditer(shown)] == [m[0] for m in fenced.finditer(text)]


@pytest.mark.parametrize(
    ("page", "sentence"),
    [
        ("# A\n\nIt runs. It ends.\n", "It runs."),
        ("# A\n\nStatus: accepted\n\n## Context\n\nA [call](b.md) in `a.b` ends:\n\n- x\n", "A call in `a.b` ends"),
        ("# A\n\n<!-- needs: x -->\n```console\n$ x\n```\n\n![a](b.svg)\n\n| a |\n|---|\n\nAt last\nit is.", "At last it is."),
        ("# A\n\n- a list\n", ""),
    ],
)  # fmt: skip
def test_the_first_sentence_of_a_page(page: str, sentence: str) -> None:
    """Comments, code, pictures, tables, lists, headings and the status of a decision are no sentence."""
    assert SITE["first_sentence"](page) == sentence


def test_a_link_to_a_page_that_the_site_lacks_is_text() -> None:
    """A link to a Markdown file outside of the site becomes its text; links to pages, files and sites stay."""
    page = "[a](STATUS.md) [b](README.md#x) [c](assets/site.css) [d](https://example.com/x.md)"
    assert SITE["without_links_off_site"](page, "docs/x.md", {"docs/README.md"}) == page.replace("[a](STATUS.md)", "a")

"""What an agent, a server or a file name says is text on the page: nothing of it runs, loads, hides, or fills the page."""

from __future__ import annotations

import json
from html.parser import HTMLParser

import pytest

from adjourn.log.event import Actor
from adjourn.tasks.approvals import answer
from support.cases import for_each
from support.page_in_memory import PageInMemory
from support.task_sessions import SECRET, SharedTask
from support.waiting import asked, called, in_doubt, noted, opened

SCRIPT = "<script>alert(1)</script>"
ATTACKS = (
    SCRIPT,
    '"><img src=x onerror=alert(1)>',
    "'><svg/onload=alert(1)>",
    "</textarea></title></style><script src=//evil.example/x></script>",
    "javascript:alert(1)",
    '" hx-get="//evil.example" hx-trigger="load" autofocus onfocus="alert(1)',
    "{{ 7 * 7 }}{% include 'layout.html' %}",
    "<base href=//evil.example><meta http-equiv=refresh content='0;url=//evil.example'>",
    "<form action=//evil.example><button name=action value=approve>Approve",
    "\u202egnp.exe\u202c\u200b\x1b[31m\x00",
)  # fmt: skip
ELEMENTS = {
    "a", "article", "body", "button", "circle", "code", "dd", "dialog", "div", "dl", "dt", "fieldset", "footer", "form", "h1", "h2",
    "head", "header", "html", "img", "input", "kbd", "label", "legend", "li", "link", "main", "meta", "nav", "noscript", "ol", "option", "p", "path",
    "pre", "script", "select", "span", "strong", "svg", "table", "tbody", "td", "time", "title", "tr", "ul",
}  # fmt: skip
MEBIBYTE = 1 << 20


class _Elements(HTMLParser):
    """Every element of a page, with its attributes."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))


@pytest.fixture(autouse=True)
def _keys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("adjourn.host.keys.secret", lambda: SECRET)
    monkeypatch.setattr("adjourn.host.keys.reading_secret", lambda: SECRET)


def filled(attack: str) -> PageInMemory:
    """An inbox in which an agent wrote the same text wherever it can."""
    shared = SharedTask()
    task = opened(shared, goal=attack)
    called(task, "c1", attack, json.dumps({"path": attack}), attack, server=attack)
    edit = {
        attack: attack,
        "path": attack,
        "old_string": attack,
        "new_string": f"{attack}\n{attack}",
        "deep": {attack: [attack]},
    }
    asked(task, "k1", attack, arguments=json.dumps(edit), cause=attack, server=attack)
    asked(task, "k2", "write", arguments=f"{attack}…", cause="x", who=attack, params=attack)
    in_doubt(task, "c9", attack, json.dumps({attack: attack}))
    asked(task, "k3", "late", arguments="[]")
    answer(task, "k3", yes=False, via="elicitation:decline", by=Actor("client", "system"))
    noted(shared, attack)
    root = f"/srv/{attack}".replace("\0", "")  # no folder has one
    return PageInMemory(shared.store, shared.clock, root=root).enter()


@for_each("attack", ATTACKS)
def test_text_of_an_agent_is_shown_and_never_live(attack: str) -> None:
    """Markup in tool, server, arguments, rule, goal, question, options, steps, decision and folder makes no element and no attribute."""
    page = filled(attack).get()
    elements = _Elements(page).found
    plain = _Elements(filled("plain").get()).found
    assert {tag for tag, _ in elements} <= ELEMENTS
    assert len([tag for tag, _ in elements if tag == "article"]) == 8
    assert [tag for tag, _ in elements if tag in ("script", "img", "link", "meta", "form", "button")] == [
        tag for tag, _ in plain if tag in ("script", "img", "link", "meta", "form", "button")
    ]
    for tag, attributes in elements:
        assert not any(name.startswith("on") or name == "style" for name in attributes), (tag, attributes)
        for name in ("src", "href", "action", "hx-get", "hx-post"):
            assert (attributes.get(name) or "/").startswith(("/", "#")), (tag, attributes)
            assert not (attributes.get(name) or "").startswith("//"), (tag, attributes)
    assert not any(mark in page for mark in "\u202e\u200b\x1b\x00")


def test_hidden_characters_are_made_visible() -> None:
    """A name that reads backwards or hides characters is shown with escapes."""
    assert "\\u202egnp.exe" in filled("\u202egnp.exe").get()


def test_secrets_of_an_agents_text_are_not_shown() -> None:
    """A known kind of secret in a question or a decision is replaced on the page."""
    secret = "ghp_" + "a1B2" * 9
    assert secret not in filled(f"use {secret} here").get()


def test_ten_megabytes_are_cut_and_do_not_stop_the_page() -> None:
    """A huge document of arguments that somebody put into the store, and the longest that an event holds, are bounded on the page."""
    shared = SharedTask()
    task = opened(shared)
    huge = json.dumps({"text": SCRIPT * (10 * MEBIBYTE // len(SCRIPT))})
    asked(task, "k1", arguments="{…", document=shared.store.put_blob(huge.encode()))
    asked(task, "k2", arguments=huge[:50_000])
    page = PageInMemory(shared.store, shared.clock).enter().get()
    assert SCRIPT not in page
    assert "deploy" in page
    assert len(page) < MEBIBYTE


@for_each(
    "arguments",
    ["", "null", "[1]", "7", '"text"', "{", '{"a":', "[" * 5000, '{"a":1,"a":2}', "…", '{"n":' + "9" * 400 + "}"],
)
def test_arguments_of_any_form_are_shown(arguments: str) -> None:
    """What is no object, or no JSON, is shown as it is."""
    shared = SharedTask()
    asked(opened(shared), arguments=arguments)
    assert "deploy" in PageInMemory(shared.store, shared.clock).enter().get()

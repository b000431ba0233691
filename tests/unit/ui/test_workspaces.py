"""The other workspaces of an account on the page of one: those that were used, who works there, and how much waits."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import closing
from html import unescape
from pathlib import Path
from typing import NamedTuple

import anyio
import pytest

from adjourn.host.clock import now
from adjourn.host.pin import AccountPin
from adjourn.host.workspace_store import known_workspaces, open_at, remember
from adjourn.log import kinds
from adjourn.log.event import Actor, decode
from adjourn.tasks.task import NewEvent, Task
from adjourn.ui.app import Live
from adjourn.ui.server import OtherWorkspaces
from support.clock import Clock
from support.page_in_memory import ANN, PageInMemory
from support.task_sessions import SECRET
from support.waiting import asked

AGENT = Actor("agent", "agent")
PIN = "tulip-42"
POLICY = 'policy p v0\n\ngoal "Ship it."\n\nuse *\nconfirm before deploy\n'


@pytest.fixture(autouse=True)
def _account(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("ADJOURN_CONFIG", str(tmp_path / "config"))
    monkeypatch.delenv("ADJOURN_STORE", raising=False)
    monkeypatch.setattr("adjourn.host.keys.secret", lambda: SECRET)
    monkeypatch.setattr("adjourn.host.keys.reading_secret", lambda: SECRET)


def workspace(folder: Path, goal: str) -> Path:
    """A workspace with a policy and a task in which an approval waits."""
    folder.mkdir()
    store = open_at(str(folder))
    (folder / ".aex" / "policy.aex").write_text(POLICY, encoding="utf-8")
    task = Task(store, "t9", clock=now, secret=SECRET)
    task.commit([NewEvent(kinds.TaskOpened(goal=goal), AGENT)])
    asked(task)
    store.close()
    remember(str(folder))
    return folder


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    """The page of the workspace `own`, beside which there are `other` and one that is gone."""
    other, gone = workspace(tmp_path / "other", "Ship <b>"), workspace(tmp_path / "gone", "x")
    own = workspace(tmp_path / "own", "mine")
    (gone / ".aex" / "adjourn.db").unlink()
    assert sorted(known_workspaces()) == [str(other), str(own)]
    with closing(OtherWorkspaces(str(own), ANN, now)) as others, closing(open_at(str(own))) as store:
        page = PageInMemory(store, Clock(now()), str(own), undo=60, others=others).enter()
        others.own = page.site
        (site,) = others()
        yield Served(page, others, site.base, own, other)


class Served(NamedTuple):
    """A page in memory, the other workspaces that it has, the addresses of `other` in it, and the folders."""

    page: PageInMemory
    others: OtherWorkspaces
    base: str
    own: Path
    other: Path


def answers(folder: Path) -> list[str]:
    """The answers in the history of a workspace."""
    with closing(open_at(str(folder))) as store:
        events = [decode(entry.data).event for entry in store.read("t9")]
    return [event for event in events if event in ("confirm.approved", "confirm.denied")]


def test_all_workspaces_are_at_home_on_one_page(served: Served) -> None:
    """By their folders, with what waits in each and a link to it; none whose store is gone."""
    shown = served.page.get("/now")
    section = shown[shown.index("Your workspaces") :]
    assert (section.count("<li"), section.count("1 waiting")) == (2, 2)
    for base, folder in (("", served.own), (served.base, served.other)):
        assert f'href="{base}/tasks"' in section
        assert str(folder) in section
    assert "gone" not in section
    assert "Nobody is at work" in shown


def test_another_workspace_is_opened_in_the_same_page(served: Served) -> None:
    """All its pages are below an address of its own, and none of their links leads out of it but those to other workspaces."""
    listed = served.page.get(f"{served.base}/tasks")
    assert "Ship &lt;b&gt;" in listed
    assert "mine" not in re.sub("<span[^>]*>", "", listed)
    for path in ("/", "/tasks", "/task?id=t9", "/checkpoint", "/record", "/policy", "/handover?id=t9"):
        shown = served.page.get(f"{served.base}{path}")
        links = re.findall(r'(?:href|action|hx-post|formaction)="(/[^"]*)"', shown)
        assert [link for link in links if not link.startswith((f"{served.base}/", "/static/"))] == [], path
    back = served.page.get(f"{served.base}/now")
    assert 'href="/tasks"' in back


def test_an_answer_reaches_the_workspace_that_asked(served: Served) -> None:
    """It can be undone there, and is recorded in that workspace's history alone."""
    page, base = served.page, served.base
    fields = {**page.form(path=f"{base}/"), "action": "approve"}
    said = page.answer(fields, f"{base}/answer")
    assert said == "Approve deploy: recorded in 10 s, unless you undo it."
    assert "<article" not in page.get(f"{base}/")
    assert "<article" in page.get("/")
    (held,) = re.findall(r'name="held" value="([^"]*)"', page.get(f"{base}/"))[:1]
    assert (answers(served.own), answers(served.other)) == ([], [])
    page.answer({"csrf": page.access.form_token, "held": unescape(held)}, f"{base}/record-now")
    assert (answers(served.own), answers(served.other)) == ([], ["confirm.approved"])


def test_a_rule_is_written_into_the_policy_of_the_workspace_that_asked(served: Served) -> None:
    """*Always allow* changes the policy whose rule asked, and no other."""
    page, base = served.page, served.base
    (link,) = re.findall(r'href="([^"]*/always[^"]*)"', page.get(f"{base}/"))
    form = re.findall(r'<input type="hidden" name="(\w+)" value="([^"]*)">', page.get(unescape(link)))
    said = page.answer({name: unescape(value) for name, value in form}, f"{base}/always/write")
    policies = [(folder / ".aex" / "policy.aex").read_text(encoding="utf-8") for folder in (served.own, served.other)]
    assert said.startswith("Written")
    assert ["\nconfirm before" in text for text in policies] == [True, False]


def test_an_answer_in_another_workspace_asks_for_the_pin(
    served: Served, unattended: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The form that asks leads back to that workspace, and its store notes the PIN that was given."""
    AccountPin(str(unattended.parent)).set(PIN, expect=None, cost=1 << 4)
    page, base = served.page, served.base
    fields = {**page.form(path=f"{base}/"), "action": "deny"}
    asking = page.request("POST", f"{base}/answer", data=fields)
    assert f'action="{base}/answer"' in asking.text
    sent = page.request("POST", f"{base}/answer", data={**fields, "pin": PIN})
    assert sent.headers["location"].startswith(f"{base}/?")
    (site,) = served.others()
    assert [answer.text for answer in site.held.held] == ["Deny deploy"]
    with closing(open_at(str(served.other))) as store, closing(open_at(str(served.own))) as own:
        assert (len(store.refs("pin/")), len(own.refs("pin/"))) == (1, 0)


@pytest.mark.parametrize("path", ["/at/0123456789abcdef/", "/at/", "/at/%2e%2e/tasks"])
def test_no_other_folder_is_opened(served: Served, path: str) -> None:
    """An address that no known workspace has is no page."""
    assert served.page.request("GET", path).status_code == 404


def test_open_pages_hear_of_other_workspaces(served: Served) -> None:
    """An event comes when something happens in another workspace, and the inbox says how much waits there."""

    async def scenario() -> None:
        live = Live(served.page.site)
        async with anyio.create_task_group() as group:
            group.start_soon(live.watch_others)
            events = live.events()
            with anyio.fail_after(20):
                await anext(events)
                await anext(events)  # the first look
                with closing(open_at(str(served.other))) as store:
                    asked(Task(store, "t9", clock=now, secret=SECRET), "k2")
                await anext(events)
            group.cancel_scope.cancel()

    anyio.run(scenario)
    assert re.search(f'href="{served.base}/">2 in <span class="mono">{served.other}', served.page.get("/"))


def test_a_folder_of_another_name_is_not_trusted(tmp_path: Path) -> None:
    """What lies in the register and is no path of a workspace is left out; a workspace is noted once."""
    register = tmp_path / "config" / "workspaces"
    register.mkdir(parents=True)
    for number, text in enumerate((b"relative", b"/nowhere/at/all", b"\xff\x00/x", b"/" * 10_000)):
        (register / str(number)).write_bytes(text)
    (register / "link").symlink_to(tmp_path / "missing")
    first = workspace(tmp_path / "first", "x")
    remember(str(first))
    assert known_workspaces() == [str(first)]
    assert len(list(register.iterdir())) == 6
    assert (
        register.stat().st_mode & 0o777,
        [f.stat().st_mode & 0o777 for f in register.iterdir() if len(f.name) == 32],
    ) == (0o755, [0o600])

"""Always allow: a proposed policy is shown as a diff, and only what was shown is written."""

from __future__ import annotations

import re
from html import unescape
from pathlib import Path

import pytest

from support.page_in_memory import PageInMemory
from support.task_sessions import SECRET, SharedTask
from support.waiting import asked, opened

POLICY = 'policy workspace v1\ngoal "x"\nallow *\nconfirm before deploy\nconfirm before release.*\n'
ADDRESS = "/always?task=t1&id=k1"


@pytest.fixture(autouse=True)
def _keys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("adjourn.host.keys.secret", lambda: SECRET)
    monkeypatch.setattr("adjourn.host.keys.reading_secret", lambda: SECRET)


@pytest.fixture
def policy(tmp_path: Path) -> Path:
    path = tmp_path / ".aex" / "policy.aex"
    path.parent.mkdir()
    path.write_text(POLICY)
    return path


@pytest.fixture
def page(policy: Path) -> PageInMemory:
    shared = SharedTask()
    task = opened(shared)
    asked(task, "k1", "deploy")
    asked(task, "k2", "release.tag")
    return PageInMemory(shared.store, shared.clock, root=str(policy.parents[1])).enter()


def form(page: str) -> dict[str, str]:
    return {name: unescape(value) for name, value in re.findall(r'type="hidden" name="(\w+)" value="([^"]*)"', page)}


def test_the_proposal_is_shown_and_written(page: PageInMemory, policy: Path) -> None:
    """The inbox leads to a diff of the policy, whose button writes it; the waiting call still waits."""
    assert ADDRESS in unescape(page.get())
    shown = page.get(ADDRESS)
    assert re.findall(r'<tr class="(added|removed)">.*?<td>(.*?)</td></tr>', shown) == [
        ("removed", "confirm before deploy"),
        ("added", "# Always allowed: confirm before deploy"),
    ]
    sent = page.request("POST", "/always/write", data=form(shown))
    assert sent.headers["location"].startswith("/?notice=")
    after = page.get(sent.headers["location"])
    assert "no longer asks before deploy" in after
    assert "2 things wait" in after
    assert "\n# Always allowed: confirm before deploy\n" in policy.read_text()


def test_a_policy_that_changed_meanwhile_is_not_written(page: PageInMemory, policy: Path) -> None:
    """What is written is what was seen, or nothing."""
    fields = form(page.get(ADDRESS))
    policy.write_text(POLICY + "deny rm\n")
    sent = page.request("POST", "/always/write", data=fields)
    assert sent.status_code == 409
    assert "was changed since you saw the proposal" in sent.text
    assert policy.read_text() == POLICY + "deny rm\n"


def test_where_there_is_no_proposal_the_page_says_why(page: PageInMemory, policy: Path) -> None:
    """A wider rule, a missing policy and a question that is gone each have a reason, and no button."""
    assert "asks about other tools, too" in page.get("/always?task=t1&id=k2")
    policy.unlink()
    assert "The workspace has no policy" in page.get(ADDRESS)
    assert page.request("GET", "/always?task=t1&id=zz").status_code == 404
    assert page.request("GET", "/always?task=..&id=k1").status_code == 404


@pytest.mark.parametrize("left_out", ["csrf", "seen"])
def test_a_made_up_form_writes_nothing(page: PageInMemory, policy: Path, left_out: str) -> None:
    """Without the page's token, or without having seen the proposal, the policy stays."""
    fields = form(page.get(ADDRESS))
    del fields[left_out]
    assert page.request("POST", "/always/write", data=fields).status_code in (403, 409)
    assert policy.read_text() == POLICY

"""The pages of checkpoints: read, corrected, verified test by test, and gone back to."""

from __future__ import annotations

import os
import re
from html import unescape
from pathlib import Path

import pytest

from adjourn.checkpoints.page import AgentReport
from support.page import notice_of
from support.page_in_memory import PageInMemory
from support.pages import mark, page
from support.rollbacks import deployed, make_workspace
from support.workspace import Workspace

ACTIVE = "tmp/checkpoint-active.md"
HOSTILE = '</textarea><script>alert(1)</script>"&'


@pytest.fixture
def workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Workspace:
    return make_workspace(tmp_path, monkeypatch)


def opened(workspace: Workspace) -> PageInMemory:
    return PageInMemory(workspace.store, workspace.clock, root=str(workspace.root)).enter()


def fields_of(text: str, action: str) -> dict[str, str]:
    """The hidden fields of the form with a button for an action."""
    form = next(one for one in re.findall(r"<form.*?</form>", text, re.DOTALL) if f"/checkpoint/{action}" in one)
    hidden = re.findall(r'<input type="hidden" name="(\w+)" value="([^"]*)">', form)
    return {name: unescape(value) for name, value in hidden}


def edited(text: str) -> str:
    """What the text field holds."""
    found = re.search(r"<textarea[^>]*>\n(.*?)</textarea>", text, re.DOTALL)
    assert found is not None
    return unescape(found[1])


def send(site: PageInMemory, action: str, fields: dict[str, str]) -> str:
    """Send a form, and follow it to the page that says the outcome."""
    sent = site.request("POST", f"/checkpoint/{action}", data=fields)
    return site.get(sent.headers["location"]) if sent.status_code == 303 else sent.text


def test_pages_are_listed_and_read(workspace: Workspace) -> None:
    """Without pages the list says how one comes about; then the newest is first, and is found by path, hash, task and event."""
    assert "No checkpoint yet" in opened(workspace).get("/checkpoint")
    made = mark(workspace, said=AgentReport(resumption_point="Write the tests", open_questions=("Which port?",)))
    event = made.checkpoint.event
    site = opened(workspace)
    listed = site.get("/checkpoint")
    assert f'href="/checkpoint?page={ACTIVE}"' in listed
    for address in (
        f"page={ACTIVE}", f"id={made.checkpoint.hash}", f"task={event.task}", f"task={event.task}&seq={event.seq}",
    ):  # fmt: skip
        shown = site.get(f"/checkpoint?{address}")
        for text in ("Write the tests", "Which port?", "with the trusted key", made.checkpoint.hash[:16], 'id="live"'):
            assert text in shown
    for address in ("page=.aex/policy.aex", "page=../x.md", "page=tmp/none.md", "id=" + "0" * 64, "task=t9"):
        assert site.request("GET", f"/checkpoint?{address}").status_code == 404


def test_a_page_is_corrected(workspace: Workspace) -> None:
    """The text in the form is the page's, byte for byte; what is saved is what the next session receives, and the page says it was edited."""
    mark(workspace, said=AgentReport(resumption_point="Write the tests"))
    site = opened(workspace)
    form = site.get(f"/checkpoint?page={ACTIVE}&edit=1")
    assert edited(form) == page(workspace)
    assert 'id="live"' not in form
    text = page(workspace).replace("Write the tests", f"Ship it {HOSTILE}")
    sent = fields_of(form, "save") | {"text": text.replace("\n", "\r\n")}
    shown = send(site, "save", sent)
    assert notice_of(shown) == "Saved. The next session receives this text."
    assert page(workspace) == text
    assert "edited" in shown
    assert "<script>alert" not in shown
    assert edited(site.get(f"/checkpoint?page={ACTIVE}&edit=1")) == text


def test_a_preview_writes_nothing(workspace: Workspace) -> None:
    """It shows what saving would change and how the text reads, and keeps what was typed."""
    mark(workspace, said=AgentReport(resumption_point="Write the tests"))
    site, before = opened(workspace), page(workspace)
    text = before.replace("Write the tests", "Ship it")
    sent = fields_of(site.get(f"/checkpoint?page={ACTIVE}&edit=1"), "save") | {"text": text}
    shown = send(site, "preview", sent)
    assert page(workspace) == before
    assert edited(shown) == text
    assert "<td>Ship it</td>" in shown
    assert '<p class="said">Ship it</p>' in shown


def test_a_text_that_is_no_page_is_not_saved(workspace: Workspace) -> None:
    """Every finding is shown with its line and its remedy, and the text is still in the form."""
    mark(workspace)
    site, before = opened(workspace), page(workspace)
    text = before.replace("## Mission", "## Missing")
    shown = send(site, "save", fields_of(site.get(f"/checkpoint?page={ACTIVE}&edit=1"), "save") | {"text": text})
    assert notice_of(shown) == "Not saved: the text cannot be read as a page."
    assert "AEX301" in shown
    assert edited(shown) == text
    assert page(workspace) == before


@pytest.mark.parametrize("action", ["save", "preview", "verify", "back"])
def test_a_form_that_names_no_page_is_refused(workspace: Workspace, action: str) -> None:
    """Without the page's name nothing is saved, verified or gone back to; the answer says what is missing."""
    mark(workspace)
    site = opened(workspace)
    sent = {"csrf": site.access.form_token, "text": "x"}
    answered = site.request("POST", f"/checkpoint/{action}", data=sent)
    assert answered.status_code == 404
    assert "The form names no checkpoint page" in answered.text


def test_a_page_that_was_written_meanwhile_is_not_replaced(workspace: Workspace) -> None:
    """The person sees the difference to the newer page, and may then save over it."""
    mark(workspace, said=AgentReport(resumption_point="Write the tests"))
    site = opened(workspace)
    form = site.get(f"/checkpoint?page={ACTIVE}&edit=1")
    text = page(workspace).replace("Write the tests", "Ship it")
    path = workspace.root / ACTIVE
    path.write_text(page(workspace).replace("Write the tests", "Wait"))
    shown = send(site, "save", fields_of(form, "save") | {"text": text})
    assert notice_of(shown).startswith("Not saved: tmp/checkpoint-active.md changed while you edited it.")
    assert "<td>Wait</td>" in shown
    assert "Wait" in page(workspace)
    send(site, "save", fields_of(shown, "save") | {"text": edited(shown)})
    assert page(workspace) == text


def test_a_broken_page_is_named_and_mended(workspace: Workspace) -> None:
    """The list and the page say what is wrong; the form has the text as it is."""
    mark(workspace)
    good = page(workspace)
    path = workspace.root / ACTIVE
    path.write_text(good.replace("## Mission", "## Missing"))
    site = opened(workspace)
    assert "cannot be read" in site.get("/checkpoint")
    assert "AEX301" in site.get(f"/checkpoint?page={ACTIVE}")
    form = site.get(f"/checkpoint?page={ACTIVE}&edit=1")
    assert "## Missing" in edited(form)
    assert "Saved." in notice_of(send(site, "save", fields_of(form, "save") | {"text": good}))
    assert page(workspace) == good


def test_a_page_behind_a_link_is_not_read(workspace: Workspace, tmp_path: Path) -> None:
    """A page that is a link out of the workspace is neither shown nor written."""
    mark(workspace)
    outside = tmp_path / "outside.md"
    outside.write_text(page(workspace))
    os.symlink(outside, workspace.root / "tmp" / "checkpoint-x.md")
    site = opened(workspace)
    assert site.request("GET", "/checkpoint?page=tmp/checkpoint-x.md").status_code in (404, 409)
    sent = fields_of(site.get(f"/checkpoint?page={ACTIVE}&edit=1"), "save")
    refused = site.request("POST", "/checkpoint/save", data={**sent, "page": "tmp/checkpoint-x.md", "text": "x"})
    assert refused.status_code in (404, 409)
    assert outside.read_text() == page(workspace)


def test_a_checkpoint_is_verified_test_by_test(workspace: Workspace) -> None:
    """A whole history passes each test; one whose event was changed fails that test, and says so first."""
    made = mark(workspace)
    site = opened(workspace)
    sent = fields_of(site.get(f"/checkpoint?page={ACTIVE}"), "verify")
    shown = send(site, "verify", sent)
    assert "✓ Valid" in shown
    assert shown.count("holds: ") == 7
    assert 'id="live"' not in shown
    entries = workspace.store._streams[made.checkpoint.event.task]  # type: ignore[attr-defined]
    entries[1] = entries[1]._replace(data=entries[1].data.replace(b'"task"', b'"Task"'))
    shown = send(site, "verify", sent)
    assert "✗ Broken" in shown
    assert "does not hold: </span>No event was changed" in shown


def test_going_back_is_shown_and_then_done(workspace: Workspace) -> None:
    """The preview names the files and the calls that stay; the button restores the files, and the page is active again."""
    deployed(workspace)
    site = opened(workspace)
    path = re.findall(r'href="/checkpoint\?page=([^"]*pre-[^"]*)"', site.get("/checkpoint"))[0]
    shown = site.get(f"/checkpoint?page={path}&back=1")
    assert '<td class="mono">a</td><td>restored</td>' in shown
    assert "deploy.run" in shown
    assert (workspace.root / "a").read_text() == "spoilt"
    sent = fields_of(shown, "back")
    (workspace.root / "b").write_text("new")
    assert site.request("POST", "/checkpoint/back", data=sent).status_code == 409
    assert (workspace.root / "a").read_text() == "spoilt"
    (workspace.root / "b").unlink()
    told = notice_of(send(site, "back", sent))
    assert re.fullmatch(
        r"Back at 2026\S+-before; 1 file restored. The files as they were before are in commit [0-9a-f]{12}.", told
    )
    assert (workspace.root / "a").read_text() == "good"
    assert "deploy" in page(workspace)


def test_a_checkpoint_without_its_store_is_shown(workspace: Workspace) -> None:
    """A page that was copied here is read and edited; verifying and going back are not offered."""
    mark(workspace)
    site = PageInMemory(None, workspace.clock, root=str(workspace.root)).enter()
    shown = site.get(f"/checkpoint?page={ACTIVE}")
    assert "does not have the checkpoint" in shown
    assert "<button>Verify" not in shown
    sent = {**fields_of(site.get(f"/checkpoint?page={ACTIVE}&edit=1"), "save")}
    assert site.request("POST", "/checkpoint/verify", data=sent).status_code == 404
    assert site.request("POST", "/checkpoint/back", data=sent).status_code == 404

"""What a target gets: texts in which nothing of an agent counts as markup, signatures, and the end of a command that hangs."""

from __future__ import annotations

import base64
import json
from pathlib import Path

import pytest

from adjourn.handover.inbox import WaitingItem
from adjourn.notify import senders as module
from adjourn.notify.senders import (
    CommandTarget,
    Notification,
    UndeliveredError,
    WebhookTarget,
    body,
    notification,
    sender_of,
    signature,
)
from support.proxy import wait_for
from support.receiver import receiving

HOSTILE = "`x` <!channel> @everyone [a](http://evil) & \x1b[2J\u202e token=ghp_" + "a1B2" * 9


def item(**members: str) -> WaitingItem:
    given = {"id": "k1", "kind": "approval", "title": HOSTILE, "context": HOSTILE, "goal": HOSTILE} | members
    return WaitingItem(task="t1", since="2026-11-23T10:00:00.000Z", commands=("adjourn approve k1",), **given)  # type: ignore[arg-type]


def outside_code(text: str) -> str:
    """What of a chat's text is not in code."""
    return "".join(text.split("`")[::2])


@pytest.mark.parametrize(("form", "member"), [("slack", "text"), ("discord", "content")])
def test_a_chat_takes_an_agents_words_as_code(form: str, member: str) -> None:
    """No mention, link, markup or secret of an agent counts in a chat; its backticks do not end the code."""
    sent = json.loads(body(notification(item(), "shop"), form))
    text = sent[member]
    assert "ghp_a1B2" not in text
    assert "\x1b" not in text
    assert "\u202e" not in text
    for mark in ("<", "@", "[", "evil"):
        assert mark not in outside_code(text)
    if form == "slack":
        assert "<" not in text
    else:
        assert sent["allowed_mentions"] == {"parse": []}


def test_details_are_sent_only_where_they_are_asked_for() -> None:
    """The arguments of a call go to a target with `details = true`, and to no other."""
    with receiving() as receiver:
        for details in (False, True):
            target = WebhookTarget(url=receiver.url, details=details)
            sender_of(target, "")(notification(item(context="to: prod"), "shop"), 0)
    without, with_details = (json.loads(one.body)["data"] for one in receiver.got)
    assert "details" not in without
    assert with_details["details"] == "to: prod"


def test_an_id_is_the_same_at_every_look() -> None:
    """What waits is named by kind, task, record and id; a decision also by the time it was contested."""
    same = notification(item(title="other"), "shop").id
    assert same == notification(item(), "shop").id
    assert same != notification(item(id="k2"), "shop").id
    decision = item(kind="decision")
    assert notification(decision, "").id != notification(item(kind="decision", id="d2"), "").id


def test_the_signature_is_that_of_standard_webhooks() -> None:
    """The example of the specification's libraries is signed as they do."""
    key = base64.b64decode("MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
    made = signature(key, "msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330, b'{"test": 2432232314}')
    assert made == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="


TOLD = Notification(id="a", kind="approval", title="deploy", task="t1", since="", workspace="shop")


@pytest.mark.parametrize("status", [301, 404, 500])
def test_what_is_not_confirmed_is_not_delivered(status: int) -> None:
    """Any answer but 2xx is a failure, and a redirection is not followed."""
    with receiving(status) as receiver, pytest.raises(UndeliveredError, match=str(status)):
        sender_of(WebhookTarget(url=receiver.url), "")(TOLD, 0)
    assert len(receiver.got) == 1


def test_a_command_that_hangs_ends_with_all_it_started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """After its time a command and its children are killed."""
    monkeypatch.setattr(module, "SECONDS", 0.5)
    written = tmp_path / "child"
    target = CommandTarget(run=["sh", "-c", f"sleep 60 & echo $! > {written}; wait"])
    with pytest.raises(UndeliveredError, match="did not end within"):
        sender_of(target, "")(TOLD, 0)
    child = Path("/proc", written.read_text().strip(), "cmdline")
    wait_for(lambda: not child.exists() or not child.read_bytes())


def test_a_program_that_is_not_there_is_named() -> None:
    """A command whose program is nowhere on PATH says so."""
    target = CommandTarget(run=["no-such-program-here"])
    with pytest.raises(UndeliveredError, match="there is no program"):
        sender_of(target, "")(TOLD, 0)


def test_a_program_of_the_workspace_is_not_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A program that lies in the workspace is not started, even where PATH leads there."""
    (tmp_path / "tell").write_text("#!/bin/sh\n")
    (tmp_path / "tell").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    with pytest.raises(UndeliveredError, match="there is no program"):
        sender_of(CommandTarget(run=["tell"]), str(tmp_path))(TOLD, 0)

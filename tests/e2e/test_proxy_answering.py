"""Who may answer a question, how long it waits, and what silence means."""

from __future__ import annotations

import getpass
from pathlib import Path

import pytest

from support.proxy import MODERN, NEW, ProxyWorkspace, adjourn, refused, wait_for
from support.requirements import requirement

ME = getpass.getuser()
ARGUMENTS = {"to": "prod"}


def workspace(path: Path, *rules: str) -> ProxyWorkspace:
    return ProxyWorkspace(path, "allow *", *rules, version="v1")


def asked(work: ProxyWorkspace) -> str:
    """The id of the question that is put now."""
    wait_for(lambda: work.tasks_exist() and work.facts("confirm.required"))
    approval: str = work.facts("confirm.required")[-1].approval
    return approval


# --- who


@requirement("V1 by")
@pytest.mark.parametrize("era", [NEW, MODERN])
def test_the_person_who_is_named_answers_from_a_terminal(tmp_path: Path, era: str) -> None:
    """A question to a named person is answered by that person at a terminal, not by the client's dialog."""
    with workspace(tmp_path, f"confirm before deploy by {ME}") as work:
        client = work.client(era=era, elicits=True)
        call = client.begin("deploy", ARGUMENTS)
        question = asked(work)
        assert client.silent()  # a client's answer would not tell who gave it
        done = adjourn(work, "approve", question)
        assert (done.code, done.out.split(":")[0]) == (0, "approved")
        assert not refused(client.answer(call))
        assert work.executed() == ["deploy"]

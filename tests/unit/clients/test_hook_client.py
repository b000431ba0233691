"""A hook of a client that continues a conversation works on the task of that conversation again."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from adjourn.clients.client_process import ClientOptions
from adjourn.clients.hook_client import HookClient
from adjourn.clients.task_choice import CLIENT
from adjourn.host.process import Process, ancestors, group_of
from adjourn.host.process import started as started_at
from adjourn.log import kinds
from adjourn.policy.contract import read_contract
from adjourn.tasks.decision import ToolRequest
from adjourn.tasks.task import NewEvent

READ = ToolRequest(tool="file.read", digest="0" * 64, effectful=False)
HERE = next(ancestors())
GONE, GONE_TOO = (Process(HERE.host, HERE.pid, began) for began in (1, 2))


@pytest.fixture
def started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., HookClient]:
    """Makes the hook of a client with proxies, or one that `is_first`: before any proxy of its client has started."""
    monkeypatch.setenv("ADJOURN_CONFIG", str(tmp_path / "config"))
    root = tmp_path / "work"
    (root / ".aex").mkdir(parents=True)
    (root / ".aex" / "policy.aex").write_text('policy p v0\n\ngoal "g"\n\nuse file.read\n')

    def start(client: Process = HERE, task: str = "", *, is_first: bool = False) -> HookClient:
        options = ClientOptions(root=os.path.realpath(root), contract=read_contract(str(root)), task=task)
        hook = HookClient(options, "claude-code")
        hook._groups = {group_of(client, options.root): client}
        hook._named = group_of(client, options.root) if is_first else ""
        if not is_first:
            hook.claim()
        return hook

    return start


def worked(hook: HookClient) -> str:
    hook.ask(READ)
    return hook.session().task.id


def test_a_task_whose_client_is_gone_is_continued(started: Callable[..., HookClient]) -> None:
    """Its calls still count, and the client's proxies find it as the client's task."""
    name = worked(started(GONE))
    hook = started()
    assert hook.session().task.id != name
    assert hook.continues(name)
    assert hook.store.ref(f"{CLIENT}{next(iter(hook._groups))}") == name
    assert worked(hook) == name
    assert hook.session().task.ledger.calls_used == 2
    assert hook.continues(name), "it does already"


def test_a_task_that_is_taken_is_left_alone(started: Callable[..., HookClient]) -> None:
    """That is one whose client lives, that is finished, that does not exist; nor is a client's own task left, or the one of a person."""
    living = Process(HERE.host, os.getpid(), started_at(os.getpid()) or 0)
    name = worked(started(living))
    assert not started().continues(name), "its client lives"
    assert not started().continues("20260101-nothing0")
    assert not started().continues("")

    finished = started(GONE)
    over = worked(finished)
    finished.session().task.commit([NewEvent(kinds.TaskFinished())])
    assert not started().continues(over)

    free = worked(started(GONE_TOO))
    assert not started(task="another").continues(free)
    own = started()
    worked(own)
    assert not own.continues(free), "it has begun a task of its own"


def test_of_two_clients_that_continue_a_conversation_one_has_its_task(started: Callable[..., HookClient]) -> None:
    """The first one, also before its first call: the calls of the other would all be refused."""
    name = worked(started(GONE))
    first = started(Process(HERE.host, os.getpid(), started_at(os.getpid()) or 0))
    assert first.continues(name)
    assert not started().continues(name)
    assert first.continues(name)


def test_a_task_that_a_process_of_the_client_sets_meanwhile_stays(
    started: Callable[..., HookClient], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The hook says that the conversation does not continue its task."""
    name = worked(started(GONE))
    hook = started()
    own = hook.session().task.id
    monkeypatch.setattr(hook.task, "move", lambda _: None)  # its swap comes too late
    assert not hook.continues(name)
    assert hook.session().task.id == own


def test_a_hook_before_the_proxies_continues_the_task_too(started: Callable[..., HookClient]) -> None:
    """A hook that knows of no proxy yet continues the task of a client that had proxies, and theirs find it; else it claims nothing."""
    name = worked(started(GONE))
    hook = started(is_first=True)
    assert hook.continues(name)
    assert hook.store.ref(f"{CLIENT}{hook._named}") == name
    assert worked(hook) == name

    unknown = started(GONE_TOO, is_first=True)
    unknown._named = ""
    assert not unknown.continues(name), "its client's process is not known"
    taken = started(GONE_TOO, is_first=True)
    taken._named = group_of(GONE_TOO, taken.options.root)
    assert not taken.continues(name), "its client lives"
    assert taken.store.ref(f"{CLIENT}{taken._named}") is None


def test_a_hook_of_a_client_without_proxies_keeps_the_task_of_the_workspace(started: Callable[..., HookClient]) -> None:
    """Where no client had proxies, the hooks of all share one task and its budget."""
    before = started(GONE, is_first=True)
    before._named = ""
    name = worked(before)
    hook = started(is_first=True)
    assert not hook.continues(name)
    assert hook.store.refs(CLIENT).keys() == {f"{CLIENT}{hook.session().identity.group}"}

"""An edited policy counts from the next call on; a broken one, a failing store or a moved client never widens anything."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from adjourn.clients.client import ClientContext
from adjourn.clients.client_process import ClientOptions
from adjourn.errors import StoreError
from adjourn.log import kinds
from adjourn.log.canonical_json import digest
from adjourn.policy.contract import BrokenContractError, read_contract, reread_policy
from adjourn.policy.protected.places import SIGNATURES
from adjourn.tasks.decision import Block, Decision, Forward, ToolRequest
from adjourn.tasks.task import NewEvent
from support.workspace import Workspace

READ = ToolRequest(tool="read", digest="1" * 64, effectful=False)


class Reloading(Workspace):
    """A machine whose policy is version 1, and what its contexts said of it."""

    def __init__(self, path: Path, patch: pytest.MonkeyPatch) -> None:
        self.edits = 0
        super().__init__(path, patch)
        self.edit("allow read", "allow write:src/**")
        self.told: list[tuple[str, str]] = []

    @property
    def policy_file(self) -> Path:
        return self.root / ".aex" / "policy.aex"

    def edit(self, *lines: str) -> None:
        self.policy_file.write_text("\n".join(["policy work v1", 'goal "do it"', *lines, ""]))
        self.edits += 1
        os.utime(self.policy_file, ns=(self.edits, self.edits))  # a coarse clock does not tell two edits apart

    def context(self, *args: Any, **options: Any) -> ClientContext:
        return super().context(*args, on_event=lambda event, text: self.told.append((event, text)), **options)


@pytest.fixture
def workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Reloading:
    return Reloading(tmp_path, monkeypatch)


def protected(context: ClientContext) -> tuple[str, ...]:
    """The places that no call may touch, beside the usual ones."""
    return context.options.protected_under(context.watch.contract)


def decided(context: ClientContext, call: ToolRequest = READ) -> Decision:
    return context.sessions.admit([call])[1][0].decision


def test_an_edit_counts_from_the_next_call(workspace: Reloading) -> None:
    """The event has the digest of the new text and its budget, and stands before the call's own."""
    context = workspace.context()
    assert isinstance(decided(context), Forward)
    workspace.edit("allow write", "budget calls=7")
    assert isinstance(decided(context), Block)
    events = workspace.events(context.task.current())
    assert [event.event for event in events[-2:]] == ["policy.changed", "tool.denied"]
    (changed,) = workspace.facts(context.task.current(), kinds.PolicyChanged)
    assert changed == kinds.PolicyChanged(budget=7, policy=digest(workspace.policy_file.read_bytes()))
    assert workspace.store.get_blob(changed.policy) == workspace.policy_file.read_bytes()
    assert [event for event, _ in workspace.told] == ["policy.changed"]


def test_a_call_is_judged_by_the_rules_of_its_own_time(workspace: Reloading) -> None:
    """The first call after a scope was added is held against that scope, with the places that it leads to."""
    workspace.edit("allow write")
    context = workspace.context()
    call = ToolRequest(tool="write", digest="1" * 64, given={"path": "src/a"})
    assert isinstance(decided(context, call), Forward)
    workspace.edit("allow write:src/**")
    assert isinstance(decided(context, call), Forward)
    assert isinstance(decided(context, ToolRequest(tool="write", digest="2" * 64, given={"path": "doc/a"})), Block)


def test_a_file_that_was_touched_or_written_anew_is_not_edited(workspace: Reloading) -> None:
    """A policy file that was touched or rewritten with the same text is no new policy."""
    context = workspace.context()
    decided(context)
    workspace.edit("allow read", "allow write:src/**")
    decided(context)
    assert workspace.facts(context.task.current(), kinds.PolicyChanged) == []
    assert workspace.told == []


def test_an_edit_between_reading_and_the_first_call_is_seen(workspace: Reloading) -> None:
    """There is no moment in which an edit goes by unseen."""
    context = workspace.context()
    workspace.edit("deny read")
    assert isinstance(decided(context), Block)


@pytest.mark.parametrize("broken", ["policy x v1\nallow\nnonsense\n", "", None])
def test_a_broken_edit_changes_nothing_and_is_written_down(workspace: Reloading, broken: str | None) -> None:
    """A broken edit or a missing file leaves the policy in force and is recorded; the next valid edit counts, even back to the old text."""
    context = workspace.context()
    decided(context)
    good = workspace.policy_file.read_text()
    if broken is None:
        workspace.policy_file.unlink()
    else:
        workspace.policy_file.write_text(broken)
    assert isinstance(decided(context), Forward)
    (fact,) = workspace.facts(context.task.current(), kinds.PolicyBroken)
    assert fact.message.startswith(".aex/policy.aex")
    assert "the previous version stays in force" in workspace.told[-1][1]
    decided(context)
    assert len(workspace.told) == 1  # said once
    workspace.policy_file.write_text(good)
    assert isinstance(decided(context), Forward)
    assert [event for event, _ in workspace.told] == ["policy.broken", "policy.changed"]


def test_a_broken_edit_before_the_first_call_is_written_down_too(workspace: Reloading) -> None:
    """The event waits for the session that the call opens."""
    context = workspace.context()
    workspace.policy_file.write_text("nonsense")
    decided(context)
    assert len(workspace.facts(context.task.current(), kinds.PolicyBroken)) == 1


def test_no_call_passes_under_a_policy_whose_change_could_not_be_written(
    workspace: Reloading, monkeypatch: pytest.MonkeyPatch
) -> None:
    """When the store fails at the edit, the next call tries again, and is decided on under the new rules."""
    context = workspace.context()
    decided(context)
    workspace.edit("deny read")

    def broken(*_: object, **__: object) -> None:
        raise StoreError("no room")

    with monkeypatch.context() as patch:
        patch.setattr(workspace.store, "append", broken)
        with pytest.raises(StoreError):
            decided(context)
        with pytest.raises(StoreError):
            decided(context)
    assert isinstance(decided(context), Block)
    assert len(workspace.facts(context.task.current(), kinds.PolicyChanged)) == 1


def test_every_session_of_the_desk_goes_on_under_the_edited_policy(workspace: Reloading) -> None:
    """Also those of other tasks, whose calls come later."""
    context = workspace.context()
    context.sessions.admit([READ], "other")
    decided(context)
    workspace.edit("deny read")
    assert isinstance(decided(context), Block)
    assert isinstance(context.sessions.admit([READ], "other")[1][0].decision, Block)
    assert len(workspace.facts("other", kinds.PolicyChanged)) == 1


def test_a_session_that_was_given_up_goes_on_under_the_edited_policy(workspace: Reloading) -> None:
    """A change finds its session again when others took it for dead."""
    context = workspace.context()
    decided(context)
    lost = kinds.SessionLost(calls=[], lost=context.sessions.open().id, reason="expired")
    workspace.task(context.task.current()).commit(lambda _: [NewEvent(lost)])
    workspace.edit("deny read")
    assert isinstance(decided(context), Block)


def test_an_edited_contract_changes_nothing(workspace: Reloading) -> None:
    """A contract stays as it was read when the session began, since an agent can edit it; a policy's edit still counts."""
    contract = workspace.root / "fix.aex"
    contract.write_text('task fix v0\ngoal "fix it"\nuse read\nreturn 1\n')
    context = workspace.context(contract="fix.aex")
    decided(context)
    contract.write_text('task fix v0\ngoal "fix it"\nuse read\nuse write\nreturn 1\n')
    write = ToolRequest(tool="write", digest="1" * 64, given={"path": "src/a"})
    assert isinstance(decided(context, write), Block)
    workspace.edit("allow *")
    assert isinstance(decided(context, write), Block)
    assert isinstance(decided(context), Forward)


def test_the_policy_is_protected_wherever_it_is(workspace: Reloading, tmp_path: Path) -> None:
    """Since an edit counts at once, no gated call may touch a policy that lies elsewhere, or what a person's link leads to."""
    other = workspace.root / "conf"
    other.mkdir()
    (other / "real.aex").write_text(workspace.policy_file.read_text())
    (tmp_path / "person").mkdir()
    (tmp_path / "person" / "p.aex").symlink_to(other / "real.aex")
    root = os.path.realpath(workspace.root)
    link = str(tmp_path / "person" / "p.aex")
    for named, places in (("conf/real.aex", ("conf/real.aex",)), (link, (link, "conf/real.aex"))):
        context = ClientContext(ClientOptions(root=root, contract=read_contract(root, named)), workspace.clock)
        assert protected(context) == places


def _json_policies(workspace: Reloading) -> ClientContext:
    """A context under a JSON policy in a folder of its own, which extends another."""
    folder = workspace.root / "conf"
    folder.mkdir()
    (folder / "own.json").write_text('{"extends": "base.json", "allow": ["write"]}')
    (folder / "base.json").write_text('{"allow": ["read"]}')
    root = os.path.realpath(workspace.root)
    return ClientContext(ClientOptions(root=root, contract=read_contract(root, "conf/own.json")), workspace.clock)


def test_what_a_json_policy_extends_is_protected_with_it(workspace: Reloading) -> None:
    """No gated call may widen the policy by way of its base."""
    assert protected(_json_policies(workspace)) == ("conf/own.json", "conf/base.json")


def test_an_edited_base_counts_from_the_next_call(workspace: Reloading) -> None:
    """An edited base counts from the next call, and files that it newly extends are protected too."""
    context = _json_policies(workspace)
    write = ToolRequest(tool="write", digest="1" * 64)
    assert isinstance(decided(context, write), Forward)
    (workspace.root / "conf" / "base.json").write_text('{"allow": ["read"], "deny": ["write"], "extends": "more.json"}')
    (workspace.root / "conf" / "more.json").write_text("{}")
    assert isinstance(decided(context, write), Block)
    assert protected(context) == ("conf/own.json", "conf/base.json", "conf/more.json")
    (workspace.root / "conf" / "more.json").write_text('{"deny": ["read"]}')
    assert isinstance(decided(context), Block)


def test_signatures_are_protected_where_they_are_required(workspace: Reloading) -> None:
    """Signature files are protected from the call on from which signatures are required."""
    context = workspace.context()
    assert SIGNATURES not in protected(context)
    workspace.policy_file.write_text('policy p v1\ngoal "a"\nallow write, read\nrequire signed by ann\n')
    decided(context)
    assert protected(context) == (SIGNATURES,)


def test_a_policy_edited_to_ask_for_a_signature_does_not_take_an_unsigned_contract(tmp_path: Path) -> None:
    """From the edit on the contract would have to be signed: it is not, so the edit is refused and the old policy counts."""
    (tmp_path / ".aex").mkdir()
    policy = tmp_path / ".aex" / "policy.aex"
    policy.write_text('policy p v1\n\ngoal "g"\n\nallow file.*\n')
    (tmp_path / "t.aex").write_text('task t v1\n\ngoal "g"\n\nuse file.read\n\nreturn true\n')
    base = read_contract(str(tmp_path), contract="t.aex")
    policy.write_text('policy p v1\n\ngoal "g"\n\nrequire signed by ann\n\nallow file.*\n')
    with pytest.raises(BrokenContractError) as caught:
        reread_policy(str(tmp_path), base)
    assert any("sign" in found.message for found in caught.value.findings)

"""What one task has open about a call holds in all tasks of the workspace: doubts, effects whose answers were lost, approvals."""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any, cast

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from adjourn.errors import IntegrityError
from adjourn.host import process
from adjourn.host.process import Process
from adjourn.log import kinds
from adjourn.log.event import Actor
from adjourn.policy.calls import arguments_digest
from adjourn.policy.principal import Principal, SpaceStore, space_of
from adjourn.store import Entry, Head
from adjourn.store.memory import MemoryStore
from adjourn.store.sqlite import SqliteStore
from adjourn.tasks import workspace_calls
from adjourn.tasks.approvals import answer, settle_doubt, waiting_approvals
from adjourn.tasks.decision import Ask, Forward, ToolRequest
from adjourn.tasks.lease import SessionIdentity
from adjourn.tasks.ledger import ELSEWHERE
from adjourn.tasks.session import Session
from adjourn.tasks.task import OPEN_INDEX as INDEX
from adjourn.tasks.task import Task
from adjourn.tasks.task import open_entries as entries
from adjourn.tasks.workspace_calls import INDEXED, expire_sessions_of
from support.policies import policy_of
from support.task_sessions import DEPLOY, POLICY, READ, SECRET, WRITE, SharedTask, admit_one, block_reason

ANN = Actor("ann", "human")
OTHER = ToolRequest(tool="write_file", digest="2" * 64)


class Workspace(SharedTask):
    """Sessions of clients that each have a task of their own."""

    def client(self, task: str, at: Process | None = None, policy: Any = POLICY) -> Session:
        """An open session on a task."""
        identity = SessionIdentity(at or process.current(), f"group of {task}", client="claude-code")
        session = Session(self.task(task), policy, identity, policy_text=b"policy")
        session.open()
        return session

    def killed(self, task: str, *calls: ToolRequest, settles: bool = False) -> list[str]:
        """A client that made calls and was killed: before their answers, or right after they were settled. Returns their ids."""
        session = self.client(task, self.dead())
        made = [admit_one(session, call).call for call in calls]
        if settles:
            session.settle([kinds.ToolSettled(answer="a" * 64, call=call, outcome="ok") for call in made])
        return made

    def dead(self) -> Process:
        """A process of this machine that has exited."""
        return Process(process.current().host, 2**22 - 1, 1)

    def index(self) -> dict[str, str]:
        return self.store.refs(INDEX)


@pytest.fixture(params=["memory", "sqlite"])
def workspace(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Workspace]:
    workspace = Workspace()
    with closing(SqliteStore(tmp_path / "s.db")) as store:
        if request.param == "sqlite":
            workspace.store = cast("MemoryStore", store)
        yield workspace


def repeat(session: Session, call: ToolRequest) -> Any:
    return admit_one(session, call).decision


# --- doubts


def test_a_call_in_doubt_is_asked_about_in_a_task_of_its_own(workspace: Workspace) -> None:
    """Who repeats the call of a killed client is asked about it, whatever task it works on; other calls pass."""
    (call,) = workspace.killed("t1", WRITE)
    session = workspace.client("t2")
    asked = repeat(session, WRITE)
    assert isinstance(asked, Ask)
    assert asked.doubt == call
    assert repeat(session, OTHER) == Forward()
    assert repeat(session, READ) == Forward()


def test_a_client_that_dies_later_is_noticed_before_the_next_effect(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A session that was open when the other client was killed asks as one does that opens afterwards."""
    session = workspace.client("t2")
    assert repeat(session, WRITE) == Forward()
    session.settle([kinds.ToolSettled(call=f"{session.id}.1", outcome="ok")])
    workspace.killed("t1", WRITE)
    assert isinstance(repeat(session, WRITE), Ask)


def test_a_call_that_a_living_client_waits_for_is_not_in_doubt(workspace: Workspace) -> None:
    """Two clients may make the same call at the same time, as two people may."""
    first = workspace.client("t1")
    assert repeat(first, WRITE) == Forward()
    assert repeat(workspace.client("t2"), WRITE) == Forward()


def test_a_yes_to_repeating_ends_the_doubt_in_its_task(workspace: Workspace) -> None:
    """The task of the call learns which call of which task has repeated it, and no other task asks any more."""
    (call,) = workspace.killed("t1", WRITE)
    session, third = workspace.client("t2"), workspace.client("t3")
    for client in (session, third):
        assert isinstance(repeat(client, WRITE), Ask)
    (asked,) = waiting_approvals(session.task.refresh(), workspace.clock())
    answer(session.task, asked.id, yes=True, via="cli", by=ANN)
    again = admit_one(session, WRITE)
    assert again.decision == Forward(approval=asked.id)
    assert workspace.task("t1").ledger.doubts == {}
    told = workspace.last(kinds.EffectRepeated)
    assert (told.call, told.again, told.task) == (call, again.call, "t2")
    assert waiting_approvals(third.task.refresh(), workspace.clock()) == []
    session.settle([kinds.ToolSettled(call=again.call, outcome="ok")])
    assert set(workspace.index().values()) == {"asked"}
    assert repeat(third, WRITE) == Forward()


@pytest.mark.parametrize("happened", [True, False])
def test_settling_a_doubt_tells_every_task_that_asked(workspace: Workspace, happened: bool) -> None:
    """The questions about repeating it are closed; what happened is not made again before its client knows."""
    (call,) = workspace.killed("t1", WRITE)
    session = workspace.client("t2")
    assert isinstance(repeat(session, WRITE), Ask)
    settle_doubt(workspace.task("t1"), call, happened=happened, by=ANN)
    assert waiting_approvals(session.task.refresh(), workspace.clock()) == []
    if happened:
        assert block_reason(admit_one(session, WRITE)) == "already_done"
    assert repeat(session, WRITE) == Forward()
    assert workspace.index() == {}


def test_a_history_that_was_changed_holds_up_no_other_task() -> None:
    """A client works beside a task whose history was changed; only the very call that is open there is refused."""
    workspace = Workspace()
    workspace.client("t3").close("done")
    workspace.killed("t1", WRITE)
    session = workspace.client("t2")
    events = workspace.store._streams["t1"]
    events[1] = Entry(events[1].hash, b"changed")
    assert repeat(session, OTHER) == Forward()
    workspace.client("t4")
    with pytest.raises(IntegrityError, match="task t1"):
        repeat(session, WRITE)


def test_what_another_process_wrote_is_found_by_a_session_that_has_looked(tmp_path: Path) -> None:
    """A session that knows what is open finds a call in doubt that another process writes, and that its own process writes, later."""
    workspace, elsewhere = Workspace(), Workspace()
    with closing(SqliteStore(tmp_path / "s.db")) as store, closing(SqliteStore(store.path)) as other:
        workspace.store, elsewhere.store = cast("MemoryStore", store), cast("MemoryStore", other)
        session = workspace.client("t2")
        for number in range(3):  # what is open is read once, and known
            assert repeat(session, msgspec.structs.replace(OTHER, digest=f"{number}" * 64)) == Forward()
        elsewhere.killed("t1", WRITE)
        assert isinstance(repeat(session, WRITE), Ask)
        workspace.killed("t3", DEPLOY)
        assert isinstance(repeat(session, DEPLOY), Ask)


def test_the_calls_of_a_replica_that_is_gone_are_in_doubt(workspace: Workspace) -> None:
    """All its sessions are lost at once, for sessions that were open before, too; those of other processes stay."""
    gone = Session(workspace.task("t1"), POLICY, SessionIdentity(workspace.dead(), "g1", replica="replica/gone"))
    gone.open()
    call = admit_one(gone, WRITE).call
    other = workspace.client("t2")
    expire_sessions_of(workspace.store, "replica/gone", clock=workspace.clock, secret=SECRET)
    assert list(workspace.task("t1").ledger.doubts) == [call]
    assert other.holds()
    assert isinstance(repeat(other, WRITE), Ask)


def test_a_network_store_is_asked_by_the_first_effect_of_a_session(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Later effects of a session may go by what was seen a moment ago, and find what is older than that."""
    monkeypatch.setattr(workspace.store, "now", workspace.clock, raising=False)
    before = workspace.client("t2")
    assert repeat(before, OTHER) == Forward()
    workspace.killed("t1", WRITE)
    assert isinstance(repeat(workspace.client("t3"), WRITE), Ask)
    monkeypatch.setattr(workspace_calls, "RECENT_SECONDS", 0.0)
    assert isinstance(repeat(before, WRITE), Ask)


def test_a_doubt_of_an_earlier_version_is_found(workspace: Workspace) -> None:
    """A store without the index gets one when the next session opens."""
    workspace.killed("t1", WRITE)
    workspace.client("t3").close("done")
    for name, value in workspace.store.refs(INDEX).items():
        workspace.store.swap(name, None, expect=value)
    workspace.store.swap(INDEXED, None, expect="1")
    assert isinstance(repeat(workspace.client("t2"), WRITE), Ask)


def test_a_doubt_holds_in_its_space(workspace: Workspace) -> None:
    """Behind a gateway, a principal is asked about what was cut off in its own tasks, and hears of no other principal's."""
    ann, bob = (space_of(Principal(id=f"user:{name}", name=name, type="human")) for name in ("ann", "bob"))
    below = workspace.store
    workspace.store = cast("MemoryStore", SpaceStore(below, ann))
    (call,) = workspace.killed(ann.named("t1"), WRITE)
    asked = repeat(workspace.client(ann.named("t2")), WRITE)
    assert isinstance(asked, Ask)
    assert asked.doubt == call
    workspace.store = cast("MemoryStore", SpaceStore(below, bob))
    assert repeat(workspace.client(bob.named("t2")), WRITE) == Forward()


# --- effects whose answers were lost


def test_an_effect_whose_answer_was_lost_is_told_and_not_repeated(workspace: Workspace) -> None:
    """The refusal names the call, when it was settled and the digest of its answer; the same client may then repeat it on purpose."""
    (call,) = workspace.killed("t1", WRITE, settles=True)
    session = workspace.client("t2")
    refused = repeat(session, WRITE)
    ended = workspace.task("t1").ledger.unseen[call].ended
    assert all(part in refused.message for part in (call, ended, "a" * 64))
    assert "make the same call once more" in refused.remedy
    other = workspace.client("t3")
    assert block_reason(admit_one(other, WRITE)) == "already_done"
    assert repeat(session, WRITE) == Forward()
    assert workspace.task("t1").ledger.unseen == {}
    assert repeat(other, WRITE) == Forward()


def test_two_equal_calls_at_once_are_both_told(workspace: Workspace) -> None:
    """The second was sent before the client could know what the first is answered with."""
    workspace.killed("t1", WRITE, settles=True)
    session = workspace.client("t2")
    assert [block_reason(one) for one in session.admit([WRITE, WRITE])] == ["already_done"] * 2


def test_a_client_that_said_more_had_its_answer(workspace: Workspace) -> None:
    """Only effects after which nothing came from the client are held."""
    session = workspace.client("t1", workspace.dead())
    first = admit_one(session, WRITE).call
    session.settle([kinds.ToolSettled(call=first, outcome="ok")])
    admit_one(session, READ)
    assert repeat(workspace.client("t2"), WRITE) == Forward()


def test_a_client_that_was_closed_had_its_answers(workspace: Workspace) -> None:
    """A session that ends in good order leaves nothing unseen, unless the client was found not to read."""
    for reads in (True, False):
        session = workspace.client(f"t{reads}")
        call = admit_one(session, WRITE).call
        session.settle([kinds.ToolSettled(call=call, outcome="ok")])
        session.is_unread = not reads
        session.close("client-eof")
        assert bool(workspace.index()) is not reads


# --- approvals


def test_an_approval_serves_the_same_call_of_another_task_once(workspace: Workspace) -> None:
    """A person's yes to a call of a client that is gone lets the next client make it, and nobody make it twice."""
    (gone, second, third) = (workspace.client(name) for name in ("t1", "t2", "t3"))
    asked = admit_one(gone, DEPLOY).approval
    assert asked is not None
    answer(gone.task, asked.id, yes=True, via="cli", by=ANN)
    made = repeat(second, DEPLOY)
    assert made == Forward(approval=asked.id)
    assert isinstance(repeat(third, DEPLOY), Ask)
    assert isinstance(repeat(gone, DEPLOY), Ask)


@pytest.mark.parametrize("yes", [True, False])
def test_an_answer_closes_the_same_question_of_other_tasks(workspace: Workspace, yes: bool) -> None:
    """A person who answered is not asked the same once more, and a denial counts as one."""
    first, second = workspace.client("t1"), workspace.client("t2")
    asked = admit_one(first, DEPLOY).approval
    other = admit_one(second, DEPLOY).approval
    assert asked is not None
    assert other is not None
    answer(first.task, asked.id, yes=yes, via="cli", by=ANN)
    ledger = second.task.refresh()
    assert waiting_approvals(ledger, workspace.clock()) == []
    assert ledger.approvals[other.id].refused == (ELSEWHERE if yes else "cli")
    assert ledger.calls_refused == (not yes)


def test_a_call_that_is_made_anyway_closes_its_question(workspace: Workspace) -> None:
    """A question whose rule is gone does not wait for a person any more once the call was made."""
    session = workspace.client("t1")
    assert isinstance(repeat(session, DEPLOY), Ask)
    session.decide_under(policy_of("use deploy"))
    assert repeat(session, DEPLOY) == Forward()
    assert waiting_approvals(session.task.ledger, workspace.clock()) == []


# --- once in the workspace


def paying(invoice: str, memo: str) -> ToolRequest:
    given = {"invoice": invoice, "memo": memo}
    return ToolRequest(tool="pay", server="bank", digest=arguments_digest(given), given=given)


ONCE = policy_of("allow pay", "once pay by invoice", version="v1")


def test_what_may_happen_once_happens_once_in_the_workspace(workspace: Workspace) -> None:
    """Another task that pays the same invoice, with other words, is answered that it was paid; another invoice is not."""
    first, second = workspace.client("t1", policy=ONCE), workspace.client("t2", policy=ONCE)
    made = admit_one(first, paying("i1", "a"))
    assert [block_reason(admit_one(second, paying("i1", "b")))] == ["busy"]
    first.settle([kinds.ToolSettled(call=made.call, outcome="ok")])
    assert block_reason(admit_one(second, paying("i1", "b"))) == "once_done"
    assert repeat(second, paying("i2", "b")) == Forward()


def test_a_payment_in_doubt_is_asked_about_under_other_arguments(workspace: Workspace) -> None:
    """The name of the effect counts, not the digest of the arguments; an approval moves the claim to the new call."""
    session = workspace.client("t1", workspace.dead(), policy=ONCE)
    admit_one(session, paying("i1", "a"))
    second = workspace.client("t2", policy=ONCE)
    asked = admit_one(second, paying("i1", "b"))
    assert isinstance(asked.decision, Ask)
    assert asked.approval is not None
    answer(second.task, asked.approval.id, yes=True, via="cli", by=ANN)
    again = admit_one(second, paying("i1", "b"))
    assert again.decision == Forward(approval=asked.approval.id)
    assert workspace.task("t1").ledger.doubts == {}
    second.settle([kinds.ToolSettled(call=again.call, outcome="ok")])
    assert block_reason(admit_one(workspace.client("t3", policy=ONCE), paying("i1", "c"))) == "once_done"


def test_a_payment_of_an_earlier_version_is_known(workspace: Workspace) -> None:
    """Effects that were claimed in their task alone are claimed in the workspace when the next session opens."""
    first = workspace.client("t1", policy=ONCE)
    made = admit_one(first, paying("i1", "a"))
    first.settle([kinds.ToolSettled(call=made.call, outcome="ok")])
    store = workspace.store
    for name, value in store.refs("effect/").items():
        task, _, rest = value.partition(" ")
        store.swap(name, None, expect=value)
        store.swap(f"once/{task}/{name.removeprefix('effect/')}", rest, expect=None)
    store.swap(INDEXED, None, expect="1")
    assert block_reason(admit_one(workspace.client("t2", policy=ONCE), paying("i1", "b"))) == "once_done"


# --- the index


ACTS = st.lists(
    st.tuples(
        st.sampled_from(("call", "ok", "no-answer", "settle", "ask", "yes", "no", "close", "kill")), st.integers(0, 2)
    ),
    max_size=14,
)


@given(ACTS)
def test_the_index_is_what_the_ledgers_have_open(acts: list[tuple[str, int]]) -> None:  # noqa: C901  # a table of acts
    """Whatever happens, every call in doubt, unseen effect and question of every task has an entry, and nothing else has."""
    workspace = Workspace()
    calls = [WRITE, OTHER, DEPLOY]
    sessions = [workspace.client(f"t{number}") for number in range(3)]
    for act, number in acts:
        session = sessions[number]
        ledger = session.task.refresh()
        if act == "call":
            admit_one(session, calls[number])
            admit_one(session, WRITE)
        elif act in ("ok", "no-answer"):
            outcome: Any = act
            session.settle([kinds.ToolSettled(call=one, outcome=outcome) for one in ledger.open_calls])
        elif act == "settle" and ledger.doubts:
            settle_doubt(session.task, next(iter(ledger.doubts)), happened=number > 0, by=ANN)
        elif act == "ask":
            admit_one(session, DEPLOY)
        elif act in ("yes", "no"):
            for asked in waiting_approvals(ledger, workspace.clock()):
                answer(session.task, asked.id, yes=act == "yes", via="cli", by=ANN)
        elif act == "close":
            session.close("done")
            sessions[number] = workspace.client(f"t{number}")
        elif act == "kill":
            session.close("done")
            workspace.killed(f"t{number}", WRITE, settles=number > 1)
            sessions[number] = workspace.client(f"t{number}")
    expected: dict[str, str] = {}
    for name in ("t0", "t1", "t2"):
        expected |= entries(Task(workspace.store, name, clock=workspace.clock, secret=b"s" * 32).ledger)
    assert workspace.index() == expected


def test_sessions_that_start_at_once_add_earlier_tasks_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """In a store of an earlier version one session of a process reads all tasks, and the others wait for it."""
    store, reads = MemoryStore(), list[int]()
    store.append("t", [Entry("0" * 64, b"{}")], expect=store.head("t"))

    def slowly(below: MemoryStore) -> dict[str, Head]:
        reads.append(1)
        time.sleep(0.2)
        return below.streams()

    monkeypatch.setattr(workspace_calls, "tasks_of", slowly)
    with ThreadPoolExecutor(8) as threads:
        for _ in range(8):
            threads.submit(workspace_calls.build_index, store, clock=lambda: 0, secret=SECRET)
    assert len(reads) == 1
    assert store.ref(INDEXED) == "1"

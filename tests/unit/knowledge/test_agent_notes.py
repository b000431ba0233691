"""Notes and questions of an agent: what they make of the record and the state of mind, who may write, what is shown of it, and its bounds."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from adjourn.checkpoints import folder_verification
from adjourn.checkpoints.checkpoint import TaskCheckpoint, document
from adjourn.errors import HeldError, IntegrityError, InvalidError
from adjourn.handover import record_sections
from adjourn.handover.record_sections import SectionRequest, describe_record, read_section_request
from adjourn.handover.rendering import ROOM, to_json
from adjourn.handover.resumption import Reader, hand_over, resume
from adjourn.knowledge.cognition.repository import SessionRepository
from adjourn.knowledge.cognition.store import CognitiveStore
from adjourn.knowledge.model.documents import tree_of
from adjourn.knowledge.model.record import CRAuthor
from adjourn.knowledge.records import agent_notes
from adjourn.knowledge.records.agent_notes import MAX_AT_ONCE, MAX_KEPT, MAX_STATEMENT, AgentNote, AgentQuestion
from adjourn.knowledge.records.store import RecordTrees
from adjourn.relay import meta
from adjourn.verification.verify import verify_task
from support.workspace import Workspace

ANN = CRAuthor(id="ann", type="human")
EVERYTHING = {
    "facts": ["the parser is in p.py"],
    "assumptions": ["the tests are quick"],
    "questions": ["why twice?"],
    "goals": ["mend the parser"],
    "decisions": [{"decision": "Use SQLite", "because": "one file"}],
    "learnings": [{"content": "p.py is generated", "type": "constraint", "confidence": 1}],
}


@pytest.fixture
def workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Workspace:
    return Workspace(tmp_path, monkeypatch)


def add(workspace: Workspace, context: Any, **said: Any) -> agent_notes.NoteResult:
    return agent_notes.add(context.sessions.open(), agent_notes.read_note(said))


def ask(context: Any, **said: Any) -> dict[str, Any]:
    return agent_notes.ask(context.sessions.open(), agent_notes.read_question(said)).question


def section(workspace: Workspace, task: str, name: str) -> list[dict[str, Any]]:
    return list(describe_record(workspace.store, task, SectionRequest(section=name))["items"])


def told(workspace: Workspace, made: TaskCheckpoint, *, seconds: float = 0) -> str:
    """What a resume of the checkpoint tells, `seconds` from now on."""
    workspace.clock.move(seconds=seconds)
    task = workspace.task(made.event.task)
    return json.dumps(to_json(hand_over(task, made, Reader(str(workspace.root)))))


# --- what is noted


def test_a_note_begins_the_record_with_the_tasks_goal_and_each_kind_lands_where_the_format_has_it(
    workspace: Workspace,
) -> None:
    """Decisions and learnings are in the record, the rest in the checkpoint that it names; the client is the author."""
    context = workspace.context()
    record, added, *_ = add(workspace, context, **EVERYTHING)
    task = context.task.current()
    assert added == dict.fromkeys(EVERYTHING, 1)
    assert (record["id"], record["task"]["id"], record["task"]["goal"]) == (task, task, "do it")
    assert record["task"]["status"] == "in-progress"
    author = record["lastModifiedBy"]
    assert (author["id"], author["type"]) == ("tester", "agent")
    assert author["sessionId"] == context.sessions.open().id
    mind = CognitiveStore(workspace.store, task).get_checkpoint(record["checkpointId"])
    assert mind is not None
    assert [fact["content"] for fact in mind["epistemicState"]["facts"]] == EVERYTHING["facts"]
    assert [goal["description"] for goal in mind["intentGraph"]["goals"]] == ["do it", "mend the parser"]
    [decision] = record["decisions"]
    assert (decision["description"], decision["rationale"], decision["status"]) == (
        "Use SQLite", "one file", "accepted",
    )  # fmt: skip
    assert RecordTrees(workspace.store).of_task(task) == record


def test_what_is_known_in_the_same_words_makes_no_version(workspace: Workspace) -> None:
    """The same note again adds nothing, whatever its case and blanks; a fact confirms the assumption of its words."""
    context = workspace.context()
    first = add(workspace, context, **EVERYTHING)
    again = add(workspace, context, facts=["The parser  is in p.py."], decisions=[{"decision": "use sqlite"}])
    assert (again.record, again.added, again.revised) == (first.record, {}, {})
    assert again.ignored == ["facts: The parser  is in p.py.: known already", "decisions: use sqlite: known already"]
    assert add(workspace, context, facts=["the tests are quick"]).added == {"facts": 1}
    assert "validatedAt" in section(workspace, context.task.current(), "assumptions")[0]


def test_a_note_that_was_cut_off_between_its_two_writes_is_brought_up_by_the_next(workspace: Workspace) -> None:
    """The state of mind was written and the record was not: the next note names it all."""
    context = workspace.context()
    add(workspace, context, facts=["one"])
    agent_notes._remember(context.sessions.open().task, AgentNote(facts=("two",)), lambda fact, _: fact, goal="")
    assert len(section(workspace, context.task.current(), "facts")) == 1
    add(workspace, context, learnings=[{"content": "three"}])
    assert len(section(workspace, context.task.current(), "facts")) == 2


def test_a_note_is_taken_however_often_a_sister_was_faster(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Twenty times in a row another process changes the state of mind just before: the note is there in the end, and so are those."""
    context = workspace.context()
    add(workspace, context, facts=["the first"])
    save, left, is_sister = SessionRepository.save, iter(range(20)), list[bool]()

    def after_a_sister(pages: SessionRepository, kept: Any, made: Any = ()) -> Any:
        number = None if is_sister else next(left, None)
        if number is not None:
            is_sister.append(True)
            sister = CognitiveStore(workspace.store, context.task.current(), triggers=())
            sister.update_from_response(f"FACT: sister {number}")
            is_sister.clear()
        return save(pages, kept, made)

    monkeypatch.setattr(SessionRepository, "save", after_a_sister)
    add(workspace, context, facts=["the last"])
    facts = [fact["content"] for fact in section(workspace, context.task.current(), "facts")]
    assert facts == ["the first", *(f"sister {number}" for number in range(20)), "the last"]


def test_secrets_and_what_cannot_be_seen_are_not_kept(workspace: Workspace) -> None:
    """A token in any text is replaced, control characters go, and a text of nothing else is refused."""
    context = workspace.context()
    token = "ghp_" + "a1" * 12
    add(workspace, context, facts=[f"it is {token}\x1b[2J"], decisions=[{"decision": "x", "because": token}])
    ask(context, question=f"use {token}?", options=[token, "no"])
    for stream in workspace.store.streams():
        assert not any(token.encode() in entry.data for entry in workspace.store.read(stream))
    assert section(workspace, context.task.current(), "facts")[0]["content"] == "it is [redacted][2J"
    with pytest.raises(InvalidError, match=r"facts\[0\]"):
        add(workspace, context, facts=["\u200b\x00 "])


ODD: list[dict[str, Any]] = [
    {}, {"facts": []}, {"facts": "one"}, {"facts": [1]}, {"facts": [None]}, {"facts": [""]}, {"facts": None}, {"other": []},
    {"facts": ["x" * (MAX_STATEMENT + 1)]}, {"facts": ["x"] * (MAX_AT_ONCE + 1)}, {"decisions": [{}]}, {"decisions": ["x"]},
    {"decisions": [{"decision": "x", "status": "contested"}]}, {"decisions": [{"decision": "x", "madeBy": {}}]},
    {"learnings": [{"content": "x", "confidence": 2}]}, {"learnings": [{"content": "x", "type": "rumour"}]},
    {"learnings": [{"content": "x", "confidence": True}]},
]  # fmt: skip


@pytest.mark.parametrize("arguments", ODD, ids=lambda one: repr(one)[:40])
def test_what_is_no_note_is_refused_and_nothing_is_written(workspace: Workspace, arguments: dict[str, Any]) -> None:
    """Wrong types, unknown names, too much, or nothing: `InvalidError`, and there is no record."""
    with pytest.raises(InvalidError):
        add(workspace, workspace.context(), **arguments)
    assert not workspace.store.refs("record/")


json_values = st.recursive(
    st.none() | st.booleans() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["decision", "content", "question", "x"]), inner, max_size=3)
    ),
    max_leaves=8,
)


@given(
    st.dictionaries(st.sampled_from([*AgentNote.__struct_fields__, *AgentQuestion.__struct_fields__, "x"]), json_values)
)
def test_odd_arguments_are_read_or_refused_never_worse(arguments: dict[str, Any]) -> None:
    """Any arguments are read as a note or question, or raise `InvalidError`."""
    for read in (agent_notes.read_note, agent_notes.read_question, read_section_request):
        try:
            read(arguments)
        except InvalidError:
            continue


def test_there_is_a_bound_on_what_notes_add(workspace: Workspace) -> None:
    """One more than is kept is refused, whichever kind it is, and the record stays as it was."""
    context = workspace.context()
    for start in range(0, MAX_KEPT, MAX_AT_ONCE):
        numbers = range(start, start + MAX_AT_ONCE)
        add(workspace, context, facts=[f"fact {n}" for n in numbers], learnings=[{"content": f"{n}"} for n in numbers])
    before = RecordTrees(workspace.store).of_task(context.task.current())
    for more in ({"facts": ["more"]}, {"learnings": [{"content": "more"}], "facts": ["fact 1"]}):
        with pytest.raises(InvalidError, match="1001"):
            add(workspace, context, **more)
    assert RecordTrees(workspace.store).of_task(context.task.current()) == before


def test_a_session_that_was_fenced_off_writes_nothing(workspace: Workspace) -> None:
    """Another client took the task over: a note and a question of the first are refused, and leave no version."""
    first = workspace.context("g1", task="t")
    add(workspace, first, facts=["one"])
    session = first.sessions.open()
    workspace.context("g2", task="t", take_over=True).sessions.open()
    before = RecordTrees(workspace.store).of_task("t")
    for write in (
        lambda: agent_notes.add(session, AgentNote(facts=("two",))),
        lambda: agent_notes.ask(session, AgentQuestion(question="two?")),
    ):
        with pytest.raises(HeldError):
            write()
    assert RecordTrees(workspace.store).of_task("t") == before


# --- what is asked


def test_a_question_is_asked_once_and_its_answer_is_given_to_who_asks_again(workspace: Workspace) -> None:
    """The same words find the open question, then the answered one; a skipped one may be asked again under another id."""
    context = workspace.context()
    first = ask(context, question="Keep it?", options=["yes", "no"], priority="blocking")
    assert ask(context, question="keep it?") == first
    records = RecordTrees(workspace.store)
    records.answer_question(context.task.current(), first["id"], "no", ANN)
    answered = ask(context, question="Keep it?")
    assert (answered["id"], answered["status"], answered["answer"]) == (first["id"], "answered", "no")
    other = ask(context, question="And this?")
    records.skip_question(context.task.current(), other["id"], "later", ANN)
    anew = ask(context, question="And this?")
    assert (anew["status"], anew["id"] != other["id"]) == ("open", True)
    assert anew["id"].startswith(other["id"])


@pytest.mark.parametrize(
    "arguments",
    [{}, {"question": ""}, {"question": 5}, {"question": "x", "status": "answered"}, {"question": "x", "options": ["a"] * 21}],
    ids=repr,
)  # fmt: skip
def test_what_is_no_question_is_refused(workspace: Workspace, arguments: dict[str, Any]) -> None:
    """An agent cannot bring its own answer, nor leave the question out."""
    with pytest.raises(InvalidError):
        ask(workspace.context(), **arguments)
    assert not workspace.store.refs("record/")


# --- what is shown


def test_the_schemas_say_what_is_read() -> None:
    """Names and choices of the tools' inputs are those of what reads them."""
    for tool, read in (("adjourn.note", AgentNote), ("adjourn.ask", AgentQuestion), ("adjourn.record", SectionRequest)):
        schema = meta.DEFINITIONS[tool]["inputSchema"]
        assert set(schema["properties"]) == set(read.__struct_encode_fields__)
        assert schema.get("required", []) == [one.name for one in msgspec.structs.fields(read) if one.required]
    note = meta.DEFINITIONS["adjourn.note"]["inputSchema"]["properties"]
    for name, kind in (
        ("decisions", agent_notes.NotedDecision),
        ("learnings", agent_notes.NotedLearning),
        ("answers", agent_notes.NotedAnswer),
    ):
        described = note[name]["description"]
        for member, told_of in msgspec.json.schema(kind)["$defs"][kind.__name__]["properties"].items():
            assert re.search(rf"[{{ ]{member}\b", described)
            assert "|".join(told_of.get("enum", [])) in "|".join(sorted_choices(described))
    asked = meta.DEFINITIONS["adjourn.ask"]["inputSchema"]["properties"]
    priorities = msgspec.json.schema(AgentQuestion)["$defs"]["AgentQuestion"]["properties"]["priority"]
    assert sorted(asked["priority"]["enum"]) == sorted(priorities["enum"])


def sorted_choices(described: str) -> list[str]:
    """The choices that a description names, each list in the order of its words."""
    return ["|".join(sorted(choices.split("|"))) for choices in re.findall(r"[a-z_]+(?:\|[a-z_]+)+", described)]


def test_the_pages_of_a_section_tell_all_of_it_and_each_is_bounded(workspace: Workspace) -> None:
    """Newest page first, oldest item first in each; an item larger than an answer is shown in part."""
    context = workspace.context()
    for start in range(0, 300, 100):
        add(workspace, context, facts=[f"{n} " + "ä" * 150 for n in range(start, start + 100)])
    pages, request = [], SectionRequest(section="facts")
    while True:
        page = describe_record(workspace.store, context.task.current(), request)
        assert len(msgspec.json.format(msgspec.json.encode(page), indent=2)) <= record_sections.ANSWER_BYTES
        pages.append([int(item["content"].split()[0]) for item in page["items"]])
        if "more" not in page:
            break
        request = read_section_request({"section": "facts", "more": page["more"]})
    assert len(pages) > 3
    assert [n for page in reversed(pages) for n in page] == list(range(300))
    records = RecordTrees(workspace.store)
    records.update(
        context.task.current(),
        {"learnings": [{"id": "l", "type": "insight", "source": "success", "content": "x" * 60_000,
                        "learnedBy": tree_of(ANN), "learnedAt": 1, "affects": []}]},
        ANN,
    )  # fmt: skip
    [item] = section(workspace, context.task.current(), "learnings")
    assert (item["id"], item["cut"].endswith("…")) == ("l", True)


def test_without_a_section_it_is_told_how_much_there_is(workspace: Workspace) -> None:
    """The counts of sections that have something; without a record, how to begin one."""
    context = workspace.context()
    assert "adjourn.note" in describe_record(workspace.store, context.task.current(), SectionRequest())["message"]
    record = add(workspace, context, **EVERYTHING).record
    answer = describe_record(workspace.store, context.task.current(), SectionRequest())
    assert answer["contentHash"] == record["contentHash"]
    assert answer["sections"] == {
        "decisions": 1, "learnings": 1, "facts": 1, "assumptions": 1, "openQuestions": 1, "goals": 2,
    }  # fmt: skip


@pytest.mark.parametrize(
    "arguments",
    [{"section": "all"}, {"more": "1"}, {"section": "facts", "more": "²"}, {"section": "facts", "more": "9" * 50}, {"section": 5}],
    ids=repr,
)  # fmt: skip
def test_an_odd_wish_is_refused(arguments: dict[str, Any]) -> None:
    """Unknown sections and cursors that no answer gave are errors."""
    with pytest.raises(InvalidError):
        read_section_request(arguments)


# --- checkpoints and resuming


def brief_of(workspace: Workspace, context: Any) -> dict[str, Any]:
    return resume(context, "fix-auth").to_json()


def test_a_checkpoint_names_the_version_of_the_record_and_it_is_signed(workspace: Workspace) -> None:
    """Its event, document and folder have the hash, and all verify; without a record there is no such member."""
    context = workspace.context()
    workspace.work(context, "file.read")
    assert "record" not in document(workspace.store, workspace.save(context))
    record = add(workspace, context, **EVERYTHING).record
    made = workspace.save(context)
    assert made.data.record == document(workspace.store, made)["record"] == record["contentHash"]
    assert verify_task(workspace.store, made.event.task).valid
    verified = folder_verification.verify(str(workspace.folder()))
    assert verified.extra.document["record"] == record["contentHash"]
    path = workspace.folder() / "checkpoint.json"
    path.write_text(path.read_text().replace(record["contentHash"], "0" * 64))
    with pytest.raises(IntegrityError):
        folder_verification.verify(str(workspace.folder()))


def test_who_resumes_is_told_what_was_noted_and_the_answer_stays_in_its_bound(workspace: Workspace) -> None:
    """With the record as it is now; however much was noted, the whole answer fits."""
    context = workspace.context()
    session = workspace.work(context, "file.read")
    add(workspace, context, **EVERYTHING)
    workspace.save(context)
    add(workspace, context, learnings=[{"content": "after the checkpoint", "type": "warning"}])
    workspace.leave(context)
    answer = brief_of(workspace, workspace.context("g2"))
    for text in ("p.py is generated", "the parser is in p.py", "Use SQLite", "mend the parser", "after the checkpoint"):
        assert text in json.dumps(answer)
    again = workspace.context("g3", task=session.task.id, take_over=True)
    add(workspace, again, learnings=[{"content": f"{n} " + "ü" * 500, "type": "warning"} for n in range(50)])
    answer = brief_of(workspace, again)
    assert answer["leftOut"]["decisions"] > 20
    assert answer["auditSummary"]
    assert len(msgspec.json.encode(answer)) <= ROOM


def test_the_brief_tells_what_is_so_by_now(workspace: Workspace) -> None:
    """Questions that expired and resume points that timed out are shown as that before anybody has decided on anything; nothing is written."""
    context = workspace.context()
    workspace.work(context, "file.read")
    question = ask(context, question="Which port?")["id"]
    store = RecordTrees(workspace.store, clock=workspace.clock)
    record = store.resolve(context.task.current())
    point = {
        "id": "go", "label": "Deploy", "description": "", "when": "", "preconditions": [], "requiredAuthority": "human",
        "safeToAutoExecute": False, "onTimeout": "abort", "timeoutMs": 600_000, "createdAt": workspace.clock(),
        "approvalStatus": "pending", "nextSteps": [],
    }  # fmt: skip
    expiring = {
        **record["questionsForUser"][0],
        "id": "q2",
        "question": "Which host?",
        "expiresAt": workspace.clock() + 600_000,
    }
    said = {"questionsForUser": [*record["questionsForUser"], expiring], "resumePoints": [point]}
    written = store.update(record["id"], said, ANN)
    made = workspace.save(context)
    brief = told(workspace, made)
    assert "waits for the approval of a person" in brief
    later = told(workspace, made, seconds=900)
    assert "question q2 was expired, not answered: Which host?" in later
    assert "resume point go: Deploy was denied: timed out" in later
    assert f"question {question} was" not in later
    assert store.resolve(record["id"]) == written


def test_an_approval_that_a_fork_used_is_told_as_used(workspace: Workspace) -> None:
    """The steps were begun, whichever line of versions says so: they are to be examined, not begun again."""
    context = workspace.context()
    workspace.work(context, "file.read")
    add(workspace, context, learnings=[{"content": "x"}])
    store = RecordTrees(workspace.store, clock=workspace.clock)
    point = {
        "id": "go", "label": "Deploy", "description": "", "when": "", "preconditions": [], "requiredAuthority": "any",
        "safeToAutoExecute": False, "onTimeout": "escalate", "approvalStatus": "pending", "nextSteps": ["ship it"],
    }  # fmt: skip
    name = context.task.current()
    store.update(name, {"resumePoints": [point]}, ANN)
    approved = store.approve_resume_point(name, "go", ANN)
    made = workspace.save(context)
    assert "these steps were started" not in told(workspace, made)
    fork = store.fork(approved["contentHash"], {}, ANN)
    store.consume_resume_point(fork["id"], "go", ANN)
    assert "these steps were started" in told(workspace, made)


def test_a_record_that_did_not_come_along_is_missed(workspace: Workspace) -> None:
    """The checkpoint names a version that this store has not: the brief says so, and how to bring it."""
    context = workspace.context()
    workspace.work(context, "file.read")
    add(workspace, context, **EVERYTHING)
    made = workspace.save(context)
    workspace.store = type(workspace.store)()
    text = told(workspace, made)
    assert made.data.record in text
    assert "adjourn record import" in text
    RecordTrees(workspace.store).create({"task": {"id": made.event.task, "goal": "another"}}, author=ANN, cr_id="x")
    assert "is not in this store" in told(workspace, made)

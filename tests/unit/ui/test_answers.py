"""Answers on the inbox page: each kind of item, what is recorded, and who learns that another was first."""

from __future__ import annotations

import pytest

from adjourn.log import kinds
from adjourn.log.event import Actor
from adjourn.tasks.approvals import answer, settle_doubt
from adjourn.tasks.task import NewEvent
from support.page_in_memory import ANN, PageInMemory
from support.task_sessions import SECRET, SharedTask
from support.waiting import RECORD, asked, in_doubt, noted, opened

BOB = Actor("bob", "human")


@pytest.fixture(autouse=True)
def _keys(monkeypatch: pytest.MonkeyPatch) -> None:
    """The page loads tasks with the keys of the store in memory."""
    monkeypatch.setattr("adjourn.host.keys.secret", lambda: SECRET)
    monkeypatch.setattr("adjourn.host.keys.reading_secret", lambda: SECRET)


@pytest.fixture
def shared() -> SharedTask:
    return SharedTask()


@pytest.fixture
def page(shared: SharedTask) -> PageInMemory:
    return PageInMemory(shared.store, shared.clock).enter()


def item(kind: str, name: str, action: str, **fields: str) -> dict[str, str]:
    """A form as the page has it."""
    return {"kind": kind, "item": name, "task": "t1", "record": RECORD, "action": action, **fields}


def send(page: PageInMemory, fields: dict[str, str]) -> str:
    return page.answer({"csrf": page.access.form_token, **fields})


def test_who_answers_sees_the_answer_at_once(shared: SharedTask, page: PageInMemory) -> None:
    """A page that has just followed the store shows what was answered as answered: the next click is for the next item."""
    asked(opened(shared))
    follows = {"HX-Request": "true"}
    assert "deploy" in page.request("GET", "/", headers=follows).text
    sent = page.request("POST", "/answer", data={**page.form(), "action": "approve"}, headers=follows)
    shown = page.request("GET", sent.headers["location"], headers=follows).text
    assert "Nothing waits for you" in shown


@pytest.mark.parametrize(
    ("action", "kind", "said"),
    [
        ("approve", kinds.ConfirmApproved, "Approved: deploy. It runs once."),
        ("deny", kinds.ConfirmDenied, "Denied: deploy."),
    ],
)
def test_an_answer_is_recorded_with_who_and_why(
    shared: SharedTask, page: PageInMemory, action: str, kind: type[kinds.Data], said: str
) -> None:
    """An approval or a denial is the person's, by the page, with their reason; secrets in the reason are replaced."""
    asked(opened(shared))
    reason = "not on a Friday, token=ghp_" + "a1B2" * 9
    assert page.answer({**page.form(), "action": action, "text": reason}) == said
    recorded = shared.last(kind)
    assert recorded.via == "page"
    assert recorded.reason.startswith("not on a Friday")
    assert "ghp_a1B2" not in recorded.reason
    assert shared.events()[-1].by == ANN
    assert "Nothing waits for you" in page.get()


def test_whoever_is_second_learns_who_was_first(shared: SharedTask, page: PageInMemory) -> None:
    """A second answer to an approval records nothing, and says who answered, how, when and why."""
    asked(opened(shared))
    fields = page.form()
    answer(shared.task(), "k1", yes=False, via="cli", by=BOB)
    shared.clock.move(seconds=120)
    count = len(shared.events())
    assert page.answer({**fields, "action": "approve"}) == "bob denied this in a terminal, 2 min ago."
    assert len(shared.events()) == count


def test_a_used_approval_cannot_be_taken_back(shared: SharedTask, page: PageInMemory) -> None:
    """An answer to a question that was approved and used says who approved it."""
    task = opened(shared)
    asked(task, digest="7" * 64)
    fields = page.form()
    page.answer({**fields, "action": "approve", "text": "go"})
    sent = kinds.ToolAllowed(call="c1", tool="deploy", digest="7" * 64, effectful=True, approval="k1")
    task.refresh()
    task.commit(lambda _: [NewEvent(sent)])
    assert page.answer({**fields, "action": "deny"}) == "You approved this on this page, just now: go."


def test_an_expired_question_says_so(shared: SharedTask, page: PageInMemory) -> None:
    """An approval after the end of its time is not recorded."""
    asked(opened(shared))
    fields = page.form()
    shared.clock.move(seconds=1000)
    said = page.answer({**fields, "action": "approve"})
    assert said.startswith("Not recorded: question k1 of task t1 is not open")
    assert "Repeat the call to ask again" in said


def test_a_question_for_somebody_else_stays_open(shared: SharedTask, page: PageInMemory) -> None:
    """Only the named person can approve; the page says who it is."""
    asked(opened(shared), who="bob")
    assert "bob can approve it" in page.get()
    assert "is for bob to answer, not for ann" in page.answer({**page.form(), "action": "approve"})
    assert "deploy" in page.get()


def test_a_question_is_answered_by_an_option_or_a_text(shared: SharedTask, page: PageInMemory) -> None:
    """The chosen option is recorded as it is stored; without a choice nothing is."""
    opened(shared)
    records = noted(shared)
    assert "no option is chosen" in send(page, item("question", "q1", "answer"))
    assert "no option is chosen" in send(page, item("question", "q1", "answer", option="2"))
    assert send(page, item("question", "q1", "answer", option="1")) == "Answered: Lock the table? no."
    (question,) = records.resolve(RECORD)["questionsForUser"]
    assert (question["answer"], question["answeredBy"]["id"]) == ("Lock the table? no", "ann")
    late = send(page, item("question", "q1", "answer", option="0"))
    assert late == "ann answered this before: Lock the table? no."


def test_a_question_without_options_takes_a_text(shared: SharedTask, page: PageInMemory) -> None:
    """An answer in the person's own words, which must have some; skipping needs a reason."""
    opened(shared)
    records = noted(shared, options=False)
    assert "the text is empty" in send(page, item("question", "q1", "answer", text="  "))
    assert "the text is empty" in send(page, item("question", "q1", "skip"))
    assert send(page, item("question", "q1", "answer", text="tonight")) == "Answered: tonight."
    assert records.resolve(RECORD)["questionsForUser"][0]["answer"] == "tonight"


def test_the_rest_of_a_record_is_answered(shared: SharedTask, page: PageInMemory) -> None:
    """Blocker, contested decision and resume point: each answer is recorded, and a second one changes nothing."""
    opened(shared)
    records = noted(shared)
    send(page, item("question", "q1", "skip", text="no matter"))
    assert "the text is empty" in send(page, item("blocker", "b1", "resolve"))
    assert send(page, item("blocker", "b1", "resolve", text="I did")) == "Resolved the blocker."
    assert send(page, item("blocker", "b1", "resolve", text="me too")) == "ann resolved this before: I did."
    assert send(page, item("decision", "d1", "accept", option="1")) == "Accepted the decision."
    late = send(page, item("decision", "d1", "override", text="other"))
    assert late == "This decision was settled before: Lock the table? otherwise (accepted)."
    assert send(page, item("resume-point", "go", "approve")).startswith("Approved: Lock the table? label")
    assert "ann approved this before" in send(page, item("resume-point", "go", "deny"))
    record = records.resolve(RECORD)
    assert record["decisions"][0]["description"] == "Lock the table? otherwise"
    assert record["resumePoints"][0]["approvedBy"]["id"] == "ann"
    assert "Nothing waits for you" in page.get()


def test_a_decision_can_be_written_anew(shared: SharedTask, page: PageInMemory) -> None:
    """A person may decide otherwise than all variants."""
    opened(shared)
    records = noted(shared)
    assert send(page, item("decision", "d1", "override", text="Do both")) == "Decided: Do both."
    assert records.resolve(RECORD)["decisions"][0]["description"] == "Do both"


@pytest.mark.parametrize(("action", "outcome"), [("done", "done"), ("not-done", "not-done")])
def test_a_call_in_doubt_is_settled(shared: SharedTask, page: PageInMemory, action: str, outcome: str) -> None:
    """The person's word on a call in doubt is recorded with their note; the second word is refused."""
    task = opened(shared)
    in_doubt(task)
    assert send(page, item("in-doubt", "c9", action, text="I looked")).startswith("Recorded: the call")
    settled = shared.last(kinds.EffectSettled)
    assert (settled.outcome, settled.note) == (outcome, "I looked")
    task.refresh()
    with pytest.raises(Exception, match="not in doubt"):
        settle_doubt(task, "c9", happened=True, by=BOB)
    happened = "happened" if outcome == "done" else "did not happen"
    assert send(page, item("in-doubt", "c9", action)) == f"You said just now that it {happened}: I looked."


@pytest.mark.parametrize(
    "fields",
    [
        {"kind": "nothing"},
        {"kind": "approval", "item": "k1", "task": "t1"},
        {"kind": "approval", "item": "k1", "task": "t1", "action": "burn"},
        {"kind": "approval", "item": "k1", "task": "t", "action": "approve"},
        {"kind": "approval", "item": "", "task": "../t1", "action": "approve"},
        {"kind": "question", "item": "q1", "record": "no such", "action": "skip", "text": "x"},
        {"kind": "question", "item": "q7", "record": RECORD, "action": "answer", "text": "x"},
        {"kind": "in-doubt", "item": "c1", "task": "t1", "action": "done"},
        {"kind": "approval", "item": "k1", "task": "t1", "action": "approve", "text": "x" * 2001},
    ],
)
def test_a_form_that_nobody_can_have_seen_records_nothing(
    shared: SharedTask, page: PageInMemory, fields: dict[str, str]
) -> None:
    """A made-up form is refused or answered with what is wrong, and no event is written."""
    asked(opened(shared))
    noted(shared)
    count = len(shared.events())
    sent = page.request("POST", "/answer", data={"csrf": page.access.form_token, **fields})
    if sent.status_code == 303:
        assert "Not recorded" in page.get(sent.headers["location"])
    else:
        assert sent.status_code == 400
    assert len(shared.events()) == count


def test_an_approval_is_revoked_until_a_call_used_it(shared: SharedTask, page: PageInMemory) -> None:
    """The inbox lists what was approved and not used; a revoked approval permits nothing, and a used one is no longer there."""
    task = opened(shared)
    asked(task, "k1")
    assert "Approved, not used yet" not in page.get()
    assert send(page, item("approval", "k1", "approve")) == "Approved: deploy. It runs once."
    assert "Approved, not used yet" in page.get()
    fields = {"csrf": page.access.form_token, "task": "t1", "item": "k1"}
    assert page.request("POST", "/revoke", data={**fields, "csrf": "x"}).status_code == 403
    sent = page.request("POST", "/revoke", data=fields)
    assert "Revoked: deploy. The agent has to ask again." in page.get(sent.headers["location"])
    task.refresh()
    assert not task.ledger.approvals["k1"].approved
    denied = shared.last(kinds.ConfirmDenied)
    assert (denied.approval, denied.via, denied.reason) == ("k1", "page", "approved, then revoked")
    assert "Approved, not used yet" not in page.get()

    asked(task, "k2", "pay")
    send(page, item("approval", "k2", "approve"))
    sent_call = kinds.ToolAllowed(call="c1", tool="pay", digest="1" * 64, effectful=True, approval="k2")
    task.commit(lambda _: [NewEvent(sent_call)])
    assert "Approved, not used yet" not in page.get()
    late = page.request("POST", "/revoke", data={**fields, "item": "k2"})
    assert "Not recorded: question k2 of task t1 is not open" in page.get(late.headers["location"])


def test_what_waits_is_searched(shared: SharedTask, page: PageInMemory) -> None:
    """By kind, tool, argument and goal; the title still counts all. The list names each call's argument."""
    task = opened(shared)
    for number, tool in enumerate(("deploy", "mail.send", "pay", "release.publish", "git.push")):
        asked(task, f"k{number}", tool, arguments=f'{{"to":"place {number}"}}')
    whole = page.get()
    assert whole.count("<article") == 5
    for words in ("MAIL", "place 1"):
        shown = page.get(f"/?q={words}")
        assert shown.count("<article") == 1
        assert "mail.send" in shown
        assert "1 of 5" in shown
        assert "<title>(5) Inbox" in shown
    assert page.get("/?q=Release").count("<article") == 5  # the goal
    assert "nothing that waits has this text" in page.get("/?q=nowhere")
    index = whole[whole.index('<nav class="index"') : whole.index("</nav>", whole.index('<nav class="index"'))]
    assert '<span>mail.send <span class="muted">place 1</span></span>' in index

"""What a person answers on the inbox page: from a form to the one use case that records it.

Owns: which answers each kind of item has, and what is said when somebody answered before. Must never: record an answer itself.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from adjourn.errors import AdjournError, NotFoundError, UsageError
from adjourn.knowledge.model import Tree
from adjourn.log import tool_name
from adjourn.store import Store
from adjourn.tasks import (
    AnsweredError,
    PersonsAnswer,
    answer_first,
    expire_dead_sessions,
    given_answer,
    settle_doubt,
)
from adjourn.text import ago
from adjourn.ui.page import Form, Notice
from adjourn.ui.site import Site

VIA: Final = "page"
"""How events name this way of answering."""
MAX_TEXT = 2_000
_WAYS = {
    "cli": "in a terminal",
    "terminal": "in a terminal",
    VIA: "on this page",
    "elicitation:accept": "in the client",
}


def answer_item(site: Site, form: Form) -> Notice:
    """Record an answer. The form has `kind`, `id`, `task` or `record`, `action`, and what the action needs."""
    store = site.find_store()
    if store is None:
        raise NotFoundError("there is no store any more", "start a session behind `adjourn proxy`")
    rule = _RULES.get(form.get("kind", ""))
    if rule is None:
        raise UsageError("the form names nothing that can be answered", "reload the page")
    if len(form.get("text", "")) > MAX_TEXT:
        raise UsageError(f"the text has more than {MAX_TEXT:,} characters", "shorten it")
    try:
        return rule(site, store, form)
    except AdjournError as error:
        return Notice(f"Not recorded: {error.message}.", "bad", error.remedy)


def _approval(site: Site, store: Store, form: Form) -> Notice:
    yes = _choice(form, "approve", "deny") == "approve"
    task = site.task(store, form.get("task", ""), writable=True)
    given = PersonsAnswer(yes, VIA, site.person, _text(form))
    try:
        asked = answer_first(task, form.get("id", ""), given)
    except (AnsweredError, NotFoundError):
        before = given_answer(store, task.ledger, form.get("id", ""))
        if before is None:
            raise
        return _too_late(site, before)
    what = tool_name(asked)
    if not yes:
        return Notice(f"Denied: {what}.", "plain")
    if asked.refused:
        return Notice(f"Approved: {what}. It runs once the agent repeats the call.")
    return Notice(f"Approved: {what}. It runs once.")


def _too_late(site: Site, before: PersonsAnswer) -> Notice:
    who = "You" if before.by.id == site.person.id else before.by.id
    said = "approved" if before.yes else "denied"
    way = _WAYS.get(before.via, "in the client")
    because = f": {before.reason}" if before.reason else ""
    return Notice(f"{who} {said} this {way}, {ago(before.at, site.clock())}{because}.", "plain")


def _question(site: Site, store: Store, form: Form) -> Notice:
    records, record, name = site.records(store), form.get("record", ""), form.get("id", "")
    if _choice(form, "answer", "skip") == "skip":
        records.skip_question(record, name, _text(form, "Say why you skip the question."), site.author)
        return Notice("Skipped the question.", "plain")
    question = _item(records.resolve(record), "questionsForUser", name)
    options = question.get("options", ())
    said = _option(form, options) if options else _text(form, "Write an answer.")
    try:
        records.answer_question(record, name, said, site.author)
    except AdjournError:
        now = _item(records.resolve(record), "questionsForUser", name)
        if now["status"] != "answered":
            raise
        return Notice(f"{now['answeredBy']['id']} answered this before: {now['answer']}.", "plain")
    return Notice(f"Answered: {said}.")


def _resume_point(site: Site, store: Store, form: Form) -> Notice:
    records, record, name = site.records(store), form.get("record", ""), form.get("id", "")
    yes = _choice(form, "approve", "deny") == "approve"
    point = _item(records.resolve(record), "resumePoints", name)
    if point["approvalStatus"] != "pending":
        by = point.get("approvedBy") or point.get("deniedBy") or {"id": "somebody"}
        return Notice(f"{by['id']} {point['approvalStatus']} this before.", "plain")
    if yes:
        records.approve_resume_point(record, name, site.author)
        return Notice(f"Approved: {point['label']}. Its steps may start once.")
    records.deny_resume_point(record, name, _text(form) or f"denied by {site.person.id}", site.author)
    return Notice(f"Denied: {point['label']}.", "plain")


def _decision(site: Site, store: Store, form: Form) -> Notice:
    records, record, name = site.records(store), form.get("record", ""), form.get("id", "")
    decision = _item(records.resolve(record), "decisions", name)
    if decision["status"] != "contested":
        return Notice(f"This decision was settled before: {decision['status']}.", "plain")
    if _choice(form, "accept", "override") == "override":
        text = _text(form, "Write the decision.")
        records.override_decision(record, name, text, site.author)
        return Notice(f"Decided: {text}.")
    variants = decision.get("variants", ())
    variant = _number(form, len(variants)) if variants else None
    records.settle_decision(record, name, "accepted", site.author, variant=variant)
    return Notice("Accepted the decision.")


def _in_doubt(site: Site, store: Store, form: Form) -> Notice:
    happened = _choice(form, "done", "not-done") == "done"
    task = site.task(store, form.get("task", ""), writable=True)
    expire_dead_sessions(task)
    settle_doubt(task, form.get("id", ""), happened=happened, by=site.person, note=_text(form))
    return Notice(f"Recorded: the call {'took effect' if happened else 'did not take effect'}.")


def _blocker(site: Site, store: Store, form: Form) -> Notice:
    _choice(form, "resolve")
    text = _text(form, "Say how it was resolved.")
    site.records(store).resolve_blocker(form.get("record", ""), form.get("id", ""), text, site.author)
    return Notice("Resolved the blocker.")


def _choice(form: Form, *choices: str) -> str:
    action = form.get("action", "")
    if action not in choices:
        raise UsageError("the form has no answer", "press one of the buttons")
    return action


def _text(form: Form, missing: str = "") -> str:
    """The text of a form; `missing` is what to do where it must have one."""
    text = form.get("text", "").strip()
    if missing and not text:
        raise UsageError("the text is empty", missing[0].lower() + missing[1:].rstrip("."))
    return text


def _option(form: Form, options: list[str]) -> str:
    return options[_number(form, len(options))]


def _number(form: Form, count: int) -> int:
    number = form.get("option", "")
    if not number.isascii() or not number.isdecimal() or int(number[:6]) >= count:
        raise UsageError("no option is chosen", "choose one of the options")
    return int(number)


def _item(record: Tree, collection: str, name: str) -> Tree:
    for one in record[collection]:
        if one["id"] == name:
            found: Tree = one
            return found
    raise NotFoundError(f"record {record['id']} has no {name!r} any more", "reload the page")


_RULES: Mapping[str, Callable[[Site, Store, Form], Notice]] = {
    "approval": _approval,
    "blocker": _blocker,
    "decision": _decision,
    "in-doubt": _in_doubt,
    "question": _question,
    "resume-point": _resume_point,
}

"""The meta-tools of a proxy: how tools/list shows them, to whom, and what each does."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection
from typing import Any

import msgspec

from adjourn.aex.match import spellings
from adjourn.clients.client import ClientContext
from adjourn.errors import AdjournError, InvalidError, sentences
from adjourn.host.process import Process
from adjourn.mcp import frames
from adjourn.relay.ports import StderrLog
from adjourn.relay.request import Request
from adjourn.tasks.session import Session
from adjourn.text.redact import redact_json, visible_json, visible_line, without_secrets

MAX_CHARACTERS = 5000
"""Of all definitions together, with their names, as compact JSON."""
_WRITES = {"destructiveHint": False, "openWorldHint": False}
_READS = {"readOnlyHint": True, "openWorldHint": False}


def _text_schema(description: str = "") -> dict[str, Any]:
    return {"type": "string"} | ({"description": description} if description else {})


def _texts_schema(description: str = "") -> dict[str, Any]:
    items: dict[str, Any] = {"type": "array", "items": {"type": "string"}}
    return items | ({"description": description} if description else {})


def _objects_schema(description: str) -> dict[str, Any]:
    """A list of objects whose members the description names: a third of the length of their schema."""
    return {"type": "array", "items": {"type": "object"}, "description": description}


def _tool(description: str, hints: dict[str, bool], /, *required: str, **properties: dict[str, Any]) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "object", "properties": properties}
    return {
        "description": description,
        "inputSchema": schema | ({"required": list(required)} if required else {}),
        "annotations": hints,
    }


DEFINITIONS: dict[str, dict[str, Any]] = {
    "aex.checkpoint": _tool(
        "Save the work for a later session of any client, at milestones and before you stop. What you leave out stays.",
        _WRITES,
        "name",
        name=_text_schema(),
        description=_text_schema("What is done"),
        mission=_text_schema("What the person wants"),
        progress=_objects_schema("Checklist: {text, status: done|in_progress|pending, note?}"),
        currentState=_texts_schema(),
        openQuestions=_texts_schema("For a person"),
        artifacts=_objects_schema("Files: {path, note?}"),
        resumptionPoint=_text_schema("First step of the next session"),
    ),
    "aex.resume": _tool(
        "Resume a checkpoint; call it first. The budget stays spent.",
        _WRITES,
        name=_text_schema("None: the only open task"),
        more=_text_schema("From an answer"),
    ),
    "aex.finish": _tool("The whole task is done: offer it to no later session.", _WRITES, summary=_text_schema()),
    "aex.rollback": _tool(
        "Go back to before the last destructive call, or to name: page, files. Without apply: preview.",
        _WRITES,
        name=_text_schema(),
        apply={"type": "boolean"},
    ),
    "aex.list_tasks": _tool("List task contracts and checkpoints.", _READS, more=_text_schema()),
    "aex.review_task": _tool(
        "Show what a task contract may do under the policy.", _READS, "task", task=_text_schema(".aex file")
    ),
    "adjourn.note": _tool(
        "Note what the next session must know. No secrets.",
        _WRITES,
        facts={
            "type": "array",
            "items": {"anyOf": [{"type": "string"}, {"type": "object"}]},
            "description": "Confirmed, or {fact, files?, env?, versions?: {}}, stale once these change",
        },
        assumptions=_texts_schema(),
        questions=_texts_schema("For you to find out"),
        goals=_texts_schema(),
        decisions=_objects_schema("{decision, because?, status?: accepted|tentative|rejected}"),
        learnings=_objects_schema(
            "{content, type?: insight|constraint|pattern|warning, source?: observation|failure|success|feedback, confidence?: 0-1}"
        ),
        goal=_text_schema(),
        status={"enum": ["in-progress", "completed", "failed"]},
        successCriteria=_texts_schema(),
        tags=_texts_schema(),
        resumePoints=_objects_schema("{label, when?, preconditions?, nextSteps?}"),
        blockers=_objects_schema("{description, blocks?: labels, resolution?}"),
        invariants=_objects_schema("{description, severity?: hard|soft, status?: holding|violated, evidence?}"),
        withdraw=_texts_schema("Wrong by now, in the words noted"),
        answers=_objects_schema("{question, answer}"),
    ),
    "adjourn.record": _tool(
        "Read this task's notes and answers. Without a section: which there are.",
        _READS,
        section=_text_schema(),
        more=_text_schema(),
    ),
    "adjourn.effect": _tool(
        "An effect elsewhere, once: claim it; if claimed, make it, say done or failed.",
        _WRITES,
        "action",
        "key",
        action={"enum": ["claim", "done", "failed", "look"]},
        key=_text_schema(),
        effect=_text_schema(),
        inputs={"type": "object"},
        outputs={"type": "object"},
    ),
    "adjourn.ask": _tool(
        "Ask a person, and keep working. Ask again in the same words to see the answer.",
        _WRITES,
        "question",
        question=_text_schema(),
        context=_text_schema(),
        options=_texts_schema("The only answers"),
        priority={"enum": ["blocking", "high", "medium", "low"]},
    ),
}


# --- who lists them, and how the client spells them

UNDOTTED_CLIENTS = ("claude-ai", "claude desktop", "copilot")
"""Clients that refuse tool names with a dot, by the beginning of their name."""


class MetaTools:
    """Lists and answers them. `errors`, `style` and `listing` are the values of --errors, --tool-names and --meta-tools. A `listing` of
    `never` is for one of several relays of a client, where another lists them and speaks of work to resume.
    """

    def __init__(
        self, context: ClientContext, report: StderrLog, *, errors: str, style: str, listing: str = "once"
    ) -> None:
        self._context = context
        self._sessions = context.sessions
        self._report = report
        self._errors = errors
        self._style = style
        self._once = listing == "once"
        self._is_mute = listing == "never"
        self.lister: Process | None = None
        """The other proxy of this client that lists them, as far as this one has been asked for its list."""

    def names(self) -> list[str]:
        """The names of all that the policy permits, as the client spells them: it may call each here, whoever lists them."""
        return [] if self._is_mute else [self._spelled(name) for name in self._permitted()]

    def to_list(self) -> list[dict[str, Any]]:
        """The definitions for an answer to tools/list, in order: those that no other proxy of this client has listed."""
        names = [] if self._is_mute else self._permitted()
        elsewhere: Collection[str] = ()
        self.lister = None
        if self._once and names:
            try:
                lister = self._context.served.become_lister(names)
            except AdjournError as error:  # twice is better than not at all
                self._report.event("store.error", str(error))
            else:
                if lister.process != self._context.process:
                    self.lister, elsewhere = lister.process, lister.tools
        return [{"name": self._spelled(name), **DEFINITIONS[name]} for name in names if name not in elsewhere]

    def _permitted(self) -> list[str]:
        return [name for name in DEFINITIONS if self._sessions.policy.judge_open(name).effect == "allow"]

    def notice(self) -> str:
        """The text for the `initialize` answer: which work can be resumed, and how; "" for none."""
        if self._is_mute or self._sessions.policy.judge_open("aex.resume").effect != "allow":
            return ""
        from adjourn.handover.session_brief import find_pending_work, instructions, nothing_pending

        try:
            work = find_pending_work(self._context)  # the upstream boots meanwhile
            if work is None:
                return nothing_pending(self._context)
            name, task = work.checkpoint.data.name, work.task.id
            self._report.event("pending", f"{name}, of task {task}: unless it is resumed, a new task starts")
            return instructions(self._context, work, self._spelled("aex.resume"))
        except AdjournError as error:  # reported again by the first call
            self._report.event("store.error", str(error))
            return ""

    def spelled(self, name: str) -> str:
        """How the client spells a meta-tool; "" for one that the policy does not permit."""
        return self._spelled(name) if self._sessions.policy.judge_open(name).effect == "allow" else ""

    def _spelled(self, name: str) -> str:
        undotted = self._context.client.lower().startswith(UNDOTTED_CLIENTS)
        return spellings(name)[1] if self._style == "underscored" or (self._style == "auto" and undotted) else name

    def handle(self, message: Request, name: str) -> bytes:
        """The response to a call of the meta-tool `name` (dotted)."""
        arguments = message.params.get("arguments") or {}
        try:
            answer = HANDLERS[name](self._context, without_nulls(arguments))
        except AdjournError as error:
            self._report.event("meta.failed", f"{name}: {error}")
            text = f"Meta-tool error: {sentences(error.message, error.remedy)}"
            text = visible_line(without_secrets(self._context.options.words(text)))
            if self._errors == "jsonrpc":
                return frames.error(message.id, frames.INTERNAL_ERROR, text)
            return frames.result(message.id, frames.tool_result(text, modern=message.modern, is_error=True))
        self._report.event("meta.handled", tool=name)
        if isinstance(answer, dict) and (unknown := _unknown(name, arguments)):
            answer["ignored"] = [*answer.get("ignored", []), *unknown]
        encoded = msgspec.json.encode(redact_json(answer))
        text = visible_json((encoded if name == "aex.resume" else msgspec.json.format(encoded, indent=2)).decode())
        return frames.result(message.id, frames.tool_result(text, modern=message.modern))


# --- what each of them does. Their imports take 0.1 s: not before one is called

Arguments = dict[str, Any]

MAX_ANSWER_BYTES = 256 * 1024
MAX_UNKNOWN = 5
"""Unknown arguments that an answer names."""
DONE = "done"
"""The status of a step that is done; as the whole `progress` of a checkpoint: the task is."""


def _checkpoint(context: ClientContext, arguments: Arguments) -> Any:
    from adjourn.checkpoints import save

    name, description = _text(arguments, "name"), _text(arguments, "description", "")
    is_done = arguments.get("progress") == DONE
    report = save.read_report(
        {member: value for member, value in arguments.items() if not (is_done and member == "progress")}
    )
    session = context.sessions.open()
    plans = isinstance(report.resumption_point, str) and report.resumption_point.strip() and not is_done
    reopened = plans and save.reopen(
        session.task, context.options.page_tree, note="a checkpoint says what comes next", session=session
    )
    saved = save.save_checkpoint(
        session.task,
        context.options.checkpoint_root,
        save.CheckpointRequest(name, description=description, said=report),
        session=session,
        tree=context.options.page_tree,
    )
    answer: dict[str, Any] = {"path": saved.folder, "message": f'Checkpoint "{name}" saved to {saved.folder}'}
    answer |= {"warnings": saved.notes} if saved.notes else {}
    if is_done:
        return answer | _finish(context, {"summary": description})
    if reopened:
        return answer | {"state": "active", "next": "The task was finished; your resumption point reopened it."}
    if session.task.ledger.finished:
        return answer | {"state": "finished"}
    if report.progress and all(step.status == DONE for step in report.progress):
        answer["next"] = "All progress is done. If the whole task is, call aex.finish."
    elif not plans:
        answer |= _missing(context, session, name)
    return answer


def _missing(context: ClientContext, session: Session, name: str) -> dict[str, Any]:
    """What the next session will not know of the next step, and the call that says it."""
    from adjourn.checkpoints.plans import read_report

    report = read_report(context.store, session.task.ledger.report)
    again = f'call aex.checkpoint again with {{"name": "{name}", "resumptionPoint": "..."}}'
    if isinstance(report.resumption_point, str) and report.resumption_point:
        return {
            "next": f"The next step is that of an earlier checkpoint: {report.resumption_point[:200]!r}. To change it, {again}."
        }
    if report.progress and any(step.status != DONE for step in report.progress):
        return {}
    return {"next": f"No next step is stated: to tell the next session, {again}."}


def _finish(context: ClientContext, arguments: Arguments) -> dict[str, Any]:
    from adjourn.checkpoints.save import finish

    note = _text(arguments, "summary", "")
    session = context.sessions.open()
    finished = finish(
        session.task, context.options.checkpoint_root, note=note, session=session, tree=context.options.page_tree
    )
    answer: dict[str, Any] = {
        "task": session.task.id,
        "state": "finished",
        "checkpoint": finished.checkpoint,
        "message": "No later session is offered this task. Calls still count in its budget; `adjourn tasks reopen` makes it active again.",
    }
    return answer | ({"warnings": finished.notes} if finished.notes else {})


def _resume(context: ClientContext, arguments: Arguments) -> Any:
    from adjourn.handover.resumption import resume

    name, more = _text(arguments, "name", ""), _text(arguments, "more", "")
    return resume(context, name).to_json(more, context.options.brief_bytes)


def _rollback(context: ClientContext, arguments: Arguments) -> dict[str, Any]:
    from adjourn.checkpoints import rollback

    options = context.options
    return rollback.for_agent(
        context.sessions.open(),
        options.root,
        options.page_tree,
        _text(arguments, "name", ""),
        apply=not is_preview("aex.rollback", arguments),
    )


def is_preview(tool: str, arguments: Arguments | None) -> bool:
    """Whether a call of a meta-tool changes nothing, and so needs nobody's permission."""
    return tool == "aex.rollback" and (arguments or {}).get("apply") in (None, False)


def _list_tasks(context: ClientContext, arguments: Arguments) -> Any:
    from adjourn.handover.client_sessions import session_rows
    from adjourn.handover.importing import list_tasks

    more, options = _text(arguments, "more", ""), context.options
    rows = session_rows(context)
    return list_tasks(context.store, options.root, home=options.home, limit=MAX_ANSWER_BYTES, more=more, sessions=rows)


def _review_task(context: ClientContext, arguments: Arguments) -> Any:
    from adjourn.aex.task_review import review
    from adjourn.handover.importing import SHARED_FOLDER, read_contract_file
    from adjourn.policy.contract import unsigned

    root, policy = context.options.root, context.sessions.policy
    within = SHARED_FOLDER if context.options.home else ""
    path, text = read_contract_file(root, _text(arguments, "task"), within)
    source = os.path.relpath(path, root)
    return review(text, source, policy, unsigned(os.path.realpath(root), path, text, policy, source))


def _note(context: ClientContext, arguments: Arguments) -> Any:
    from adjourn.knowledge.records import agent_notes
    from adjourn.knowledge.records.dependencies import around_here

    note, session = agent_notes.read_note(arguments), context.sessions.open()
    tree = "" if context.options.home else context.options.page_tree
    result = agent_notes.add(session, note, around_here(tree, session.task.secret))
    answer: dict[str, Any] = {
        "record": result.record["id"],
        "version": result.record["sequence"],
        "added": result.added,
    }
    return answer | {name: of for name, of in (("revised", result.revised), ("ignored", result.ignored)) if of}


def _record(context: ClientContext, arguments: Arguments) -> Any:
    from adjourn.handover.record_sections import describe_record, read_section_request
    from adjourn.knowledge.records.dependencies import around_here

    request, options = read_section_request(arguments), context.options
    tree = "" if options.home else options.page_tree
    return describe_record(context.store, context.task.current(), request, around_here(tree, context.secret))


def _ask(context: ClientContext, arguments: Arguments) -> Any:
    from adjourn.knowledge.records import agent_notes

    record, question = agent_notes.ask(context.sessions.open(), agent_notes.read_question(arguments))
    answer = {"record": record["id"], "question": question["id"], "status": question["status"]}
    if question["status"] == "answered":
        return answer | {"answer": question["answer"], "answeredBy": question["answeredBy"]["id"]}
    return answer | {"message": f"A person answers it with `adjourn answer {question['id']} ANSWER`."}


def _effect(context: ClientContext, arguments: Arguments) -> Any:
    from adjourn.knowledge.records import agent_effects

    request = agent_effects.read_effect(arguments)
    return agent_effects.act(context.sessions.open(), request)


def without_nulls(arguments: Arguments) -> Arguments:
    """The arguments without members that are null, which means absent; so of the objects in their lists."""

    def without(members: Arguments) -> Arguments:
        return {name: value for name, value in members.items() if value is not None}

    return {
        name: [without(item) if isinstance(item, dict) else item for item in value]
        if isinstance(value, list)
        else value
        for name, value in without(arguments).items()
    }


def _unknown(tool: str, arguments: Arguments) -> list[str]:
    """What a call gives that the tool has no such argument for: some clients add arguments, so it is said, and not refused."""
    known = DEFINITIONS[tool]["inputSchema"]["properties"]
    names = [name[:80] for name in arguments if name not in known]
    return [
        f"{name}: not an argument of {tool}, which has {', '.join(known) or 'none'}" for name in names[:MAX_UNKNOWN]
    ]


def _text(arguments: Arguments, name: str, default: str | None = None) -> str:
    value = arguments.get(name, default)
    if not isinstance(value, str):
        raise InvalidError(f"{name} {'is missing' if value is None else 'is not a string'}", f"pass a string as {name}")
    return value


HANDLERS: dict[str, Callable[[ClientContext, Arguments], Any]] = {
    "aex.checkpoint": _checkpoint,
    "aex.resume": _resume,
    "aex.finish": _finish,
    "aex.rollback": _rollback,
    "aex.list_tasks": _list_tasks,
    "aex.review_task": _review_task,
    "adjourn.note": _note,
    "adjourn.record": _record,
    "adjourn.effect": _effect,
    "adjourn.ask": _ask,
}
"""By the dotted name. Each takes the client's context and the call's arguments, and raises `AdjournError`."""

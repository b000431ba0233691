"""What a notification says: as JSON, as one line, and as each kind of receiver takes it.

Titles, goals and ids are an agent's text. In a chat they stand in code, where no mention, link or markup counts.

Owns: these texts. Must never: send, or contain arguments unless the user asked for details.
"""

from __future__ import annotations

import msgspec

from adjourn.handover import WaitingItem
from adjourn.log import digest
from adjourn.text import fit_text, visible_line, visible_lines, without_secrets

MAX_TITLE = 200
MAX_DETAILS = 2_000
_KINDS = {
    "approval": "a call waits for approval", "question": "a question waits", "resume-point": "a resume point waits for approval",
    "in-doubt": "a call is in doubt", "decision": "a decision is contested", "blocker": "a blocker waits",
}  # fmt: skip


class Notification(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """Something that waits. `id` is the same in every delivery; `answer` the command that says yes, `workspace` the folder's name.

    `links` lead to it on the web page of this machine, by what one wants to do there.
    """

    id: str
    kind: str
    title: str
    task: str
    since: str
    workspace: str
    answer: str = ""
    cause: str = ""
    details: str = ""
    goal: str = ""
    links: dict[str, str] = {}
    priority: str = ""
    until: str = ""

    def without_details(self) -> Notification:
        """The same, without arguments and context."""
        return msgspec.structs.replace(self, details="")

    def line(self) -> str:
        """One line, whose first words are ours."""
        what = _KINDS.get(self.kind, "something waits")
        return f"adjourn: {what} in {self.workspace}: {self.title}" + (
            f" ({self.answer})" if self.answer else ""
        )


def id_of(item: WaitingItem) -> str:
    """The id of the notification of an item, the same at every look."""
    again = item.since if item.kind == "decision" else ""  # one decision may be contested twice
    named = f"{item.kind}\n{item.task}\n{item.record}\n{item.id}\n{again}"
    return f"msg_{digest(named.encode(errors='replace'))[:32]}"


def notification(item: WaitingItem, workspace: str, page: str = "") -> Notification:
    """The notification of an item. `page` is what links to the web page begin with; "" for none."""
    return Notification(
        id=id_of(item),
        kind=item.kind,
        title=_said(item.title),
        task=_said(item.task),
        since=item.since,
        workspace=_said(workspace),
        answer=_said(item.commands[0]) if item.commands else "",
        cause=_said(item.cause),
        details=fit_text(visible_lines(without_secrets(item.context)), MAX_DETAILS),
        goal=_said(item.goal),
        links=_links(item, page) if page else {},
        priority=_said(item.priority),
        until=item.until,
    )


def _links(item: WaitingItem, page: str) -> dict[str, str]:
    if item.kind not in ("approval", "resume-point"):
        return {"answer": f"{page}{item.key}"}
    return {action: f"{page}{item.key}-{action}" for action in ("approve", "deny")}


def sample(workspace: str, since: str) -> Notification:
    """A notification that tells of nothing, to try a target with."""
    return Notification(
        id=f"msg_{digest(since.encode())[:32]}",
        kind="test",
        title="this is a test; nothing waits",
        task="",
        since=since,
        workspace=_said(workspace),
    )


def body(told: Notification, form: str) -> bytes:
    """What a webhook gets: `standard` is the notification as JSON, the others what these chats take."""
    if form == "slack":
        return msgspec.json.encode(
            {"text": _chat(told).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")}
        )
    if form == "discord":
        return msgspec.json.encode({"content": _chat(told), "allowed_mentions": {"parse": []}})
    return msgspec.json.encode({"type": f"adjourn.waits.{told.kind}", "timestamp": told.since, "data": told})


def _chat(told: Notification) -> str:
    what = _KINDS.get(told.kind, "something waits")
    lines = [f"*adjourn*: {what} in {_code(told.workspace)}: {_code(told.title)}"]
    lines += [
        f"{name}: {_code(value)}"
        for name, value in (("goal", told.goal), ("why", told.cause), ("answer", told.answer))
        if value
    ]
    lines += [f"{action}: {link}" for action, link in told.links.items()]
    if told.details:
        lines.append("```\n" + told.details.replace("`", "'") + "\n```")
    return "\n".join(lines)


def _code(text: str) -> str:
    return "`" + (text.replace("`", "'") or " ") + "`"


def _said(text: str) -> str:
    return fit_text(visible_line(without_secrets(text[: 10 * MAX_TITLE])), MAX_TITLE)

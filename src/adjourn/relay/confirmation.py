"""Asking a person before a call continues: by elicitation in both eras, or by `adjourn approve` from another terminal.

Legacy clients get an `elicitation/create` request while the call is held; modern ones get an `input_required` result, if
the method has such results, whose `requestState` is sealed, expires, is bound to task, tool and arguments, and serves
once (the ledger sees to that), so that it survives a restart of this proxy. Decline, cancel, silence: the call is
refused; a person may still approve it from a terminal until the question expires, and the repeated call then passes.

A question for one person by name is only put to them at a terminal: an elicitation does not say who answered.

Owns: held calls, the questions' wording, sealed states. Must never: approve anything itself.
"""

from __future__ import annotations

import hmac
from binascii import a2b_base64
from os import urandom
from typing import Any, NamedTuple

import msgspec

from adjourn.checkpoints.triggers import GuardedSession
from adjourn.errors import AdjournError, NotFoundError
from adjourn.log.event import SYSTEM, Actor, milliseconds, timestamp
from adjourn.log.kinds import tool_name
from adjourn.log.signing import encode_bytes
from adjourn.mcp import frames
from adjourn.mcp.frames import Message
from adjourn.relay.request import STATE_PREFIX, Connection, Request, is_ours
from adjourn.tasks.approvals import BY_A_PERSON, about, answer
from adjourn.tasks.decision import Block, ToolRequest
from adjourn.tasks.entries import AFTER_NO, Approval
from adjourn.tasks.ledger import ELSEWHERE
from adjourn.text.fitting import ELLIPSIS
from adjourn.text.redact import visible_line, without_secrets

QUESTION_KEY = "adjourn-confirm"
POLL_SECONDS = 0.2
MAX_HELD = 1000
PERSON = Actor("client-user", "human")
"""Who answers in the client's dialog where nobody has authenticated."""
CLIENT = Actor("client", "system")
"""Answers that no person need have given: clients decline by themselves when they have nobody to ask, and give calls up."""


class SealedState(msgspec.Struct, frozen=True):
    """What a sealed requestState says."""

    approval: str
    digest: str
    expires: str
    task: str
    tool: str
    params: str = ""


class HeldCall:
    """A call that waits for a person: its request, the question, and until when it waits."""

    __slots__ = ("approval", "deadline", "question", "request", "seconds", "session")

    def __init__(
        self, request: Request, approval: Approval, session: GuardedSession, seconds: float, now: float
    ) -> None:
        """`now` is the time of the relay's loop."""
        self.request = request
        self.approval = approval
        self.session = session
        self.question = ""
        """The id of the request that asks the client, if it is asked."""
        self.seconds = seconds
        self.deadline = now + seconds


class Answered(NamedTuple):
    """A call that is held no longer: it may be decided on again, or is `refused`, which says why.

    `spare`: a person said yes in the call's own dialog, to a question that was approved for another call.
    """

    held: HeldCall
    refused: str = ""
    spare: bool = False


class Confirmations:
    """`seconds` is how long a call waits; None: no call can wait, and nobody is asked through the client."""

    def __init__(self, connection: Connection, *, seconds: int | None) -> None:
        self._connection = connection
        self._context = connection.context
        self._seconds = seconds
        self._held: dict[Any, HeldCall] = {}
        self._questions: dict[str, HeldCall] = {}
        """What an approval covers: the very call, as another may come to have its id."""
        self._elicits = False
        principal = connection.context.options.principal
        self._is_person = principal is None or principal.type == "human"
        """A service cannot say yes to its own calls: nobody is asked through it."""
        self._person = PERSON if principal is None else Actor(principal.shown, "human")
        self._nonce = f"adjourn-{urandom(6).hex()}-"
        self._count = 0

    def legacy_capabilities(self, capabilities: object) -> None:
        """Take in what a client of the handshake revisions says that it can do."""
        self._elicits = _has_elicitation(capabilities)

    def holds(self, request_id: object) -> bool:
        return request_id in self._held

    @property
    def waiting(self) -> bool:
        return bool(self._held)

    # --- asking

    def ask(self, request: Request, approval: Approval, session: GuardedSession, within: int | None = None) -> None:
        """Put the question. The call is answered (modern) or held (otherwise) when this returns.

        It is held as long as the rule says (`within`, milliseconds), else as long as --confirm-timeout says; not at all if that is None.
        """
        self._connection.report.event(
            "confirm.required",
            f"{tool_name(approval)} {approval.arguments} — approve with: adjourn approve {approval.id}",
            tool=approval.tool,
            approval=approval.id,
            cause=approval.cause,
        )
        if self._seconds is None:  # a retry finds the answer
            held = HeldCall(request, approval, session, 0, self._connection.loop.time())
            block = self.refusal(held, "nobody has answered yet")
            self._answer(request, self._connection.refusal(request, block))
            return
        at_client = not approval.who and self._is_person
        may_ask = request.method in frames.ASKING and _has_elicitation(request.meta.get(frames.META_CAPABILITIES))
        if request.modern and may_ask and at_client:
            result = {
                "resultType": "input_required",
                "inputRequests": {
                    QUESTION_KEY: {"method": "elicitation/create", "params": _form(approval, session.task.id)}
                },
                "requestState": self._seal(approval, session.task.id),
            }
            self._answer(request, frames.result(request.id, result))
            return
        seconds = self._seconds if within is None else self._left(approval)
        held = HeldCall(request, approval, session, seconds, self._connection.loop.time())
        if len(self._held) >= MAX_HELD:
            block = self.refusal(held, "too many calls are waiting for a person")
            self._answer(request, self._connection.refusal(request, block))
            return
        self._held[request.id] = held
        if self._elicits and not request.modern and at_client:
            self._count += 1
            held.question = f"{self._nonce}{self._count}"
            self._questions[held.question] = held
            form = _form(approval, session.task.id)
            self._connection.client.send(frames.request(held.question, "elicitation/create", form), request)

    def _answer(self, request: Request, line: bytes) -> None:
        if out := self._connection.answer(request, line):
            self._connection.client.send(out)

    def has_asked(self, request_id: object) -> bool:
        """Whether an id is that of one of our questions, also of one that waits no more."""
        return isinstance(request_id, str) and request_id.startswith(self._nonce)

    def answered_by(self, message: Message) -> list[Answered]:
        """What a client's answer to one of our questions comes to."""
        held = self._questions.pop(str(message.id), None)
        result = message.body.get("result")
        if held is None or not isinstance(result, dict):
            return []  # the client could not ask; a person at a terminal still can answer
        yes, action = _consents(result)
        spare = yes and self._is_approved(held)
        if not spare:
            self._record(held, yes=yes, via=f"elicitation:{action}", by=self._answered_by(action))
        return [self._let_go(held, "" if yes else f"the answer was {action}")._replace(spare=spare)]

    def _is_approved(self, held: HeldCall) -> bool:
        """Whether the question of a held call was already approved for another call like it."""
        try:
            approval = held.session.task.refresh().approvals.get(held.approval.id)
        except AdjournError:
            return False
        return approval is None or approval.approved

    def take_answer(self, message: Request, call: ToolRequest) -> Block | None:
        """Record the answer that a retried modern call brings. Returns why it is refused, if it is."""
        state = message.params.get("requestState")
        if not isinstance(state, str) or not is_ours(state):
            return None
        try:
            sealed = self._unseal(state)
        except (ValueError, msgspec.DecodeError):
            sealed = None
        if sealed is None or (sealed.tool, sealed.digest, sealed.params) != (
            call.tool, call.digest, call.params,
        ):  # fmt: skip
            return Block("confirm_required", "the requestState is not one for this call", "repeat the call without it")
        responses = message.params.get("inputResponses")
        response = responses.get(QUESTION_KEY) if isinstance(responses, dict) else None
        response = response.get("result", response) if isinstance(response, dict) else None
        yes, action = _consents(response) if isinstance(response, dict) else (False, "none")
        try:
            session = self._connection.sessions.open(sealed.task)
            open_now = session.task.refresh().approvals.get(sealed.approval)
            if open_now is not None and open_now.refused == ELSEWHERE:
                return None
            if open_now is not None and open_now.refused:  # a replay does not turn a denial into an approval
                reason = f'tool "{call.tool}" was not confirmed: {_said_no(open_now)}'
                by_person = open_now.refused in BY_A_PERSON
                return Block("confirm_required", reason, AFTER_NO if by_person else _later(sealed.approval))
            approval = answer(
                session.task,
                sealed.approval,
                yes=yes,
                via=f"elicitation:{action}",
                by=self._answered_by(action),
                session=session.id,
            )
        except AdjournError as error:
            return Block("confirm_required", error.message, error.remedy)
        if yes:
            return None
        return Block(
            "confirm_required",
            f'tool "{call.tool}" requires confirmation ({approval.cause}), and the answer was {action}',
            AFTER_NO if action == "no" else _later(sealed.approval),
        )

    def _answered_by(self, action: str) -> Actor:
        """Who gave the answer of an elicitation: a person filled in the form, or whoever closed it."""
        return self._person if action in ("accept", "no") else CLIENT

    # --- waiting

    def cancelled(self, request_id: object) -> bool:
        """The client gave up a held call, if it is one; it will not be forwarded."""
        held = self._held.get(request_id)
        if held is None:
            return False
        self._let_go(held, "")
        self._record(held, yes=False, via="cancelled", by=CLIENT)
        self._answer(held.request, b"")
        return True

    def poll(self) -> list[Answered]:
        """Look for answers from elsewhere, and for calls that have waited long enough."""
        answered = (self._look(held) for held in list(self._held.values()))
        return [answer_to for answer_to in answered if answer_to is not None]

    def _look(self, held: HeldCall) -> Answered | None:
        try:
            approval = held.session.task.refresh().approvals.get(held.approval.id)
        except AdjournError as error:
            return self._let_go(held, f"the store failed: {error.message}")
        if approval is None or approval.approved:
            if not self._is_for_another(held, approval):
                return self._let_go(held, "")
        elif approval.refused == ELSEWHERE:
            return self._let_go(held, "")
        elif approval.refused:
            return self._let_go(held, _said_no(approval))
        return self._silence(held) if self._connection.loop.time() >= held.deadline else None

    def _is_for_another(self, held: HeldCall, approval: Approval | None) -> bool:
        """Whether an approval releases another held call like this one, which has a dialog of its own and waits for the answer to that."""
        if held.question not in self._questions:
            return False
        first = next(other for other in self._held.values() if other.approval.id == held.approval.id)
        return approval is None or first is not held

    def ask_again(self, answered: Answered, approval: Approval) -> bool:
        """Take the newer question about a call that was released: another call like it has used the approval. Returns whether a spare
        yes answers it: one that is about the same, and came before the first question expired.
        """
        held, before = answered.held, answered.held.approval
        held.approval = approval
        if not answered.spare or about(before) != about(approval) or self._left(before) <= 0:
            return False
        self._record(held, yes=True, via="elicitation:accept", by=self._person)
        return True

    def _silence(self, held: HeldCall) -> Answered:
        """Nobody has answered a held call in its time: refuse it, or let it continue where that is what silence means."""
        nobody = f"nobody answered within {held.seconds:.0f} s"
        if held.approval.otherwise == "deny":
            self._record(held, yes=False, via="timeout", by=SYSTEM)
            return self._let_go(held, nobody)
        if self._left(held.approval) > 0:  # the question stays; a no would be one that nobody said
            return self._let_go(
                held, f"{nobody}; repeat the call after {held.approval.expires}: it is then allowed without an answer"
            )
        return self._let_go(held, "")

    def _left(self, approval: Approval) -> float:
        return max(0, milliseconds(approval.expires) - self._context.clock()) / 1000

    def give_up(self, why: str) -> list[Answered]:
        """Hold no call any longer: the session ends."""
        return [self._let_go(held, why) for held in list(self._held.values())]

    def _record(self, held: HeldCall, *, yes: bool, via: str, by: Actor) -> None:
        session = held.session
        try:
            answer(session.task, held.approval.id, yes=yes, via=via, by=by, session=session.id)
        except NotFoundError:
            pass  # answered elsewhere at the same time
        except AdjournError as error:
            self._connection.report.event("store.error", str(error))

    def _let_go(self, held: HeldCall, refused: str) -> Answered:
        """Stop holding it; later answers to its question are dropped."""
        del self._held[held.request.id]
        self._questions.pop(held.question, None)
        return Answered(held, refused)

    def refusal(self, held: HeldCall, why: str) -> Block:
        """That a held call is refused, and why."""
        approval = held.approval
        self._connection.report.event("confirm.denied", why, tool=approval.tool, approval=approval.id)
        message = f'tool "{approval.tool}" requires confirmation ({approval.cause}), and {why}'
        expired = approval.expires <= timestamp(self._context.clock())
        now = held.session.task.ledger.approvals.get(approval.id)
        if now is not None and now.refused in BY_A_PERSON:
            remedy = AFTER_NO
        else:
            remedy = _later(approval.id) if now is not None and not expired else "repeat the call to ask again"
        return Block("confirm_required", message, remedy)

    # --- sealed states

    def _seal(self, approval: Approval, task: str) -> str:
        state = SealedState(approval.id, approval.digest, approval.expires, task, approval.tool, approval.params)
        text = encode_bytes(msgspec.json.encode(state))
        return f"{STATE_PREFIX}{text}.{self._mac(text)}"

    def _unseal(self, state: str) -> SealedState | None:
        text, _, mac = state[len(STATE_PREFIX) :].rpartition(".")
        if not state.isascii() or not hmac.compare_digest(mac, self._mac(text)):
            return None
        sealed = msgspec.json.decode(a2b_base64(text), type=SealedState)
        return sealed if sealed.expires > timestamp(self._context.clock()) else None

    def _mac(self, text: str) -> str:
        return hmac.digest(self._context.secret, b"adjourn/state/1:" + text.encode(), "sha256").hex()


def _said_no(approval: Approval) -> str:
    """That a question was answered with no: by a person, in their words, or by a client."""
    if approval.refused not in BY_A_PERSON:
        return f"it was refused ({approval.refused})"
    return "a person refused it" + (f', and said "{without_secrets(approval.reason)}"' if approval.reason else "")


def _later(approval: str) -> str:
    return f"a person can still run `adjourn approve {approval}`; then repeat the very same call"


def _has_elicitation(capabilities: object) -> bool:
    return isinstance(capabilities, dict) and isinstance(capabilities.get("elicitation"), dict)


def _form(approval: Approval, task: str) -> dict[str, Any]:
    text = f"Allow {tool_name(approval)} {approval.arguments}? ({approval.cause}; task {task}, question {approval.id})"
    if ELLIPSIS in approval.arguments:
        text += " The arguments are not shown in full; approval covers all of them."
    return {
        "mode": "form",
        "message": visible_line(without_secrets(text)),
        "requestedSchema": {
            "type": "object",
            "properties": {
                "approve": {"type": "boolean", "title": visible_line(f"Approve {tool_name(approval)}"), "default": True}
            },
        },
    }


def _consents(result: dict[str, Any]) -> tuple[bool, str]:
    """Whether an elicitation result says yes, and its action. Only an accept without a contrary `approve` does."""
    action = result.get("action")
    content = result.get("content")
    approve = content.get("approve", True) if isinstance(content, dict) else True
    if action == "accept":
        return approve is True, "accept" if approve is True else "no"
    return False, action if action in ("decline", "cancel") else "none"

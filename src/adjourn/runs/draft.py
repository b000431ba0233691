"""Draft a contract with a model: ask for it, check it against the policy, ask again with the findings, and save it.

Must never: call a draft valid that the policy refuses, write outside of `.aex/runs/` except to a path that a person
gave, replace a file, run a draft.
"""

from __future__ import annotations

import os
import string
import time

import msgspec

from adjourn.aex.check import examine
from adjourn.aex.diagnostics import DIAGNOSTICS, render
from adjourn.aex.task_review import refused_of
from adjourn.aex.templates import safe_name, sample_task
from adjourn.errors import InvalidError, StoreError, UsageError
from adjourn.findings import Finding
from adjourn.host.workspace import create_file, make_folder
from adjourn.policy.contract import Contract
from adjourn.runs.model import Completion, Model

RUNS = ".aex/runs"
MAX_REQUEST = 100_000
"""Characters of a request."""
MAX_RETRIES = 10
MAX_NAME = 64
_MAX_FAULTS = 20
_DERIVED_NAME = 30
_WORDS_IN_NAME = 4
_STOP_WORDS = frozenset((
    "a", "an", "the", "this", "that", "it", "is", "be", "and", "or", "of", "to", "in", "on", "for", "with", "from",
    "by", "my", "our", "me", "please",
))  # fmt: skip


class Draft(msgspec.Struct, frozen=True, kw_only=True):
    """A drafted contract. `refused` are the findings that prevent a run; `findings` are all, those included."""

    name: str
    text: str
    refused: list[Finding]
    findings: list[Finding]
    model: str
    attempts: int

    @property
    def valid(self) -> bool:
        return not self.refused


def draft(request: str, model: Model, *, name: str = "", policy: Contract | None = None, max_retries: int = 1) -> Draft:
    """Ask a model for a contract, up to `max_retries` times again with the findings. Returns the last draft, valid or not.

    Raises `UsageError` for an empty or too long request, `ModelError` if the model does not answer.
    """
    if not request.strip():
        raise UsageError("the request is empty", "describe the goal of the task")
    if len(request) > MAX_REQUEST:
        raise UsageError(f"the request is too long (limit {MAX_REQUEST:,} characters)", "shorten it")
    if not 0 <= max_retries <= MAX_RETRIES:
        raise UsageError(f"invalid number of retries: {max_retries}", f"use 0 to {MAX_RETRIES}")
    called = safe_name(name)[:MAX_NAME] if name else name_for(request)
    policy_text = policy.policy_text if policy else ""
    version_1 = examine(policy_text).is_v1
    system = system_prompt(policy_text, version_1=version_1)
    prompt = request
    for attempt in range(1, max_retries + 2):
        answer = model.complete(system, prompt)
        drafted = _judged(answer, called, policy, version_1=version_1, attempt=attempt)
        if drafted.valid:
            break
        faults = "\n".join(render(fault, drafted.text) for fault in drafted.refused[:_MAX_FAULTS])
        prompt = (
            f"{request}\n\nYour last answer was:\n\n{drafted.text}\nIt is refused:\n\n{faults}\n\n"
            "Answer with the whole contract, corrected."
        )
    return drafted


def _judged(answer: Completion, name: str, policy: Contract | None, *, version_1: bool, attempt: int) -> Draft:
    text = headed(unfenced(answer.text), name, version_1=version_1)
    document = examine(text, f"{name}.aex")
    beyond = refused_of(document, policy.policy if policy else None)
    errors = [fault for fault in document.findings if fault.severity == "error"]
    return Draft(
        name=name,
        text=text,
        refused=errors + beyond,
        findings=document.findings + beyond,
        model=answer.model,
        attempts=attempt,
    )


def unfenced(answer: str) -> str:
    """The text in the first code fence of an answer; without a fence, the whole answer. Ends with a line feed."""
    text = answer.encode(errors="replace").decode()  # UTF-8 has no lone surrogates
    lines = text.replace("\r\n", "\n").strip().split("\n")
    fences = [number for number, line in enumerate(lines) if line.strip().startswith("```")]
    if fences:
        lines = lines[fences[0] + 1 : fences[1] if len(fences) > 1 else None]
    return "\n".join(lines).strip() + "\n"


def headed(text: str, name: str, *, version_1: bool = False) -> str:
    """The text with its first header line replaced by `task NAME v0`, or with that line added.

    `version_1`: a header with `v1` keeps its version.
    """
    header = next(iter(examine(text).headers), None)
    if header is None:
        return f"task {name} v0\n\n{text}"
    lines = text.split("\n")
    lines[header.line.line - 1] = f"task {name} v{1 if version_1 and header.version == '1' else 0}"
    return "\n".join(lines)


def name_for(request: str) -> str:
    """A name from the first significant words of a request: at most 30 letters, digits and underscores."""
    words = (word.strip(string.punctuation).lower() for word in request.split())
    kept = (
        "".join(char for char in word if char.isascii() and char.isalnum()) for word in words if word not in _STOP_WORDS
    )
    name = "_".join([word for word in kept if word][:_WORDS_IN_NAME])[:_DERIVED_NAME].strip("_")
    return name or "generated_task"


def save(draft: Draft, root: str, at: time.struct_time, out: str = "") -> str:
    """Write a draft to a new file, and return its path: `out`, or one in `.aex/runs/` with the time `at` and its name.

    Never replaces a file, and follows no symbolic link at `.aex/runs/`. Raises `RefusedError`, `InvalidError`, `StoreError`.
    """
    data = draft.text.encode()
    if out:
        if not create_file(os.path.dirname(out) or ".", os.path.basename(out), data):
            raise InvalidError(f"{out} already exists", "name another file with --out")
        return out
    folder = make_folder(root, RUNS)
    stem = f"{time.strftime('%Y%m%d-%H%M%S', at)}-{draft.name}"
    for name in (f"{stem}.aex", *(f"{stem}-{number}.aex" for number in range(2, 100))):
        if create_file(folder, name, data):
            return f"{RUNS}/{name}"
    raise StoreError(f"too many drafts in {RUNS} within one second", "retry")


# --- the system prompt for drafting a task

STATEMENTS = {
    "task": "task NAME v0                            the first line; NAME: letters, digits, _ and -",
    "goal": 'goal "WHAT IS TO BE REACHED"',
    "use": "use TOOL, TOOL                          every tool that a step calls, and no other",
    "deny": "deny TOOL, PREFIX.*                     what must not be called, whatever a step says",
    "need": "need NAME: TYPE                         an input that the person who starts the run gives",
    "budget": "budget calls=NUMBER                     calls and makes in all, each turn of a loop included",
    "confirm": "confirm before TOOL                     a person is asked at every call of it",
    "do": "do TOOL(argument=VALUE, …) -> NAME      calls a tool; NAME holds its result",
    "make": "make NAME: KIND from INPUT with:         a model writes NAME from the inputs; then lines like\n"
    "  - ONE INSTRUCTION",
    "check": "check CONDITION                         ends the run when it does not hold",
    "if": "if CONDITION                            then its body, indented by two spaces",
    "for": "for NAME in LIST                        then its body, indented by two spaces",
    "return": "return VALUE                            ends the run with its result; { key: VALUE, … } for several",
}
"""A description of each statement of a task."""

_OF_A_RUN = ("AEX030", "AEX031")

_ROLE = """\
You turn a request into one task contract in the language aex. The contract says what is to be reached, which tools may be \
called, and by which steps. A program checks it, a person reviews it, and only then it is run, step by step, as it stands.

Answer with the contract and nothing else: no introduction, no explanation, no code fence."""

_LANGUAGE = """\
# The language

One statement is one line. A comment is a line of its own that starts with #. Steps run from top to bottom.

{statements}

VALUE is a text in double quotes, a number, true, false, a list [a, b], an object {{key: VALUE}}, or the name of an input or \
a result, with a dotted path into it. What stands in quotes is never a name.
CONDITION: {conditions}.
TYPE: {types}.
TOOL: {patterns}."""

_RULES = """\
# Rules

- Ask for the least: name single tools where you can, and only those that a step calls.
- Take as an input (`need`) what the request does not tell. Invent no path, command, address or name.
- Look before you change: read what a step needs, and check what was made before it is used.
- Put a `confirm before` on each tool that changes, sends, deletes, releases or spends something.
- Give a budget that the steps keep to.
- End with a `return` that tells what was done.

A contract is refused for any of these; so:

{faults}"""

_POLICY = """\
# The policy in force

Each tool in `use` must be allowed by it in full, and nothing that it denies may be called: a contract that asks for more is \
refused. Where the request cannot be met under it, draft the part that can.

{policy}"""

_NO_POLICY = """\
# The policy in force

There is none: what you name in `use` is all that will be permitted."""

_VERSION_1 = """
The policy is of version 1. A task may be headed `task NAME v1` to use the same forms: what the policy's lines show."""

_EXAMPLES = """\
# Two examples

Request: Make the failing test pass.

{first}
Request: Tell for each of these reports whether it names a file that is there, and answer the urgent ones.

{second}"""

SECOND_EXAMPLE = """\
task answer_urgent_reports v0

goal "Look at each report, and answer those that are urgent."

use file.read, tracker.reply

need reports: list[json]

budget calls=40

confirm before tracker.reply

for report in reports
  do file.read(paths=[report.file]) -> content
  if report.urgent
    make answer: str from report, content with:
      - two sentences, without a promise
    do tracker.reply(id=report.id, text=answer)

return {
  status: "answered",
  reports: reports
}
"""


def system_prompt(policy_text: str, *, version_1: bool = False) -> str:
    """The system prompt for the model. An empty `policy_text`: there is no policy."""
    faults = [
        entry
        for entry in DIAGNOSTICS.values()
        if entry.severity == "error" and entry.code < "AEX130" and entry.code not in _OF_A_RUN
    ]
    policy = _POLICY.format(policy=policy_text.rstrip()) if policy_text else _NO_POLICY
    parts = (
        _ROLE,
        _LANGUAGE.format(
            statements="\n".join(STATEMENTS.values()),
            conditions=DIAGNOSTICS["AEX044"].help,
            types=DIAGNOSTICS["AEX032"].help,
            patterns=DIAGNOSTICS["AEX041"].help,
        ),
        _RULES.format(faults="\n".join(f"- {entry.title}: {entry.help}." for entry in faults)),
        policy + (_VERSION_1 if version_1 else ""),
        _EXAMPLES.format(first=sample_task("fix_failing_test"), second=SECOND_EXAMPLE),
    )
    return "\n\n".join(parts)

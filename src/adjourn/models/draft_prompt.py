"""The system prompt for drafting a task: the model's role, the language, the rules, the policy in force, two examples.

Owns: that text. Keywords, types, conditions, findings and the sample task come from the package. Must never: ask a model.
"""

from __future__ import annotations

from adjourn.aex import DIAGNOSTICS, sample_task

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

One statement is one line. A comment is a line of its own that begins with #. Steps run from top to bottom.

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


def retry_prompt(request: str, draft: str, faults: str) -> str:
    """The request again, with the last answer and what is wrong with it."""
    return f"{request}\n\nYour last answer was:\n\n{draft}\nIt is refused:\n\n{faults}\n\nAnswer with the whole contract, corrected."

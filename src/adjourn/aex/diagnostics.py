"""The one table of diagnostics, the maker of findings and the text that shows one.

`python -m adjourn.aex.diagnostics` prints docs/reference/diagnostics.md.
"""

from __future__ import annotations

from typing import Literal

import msgspec
from msgspec.structs import replace

from adjourn.findings import Finding, Span
from adjourn.text.fitting import fit_text
from adjourn.text.redact import is_seen

Severity = Literal["error", "warning"]
WHOLE = Span()
_CLIP = 60
_OF_NO_TEXT = frozenset(("AEX130", "AEX131", "AEX135", "AEX150"))
"""Findings that are about a file as a whole: their messages quote nothing of its text."""
_SHOWN = 100


class Diagnostic(msgspec.Struct, frozen=True):
    """What a code means. `severity` is the usual one; `either` says that it can be given as the other, too."""

    code: str
    severity: Severity
    title: str
    explanation: str
    help: str
    either: bool = False


_TABLE = (
    Diagnostic(
        "AEX001", "error", "No header",
        "The document has no `task`, `agent` or `policy` line. AEX100 reports the same from the parser.",
        "start the file with `task NAME v0` or `policy NAME v0`",
    ),
    Diagnostic(
        "AEX002", "error", "No goal",
        "There is no `goal`, or it is empty. AEX100 reports a missing line from the parser. A policy of version 1 needs none.",
        'add a line: goal "the result to reach"',
    ),
    Diagnostic(
        "AEX003", "error", "Task without return",
        "A run that reaches the end of its steps without a `return` is blocked.",
        "end the steps with `return` and the result",
    ),
    Diagnostic(
        "AEX004", "error", "Unknown version",
        "The number behind the name in the header is the version of the language, not of the document. There are versions 0 and 1, "
        "and a text such as `1.0` means version 0. What a later version means cannot be known, so nothing of it is taken.",
        "write `v0` or `v1` in the header",
    ),
    Diagnostic(
        "AEX010", "error", "Tool is not in `use`",
        "A `do` calls a tool that no `use` pattern of the contract names.",
        "add the tool to `use`, or remove the step",
    ),
    Diagnostic(
        "AEX011", "error", "Tool is denied",
        "A `do` calls a tool that a `deny` pattern of the contract names. A deny also matches other letter case and other separators.",
        "remove the step, or narrow the `deny`",
    ),
    Diagnostic(
        "AEX020", "error", "Unknown input of a `make`",
        "Each input of a `make` is the name of a `need`, or of what an earlier step bound with `->` or `make`. "
        "A name that a `for` body binds is unknown after it.",
        "declare it with `need`, or bind it in an earlier step",
    ),
    Diagnostic(
        "AEX030", "error", "Required input is missing",
        "A run was started without an input that the contract needs.",
        "give the input, or mark its type optional with `?`",
    ),
    Diagnostic(
        "AEX031", "error", "Input of the wrong type",
        "An input of a run has a value of another type than the contract declares.",
        "give a value of the declared type",
    ),
    Diagnostic(
        "AEX032", "error", "Unknown type",
        "Types are str, num, int, bool, file, url, json, `list[T]` of one of them, and `T?` for an input that "
        "may be absent.",
        "use str, num, int, bool, file, url, json, list[T] or T?",
    ),
    Diagnostic(
        "AEX040", "error", "Indented between two levels",
        "The line ends an `if` or `for` body, but is indented deeper than the `if` or `for` itself: "
        "it would run unconditionally although it looks conditional.",
        "indent it as far as the body, or as far as the line that opens the body",
    ),
    Diagnostic(
        "AEX041", "error", "Never matches anything",
        "A pattern is `*`, `prefix.*` or one tool name, optionally with `:scope`. Tool names are 1 to 128 "
        "letters, digits, `_`, `.`, `-` and `/`. Anything else would permit, deny or ask for nothing. "
        "The tool of a `do` is one name, without `*`: a warning where the step may be skipped.",
        "write `*`, `prefix.*` or one tool name; put a comment on a separate line", either=True,
    ),
    Diagnostic(
        "AEX042", "warning", "Stated twice",
        "The last header, goal, `need`, budget key, argument or key of that name counts; a repeated pattern "
        "adds nothing. An error where two lines `mode` contradict each other.",
        "keep one of them", either=True,
    ),
    Diagnostic(
        "AEX043", "error", "Undefined name",
        "The name is neither a `need` nor bound by an earlier step. An error where every run would be blocked "
        "by it (a top-level `check` or `for`); a warning where the name is used as text, or where the step may be skipped.",
        "declare it with `need`, bind it in an earlier step, or put a text in quotes", either=True,
    ),
    Diagnostic(
        "AEX044", "error", "Unsupported condition",
        "A `check` of another form than the supported ones blocks the run; an `if` treats it as false.",
        'use `NAME.path`, `x has "text"`, `x has citations`, `x does not include "text"`, '
        "`x touches only y` or `x is valid diff`", either=True,
    ),
    Diagnostic(
        "AEX045", "warning", "Unreachable step",
        "The steps after a `return` in the same block never run.",
        "remove the step, or move it before the `return`",
    ),
    Diagnostic(
        "AEX046", "warning", "Budget that limits nothing",
        "Version 0 counts `calls` only, and another key has no effect. Version 1 counts calls, minutes, tokens, usd "
        "and legs, and another key is an error. So is a number above 9,007,199,254,740,991 in either version.",
        "use `budget calls=N`", either=True,
    ),
    Diagnostic(
        "AEX047", "warning", "May not mean what it says",
        "The value is accepted, but probably not as it was meant: an empty budget is 0, a negative "
        "one too, a fraction of a call is rounded down, an argument without `=` is empty, an open quote is text, a scope "
        "that starts with `/` or `.` is in no workspace, an expression without `^` is found anywhere in a text.",
        "write the value out",
    ),
    Diagnostic(
        "AEX048", "warning", "Has no effect",
        "An `if` or `for` without a deeper-indented body, a `confirm` of a tool that `use` does not name, "
        "a checkpoint at a share of a budget that does not exist, or a rule for somebody where one for all says as much.",
        "complete it, or remove it",
    ),
    Diagnostic(
        "AEX049", "error", "`for` over a value that is not a list",
        "The value after `in` is a text, a number or an object; a run is blocked there.",
        "name a list, or write one: [a, b]", either=True,
    ),
    Diagnostic(
        "AEX100", "error", "Not a statement",
        "The line is not a statement of the language, or not a complete one, or the document lacks its header "
        "or goal.",
        "start the line with a word of the language and one space",
    ),
    Diagnostic(
        "AEX120", "error", "Policy with steps or inputs",
        "A policy only states permissions: it has no `need`, `do`, `make`, `check`, `return`, `if` or `for`.",
        "move the line to a task",
    ),
    Diagnostic(
        "AEX121", "error", "`allow` in a task",
        "A task requests tools with `use`; only a policy grants them with `allow`.",
        "write `use`",
    ),
    Diagnostic(
        "AEX130", "error", "File cannot be read",
        "The file does not exist, is not a regular file, may not be read, or lies in the workspace and is reached through a link.",
        "check the path and its permissions; in a workspace, name the file itself and no link",
    ),
    Diagnostic(
        "AEX131", "error", "Document too large",
        "A document has at most 10,000,000 bytes and 200,000 lines. It was not read.",
        "split the document",
    ),
    Diagnostic(
        "AEX132", "error", "Not UTF-8",
        "The file holds bytes that are not UTF-8 text.",
        "save the file as UTF-8",
    ),
    Diagnostic(
        "AEX133", "error", "Nested too deeply",
        "Bodies of `if` and `for`, and brackets within a value, may be nested 64 deep. "
        "Deeper parts of a value are read as text, with a warning.",
        "split the task", either=True,
    ),
    Diagnostic(
        "AEX134", "warning", "Not granted by the policy",
        "A contract's pattern counts only when an allow of the policy names all the tools that it names. A wider one is "
        "dropped whole. Scopes and conditions of the policy narrow it instead.",
        "name in `use` what the policy allows, or widen the policy",
    ),
    Diagnostic(
        "AEX135", "warning", "No policy",
        "There is no policy, so the contract alone says what is permitted. An error when there is no contract "
        "either: then nothing is permitted.",
        "write one: adjourn init --policy", either=True,
    ),
    Diagnostic(
        "AEX136", "warning", "Document of the other kind",
        "A task was given where a policy is expected, or a policy where a contract is expected. Its rules count.",
        "check which file was named",
    ),
    Diagnostic(
        "AEX137", "error", "Too many findings",
        "Only the first 1,000 findings of a document are kept.",
        "fix the findings above, then check again",
    ),
    Diagnostic(
        "AEX139", "error", "Needs version 1",
        "The line or clause belongs to version 1 of the language, and the header does not say `v1`.",
        "write `v1` in the header; what the document says already keeps its meaning, and budgets beside calls are counted",
    ),
    Diagnostic(
        "AEX140", "error", "Not a condition",
        "A condition is `where ARGUMENT OPERATOR VALUE`, several of them joined by `and`. Operators are is, in, matches, "
        "~, <=, >=, < and >.",
        'write `where ARGUMENT OPERATOR VALUE`, as in `where cmd matches "git *"`',
    ),
    Diagnostic(
        "AEX141", "error", "Value does not fit the operator",
        "`is` takes a quoted text, a number, true or false; `in` a list of them that is not empty; `matches` and `~` a quoted "
        "text; `<=`, `>=`, `<` and `>` a number.",
        "write a value that the operator takes; put a text in quotes",
    ),
    Diagnostic(
        "AEX142", "error", "Regular expression cannot be used",
        "The text after `~` is not a valid RE2 expression, is longer than 1,000 characters, or google-re2 is not "
        "installed. RE2 has no look-around and no back-references.",
        "fix the expression, or use `matches` with a glob",
    ),
    Diagnostic(
        "AEX143", "error", "Amount out of range",
        "A limit is 1 to 1,000,000 calls per second, minute, hour or day; a time is whole seconds, minutes, hours or days (30s, "
        "10m, 2h, 1d), at most 365 days; a share of the budget is 1% to 100%.",
        "write an amount within the range",
    ),
    Diagnostic(
        "AEX144", "error", "Clause missing or misplaced",
        "A rule lacks a part that it needs (`once` without `by`, `limit` without `per`), repeats a clause, or has an unknown clause.",
        "write each clause that the rule needs, each once",
    ),
    Diagnostic(
        "AEX145", "error", "Only a policy may say this",
        "`mode` and `require` are for policies: a contract can neither relax the policy nor say who signs contracts.",
        "move the line to the policy",
    ),
    Diagnostic(
        "AEX146", "error", "For nobody",
        "`for` names the principals that the indented rules below it apply to, separated by commas: `user:NAME`, `group:NAME`, "
        "`service:NAME` or `client:NAME`. If one of them cannot be read, nothing below it is allowed, and its restrictions hold for all.",
        "write `for group:ops`, `for user:ann` or `for service:ci`, and indent the rules below it",
    ),
    Diagnostic(
        "AEX150", "error", "Not signed as required",
        "The policy says `require signed by`, and the contract has no signature file beside it, or was changed since it "
        "was signed, or none of the keys that are trusted under those names signed it.",
        "review the contract, then sign it: adjourn policy sign FILE",
    ),
    Diagnostic(
        "AEX160", "error", "Not a JSON policy",
        "The file is not JSON, has an unknown or repeated member, or a member of the wrong type. All of it is ignored.",
        "a policy has `extends`, `allow`, `deny`, `require_confirmation` and `budget`; adjourn init --task NAME writes an example",
    ),
    Diagnostic(
        "AEX161", "error", "`extends` leads nowhere",
        "`extends` names a file that leads back to itself, lies outside of the workspace, or is the last of too many.",
        "name a policy inside the workspace, relative to the file that names it",
    ),
    Diagnostic(
        "AEX162", "warning", "Permits nothing",
        "A JSON policy without entries in `allow`, its own or of a base, permits no tool.",
        "list the permitted tools under `allow`",
    ),
    Diagnostic(
        "AEX170", "warning", "Names no known tool",
        "The servers of the workspace have listed their tools, and the rule names none of them: it has no effect. "
        "Nothing is reported before a server has listed its tools, through the proxy or for `adjourn doctor`, or for names that are of no server, "
        "such as file.write.",
        "write SERVER.TOOL as the server lists it, or remove the rule",
    ),
    Diagnostic(
        "AEX171", "warning", "May mean two servers",
        "An allow names a tool without its server, and several servers have a tool of that name. It allows none of them. "
        "A deny, a confirm or a limit without a server counts for all of them.",
        "write SERVER.TOOL",
    ),
    Diagnostic(
        "AEX172", "warning", "For no server",
        "An allow names tools of no server, such as git.status, and a server has the name that it starts with. It allows none of the "
        "server's tools: a rule for one is never inherited by the other. A deny, a confirm or a limit counts for both.",
        "write SERVER.TOOL as the server lists it, or give the server another name in the client's settings",
    ),
)  # fmt: skip

DIAGNOSTICS = {entry.code: entry for entry in _TABLE}


def finding(
    code: str,
    message: str,
    span: Span = WHOLE,
    *,
    source: str = "",
    severity: Severity | None = None,
    help: str = "",  # noqa: A002 - the field's name in every finding
) -> Finding:
    """A finding with the severity and the remedy of the table, unless this case has its own."""
    entry = DIAGNOSTICS[code]
    return Finding(
        code=code,
        message=message,
        severity=severity or entry.severity,
        source=source,
        span=span,
        help=help or entry.help,
    )


def quoted(text: str) -> str:
    """A piece of source text for a message: clipped, on one line, without control characters."""
    return f"`{printable(fit_text(text, _CLIP))}`"


def printable(text: str) -> str:
    """The text with everything a terminal could obey, or that is not seen, replaced: one for one, for the underline."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(c if is_seen(c) else "\ufffd" for c in text)


def render(found: Finding, text: str = "") -> str:
    r"""The finding as plain text: head line, and, where the source text is given, the line with its underline.

    >>> print(render(examine("task greet v0\nuse mail.send\n").findings[0]))
    error AEX100 · missing goal
    help: write: goal "the result to reach"
    """
    span = found.span
    place = printable(found.source)
    if span.line:
        column = f":{span.column}" if span.column else ""
        place = f"{place}:{span.line}{column}" if place else f"line {span.line}"
    parts = (f"{found.severity} {found.code}", place, printable(found.message))
    lines = [" · ".join(part for part in parts if part)]
    if span.line and text:
        lines += _excerpt(text, span)
    if found.help:
        lines.append(f"help: {printable(found.help)}")
    return "\n".join(lines)


def summary(found: Finding) -> str:
    """The finding for an agent: code, place, title and remedy.

    Nothing of the file's text: messages quote it, and the agent may not be allowed to read the file.
    """
    if found.code in _OF_NO_TEXT:
        return render(found)
    entry = DIAGNOSTICS[found.code]
    return render(replace(found, message=entry.title, help=entry.help))


def _excerpt(text: str, span: Span) -> list[str]:
    lines = text.split("\n", span.line)
    if len(lines) < span.line:
        return []
    start = max(span.column - 1, 0)
    left = max(0, start - _SHOWN // 2)
    word = lines[span.line - 1].rstrip("\r")[left : left + _SHOWN]
    width = max(1, min(span.length, len(word) - (start - left)))
    blanks = "".join("\t" if c == "\t" else " " for c in word[: start - left])
    gutter = f"{span.line} | "
    visible = "".join(c if c == "\t" else printable(c) for c in word)
    return [gutter + visible, " " * (len(gutter) - 2) + "| " + blanks + "^" * width]


def reference() -> str:
    """The page docs/reference/diagnostics.md."""
    parts = [
        "# Diagnostics\n",
        "Generated by `python -m adjourn.aex.diagnostics`; do not edit.\n",
        (
            "A finding of severity *error* makes a document invalid: a proxy does not start with it, a run is blocked, "
            "`check` exits 1. A *warning* changes no exit code. Codes are stable.\n"
        ),
    ]
    for entry in _TABLE:
        severity = "error or warning" if entry.either else entry.severity
        parts.append(f"## {entry.code}: {entry.title}\n")
        parts.append(f"*{severity}.* {entry.explanation}\n")
        parts.append(f"Remedy: {entry.help}.\n")
    return "\n".join(parts)


if __name__ == "__main__":
    print(reference(), end="")

"""The remedy for a line that nobody can read: what its writer most likely meant."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, Literal

from adjourn.aex.expr import BLANK, DIGITS, LETTERS, only, run
from adjourn.text.fitting import fit_text
from adjourn.text.near_words import nearest

HEADERS: Final = ("task", "agent", "policy")
FORMS: Final = {
    "task": "task NAME v1",
    "agent": "agent NAME v1",
    "policy": "policy NAME v1",
    "goal": 'goal "the result to reach"',
    "allow": "allow TOOL",
    "use": "use TOOL",
    "deny": "deny TOOL",
    "confirm": "confirm before TOOL",
    "budget": "budget calls=100",
    "need": "need NAME: TYPE",
    "limit": "limit TOOL 10 per minute",
    "once": "once TOOL by ARGUMENT",
    "checkpoint": "checkpoint before TOOL",
    "mode": "mode observe",
    "require": "require signed by NAME",
    "do": "do TOOL(name=value) -> NAME",
    "make": "make NAME: TYPE from NAME with:",
    "check": "check CONDITION",
    "return": "return VALUE",
    "if": "if CONDITION",
    "for": "for NAME in LIST",
}
"""How each statement is written, by its first word."""
FOR_SOMEBODY: Final = "for group:NAME"
"""How `for` is written in a policy."""
_SYNONYMS: Final = {
    word: statement
    for statement, words in {
        "allow": "permit permits grant grants enable whitelist allowlist can may accept auto_approve autoapprove allowed",
        "deny": "forbid forbids block blocks disallow refuse reject ban prohibit disable never exclude except blacklist denylist "
        "blocklist cannot denied",
        "confirm": "ask asks prompt approve approval approvals require_confirmation require_approval ask_before confirm_before "
        "confirmation",
        "budget": "max_calls maxcalls max_tokens max_steps max_turns calls tokens minutes usd cost spend max_cost",
        "limit": "rate rates throttle ratelimit rate_limit rate-limit quota",
        "once": "idempotent dedupe deduplicate unique",
        "checkpoint": "snapshot save",
        "require": "signed sign signature",
        "goal": "description title purpose objective aim",
        "need": "input inputs param parameter arg argument var needs",
        "do": "call run invoke exec execute step tool",
        "make": "generate produce create write",
        "check": "assert ensure verify expect",
        "return": "output yield result answer",
        "if": "when unless elif",
        "for": "foreach each while loop",
        "use": "uses using tools",
    }.items()
    for word in words.split()
}
"""Words of other tools and languages, with the statement of the same meaning."""
VERSION_1_BUDGETS: Final = ("minutes", "tokens", "usd", "legs")
_BUDGETS: Final = dict.fromkeys(("max_calls", "maxcalls", "max-calls", "tool_calls", "requests"), "calls")
_COMMENTS: Final = ("//", "--", ";", "/*", "<!--", "%")
_POLICY_WORDS: Final = frozenset(("allow", "deny", "confirm", "budget", "goal", "policy", "limit", "once", "checkpoint", "mode", "require", "for"))  # fmt: skip
_SAME_FORM: Final = ("allow", "use", "deny", "confirm", "goal")
"""Statements that other tools write in the same form: with another first word."""
_CLIP: Final = 80
_CLAUSES: Final = {
    "when": "where",
    "if": "where",
    "with": "where",
    "unless": "where",
    "otherwise": "else",
    "or": "else",
    "timeout": "within",
    "for": "within",
    "from": "by",
    "every": "per",
    "each": "per",
}
"""Words that start a clause in other languages, with the clause of the same meaning."""
_TYPES: Final = {
    word: name
    for name, words in {
        "str": "string text", "num": "number float double decimal", "int": "integer long", "bool": "boolean", "file": "path filename folder",
        "url": "uri link", "json": "object dict map any", "list[str]": "list array strings list[string]",
    }.items()
    for word in words.split()
}  # fmt: skip
_EVERY_TOOL: Final = frozenset(("all", "any", "every", "everything", "anything"))


def keyword_meant(text: str, known: Iterable[str], *, policy: bool) -> str:
    """Return the keyword that the first word of an unreadable line most likely stands for; "" if none."""
    word = text[: run(text, 0, LETTERS + "_-")]
    meant = nearest(word, known, _SYNONYMS)
    if policy and meant == "use":
        return "allow"
    if not policy and meant == "allow":
        return "use"
    return meant


def line_help(text: str, known: Iterable[str], *, policy: bool) -> str:
    """Return the remedy for an unreadable line: the line as it was most likely meant, the form of its statement, or the words there are."""
    known = list(known)
    word = text[: run(text, 0, LETTERS + "_-")]
    rest = text[len(word) :]
    if text.startswith("- "):
        return f"name tools behind the keyword, separated by commas: {'allow' if policy else 'use'} fs.read, git.status"
    if text.startswith(_COMMENTS):
        return "start a comment with `#`, on a line of its own"
    if word.lower() == "else":
        return "there is no `else`: write a second `if`"
    if word.lower() in ("include", "import", "extends"):
        return "one file holds the whole document; policies in JSON can extend others"
    meant = keyword_meant(text, FORMS, policy=policy)
    form = FOR_SOMEBODY if policy and meant == "for" else FORMS.get(meant, "")
    if not meant:
        words = sorted(word for word in known if not policy or word in _POLICY_WORDS)
        return f"start the line with one of these words and one space: {', '.join(words)}"
    if not rest.strip(BLANK + ":="):
        return f"complete the line: `{form}`" if word == meant else f"did you mean `{form}`?"
    argument = rest.lstrip(BLANK + ":=").removeprefix("before ").strip(BLANK)
    newer = "" if meant in known else "; it needs v1 in the header"
    if meant == "budget":
        return f"did you mean `{_budget(word, argument)}`?"
    if word.lower() in _SYNONYMS and not (meant in _SAME_FORM or (meant == "limit" and " per " in argument)):
        return f"did you mean `{meant}`? write it as in: {form}{newer}"
    if meant in HEADERS:
        name = argument.split()[0]
        return f"did you mean `{meant} {fit_text(name, _CLIP)} {'v0' if argument.endswith(' v0') else 'v1'}`?"
    written = fit_text(f"{'confirm before' if meant == 'confirm' else meant} {argument}", _CLIP)
    return f"did you mean `{written}`?{newer}"


def _budget(word: str, amount: str) -> str:
    """A budget line, from one whose key is its first word, or has none."""
    key = next((key for key in VERSION_1_BUDGETS if key in word.lower()), "calls")
    return f"budget {key}={amount}" if only(amount, DIGITS) else FORMS["budget"]


def budget_help(part: str) -> str:
    """Return the remedy for a part of a budget that is not `key=number`."""
    pieces = part.replace(":", " ").replace("=", " ").split()
    if len(pieces) == 1 and only(part, DIGITS):
        return f"did you mean `budget calls={part}`?"
    if (
        len(pieces) == 2
        and only(pieces[1], DIGITS)
        and (key := nearest(pieces[0], ("calls", *VERSION_1_BUDGETS), _BUDGETS))
    ):
        return f"did you mean `budget {key}={pieces[1]}`?"
    return "write `budget calls=100`"


def pattern_help(pattern: str, keyword: str) -> str:
    """Return the remedy for a pattern that no tool name can match; "" where that of the diagnostic says it all."""
    bare = pattern.strip("\"'`")
    if bare != pattern and bare and not set(bare) & set("\"' "):
        return f"write it without quotes: {keyword} {bare}"
    words = pattern.split()
    if len(words) < 2:
        return ""
    if words[1].startswith(("#", "//")):
        return "put the comment on a line of its own"
    if words[1] == "for" and ":" in words[-1]:
        whom = fit_text(" ".join(words[2:]), _CLIP)
        return f"write `for {whom}` in a line above, and indent `{keyword} {words[0]}` below it"
    if clause := _CLAUSES.get(words[1].lower()):
        return f"did you mean `{clause}` for `{words[1]}`?"
    if words[0] in ("=", ":"):
        return f"write `{keyword} TOOL` without `{words[0]}`"
    if all(word.isprintable() and not set(word) & set("\"'#()[]{}=<>") for word in words) and len(words) < 6:
        return f"separate tools by commas: {keyword} {', '.join(words)}"
    return ""


def unknown_budget(key: str, counted: Sequence[str]) -> tuple[Literal["error", "warning"], str]:
    """Return the severity and the remedy for a budget's key that is not one of `counted`.

    Version 0 counts calls only, and accepts any other key: a warning, unless it is a counted one with a typing error.
    """
    if meant := nearest(key, counted, _BUDGETS):
        return "error", f"did you mean {meant}?"
    if len(counted) > 1:
        return "error", f"use one of: {', '.join(counted)}"
    return "warning", "write v1 in the header" if key in VERSION_1_BUDGETS else ""


def tool_near(tool: str, patterns: Iterable[str]) -> str:
    """Return the tool that `patterns` name and `tool` most likely means; "" if none is near."""
    patterns = list(patterns)
    if meant := nearest(tool, [each for each in patterns if "*" not in each]):
        return meant
    head, dot, text = tool.partition(".")
    meant = nearest(head, [each.removesuffix(".*") for each in patterns if each.endswith(".*")])
    return f"{meant}.{text}" if dot and meant and meant != head else ""


def type_near(name: str, types: Iterable[str]) -> str:
    """Return the type that a word of another language most likely means; "" if none is near."""
    return nearest(name, types, _TYPES)


def means_every_tool(pattern: str) -> bool:
    """Return whether a pattern is a word such as `all`, which names one tool and probably stands for every tool."""
    return pattern.lower() in _EVERY_TOOL

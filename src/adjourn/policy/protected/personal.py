"""Whether a command speaks for a person, or for the client: `adjourn approve ID`, by whatever name or program it is reached.

Owns: recognising that in the words of a command, and in the text of a program. Must never: be taken for a wall: a program that an
agent wrote may do what its account can.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from adjourn.policy import ALWAYS, AT_TERMINAL, BY_CLIENT, OUR_COMMAND, OUTSIDE_CLIENT
from adjourn.policy.protected.programs import name_of
from adjourn.policy.protected.reach import glob_matches
from adjourn.policy.shell.syntax import FOREIGN, UNKNOWN, UNSET, ShellWord

OURS = ("adjourn", "aex")
_VALUED = frozenset(("-C", "--store", "--record"))
"""Options whose value is not an argument of the command."""
_TABLES = (AT_TERMINAL, OUTSIDE_CLIENT, BY_CLIENT)
_GIVEN = {
    name: tuple(one for table in _TABLES for one in table.get(name, ()))
    for table in _TABLES
    for name in table
}
_GROUPS = frozenset(name.partition(" ")[0] for name in _GIVEN if " " in name)
_OURS_ONLY = frozenset(("approve", "deny", "settle"))
"""Commands that few other programs have."""
_ANY_TEXT = str.maketrans(dict.fromkeys((UNKNOWN, FOREIGN, UNSET), "*"))
_IN_TEXT = re.compile(
    r"""\b(?:adjourn|aex)\b [^\n]{0,200}? \b (?P<name> (?:approve|deny|settle|decide|answer) \b
        | keys\W+(?:dis)?trust \b | api-keys\W+(?:add|revoke) | record\W+(?:import|merge|resolve|complete) \b
        | init\b [^\n]{0,200}? --(?:undo|policy|yes) | (?:proxy|run|review)\b [^\n]{0,200}? --(?:auto-confirm|take-over)
        | verify\b [^\n]{0,200}? --accept | (?:rollback|prune|doctor)\b [^\n]{0,200}? (?:--yes|-y|--fix))
    | (?<!from\ ) \b(?:adjourn|aex)['"]?[\s,]+['"]?(?P<word>import|sign|hook|gate|reopen|logout)\b
    | \badjourn\.engine(?:\.|\s+import\s[^\n]*\b)people\b""",
    re.VERBOSE,
)


def personal(words: Sequence[ShellWord]) -> str | None:
    """The command that a program and its words come to, if it speaks for a person."""
    for at, word in enumerate(words):
        behind = words[at + 1 :]
        ours = _is_ours(word) or (_is_anything(word) and behind and behind[0].text in _OURS_ONLY)
        if ours and (found := next(_commands(behind), None)):
            return OUR_COMMAND + found
    return None


def personal_in(text: str) -> str | None:
    """The personal command that a program's text names. Errs on the side of finding one."""
    found = _IN_TEXT.search(text)
    return f"{OUR_COMMAND}{(found['name'] or found['word'] or 'approve').split()[0]}" if found else None


def _is_ours(word: ShellWord) -> bool:
    text = word.text.casefold()
    pattern = text.translate(_ANY_TEXT)
    wild = word.wild or pattern != text
    if not wild and "adjourn" not in text and "aex" not in text:
        return False
    name = name_of(ShellWord(pattern)).removeprefix("-m")
    if wild and not _is_anything(word):
        return any(glob_matches(name, ours) for ours in OURS)
    return name in OURS or name.startswith("adjourn.") or text.endswith("adjourn/__main__.py")


def _is_anything(word: ShellWord) -> bool:
    return word.text in (UNKNOWN, FOREIGN, UNSET)


def _commands(words: Sequence[ShellWord]) -> Iterator[str]:
    """The commands that speak for a person which the words behind our program may be."""
    first = next((at for at in range(len(words)) if _is_argument(words, at)), None)
    for at, word in enumerate(words):
        name, rest = word.text.replace(UNSET, ""), words[at + 1 :]
        pattern = word.text.translate(_ANY_TEXT)
        if at == first and (word.wild or pattern != word.text):
            yield from (one for one in _GIVEN if glob_matches(pattern, one.partition(" ")[0]))
        if at == first and name in _GROUPS:
            name = f"{name} {next((one.text for one in rest if one.text[:1] != '-'), '')}"
        if name in _GIVEN and (at == first or name in _OURS_ONLY) and _speaks(name, rest):
            yield name


def _speaks(name: str, rest: Sequence[ShellWord]) -> bool:
    given = _GIVEN[name]
    if given == ALWAYS:
        return True
    options = {option for option in given if option[0] == "-"}
    letters = {option[1] for option in options if option[1] != "-"}
    for at, word in enumerate(rest):
        short = word.text[1:] if word.text[:1] == "-" != word.text[1:2] else ""
        unsure = word.text[:1] in (UNKNOWN, FOREIGN, UNSET) and name in AT_TERMINAL
        abbreviated = (
            word.text[:2] == "--"
            and len(word.text) > 2
            and any(option.startswith(word.text.partition("=")[0]) for option in options)
        )
        if abbreviated or unsure or not letters.isdisjoint(short) or (not options and _is_argument(rest, at)):
            return True
    return False


def _is_argument(words: Sequence[ShellWord], at: int) -> bool:
    return words[at].text[:1] != "-" and (at == 0 or words[at - 1].text not in _VALUED)

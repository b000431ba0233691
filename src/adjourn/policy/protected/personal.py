"""Whether a command speaks for a person, or for the client: an agent's command line may not."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from adjourn.policy.person_commands import ALWAYS, AT_TERMINAL, BY_CLIENT, OUR_COMMAND, OUTSIDE_CLIENT, PUBLISHED
from adjourn.policy.protected.reach import glob_matches
from adjourn.policy.shell.syntax import FOREIGN, UNKNOWN, UNSET, ShellWord
from adjourn.policy.shell.tables import name_of

OURS = ("adjourn", "aex")
_VALUED = frozenset(("-C", "--store", "--record"))
"""Options whose value is not an argument of the command."""
_TABLES = (AT_TERMINAL, OUTSIDE_CLIENT, BY_CLIENT)
_GIVEN = {name: tuple(text for table in _TABLES for text in table.get(name, ())) for table in _TABLES for name in table}
_NAMES: tuple[tuple[str, tuple[str, ...], str], ...] = (
    *((path.split()[0], tuple(path.split()[1:]), path) for path in _GIVEN),
    *(
        (name, tuple(path.removeprefix(PUBLISHED[name]).split()), path)
        for name in PUBLISHED
        for path in _GIVEN
        if f"{path} ".startswith(f"{PUBLISHED[name]} ")
    ),
)
"""The first word of each personal command, those behind it, and its path: as it is shown, and by its published name."""
_OURS_ONLY = frozenset(("approve", "deny", "settle"))
"""Commands that few other programs have."""
_ANY_TEXT = str.maketrans(dict.fromkeys((UNKNOWN, FOREIGN, UNSET), "*"))
_IN_TEXT = re.compile(
    r"""\b(?:adjourn|aex)\b [^\n]{0,200}? \b (?P<name> (?:approve|deny|settle|decide|answer) \b
        | keys\W+(?:(?:dis)?trust|pin|add|revoke) \b | record\W+(?:import|merge|resolve|complete) \b
        | init\b [^\n]{0,200}? --(?:undo|policy|yes) | (?:proxy|run|review)\b [^\n]{0,200}? --(?:auto-confirm|take-over)
        | verify\b [^\n]{0,200}? --accept | (?:rollback|prune|doctor)\b [^\n]{0,200}? (?:--yes|-y|--fix))
    | (?<!from\ ) \b(?:adjourn|aex)['"]?[\s,]+['"]?(?P<word>import|sign|hook|gate)\b
    | \badjourn\b[^\n]{0,200}? \b(?P<path>(?:tasks|checkpoint|policy|serve|store)\W+(?:finish|reopen|import|sign|login|logout))\b
    | \badjourn\.clients(?:\.|\s+import\s[^\n]*\b)person\b""",
    re.VERBOSE,
)


def personal(words: Sequence[ShellWord]) -> str | None:
    """The command that a program and its words come to, if it speaks for a person."""
    for at, word in enumerate(words):
        behind = words[at + 1 :]
        ours = _is_ours(word) or (_is_anything(word) and behind and behind[0].text in _OURS_ONLY)
        if ours and (command := next(_commands(behind), None)):
            return OUR_COMMAND + command
    return None


def personal_in(text: str) -> str | None:
    """The personal command that a program's text names. Errs on the side of finding one."""
    match = _IN_TEXT.search(text)
    if match is None:
        return None
    words = re.findall(r"\w+", match["path"] or "") or (match["name"] or match["word"] or "approve").split()[:1]
    return OUR_COMMAND + " ".join(words)


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
        name, shell_words = word.text.replace(UNSET, ""), words[at + 1 :]
        pattern = word.text.translate(_ANY_TEXT)
        for begins, more, path in _NAMES:
            if begins == name and (at == first or name in _OURS_ONLY):
                given = _behind(more, shell_words)
                found = given is not None and _speaks(path, given)
            else:
                found = at == first and (word.wild or pattern != word.text) and glob_matches(pattern, begins)
            if found:
                yield path


def _behind(names: Sequence[str], words: Sequence[ShellWord]) -> Sequence[ShellWord] | None:
    """The words behind those that match the names, which options and their values may stand before; None if they do not match.

    A word that nobody knows may be any.
    """
    at = 0
    for name in names:
        while at < len(words) and not (words[at].wild or _matches(words[at], name)):
            is_option = words[at].text[:1] == "-"
            if not is_option and not (at and words[at - 1].text[:1] == "-"):
                return None
            at += 1
        if at == len(words):
            return None
        at += 1
    return words[at:]


def _matches(word: ShellWord, name: str) -> bool:
    pattern = word.text.translate(_ANY_TEXT)
    return glob_matches(pattern, name) if pattern != word.text else word.text == name


def _speaks(name: str, words: Sequence[ShellWord]) -> bool:
    texts = _GIVEN[name]
    if texts == ALWAYS:
        return True
    options = {option for option in texts if option[0] == "-"}
    letters = {option[1] for option in options if option[1] != "-"}
    for at, word in enumerate(words):
        short = word.text[1:] if word.text[:1] == "-" != word.text[1:2] else ""
        unsure = word.text[:1] in (UNKNOWN, FOREIGN, UNSET) and name in AT_TERMINAL
        abbreviated = (
            word.text[:2] == "--"
            and len(word.text) > 2
            and any(option.startswith(word.text.partition("=")[0]) for option in options)
        )
        if abbreviated or unsure or not letters.isdisjoint(short) or (not options and _is_argument(words, at)):
            return True
    return False


def _is_argument(words: Sequence[ShellWord], at: int) -> bool:
    return words[at].text[:1] != "-" and (at == 0 or words[at - 1].text not in _VALUED)

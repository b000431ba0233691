"""The line that opens rules for somebody: `for group:ops, user:ann`.

Owns: reading the names behind `for`, and the finding AEX146. Must never: know who somebody is.
"""

from __future__ import annotations

from adjourn.aex.clauses import Report
from adjourn.aex.diagnostics import quoted
from adjourn.aex.text import BLANK, DIGITS, LETTERS, Word, comma_list, only
from adjourn.text import nearest

KINDS = ("user", "group", "service")
NAME_OF_SOMEBODY = LETTERS + DIGITS + "_-.@+/:|"
MAX_NAME = 200
MAX_WHOM = 100
"""Names behind one `for`."""
_SYNONYMS = {
    word: kind
    for kind, words in {
        "user": "human person people users member",
        "group": "groups team teams role roles org",
        "service": "bot agent client machine robot app key account services",
    }.items()
    for word in words.split()
}


def read_whom(word: Word, report: Report) -> list[Word]:
    """The names behind `for`. Empty, with a finding, if one of them cannot be read: what restricts then holds for all."""
    names = comma_list(word, len("for "))
    if not names:
        report("AEX146", "`for` names nobody", word, "")
    elif len(names) > MAX_WHOM:
        report("AEX146", f"`for` has more than {MAX_WHOM} names", word, "name a group")
        return []
    wrong = [name for name in names if not _is_read(name, report)]
    return [] if wrong else names


def _is_read(name: Word, report: Report) -> bool:
    kind, colon, rest = name.text.partition(":")
    first, blank, rule = rest.partition(" ")
    if kind in KINDS and only(rest, NAME_OF_SOMEBODY) and all(rest.split(":")) and len(rest) <= MAX_NAME:
        return True
    kind = kind.rpartition(" ")[2]
    if kind in KINDS and blank and only(first, NAME_OF_SOMEBODY):
        remedy = f"put `{rule.strip(BLANK)[:40]}` in the next line, indented; separate names by commas"
    elif kind in KINDS and rest == "*":
        remedy = "leave out the `for`: a rule without one holds for all"
    elif kind in KINDS and rest.strip(":"):
        remedy = f"did you mean {kind}:{rest.strip(':')[:40]}?"
    elif not colon:
        remedy = f"write {', '.join(f'`for {each}:{kind[:40]}`' for each in KINDS)}"
    elif meant := nearest(kind, KINDS, _SYNONYMS):
        remedy = f"did you mean {meant}:{rest[:40]}?"
    else:
        remedy = ""
    report("AEX146", f"{quoted(name.text)} names nobody", name, remedy)
    return False

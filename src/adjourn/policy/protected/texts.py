"""Files that are named inside a text: by the headers of a patch, by statements of SQL that open files.

Owns: finding those names. A line that looks like a header counts wherever it stands: too many names, not too few.
Must never: resolve a path, or look for names in anything else.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

_HEADER = re.compile(
    r"""^[ \t]*(?:
      \*\*\*[ \t]*(?:(?:Add|Update|Delete|Rename|Move)[ ]File|Move[ ]to)[ \t]*:(?P<listed>.*)
    | (?:---|\+\+\+|\*\*\*|Index:|rename[ ](?:from|to)|copy[ ](?:from|to))[ \t]+(?P<name>\S.*)
    | diff[ ](?:--git|--cc|--combined|-\S+)[ \t]+(?P<both>\S.*)
    )""",
    re.MULTILINE | re.VERBOSE | re.IGNORECASE,
)
_ESCAPE = re.compile(rb"\\([0-7]{1,3}|.)", re.DOTALL)
_ESCAPED = {b"a": b"\a", b"b": b"\b", b"f": b"\f", b"n": b"\n", b"r": b"\r", b"t": b"\t", b"v": b"\v"}

_OPENS_FILES = re.compile(
    r"""\b(?:attach|vacuum|copy|outfile|dumpfile|infile|export|import|install|load|load_extension|backup|restore|writefile
    |readfile|edit|fsdir|openrowset|bulk|read_\w+|pg_\w*file\w*|lo_\w+)\b|^[ \t]*\.\w""",
    re.MULTILINE | re.VERBOSE | re.IGNORECASE,
)
_JOINED = re.compile(r"""(['"])\s*\|\|\s*\1""")
_LITERAL = re.compile(r"""'((?:[^']|'')*)'|"((?:[^"]|"")*)"|`([^`]*)`|\[([^\[\]]*)\]""")
_DOT_COMMAND = re.compile(r"^[ \t]*\.\w+[ \t]+(.+)", re.MULTILINE)


def patched(text: str) -> list[str]:
    """The names in the headers of a patch, in every reading that there is of each; none where it has no headers."""
    found: dict[str, None] = {}
    for match in _HEADER.finditer(text.replace("\r", "\n")):
        if match["both"]:
            found |= dict.fromkeys(_stripped(match["both"]))
            for name in re.split(r'[ \t]+(?=["/]|[^ \t/]+/)|[ \t]+', match["both"]):
                found |= dict.fromkeys(_stripped(name))
        else:
            name = (match["name"] or match["listed"]).split("\t")[0].strip()
            found |= dict.fromkeys(_stripped(name))
            found |= dict.fromkeys(_stripped(name.split(" ")[0]))  # a date may follow
    return [name for name in found if name and name != "/dev/null"]


def _stripped(name: str) -> Iterator[str]:
    """A name as written, and without its first folder, which is `a` or `b` for git."""
    name = _unquoted(name.strip())
    yield name
    yield name.removeprefix("./").partition("/")[2].lstrip("/")


def _unquoted(name: str) -> str:
    r"""A name as git quotes it: `"\056aex"` is `.aex`."""
    if not name.startswith('"'):
        return name
    end = re.search(r'(?<!\\)(?:\\\\)*"', name[1:])
    inner = name[1 : end.end()] if end else name[1:]
    plain = _ESCAPE.sub(_character, inner.encode(errors="surrogatepass"))
    return plain.decode(errors="replace")


def _character(match: re.Match[bytes]) -> bytes:
    code = match[1]
    return bytes([int(code, 8) & 255]) if code[:1].isdigit() and code < b"8" else _ESCAPED.get(code, code)


def opened_by_sql(text: str) -> list[str]:
    """The literals of a text of SQL that has a word by which files are opened, and the words of a shell's dot-commands."""
    if _OPENS_FILES.search(text) is None:
        return []
    found = [
        next((one for one in match.groups() if one), "") for match in _LITERAL.finditer(_JOINED.sub("", text))
    ]
    for match in _DOT_COMMAND.finditer(text):
        found += match[1].split()
    names = [name.replace("''", "'").strip("'\"") for name in found]
    return [
        spelling
        for name in names
        for spelling in {name, name.removeprefix("file:").partition("?")[0]}
        if spelling
    ]

"""Files that a text names, in any spelling or form, and the real places that a path may lead to.

It finds too many names rather than too few.
"""

from __future__ import annotations

import errno
import os
import re
import stat
from collections.abc import Iterable, Iterator

MAX_NAMES = 10_000
"""Most names that one text may have. Raises `ValueError` for more."""
MAX_TEXT = 1024 * 1024
"""Longest text that is taken apart."""
is_plain = re.compile(r"[\w/.*?][\w/.@+*?-]*|https?://[^\s,;|\"'\\~$]*").fullmatch
"""Whether a text can name only what it says: it has nothing that a reader of files expands, splits or decodes."""
_SEPARATORS = re.compile(r"[\s,;:|\"'`<>()\[\]{}=&?#]+")
_URL = re.compile(r"([A-Za-z][\w+.-]*):")
LISTS = ",;:|\n\t "
"""What may stand between the names of a list."""
_ELSEWHERE = frozenset(("http", "https", "ws", "wss", "ftp", "mailto", "ssh"))
"""Schemes of addresses on a network."""
_VARIABLE = re.compile(r"\$(?:env:)?(\w+)|\$\{(?:env[:.])?(\w+)\}|%(\w+)%")
_OTHER_NAMES = {"userHome": "HOME", "USERPROFILE": "HOME", "HOMEPATH": "HOME"}
_NAMES_PLACE = re.compile(r"[/~.*$]").search

_HEADER = re.compile(
    r"""^[ \t]*(?:
      \*\*\*[ \t]*(?:(?:Add|Update|Delete|Rename|Move)[ ]File|Move[ ]to)[ \t]*:(?P<listed>.*)
    | (?:---|\+\+\+|\*\*\*|Index:|rename[ ](?:from|to)|copy[ ](?:from|to))[ \t]+(?P<name>\S.*)
    | diff[ ](?:--git|--cc|--combined|-\S+)[ \t]+(?P<both>\S.*)
    )""",
    re.MULTILINE | re.VERBOSE | re.IGNORECASE,
)
_BLOCK = re.compile(r"((?:^.*\n){0,6})^[ \t]*[<-]{5,9} ?SEARCH\b(.*)$", re.MULTILINE)
"""Matches where a SEARCH/REPLACE block starts, with the lines before, of which one names its file."""
_ESCAPE = re.compile(rb"\\([0-7]{1,3}|.)", re.DOTALL)
_ESCAPED = {b"a": b"\a", b"b": b"\b", b"f": b"\f", b"n": b"\n", b"r": b"\r", b"t": b"\t", b"v": b"\v"}

_QUOTES = re.compile(r"""['"`\[(]|0x|^[ \t]*\.""", re.MULTILINE).search
_OPENS_FILES = re.compile(
    r"""\b(?:attach|vacuum|copy|outfile|dumpfile|infile|export|import|install|load|load_extension|backup|restore|writefile
    |readfile|edit|fsdir|load_file|openrowset|bulk|read_\w+|scan_\w+|pg_\w*file\w*|lo_\w+)\b|\b(?:from|join)\s*'|^[ \t]*\.\w""",
    re.MULTILINE | re.VERBOSE | re.IGNORECASE,
)
_JOINED = re.compile(r"""(['"])\s*\|\|\s*\1""")
_LITERAL = re.compile(r"""'((?:[^']|'')*)'|"((?:[^"]|"")*)"|`([^`]*)`|\[([^\[\]]*)\]""")
_HEX = re.compile(r"\b[xXeEbB]?'(?:\\*[xX])?((?:[0-9a-fA-F]{2}){4,})'|\b0x((?:[0-9a-fA-F]{2}){4,})")
_CODES = re.compile(r"\bN?CHA?R\s*\(([\d,\s]{1,4000})\)", re.IGNORECASE)
_DOT_COMMAND = re.compile(r"^[ \t]*\.\w+[ \t]+(.+)", re.MULTILINE)


def names_in(text: str, separators: str = "") -> Iterator[str]:
    """Every path that a text may be, in any spelling, or list between `separators`. Raises `ValueError` for too many."""
    waiting, seen, size = [text], set[str](), 0
    while waiting:
        name = waiting.pop()
        if name in seen:
            continue
        seen.add(name)
        size += len(name)
        if len(seen) > MAX_NAMES or size > 8 * MAX_TEXT:
            raise ValueError(f"a text of more than {MAX_NAMES} names")
        yield name
        if not is_plain(name):
            waiting += paths_in(name)
            waiting += (name.strip(), name.strip("'\"`<>()[]@ \t\r\n"), *_decoded(name))
            if separators and name is text:
                waiting += _pieces(text, separators)


def _decoded(name: str) -> Iterator[str]:
    """What a name means for who expands variables, takes a backslash for a slash or an escape, or opens addresses."""
    if "\\" in name:
        yield from (name.replace("\\", "/"), name.replace("\\", ""))
    if "$" in name or "%" in name:
        yield _VARIABLE.sub(_value, name)
    url = _URL.match(name)
    if url is None or url[1].lower() in _ELSEWHERE or (name[:8] == "file:///" and is_plain(name[7:])):
        return
    from urllib.parse import unquote  # few arguments are URLs

    word = name[len(url[1]) + 1 :]
    for text in dict.fromkeys((word, unquote(word), unquote(unquote(word)))):
        yield from re.split(r"[?#&;=\"!]", text)
        path = re.split(r"[?#]", text, maxsplit=1)[0].lstrip("/")
        for _ in range(3):  # without the host, and without what is before the path: `vscode-remote://wsl+x/host/path`
            yield from (path, f"/{path}")
            path = path.partition("/")[2]


def _value(match: re.Match[str]) -> str:
    name = next(filter(None, match.groups()))
    return os.path.expanduser("~") if _OTHER_NAMES.get(name, name) == "HOME" else os.environ.get(name, match[0])


def _pieces(text: str, separators: str) -> Iterator[str]:
    """The pieces of a list. What stands between blanks counts if it looks like a path: the text may be prose."""
    for separator in separators:
        if separator in text and separator != " ":
            yield from text.split(separator)
    if " " in separators:
        yield from filter(_NAMES_PLACE, (*text.split(), *_SEPARATORS.split(text)))


def is_path_list(text: str) -> bool:
    """Whether every piece of a text looks like a path."""
    pieces = _SEPARATORS.split(text, maxsplit=MAX_NAMES)
    return len(pieces) > 1 and all(_NAMES_PLACE(piece) for piece in pieces if piece)


def json_in(text: str) -> object:
    """The value of a text that is JSON: an object, a list or a text; None for any other. Of keys that repeat, each counts."""
    import json  # few arguments are JSON

    try:
        return json.loads(text, object_pairs_hook=_members)
    except (ValueError, RecursionError):
        return None


def _members(pairs: list[tuple[str, object]]) -> object:
    members = dict(pairs)
    return members if len(members) == len(pairs) else [{key: item} for key, item in pairs]


def patched(text: str) -> list[str]:
    """The names in the headers of a patch, in every reading that there is of each; none where it has no headers."""
    names: dict[str, None] = {}
    for match in _HEADER.finditer(text.replace("\r", "\n")):
        if match["both"]:
            names |= dict.fromkeys(_stripped(match["both"]))
            for name in re.split(r'[ \t]+(?=["/]|[^ \t/]+/)|[ \t]+', match["both"]):
                names |= dict.fromkeys(_stripped(name))
        else:
            name = (match["name"] or match["listed"]).split("\t")[0].strip()
            names |= dict.fromkeys(_stripped(name))
            names |= dict.fromkeys(_stripped(name.split(" ")[0]))  # a date may follow
    for block in _BLOCK.finditer(text):
        for line in (*block[1].splitlines(), block[2]):
            name = line.strip().strip("`*#:<> \t")
            names |= dict.fromkeys((name, name.rpartition(" ")[2], *_stripped(name)))
    return [name for name in names if name and name != "/dev/null"]


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
    if _QUOTES(text) is None or _OPENS_FILES.search(text) is None:
        return []
    text = _CODES.sub(_from_codes, _HEX.sub(_from_hex, text))
    paths = [
        next((group for group in match.groups() if group), "") for match in _LITERAL.finditer(_JOINED.sub("", text))
    ]
    paths.append("".join(paths))  # concat('…', '…')
    for match in _DOT_COMMAND.finditer(text):
        paths += match[1].split()
    names = [name.replace("''", "'").strip("'\"") for name in paths]
    return [spelling for name in names for spelling in {name, name.removeprefix("file:").partition("?")[0]} if spelling]


def _from_hex(match: re.Match[str]) -> str:
    digits = next(filter(None, match.groups()))
    return "'" + bytes.fromhex(digits).decode(errors="replace").replace("'", "''") + "'"


def _from_codes(match: re.Match[str]) -> str:
    codes = [int(code) for code in match[1].replace(",", " ").split() if len(code) < 7]
    return "'" + "".join(chr(code) for code in codes if code < 0x110000).replace("'", "''") + "'"


# --- the paths that a text may be, and the real places that a path may lead to

MAX_PATH_NAMES = 500_000
"""Most links of one path that are followed. Beyond that, the target counts as unknown."""
_FILE_URL = re.compile(r"file:(?://[^/\\]*)?(?=[/\\])", re.IGNORECASE)
means_another = re.compile("~|file:", re.IGNORECASE).match
"""Whether a text starts as one that may be another path than just what it says."""
_DROPPED = str.maketrans("\\", "/", "\t\n\r")
"""Characters that a URL parser treats as a slash, and those that it ignores."""
_UP = re.compile(r"(?:^|[/\\])\.\.(?=[/\\]|$)")
_NAME = re.compile(r"[^/]+")


def paths_in(text: str) -> Iterable[str]:
    """The paths that a text may be: in a `file:` URL, under the home folder for `~`, or just what it says."""
    if text[:1] == "~":
        return dict.fromkeys((os.path.expanduser(text), text))
    url = _FILE_URL.match(text)
    if url is None:
        return (text,)
    from urllib.parse import unquote  # few arguments are URLs

    path = text[url.end() :]
    read = re.split(r"[?#]", path, maxsplit=1)[0].translate(_DROPPED)
    as_written = (path, text) if _UP.search(path) else ()  # another place for who does not know URLs
    return dict.fromkeys((unquote(path).partition("\0")[0], unquote(read).partition("\0")[0], *as_written))


def readings(path: str, base: str, *, is_real: bool = False) -> Iterable[str]:
    """The real places that a path may lead to from a folder; `is_real`: no link leads to that.

    `..` leads back from where a link leads, for the system; for a tool that takes it out of the text before it opens the
    file, from where the link stands. Raises ValueError for what cannot be followed to its end.
    """
    if is_real and ".." not in path:
        top = base.rstrip("/")
        if path[:1] != "/":
            return (_followed(path, top),)
        if path.startswith(f"{top}/"):
            return (_followed(path[len(top) :], top),)
    full_path = os.path.join(base, path)
    real = _followed(full_path)
    if "/.." not in full_path:
        return (real,)
    texts = dict.fromkeys((full_path, os.path.join(_followed(base), path)))
    return dict.fromkeys((real, *(_followed(os.path.normpath(text)) for text in texts)))


def _followed(path: str, real: str = "") -> str:
    """What `os.path.realpath` says of a path, absolute or from a real one, in time linear in its length.

    Raises ValueError for too many names.
    """
    missing: list[str] = []
    known: dict[str, str | None] = {}
    for count, match in enumerate(_NAME.finditer(path)):
        if count > MAX_PATH_NAMES:
            raise ValueError(f"a path of more than {MAX_PATH_NAMES} names")
        name, end = match[0], match.end()
        if name == "..":
            real = real if missing else real.rpartition("/")[0]
            del missing[-1:]
        elif missing and name != ".":
            missing.append(name)
        elif name != ".":
            place = f"{real}/{name}"
            target = known[place] if place in known else known.setdefault(place, _target(place))
            if target is None and path.find("/..", end) >= 0:  # there may be a way back to what exists
                missing.append(name)
            elif target is None or target.endswith("/"):
                text = path[end:]
                return os.path.normpath((target or place) + text) if text else (target or place).rstrip("/")
            else:
                real = target
    return "/".join((real, *missing)) or "/"


def _target(place: str) -> str | None:
    """Where one more name leads, with `/` at the end for a link that leads round; None where there is nothing."""
    try:
        if not stat.S_ISLNK(os.lstat(place).st_mode):
            return place
    except (OSError, ValueError):
        return None
    real = os.path.realpath(place).rstrip("/")
    try:
        os.stat(place)
    except OSError as error:
        return f"{real}/" if error.errno == errno.ELOOP else real
    return real

"""A command line as a POSIX shell takes it apart: simple commands, their words, where they read from and write to.

Words come without quotes and escapes, with variables that are set in the text or in the environment filled in. Where a word
may be one of several, all are there; what is not known is `UNKNOWN`. Words of a substitution also count as words of the
command around it.

Owns: that. Must never: run anything, examine a file, or be taken for a shell: too many words, not too few.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from typing import NamedTuple

UNKNOWN = "\1"
"""Placeholder in a word for text that only the shell would know."""
MAX_NESTED = 20
"""Deepest nesting of substitutions."""
MAX_SHELLS = 200
"""Most substitutions and subshells of a line."""
MAX_READINGS = 32
"""Most readings of one word."""
MAX_WORDS = 20_000

_CODE = re.compile(
    r"""(?P<blank>[ \t\r]+)
    | (?P<continued>\\\n)
    | (?P<heredoc><<-?(?!<)[ \t]*(?P<tag>'[^'\n]*'|"[^"\n]*"|[\w\\.!-]+))
    | (?P<redirect>\d*(?:&>>?|>>|>\||>&|<>|<<<|<&|>|<)(?!\())
    | (?P<open>\$\(\(?|[<>]\(|[(`])
    | (?P<close>\))
    | (?P<end>\|\||&&|;;?&?|\|&?|&|\n)
    | (?P<single>'[^']*')
    | (?P<ansi>\$'(?:[^'\\]|\\.)*')
    | (?P<double>\$?")
    | (?P<escape>\\.)
    | (?P<variable>\$(?:\{[^}]{0,200}\}|\w+|[@*\#?$!-]))
    | (?P<special>[*?[\]{}])
    | (?P<plain>[^\s;&|<>()`'"\\$*?[\]{}]+|.)""",
    re.VERBOSE | re.DOTALL,
)
_NAME = re.compile(r"\w*")
_WILD = frozenset(f"*?[{UNKNOWN}")
_PLAIN = re.compile(r"[\w ./:,@%+-]*", re.ASCII)
"""Matches text without special meaning for a shell."""
_QUOTED = re.compile(
    r'(?P<end>")|(?P<open>\$\(\(?|`)|(?P<variable>\$(?:\{[^}]{0,200}\}|\w+|[@*\#?$!-]))|(?P<escape>\\.)|(?P<plain>[^"\\$`]+|.)',
    re.DOTALL,
)
_ANSI = re.compile(
    r"\\(?:x([0-9a-fA-F]{1,2})|u([0-9a-fA-F]{1,4})|U([0-9a-fA-F]{1,8})|([0-7]{1,3})|(.))", re.DOTALL
)
_ANSI_NAMED = {"n": "\n", "t": "\t", "r": "\r", "a": "\a", "b": "\b", "f": "\f", "v": "\v", "e": "\x1b"}
_ASSIGNMENT = re.compile(r"([A-Za-z_]\w*)\+?=")
_BRACES = re.compile(r"\{([^{},]*(?:,[^{},]*)+)\}")


class TooLongError(Exception):
    """The text has too many words, or too deeply nested shells."""


class ShellWord(NamedTuple):
    """One reading of a word. `wild`: a shell would expand it to names of files."""

    text: str
    wild: bool = False


class Simple:
    """One simple command. `before` is the one whose output it reads, `scope` the shell that it runs in, `bodies` what it is given
    to read, `substituted` those of them that the shell looks for substitutions in, `truncates` those of `writes` that it empties first.
    """

    __slots__ = ("before", "bodies", "reads", "scope", "substituted", "truncates", "words", "writes")

    def __init__(self, scope: tuple[int, ...], before: Simple | None = None) -> None:
        self.words: list[ShellWord] = []
        self.reads: list[ShellWord] = []
        self.writes: list[ShellWord] = []
        self.truncates: list[ShellWord] = []
        self.bodies: list[str] = []
        self.substituted: list[str] = []
        self.before = before
        self.scope = scope


def simple_commands(line: str) -> list[Simple]:
    """The simple commands of a line, those of a substitution before the one around it. Raises `TooLongError`.

    What is not closed ends with the text.
    """
    if _PLAIN.fullmatch(line):
        only = Simple((0,))
        only.words = [ShellWord(word) for word in line.split()]
        if len(only.words) > MAX_WORDS:
            raise TooLongError
        return [only]
    whole = _Whole(line)
    _Script(whole, "", (0,)).read()
    return whole.found


class _Whole:
    """State that the scripts of one text share: the position, the commands found, and the variables set."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.found: list[Simple] = []
        self.values: dict[str, list[str]] = {}
        self.announced: list[tuple[str, Simple]] = []
        """Here-documents that begin on the next line: the word at the end of each, and the command that reads it."""
        self.shells = 0
        self.words = 0


class _Script:
    """One script: the text itself, or that of a substitution."""

    def __init__(self, whole: _Whole, closing: str, scope: tuple[int, ...]) -> None:
        if len(scope) > MAX_NESTED:
            raise TooLongError
        self._whole = whole
        self._closing = closing
        self._scope = scope
        self._now = Simple(scope)
        self._mine: list[Simple] = []
        self._word: list[str] | None = None
        self._tail: list[str] = []
        self._wild = False
        self._into = ""

    def read(self) -> list[Simple]:
        """Read to the end, or to what closes it; returns its commands."""
        whole = self._whole
        while whole.at < len(whole.text):
            if self._word is None and whole.text[whole.at] == "#":
                end = whole.text.find("\n", whole.at)
                whole.at = len(whole.text) if end < 0 else end
                continue
            match = _CODE.match(whole.text, whole.at)
            assert match is not None  # some character always is the next piece
            if match[0] == self._closing:
                break
            whole.at = match.end()
            kind = "heredoc" if match.lastgroup == "tag" else str(match.lastgroup)
            getattr(self, f"_{kind}")(match[0], match)
        self._take_bodies()
        self._finish()
        return self._mine

    # --- a piece of the text, by its kind in `_CODE`

    def _blank(self, piece: str, match: re.Match[str]) -> None:
        del piece, match
        self._finish_word()

    def _continued(self, piece: str, match: re.Match[str]) -> None:
        """Skip a line continuation; a word that it splits continues."""

    def _heredoc(self, piece: str, match: re.Match[str]) -> None:
        del piece
        self._finish_word()
        self._whole.announced.append((match["tag"], self._now))

    def _redirect(self, piece: str, match: re.Match[str]) -> None:
        del match
        self._finish_word()
        self._into = piece.lstrip("0123456789")

    def _open(self, piece: str, match: re.Match[str]) -> None:
        del match
        whole = self._whole
        if piece == "(" and self._word is not None and whole.text.startswith(")", whole.at):
            whole.at, self._word = whole.at + 1, None  # a function is named
            self._tail.clear()
            return
        inner = self._substituted(piece)
        if piece != "(" or self._word is not None:
            self._join(inner, wild=True)

    def _end(self, piece: str, match: re.Match[str]) -> None:
        del match
        self._finish(self._now if piece in ("|", "|&") and (self._now.words or self._word) else None)
        if piece == "\n":
            self._take_bodies()

    _close = _end

    def _single(self, piece: str, match: re.Match[str]) -> None:
        del match
        self._join([piece[1:-1]])

    def _ansi(self, piece: str, match: re.Match[str]) -> None:
        del match
        self._join([_ANSI.sub(_character, piece[2:-1])])

    def _double(self, piece: str, match: re.Match[str]) -> None:
        del piece, match
        self._join([""])
        whole = self._whole
        while whole.at < len(whole.text):
            match_ = _QUOTED.match(whole.text, whole.at)
            assert match_ is not None
            whole.at, kind, inner = match_.end(), match_.lastgroup, match_[0]
            if kind == "end":
                return
            if kind == "open":
                self._join(self._substituted(inner))
            elif kind == "variable":
                self._join(self._value(inner))
            elif kind == "escape":
                self._join(["" if inner[1] == "\n" else inner[1] if inner[1] in '$`"\\' else inner])
            else:
                self._join([inner])

    def _escape(self, piece: str, match: re.Match[str]) -> None:
        del match
        self._join([piece[1:]])

    def _variable(self, piece: str, match: re.Match[str]) -> None:
        del match
        self._join(self._value(piece), wild=True)

    def _special(self, piece: str, match: re.Match[str]) -> None:
        del match
        self._join([piece], wild=True)

    def _plain(self, piece: str, match: re.Match[str]) -> None:
        del match
        self._join(["" if piece in ("'", '"') else piece])  # no end of such a quote is there

    # --- words and commands

    def _join(self, pieces: Sequence[str], *, wild: bool = False) -> None:
        """Append one of several alternative pieces to the word. Single pieces are joined once, at the end."""
        if self._word is None:
            self._word = [""]
        if len(pieces) == 1:
            self._tail.append(pieces[0])
        else:
            self._word = [text + piece for text in self._readings() for piece in pieces][:MAX_READINGS]
        self._wild = self._wild or wild

    def _readings(self) -> list[str]:
        tail = "".join(self._tail)
        self._tail.clear()
        return [text + tail for text in self._word or [""]] if tail else self._word or [""]

    def _finish_word(self) -> None:
        if self._word is None:
            return
        texts, into, command = self._readings(), self._into, self._now
        self._word, self._into = None, ""
        if into == "<<<":
            command.bodies += texts
        else:
            place = command.words if not into else command.reads if into in ("<", "<&") else command.writes
            words = [one for text in texts for one in (_expanded(text) if self._wild else [text])]
            place += (found := [ShellWord(one, self._wild and not _WILD.isdisjoint(one)) for one in words])
            if into in (">", ">|", "&>"):
                command.truncates += found
            self._whole.words += len(words)
            if self._whole.words > MAX_WORDS:
                raise TooLongError
        self._wild = False

    def _finish(self, before: Simple | None = None) -> None:
        self._finish_word()
        now = self._now
        if now.words or now.writes or now.reads:
            self._assign(now)
            self._mine.append(now)
            self._whole.found.append(now)
            self._now = Simple(self._scope, before)

    def _substituted(self, opening: str) -> list[str]:
        """What a substitution may expand to: any of the words of its commands, or something else."""
        whole = self._whole
        whole.shells += 1
        if whole.shells > MAX_SHELLS:
            raise TooLongError
        inner = _Script(whole, "`" if opening == "`" else ")", (*self._scope, whole.shells)).read()
        whole.at += 1
        if opening == "$((" and whole.text.startswith(")", whole.at):
            whole.at += 1
        words = [word.text for one in inner for word in (*one.words, *one.reads) if word.text[:1] != "-"]
        here = ["."] if any(text in ("pwd", "rev-parse") for text in words) else []
        here += [".*"] if any(lists_hidden(one.words) for one in inner) else []
        return list(dict.fromkeys((UNKNOWN, *here, *words)))[:MAX_READINGS]

    def _value(self, piece: str) -> list[str]:
        name = _NAME.match(piece.strip("${}#!"))
        key = name[0] if name else ""
        if "$(" in piece or "`" in piece:  # another value is made where there is none
            whole = _Whole(piece[2:-1].lstrip(key).lstrip(":-=+?"))
            _Script(whole, "", (*self._scope, -1)).read()
            self._whole.found += whole.found
        if key == "PWD":
            return ["."]  # wherever that is by then
        if key in self._whole.values:
            return self._whole.values[key]
        return [os.environ[key]] if key and key in os.environ else [UNKNOWN]

    def _assign(self, command: Simple) -> None:
        """Keep what a command sets variables to."""
        values = self._whole.values
        texts = [word.text for word in command.words]
        for text in texts:
            match = _ASSIGNMENT.match(text)
            if match is not None:
                kept = values.get(match[1], []) if text[match.end(1)] == "+" else []
                value = text[match.end() :]
                values[match[1]] = [*kept, value, *(one + value for one in kept)][:MAX_READINGS]
        if texts[:1] in (["for"], ["select"]) and len(texts) > 2:
            values[texts[1]] = texts[3:][:MAX_READINGS] or [UNKNOWN]
        if texts[:1] == ["read"]:
            values.update({text: [UNKNOWN] for text in texts[1:]})

    def _take_bodies(self) -> None:
        """Read the here-documents that were announced on the line before."""
        whole = self._whole
        for tag, command in whole.announced:
            name = tag.strip("'\"").replace("\\", "")
            end = re.compile(rf"^[ \t]*{re.escape(name)}[ \t]*$", re.MULTILINE).search(whole.text, whole.at)
            body = whole.text[whole.at : end.start() if end else len(whole.text)]
            command.bodies.append(body)
            if name == tag:  # no part of it is quoted
                command.substituted.append(body)
            whole.at = min(len(whole.text), end.end() + 1 if end else len(whole.text))
        whole.announced = []


def lists_hidden(words: Sequence[ShellWord]) -> bool:
    """Whether a command prints the names in a folder, those with a dot among them."""
    letters = {letter for word in words[1:] if word.text[:1] == "-" for letter in word.text}
    return bool(words) and os.path.basename(words[0].text) == "ls" and not {"a", "A"}.isdisjoint(letters)


def _expanded(text: str) -> list[str]:
    """The words that braces expand to: `a{b,c}` is `ab` and `ac`."""
    found = [text]
    for _ in range(MAX_NESTED):
        if len(found) > MAX_READINGS or not any(_BRACES.search(one) for one in found):
            break
        found = [
            one[: match.start()] + part + one[match.end() :]
            for one in found
            for match in [_BRACES.search(one)]
            for part in (match[1].split(",") if match else [""])
            if match
        ] + [one for one in found if not _BRACES.search(one)]
    return found


def _character(match: re.Match[str]) -> str:
    code = next((number for number in match.groups()[:3] if number), None)
    if code is not None:
        return chr(min(int(code, 16), 0x10FFFF)).strip("\0")
    return chr(int(match[4], 8) & 255).strip("\0") if match[4] else _ANSI_NAMED.get(match[5], match[5])

"""Parses a command line as bash does, into commands and words. What it cannot read exactly as bash does is unread."""

from __future__ import annotations

import re
from typing import NamedTuple

MAX_NESTED = 20
"""Deepest nesting of substitutions and compound commands."""
MAX_WORDS = 20_000
MAX_TEXT = 1024 * 1024
"""Longest line in characters."""

UNKNOWN, FOREIGN, UNSET, HERE, HARMLESS = "\1", "\2", "\3", "\4", "\x0e"
"""In a word that was expanded: any text; text of a file or of a program; a variable without a value; the folder that the shell is in;
text that is no name of a protected place, nor a part of one.
"""
MARKS = frozenset((UNKNOWN, FOREIGN, UNSET, HERE, HARMLESS))
ANYWHERE = "\1"
"""A folder that is not known."""
_KEPT = re.compile(r"[\x00-\x08\x0b\x0e]")

_RUN = re.compile(r"[^\s\x00-\x1f\x7f|&;()<>$`'\"\\]+")
_PLAIN = re.compile(r"[A-Za-z./][\w./:,@%+-]*(?: [\w./:,@%+=-]+)*", re.ASCII)
"""Matches a line of one command, without special meaning for a shell."""
_BLANK = re.compile(r"(?:[ \t]|\\\n)+")
_REDIRECT = re.compile(r"(\d*)(<<<|<<-?|<&|<>|<(?!\()|>>|>\||>&|>(?!\()|&>>|&>)")
_VARIABLE = re.compile(r"[A-Za-z_]\w*|[0-9@*#?$!-]", re.ASCII)
_PARAMETER = re.compile(
    r"(?P<length>#(?=[A-Za-z_@*0-9]))?(?P<indirect>!)?(?P<name>[A-Za-z_]\w*|\d+|[@*#?$!-])"
    r"(?P<index>\[(?:[@*]|-?\w+|\$\w+|\$\{\w+\})\])?(?P<op>:[-=+?]|[-=+?]|%%?|\#\#?|//?|:|\^\^?|,,?|@)?",
    re.ASCII,
)
_SUM = re.compile(r"[\w\s+\-*/%<>=!&|^~?:,.#]+|\[[\w+-]*\]", re.ASCII)
"""Matches what is only an expression in arithmetic."""
_TEST = re.compile(r"[^\s$`'\"\\;]+")
_ASSIGNED = re.compile(r"([A-Za-z_]\w*)(\[[\w\"' ./-]*\])?(\+?)=", re.ASCII)
_INDEXED = re.compile(r"[A-Za-z_]\w*\[")
_KEYWORD = re.compile(
    r"(?:if|then|elif|else|fi|while|until|do|done|for|select|case|esac|in|function|coproc|time|\[\[|[{}!])(?=[\s;&|()<>]|$)"
)
_ENDING = frozenset(("then", "elif", "else", "fi", "do", "done", "esac", "}"))
_ANSI = re.compile(
    r"\\(?:x([0-9a-fA-F]{1,2})|u([0-9a-fA-F]{1,4})|U([0-9a-fA-F]{1,8})|([0-7]{1,3})|c(.)|(.))", re.DOTALL
)
_ANSI_NAMED = {"n": "\n", "t": "\t", "r": "\r", "a": "\a", "b": "\b", "f": "\f", "v": "\v", "e": "\x1b", "E": "\x1b"}  # fmt: skip


class UnreadError(Exception):
    """A line that cannot be read exactly as bash reads it."""


class ShellWord(NamedTuple):
    """One reading of a word. `wild`: a shell would expand it to names of files."""

    text: str
    wild: bool = False


class WordPart(NamedTuple):
    """A part of a word. `kind` is one of `text`, `variable` (`text` is its name, `op` what follows that), `substitution`,
    `process`, `sum` (arithmetic) and `array` (of the words in `more`).
    """

    kind: str
    text: str = ""
    quoted: bool = False
    op: str = ""
    more: tuple[object, ...] = ()


Word = tuple[WordPart, ...]


class Redirect:
    """A redirection; of a here-document, `target` is its text."""

    __slots__ = ("op", "target")

    def __init__(self, op: str, target: Word) -> None:
        self.op = op
        self.target = target


class Simple(NamedTuple):
    """A simple command: assignments (name, `+` where it appends, `[` where it is of an element, value), words and redirections."""

    assigned: tuple[tuple[str, str, Word], ...]
    words: tuple[Word, ...]
    redirects: tuple[Redirect, ...]


class Compound(NamedTuple):
    """Commands together. `kind` is one of `list`, `and`, `or`, `pipe`, `subshell`, `group`, `branches`, `loop`, `function` and
    `words` (of a test or of arithmetic).
    """

    kind: str
    parts: tuple[Simple | Compound, ...] = ()
    redirects: tuple[Redirect, ...] = ()
    name: str = ""
    words: tuple[Word, ...] = ()


def parse(line: str) -> Compound:
    """The commands of a line. Raises `UnreadError`."""
    if len(line) > MAX_TEXT or _KEPT.search(line):
        raise UnreadError
    if _PLAIN.fullmatch(line) and not _KEYWORD.match(line):
        return Compound("list", (Simple((), tuple((WordPart("text", word),) for word in line.split()), ()),))
    reader = _Reader(line)
    script = reader.script("")
    if reader.at < len(line):
        raise UnreadError
    return script


class _Reader:
    def __init__(self, text: str, depth: int = 0) -> None:
        self.text = text
        self.at = 0
        self._depth = depth
        self._words = 0
        self._announced: list[tuple[str, bool, Redirect]] = []
        """Here-documents that start on the next line."""

    def _peek(self, text: str) -> bool:
        return self.text.startswith(text, self.at)

    def _take(self, text: str) -> bool:
        if not self._peek(text):
            return False
        self.at += len(text)
        return True

    def _need(self, text: str) -> None:
        self._blank()
        if not self._take(text):
            raise UnreadError

    def _blank(self) -> None:
        match = _BLANK.match(self.text, self.at)
        if match:
            self.at = match.end()
        if self._peek("#"):
            end = self.text.find("\n", self.at)
            self.at = len(self.text) if end < 0 else end

    def _lines(self) -> None:
        """Skip line ends and blanks."""
        self._blank()
        while self._peek("\n"):
            self.at += 1
            self._bodies()
            self._blank()

    def _keyword(self) -> str:
        self._blank()
        match = _KEYWORD.match(self.text, self.at)
        return match[0] if match else ""

    def _expect(self, keyword: str) -> None:
        if self._keyword() != keyword:
            raise UnreadError
        self.at += len(keyword)

    # --- commands

    def script(self, closing: str) -> Compound:
        """A list of commands, to what closes it or to a keyword that ends it."""
        self._depth += 1
        if self._depth > MAX_NESTED:
            raise UnreadError
        commands: list[Simple | Compound] = []
        self._lines()
        while self.at < len(self.text) and not (closing and self._peek(closing)):
            if self._keyword() in _ENDING or self._peek(";;") or self._peek(";&"):
                break
            item = self._and_or()
            self._blank()
            if self._peek("&") and not self._peek("&&"):
                self.at += 1
                item = Compound("subshell", (item,))
            elif self._peek(";") and not self._peek(";;") and not self._peek(";&"):
                self.at += 1
            elif not (
                self.at >= len(self.text) or self._peek("\n") or (closing and self._peek(closing)) or self._peek(";")
            ):
                raise UnreadError
            commands.append(item)
            self._lines()
        if self._announced and closing:
            raise UnreadError
        if self.at >= len(self.text):
            self._bodies()
        self._depth -= 1
        return Compound("list", tuple(commands))

    def _and_or(self) -> Simple | Compound:
        command = self._pipeline()
        while True:
            self._blank()
            kind = "and" if self._take("&&") else "or" if self._take("||") else ""
            if not kind:
                return command
            self._lines()
            command = Compound(kind, (command, self._pipeline()))

    def _pipeline(self) -> Simple | Compound:
        while (keyword := self._keyword()) in ("!", "time"):
            if keyword == "time" and re.compile(r"time[ \t]+-(?!p\s)").match(self.text, self.at):
                break  # the program, not the keyword
            self.at += len(keyword)
            self._blank()
            if keyword == "time":
                self._take("-p ")
        commands = [self._command()]
        self._blank()
        while self._peek("|") and not self._peek("||"):
            self.at += 2 if self._peek("|&") else 1
            self._lines()
            commands.append(self._command())
            self._blank()
        return commands[0] if len(commands) == 1 else Compound("pipe", tuple(commands))

    def _command(self) -> Simple | Compound:
        keyword = self._keyword()
        if self._peek("(("):
            self.at += 2
            command = Compound("words", words=((self._sum("))"),),))
        elif self._take("("):
            command = Compound("subshell", (self._closed(")"),))
        elif keyword in ("", "time"):
            return self._simple()
        else:
            self.at += len(keyword)
            command = self._compound(keyword)
        return command._replace(redirects=tuple(self._redirects()))

    def _closed(self, closing: str) -> Compound:
        script = self.script(closing)
        self._need(closing)
        if not script.parts:
            raise UnreadError
        return script

    def _body(self) -> Compound:
        script = self.script("")
        if not script.parts:
            raise UnreadError
        return script

    def _compound(self, keyword: str) -> Compound:
        if keyword == "{":
            body = self._body()
            self._expect("}")
            return Compound("group", (body,))
        if keyword == "if":
            parts: list[Simple | Compound] = [self._body()]
            self._expect("then")
            parts.append(self._body())
            while (keyword := self._keyword()) in ("elif", "else"):
                self.at += len(keyword)
                parts.append(self._body())
                if keyword == "elif":
                    self._expect("then")
                    parts.append(self._body())
            self._expect("fi")
            return Compound("branches", tuple(parts))
        if keyword in ("while", "until"):
            condition = self._body()
            self._expect("do")
            body = self._body()
            self._expect("done")
            return Compound("loop", (condition, body))
        if keyword in ("for", "select"):
            return self._for()
        if keyword == "case":
            return self._case()
        if keyword == "[[":
            return Compound("words", name="[[", words=tuple(self._test()))
        if keyword == "function":
            self._blank()
            name = _RUN.match(self.text, self.at)
            if not name:
                raise UnreadError
            self.at = name.end()
            self._blank()
            if self._take("("):
                self._need(")")
            return self._function(name[0])
        raise UnreadError

    def _function(self, name: str) -> Compound:
        self._lines()
        if not (self._peek("(") or self._keyword() in ("{", "if", "while", "until", "for", "case")):
            raise UnreadError
        return Compound("function", (self._command(),), name=name)

    def _for(self) -> Compound:
        self._blank()
        words: list[Word] | None = None
        name = ""
        if self._take("(("):
            words = [(self._sum("))"),)]
        else:
            match = re.compile(r"[A-Za-z_]\w*", re.ASCII).match(self.text, self.at)
            if not match:
                raise UnreadError
            name, self.at = match[0], match.end()
            self._lines()
            if self._keyword() == "in":
                self.at += 2
                words = []
                self._blank()
                while (word := self._word()) is not None:
                    words.append(word)
                    self._blank()
        self._blank()
        self._take(";")
        self._lines()
        keyword = self._keyword()
        if keyword not in ("do", "{"):
            raise UnreadError
        self.at += len(keyword)
        body = self._body()
        self._expect("done" if keyword == "do" else "}")
        everything = ((WordPart("variable", "@", quoted=True),),)
        return Compound(
            "loop", (Compound("list"), body), name=name, words=everything if words is None else tuple(words)
        )

    def _case(self) -> Compound:
        self._blank()
        subject = self._word()
        if subject is None:
            raise UnreadError
        words, bodies = [subject], []
        self._lines()
        self._expect("in")
        self._lines()
        while self._keyword() != "esac":
            self._take("(")
            while True:
                self._blank()
                pattern = self._word()
                if pattern is None:
                    raise UnreadError
                words.append(pattern)
                self._blank()
                if not self._take("|"):
                    break
            self._need(")")
            bodies.append(self.script(""))
            self._blank()
            if not (self._take(";;&") or self._take(";;") or self._take(";&")) and self._keyword() != "esac":
                raise UnreadError
            self._lines()
        self._expect("esac")
        return Compound("branches", (Compound("list"), *bodies), words=tuple(words))

    def _test(self) -> list[Word]:
        """The words of `[[ … ]]`, operators among them."""
        words: list[Word] = []
        while True:
            self._lines()
            if re.compile(r"\]\](?=[\s;&|()<>]|$)").match(self.text, self.at):
                self.at += 2
                return words
            parts: list[WordPart] = []
            while self.at < len(self.text):
                match = _TEST.match(self.text, self.at)
                if match:
                    parts.append(WordPart("text", match[0]))
                    self.at = match.end()
                    if "<(" in match[0] or ">(" in match[0]:
                        raise UnreadError
                elif not self._piece(parts):
                    break
            if not parts:
                raise UnreadError
            self._count()
            words.append(tuple(parts))

    def _simple(self) -> Simple | Compound:
        assigned: list[tuple[str, str, Word]] = []
        words: list[Word] = []
        redirects: list[Redirect] = []
        while True:
            redirects += self._redirects()
            begin = self.at
            word = self._word()
            if word is None:
                break
            match = _ASSIGNED.match(word[0].text) if word[0].kind == "text" and not word[0].quoted else None
            if match and not words:
                value = tuple(
                    filter(
                        lambda part: part != WordPart("text"),
                        (word[0]._replace(text=word[0].text[match.end() :]), *word[1:]),
                    )
                )
                assigned.append((match[1], ("[" if match[2] else "") + match[3], value))
                continue
            indexed = not words and word[0].kind == "text" and not word[0].quoted and _INDEXED.match(word[0].text)
            if not match and (indexed or any(part.kind == "array" for part in word)):
                raise UnreadError
            words.append(word)
            if len(words) == 1 and not assigned and _RUN.fullmatch(name := self.text[begin : self.at]):
                self._blank()
                if self._take("("):
                    self._need(")")
                    return self._function(name)
        if not (assigned or words or redirects):
            raise UnreadError
        return Simple(tuple(assigned), tuple(words), tuple(redirects))

    def _redirects(self) -> list[Redirect]:
        redirects: list[Redirect] = []
        while True:
            self._blank()
            match = _REDIRECT.match(self.text, self.at)
            if not match:
                return redirects
            self.at = match.end()
            op = match[2]
            self._blank()
            begin = self.at
            target = self._word()
            if target is None:
                raise UnreadError
            redirects.append(Redirect(op, target))
            if op in ("<<", "<<-"):
                if any(part.kind != "text" for part in target) or "\n" in (
                    tag := "".join(part.text for part in target)
                ):
                    raise UnreadError
                raw = tag == self.text[begin : self.at]
                self._announced.append((tag, raw, redirects[-1]))

    def _bodies(self) -> None:
        """Read the here-documents that were announced on the line before."""
        announced, self._announced = self._announced, []
        for tag, expands, redirect in announced:
            lines: list[str] = []
            while self.at < len(self.text):
                end = self.text.find("\n", self.at)
                end = len(self.text) if end < 0 else end
                line = self.text[self.at : end]
                while expands and end < len(self.text) and (len(line) - len(line.rstrip("\\"))) % 2:
                    after = self.text.find("\n", end + 1)
                    after = len(self.text) if after < 0 else after
                    line = line[:-1] + self.text[end + 1 : after]
                    end = after
                self.at = min(end + 1, len(self.text))
                line = line.lstrip("\t") if redirect.op == "<<-" else line
                if line == tag:
                    break
                lines.append(line)
            body = "".join(f"{line}\n" for line in lines)
            parts = _Reader(body, self._depth).quoted("") if expands else [WordPart("text", body, quoted=True)]
            redirect.op, redirect.target = "<<", tuple(parts)

    # --- words

    def _count(self) -> None:
        self._words += 1
        if self._words > MAX_WORDS:
            raise UnreadError

    def _word(self) -> Word | None:
        begin = self.at
        parts: list[WordPart] = []
        while self.at < len(self.text):
            match = _RUN.match(self.text, self.at)
            if match:
                parts.append(WordPart("text", match[0]))
                self.at = match.end()
            elif self._peek("(") and len(parts) == 1 and _ASSIGNED.fullmatch(parts[0].text) and not parts[0].quoted:
                parts.append(self._array())
            elif self._peek("<(") or self._peek(">("):
                kind = self.text[self.at]
                self.at += 2
                parts.append(WordPart("process", kind, more=(self._closed(")"),)))
            elif not self._piece(parts):
                break
        if not parts and self.at == begin:
            return None
        if self._announced and "\n" in self.text[begin : self.at]:
            raise UnreadError
        self._count()
        return tuple(parts) or (WordPart("text"),)

    def _array(self) -> WordPart:
        self.at += 1
        words: list[Word] = []
        self._lines()
        while not self._take(")"):
            word = self._word()
            if word is None:
                raise UnreadError
            words.append(word)
            self._lines()
        return WordPart("array", more=tuple(words))

    def _piece(self, parts: list[WordPart]) -> bool:
        """Read one part that is quoted, or that a shell expands; returns whether there is one."""
        char = self.text[self.at]
        if char == "'":
            end = self.text.find("'", self.at + 1)
            if end < 0:
                raise UnreadError
            parts.append(WordPart("text", self.text[self.at + 1 : end], quoted=True))
            self.at = end + 1
        elif char == '"':
            self.at += 1
            parts += self.quoted('"') or [WordPart("text", "", quoted=True)]
        elif char == "\\":
            if self.at + 1 >= len(self.text):
                raise UnreadError
            if self.text[self.at + 1] != "\n":
                parts.append(WordPart("text", self.text[self.at + 1], quoted=True))
            self.at += 2
        elif char in "$`":
            parts.append(self._expansion(quoted=False))
        elif char not in " \t\n|&;()<>":
            raise UnreadError  # an odd blank or a control character
        else:
            return False
        return True

    def quoted(self, closing: str) -> list[WordPart]:
        """The parts of a text in double quotes, or of a here-document, to what closes it."""
        parts: list[WordPart] = []
        plain = re.compile(rf"[^\\$`{closing}]+")
        while self.at < len(self.text):
            match = plain.match(self.text, self.at)
            if match:
                parts.append(WordPart("text", match[0], quoted=True))
                self.at = match.end()
            elif closing and self._take(closing):
                return parts
            elif self._peek("\\"):
                after = self.text[self.at + 1 : self.at + 2]
                text = "" if after == "\n" else after if after and after in f"$`\\{closing}" else f"\\{after}"
                parts.append(WordPart("text", text, quoted=True))
                self.at += 2
            else:
                parts.append(self._expansion(quoted=True))
        if closing:
            raise UnreadError
        return parts

    def _expansion(self, *, quoted: bool) -> WordPart:
        if self._take("`"):
            return self._backticks(quoted=quoted)
        self.at += 1
        if not quoted and self._take("'"):
            match = re.compile(r"((?:[^'\\]|\\.)*)'", re.DOTALL).match(self.text, self.at)
            if not match:
                raise UnreadError
            self.at = match.end()
            text = _ANSI.sub(_character, match[1]).partition("\0")[0]
            if _KEPT.search(text):
                raise UnreadError
            return WordPart("text", text, quoted=True)
        if not quoted and self._take('"'):
            parts = self.quoted('"')
            if any(part.kind != "text" for part in parts):
                raise UnreadError
            return WordPart("text", "".join(part.text for part in parts), quoted=True)
        if self._take("(("):
            return self._sum("))")._replace(quoted=quoted)
        if self._take("("):
            body = self.script(")")
            self._need(")")
            return WordPart("substitution", quoted=quoted, more=(body,))
        if self._take("{"):
            return self._parameter(quoted=quoted)
        match = _VARIABLE.match(self.text, self.at)
        if match:
            self.at = match.end()
            return WordPart("variable", match[0], quoted=quoted)
        if self._peek("["):
            raise UnreadError
        return WordPart("text", "$", quoted=True)

    def _backticks(self, *, quoted: bool) -> WordPart:
        match = re.compile(r"((?:[^`\\]|\\.)*)`", re.DOTALL).match(self.text, self.at)
        if not match:
            raise UnreadError
        self.at = match.end()
        text = re.sub(r'\\([\\`$"])' if quoted else r"\\([\\`$])", r"\1", match[1])
        inner = _Reader(text, self._depth)
        body = inner.script("")
        if inner.at < len(text):
            raise UnreadError
        return WordPart("substitution", quoted=quoted, more=(body,))

    def _parameter(self, *, quoted: bool) -> WordPart:
        match = _PARAMETER.match(self.text, self.at)
        if not match:
            raise UnreadError
        self.at = match.end()
        op = match["op"] or ""
        parts: list[WordPart] = []
        while not self._take("}"):
            if not op or self.at >= len(self.text):
                raise UnreadError
            plain = re.compile(r"[^\\$`'\"}<>\x00-\x08]+|[<>](?!\()").match(self.text, self.at)
            if plain:
                parts.append(WordPart("text", plain[0], quoted=quoted and op[0] in ":-=+?"))
                self.at = plain.end()
            elif quoted and (self._peek("'") or self._peek('$"') or self._peek("$'")):
                raise UnreadError
            elif quoted and self._peek("\\"):
                if self.text[self.at + 1 : self.at + 2] not in ("/", "\\", "$", "`", '"', "}"):
                    raise UnreadError
                parts.append(WordPart("text", self.text[self.at + 1], quoted=True))
                self.at += 2
            elif self._peek("$") or self._peek("`"):
                parts.append(self._expansion(quoted=quoted))
            elif not self._piece(parts):
                raise UnreadError
        kind = "#" if match["length"] else "!" if match["indirect"] else op
        if kind in "#!" and kind != op and op:
            raise UnreadError
        return WordPart(
            "variable",
            match["name"] + (match["index"] or ""),
            quoted,
            kind if kind != "#" or op else "length",
            tuple(parts),
        )

    def _sum(self, closing: str) -> WordPart:
        """Arithmetic, to what closes it. `text` is what it says, `more` are its expansions."""
        texts: list[str] = []
        parts: list[WordPart] = []
        depth = 0
        while not (depth == 0 and self._take(closing)):
            match = _SUM.match(self.text, self.at)
            if match:
                texts.append(match[0])
                self.at = match.end()
            elif self._peek("(") or (self._peek(")") and depth):
                depth += 1 if self._peek("(") else -1
                self.at += 1
            elif self._peek(";") and closing == "))" and not depth:
                self.at += 1
            elif self._peek("$"):
                parts.append(self._expansion(quoted=True))
            else:
                raise UnreadError
        return WordPart("sum", " ".join(texts), more=tuple(parts))


def _character(match: re.Match[str]) -> str:
    code = next((number for number in match.groups()[:3] if number), None)
    if code is not None:
        number = int(code, 16)
        if number > 0x10FFFF or (match[1] and number > 0x7F):
            raise UnreadError
        return chr(number)
    if match[4]:
        number = int(match[4], 8) & 255
        if number > 0x7F:
            raise UnreadError
        return chr(number)
    if match[5]:
        return chr(ord(match[5].upper()) & 31) if match[5].isascii() and match[5] != "\\" else "\x7f"
    return _ANSI_NAMED.get(match[6], match[6] if match[6] in "\\'\"?" else f"\\{match[6]}")

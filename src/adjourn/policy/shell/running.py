"""Follows a parsed line as bash would run it: which commands there are, with which words, from which folders, fed with what.

A word has all the texts that it may come to. Text that cannot be known is `UNKNOWN` (the line itself may have made it up) or
`FOREIGN` (it comes out of a file or of a program). Where bash may take several ways, all are followed.
"""

from __future__ import annotations

import fnmatch
import itertools
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from adjourn.policy.shell.syntax import (
    ANYWHERE,
    FOREIGN,
    HARMLESS,
    HERE,
    UNKNOWN,
    UNSET,
    Compound,
    Redirect,
    ShellWord,
    Simple,
    UnreadError,
    Word,
    WordPart,
    parse,
)
from adjourn.policy.shell.tables import printed_by

MAX_READINGS = 48
"""Most readings of one word, and of one command."""
MAX_COMMANDS = 4000
MAX_DEPTH = 6
"""Deepest nesting of lines and functions in one another."""
MAX_ROUNDS = 6
"""Rounds after which what a loop still changes is unknown."""
MAX_FOLDERS = 40
MAX_BRACES = 20
_ACTIVE = str.maketrans("*?[", "\5\6\7")
_SHOWN = str.maketrans("\5\6\7", "*?[")
_SPLIT = "\x0b"
_NAME = re.compile(r"[A-Za-z_]\w*", re.ASCII)
_ASSIGNED = re.compile(r"([A-Za-z_]\w*)(\+?)=(.*)", re.ASCII | re.DOTALL)
_RANGE = re.compile(r"(-?\d{1,6}|[A-Za-z])\.\.(-?\d{1,6}|[A-Za-z])(?:\.\.(-?\d{1,4}))?")
_DECLARING = {
    "export": "npf",
    "declare": "xgrpaAfFtlu",
    "typeset": "xgrpaAfFtlu",
    "local": "rpaAtlu",
    "readonly": "paAf",
}
_SET = frozenset("euxvfbhCETmBPapni")
_SHOPT = frozenset(("dotglob", "failglob", "globstar", "inherit_errexit", "lastpipe", "nocaseglob", "nullglob", "checkwinsize", "globskipdots"))  # fmt: skip
_UNREADABLE = frozenset((
    "bind", "coreutils", "caller", "compgen", "complete", "compopt", "coproc", "enable", "fc", "hash", "logout", "setopt", "suspend",
))  # fmt: skip
"""Builtins that change what a name means."""
_BUILTINS = frozenset("cd chdir getopts let mapfile popd pushd read readarray set shift shopt unset".split())
_ENDING = frozenset(("exit", "return"))


_Files = tuple[tuple[ShellWord, ...], tuple[ShellWord, ...], tuple[ShellWord, ...]]
"""What redirections read, write, and empty before."""


class Value(NamedTuple):
    """The texts that a variable may have; of an array, also its elements."""

    texts: tuple[str, ...]
    items: tuple[tuple[str, ...], ...] | None = None


class Command(NamedTuple):
    """One way in which a simple command may run. `given` is what it may read, `feeds` tells that another program reads what it says."""

    words: tuple[ShellWord, ...]
    bases: tuple[str, ...] = (".",)
    reads: tuple[ShellWord, ...] = ()
    writes: tuple[ShellWord, ...] = ()
    truncates: tuple[ShellWord, ...] = ()
    given: tuple[str, ...] = ()
    assigned: tuple[tuple[str, str], ...] = ()
    feeds: bool = False


Report = Callable[[Command], "bool | None"]
"""Takes a command; returns whether names that it lists are none of what matters."""


class Walk:
    """A shell that runs nothing. It starts in one of the `bases`; `environment` are its variables."""

    def __init__(self, report: Report, environment: Mapping[str, str], bases: tuple[str, ...] = (".",)) -> None:
        self._report = report
        self._environment = environment
        self._values: dict[str, Value] = {}
        self._bases = self._seen = bases
        self._arguments: tuple[str, ...] | None = None
        self._functions: dict[str, list[Compound | Simple]] = {}
        self._processes: dict[str, tuple[str, ...]] = {}
        self._depth = self._commands = self._feeding = 0

    def line(self, text: str, arguments: Sequence[str] | None = None, given: tuple[str, ...] = ()) -> tuple[str, ...]:
        """Follow a line in the shell as it is now; returns what it may print. Raises `UnreadError`."""
        if text.strip() == FOREIGN:
            return (FOREIGN,)
        if UNKNOWN in text or FOREIGN in text or HERE in text:
            raise UnreadError
        return self._inside(parse(text.replace(HARMLESS, "0").replace(UNSET, "")), arguments, given)

    def child(self, text: str, arguments: Sequence[str] | None = None, given: tuple[str, ...] = ()) -> tuple[str, ...]:
        """The same in a shell of its own."""
        before = self._state()
        if arguments is not None:
            self._values["0"] = Value((arguments[0] if arguments else HARMLESS,))
        outputs = self.line(text, arguments[1:] if arguments is not None else None, given)
        self._restore(before)
        return outputs

    def export(self, name: str, text: str) -> None:
        """Let a variable have a further value."""
        texts = tuple(text for text in self._value(name).texts if text != UNSET)
        self._values[name] = Value(_limited((*texts, text)))

    def processes(self, name: str) -> tuple[str, ...]:
        """What a file of `<(…)` has."""
        return self._processes.get(name, ())

    def _inside(
        self, body: Compound | Simple, arguments: Sequence[str] | None, given: tuple[str, ...]
    ) -> tuple[str, ...]:
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise UnreadError
        outer = self._arguments
        self._arguments = tuple(arguments) if arguments is not None else outer
        self._collect(body)
        outputs = self._run(body, given)
        self._arguments = outer if arguments is not None else self._arguments
        self._depth -= 1
        return outputs

    def _collect(self, node: Compound | Simple) -> None:
        if isinstance(node, Compound):
            if node.kind == "function" and node.parts[0] not in (bodies := self._functions.setdefault(node.name, [])):
                bodies.append(node.parts[0])
            for part in node.parts:
                self._collect(part)

    # --- what changes from command to command

    def _state(self) -> tuple[dict[str, Value], tuple[str, ...], tuple[str, ...] | None]:
        return dict(self._values), self._bases, self._arguments

    def _restore(self, state: tuple[dict[str, Value], tuple[str, ...], tuple[str, ...] | None]) -> None:
        self._values, self._bases, self._arguments = dict(state[0]), state[1], state[2]

    def _join(self, state: tuple[dict[str, Value], tuple[str, ...], tuple[str, ...] | None]) -> None:
        """Make the present state one of two that there may be."""
        values, bases, arguments = state
        for name in {**values, **self._values}:
            value, other = (known[name] if name in known else self._outside(name) for known in (values, self._values))
            if value != other:
                texts = _limited((*value.texts, *other.texts))
                items = (
                    other.items
                    if value.texts == (UNSET,)
                    else value.items
                    if other.texts == (UNSET,)
                    else ((UNKNOWN,),)
                )
                self._values[name] = Value(texts, items if value.items or other.items else None)
        self._bases = self._folders((*bases, *self._bases))
        if arguments != self._arguments:
            self._arguments = (UNKNOWN,)

    def _folders(self, bases: Iterable[str]) -> tuple[str, ...]:
        folders = tuple(dict.fromkeys(bases))
        if len(folders) > MAX_FOLDERS:
            folders = (*folders[:2], ANYWHERE)
        self._seen = tuple(dict.fromkeys((*self._seen, *folders)))[: 2 * MAX_FOLDERS]
        return folders

    def _outside(self, name: str) -> Value:
        if name in ("PWD", "OLDPWD"):
            return Value((HERE if name == "PWD" else UNKNOWN,))
        if name in self._environment:
            return Value((self._environment[name],))
        return Value((UNSET,))

    # --- commands

    def _run(self, node: Compound | Simple, given: tuple[str, ...]) -> tuple[str, ...]:
        if isinstance(node, Simple):
            return self._simple(node, given)
        if node.redirects:
            given, files = self._redirected(node.redirects, given)
            self._report(Command((), self._bases, *files))
        outputs: tuple[str, ...] = getattr(self, f"_{node.kind}")(node, given)
        return outputs

    def _list(self, node: Compound, given: tuple[str, ...]) -> tuple[str, ...]:
        outputs: tuple[str, ...] = ("",)
        for part in node.parts:
            bases = self._bases
            printed = self._run(part, given)
            if printed != ("",):
                outputs = _product(outputs, printed)
            if self._bases != bases and not (
                isinstance(part, Compound) and part.kind == "or" and self._ends(part.parts[1])
            ):
                self._bases = self._folders((*bases, *self._bases))  # `cd` may fail
        return outputs

    _group = _list

    def _and(self, node: Compound, given: tuple[str, ...]) -> tuple[str, ...]:
        chain: list[Compound | Simple] = []
        left: Compound | Simple = node
        while isinstance(left, Compound) and left.kind == "and" and not left.redirects:
            chain.append(left.parts[1])
            left = left.parts[0]
        bases = self._bases
        outputs = self._run(left, given)
        states = []
        for part in reversed(chain):
            states.append(self._state())
            outputs = _limited(first + other for first in outputs for other in self._run(part, given))
        for state in states:
            self._join(state)
        self._bases = self._folders((*bases, *self._bases))
        return outputs

    def _or(self, node: Compound, given: tuple[str, ...]) -> tuple[str, ...]:
        before = self._state()
        outputs = self._run(node.parts[0], given)
        after = self._state()
        self._join(before)
        more = self._run(node.parts[1], given)
        if self._ends(node.parts[1]):
            self._restore(after)
            return outputs
        self._join(after)
        return _limited((*outputs, *(first + other for first in outputs for other in more)))

    def _ends(self, node: Compound | Simple) -> bool:
        """Whether a shell ends with a command."""
        while isinstance(node, Compound) and node.kind in ("list", "group") and node.parts:
            node = node.parts[-1]
        if not isinstance(node, Simple) or not node.words or len(node.words[0]) != 1:
            return False
        return node.words[0][0].kind == "text" and node.words[0][0].text in _ENDING - self._functions.keys()

    def _pipe(self, node: Compound, given: tuple[str, ...]) -> tuple[str, ...]:
        for at, part in enumerate(node.parts):
            before = self._state()
            self._feeding += at < len(node.parts) - 1
            given = self._run(part, given)
            self._feeding -= at < len(node.parts) - 1
            if at == len(node.parts) - 1:
                self._join(before)
            else:
                self._restore(before)
        return given

    def _subshell(self, node: Compound, given: tuple[str, ...]) -> tuple[str, ...]:
        before = self._state()
        outputs = self._run(node.parts[0], given)
        self._restore(before)
        return outputs

    def _branches(self, node: Compound, given: tuple[str, ...]) -> tuple[str, ...]:
        for word in node.words:
            self._texts(word)
        outputs: tuple[str, ...] = ("",)
        for part in node.parts:
            before = self._state()
            outputs = _limited((*outputs, *self._run(part, given)))
            self._join(before)
        return outputs

    def _loop(self, node: Compound, given: tuple[str, ...]) -> tuple[str, ...]:
        texts: tuple[str, ...] = ()
        if node.name:
            fields = [field for word in node.words for reading in self._readings(word) for field in reading]
            texts = _limited(fields) or ("",)
        else:
            self._words(node, given)
        printed: set[str] = set()
        for turn in range(MAX_ROUNDS + 2):
            before = self._state()
            if node.name:
                self._values[node.name] = Value(texts)
            for part in node.parts:
                printed.update("".join(self._run(part, given)))
            self._join(before)
            if (self._values, self._bases) == before[:2]:
                break
            if turn >= MAX_ROUNDS:
                for name, value in self._values.items():
                    if value != before[0].get(name):
                        self._values[name] = Value((UNKNOWN,))
                if self._bases != before[1]:
                    self._bases = (*before[1], ANYWHERE)
        if printed - {FOREIGN, HARMLESS, "0", "\n"}:
            return (UNKNOWN,)
        return (FOREIGN,) if FOREIGN in printed else (HARMLESS,) if printed else ("",)

    def _function(self, node: Compound, given: tuple[str, ...]) -> tuple[str, ...]:
        before = self._state()
        self._arguments = None
        if self._depth < MAX_DEPTH:  # it may be called by what is not seen
            self._inside(node.parts[0], (HARMLESS,) * 9, given)
        self._restore(before)
        return ("",)

    def _words(self, node: Compound, given: tuple[str, ...]) -> tuple[str, ...]:
        """A test, or arithmetic."""
        del given
        for at, word in enumerate(node.words):
            if word[0].kind == "sum":
                self._sum(word[0])
                continue
            texts = self._texts(word)
            around = [_plain(node.words[near]) for near in (at - 1, at + 1) if 0 <= near < len(node.words)]
            if not {"-eq", "-ne", "-lt", "-le", "-gt", "-ge", "-v"}.isdisjoint(around):
                self._number(texts)
        return ("",)

    def _number(self, texts: Iterable[str]) -> None:
        """Arithmetic runs the substitutions in an index that it finds in a value. Raises `UnreadError` where there may be one."""
        for text in texts:
            if UNKNOWN in text or "[" in text or "\7" in text:
                raise UnreadError

    def _sum(self, part: WordPart) -> None:
        for inner in part.more:
            self._number(self._texts((inner,)))  # type: ignore[arg-type]
        for name in _NAME.findall(part.text):
            for text in self._value(name).texts:
                self._number([text])
                for further in _NAME.findall(text):
                    self._number(self._value(further).texts)
            if "=" in part.text:
                self._values[name] = Value(_limited((*self._value(name).texts, "0")))

    def _simple(self, node: Simple, given: tuple[str, ...]) -> tuple[str, ...]:
        self._commands += 1
        if self._commands > MAX_COMMANDS:
            raise UnreadError
        printed: tuple[str, ...] = ("",)
        assigned: dict[str, Value] = {}
        for name, appends, word in node.assigned:
            assigned[name] = self._assigned(name, word, appends=appends)
            if not node.words:
                self._values[name] = assigned[name]
        words = node.words
        if any(part.kind == "array" for word in words for part in word):
            words = self._declared(words)
        readings = self._combined(words)
        redirects: _Files = ((), (), ())
        if node.redirects:
            given, redirects = self._redirected(node.redirects, given)
        texts = tuple(
            (name, text)
            for name, value in assigned.items()
            for text in (*value.texts, *itertools.chain(*(value.items or ())))
        )
        if not node.words:
            self._report(Command((), self._bases, *redirects, given, texts))
            return printed
        before = {name: self._values.get(name) for name in assigned}
        self._values |= assigned
        if len(readings) == 1 and not assigned:
            command = Command(tuple(map(_shown, readings[0])), self._bases, *redirects, given, (), self._feeding > 0)
            return self._command(command, readings[0])
        outputs: list[str] = []
        start = self._state()
        states = []
        for fields in readings:
            self._restore(start)
            command = Command(tuple(map(_shown, fields)), self._bases, *redirects, given, texts, self._feeding > 0)
            outputs += self._command(command, fields)
            states.append(self._state())
        for state in states:
            self._join(state)
        for name, value in before.items():
            if value is not None:
                self._values[name] = value
            else:
                self._values.pop(name, None)
        return _limited(outputs) or ("",)

    def _redirected(self, redirects: Iterable[Redirect], given: tuple[str, ...]) -> tuple[tuple[str, ...], _Files]:
        """What a command reads, and the files that it reads, writes and empties."""
        reads: list[ShellWord] = []
        writes: list[ShellWord] = []
        truncates: list[ShellWord] = []
        for redirect in redirects:
            op, texts = redirect.op, self._texts(redirect.target)
            if op in ("<<", "<<<"):
                given = tuple(_inert(text) for text in texts)
                continue
            if op in ("<&", ">&") and all(re.fullmatch(r"\d*-?", text) for text in texts):
                continue
            fields = [field for reading in self._readings(redirect.target) for field in reading]
            words = [_shown(field) for field in fields]
            if op in ("<", "<&"):
                reads += words
                given = tuple(text for field in fields for text in self._processes.get(field, (FOREIGN,)))
            else:
                writes += [word for word, field in zip(words, fields, strict=True) if field not in self._processes]
                truncates += words if op in (">", ">|", "&>") else []
        redirections = (tuple(reads), tuple(writes), tuple(truncates))
        return given, redirections

    # --- builtins

    def _command(self, command: Command, fields: tuple[str, ...]) -> tuple[str, ...]:
        lists = self._report(command)
        if not fields:
            return ("",)
        while len(fields) > 1 and (
            fields[0] == UNSET or (fields[0] in ("command", "builtin") and fields[1][:1] != "-")
        ):
            fields = fields[1:]
        name, texts = fields[0], list(fields[1:])
        if bodies := self._functions.get(name):
            return _limited(text for body in bodies for text in self._inside(body, texts, command.given))
        if name in _UNREADABLE or (name == "alias" and any("=" in argument for argument in texts)):
            raise UnreadError
        if name in _DECLARING:
            self._declare(name, texts)
            return ("",)
        builtin = name in _BUILTINS and {
            "cd": self._go, "pushd": self._go, "popd": self._back, "chdir": self._go, "set": self._set, "shift": self._shift, "unset": self._unset,
            "read": self._read, "mapfile": self._mapfile, "readarray": self._mapfile, "getopts": self._getopts, "let": self._let,
            "shopt": self._shopt,
        }[name]  # fmt: skip
        if builtin:
            builtin(texts, command.given)
            return ("",)
        if name == "eval":
            return self.line(" ".join(texts).translate(_SHOWN), None, command.given)
        if name in (".", "source") and texts:
            return self._source(texts, command.given)
        if name == "trap" and texts[:1] == ["--"]:
            del texts[0]
        if name == "trap" and texts and texts[0] not in ("-", "-p", "-l", ""):
            return self.line(texts[0].translate(_SHOWN))
        if name == "printf" and texts and texts[0][:2] == "-v":
            target, texts = (
                (texts[0][2:], texts[1:]) if texts[0][2:] else (texts[1] if len(texts) > 1 else "", texts[2:])
            )
            wild = any(_inert(argument) != argument for argument in texts)
            self._assign([target], (UNKNOWN,) if wild else printed_by("printf", texts, (), {}, lists=False))
            return ("",)
        words = [_shown(field) for field in fields]
        if any(word.wild for word in words) and name in ("echo", "printf"):
            return (UNKNOWN,)
        return printed_by(
            words[0].text, [word.text for word in words[1:]], command.given, self._processes, lists=bool(lists)
        )

    def _source(self, texts: list[str], given: tuple[str, ...]) -> tuple[str, ...]:
        file = texts[0]
        if file in self._processes or file.startswith(("/dev/", "/proc/")):
            return _limited(
                text
                for script in self._processes.get(file, given or (UNKNOWN,))
                for text in self.line(script, texts[1:] or None)
            )
        if UNKNOWN in file or FOREIGN in file:
            raise UnreadError
        return (FOREIGN,)

    def _go(self, texts: list[str], given: tuple[str, ...]) -> None:
        del given
        options = [argument for argument in texts if re.fullmatch(r"-[LPe@n]+|--", argument)]
        operands = [argument.replace(UNSET, "") for argument in texts if argument not in options]
        to = operands[0] if operands else ""
        if not to:
            to = next(iter(self._value("HOME").texts))
        if to == "-" or re.fullmatch(r"[+-]\d+", to):
            self._bases = self._folders(self._seen)
            if "OLDPWD" in self._values:
                self._bases = (*self._bases, ANYWHERE)
        elif not {UNKNOWN, FOREIGN, HARMLESS, "\5", "\6", "\7"}.isdisjoint(to) or self._value("CDPATH").texts not in (
            (UNSET,),
            ("",),
        ):
            self._bases = (*self._bases, ANYWHERE)
        else:
            to = to.removeprefix(f"{HERE}/")
            moved = [
                base if to == HERE or base == ANYWHERE else to if to[0] == "/" else f"{base}/{to}"
                for base in self._bases
            ]
            self._bases = self._folders(moved if any(len(base) < 4000 for base in moved) else (ANYWHERE,))

    def _back(self, texts: list[str], given: tuple[str, ...]) -> None:
        del texts, given
        self._bases = self._folders(self._seen)

    def _set(self, texts: list[str], given: tuple[str, ...]) -> None:
        del given
        while texts and texts[0][:1] in ("-", "+") and len(texts[0]) > 1:
            option = texts.pop(0)
            if option == "--":
                self._arguments = tuple(texts)
                return
            letters = option[1:]
            if letters[-1] == "o" and texts:
                letters = letters[:-1]
                if texts.pop(0) in ("posix", "keyword", "history", "histexpand"):
                    raise UnreadError
            if not set(letters) <= _SET:
                raise UnreadError
        if texts:
            self._arguments = tuple(texts)

    def _shift(self, texts: list[str], given: tuple[str, ...]) -> None:
        del given
        if self._arguments is not None:
            count = int(texts[0]) if texts and texts[0].isdecimal() else 1
            self._arguments = self._arguments[count:] if UNKNOWN not in self._arguments else (UNKNOWN,)

    def _unset(self, texts: list[str], given: tuple[str, ...]) -> None:
        self._assign([argument for argument in texts if argument[:1] != "-"], (UNSET,))
        del given

    def _shopt(self, texts: list[str], given: tuple[str, ...]) -> None:
        del given
        if not {argument for argument in texts if argument[:1] != "-"} <= _SHOPT or "-o" in texts:
            raise UnreadError

    def _let(self, texts: list[str], given: tuple[str, ...]) -> None:
        del given
        self._number(texts)
        self._sum(WordPart("sum", " ".join(texts)))

    def _getopts(self, texts: list[str], given: tuple[str, ...]) -> None:
        del given
        self._assign([*texts[1:2], "OPTARG"], self._arguments or (UNSET,))

    def _read(self, texts: list[str], given: tuple[str, ...], valued: str = "adinNptu") -> None:
        names: list[str] = []
        while texts:
            word = texts.pop(0)
            letters = word[1:] if word[:1] == "-" else ""
            at = next((at for at, letter in enumerate(letters) if letter in valued), None)
            if not letters:
                names.append(word)
            elif at is not None:
                value = letters[at + 1 :] or (texts.pop(0) if texts else "")
                names += [value] if letters[at] == "a" else []
                if letters[at] == "C":
                    raise UnreadError
        self._assign(names or ["REPLY", "MAPFILE"], (_kind(given),))

    def _mapfile(self, texts: list[str], given: tuple[str, ...]) -> None:
        self._read(texts, given, "dnOsuCc")

    def _assign(self, names: Iterable[str], texts: tuple[str, ...]) -> None:
        for name in names:
            if not _NAME.fullmatch(name):
                raise UnreadError
            self._values[name] = Value(texts)

    def _declare(self, builtin: str, words: list[str]) -> None:
        for text in words:
            match = _ASSIGNED.fullmatch(text)
            if text[:1] in ("-", "+"):
                if not set(text[1:]) <= set(_DECLARING[builtin]):
                    raise UnreadError
            elif match:
                kept = self._value(match[1]).texts if match[2] else ("",)
                texts = self._home(match[3]) if match[3][:1] == "~" else (match[3],)
                self._values[match[1]] = Value(_product(kept, texts))
                assigned = tuple((match[1], value.translate(_SHOWN)) for value in texts)
                self._report(Command((), self._bases, assigned=assigned))
            elif not _NAME.fullmatch(text):
                raise UnreadError

    def _declared(self, words: tuple[Word, ...]) -> tuple[Word, ...]:
        """The words of a declaration without its arrays, which are assigned."""
        kept: list[Word] = []
        for word in words:
            if any(part.kind == "array" for part in word):
                match = _ASSIGNED.fullmatch(word[0].text)
                if not match or len(word) != 2 or _plain(words[0]) not in _DECLARING:
                    raise UnreadError
                self._values[match[1]] = self._assigned(match[1], word[1:], appends=match[2])
            else:
                kept.append(word)
        return tuple(kept)

    def _assigned(self, name: str, word: Word, *, appends: str) -> Value:
        before = self._value(name)
        if len(word) == 1 and word[0].kind == "array":
            words: Iterable[Any] = word[0].more
            fields = [field for word in words for reading in self._readings(word) for field in reading]
            items: list[tuple[str, ...]] = [(field.split("]=", 1)[-1],) for field in fields]
            if appends == "+" and before.texts != (UNSET,):
                items = [*(before.items or (before.texts,)), *items]
            return Value(_limited(text for item in items for text in item) or ("",), tuple(items))
        texts = self._texts(word)
        if appends == "[+":
            return Value((UNKNOWN,))
        if appends == "[":
            return Value(_limited((*(text for text in before.texts if text != UNSET), *texts)), ((UNKNOWN,),))
        return Value(_product(before.texts, texts) if appends else texts, None)

    # --- words

    def _value(self, name: str) -> Value:
        return self._values[name] if name in self._values else self._outside(name)

    def _texts(self, word: Word) -> tuple[str, ...]:
        """What a word comes to where it stays one word."""
        texts: tuple[str, ...] = ("",)
        for at, part in enumerate(word):
            texts = _product(texts, self._part(part, tilde=at == 0, splits=False))
        return texts

    def _combined(self, words: Sequence[Word]) -> list[tuple[str, ...]]:
        """The readings of a command's words together. Where there are too many, those of later words stand one after the other."""
        combinations: list[tuple[str, ...]] = [()]
        for word in words:
            readings = self._readings(word)
            if len(combinations) * len(readings) > MAX_READINGS:
                if len(combinations[0]) < 2:
                    raise UnreadError
                readings = [tuple(field for reading in readings for field in reading)]
            combinations = [(*combination, *other) for combination in combinations for other in readings]
        return combinations

    def _readings(self, word: Word) -> list[tuple[str, ...]]:
        """The readings of a word; each has any number of fields."""
        readings: list[tuple[str, ...]] = [()]
        for braced in _braced(word):
            fields = self._fields(braced)
            if len(readings) * len(fields) > MAX_READINGS:
                fields = [(UNKNOWN,)]
            readings = [(*before, *after) for before in readings for after in fields]
        return readings

    def _fields(self, word: Word) -> list[tuple[str, ...]]:
        if len(word) == 1 and word[0].kind == "text":
            part = word[0]
            if part.quoted:
                return [(part.text,)]
            if part.text[:1] != "~":
                return [(part.text.translate(_ACTIVE),)]
        if len(word) == 1 and word[0].kind == "variable" and (items := self._items(word[0])) is not None:
            return items
        fields: tuple[str, ...] = ("",)
        for at, part in enumerate(word):
            fields = _product(fields, self._part(part, tilde=at == 0, splits=True))
        stays = any(part.quoted and not part.text.endswith("@") for part in word) or any(
            part.kind == "text" for part in word
        )
        return list(dict.fromkeys(
            tuple(field for field in text.split(_SPLIT) if field or (stays and _SPLIT not in text)) for text in fields
        ))  # fmt: skip

    def _items(self, part: WordPart) -> list[tuple[str, ...]] | None:
        """The fields of `"$@"`, `$*`, `"${a[@]}"`, if they are known."""
        name = part.text.removesuffix("[@]").removesuffix("[*]")
        if part.op or (name == part.text and name not in ("@", "*")):
            return None
        if "IFS" in self._values and not (part.quoted and part.text.endswith(("@", "@]"))):
            return [(UNKNOWN,)]
        fields: list[tuple[str, ...]] = [()]
        if name in ("@", "*"):
            fields = [()] if self._arguments is None else [self._arguments]
        else:
            value = self._value(name)
            if value.items is None:
                return None
            for item in value.items:
                fields = [(*field, text) for field in fields for text in item]
                if len(fields) > MAX_READINGS:
                    return [(UNKNOWN,)]
        if part.quoted:
            return (
                fields
                if part.text[-1] in "@]" and not part.text.endswith("*]")
                else [(" ".join(field),) for field in fields]
            )
        return [
            tuple(piece for field in words for piece in re.split(r"[ \t\n]+", field.translate(_ACTIVE)) if piece)
            for words in fields
        ]

    def _part(self, part: WordPart, *, tilde: bool, splits: bool) -> tuple[str, ...]:
        if part.kind == "text":
            if part.quoted:
                return (part.text,)
            if tilde and part.text[:1] == "~":
                return self._home(part.text)
            return (part.text.translate(_ACTIVE),)
        if part.kind == "sum":
            self._sum(part)
            return ("0",)
        if part.kind == "array":
            raise UnreadError
        if part.kind == "process":
            name = f"/dev/fd/{len(self._processes) + 63}"
            self._collect(part.more[0])  # type: ignore[arg-type]
            before, self._feeding = self._state(), self._feeding + 1
            self._processes[name] = self._run(part.more[0], (UNKNOWN,) if part.text == ">" else ())  # type: ignore[arg-type]
            self._feeding -= 1
            self._restore(before)
            return (name,)
        if part.kind == "substitution":
            self._collect(part.more[0])  # type: ignore[arg-type]
            before = self._state()
            self._feeding += 1
            texts = _limited(text.rstrip("\n") for text in self._run(part.more[0], ()))  # type: ignore[arg-type]
            self._feeding -= 1
            if self._bases != before[1]:
                texts = _limited(text.replace(HERE, base) for text in texts for base in self._bases)
            self._restore(before)
        else:
            texts = self._parameter(part)
        if part.quoted or not splits:
            return texts if part.quoted else tuple(text.translate(_ACTIVE) for text in texts)
        if "IFS" in self._values and any(len(text) > 1 for text in texts):
            return (UNKNOWN,)
        return tuple(re.sub(r"[ \t\n]+", _SPLIT, text.translate(_ACTIVE)) for text in texts)

    def _home(self, text: str) -> tuple[str, ...]:
        user, slash, word = text.partition("/")
        word = (slash + word).translate(_ACTIVE)
        if user == "~":
            return tuple(home + word for home in self._value("HOME").texts)
        if user == "~+":
            return (HERE + word,)
        return (UNKNOWN + word,) if user == "~-" else (text.translate(_ACTIVE),)

    def _parameter(self, part: WordPart) -> tuple[str, ...]:
        name = _NAME.match(part.text)
        index = part.text[name.end() :] if name else ""
        if part.op == "length" or part.text[:1] in ("#", "?", "$", "!"):
            return ("0",)
        if part.op == "!":
            return (UNKNOWN,)
        if name is None:
            texts = self._positional(part.text)
        else:
            value = self._value(name[0])
            texts = value.texts
            if index in ("[@]", "[*]") and value.items is not None and len(value.items) > 1:
                joined: tuple[str, ...] = ("",)
                for at, item in enumerate(value.items):
                    joined = _product(joined, item if not at else tuple(f" {argument}" for argument in item))
                texts = joined
            elif value.items and not index and value.items[0] != (UNKNOWN,):
                texts = value.items[0]
        if not part.op:
            return (UNKNOWN,) if "IFS" in self._values and index == "[*]" else texts
        if (index in ("[@]", "[*]") or part.text in ("@", "*")) and part.op.lstrip(":") not in ("-", "=", "+", "?"):
            return (UNKNOWN,)
        operand = self._texts(part.more)  # type: ignore[arg-type]
        kind = part.op.lstrip(":")
        if kind in ("-", "=", "+", "?") and part.op != ":":
            words = [text for text in texts if text != UNSET and (text or kind != part.op)]
            if kind == "+":
                return _limited(("", *operand))
            if kind != "?" and len(words) < len(texts):
                words += operand
                if kind == "=" and name is not None:
                    self._values[name[0]] = Value(_limited(words))
            return _limited(words) or ("",)
        return _limited(_changed(text, part.op, argument) for text in texts for argument in operand)

    def _positional(self, name: str) -> tuple[str, ...]:
        arguments = self._arguments
        if name in ("-", "0"):
            return self._values["0"].texts if name == "0" and "0" in self._values else (HARMLESS,)
        if arguments is None:
            return (UNSET,)
        if name in ("@", "*"):
            return (" ".join(arguments),)
        if UNKNOWN in arguments:
            return (UNKNOWN,)
        at = int(name) if name.isdecimal() else 0
        return (arguments[at - 1],) if 0 < at <= len(arguments) else (UNSET,)


def _changed(text: str, op: str, operand: str) -> str:
    """`${x%operand}` and its like, for a value that is known."""
    if text in (UNSET, ""):
        return text
    if text == HARMLESS:
        return HARMLESS if op in ("%", "%%", "#", "##", "^", "^^", ",", ",,") else UNKNOWN
    if text in (FOREIGN, HERE) and op in ("%", "%%", "#", "##"):
        return FOREIGN if text == FOREIGN else UNKNOWN
    if not {UNKNOWN, FOREIGN, HERE, UNSET, HARMLESS}.isdisjoint(text + operand):
        return UNKNOWN
    pattern = operand.translate(_SHOWN)
    wild = not {"\5", "\6", "\7"}.isdisjoint(text)
    special = pattern != operand or "\\" in operand
    if op in ("%", "%%", "#", "##"):
        if wild:
            if op[0] == "%" and not special:
                return (
                    text.removesuffix(operand)
                    if text.endswith(operand) or text[-1:] not in ("\5", "\6", "]")
                    else UNKNOWN
                )
            if (op, pattern) in (("##", "*/"), ("%", "/*"), ("#", "./")) and "\7" not in text:
                return (
                    text.rpartition("/")[2]
                    if op == "##"
                    else (text.rpartition("/")[0] or text)
                    if op == "%"
                    else text.removeprefix("./")
                )
            return UNKNOWN
        cuts = range(len(text) + 1)
        if op[0] == "%":
            order = cuts if op == "%%" else reversed(cuts)
            return next((text[:at] for at in order if _fits(text[at:], pattern)), text)
        order = reversed(cuts) if op == "##" else cuts
        return next((text[at:] for at in order if _fits(text[:at], pattern)), text)
    if wild:
        return UNKNOWN
    if op in ("^^", ",,") and not operand:
        return text.upper() if op == "^^" else text.lower()
    if op in ("/", "//"):
        old, _, new = pattern.partition("/")
        if special or old[:1] in ("#", "%", "") or "&" in new:
            return UNKNOWN
        return text.replace(old, new) if op == "//" else text.replace(old, new, 1)
    match = re.fullmatch(r"(\d+)(?::(\d+))?", operand) if op == ":" else None
    if match is None:
        return UNKNOWN
    return text[int(match[1]) :][: int(match[2]) if match[2] else None]


def _fits(text: str, pattern: str) -> bool:
    if "[" in pattern or "\\" in pattern:
        raise UnreadError
    return fnmatch.fnmatchcase(text, pattern)


def _braced(word: Word) -> list[Word]:
    """The words that braces make of one: `a{b,c}` is `ab` and `ac`."""
    if not any(part.kind == "text" and not part.quoted and "{" in part.text for part in word):
        return [word]
    atoms: list[WordPart] = []
    for part in word:
        if part.kind == "text" and not part.quoted:
            atoms += [WordPart("text", char) for char in part.text]
        else:
            atoms.append(part)
    if sum(part.text == "{" for part in atoms) > MAX_BRACES:
        raise UnreadError
    words = [_merged(alternative) for alternative in _alternatives(atoms)]
    if len(words) > 1000:
        raise UnreadError
    return words


def _alternatives(atoms: list[WordPart]) -> Iterator[list[WordPart]]:
    for begin, atom in enumerate(atoms):
        if not _is(atom, "{"):
            continue
        depth, cuts = 0, [begin]
        for at in range(begin, len(atoms)):
            depth += _is(atoms[at], "{") - _is(atoms[at], "}")
            if depth == 1 and _is(atoms[at], ","):
                cuts.append(at)
            if depth == 0:
                break
        else:
            continue
        inside = [atoms[cut + 1 : other] for cut, other in itertools.pairwise((*cuts, at))]
        match = (
            _RANGE.fullmatch("".join(part.text for part in inside[0]))
            if len(inside) == 1 and all(p.kind == "text" and not p.quoted for p in inside[0])
            else None
        )
        if match:
            inside = [[WordPart("text", text, quoted=True)] for text in _range(match)]
        elif len(inside) == 1:
            continue
        alternatives = list(_alternatives(atoms[at + 1 :]))
        for part in inside:
            for middle in _alternatives(part):
                for after in alternatives:
                    yield [*atoms[:begin], *middle, *after]
        return
    yield atoms


def _is(part: WordPart, char: str) -> bool:
    return part.kind == "text" and not part.quoted and part.text == char


def _range(match: re.Match[str]) -> list[str]:
    first, last, step = match[1], match[2], abs(int(match[3] or 1)) or 1
    if first.isalpha() != last.isalpha():
        return [match[0]]
    start, stop = (ord(first), ord(last)) if first.isalpha() else (int(first), int(last))
    numbers = range(start, stop + 1, step) if start <= stop else range(start, stop - 1, -step)
    if len(numbers) > 1000:
        raise UnreadError
    return [chr(number) if first.isalpha() else str(number) for number in numbers]


def _merged(atoms: Iterable[WordPart]) -> Word:
    parts: list[WordPart] = []
    for atom in atoms:
        if parts and atom.kind == "text" and not atom.quoted and parts[-1].kind == "text" and not parts[-1].quoted:
            parts[-1] = WordPart("text", parts[-1].text + atom.text)
        else:
            parts.append(atom)
    return tuple(parts)


def _plain(word: Word) -> str:
    return word[0].text if len(word) == 1 and word[0].kind == "text" else ""


def _kind(given: Iterable[str]) -> str:
    """What a line of an input is."""
    letters = set("".join(given)) - set(" \n0") if given else {FOREIGN}
    return UNKNOWN if letters - {FOREIGN, HARMLESS} else FOREIGN if FOREIGN in letters else HARMLESS


def _product(firsts: Sequence[str], seconds: Sequence[str]) -> tuple[str, ...]:
    if len(firsts) == 1 and len(seconds) == 1:
        return (firsts[0] + seconds[0],)
    return _limited(before + after for before in firsts for after in seconds)


def _limited(texts: Iterable[str]) -> tuple[str, ...]:
    distinct = tuple(dict.fromkeys(texts))
    return distinct if len(distinct) <= MAX_READINGS else (UNKNOWN,)


def _inert(text: str) -> str:
    return text.translate(_SHOWN)


def _shown(field: str) -> ShellWord:
    text = field.translate(_SHOWN)
    return ShellWord(text, text != field)


def field_of(word: ShellWord) -> str:
    """A word as an argument of a shell in which it is expanded already."""
    return word.text.translate(_ACTIVE) if word.wild else word.text

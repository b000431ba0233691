"""What a call is for: the argument that says most; of a shell, by its name and its command line, whether it tests, builds, edits, commits or
merges, and the exit code of its answer.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress
from functools import lru_cache
from typing import Any, Literal

import msgspec

from adjourn.text.quoting import said

WorkStep = Literal["", "tests", "build", "edit", "commit", "merge"]
VERIFICATIONS: tuple[WorkStep, ...] = ("tests", "build")
"""Steps that show whether the work is right."""
MAX_ARGUMENT = 160
TELLING = (
    "path", "file_path", "filepath", "filename", "file", "notebook_path", "command", "cmd", "url", "uri", "query", "sql",
    "statement", "pattern", "destination", "source", "to", "recipient", "branch", "name", "title", "subject", "key", "id",
    "message", "text",
)  # fmt: skip
"""Names of arguments that say what a call was for, the most informative first."""
_PAIR = r'(?s)"((?:[^"\\]|\\.)*)"\s*:\s*\[?\s*(?:"((?:[^"\\]|\\.)*)("?)|(-?\d[\d.eE+-]*|true|false))'
_SHORT = 80
MAX_COMMAND = 2_000
"""Characters of a command line that are looked at."""

_TEST_MARKS = ("test", "check", "tox", "nox", "jest", "mocha", "rspec", "phpunit")
"""One of them is in each command that tests."""
_BUILD_MARKS = (
    "build",
    "compile",
    "make",
    "tsc",
    "ninja",
    "javac",
    "gcc",
    "g++",
    "clang",
    "webpack",
    "mvn",
    "assemble",
)
"""One of them is in each command that builds."""
_EDITORS = frozenset(("edit", "write", "patch", "replace", "insert"))
"""A tool with one of these words in its name edits, if it names a file."""
_STEP_MARKS = (*_TEST_MARKS, *_BUILD_MARKS, *_EDITORS, "commit", "merge", "sed ", "perl ", "git a")
_COMMAND = r'"(?:command|cmd|script)"\s*:\s*("(?:[^"\\]|\\.)*)'
_A_FILE = r'"(?:[a-z]+_)?(?:file|path|filename|filepath|filePath)"\s*:|\*\*\* (?:Add|Update|Delete) File: '
_WORDS = r"[._\-/]+"
_SHELLS = frozenset(
    ("bash", "cmd", "command", "commands", "console", "exec", "powershell", "process", "sh", "shell", "terminal", "zsh")
)
"""A tool with one of these words in its name runs command lines."""
_NAME_WORDS = r"[A-Z]?[a-z]+|[A-Z]+"
_OF_TESTS = frozenset(("test", "tests", "pytest"))
_OF_BUILDS = frozenset(("build", "compile"))
_STARTERS = frozenset(("python", "python3", "uv", "run", "poetry", "npx", "pipx", "bundle", "exec", "cd", "&&"))
"""Words that start another program, and say nothing of what is tested."""

# Patterns are texts, compiled when a command first has a mark of them: a hook lives for one call.
_RUNS_TESTS = (
    r"(?i)(?<![\w-])(?:pytest|unittest|tox|nox|jest|vitest|mocha|rspec|phpunit|ctest|"
    r"(?:go|cargo|npm|pnpm|yarn|bun|deno|make|mvn|gradlew?|dotnet|swift|bazel|rake|mix|just)\s+(?:run\s+)?[\w:-]*(?:test|check)[\w:-]*|"
    r"[\w./-]*(?:run[-_]?)?tests?(?:[-_]\w+)?\.(?:sh|py|js|ts|rb|pl))(?![\w-])"
)
_BUILDS = (  # a builder that starts a command of the line; `make` only with no target, or one that is named as a build
    r"(?i)(?:^|[;&|]\s*)(?:(?:\w+=\S*|time|sudo|env|npx|uv run|poetry run|python3? -m|bundle exec)\s+)*(?:"
    r"(?:go|cargo|npm|pnpm|yarn|bun|deno|mvnw?|gradlew?|dotnet|swift|bazel|rake|mix|just|hatch|mkdocs|vite|next|nix|flutter|"
    r"\./gradlew|\./mvnw)\s+(?:-\S+\s+)*(?:run\s+|clean\s+)?[\w:-]*(?:build|compile|assemble|package)[\w:-]*|"
    r"(?:docker|podman)\s+(?:(?:compose|buildx|image)\s+)?build\b|cmake\s+--build|(?:tsc|ninja|javac|gcc|g\+\+|clang(?:\+\+)?|webpack|msbuild|xcodebuild|build)(?=\s|$)|"
    r"(?:\./)?(?:build|compile)[-_\w]*\.(?:sh|py|js|ts|rb|pl)(?=\s|$)|"
    r"g?make(?:\s+(?:-C\s+\S+|-\S+|\w+=\S*))*\s*(?:$|[;&|]|(?:all|[\w-]*(?:build|compile)[\w-]*)(?=\s|$)))"
)
_GIT_STEP = (
    r"(?:^|[;&|]\s*)git\b(?:\s+-[cC]\s+\S+|\s+-\S+)*\s+(commit|merge)(?![\w-])(?![^;&|]*--(?:abort|dry-run|quit)\b)"
)
_EDITS = r"(?:^|[;&|]\s*)(?:sed\s(?:[^;&|]*\s)?(?:-[a-zA-Z]*i|--in-place)|perl\s(?:[^;&|]*\s)?-[a-zA-Z]*i|git\s+(?:apply|am)\b|patch\s)"


@lru_cache(maxsize=256)
def runs_tests(command: str) -> bool:
    """Whether a command line runs tests."""
    lower = command.lower()
    return any(mark in lower for mark in _TEST_MARKS) and re.search(_RUNS_TESTS, command[:MAX_COMMAND]) is not None


@lru_cache(maxsize=256)
def is_shell(tool: str) -> bool:
    """Whether a tool runs command lines, or a project's tests, by its name.

    >>> is_shell("run_command"), is_shell("executeShell"), is_shell("run_query")
    (True, True, False)
    """
    words = {word.lower() for word in re.findall(_NAME_WORDS, tool)}
    return bool(words & _SHELLS) or (bool(words & _OF_TESTS) and words <= {*_OF_TESTS, "run", "execute"})


def command_of(arguments: str) -> str:
    """The command line in the JSON of a call's arguments, which may be cut; "" for none."""
    if (match := re.search(_COMMAND, arguments)) is None:
        return ""
    try:
        return msgspec.json.decode(match[1] + '"', type=str)[:MAX_COMMAND]
    except (msgspec.DecodeError, UnicodeError):  # cut inside of an escape
        return ""


@lru_cache(maxsize=256)
def step_of(tool: str, arguments: str) -> WorkStep:
    """What step of the work a call is. `arguments` is their JSON, which may be cut.

    >>> step_of("shell.exec", '{"command":"uv run pytest -q"}')
    'tests'
    >>> step_of("git_commit", '{"message":"Add the retry"}')
    'commit'
    """
    lower = f"{tool} {arguments}".lower()
    if not any(mark in lower for mark in _STEP_MARKS):
        return ""
    words = {*re.split(_WORDS, tool.lower())}
    if words & _EDITORS and re.search(_A_FILE, arguments):
        return "edit"
    if command := command_of(arguments):
        if runs_tests(command):
            return "tests"
        if any(mark in command.lower() for mark in _BUILD_MARKS) and re.search(_BUILDS, command):
            return "build"
        if (match := re.search(_GIT_STEP, command)) is not None:
            return "commit" if match[1] == "commit" else "merge"
        return "edit" if re.search(_EDITS, command) else ""
    if words & _OF_TESTS and (words & {"run", "execute", "exec"} or words <= _OF_TESTS):
        return "tests"
    if words & _OF_BUILDS and (words & {"run", "project", "execute"} or words <= _OF_BUILDS):
        return "build"
    if "git" in words and "commit" in words:
        return "commit"
    return "merge" if "merge" in words and words & {"git", "branch", "pr", "request"} else ""


def scope_of_run(tool: str, arguments: str) -> frozenset[str]:
    """What a run of tests or a build was limited to, and by which program: one with fewer words covers one with more."""
    words = (command_of(arguments) or tool).split()
    return frozenset(word for word in words if word[:1] != "-" and word not in _STARTERS)


# --- the exit code that the answer of a shell states: as a member, or in the first or last line of its text

_STATED = (
    r"(?i)\W{0,3}(?:(?:command|process|program) \w+ with )?(?:exit|return)[ _-]?(?:code|status)\W{1,3}(-?\d{1,9})\W*"
)
_MAX_LINE = 120
_MAX_BLOCKS = 5
_UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


class _Answer(msgspec.Struct):
    """What clients and servers may say of a command that ended; other members are ignored."""

    exit_code: Any = 0
    exitCode: Any = 0  # noqa: N815  # the wire's name
    return_code: Any = 0
    returncode: Any = 0
    metadata: Any = None
    structuredContent: Any = None  # noqa: N815
    content: Any = None
    result: Any = None


def exit_code_of(answer: bytes) -> int:
    """The exit code other than 0 that an answer in JSON states, a client's or a result of MCP; 0 if it states none."""
    with suppress(*_UNREADABLE):
        if answer[:1] == b'"':
            return _of_text(msgspec.json.decode(answer, type=str))
        return next(filter(None, _of_answer(msgspec.json.decode(answer, type=_Answer))), 0)
    return 0


def _of_answer(answer: _Answer) -> Iterator[int]:
    yield from map(_number, (answer.exit_code, answer.exitCode, answer.return_code, answer.returncode))
    for inner in (answer.metadata, answer.structuredContent, answer.result):
        if isinstance(inner, dict):
            yield from (_number(inner.get(name)) for name in ("exit_code", "exitCode", "return_code", "returncode"))
        elif isinstance(inner, str):
            yield _of_text(inner)
    if isinstance(answer.content, list):
        ends = answer.content if len(answer.content) <= _MAX_BLOCKS else [answer.content[0], answer.content[-1]]
        yield from (
            _of_text(block["text"]) for block in ends if isinstance(block, dict) and isinstance(block.get("text"), str)
        )


def _of_text(text: str) -> int:
    """A text is an object in JSON, or lines of which the first or the last states it."""
    if text[:1] == "{":
        with suppress(*_UNREADABLE):
            return next(filter(None, _of_answer(msgspec.json.decode(text, type=_Answer))), 0)
    stripped = text.strip()
    ends = (stripped[:_MAX_LINE].split("\n", 1)[0], stripped[-_MAX_LINE:].rsplit("\n", 1)[-1])
    return next((int(match[1]) for line in ends if (match := re.fullmatch(_STATED, line))), 0)


def _number(value: Any) -> int:
    return value if type(value) is int else 0


@lru_cache(maxsize=2048)
def telling_argument(arguments: str) -> str:
    """The argument that says what a call was for, of arguments as JSON, which may be cut; "" for none."""
    by_name: dict[str, str] = {}
    for key, text, closed, bare in re.findall(_PAIR, arguments):
        value = bare or (_unescaped(text) if "\\" in text else text) + ("" if closed else "…")
        by_name.setdefault(key.lower(), value)
    named = next((by_name[key] for key in TELLING if by_name.get(key)), "")
    short = next((value for value in by_name.values() if 0 < len(value) <= _SHORT), "")
    return said(named or short, MAX_ARGUMENT)


def _unescaped(text: str) -> str:
    try:
        return msgspec.json.decode(f'"{text}"', type=str)
    except msgspec.DecodeError:
        return text

"""The servers that clients' settings list: how each is started here, and how that is shown to the person who is asked.

Must never: start a server.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from adjourn.aex.match import canonical_server
from adjourn.host.executables import find, for_others, lies_in
from adjourn.log.canonical_json import digest
from adjourn.setup.probe import ServerStart
from adjourn.setup.servers import words_of

_PLACEHOLDER = re.compile(r"\$?\{((?<=\$\{)[^{}]*|env:[^{}]*)\}")
_FOLDERS = ("workspaceFolder", "workspaceRoot", "CLAUDE_PROJECT_DIR")


class ServerEntry(NamedTuple):
    """A server of a client's settings: its canonical name, the file that lists it, its own command, variables and folder.

    `is_off`: the settings say that it is not to be started.
    """

    name: str
    path: str
    words: Sequence[str]
    env: Mapping[str, str]
    cwd: str = ""
    is_off: bool = False

    @property
    def command(self) -> str:
        """The command for the person who is asked."""
        return shlex.join(self.words)

    @property
    def command_digest(self) -> str:
        """What stands for the command in the store, as its proxy says it."""
        return digest(os.fsencode("\0".join(self.words)))[:16]

    @property
    def program(self) -> str:
        """The program, and the first word that names what it runs. Other words may be secrets, and a policy is for everybody."""
        named = next((word for word in self.words[1:] if not word.startswith("-")), "")
        return " ".join(filter(None, (os.path.basename(self.words[0]), os.path.basename(named))))


def entry_of(path: str, name: str, server: Any) -> ServerEntry | None:
    """The server of an entry, behind the proxy or not; None if it starts no command of its own."""
    words = words_of(server)
    if words is None:
        return None
    if "proxy" in words and "--" in words:
        words = words[words.index("--", words.index("proxy")) + 1 :]
    env, cwd = server.get("env"), server.get("cwd")
    if not words:
        return None
    return ServerEntry(
        canonical_server(name),
        path,
        words,
        {key: value for key, value in env.items() if isinstance(value, str)} if isinstance(env, dict) else {},
        cwd if isinstance(cwd, str) else "",
        server.get("disabled") is True or server.get("enabled") is False,
    )


def start_of(entry: ServerEntry, root: str, environment: Mapping[str, str]) -> ServerStart | str:
    """How the server is started in a workspace; the value that only its client knows, where it needs one."""
    given = for_others(environment)
    missing: list[str] = []

    def value_of(found: re.Match[str]) -> str:
        name, _, default = found[1].partition(":-")
        name = name.removeprefix("env:")
        if name in _FOLDERS:
            return root
        value = given.get("HOME" if name == "userHome" else name, default)
        if not value and ":-" not in found[1]:
            missing.append(found[0])
        return value

    words = [_PLACEHOLDER.sub(value_of, word) for word in entry.words]
    env = {name: _PLACEHOLDER.sub(value_of, value) for name, value in entry.env.items()}
    cwd = os.path.join(root, os.path.expanduser(_PLACEHOLDER.sub(value_of, entry.cwd)))
    return missing[0] if missing else ServerStart(words, given | for_others(env), cwd)


# --- what starting a server would run, for the person who is asked

MAX_SHOWN = 2000
"""Characters of a value."""
MAX_VARIABLES = 100
MAX_PARTS = 500
"""Parts of a value that may be a path."""
HIDDEN = "(value hidden)"
HERE = "in this workspace"
_MATTERS = re.compile(
    r"PATH|ENV|BASH_ENV|BASHOPTS|SHELLOPTS|SHELL|IFS|PS4|PROMPT_COMMAND|HOME|TMPDIR|CLASSPATH|EDITOR|VISUAL|PAGER|BROWSER|LESSOPEN|LESSCLOSE"
    r"|MAKEFLAGS|GO(?:BIN|ENV|FLAGS|PATH|PROXY|ROOT|TOOLCHAIN)|(?:HTTPS?|ALL)_PROXY"
    r"|(?:LD_|DYLD_|PYTHON|NODE_|NPM_|YARN_|PNPM_|COREPACK_|BUN_|DENO_|UV_|PIP_|PIPX_|PERL|RUBY|GEM_|BUNDLE_|_?JAVA_|JDK_|MAVEN_|GRADLE_|GIT_"
    r"|CARGO_|RUST|LUA_|PHP|DOTNET_|COMPLUS_|CORECLR_|ELECTRON_|OPENSSL_|SSL_|CURL_|DOCKER_|XDG_|ADJOURN_|CLAUDE_).*"
    r"|.*(?:_OPTIONS|_OPTS|_FLAGS|_ARGS|_PATH|_HOME|_PRELOAD|_RC|RCFILE|_STARTUP|_HOOKS?|_COMMAND|_CMD|_SHELL|_EDITOR|_PAGER|_BIN|_EXEC"
    r"|_LIBRARY|_PLUGINS?|_CONFIG|_DIR)",
    re.IGNORECASE,
)
"""Variables that can have a program run other code, or read other settings. The value of any other may be a secret."""
_LOADS = re.compile(r"(?:LD_|DYLD_|PYTHON|PERL5|RUBY).*|.*(?:_OPTIONS|_OPTS|ENV)|PATH", re.IGNORECASE)
_SECRET = re.compile(r"TOKEN|SECRET|PASSW|CREDENTIAL|API_?KEY|AUTH|_KEY$", re.IGNORECASE)
_BETWEEN = re.compile(r"[\s\"'=;:,|&<>()`]+")
_NAME = re.compile(r"[\w@][\w.@-]*")


def shown_start(entry: ServerEntry, start: ServerStart, root: str) -> Iterator[tuple[str, str]]:
    """Rows about a server that `start` starts: a word for each value, and the value. The caller makes them safe for a terminal."""
    yield "program", shown_program(start, root)
    words = list(start.words[1:])
    if words:
        yield "arguments", _cut(shlex.join(entry.words[1:]))
    named = [place for word in words for place in (*_places(word, start, root), *_modules(word, start, root))]
    if named:
        yield "of these", f"{_listed(named)} {HERE}"
    for number, name in enumerate(sorted(entry.env)):
        if number == MAX_VARIABLES:
            yield "env", f"{len(entry.env) - MAX_VARIABLES:,} more variables"
            return
        yield "env", _variable(name, start.environment.get(name, entry.env[name]), start, root)
    if os.path.realpath(start.cwd) != os.path.realpath(root):
        yield "folder", start.cwd


def shown_program(start: ServerStart, root: str) -> str:
    """The file that is started, found with the PATH that it is started with."""
    found = find(start.words[0], given=start.environment)
    if found is None:
        return f"{start.words[0]} (not found on its PATH)"
    path = os.path.normpath(os.path.join(start.cwd, found))
    real = os.path.realpath(path)
    shown = path if real == path else f"{path}, which is {real}"
    return f"{shown} ({HERE})" if lies_in(path, root) else shown


def _variable(name: str, value: str, start: ServerStart, root: str) -> str:
    is_shown = _LOADS.fullmatch(name) or (_MATTERS.fullmatch(name) and not _SECRET.search(name))
    places = list(_places(value, start, root))
    note = f" ({_listed(places)} {HERE})" if places else ""
    return f"{name}={_cut(value) if is_shown else HIDDEN}{note}"


def _places(text: str, start: ServerStart, root: str) -> Iterator[str]:
    """The files and folders of the workspace that a value names."""
    seen = set()
    for part in (text, *_BETWEEN.split(text, MAX_PARTS)[:MAX_PARTS]):
        path = os.path.normpath(os.path.join(start.cwd, os.path.expanduser(part)))
        if part and "\0" not in part and path not in seen and os.path.lexists(path) and lies_in(path, root):
            seen.add(path)
            yield os.path.relpath(path, root)


def _modules(word: str, start: ServerStart, root: str) -> Iterator[str]:
    """The files of the workspace that a word may mean as the name of a module or package: `python -m NAME`, `npx NAME`."""
    if _NAME.fullmatch(word):
        module = word.replace(".", "/")
        for path in (f"{module}.py", f"{module}/__main__.py", f"node_modules/.bin/{word}"):
            yield from _places(path, start, root)


def _listed(places: Sequence[str]) -> str:
    shown = ", ".join(dict.fromkeys("the folder itself" if place == "." else place for place in places))
    return f"{_cut(shown)} {'is' if len(set(places)) == 1 else 'are'}"


def _cut(text: str) -> str:
    more = len(text) - MAX_SHOWN
    return text if more <= 0 else f"{text[:MAX_SHOWN]}… ({more:,} more characters)"

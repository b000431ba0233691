"""What starting a server would run, for the person who is asked: its program, arguments and variables, and which of them are the workspace's.

Settings come with a repository. `npx` may be a file of it, if the settings set PATH; a variable may have any program load code.

Owns: what is shown and what is hidden. Must never: start a server, or read the content of a file.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterator, Sequence

from adjourn.host import find, lies_in
from adjourn.setup.entries import ServerEntry
from adjourn.setup.probe import ServerStart

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

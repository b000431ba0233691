"""Commands in clients' settings: of a server, of the same one behind the proxy, of a hook, and that of adjourn itself.

Also how each server that the settings list is started here, and how that is shown to the person who is asked. None is started here.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import sys
from collections.abc import Container, Iterator, Mapping, Sequence
from importlib.util import find_spec
from itertools import count, pairwise
from typing import Any, NamedTuple

from adjourn.aex.match import MAX_SERVER_NAME, canonical_server, names_own
from adjourn.clients.options import connect_words
from adjourn.errors import AdjournError
from adjourn.host import executables
from adjourn.host.executables import find, for_others, lies_in
from adjourn.log.canonical_json import digest
from adjourn.setup.probe import ServerStart

_SHELL = re.compile(r"[;&|<>`$(){}\n\r]")
"""Shell constructs that may hide a hook's answer, or its exit code, from the client."""
SHARED = ("ADJOURN_CONFIG", "ADJOURN_STORE", "ADJOURN_TASK", "XDG_CONFIG_HOME")
"""The variables that select the store and the user's keys; hooks and proxy must have the same."""
_IS_OURS = re.compile(r"(^|[\s/'\"])adjourn['\"]?\s+(hook|gate)(\s|$)")


def is_behind(server: Any, root: str) -> bool:
    """Whether a server's entry starts the proxy of the adjourn that runs here."""
    words = words_of(server) or [""]
    return not (sets_path(server) and "/" not in words[0]) and (after_program(words, root) or [])[:1] == ["proxy"]


def sets_path(server: Any) -> bool:
    """Whether a server's entry sets the PATH that its program is looked up with."""
    env = server.get("env") if isinstance(server, dict) else None
    return isinstance(env, dict) and "PATH" in env


def names_proxy(server: Any) -> bool:
    """Whether a server's entry names the proxy, whichever program it starts."""
    words = words_of(server) or []
    return any(
        os.path.basename(word).partition(".")[0] == "adjourn" and after == "proxy" for word, after in pairwise(words)
    )


def is_code(server: Any, root: str) -> bool:
    """Whether a server's entry starts the one for code, which `adjourn init --code` sets up; behind the proxy or not."""
    words = after_program(words_of(server) or [], root) or []
    if words[:1] == ["proxy"] and "--" in words:
        words = after_program(words[words.index("--") + 1 :], root) or []
    return words[:1] == ["code"]


PASS_OUTSIDE = ("--outside", "pass")
"""The option of what a user's own settings start: these count in folders without a workspace, too."""


def proxy_words(start: Sequence[str], options: Sequence[str]) -> list[str]:
    """The words that put a command behind the proxy."""
    return [*start, "proxy", *options, "--"]


def named(name: str) -> list[str]:
    """The option by which a proxy knows the name of its server."""
    return ["--name", name] if name else []


def lacks(words: Sequence[str], option: str) -> bool:
    """Whether the words of a proxy's command lack an option."""
    own = words[: words.index("--")] if "--" in words else words
    return not any(word == option or word.startswith(f"{option}=") for word in own)


def passed_on(server: Any) -> dict[str, list[str]]:
    """The changes to the entry of a client that passes its servers only the variables listed in `env_vars`."""
    named, set_here = server.get("env_vars", []), server.get("env", {})
    if not isinstance(named, list) or not all(isinstance(name, str) for name in named):
        return {}
    missing = [name for name in SHARED if name not in named and name not in set_here]
    return {"env_vars": [*named, *missing]} if missing else {}


def why_not(server: Any) -> tuple[str, str]:
    """The reason that an entry cannot be put behind the proxy, and the remedy."""
    if isinstance(server, dict) and _url_of(server):
        return _why_not_by_url(server)
    if isinstance(server, dict) and server.get("type", "stdio") not in _COMMANDS:
        kind = json.dumps(server["type"], default=str)[:40]
        return f'its `type` is {kind}, not "stdio"', 'write "type": "stdio", and run adjourn init again'
    return "it has no `command` with a list of `args`", "the policy does not reach it"


# --- a server that is reached over HTTP

URL_MEMBERS = ("url", "httpUrl", "serverUrl")
"""The members by which clients name the address of a server; the first that is there counts."""
_HTTP_TYPES = ("http", "streamable-http", "streamableHttp", "streamable_http", "sse", "remote")
_HEADERS, _OF_VARIABLES, _BEARER = ("headers", "http_headers"), "env_http_headers", "bearer_token_env_var"
HTTP_MEMBERS = (*URL_MEMBERS, *_HEADERS, _OF_VARIABLES, _BEARER)
"""What an entry behind the proxy does not have any more."""
_OWN_MEMBERS = ("headersHelper", "oauth", "auth", "authProviderType", "bearer_token", "requestInit")
"""Members by which a client itself obtains what the server wants."""


class HttpForm(NamedTuple):
    """The options by which a proxy reaches the server of an entry, the variables of its headers, and those that its client has to pass."""

    url: str
    bearer_env: str
    header_env: str
    env: Mapping[str, str]
    passed: Sequence[str]

    @property
    def words(self) -> list[str]:
        """The options of the proxy."""
        named = [("--url", self.url), ("--bearer-env", self.bearer_env), ("--header-env", self.header_env)]
        return [word for option, value in named if value for word in (option, value)]


def http_form(server: Any) -> HttpForm | None:
    """How a proxy reaches the server of an entry over HTTP; None if it cannot, or the entry starts a command."""
    if not isinstance(server, dict) or not _url_of(server) or _why_not_by_url(server)[0]:
        return None
    env, names = {}, {}
    for header, value in {**server.get("headers", {}), **server.get("http_headers", {})}.items():
        variable = "HEADER_" + re.sub(r"[^A-Z0-9]", "_", header.upper())
        env[variable], names[header] = value, variable
    names |= server.get(_OF_VARIABLES, {})
    bearer = server.get(_BEARER, "")
    header_env = ",".join(f"{header}={variable}" for header, variable in names.items())
    passed = list(filter(None, (bearer, *server.get(_OF_VARIABLES, {}).values())))
    return HttpForm(_url_of(server), bearer, header_env, env, passed)


def _url_of(server: Mapping[str, Any]) -> str:
    values = (server.get(member) for member in URL_MEMBERS)
    return next((value for value in values if isinstance(value, str) and value), "")


def _why_not_by_url(server: Mapping[str, Any]) -> tuple[str, str]:
    """The reason that no proxy can reach a server by its address, and the remedy; both "" if it can."""
    url, texts = _url_of(server), [server.get(member, {}) for member in (*_HEADERS, _OF_VARIABLES)]
    if find_spec("httptools") is None:
        return "it is reached over HTTP", "pip install 'adjourn[gateway]', and run adjourn init again"
    if not re.match(r"https?://", url) or server.get("type", "http") not in _HTTP_TYPES:
        return "it is reached over the network, but not over HTTP", "the policy does not reach it"
    if "@" in url or "?" in url:
        return (
            "its address may hold a secret, which would stand in the proxy's command",
            "move the secret to a header, and run adjourn init again",
        )
    if own := next((member for member in _OWN_MEMBERS if server.get(member)), ""):
        return (
            f"its client logs in by `{own}`",
            f"log in with: adjourn serve login {url}; then take `{own}` out, and run adjourn init again",
        )
    are_texts = all(
        isinstance(each, dict)
        and all(isinstance(value, str) and re.fullmatch(r"[^=,]+", name) for name, value in each.items())
        for each in texts
    )
    if not are_texts or not isinstance(server.get(_BEARER, ""), str):
        return "its headers are not texts", "write each header as a name and a text"
    return "", ""


_COMMANDS = ("stdio", "local")
"""The types of entries that start a command."""


def words_of(server: Any) -> list[str] | None:
    """The command of a server's entry with its arguments; None where it starts none."""
    if not isinstance(server, dict) or server.get("type", "stdio") not in _COMMANDS:
        return None
    command, arguments = server.get("command"), server.get("args", [])
    if not isinstance(command, str) or not command or not isinstance(arguments, list):
        return None
    words = [command, *arguments]
    return words if all(isinstance(word, str) for word in words) else None


# --- hooks


def hook_command(
    start: Sequence[str], client: str, servers: Sequence[str], *, options: Sequence[str] = (), earlier: str = ""
) -> str:
    """The command of a client's hooks, with `options`. Options that a user added to an `earlier` one stay; a removed `--stay` stays removed."""
    options_kept, proxied = _own_options(earlier)
    behind = ",".join(sorted({*proxied.split(","), *servers} - {""}))
    named = [] if client == "claude-code" else ["--client", client]
    options_kept = options_kept if not options or options[0] in options_kept else [*options, *options_kept]
    of_calls = [] if client == "gemini" else ["--settle"]
    stay = ["--stay"] if of_calls and (not earlier or "--stay" in hook_words(earlier)) else []
    return shlex.join([*start, "hook", *named, *of_calls, *stay, "--proxied", behind, *options_kept])


def is_hook(command: Any) -> bool:
    """Whether a command says that it is one of our hooks, of whatever program, and is all that the shell is to run."""
    return isinstance(command, str) and bool(_IS_OURS.search(command)) and not _SHELL.search(command)


def is_own_hook(command: Any, root: str) -> bool:
    """Whether a command is a hook of the adjourn that runs here."""
    return is_hook(command) and (after_program(hook_words(command), root) or [])[:1] in (["hook"], ["gate"])


def hook_words(command: str) -> list[str]:
    """The program and its arguments; empty if only a shell can determine them."""
    try:
        return shlex.split(command)
    except ValueError:
        return []


def proxied_by(words: Sequence[str]) -> set[str]:
    """The servers whose tools a hook's command leaves to a proxy."""
    return set(_own_options(shlex.join(words))[1].split(",")) - {""}


def _own_options(command: str) -> tuple[list[str], str]:
    """The options of a hook but those that are set here, and the servers that it leaves to the proxy."""
    words = hook_words(command)
    verb = next((at for at, word in enumerate(words) if word in ("hook", "gate")), len(words))
    own: list[str] = []
    proxied = ""
    words_after = words[verb + 1 :]
    while words_after:
        word = words_after.pop(0)
        name, equals, value = word.partition("=")
        if name in ("--proxied", "--client"):
            value = value if equals else words_after.pop(0) if words_after else ""
            proxied = value if name == "--proxied" else proxied
        elif word not in ("--settle", "--stay"):
            own.append(word)
    return own, proxied


# --- the command with which a client starts adjourn, and whether it can be made to start another program

_SAFE = re.compile(r"-[a-zA-Z]*[PI][a-zA-Z]*")
"""The options of Python that keep the current folder out of what it imports."""

_CACHE_TAG = "CACHEDIR.TAG"
"""Marks a folder that may be deleted at any time (bford.info/cachedir): what uvx and `pipx run` install into lies in one."""


def check_lasting() -> None:
    """Raise `AdjournError` if the adjourn that runs here is deleted with a cache, so that no client could start it later."""
    if cache := cache_around(sys.prefix):
        raise AdjournError(
            f"adjourn is installed in a cache only ({cache}): clients cannot start it after the cache is cleared",
            "install it first: uv tool install adjourn, or pipx install adjourn",
        )


def cache_around(environment: str) -> str:
    """The cache that an environment of Python lies in, "" if in none. An environment of its own may carry the tag of a cache."""
    folder = os.path.dirname(os.path.abspath(environment))
    while not os.path.exists(os.path.join(folder, _CACHE_TAG)):
        if folder == (folder := os.path.dirname(folder)):
            return ""
    return folder


def program(root: str, *, own_path: bool = True) -> list[str]:
    """The command that starts adjourn in a workspace: its name if PATH leads to it, else the interpreter that runs it.

    Without `own_path`, it is started with another PATH than this process has, and a name may lead anywhere.
    """
    path = shutil.which("adjourn") if own_path else None
    by_name = path and not lies_in(path, root) and not problem(["adjourn"], root)
    return ["adjourn"] if by_name else executables.python_command("-m", "adjourn")


def after_program(words: Sequence[str], root: str) -> list[str] | None:
    """What follows the program, where that is the adjourn that runs here, and starts nothing of the workspace; else None.

    It is recognized by where it leads: to this installation's entry point, or to this interpreter with `-P -m adjourn`.
    """
    name = os.path.expanduser(words[0]) if words else "."
    program_path = name if "/" in name else "" if _before(name, root) else find(name, root)
    if not program_path or not os.path.isabs(program_path):
        return None
    if os.path.realpath(program_path) in _entry_points(root):
        return _command(words[1:])
    if os.path.abspath(program_path) != os.path.abspath(sys.executable) or "adjourn" not in words:
        return None
    at = words.index("adjourn")
    *options, module = words[1:at] or [""]
    is_safe = module == "-m" and bool(options) and all(_SAFE.fullmatch(option) for option in options)
    return _command(words[at + 1 :]) if is_safe else None


def _command(words: Sequence[str]) -> list[str]:
    """The words from the name of a command on, without the folders to work in before it."""
    remaining = list(words)
    while remaining[:1] == ["-C"]:
        del remaining[:2]
    return remaining


def _entry_points(root: str) -> set[str]:
    places = (os.path.join(os.path.dirname(sys.executable), "adjourn"), find("adjourn", root))
    return {os.path.realpath(place) for place in places if place}


def is_beside_python(path: str) -> bool:
    """Whether a program was installed with the adjourn that runs here."""
    return os.path.dirname(os.path.realpath(path)) == os.path.dirname(sys.executable)


def problem(words: Sequence[str], root: str) -> str:
    """The reason that a command of adjourn may start a program of the workspace; "" if it cannot."""
    name = os.path.expanduser(words[0])
    if "/" in name:
        if not os.path.isabs(name):
            return f"{name} is relative: it is looked up in the folder that the client works in"
    elif folder := _before(name, root):
        return f"{name} is looked up in {folder} first, where an agent can write"
    options = list(words[1 : words.index("adjourn")]) if "adjourn" in words[1:] else []
    if options[-1:] == ["-m"] and not any(_SAFE.fullmatch(word) for word in options):
        return "`python -m adjourn` imports from the folder that the client works in first"
    return "" if after_program(words, root) is not None else f"{words[0]} is not the adjourn that runs here"


def repaired(words: Sequence[str], start: Sequence[str], root: str, *, own_path: bool = True) -> list[str] | None:
    """The command that starts the same proxy safely; None if nothing needs repair, or adjourn cannot repair it. `own_path` as above."""
    at = words.index("proxy") if "proxy" in words else 0
    before = words[1:at]
    by_name = os.path.basename(words[0]).partition(".")[0] == "adjourn" if words else False
    ours = (not before and by_name) or (
        before[-2:] == ["-m", "adjourn"] and all(word[0] == "-" for word in before[:-1])
    )
    is_unsafe = at and (problem(words, root) or not (own_path or "/" in words[0]))
    return [*start, *words[at:]] if ours and is_unsafe else None


def is_inside(words: Sequence[str], root: str) -> bool:
    """Whether the program is installed in the workspace itself."""
    path = shutil.which(os.path.expanduser(words[0]))
    return path is not None and lies_in(path, root)


def _before(name: str, root: str) -> str:
    """The folder of the workspace on PATH in which a name is looked up before it is found, without being there."""
    for folder in os.get_exec_path():
        if os.access(os.path.join(folder, name), os.X_OK) and os.path.isabs(folder):
            return ""
        if not os.path.isabs(folder) or lies_in(folder, root):
            return repr(folder)
    return ""


# --- the servers that clients' settings list

_PLACEHOLDER = re.compile(r"\$?\{((?<=\$\{)[^{}]*|env:[^{}]*)\}")
_FOLDERS = ("workspaceFolder", "workspaceRoot", "CLAUDE_PROJECT_DIR")


class ServerEntry(NamedTuple):
    """A server of a client's settings: its canonical name, the file that lists it, its own command, variables and folder.

    `is_off`: the settings say that it is not to be started. `title` is its name in the settings.
    """

    name: str
    path: str
    words: Sequence[str]
    env: Mapping[str, str]
    cwd: str = ""
    is_off: bool = False
    title: str = ""
    url: str = ""
    """Its address, if it is reached over HTTP."""

    def starts_as(self, other: ServerEntry) -> bool:
        """Whether it is the same server, started in the same way."""
        ours, theirs = (each._replace(path="", title="", words=tuple(each.words)) for each in (self, other))
        return ours == theirs

    @property
    def has_placeholders(self) -> bool:
        """Whether only its client knows all words of its command."""
        return any(_PLACEHOLDER.search(word) for word in self.words)

    @property
    def source(self) -> str:
        """What people know the server by: its name in the settings, where policies have another, and its program."""
        return f"{self.title}, {self.program}" if self.title not in ("", self.name) else self.program

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
        if self.url:
            return "/".join(self.url.split("/")[:3])
        named = next((word for word in self.words[1:] if not word.startswith("-")), "")
        return " ".join(filter(None, (os.path.basename(self.words[0]), os.path.basename(named))))


def given_name(server: Any) -> str:
    """The name that an entry gives its server in policies, by an option of its proxy; "" for none."""
    words = words_of(server) or []
    if not names_proxy(server):
        return ""
    own = words[: words.index("--")] if "--" in words else words
    values = [after for word, after in pairwise(own) if word == "--name"]
    values += [word.partition("=")[2] for word in own if word.startswith("--name=")]
    return canonical_server(values[-1]) if values else ""


def proxied_form(words: Sequence[str]) -> HttpForm | None:
    """How a proxy that these words start reaches its server; None if it starts a command."""
    own = list(words[: words.index("--")] if "--" in words else words)
    values = {"--url": "", "--bearer-env": "", "--header-env": ""}
    for word, after in zip(own, [*own[1:], ""], strict=True):
        option, equals, value = word.partition("=")
        if option in values:
            values[option] = value if equals else after
    url, bearer_env, header_env = values.values()
    return HttpForm(url, bearer_env, header_env, {}, ()) if url else None


def names_of(entries: Sequence[tuple[str, Any]]) -> dict[str, str]:
    """The canonical name of each server that entries list, by its name there: that of its proxy, else its own.

    Two that differ only in what a canonical name does not tell, as `my-server` and `my_server`, get names of their own; so does one whose
    name no rule can use, as `adjourn`.
    """
    names: dict[str, str] = {}
    for name, server in entries:
        if given := given_name(server):
            names.setdefault(name, given)
    for name, _ in sorted(entries, key=lambda entry: canonical_server(entry[0]) != entry[0]):
        if name not in names:
            names[name] = _unlike(canonical_server(name), set(names.values()))
    return names


def _unlike(name: str, taken: Container[str]) -> str:
    """The name, with a number behind it if it is taken, or if no rule can use it."""
    numbered = (f"{name[: MAX_SERVER_NAME - 1 - len(str(number))]}_{number}" for number in count(2))
    if not name or (name not in taken and not names_own(f"{name}._")):
        return name
    return next(each for each in numbered if each not in taken)


def entry_of(path: str, name: str, server: Any, canonical: str = "") -> ServerEntry | None:
    """The server of an entry, behind the proxy or not; None if it starts no command of its own. `canonical` is its name in policies,
    unless its proxy has another.
    """
    words, form = words_of(server), http_form(server)
    if words is None and form is None:
        return None
    canonical = given_name(server) or canonical or canonical_server(name)
    form = form or (proxied_form(words) if words and names_proxy(server) else None)
    if form is not None:
        words = connect_words(form.url, form.bearer_env, form.header_env)
    elif words and "proxy" in words and "--" in words:
        words = words[words.index("--", words.index("proxy")) + 1 :]
    env, cwd = server.get("env"), server.get("cwd")
    if not words:
        return None
    return ServerEntry(
        canonical,
        path,
        words,
        {
            **({key: value for key, value in env.items() if isinstance(value, str)} if isinstance(env, dict) else {}),
            **(form.env if form else {}),
        },
        cwd if isinstance(cwd, str) else "",
        server.get("disabled") is True or server.get("enabled") is False,
        name,
        form.url if form else "",
    )


def start_of(entry: ServerEntry, root: str, environment: Mapping[str, str]) -> ServerStart | str:
    """How the server is started in a workspace; the value that only its client knows, where it needs one."""
    variables = for_others(environment)
    missing: list[str] = []

    def value_of(match: re.Match[str]) -> str:
        name, _, default = match[1].partition(":-")
        name = name.removeprefix("env:")
        if name in _FOLDERS:
            return root
        value = variables.get("HOME" if name == "userHome" else name, default)
        if not value and ":-" not in match[1]:
            missing.append(match[0])
        return value

    words = [_PLACEHOLDER.sub(value_of, word) for word in entry.words]
    env = {name: _PLACEHOLDER.sub(value_of, value) for name, value in entry.env.items()}
    cwd = os.path.join(root, os.path.expanduser(_PLACEHOLDER.sub(value_of, entry.cwd)))
    if entry.url and "ADJOURN_CONFIG" in environment:
        env["ADJOURN_CONFIG"] = environment["ADJOURN_CONFIG"]  # a login is kept there
        return missing[0] if missing else ServerStart(words, variables | env, cwd)
    return missing[0] if missing else ServerStart(words, variables | for_others(env), cwd)


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
    program = find(start.words[0], given=start.environment)
    if program is None:
        return f"{start.words[0]} (not found on its PATH)"
    path = os.path.normpath(os.path.join(start.cwd, program))
    real = os.path.realpath(path)
    text = path if real == path else f"{path}, which is {real}"
    return f"{text} ({HERE})" if lies_in(path, root) else text


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
    names = ", ".join(dict.fromkeys("the folder itself" if place == "." else place for place in places))
    return f"{_cut(names)} {'is' if len(set(places)) == 1 else 'are'}"


def _cut(text: str) -> str:
    more = len(text) - MAX_SHOWN
    return text if more <= 0 else f"{text[:MAX_SHOWN]}… ({more:,} more characters)"

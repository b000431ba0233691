"""A language server is hostile input: silence, floods and nonsense end in an error within its limits."""

from __future__ import annotations

import sys
import threading
import time
from contextlib import suppress
from pathlib import Path

import pytest

from support.cases import for_each

pytest.importorskip("lsprotocol")
from lsprotocol import types

from adjourn.code.deadline import Deadline
from adjourn.code.language_servers import client
from adjourn.code.language_servers import kinds as cargo
from adjourn.code.language_servers.client import LanguageClient, LanguageServerError
from adjourn.code.language_servers.kinds import KINDS, ServerKind, kind_for
from adjourn.code.language_servers.servers import FAILED, READY, STARTING, LanguageServers, ServerAnswer
from support.proxy import wait_for

REPLY = "import sys\ndef say(text):\n    body = text.encode()\n    sys.stdout.buffer.write(b'Content-Length: %d\\r\\n\\r\\n' % len(body) + body)\n    sys.stdout.flush()\n"
SOME = ServerKind("some", {"python": "python"}, lambda _: None)
INITIALIZED = 'say(\'{"jsonrpc":"2.0","id":1,"result":{"capabilities":{}}}\')\n'


@for_each(
    "program",
    [
        "print('Content-Length: 99999999999\\r\\n\\r')",
        "print('Content-Length: -1\\r\\n\\r')",
        "print('Content-Length: many\\r\\n\\r')",
        "print('x' * 100_000)",
        REPLY + "say('[1]')",
        REPLY + "say('{')",
        REPLY + "say('[' * 100_000)",
        "import sys; sys.exit(3)",
    ],
)
def test_nonsense_ends_the_server(program: str, tmp_path: Path) -> None:
    """A message without a believable length, or that is no JSON object, is the end of the process."""
    with pytest.raises(LanguageServerError, match="ended"):
        _client(program + "\nimport time; time.sleep(60)", tmp_path)


def test_a_silent_server_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A start has a deadline, and so has each request: the server lives on, and the answer is not waited for."""
    monkeypatch.setattr(client, "START_SECONDS", 0.5)
    with pytest.raises(LanguageServerError, match="too long"):
        _client("import time; time.sleep(60)", tmp_path)
    monkeypatch.setattr(client, "START_SECONDS", 30.0)
    server = _client(REPLY + INITIALIZED + "import time; time.sleep(60)", tmp_path)
    began = time.monotonic()
    with pytest.raises(LanguageServerError, match="too long"):
        server.request(types.SHUTDOWN, None, Deadline(0.1))
    assert time.monotonic() - began < 5
    assert server.alive
    server.close()
    assert not server.alive


def test_a_server_that_grows_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A server over its limit of memory is killed at the next request."""
    server = _client(REPLY + INITIALIZED + "import time; time.sleep(60)", tmp_path)
    monkeypatch.setattr(client, "MAX_MEMORY", 1)
    with pytest.raises(LanguageServerError, match="used more than"):
        server.request(types.SHUTDOWN, None, Deadline(30.0))
    assert not server.alive


def test_a_server_that_reads_nothing_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A message that the server does not take in time ends it: no caller waits for a full pipe."""
    monkeypatch.setattr(client, "_WRITE_SECONDS", 0.3)
    server = _client(REPLY + INITIALIZED + "import time; time.sleep(60)", tmp_path)
    text = types.TextDocumentItem("file:///a.py", "python", 1, "x" * (1 << 20))
    with pytest.raises(LanguageServerError, match="reads nothing"):
        server.notify(types.TEXT_DOCUMENT_DID_OPEN, types.DidOpenTextDocumentParams(text))
    assert not server.alive


def test_questions_without_an_end_end_the_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that asks and never reads what it is answered is ended, and leaves no thread behind."""
    monkeypatch.setattr(client, "_WRITE_SECONDS", 0.3)
    question = '{"id":7,"method":"workspace/configuration","params":{"items":[' + ",".join(["{}"] * 100) + "]}}"
    with suppress(LanguageServerError):  # it may be ended before its start is over
        server = _client(f"{REPLY}{INITIALIZED}while True: say({question!r})", tmp_path)
        wait_for(lambda: not server.alive)
    wait_for(lambda: all(one.name != "adjourn-language-server" for one in threading.enumerate()))


def test_no_program_of_the_workspace_is_started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A server on PATH counts only where the workspace cannot have put it."""
    program = tmp_path / "bin" / "gopls"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(program.parent))
    kind = kind_for("go")
    assert kind is not None
    assert kind.command("/elsewhere") == [str(program)]
    assert kind.command(str(tmp_path)) is None


def test_typescript_needs_its_own_compiler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """TypeScript's server without a compiler beside it is not started: it would run that of the workspace."""
    modules = tmp_path / "node_modules"
    program = modules / "typescript-language-server" / "lib" / "cli.mjs"
    compiler = modules / "typescript" / "lib" / "tsserver.js"
    for file in (program, compiler):
        file.parent.mkdir(parents=True)
        file.write_text("")
    program.chmod(0o755)
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "typescript-language-server").symlink_to(program)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    kind = kind_for("tsx")
    assert kind is not None
    assert (command := kind.command("/elsewhere"))
    assert kind.options(command)["tsserver"]["path"] == str(compiler)
    compiler.unlink()
    assert kind.command("/elsewhere") is None


@for_each(
    ("file", "text", "named"),
    [
        (".cargo/config.toml", '[env]\nLD_PRELOAD = "x.so"\n', "env"),
        (".cargo/config", '[build]\nrustc-wrapper = "./x"\n', "build.rustc-wrapper"),
        ("inner/.cargo/config.toml", '[target.x86_64-unknown-linux-gnu]\nlinker = "./x"\n', "linker"),
        (".cargo/config.toml", "[target]\nx = 1\n", "target.x"),
        (".cargo/config.toml", "not toml", "what cannot be read"),
        (".cargo/config.toml", "new-key = 1\n", "new-key"),
        ("rust-toolchain.toml", '[toolchain]\npath = "./x"\n', "toolchain"),
        ("inner/rust-analyzer.toml", "", "options of rust-analyzer"),
    ],
)
def test_rust_is_not_analysed_where_settings_name_programs(file: str, text: str, named: str, tmp_path: Path) -> None:
    """A key of cargo's settings that could start a program, or is not known, keeps rust-analyzer from starting."""
    (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / file).write_text(text)
    assert named in cargo.refusal(str(tmp_path))
    assert file in cargo.refusal(str(tmp_path))


def test_common_settings_of_cargo_are_accepted(tmp_path: Path) -> None:
    """Flags of the compiler, aliases and the name of a toolchain do not keep rust-analyzer from starting."""
    (tmp_path / ".cargo").mkdir()
    (tmp_path / ".cargo" / "config.toml").write_text(
        '[alias]\nxtask = "run"\n[build]\njobs = 2\n[target.x]\nrustflags = ["-C", "a"]\n'
    )
    (tmp_path / "rust-toolchain").write_text("stable\n")
    (tmp_path / "config.toml").write_text("anything = 1\n")
    assert cargo.refusal(str(tmp_path)) == ""


def test_a_changed_setting_of_cargo_ends_the_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """rust-analyzer, which would run cargo again, is ended when a file that cargo reads has changed, and started only if it may."""
    program = tmp_path / "bin" / "rust-analyzer"
    program.parent.mkdir()
    settled = 'say(\'{"method":"experimental/serverStatus","params":{"quiescent":true}}\')\n'
    program.write_text(f"#!{sys.executable}\n{REPLY}{INITIALIZED}{settled}import time; time.sleep(60)\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(program.parent), prepend=":")
    root = tmp_path / "project"
    (root / ".cargo").mkdir(parents=True)
    servers = LanguageServers(str(root), lambda _: "rust")

    def asked() -> ServerAnswer[int]:
        servers.wait("rust", Deadline(30))
        return servers.ask("rust", [], [], lambda *_: 1, Deadline(5))

    try:
        assert asked() == (READY, 1, "")
        (root / "Cargo.toml").write_text("")
        servers.changed(["Cargo.toml"])
        assert servers.ask("rust", [], [], lambda *_: 1, Deadline(5)).state == STARTING
        assert asked() == (READY, 1, "")
        (root / ".cargo" / "config.toml").write_text('[build]\nrustc = "./x"\n')
        servers.changed([".cargo/config.toml"])
        asked()
        answer = asked()
        assert (answer.state, answer.value) == (FAILED, None)
        assert ".cargo/config.toml sets build.rustc" in answer.reason
    finally:
        servers.close()


def test_a_language_has_one_server() -> None:
    """No two rows serve one language."""
    spoken = [language for kind in KINDS for language in kind.languages]
    assert len(spoken) == len(set(spoken))


def _client(program: str, root: Path) -> LanguageClient:
    return LanguageClient(SOME, [sys.executable, "-c", program], str(root))


@for_each(
    ("name", "text", "left_out"),
    [
        (
            "pyproject.toml",
            '[tool.pyright]\ninclude = ["src", "./tests/typing/"]\n',
            ["docs/conf.py", "tests/test_a.py"],
        ),
        ("pyproject.toml", '[tool.pyright]\nexclude = ["**/typing", "src/b*.py"]\n', ["src/b.py", "tests/typing/t.py"]),
        (
            "pyproject.toml",
            '[tool.pyright]\ninclude = ["src"]\n[tool.basedpyright]\nexclude = ["docs"]\n',
            ["docs/conf.py"],
        ),
        ("pyrightconfig.json", '{"include": ["src", 3]}', ["docs/conf.py", "tests/test_a.py", "tests/typing/t.py"]),
        ("pyproject.toml", "tool = 3\n", []),
        ("pyproject.toml", '[tool.pyright]\nstrict = ["src"]\n', []),
        ("README.md", "# A\n", []),
    ],
)
def test_files_that_pyright_leaves_out_are_shown_to_it(
    name: str, text: str, left_out: list[str], tmp_path: Path
) -> None:
    """By its settings, include and exclude; of other files it knows by itself."""
    (tmp_path / name).write_text(text)
    shown = next(kind for kind in KINDS if kind.name == "basedpyright").shown
    assert shown is not None
    files = ["docs/conf.py", "src/a.py", "src/b.py", "tests/test_a.py", "tests/typing/t.py"]
    assert sorted(shown(str(tmp_path), files).values()) == left_out


def test_settings_of_pyright_with_comments_may_leave_out_everything(tmp_path: Path) -> None:
    """What cannot be read is not taken for what includes all files."""
    (tmp_path / "pyrightconfig.json").write_text('{"include": ["src"]} // ours')
    shown = next(kind for kind in KINDS if kind.name == "basedpyright").shown
    assert shown is not None
    assert shown(str(tmp_path), ["src/a.py"]) == {"src/a.py": "src/a.py"}

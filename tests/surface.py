"""Collects what adjourn publishes, without its prose: `python tests/surface.py` writes tests/data/surface.

Owns: what counts as published (commands, exit codes, public names, event kinds, schemas, tools, the contract
language, the members of answers).
Must never: keep help texts, descriptions or titles, or the names of internal modules and functions.

Run it after a change of the published surface that is meant, and review the difference like code: what is removed or
renamed breaks somebody's script, store or client.
"""

from __future__ import annotations

import contextlib
import enum
import importlib
import inspect
import io
import json
import os
import re
import subprocess
import sys
import tempfile
import tomllib
import typing
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any
from unittest import mock

import click
import msgspec

import adjourn
import surface_answers
from adjourn import testing
from adjourn.log.kinds import REGISTRY

REPOSITORY = Path(__file__).parents[1]
FOLDER = Path(__file__).parent / "data" / "surface"
ECHO = Path(__file__).parent / "e2e" / "servers" / "echo.py"
SPEC = REPOSITORY / "spec"
SECONDS = 60.0

Tree = dict[str, Any]


def _table(name: str, holds: str) -> Any:
    """The table of that name which has such a row, in whatever module it is."""
    for path in sorted(Path(adjourn.__file__).parent.rglob("*.py")):
        if not re.search(rf"^{name}\b.*=", path.read_text("utf-8"), re.MULTILINE):
            continue
        parts = path.relative_to(Path(adjourn.__file__).parents[1]).with_suffix("").parts
        table = getattr(importlib.import_module(".".join(parts)), name)
        if holds in table or holds in {getattr(row, "flag", "") for row in table}:
            return table
    raise LookupError(f"no module has a table {name} with {holds}")


# --- the command line -----------------------------------------------------------------------------------------------


def command_line() -> Tree:
    """Every command of every program: its options and arguments by what a script has to write."""
    scripts = tomllib.loads((REPOSITORY / "pyproject.toml").read_text("utf-8"))["project"]["scripts"]
    found: Tree = {}
    for program, place in scripts.items():
        group = _application(program, place)
        _add_commands(found, program, group, _context(group, program, None))
    for option in _table("OPTIONS", "--upstream"):
        for name in {"proxy", "hook"} & {*option.programs}:  # they parse their own arguments; click only shows them
            found[f"adjourn {name}"]["options"][option.flag] |= {
                "default": option.default,
                "environment": option.environment,
            }
    return found


def _application(program: str, place: str) -> click.Group:
    """The click application that a program runs, wherever it is."""
    module, _, name = place.partition(":")
    ran: list[click.Command] = []
    path = [*sys.path]  # programs take the current folder out of it

    def keep(command: click.Command, *_: object, **__: object) -> int:
        ran.append(command)
        return 0

    with (
        mock.patch.object(sys, "argv", [program, "--help"]),
        mock.patch.object(click.Command, "main", keep),
        contextlib.redirect_stdout(io.StringIO()),
        contextlib.suppress(SystemExit),
    ):
        getattr(importlib.import_module(module), name)()
    sys.path[:] = path
    (group,) = ran
    assert isinstance(group, click.Group)
    return group


def _add_commands(found: Tree, path: str, command: click.Command, context: click.Context) -> None:
    options = [_option(one) for one in command.get_params(context) if isinstance(one, click.Option)]
    entry: Tree = {
        "group": isinstance(command, click.Group),
        "hidden": command.hidden,
        "options": {option.pop("names")[0]: option for option in options},
        "arguments": [_parameter(one) for one in command.get_params(context) if isinstance(one, click.Argument)],
    }
    found[path] = entry
    if isinstance(command, click.Group):
        entry["alone"] = command.invoke_without_command
        for name in command.list_commands(context):
            part = command.get_command(context, name)
            assert part is not None
            _add_commands(found, f"{path} {name}", part, _context(part, name, context))


def _context(command: click.Command, name: str, parent: click.Context | None) -> click.Context:
    """The context in which a program shows the command's options."""
    command._help_option = None  # click keeps it as the first context named it, which may be another test's
    return click.Context(command, info_name=name, parent=parent, **command.context_settings)


def _option(option: click.Option) -> Tree:
    names = sorted(option.opts, key=lambda flag: (not flag.startswith("--"), flag))
    return {
        "names": names,
        "also": names[1:] + list(option.secondary_opts),
        "flag": option.is_flag,
        "counts": option.count,
        "optional_value": option._flag_needs_value,
        "hidden": option.hidden,
        **_parameter(option),
    }


def _parameter(one: click.Parameter) -> Tree:
    # what a shell completes of a text is no other type
    kind = (click.STRING if isinstance(one.type, click.types.StringParamType) else one.type).to_info_dict()
    made = {
        "type": {name: value for name, value in kind.items() if name in _OF_TYPES},
        "required": one.required,
        "values": one.nargs,
        "multiple": one.multiple,
        "environment": one.envvar or "",
    }
    default = one.default
    if default is not None and not isinstance(default, enum.Enum) and not callable(default):
        made["default"] = default
    return made


_OF_TYPES = (
    "param_type", "choices", "case_sensitive", "min", "max", "min_open", "max_open", "clamp", "exists", "file_okay", "dir_okay",
    "allow_dash", "mode",
)  # fmt: skip


# --- exit codes -----------------------------------------------------------------------------------------------------


def exit_codes() -> Tree:
    """What a command ends with for each class of error, a hook for a call it cannot answer, and the codes of findings."""
    return {
        "errors": {
            name: kind.exit_code
            for name in adjourn.__all__
            if isinstance(kind := getattr(adjourn, name), type) and issubclass(kind, adjourn.AdjournError)
        },
        "commands": {
            name: _ended(*words)
            for name, words in {
                "done": ("--version",),
                "nothing-there": ("status",),
                "hook-by-its-published-name": ("gate", "--help"),
                "no-such-command": ("no-such-command",),
                "no-such-option": ("status", "--no-such-option"),
                "proxy-without-upstream": ("proxy",),
                "hook-without-event": ("hook",),
                "no-such-file": ("check", "no-such-file.aex"),
            }.items()
        }
        | {
            "hook-before-a-call-of-no-tool": _ended("hook", given='{"hook_event_name":"PreToolUse"}'),
            "hook-after-a-call-of-no-tool": _ended("hook", given='{"hook_event_name":"PostToolUse"}'),
        },
        "verify": sorted(_table("CODES", "history-cut")),
    }


def _ended(*words: str, given: str = "") -> int:
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            [sys.executable, "-m", "adjourn", *words],
            cwd=folder,
            env=_environment(folder),
            input=given.encode(),
            capture_output=True,
            timeout=SECONDS,
            check=False,
        )
    return done.returncode


def _environment(folder: str) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("ADJOURN_", "AEX_"))}
    return kept | {"ADJOURN_CONFIG": f"{folder}/.config-of-tests"}


# --- the Python interface -------------------------------------------------------------------------------------------


def python_names() -> Tree:
    """Each public name: what it is, how it is called, and what a class has."""
    names = {name: _object(getattr(adjourn, name)) for name in sorted(adjourn.__all__)}
    return names | {f"testing.{name}": _object(getattr(testing, name)) for name in sorted(testing.__all__)}


def _object(value: object) -> Tree:
    if typing.get_origin(value) is not None:
        return {"kind": "alias", "is": str(value).replace("collections.abc.", "").replace("typing.", "")}
    if not isinstance(value, type):
        return {"kind": "function" if inspect.isroutine(value) else type(value).__name__, "call": _call(value)}
    made: Tree = {
        "kind": "class",
        "bases": [base.__name__ for base in value.__mro__[1:] if base.__name__ in _NAMED],
        "call": [] if getattr(value, "_is_protocol", False) else _call(value),
    }
    if issubclass(value, msgspec.Struct):
        made["json"] = {
            field.name: field.encode_name for field in msgspec.structs.fields(value) if field.name != field.encode_name
        }
    members: dict[str, Any] = {}
    for name in sorted({*dir(value), *getattr(value, "__annotations__", {})}):
        if name.startswith("_"):
            continue
        owner = next((base for base in value.__mro__ if name in vars(base)), value)
        if owner.__module__.partition(".")[0] == "adjourn":
            members[name] = _member(inspect.getattr_static(value, name, None))
    return made | {"members": members}


_NAMED = {*adjourn.__all__, "Exception", "KeyError", "Protocol", "ABC", "Struct", "NamedTuple", "tuple"}


def _member(value: object) -> Any:
    if isinstance(value, (staticmethod, classmethod)):
        return {"kind": type(value).__name__, "call": _call(value.__func__)}
    if inspect.isfunction(value):
        return {"kind": "async method" if inspect.iscoroutinefunction(value) else "method", "call": _call(value)}
    if isinstance(value, property):
        return {"kind": "property", "settable": value.fset is not None}
    return {"kind": "attribute"}


def _call(value: Any) -> list[Any]:
    return [
        [one.name, one.kind.name.lower(), *_default(one.default)]
        for one in inspect.signature(value).parameters.values()
    ]


def _default(value: object) -> list[str]:
    """Nothing where there is no default; code is shown by being there, not by where it is."""
    if value is inspect.Parameter.empty:
        return []
    if value is None or isinstance(value, (str, bytes, int, float, bool)):
        return [repr(value)]
    if isinstance(value, (tuple, list, dict, set, frozenset)) and not value:
        return [repr(value)]
    if inspect.isroutine(value) or isinstance(value, type):
        return ["code"]
    return [type(value).__name__]


# --- schemas --------------------------------------------------------------------------------------------------------


def event_kinds() -> Tree:
    """The members of each kind of event, as JSON has them."""
    return {name: _plain(msgspec.json.schema(kind)) for name, kind in sorted(REGISTRY.items())}


def published_schemas() -> Tree:
    """The schemas in spec/, which tests of their own hold against the types."""
    files = sorted([*SPEC.glob("*.schema.json"), *SPEC.glob("schemas/*.json")])
    return {path.relative_to(SPEC).as_posix(): _without_prose(json.loads(path.read_text("utf-8"))) for path in files}


def tools() -> Tree:
    """The tools of the servers that adjourn is, as a client gets them listed."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder, "work")
        (root / ".aex").mkdir(parents=True)
        (root / ".aex" / "policy.aex").write_text('policy surface v0\ngoal "list"\nallow *\n', "utf-8")
        subprocess.run(["git", "init", "--quiet", str(root)], check=True, stdin=subprocess.DEVNULL)
        upstream = [sys.executable, "-I", "-S", str(ECHO), folder, "--tools", "none"]
        return {
            "proxy": _listed(["proxy", "--", *upstream], root),
            "proxy --tool-names underscored": [
                tool["name"] for tool in _listed(["proxy", "--tool-names", "underscored", "--", *upstream], root)
            ],
            "code": _listed(["code"], root),
        }


def _listed(words: list[str], root: Path) -> list[Tree]:
    hello = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "surface", "version": "1"}}
    with subprocess.Popen(
        [sys.executable, "-m", "adjourn", *words],
        cwd=root,
        env=_environment(str(root.parent)),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None

        def send(method: str, params: Tree, **more: object) -> None:
            assert process.stdin is not None
            process.stdin.write(json.dumps({"jsonrpc": "2.0", "method": method, "params": params} | more) + "\n")
            process.stdin.flush()

        def answer(number: int) -> Tree:
            assert process.stdout is not None
            for line in process.stdout:
                body: Tree = json.loads(line)
                if body.get("id") == number and "method" not in body:
                    result: Tree = body["result"]
                    return result
            raise AssertionError(f"adjourn {' '.join(words)} ended without an answer")

        try:
            send("initialize", hello, id=1)
            answer(1)
            send("notifications/initialized", {})
            send("tools/list", {}, id=2)
            found = answer(2)["tools"]
        finally:
            process.stdin.close()
            process.wait(SECONDS)
    for tool in found:
        for name in ("title", "description"):
            tool.pop(name, None)
        tool.get("annotations", {}).pop("title", None)
        for name in ("inputSchema", "outputSchema"):
            if name in tool:
                tool[name] = _plain(tool[name])
    return sorted(found, key=lambda tool: str(tool["name"]))


_PROSE = ("description", "$comment", "examples")
_OF_NAMES = ("properties", "patternProperties", "$defs", "dependentSchemas")
_VALUES = ("default", "enum", "const", "required")


def _without_prose(schema: Any) -> Any:
    """A schema without descriptions."""
    if isinstance(schema, list):
        return [_without_prose(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    made: Tree = {}
    for key, value in schema.items():
        if key in _OF_NAMES:
            made[key] = {name: _without_prose(part) for name, part in value.items()}
        elif key not in _PROSE:
            made[key] = value if key in _VALUES else _without_prose(value)
    return made


def _plain(schema: Tree) -> Tree:
    """A schema without prose, with its references put in place, so that the name of a type is no part of it."""
    bare = _without_prose(schema)
    parts = bare.pop("$defs", {})
    made: Tree = _filled(bare, parts, ())
    return made


def _filled(schema: Any, parts: Mapping[str, Any], inside: tuple[str, ...]) -> Any:
    """A schema whose references are replaced by what they name; one to what it lies in, by how far up that is."""
    if isinstance(schema, list):
        return [_filled(part, parts, inside) for part in schema]
    if not isinstance(schema, dict):
        return schema
    made = {key: _filled(value, parts, inside) for key, value in schema.items() if key != "$ref"}
    if "$ref" not in schema:
        return made
    name = schema["$ref"].rpartition("/")[2]
    if name in inside:
        return made | {"$up": len(inside) - inside.index(name)}
    part = {key: value for key, value in parts[name].items() if key != "title"}
    return made | _filled(part, parts, (*inside, name))


# --- the contract language ------------------------------------------------------------------------------------------


def contract_language() -> Tree:
    """The grammar without its comments, and the diagnostics with how severe they are."""
    lines = (SPEC / "aex.lark").read_text("utf-8").splitlines()
    return {
        "grammar": [line for one in lines if (line := re.sub(r"(^|\s{2,})//(\s.*)?$", "", one).rstrip())],
        "diagnostics": {
            code: "either" if entry.either else entry.severity
            for code, entry in sorted(_table("DIAGNOSTICS", "AEX001").items())
        },
    }


PARTS: dict[str, Callable[[], Tree]] = {
    "aex": contract_language,
    "answers": surface_answers.collect,
    "commands": command_line,
    "events": event_kinds,
    "exit-codes": exit_codes,
    "python": python_names,
    "schemas": published_schemas,
    "tools": tools,
}
"""Name of the file in tests/data/surface → what collects it."""


def text(part: str) -> str:
    """What the file of a part has to be."""
    return json.dumps(PARTS[part](), indent=1, sort_keys=True, ensure_ascii=False) + "\n"


def main(names: Iterable[str] = PARTS) -> None:
    """Write the files, and say which have changed."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    for name in names:
        path = FOLDER / f"{name}.json"
        before = path.read_text("utf-8") if path.exists() else ""
        now = text(name)
        path.write_text(now, "utf-8")
        print(f"{path.relative_to(REPOSITORY)}: {'changed' if now != before else 'the same'}")


if __name__ == "__main__":
    main()

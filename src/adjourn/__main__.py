"""Entry point. `proxy` (started once a session), `hook` (once a call), `status` and `resume` (often in scripts) take a fast path; everything
else goes to the command line proper.

Owns: that choice, and turning errors into exit codes. Must never: import click for a fast path.
"""

from __future__ import annotations

import gc
import os
import sys
from types import ModuleType


def aex() -> None:
    """Run `aex`: its names for the same commands. Ends the process."""
    main("aex")


def main(program: str = "adjourn") -> None:
    """Run `adjourn`. Ends the process."""
    try:
        _run(program, sys.argv[1:])
    except KeyboardInterrupt:  # before there is a command that could say so
        _leave(130)


def _run(program: str, arguments: list[str]) -> None:
    while arguments[:1] == ["-C"]:
        _go(arguments[1:2])
        del arguments[:2]
    if arguments[:1] == ["proxy"] and not {"--help", "-h"} & set(arguments[: _before_upstream(arguments)]):
        _leave(_proxy(arguments[1:]))
    if arguments[:1] in (["hook"], ["gate"]) and not {"--help", "-h"} & set(arguments):
        _leave(_hook(arguments[1:]))
    _open_closed_streams()
    _leave_working_folder()
    if arguments[:1] in (["status"], ["resume"]) and program == "adjourn":
        _plain(*arguments)
    if arguments[:1] == ["continue"]:
        gc.set_threshold(100_000)  # a list makes thousands of objects that stay
        _load_msgspec()
    from adjourn.cli import main as run  # the slow path

    if arguments[:1] == ["gate"] and program == "adjourn":
        arguments[0] = "hook"
    sys.exit(run(arguments, program))


def _go(named: list[str]) -> None:
    """Work in another folder, as `git -C` does: before anything examines the current one."""
    folder = named[0] if named else ""
    try:
        os.chdir(folder)
    except OSError as error:
        sys.stderr.write(f"adjourn: -C {folder!a}: {error.strerror}\n  name an existing folder\n")
        sys.exit(2)


def _open_closed_streams() -> None:
    """Point closed standard streams at /dev/null: no file of ours may take its number, and nothing that is printed may fail for it."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)
        if getattr(sys, name) is None:
            setattr(sys, name, open(number, "r" if not number else "w", encoding="utf-8", closefd=False))  # noqa: SIM115  # stays


def _leave_working_folder() -> None:
    """Before anything else is loaded: the folder is an agent's to write in."""
    from adjourn.host.executables import leave_working_folder  # where a failure is a hook's refusal, too

    leave_working_folder()


def _before_upstream(arguments: list[str]) -> int:
    return arguments.index("--") if "--" in arguments else len(arguments)


def _proxy(arguments: list[str]) -> int:
    _leave_working_folder()
    from adjourn.proxy.launch import start

    return start(arguments, _load_msgspec)


def _hook(arguments: list[str]) -> int:
    """Answer, or let the standby process answer. A failure to load is a refusal, too."""
    try:
        for number in (0, 1, 2):
            try:
                os.fstat(number)
            except OSError:  # closed: no file of ours may take its number, and no answer may get lost
                os.open(os.devnull, os.O_RDONLY)
        _leave_working_folder()
        if "--stay" not in arguments:
            return _answer_hook(arguments)
        from adjourn.hooks import standby

        code = standby.ask(arguments)
        if code is None:
            code = _answer_hook(arguments)
            standby.start()
    except BaseException as error:
        from adjourn.hooks import tell

        tell(error)
        return 2
    return code


def _plain(command: str, *arguments: str) -> None:
    """Run a command without the framework and end the process, unless the arguments need the command line proper."""
    gc.disable()  # as for a hook
    _load_msgspec()
    if command == "status":
        from adjourn.cli.status_view import run
    else:
        from adjourn.cli.resume_view import run

    if (code := run([*arguments])) is not None:
        _leave(code)
    gc.enable()


def _answer_hook(arguments: list[str]) -> int:
    gc.disable()  # the process ends before a collection would pay
    _load_msgspec()
    from adjourn.hooks.main import run

    return run(arguments)


def _load_msgspec() -> None:
    """Import msgspec without what makes schemas and reads UUIDs: neither a proxy nor a hook needs it."""
    with _without("typing_extensions"), _unused("uuid", "msgspec.inspect", "msgspec._json_schema"):
        import msgspec  # noqa: F401


class _without:  # noqa: N801  # reads as a phrase in a with statement
    """Hide a module while others are imported: msgspec imports typing_extensions if it is installed, in 15 ms, without need."""

    def __init__(self, module: str) -> None:
        self._module = module

    def __enter__(self) -> None:
        sys.modules.setdefault(self._module, None)  # type: ignore[arg-type]  # makes its import fail

    def __exit__(self, *exception: object) -> None:
        if sys.modules[self._module] is None:
            del sys.modules[self._module]


class _unused:  # noqa: N801  # as above
    """Replace modules that msgspec imports for types and schemas which are not used here: a quarter of its start."""

    def __init__(self, *modules: str) -> None:
        self._modules = [module for module in modules if module not in sys.modules]

    def __enter__(self) -> None:
        for module in self._modules:
            stand_in = sys.modules[module] = ModuleType(module)
            for name in ("UUID", "SafeUUID", "schema", "schema_components"):
                setattr(stand_in, name, type(name, (), {"unknown": None}))

    def __exit__(self, *exception: object) -> None:
        for module in self._modules:
            del sys.modules[module]


def _leave(code: int) -> None:
    """End the process at once: reading threads may be blocked, and every fact is on disk."""
    try:  # noqa: SIM105  # importing contextlib takes longer than this
        sys.stderr.flush()
    except (AttributeError, OSError, ValueError):  # missing, full, or closed
        pass
    os._exit(code)


if __name__ == "__main__":
    main()

"""Patches, as git itself reads them: which files one touches, and applying it.

git is asked, because any other reader of headers can be made to see other files than git does. Paths count from the
workspace, whether or not it is part of a larger repository. Owns: those two questions. Must never: decide whether a file may
be touched.
"""

from __future__ import annotations

from collections.abc import Sequence

from adjourn.errors import InvalidError, RefusedError
from adjourn.host import GitCommand, distrusting
from adjourn.runs.subprocesses import Ended, run_program

MAX_PATCH = 20_000_000
SECONDS = 60.0
_LOOK = "check it: git config --list"


def git(root: str, *arguments: str, given: bytes = b"", outer: bool = True) -> Ended:
    """Run git in a workspace, and nothing that its repository names. Raises `ProgramError`, and as `distrusting` does."""

    def run(command: GitCommand, words: Sequence[str]) -> tuple[int, bytes]:
        ended = run_program([*command.words, *words], root, SECONDS, environment=command.environment)
        if not ended.whole or "\ufffd" in ended.output:  # a name that is not known cannot be switched off
            raise RefusedError(
                f"the repository in {root} has too many settings, or settings that are not UTF-8", _LOOK
            )
        return ended.code, ended.output.encode()

    command = distrusting(root, run, outer=outer)
    return run_program(
        [*command.words, *arguments], root, SECONDS, given=given, environment=command.environment
    )


def touched(root: str, patch: str) -> list[str]:
    """The files that `git apply` would change, create or remove; of a rename, both. `InvalidError` for no patch."""
    files: dict[str, None] = {}
    for reading in ((), ("--reverse",)):  # backwards, the names are those before the change
        ended = _apply(root, patch, "--numstat", "-z", *reading)
        if ended.code:
            raise InvalidError(
                f"git cannot parse the patch: {_reason(ended)}", "give a unified diff with file headers"
            )
        if not ended.whole or "\ufffd" in ended.output:
            raise InvalidError("the patch names too many files, or one that is not UTF-8", "split it")
        for line in ended.output.split("\0"):
            name = line.split("\t", 2)[-1]
            if name:
                files[name] = None
    return list(files)


def apply(root: str, patch: str) -> dict[str, object]:
    """`{applied, message?}`. A patch is applied whole, or not at all."""
    ended = _apply(root, patch, "--whitespace=nowarn")
    return {"applied": True} if not ended.code else {"applied": False, "message": _reason(ended)}


def _apply(root: str, patch: str, *options: str) -> Ended:
    data = patch.encode("utf-8", "surrogateescape")
    if len(data) > MAX_PATCH:
        raise InvalidError(f"the patch has more than {MAX_PATCH:,} bytes", "split it")
    if not data.endswith(b"\n"):
        data += (
            b"\n"  # a text that came out of JSON or a model often lacks it; git then calls the patch corrupt
        )
    return git(root, "apply", *options, "-", given=data, outer=False)


def _reason(ended: Ended) -> str:
    return ended.errors.strip()[:500] or f"git apply ended with {ended.code}"

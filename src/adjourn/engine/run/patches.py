"""Patches, as git itself reads them: which files one touches, and applying it.

git is asked, because any other reader of headers can be made to see other files than git does. Paths count from the
workspace, whether or not it is part of a larger repository. Owns: those two questions. Must never: decide whether a file may
be touched.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

from adjourn.engine.run.programs import Ended, ProgramError, run_program
from adjourn.errors import InvalidError
from adjourn.host.executables import find

MAX_PATCH = 20_000_000
SECONDS = 60.0
_TAKEN_OUT = (
    "GIT_DIR",
    "GIT_WORK_TREE",
    "GIT_INDEX_FILE",
    "GIT_PREFIX",
    "GIT_EXTERNAL_DIFF",
    "GIT_NAMESPACE",
)


def environment(**more: str) -> Mapping[str, str]:
    """For git, without what would lead it elsewhere or make it ask."""
    kept = {key: value for key, value in os.environ.items() if key not in _TAKEN_OUT}
    return kept | {"GIT_TERMINAL_PROMPT": "0", "GIT_OPTIONAL_LOCKS": "0", "LC_ALL": "C"} | more


def git(root: str) -> str:
    """Where git is, outside of the workspace. Raises `ProgramError`."""
    found = find("git", root)
    if found is None:
        raise ProgramError("there is no git here outside of the workspace", "install git", started=False)
    return found


def touched(root: str, patch: str) -> list[str]:
    """The files that `git apply` would change, create or remove; of a rename, both. `InvalidError` for no patch."""
    files: dict[str, None] = {}
    for reading in ((), ("--reverse",)):  # backwards, the names are those before the change
        ended = _apply(root, patch, "--numstat", "-z", *reading)
        if ended.code:
            raise InvalidError(
                f"git reads no patch in it: {_reason(ended)}", "give a unified diff with file headers"
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
    above = os.path.dirname(os.path.realpath(root))
    return run_program(
        [git(root), "apply", *options, "-"],
        root,
        SECONDS,
        given=data,
        environment=environment(GIT_CEILING_DIRECTORIES=above),
    )


def _reason(ended: Ended) -> str:
    return ended.errors.strip()[:500] or f"git apply ended with {ended.code}"

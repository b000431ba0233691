"""Words that say what a call does: names of arguments, and the words in a tool's name; and the refusals that no rule lifts."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache

from adjourn.aex.policy import Policy
from adjourn.policy.person_commands import BY_CLIENT, OUR_COMMAND
from adjourn.text.strict_json import alike, fold_key

COMMAND_KEYS = frozenset(("cmd", "command"))
"""Arguments that contain a command, as a shell command line or as a list of words."""
LINE_KEYS = COMMAND_KEYS | {"commands", "commandline"}
"""Arguments that contain one command, or several."""
WORD_KEYS = frozenset(("args", "argv", "arguments", "parameters"))
"""Arguments that contain further words of a command in another argument."""
PROGRAM_KEYS = LINE_KEYS | {"script", "code"}
"""Arguments that contain code to run."""
SQL_KEYS = frozenset(("sql", "query", "statement", "statements"))
PATCH_KEYS = frozenset(("diff", "patch"))
"""Arguments that name files inside their text."""
MAYBE_PATCH_KEYS = frozenset(("input", "edit", "edits", "change", "changes", "changeset", "hunks", "patches", "diffs"))
"""Arguments that do so where their text looks like a patch."""
CONTENT_KEYS = frozenset(
    (
        "body", "code", "content", "contents", "data", "description", "message", "newstring", "oldstring", "pattern",
        "prompt", "query", "regex", "text",
    )
)  # fmt: skip
"""Arguments with content to write or to search for, which may look like a path."""
BASE_KEYS = frozenset(
    ("cwd", "root", "workdir", "workingdir", "workingdirectory", "workspace", "basedir", "basepath", "rootdir", "rootpath", "project")
)  # fmt: skip
"""Arguments that name a tool's working directory: relative paths start there, and the tool does not change it."""
TARGET_KEYS = frozenset(
    (
        "dest", "destination", "destinationpath", "dst", "newname", "newpath", "out", "outdir", "outfile", "output",
        "outputdir", "outputfile", "outputpath", "saveas", "savepath", "saveto", "target", "targetpath", "to", "writes",
    )
)  # fmt: skip
"""Arguments that name a destination."""
_PATH_KEYS = frozenset(
    ("source", "src", "destination", "dest", "dst", "target", "cwd", "root", "workdir", "writes", "uri")
)
_PATH_ENDINGS = ("path", "paths", "file", "files", "filename", "filenames", "directory", "dir", "folder")
MAX_KEY = 64

_REMOVING = frozenset((
    "clean", "clear", "del", "delete", "destroy", "drop", "erase", "move", "mv", "prune", "purge", "rd", "relocate", "remove",
    "rename", "rimraf", "rm", "rmdir", "rmtree", "shred", "trash", "truncate", "unlink", "wipe",
))  # fmt: skip
_MOVING = frozenset(("move", "mv", "relocate", "rename"))
_NAME_PART = re.compile(r"[A-Z]?[a-z]+|[A-Z]+")


def argument_key(name: str) -> str:
    """An argument's name as the lists above have it: `File_Path`, `file-path` and `filePath` are `filepath`."""
    return folded_name(name) if len(name) <= MAX_KEY else name


@lru_cache(maxsize=4096)
def folded_name(name: str) -> str:
    """`argument_key` of a name of at most `MAX_KEY` characters."""
    return fold_key(name).replace("_", "").replace("-", "")


_READ_KEYS = LINE_KEYS | WORD_KEYS | PROGRAM_KEYS | SQL_KEYS | PATCH_KEYS | MAYBE_PATCH_KEYS | BASE_KEYS | TARGET_KEYS


def is_read_key(key: str) -> bool:
    """Whether the places that a call would touch are looked for in an argument of this name."""
    return is_path_key(key) or key in _READ_KEYS


def is_path_key(key: str) -> bool:
    """Whether an argument of this name is a path."""
    return key in _PATH_KEYS or key.endswith(_PATH_ENDINGS)


@lru_cache(maxsize=1024)
def words_of(tool: str) -> frozenset[str]:
    """The words of a tool's name: `delete_file`, `deleteFile` and `fs.delete-file` have the word `delete`."""
    return frozenset(part.lower() for part in _NAME_PART.findall(tool))


def removes(tool: str) -> bool:
    """Whether a tool's name says that it removes things."""
    return not _REMOVING.isdisjoint(words_of(tool))


def moves(tool: str) -> bool:
    """Whether a tool's name says that it moves things."""
    return not _MOVING.isdisjoint(words_of(tool))


# --- refusals whatever the rules say

UNREAD = "what cannot be read"
"""Stands for the place that a command line reaches which is not read: refused as any other."""


def reason_for(place: str) -> tuple[str, str]:
    """The reason for the refusal, given the protected place, and the remedy."""
    if place == UNREAD:
        return (
            "may not run a shell line that adjourn cannot read in full: it might change a protected place",
            "write it plainly: one step at a time, the names of files spelled out",
        )
    if not place.startswith(OUR_COMMAND):
        return (f"may not touch {place}: it is protected, whatever the policy says", "ask a person to change it")
    if place == f"{OUR_COMMAND}rollback":
        return (
            f"may not run `{place}`: it speaks for a person",
            "call aex.rollback, which asks a person, or ask one to run it",
        )
    whom = "its client" if place.removeprefix(OUR_COMMAND) in BY_CLIENT else "a person"
    return (f"may not run `{place}`: it speaks for {whom}", "ask a person to run it, in a terminal of their own")


def ambiguous(policy: Policy, tool: str, arguments: Mapping[str, object]) -> tuple[str, str] | None:
    """Two keys that are one to some reader of JSON, where a rule for the tool or the search for places looks; None if there are none.

    The rule would examine one of them, and the server could act on the other. Alike keys in other data are no matter.
    """
    if pair := alike(key for key in arguments if is_read_key(argument_key(key))):
        return pair
    for path in policy.arguments_read(tool):
        level: list[object] = [arguments]
        for part in path:
            inner: list[object] = []
            for value in level:
                values = value if isinstance(value, list | tuple) else [value]
                for member in values:
                    if isinstance(member, Mapping):
                        keys = [key for key in member if fold_key(key) == fold_key(part)]
                        if pair := alike(keys):
                            return pair
                        inner += (member[key] for key in keys)
                    elif isinstance(member, list | tuple):
                        level.append(member)  # a list in a list stands for its elements
            level = inner
    return None

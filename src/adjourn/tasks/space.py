"""Spaces: whose a task is, where a store serves several principals.

Who began a task is part of its id: after the name and a dot stands the key of a space, a digest of the principal's id, or of a group
whose members share their tasks. So whether somebody sees a task needs no lookup, and two principals may use one name.

Owns: these names, and which of them a principal sees. Must never: read a store.
"""

from __future__ import annotations

import re
from base64 import b32encode
from collections.abc import Sequence
from hashlib import sha256
from typing import NamedTuple

from adjourn.policy import Principal

KEY_CHARACTERS = 16
"""Of a key: a zero, and 75 bits of the digest."""
_KEY = r"0[a-z2-7]{15}"
_OWNED = re.compile(rf".*\.({_KEY})", re.DOTALL)


class Space(NamedTuple):
    """What a principal sees: the tasks of these `keys`. It begins tasks in the first one; the last one is its own alone."""

    keys: tuple[str, ...]

    @property
    def home(self) -> str:
        """The key of tasks that it begins."""
        return self.keys[0]

    @property
    def own(self) -> str:
        """The key that nobody else has."""
        return self.keys[-1]

    def named(self, task: str) -> str:
        """The id of the task that the principal means by a name: one that it sees, or of that name in its space."""
        return task if self.shows(task) else f"{task}.{self.home}"

    def shows(self, task: str) -> bool:
        """Whether the principal may know of a task."""
        return task[-KEY_CHARACTERS:] in self.keys and task[-KEY_CHARACTERS - 1 : -KEY_CHARACTERS] == "."


def space_of(principal: Principal, shared: Sequence[str] = ()) -> Space:
    """The space of a principal. Members of a `shared` group see each other's tasks; the first of several is where theirs begin."""
    groups = [_key(f"group:{name}") for name in shared if name in principal.groups]
    return Space((*groups, _key(f"principal:{principal.id}")))


def key_of_task(task: str) -> str:
    """The key of the space that a task is in; "" for one of no space."""
    found = _OWNED.fullmatch(task)
    return found[1] if found is not None else ""


def checkpoint_ref(name: str, task: str) -> str:
    """The name of the ref of a task's checkpoint, as the store has it: each space has names of its own."""
    key = key_of_task(task)
    return f"checkpoint/{name}{'@' * bool(key)}{key}"


def _key(text: str) -> str:
    return "0" + b32encode(sha256(text.encode(errors="surrogatepass")).digest()[:10]).decode().lower()[:15]

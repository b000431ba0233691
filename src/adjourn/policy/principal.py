"""Who stands behind a client, as whoever authenticated them says, and the space whose tasks are theirs."""

from __future__ import annotations

import re
from base64 import b32encode
from collections.abc import Sequence
from hashlib import sha256
from typing import Literal, NamedTuple

import msgspec


class Principal(msgspec.Struct, frozen=True, kw_only=True):
    """`id` is unique in a store, and never reused for somebody else: an issuer and its subject, or a key's own id. `name` and `groups`
    are what rules write; one name is one principal's. `label` is what somebody may have chosen for themselves: it permits nothing.
    """

    id: str
    name: str
    type: Literal["human", "service"]
    groups: tuple[str, ...] = ()
    label: str = ""

    @property
    def shown(self) -> str:
        """Who it is, for people and the history."""
        return f"{self.label} ({self.name})" if self.label not in ("", self.name) else self.name


# --- spaces

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

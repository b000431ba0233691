"""The policy of a workspace while a client works under it: whether it was edited, and how it reads then.

Owns: looking at the files, and telling of one that is broken. Must never: show a file's text to an agent, or loosen what is in force.
"""

from __future__ import annotations

import os
from collections.abc import Callable

from adjourn.aex import DIAGNOSTICS, load
from adjourn.log import digest, kinds
from adjourn.policy import BrokenContractError, Contract, reread_policy
from adjourn.text import beginning

MAX_SHOWN = 500
"""Characters of what is wrong with a broken policy."""


class PolicyFile:
    """The file of a contract's policy, with those that it extends. `on_event` is called when it has errors."""

    def __init__(self, root: str, contract: Contract, on_event: Callable[[str, str], None]) -> None:
        self._root = root
        self._on_event = on_event
        self._is_broken = False
        self._follow(contract)

    def _follow(self, contract: Contract) -> None:
        self._paths = [os.path.join(self._root, file) for file in contract.policy_files]
        self._status: tuple[int, ...] = (0,)  # it may have been edited since it was read
        self._text = digest(contract.policy_text.encode())

    def is_edited(self) -> bool:
        """Whether the text was edited since this was last asked. Costs one look at each file's status."""
        status = self._look()
        if not self._paths or status == self._status:
            return False
        self._status = status
        text = digest("".join(load(path, root=self._root)[0] or "" for path in self._paths).encode())
        changed, self._text = text != self._text, text
        return changed

    def read(self, contract: Contract) -> Contract | kinds.PolicyBroken | None:
        """`contract` under the policy as it was edited, None where it is the same. A broken one changes nothing: then what is wrong."""
        was_broken, self._is_broken = self._is_broken, False
        try:
            edited = reread_policy(self._root, contract)
        except BrokenContractError as error:
            first = next((found for found in error.findings if found.severity == "error"), None)
            # an agent can read this in the history: nothing of the file's text
            place = (
                f"{first.source}:{first.span.line}: {first.code} {DIAGNOSTICS[first.code].title}"
                if first
                else error.message
            )
            self._on_event(
                "policy.broken",
                f"the edited policy has errors; the previous version stays in force: {place}",
            )
            self._is_broken = True
            return kinds.PolicyBroken(message=beginning(place, MAX_SHOWN))
        if edited.policy_text == contract.policy_text and not was_broken:
            return None
        self._follow(edited)
        return edited

    def _look(self) -> tuple[int, ...]:
        found: list[int] = []
        for path in self._paths:
            try:
                status = os.stat(path)
            except OSError:
                found.append(-1)
            else:
                found += (status.st_mtime_ns, status.st_size, status.st_ino, status.st_ctime_ns)
        return tuple(found)

"""The policy as it stands for one client: read again when its file was edited, and narrowed to whoever and whatever it is about."""

from __future__ import annotations

import os
from functools import cached_property
from time import monotonic

import msgspec

from adjourn.aex.diagnostics import DIAGNOSTICS
from adjourn.aex.files import load
from adjourn.aex.layers import narrowed
from adjourn.aex.policy import Policy
from adjourn.clients.client_process import ClientProcess
from adjourn.clients.served_tools import ServedTools
from adjourn.log import kinds
from adjourn.log.canonical_json import digest
from adjourn.policy.contract import BrokenContractError, Contract, for_task, reread_policy
from adjourn.policy.protected.places import ProtectedPlaces
from adjourn.text.redact import beginning

LOOK_SECONDS = 0.01
"""How long an edited policy may not count yet."""
MAX_SHOWN = 500
"""Characters of what is wrong with a broken policy."""


class PolicyFiles:
    """The files of a contract's policy in the workspace `root`: its own, and those that it extends.

    `look_again` is when they are to be examined again (`time.monotonic`).
    """

    def __init__(self, root: str, contract: Contract) -> None:
        self._root = root
        self.look_again = 0.0
        self.follow(contract)

    def follow(self, contract: Contract) -> None:
        """Watch the files of this contract from now on."""
        self._paths = [os.path.join(self._root, file) for file in contract.policy_files]
        self._status: list[int] = [0]  # it may have been edited since it was read
        self._text = digest(contract.policy_text.encode())

    def are_edited(self) -> bool:
        """Whether their text changed since this was last asked. Costs one look at each file's status."""
        self.look_again = monotonic() + LOOK_SECONDS
        status: list[int] = []
        for path in self._paths:
            try:
                file = os.stat(path)
            except OSError:
                status.append(-1)
            else:
                status += (file.st_mtime_ns, file.st_size, file.st_ino, file.st_ctime_ns)
        if not self._paths or status == self._status:
            return False
        self._status = status
        before = self._text
        self._text = digest("".join(load(path, root=self._root)[0] or "" for path in self._paths).encode())
        return self._text != before


class PolicyWatch:
    """`contract` is the policy of the workspace as it stands, with the contract that the client was started with.

    `files` are those of that policy; `broken` says that an edited policy has errors, as long as no session has recorded it.
    """

    def __init__(self, client: ClientProcess, served: ServedTools) -> None:
        self._client = client
        self._served = served
        self.contract = self._at_server(client.options.contract)
        self.broken: kinds.PolicyBroken | None = None
        self._is_broken = False
        self.files = PolicyFiles(client.options.root, client.options.contract)

    def narrowed(self, policy: Policy) -> Policy:
        """The policy as it holds for whoever stands behind the client, and for the tools of the server."""
        return self._served.judged_by(narrowed(policy, self._client.options.principal))

    def for_task(self, contract_digest: str) -> Contract:
        """The contract that a session works under on a task, which was opened under the contract of this digest."""
        return self._at_server(for_task(self.contract, self._client.store, contract_digest))

    def judge_server_again(self) -> None:
        """Narrow the policy to the server's tools as they are known now."""
        self.contract = self._at_server(self.contract)

    def _at_server(self, contract: Contract) -> Contract:
        return msgspec.structs.replace(contract, policy=self.narrowed(contract.policy))

    # --- edits

    def read_again(self) -> bool:
        """Read the policy as it was edited. Returns whether another one is in force: a broken one changes nothing."""
        was_broken, self._is_broken = self._is_broken, False
        try:
            edited = reread_policy(self._client.options.root, self.contract)
        except BrokenContractError as error:
            first = next((finding for finding in error.findings if finding.severity == "error"), None)
            # an agent can read this in the history: nothing of the file's text
            place = (
                f"{first.source}:{first.span.line}: {first.code} {DIAGNOSTICS[first.code].title}"
                if first
                else error.message
            )
            self._client.on_event(
                "policy.broken", f"the edited policy has errors; the previous version stays in force: {place}"
            )
            self._is_broken = True
            self.broken = kinds.PolicyBroken(message=beginning(place, MAX_SHOWN))
            return False
        if edited.policy_text == self.contract.policy_text and not was_broken:
            return False
        self.files.follow(edited)
        self.contract = self._at_server(edited)
        self.__dict__.pop("places", None)  # made again: the policy may extend other files now
        return True

    # --- places

    @cached_property
    def places(self) -> ProtectedPlaces:
        """All places that no gated call may touch."""
        return self._client.options.places_under(self.contract)

    def keep_secret(self, files: tuple[str, ...]) -> None:
        """Let no gated call read these files from now on."""
        client = self._client
        if files != client.options.secret:
            client.options = msgspec.structs.replace(client.options, secret=files)
            self.__dict__.pop("places", None)

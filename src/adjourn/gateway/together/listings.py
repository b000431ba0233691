"""What several servers list, as one list: the names that it has there, and whose a listed resource is.

Owns: these names and owners in one client's session. Must never: ask a server.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from adjourn.gateway.together import merging, task_handles
from adjourn.gateway.together.member import Member
from adjourn.gateway.together.resource_owners import ResourceOwners
from adjourn.relay import StderrLog

MAX_REPORTED = 1000
Items = Mapping[Member, Sequence[merging.Raw]]
"""What each server lists, in the order of the settings."""


class Listings:
    """`has_dots`: whether the client takes names with a dot."""

    def __init__(self, report: StderrLog, *, has_dots: bool) -> None:
        self.names = merging.JoinedNames(has_dots=has_dots)
        self.owners: ResourceOwners[Member] = ResourceOwners()
        self._report = report
        self._reported: set[str] = set()

    def change(self, servers: Iterable[str]) -> None:
        """Have other servers."""
        self.names.change(servers)
        self.owners = ResourceOwners()

    def joined(self, kind: str, items: Items) -> list[merging.Raw]:
        """One list of all. `kind` is the member of the answer that has it."""
        if kind == "tasks":
            return [
                task_handles.shown_item(raw, member.name) for member, found in items.items() for raw in found
            ]
        if kind == "resources":
            return self._resources(items)
        if kind == "resourceTemplates":
            self.owners.listed_templates(items)
            return [raw for found in items.values() for raw in found]
        return self._named(items)

    def _resources(self, items: Items) -> list[merging.Raw]:
        for uri, member in self.owners.listed(items).items():
            self._report_once(
                "resource.collision", f"{uri} is listed by {member.name}, too; it is read from the first"
            )
        return [
            raw
            for member, found in items.items()
            for raw in found
            if self.owners.of(merging.member_of(raw, "uri")) in (member, None)
        ]

    def _named(self, items: Items) -> list[merging.Raw]:
        """Tools or prompts, under the names that they have together."""
        named, names = [], []
        for member, found in items.items():
            for raw in found:
                name = merging.member_of(raw, "name")
                if member.name and name:
                    name = self.names.joined(member.name, name)
                named.append(merging.named(raw, name) if member.name and name else raw)
                names.append(name)
        for one, other in merging.colliding(names):
            self._report_once("tool.collision", f"clients that rewrite names cannot tell {one} from {other}")
        return named

    def _report_once(self, event: str, text: str) -> None:
        if text not in self._reported and len(self._reported) < MAX_REPORTED:
            self._reported.add(text)
            self._report.event(event, text)

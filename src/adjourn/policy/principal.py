"""Who stands behind a client: a person or a service, as whoever authenticated them says.

Owns: `Principal`. Must never: authenticate.
"""

from __future__ import annotations

from typing import Literal

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

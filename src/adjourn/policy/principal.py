"""Who stands behind a client: a person or a service, as whoever authenticated them says.

Owns: `Principal`. Must never: authenticate.
"""

from __future__ import annotations

from typing import Literal

import msgspec


class Principal(msgspec.Struct, frozen=True, kw_only=True):
    """`id` is unique in a store, and never reused for somebody else: an issuer and its subject, or a key's own id. `name` and `groups`
    are what rules and people write.
    """

    id: str
    name: str
    type: Literal["human", "service"]
    groups: tuple[str, ...] = ()

"""How long tests run: short forms in `make test`, the long ones with ADJOURN_CAMPAIGN=1, as `make campaign` sets it."""

from __future__ import annotations

import os
from typing import Final

IS_CAMPAIGN: Final = os.environ.get("ADJOURN_CAMPAIGN") == "1"
_SHARE: Final = 1 if IS_CAMPAIGN else 10


def scaled(size: int) -> int:
    """A tenth of a size, or of a limit that goes with it; the whole in a campaign."""
    return max(1, size // _SHARE)


def scaled_seconds(limit: float) -> float:
    """What work that grows in proportion to `scaled` sizes may take: work that grows with the square takes longer in both forms."""
    return limit / _SHARE

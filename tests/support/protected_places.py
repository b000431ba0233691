"""Values that name protected places, for the tests of what is protected."""

from __future__ import annotations

import os
from typing import Any

from adjourn.policy.protected.places import ProtectedPlaces

POLICY, STORE, CHECKPOINTS = ".aex/policy.aex", ".aex/adjourn.db", ".aex/checkpoints"


def filled(value: Any, places: ProtectedPlaces) -> Any:
    """A value with ROOT and HOME in its texts replaced."""
    if isinstance(value, str):
        return value.replace("ROOT", places.root).replace("HOME_", os.path.dirname(places.root))
    if isinstance(value, list):
        return [filled(item, places) for item in value]
    if isinstance(value, dict):
        return {filled(key, places): filled(item, places) for key, item in value.items()}
    return value

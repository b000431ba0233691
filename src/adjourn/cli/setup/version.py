"""What `adjourn --version` prints.

Owns: those facts. Must never: import the framework.
"""

from __future__ import annotations

import json
import platform

from adjourn import __version__, log, store


def say_version(program: str, *, as_json: bool) -> None:
    """Print the version; as JSON also what a report of a defect needs."""
    if as_json:
        facts = {
            "program": program,
            "version": __version__,
            "python": platform.python_version(),
            "platform": platform.platform(),
            "storeSchemas": dict(store.LATEST),
            "eventFormat": log.VERSION,
        }
        print(json.dumps(facts, indent=2))
    else:
        print(f"{program} {__version__}")

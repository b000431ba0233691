"""Public names, each loaded when it is first used (PEP 562): the stub of a package (`__init__.pyi`) is the one list of them."""

import re
import sys
from typing import Any

_IMPORT = re.compile(r"^from (adjourn\.[\w.]+) import \(?([^()#]*?)\)?$", re.MULTILINE)


def attribute(package: str, name: str) -> object:
    """The value of a public name of a package, which the package has from now on. Raises `AttributeError`."""
    module = sys.modules[package]
    if not name.startswith("__") or name == "__all__":
        homes = _homes(module)
        if name == "__all__":
            return sorted(homes)
        if name in homes:
            __import__(homes[name])
            value = getattr(sys.modules[homes[name]], name)
            setattr(module, name, value)  # also where the import has put a module of that name
            return value
    raise AttributeError(f"module {package!r} has no attribute {name!r}")


def _homes(package: Any) -> dict[str, str]:
    """The public names of a package, and the modules that define them."""
    stub = package.__loader__.get_data(f"{package.__file__}i").decode()
    return {part.split()[0]: home for home, names in _IMPORT.findall(stub) for part in names.split(",") if part.strip()}

"""The front doors of packages: public names, each loaded when it is first used (PEP 562).

Owns: that loading. Must never: import anything else, for every start passes through here.
"""

import sys

TYPE_CHECKING = False  # type checkers take it for true; to import it from typing would cost every start
if TYPE_CHECKING:
    from collections.abc import Callable


def lazily(package: str, homes: dict[str, str]) -> "tuple[Callable[[str], object], Callable[[], list[str]]]":
    """`__getattr__` and `__dir__` of a package whose public names live in its modules.

    `homes` maps each name to the module that defines it, relative to the package.
    """

    def load(name: str) -> object:
        home = homes.get(name)
        if home is None:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        module = f"{package}.{home}"
        __import__(module)
        value: object = getattr(sys.modules[module], name)
        setattr(sys.modules[package], name, value)
        return value

    return load, lambda: sorted(homes)

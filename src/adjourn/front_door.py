"""The front doors of packages: public names, each loaded when it is first used (PEP 562).

Owns: that loading. Must never: import anything else, for every start passes through here.
"""

import sys

TYPE_CHECKING = False  # type checkers take it for true; to import it from typing would cost every start
if TYPE_CHECKING:
    from collections.abc import Callable


def lazily(
    package: str, names: dict[str, tuple[str, ...]]
) -> "tuple[Callable[[str], object], Callable[[], list[str]]]":
    """`__getattr__` and `__dir__` of a package whose public names live in its modules.

    `names` maps each module, relative to the package, to the public names that it defines.
    """
    homes = {name: module for module, defined in names.items() for name in defined}
    return lambda name: load(package, homes, name), lambda: sorted(homes)


def load(package: str, homes: dict[str, str], name: str) -> object:
    """The value of a public name, which the package has from now on. `homes` maps names to modules. Raises `AttributeError`."""
    home = homes.get(name)
    if home is None:
        raise AttributeError(f"module {package!r} has no attribute {name!r}")
    module = f"{package}.{home}"
    __import__(module)
    for one in (home, name):  # the import has put the module under its own name, which may be that of a value
        if homes.get(one) == home:
            setattr(sys.modules[package], one, getattr(sys.modules[module], one))
    return getattr(sys.modules[package], name)

"""The front doors of packages: public names, each loaded when it is first used (PEP 562).

Owns: that loading. Must never: import anything, for every start passes through here.
"""

TYPE_CHECKING = False  # type checkers take it for true; to import it from typing would cost every start
if TYPE_CHECKING:
    from collections.abc import Callable


def lazily(package: str, homes: dict[str, str]) -> "Callable[[str], object]":
    """The `__getattr__` of a package whose public names live in modules of it: `homes` maps names to modules, relative to it."""

    def load(name: str) -> object:
        home = homes.get(name)
        if home is None:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        import sys  # noqa: PLC0415  # only the first use of a name pays for it
        from importlib import import_module  # noqa: PLC0415

        value: object = getattr(import_module(f"{package}.{home}"), name)
        setattr(sys.modules[package], name, value)
        return value

    return load

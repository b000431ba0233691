"""YAML, whose package comes with the extra `code`.

Owns: reading and writing it safely. Must never: make an object of another type than JSON has.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any

from adjourn.errors import InvalidError


def load_yaml(text: bytes | str) -> Any:
    """The value of a YAML document. Raises `InvalidError`."""
    yaml = _package()
    try:
        return yaml.safe_load(text)
    except (yaml.YAMLError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidError(f"not YAML: {error}", "fix the syntax") from error


def dump_yaml(value: Any) -> str:
    """A value as a YAML document, its keys in their order."""
    text: str = _package().safe_dump(value, allow_unicode=True, sort_keys=False)
    return text


def _package() -> ModuleType:
    import yaml  # noqa: PLC0415  # an extra

    return yaml

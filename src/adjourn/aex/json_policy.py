"""Policies in JSON: `extends`, `allow`, `deny`, `require_confirmation`, `budget`, read strictly with every base they name.

    composition   bases first; lists are united, the smaller budget counts; `allow` of a base stays, so a policy may widen it
    entries       the patterns of the language, scopes (`tool:glob`) included; no entry in `allow`: nothing is permitted
    `extends`     another policy, inline, or its file, relative to the file that names it

Must never: continue with a policy of which a part could not be read, follow a path that a file of the workspace names
out of it.

`python -m adjourn.aex.json_policy` prints spec/json-policy.schema.json.
"""

from __future__ import annotations

import os.path
import re
from collections.abc import Iterator
from typing import Annotated, Any, Final

import msgspec

from adjourn.aex.diagnostics import WHOLE, finding, quoted
from adjourn.aex.expr import MAX_BUDGET
from adjourn.aex.files import load
from adjourn.aex.match import never_matches
from adjourn.aex.policy import Policy
from adjourn.aex.rule import Rule
from adjourn.aex.suggestions import VERSION_1_BUDGETS, unknown_budget
from adjourn.findings import Finding, Span
from adjourn.host.workspace import relative_inside
from adjourn.text.near_words import nearest

MAX_CHARACTERS: Final = 1_000_000
MAX_POLICIES: Final = 16
"""A policy and its bases, inline ones included."""

_CALLS_ONLY = 'a JSON policy counts calls only: "budget": {"calls": 100}'
_TOO_MANY = f"more than {MAX_POLICIES} policies extend one another"
_Meta = msgspec.Meta
_Patterns = Annotated[
    list[Annotated[str, _Meta(min_length=1)]],
    _Meta(description="Patterns: `*`, `prefix.*` or a tool's name, optionally with `:` and a scope."),
]
_Number = Annotated[int, _Meta(ge=0, le=MAX_BUDGET)] | Annotated[float, _Meta(ge=0, le=float(MAX_BUDGET))]
_Path = tuple[str | int, ...]
_TOKEN = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"|[\[\]{},]')
_UNKNOWN = re.compile(r"Object contains unknown field `(.*)`", re.DOTALL)
_EXPECTED = re.compile(r"Expected `([^`]*)`, got `([^`]*)`")
_KINDS = {"array": "a list", "object": "an object", "str": "a text", "int": "a number", "float": "a number", "int | float": "a number",
          "bool": "true or false", "object | str": "a text or an object", "str | object": "a text or an object"}  # fmt: skip
_EXAMPLES = {
    "$.allow": 'write a list of texts: "allow": ["fs.read"]',
    "$.deny": 'write a list of texts: "deny": ["fs.delete"]',
    "$.require_confirmation": 'write a list of texts: "require_confirmation": ["fs.write"]',
    "$.budget": 'write a number: "budget": {"calls": 100}',
    "$.extends": 'write a path: "extends": "base.json"',
}
_SYNONYMS = {
    "permit": "allow", "allowed": "allow", "tools": "allow", "use": "allow", "permissions": "allow", "block": "deny", "forbid": "deny",
    "disallow": "deny", "denied": "deny", "confirm": "require_confirmation", "ask": "require_confirmation",
    "require_approval": "require_confirmation", "approval": "require_confirmation", "base": "extends", "include": "extends",
    "limits": "budget", "max_calls": "budget",
}  # fmt: skip
"""Words of other tools, and the members of the same meaning."""
_BYTE = re.compile(r"\(byte (\d+)\)")


class JsonPolicy(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """One JSON policy as written."""

    extends: Annotated[
        Annotated[str, _Meta(min_length=1)] | JsonPolicy | msgspec.UnsetType,
        _Meta(description="The base: a policy, or the path of one, relative to this file."),
    ] = msgspec.UNSET
    allow: _Patterns = []
    deny: _Patterns = []
    require_confirmation: _Patterns = []
    budget: Annotated[dict[str, _Number], _Meta(description="`calls`: how many calls a task has.")] = {}


class JsonPolicyReading(msgspec.Struct, frozen=True, kw_only=True):
    """The result of reading a file. `text` says all of it: the file's text, or, where it names files, one with them inside.

    `texts` are those of the files, by the names that the findings use.
    """

    policy: Policy
    text: str
    texts: dict[str, str]
    findings: list[Finding]


class _Layer(msgspec.Struct, frozen=True, kw_only=True):
    """One policy of the chain; `places` are those of its file, under `prefix` its own."""

    policy: JsonPolicy
    source: str
    places: dict[_Path, Span]
    prefix: _Path

    def place(self, *path: str | int) -> Span:
        return self.places.get(self.prefix + path, WHOLE)

    def entries(self, key: str) -> Iterator[tuple[str, Span]]:
        for number, pattern in enumerate(getattr(self.policy, key)):
            yield pattern, self.place(key, number)


def read_json_policy(path: str, root: str, source: str = "") -> JsonPolicyReading:
    """The permissions of a JSON policy and its bases, and every finding. With an error among them: permit nothing.

    `root` is the workspace. Rules and findings name the file as `source`, or as its path.
    """
    chain = _Chain(os.path.abspath(root))
    chain.follow(path, source or path)
    layers, findings = chain.layers, chain.findings
    if not findings:
        findings += _examined(layers)
    if any(found.severity == "error" for found in findings):
        return JsonPolicyReading(policy=Policy(), text="", texts=chain.texts, findings=findings)
    text = _text(layers) if len(chain.texts) > 1 else "".join(chain.texts.values())
    return JsonPolicyReading(policy=_composed(layers), text=text, texts=chain.texts, findings=findings)


def schema() -> dict[str, Any]:
    """The JSON Schema of the form, made from the types."""
    schema = msgspec.json.schema(JsonPolicy)
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "JSON policy",
        "description": "What an agent may do. Made by `python -m adjourn.aex.json_policy`; do not edit.",
        **schema,
    }


class _Chain:
    """The policies from a file to its last base, the file's own first, and the findings on the way."""

    def __init__(self, root: str) -> None:
        self.root = root
        self.layers: list[_Layer] = []
        self.texts: dict[str, str] = {}
        self.findings: list[Finding] = []
        self._visited: set[str] = set()

    def follow(self, path: str, source: str) -> None:
        """Read a file and every base. Stops at the first error."""
        path = os.path.abspath(path)
        while path:
            base = self._file(path, source)
            if not base:
                return
            path = _beside(base, path, self.root)
            if not path:
                place = self.layers[-1].place("extends")
                self._stop("AEX161", f"{quoted(base)} is not a file inside the workspace", source, place)
            source = os.path.normpath(os.path.join(os.path.dirname(source), base))

    def _file(self, path: str, source: str) -> str:
        """Read the policies of one file; returns the file that the last of them extends, if any."""
        real = os.path.realpath(path)
        if real in self._visited:
            return self._stop("AEX161", f"{quoted(source)} extends itself", source)
        self._visited.add(real)
        text, unreadable = load(path, source=source, root=self.root)
        if text is None:
            self.findings += unreadable
            return ""
        self.texts[source] = text
        policy, places, findings = _parsed(text, source)
        self.findings += findings
        prefix: _Path = ()
        base: str | JsonPolicy | msgspec.UnsetType | None = policy
        while isinstance(base, JsonPolicy):
            self.layers.append(_Layer(policy=base, source=source, places=places, prefix=prefix))
            prefix, base = (*prefix, "extends"), base.extends
        if len(self.layers) > MAX_POLICIES:
            return self._stop("AEX161", _TOO_MANY, source)
        return base if isinstance(base, str) else ""

    def _stop(self, code: str, message: str, source: str, place: Span = WHOLE) -> str:
        self.findings.append(finding(code, message, place, source=source))
        return ""


def _parsed(text: str, source: str) -> tuple[JsonPolicy | None, dict[_Path, Span], list[Finding]]:
    """The policy of a text and the positions of its members; else None and the finding."""
    if len(text) > MAX_CHARACTERS:
        message = f"the file has more than {MAX_CHARACTERS:,} characters"
        return None, {}, [finding("AEX160", message, source=source)]
    try:
        policy = msgspec.json.decode(text, type=JsonPolicy)
    except (msgspec.DecodeError, RecursionError) as error:
        message, remedy = _explained(str(error))
        return None, {}, [finding("AEX160", message, _where(error, text), source=source, help=remedy)]
    if _depth(policy) > MAX_POLICIES:
        return None, {}, [finding("AEX161", _TOO_MANY, source=source)]
    places: dict[_Path, Span] = {}
    for path, place in _places(text):
        if path in places:
            message = f"member {quoted(str(path[-1]))} is given twice"
            return None, {}, [finding("AEX160", message, place, source=source, help="keep one of them")]
        places[path] = place
    return policy, places, []


def _explained(message: str) -> tuple[str, str]:
    """What a decoder's message says, in the words of the form, and the remedy ("": that of the diagnostic)."""
    body, _, place = message.partition(" - at `")
    place = place.removesuffix("`")
    if field := _UNKNOWN.fullmatch(body):
        near = nearest(field[1], JsonPolicy.__struct_fields__, _SYNONYMS)
        at = f" at `{place}`" if place else ""
        return f"unknown member {quoted(field[1])}{at}", f"did you mean `{near}`?" if near else ""
    if kinds := _EXPECTED.fullmatch(body):
        wanted, got = (_KINDS.get(kind, kind) for kind in kinds.groups())
        return f"`{place or '$'}` is {got}, not {wanted}", _EXAMPLES.get(place.partition("[")[0], "")
    if body.startswith("JSON is malformed"):
        return _BYTE.sub(
            "", body
        ).rstrip(), "correct the JSON there: double quotes, no comments, no comma after the last entry"
    return message, ""


def _depth(policy: JsonPolicy) -> int:
    """The depth of nested policies, the outermost included."""
    depth = 1
    while isinstance(policy.extends, JsonPolicy):
        policy = policy.extends
        depth += 1
    return depth


def _where(error: Exception, text: str) -> Span:
    """The position in a message about malformed JSON."""
    byte = _BYTE.search(str(error))
    if byte is None:
        return WHOLE
    before = text.encode()[: int(byte[1])].decode(errors="replace")
    return Span(before.count("\n") + 1, len(before) - before.rfind("\n"), 1)


def _places(text: str) -> Iterator[tuple[_Path, Span]]:
    """The position of each member's name and of each text in an array. `text` is JSON, not deeper than its types allow."""
    path: list[str | int] = []
    before = ""
    line, line_start, start = 1, 0, 0
    for token in _TOKEN.finditer(text):
        word = token[0]
        if word in ("{", "["):
            path.append("" if word == "{" else 0)
        elif word in ("}", "]"):
            path.pop()
        elif word == ",":
            last = path[-1]
            path[-1] = last + 1 if isinstance(last, int) else last
        elif isinstance(path[-1], int) or before in ("{", ","):
            if isinstance(path[-1], str):
                path[-1] = msgspec.json.decode(word, type=str)
            line += text.count("\n", start, token.start())
            line_start = max(line_start, text.rfind("\n", start, token.start()) + 1)
            start = token.start()
            yield tuple(path), Span(line, start - line_start + 1, len(word))
        before = word


def _beside(base: str, path: str, root: str) -> str:
    """The file that `base` names in the file `path`; "" for one that it may not name.

    A file of the workspace names others of it. One elsewhere, which a person chose, names what is in its folder by a
    relative path, and anything by an absolute one.
    """
    if "\0" in base:
        return ""
    folder = os.path.dirname(path)
    named = os.path.normpath(os.path.join(folder, base))
    if relative_inside(path, root):
        return named if relative_inside(named, root) else ""
    return named if os.path.isabs(base) or relative_inside(named, folder) else ""


def _text(layers: list[_Layer]) -> str:
    """One JSON text that says what the files say together."""
    base: dict[str, Any] = {}
    for layer in reversed(layers):
        own: dict[str, Any] = msgspec.to_builtins(msgspec.structs.replace(layer.policy, extends=msgspec.UNSET))
        base = own | ({"extends": base} if layer is not layers[-1] else {})
    return msgspec.json.format(msgspec.json.encode(base).decode(), indent=2) + "\n"


def _examined(layers: list[_Layer]) -> Iterator[Finding]:
    for layer in layers:
        for key in ("allow", "deny", "require_confirmation"):
            for pattern, place in layer.entries(key):
                if reason := never_matches(pattern):
                    message = f"pattern {quoted(pattern)} can never match: {reason}"
                    yield finding("AEX041", message, place, source=layer.source)
        for name in layer.policy.budget:
            if name != "calls":
                message = f"budget {quoted(name)} is not counted"
                severity, remedy = unknown_budget(name, ("calls",))
                remedy = "" if name in VERSION_1_BUDGETS else remedy
                place = layer.place("budget", name)
                yield finding(
                    "AEX046", message, place, source=layer.source, severity=severity, help=remedy or _CALLS_ONLY
                )
    if not any(layer.policy.allow for layer in layers):
        yield finding("AEX162", "`allow` has no entry: nothing is permitted", source=layers[0].source)


def _composed(layers: list[_Layer]) -> Policy:
    budget: int | None = None
    budget_rule: Rule | None = None
    for layer in reversed(layers):
        calls = layer.policy.budget.get("calls")
        if calls is not None and (budget is None or int(calls) < budget):
            budget = int(calls)
            line = layer.place("budget", "calls").line
            budget_rule = Rule("budget", f"calls={budget}", layer.source, line, amount=budget)
    return Policy(
        allow=_united("allow", "allow", layers),
        deny=_united("deny", "deny", layers),
        confirm=_united("confirm", "require_confirmation", layers),
        budget=budget,
        budget_rule=budget_rule,
    )


def _united(kind: str, key: str, layers: list[_Layer]) -> list[Rule]:
    """The rules of every layer, bases first, each pattern once."""
    first: dict[str, Rule] = {}
    for layer in reversed(layers):
        for pattern, place in layer.entries(key):
            first.setdefault(pattern, Rule(kind, pattern, layer.source, place.line))
    return list(first.values())


if __name__ == "__main__":
    print(msgspec.json.format(msgspec.json.encode(schema()), indent=2).decode())

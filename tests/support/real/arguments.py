"""Small values that a JSON schema accepts."""

from __future__ import annotations

from typing import Any

Schema = dict[str, Any]
TEXTS = {
    "uri": "http://127.0.0.1:9/",
    "date": "2026-01-02",
    "date-time": "2026-01-02T03:04:05Z",
    "email": "someone@example.org",
}


def minimal(schema: Schema, root: Schema | None = None) -> Any:
    """The smallest value: required members only, the first choice, the lowest number."""
    root = root if root is not None else schema
    if "$ref" in schema:
        return minimal(_target(root, schema["$ref"]), root)
    for choices in ("const", "enum"):
        if choices in schema:
            return schema["const"] if choices == "const" else schema["enum"][0]
    if "default" in schema:
        return schema["default"]
    for union in ("anyOf", "oneOf", "allOf"):
        if schema.get(union):
            return minimal(schema[union][0], root)
    kind = schema.get("type", "object" if "properties" in schema else "null")
    return _of_kind(kind[0] if isinstance(kind, list) else kind, schema, root)


def _of_kind(kind: str, schema: Schema, root: Schema) -> Any:
    if kind == "object":
        members = schema.get("properties", {})
        return {name: minimal(members.get(name, {}), root) for name in schema.get("required", [])}
    if kind == "array":
        return [minimal(schema.get("items", {}), root) for _ in range(schema.get("minItems", 0))]
    if kind == "string":
        text = TEXTS.get(schema.get("format", ""), "a")
        return text + "a" * (schema.get("minLength", 0) - len(text))
    if kind in ("integer", "number"):
        low = schema.get("minimum", schema.get("exclusiveMinimum", 0) + 1)
        return min(low, schema["maximum"]) if "maximum" in schema else low
    return False if kind == "boolean" else None


def _target(root: Schema, reference: str) -> Schema:
    found: Any = root
    for step in reference.removeprefix("#/").split("/"):
        found = found[step]
    assert isinstance(found, dict)
    return found

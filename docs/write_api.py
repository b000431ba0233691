"""Write the reference of the Python API from the docstrings: `python docs/write_api.py` prints it, `docs/build_site.py` puts it on the site."""

from __future__ import annotations

import importlib
import inspect
import re
import typing
from collections.abc import Iterator

import msgspec

DOORS = ("adjourn", "adjourn.store", "adjourn.aex", "adjourn.testing", "adjourn.langgraph")
WIDTH = 80
_EXAMPLE = re.compile(r"^(>>> .*?)(?:\n\n|\Z)", re.DOTALL | re.MULTILINE)


def reference() -> str:
    """The page: each public name, its call, what its docstring says, and the methods of classes."""
    parts = [
        "# Python API, by name",
        "Each public name, with its signature. The [overview](python-api.md) says which to use for what.",
    ]
    for door in DOORS:
        module = importlib.import_module(door)
        parts += [f"## `{door}`", *(part for name in module.__all__ for part in _entry(name, getattr(module, name)))]
    return "\n\n".join(parts) + "\n"


def _entry(name: str, value: object) -> Iterator[str]:
    yield f"### `{name}`"
    if not (inspect.isclass(value) or inspect.isroutine(value)):
        yield f"`{_Written(value) if typing.get_origin(value) is not None else type(value).__name__}`"
        return
    yield f"```python\n{_wrapped(f'{name}{_call(value)}')}\n```"
    yield from _prose(value)
    if inspect.isclass(value):
        methods = "\n".join(_methods(value))
        if methods:
            yield methods


def _wrapped(call: str) -> str:
    """A call that is too long for a line, with a line for each parameter."""
    if len(call) <= WIDTH:
        return call
    name, _, inside = call.partition("(")
    inside, end, returned = inside.rpartition(")")
    lines, level = [""], 0
    for character in inside:
        level += (character in "[(") - (character in "])")
        if character == "," and not level:
            lines.append("")
        else:
            lines[-1] += character
    return "\n".join([f"{name}(", *(f"    {line.strip()}," for line in lines), f"{end}{returned}"])


def _prose(value: object) -> Iterator[str]:
    text = inspect.getdoc(value) or ""
    yield (
        _EXAMPLE.sub(lambda example: f"```pycon\n{example[1].rstrip()}\n```\n\n", text).strip().replace("\n    ", "\n")
    )


def _methods(kind: type) -> Iterator[str]:
    for name, member in inspect.getmembers_static(kind):
        owner = next(base for base in kind.__mro__ if name in vars(base) or base is object)
        if name.startswith("_") or not owner.__module__.startswith("adjourn"):
            continue
        function = member.fget if isinstance(member, property) else getattr(member, "__func__", member)
        if inspect.isfunction(function) and function.__doc__:
            call = "" if isinstance(member, property) else _call(function)
            first = re.split(r"(?<=[.]) ", " ".join(inspect.getdoc(function).split("\n")))[0]  # type: ignore[union-attr]
            yield f"- `{name}{call}`: {first}"


def _call(value: object) -> str:
    """How a function or class is called; "" where that is not known."""
    if inspect.isclass(value) and issubclass(value, msgspec.Struct):
        fields = msgspec.structs.fields(value)
        return f"(*, {', '.join(f'{field.name}: {_type(value, field.name)}' + ' = …' * (not field.required) for field in fields)})"
    try:
        call = inspect.signature(value)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return ""
    parameters = [
        parameter.replace(
            annotation=_Written(parameter.annotation)
            if parameter.annotation is not parameter.empty
            else parameter.empty
        )
        for parameter in call.parameters.values()
        if parameter.name != "self"
    ]
    returned = call.return_annotation if inspect.isclass(value) is False else call.empty
    shown = call.replace(
        parameters=parameters, return_annotation=call.empty if returned is call.empty else _Written(returned)
    )
    return re.sub(r"<function (?:\w+\.)*<?(\w+)>? at 0x[0-9a-f]+>", r"\1", str(shown))


def _type(kind: type, member: str) -> str:
    """The type of a member as it is written in the source."""
    owner = next(base for base in kind.__mro__ if member in vars(base).get("__annotations__", {}))
    text = str(_Written(owner.__annotations__[member]))
    return re.sub(r"Annotated\[(.*), Meta\(.*?\)\]", r"\1", text)


class _Written:
    """A type that is shown as in the source."""

    def __init__(self, annotation: object) -> None:
        self._text = annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)

    def __repr__(self) -> str:
        return re.sub(r"\b(?:typing|collections\.abc|adjourn[\w.]*)\.", "", self._text)


if __name__ == "__main__":
    print(reference(), end="")

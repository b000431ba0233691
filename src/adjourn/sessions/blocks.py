"""Messages with a list of blocks (text, tool_use, tool_result), a form that Amp, Cline and Cursor share."""

from __future__ import annotations

from typing import Any

from adjourn.sessions.reader import kind_of, texts_in, what_of
from adjourn.sessions.story import SessionCall, StoryBuilder, member, objects, text_of


class Blocks:
    """Translates blocks of one session, in the order of the file."""

    def __init__(self, builder: StoryBuilder) -> None:
        self._builder = builder
        self._todos: dict[str, tuple[object, object]] = {}

    def call(self, block: dict[str, Any], at: object = "", id_: object = "") -> SessionCall:
        """A block `tool_use`; `id_` stands for its id where the client writes none."""
        name, arguments = text_of(block.get("name"), 100), block.get("input")
        kind = kind_of(name)
        what, path = what_of(arguments)
        commands = member(arguments, "commands")
        if isinstance(commands, list):
            what = "; ".join(text_of(item) or text_of(member(item, "command")) for item in commands[:100])
        call = self._builder.call(block.get("id") or id_, name, kind, what, at, path=path if kind == "edit" else "")
        if kind == "list":
            self._listed(arguments, at)
        return call

    def _listed(self, arguments: object, at: object) -> None:
        todos = objects(member(arguments, "todos"))
        if todos and member(arguments, "merge") is not True:
            self._todos.clear()
        for number, todo in enumerate(todos):
            id_ = text_of(todo.get("id"), 100) or f"{number}"
            text, state = self._todos.get(id_, ("", "pending"))
            if id_ in self._todos or len(self._todos) < 100:
                self._todos[id_] = (todo.get("content") or text, todo.get("status") or state)
        if todos:
            self._builder.replan(self._todos.values())
        asked = [
            member(arguments, "question"),
            *(item.get("question") for item in objects(member(arguments, "questions"))),
        ]
        for question in asked:
            self._builder.say(text_of(question), at)


def result_text(value: object) -> str:
    """The text of a result: a string, blocks of text, or the `output` of an object."""
    if isinstance(value, dict):
        value = value.get("output", value.get("content"))
    return texts_in(value, "text")[: 64 * 1024]

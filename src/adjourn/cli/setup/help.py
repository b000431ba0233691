"""`adjourn help`.

Owns: finding what a word names, a command or a topic. Must never: say of a command what its own help does not.
"""

from __future__ import annotations

import click

from adjourn.cli.setup.topics import TOPICS
from adjourn.cli.shared.commands import COMMANDS
from adjourn.cli.shared.context import example
from adjourn.cli.shared.output import say
from adjourn.cli.shared.pager import paged
from adjourn.errors import NotFoundError
from adjourn.text import nearest


@click.command("help", epilog=example("adjourn help approvals", "adjourn help record show"))
@click.argument("words", nargs=-1, metavar="[TOPIC | COMMAND...]")
@click.pass_context
def help_(ctx: click.Context, words: tuple[str, ...]) -> None:
    """Explain a topic, or show the help of a command; without a word, list both.

    Topics: policy, budgets, approvals, pin, checkpoints, stores, notifications, exit-codes, environment.
    """
    parent = ctx.parent
    assert parent is not None  # it is a command of the program
    if not words:
        text = f"{parent.get_help()}\n\nTopics (adjourn help TOPIC):\n"
        text += "\n".join(f"  {name:<14}{topic.title}" for name, topic in TOPICS.items())
    elif len(words) == 1 and (topic := TOPICS.get(words[0].lower())):
        text = f"{topic.title}\n\n{topic.text}"
        if words[0].lower() in COMMANDS:
            text += f"\n\nThe command of this name: adjourn {words[0].lower()} --help"
    else:
        text = _of_command(parent, words)
    with paged():
        say(text)


def _of_command(context: click.Context, words: tuple[str, ...]) -> str:
    for number, word in enumerate(words):
        command = context.command
        found = command.get_command(context, word) if isinstance(command, click.Group) else None
        if found is None:
            known = list(TOPICS) if not number else []
            known += command.list_commands(context) if isinstance(command, click.Group) else []
            near = nearest(word, known)
            remedy = (
                f"did you mean: adjourn help {' '.join([*words[:number], near])}"
                if near
                else "list them: adjourn help"
            )
            raise NotFoundError(f"no topic or command is named {' '.join(words)!r}", remedy)
        context = click.Context(found, info_name=word, parent=context)
    return context.get_help()

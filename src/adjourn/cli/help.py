"""`adjourn help`: a topic, or the help of a command. `adjourn completion`: the framework's scripts for shells."""

from __future__ import annotations

import sys
from textwrap import fill
from typing import Final, NamedTuple, cast

import click
from click.shell_completion import get_completion_class

from adjourn.cli.app import every_command, write_commands
from adjourn.cli.context import example, flag
from adjourn.cli.output import say
from adjourn.cli.terminal import WIDTH, paged, paint
from adjourn.errors import NotFoundError
from adjourn.text.near_words import nearest


@click.command("help", epilog=example("adjourn help approvals", "adjourn help record show"))
@click.argument("words", nargs=-1, metavar="[TOPIC | COMMAND...]")
@flag("--all", "List every command.", dest="every")
@click.pass_context
def help_(ctx: click.Context, words: tuple[str, ...], *, every: bool) -> None:
    """Explain a topic, or show the help of a command; without a word, list the topics.

    Topics: policy, budgets, approvals, pin, checkpoints, stores, notifications, exit-codes, environment.
    """
    parent = ctx.parent
    assert parent is not None  # it is a command of the program
    if every:
        formatter = ctx.make_formatter()
        write_commands(formatter, every_command())
        text = formatter.getvalue().strip("\n")
    elif not words:
        formatter = ctx.make_formatter()
        with formatter.section("Topics (adjourn help TOPIC)"):
            formatter.write_dl([(name, topic.title) for name, topic in TOPICS.items()])
        text = f"{parent.get_help()}\n\n{formatter.getvalue().rstrip()}"
    elif len(words) == 1 and (topic := TOPICS.get(words[0].lower())):
        text = f"{paint(topic.title, 'bold', sys.stdout)}\n\n{topic.text}"
        if cast("click.Group", parent.command).get_command(parent, words[0].lower()):
            text += f"\n\nThe command of this name: adjourn {words[0].lower()} --help"
    else:
        text = _of_command(parent, words)
    with paged():
        print(text)  # ours, with styles that `say` would escape


def _of_command(context: click.Context, words: tuple[str, ...]) -> str:
    for number, word in enumerate(words):
        command = context.command
        below = command.get_command(context, word) if isinstance(command, click.Group) else None
        if below is None:
            names = list(TOPICS) if not number else []
            names += command.list_commands(context) if isinstance(command, click.Group) else []
            near = nearest(word, names)
            remedy = (
                f"did you mean: adjourn help {' '.join([*words[:number], near])}" if near else "list them: adjourn help"
            )
            raise NotFoundError(f"no topic or command is named {' '.join(words)!r}", remedy)
        context = click.Context(below, info_name=word, parent=context)
    return context.get_help()


# --- `adjourn completion`


@click.command(
    epilog=example(
        'eval "$(adjourn completion bash)"',
        "adjourn completion zsh > ~/.zfunc/_adjourn",
        "adjourn completion fish > ~/.config/fish/completions/adjourn.fish",
    )
)
@click.argument("shell", type=click.Choice(("bash", "zsh", "fish")))
@click.pass_context
def completion(ctx: click.Context, shell: str) -> None:
    """Print the script by which SHELL (bash, zsh or fish) completes commands, options, files, tasks and checkpoints.

    For bash, add the line of the example to ~/.bashrc. zsh reads the file from a folder of its $fpath.
    """
    kind = get_completion_class(shell)
    assert kind is not None  # one of the choices
    assert ctx.parent is not None  # a command of the program
    script = kind(ctx.parent.command, {}, "adjourn", "_ADJOURN_COMPLETE")
    # `source()` would run the bash of this PATH for its version
    say((script.source_template % script.source_vars()).rstrip("\n"))


# --- the topics of `adjourn help TOPIC`

EXIT_CODES: Final = {
    "0": "done",
    "1": "a check failed, or the command could not do its work",
    "2": "wrong usage",
    "3": "refused by a policy, by the holder of the task, or because a signer is not trusted",
    "4-7": "`resume --verdict`: nothing to do, wait, settle a call first, ask a person first",
    "130": "interrupted by Ctrl-C",
    "141": "the output was closed before its end (`adjourn log | head -1`)",
}
ERROR_CODES: Final = {
    "failed": 1, "usage": 2, "invalid": 1, "integrity": 1, "not-found": 1, "unknown-record": 1, "refused": 3, "held": 3, "store": 1,
    "conflict": 1, "schema": 1, "system": 1, "interrupted": 130,
}  # fmt: skip
"""By the `code` of an error in JSON, the exit code."""
ENVIRONMENT: Final = {
    "ADJOURN_STORE": "the store, if `--store` is not given",
    "ADJOURN_TASK": "the task, if none is given (`proxy`, `status`, `log`)",
    "ADJOURN_CONFIG": "the folder of configuration and keys",
    "ADJOURN_PAGER, PAGER": "the pager on a terminal (default: less; `cat`: none)",
    "NO_COLOR": "plain text without colour and boxes, also on a terminal",
    "FORCE_COLOR": "colour and boxes, also in a pipe (CI logs); NO_COLOR is stronger",
}


class Topic(NamedTuple):
    """A topic: what it is about in a few words, and its text."""

    title: str
    text: str


def _rows(rows: dict[str, str]) -> str:
    size = max(map(len, rows)) + 4
    return "\n".join(
        fill(meaning, WIDTH, initial_indent=f"  {name:<{size - 2}}", subsequent_indent=" " * size)
        for name, meaning in rows.items()
    )


TOPICS: Final = {
    "policy": Topic("What an agent may do", """\
A policy is the file .aex/policy.aex. What no line allows is refused.

  policy team v1

  goal "Edit the sources, leave the rest alone."

  allow file.read, git.status              these tools
  allow file.write:src/**                  below one folder
  allow shell.exec where cmd matches "pytest*"
  deny git.push                            stronger than allow
  confirm before file.write:src/pay/**     ask a person first
  once mail.send by id                     at most once for each id
  limit shell.exec 10 per minute
  budget calls=100

A tool is named SERVER.TOOL, or TOOL if only one server has it. An edited
policy takes effect at the next call. A contract (a task's own file) can only
narrow the policy.

Write one:     adjourn init --policy
Check it:      adjourn policy check
What it means: adjourn policy explain TOOL"""),
    "budgets": Topic("How much an agent may do", """\
A budget belongs to a task, over all its sessions, clients and restarts.

  budget calls=100, minutes=90, tokens=2000000, usd=5
  limit notes.add 2 per minute

calls    forwarded calls, including those that failed
minutes  working time; at most five minutes of each pause count
tokens,  what callers report; an MCP client cannot report them
usd
legs     how often one call may ask the client for input (default 8)

The first budget that is spent refuses every further call. At 75 % and 90 %
the agent gets a notice, and a checkpoint is saved. A person can raise a budget
in the policy; that takes effect at the next call.

What is spent: adjourn status"""),
    "approvals": Topic("Calls that wait for a person", """\
`confirm before TOOL` makes a call wait for a person. A client with dialogs
shows the question. Without dialogs, or from another window:

  adjourn inbox           everything that waits, over all tasks
  adjourn approve ID      approve one call
  adjourn deny ID         deny it, or revoke an approval not used yet

An approval counts once, for exactly this request, until the time shown (15
minutes after the question). Silence is a refusal, unless the policy says
`else allow`.

A call that was sent and got no answer is in doubt. It is not repeated until
a person records what happened:

  adjourn settle CALL --done | --not-done"""),
    "pin": Topic("A PIN for what speaks for you", """\
An agent that may run a shell can open a terminal and answer for
you. A PIN is what it does not know:

  adjourn keys pin            set or change it; asked for at the terminal
  adjourn keys pin --remove   remove it, with the PIN

Every answer and every command that speaks for you then asks for it, whatever
the settings say, also in the terminal of an IDE. The inbox and the page of
`adjourn ui` ask again after 5 minutes. After three wrong PINs you wait.

Type it only into a command that you started yourself. It does not stop a
program of your account that writes the store, or reads what you type.

If its file is gone, restore it from a backup: keys/pin in
~/.config/adjourn. If you forgot the PIN, remove by hand what is left of it:

  rm ~/.config/adjourn/keys/pin ~/.config/adjourn/heads/pin
  sqlite3 .aex/adjourn.db "DELETE FROM ref WHERE name LIKE 'pin/%'"

The last one in each workspace where you used it. No command does this, since an
agent could run it."""),
    "checkpoints": Topic("How work continues in another session", """\
A checkpoint is a named, signed position in the history of a task, with a page
that describes the state of the work. Agents save one with aex.checkpoint;
adjourn saves one at the end of a session, before destructive calls, and when
budgets run low.

  adjourn checkpoint list         list them
  adjourn checkpoint show NAME    show one in full
  adjourn resume NAME             show what the next session learns
  adjourn rollback NAME           restore page and files (preview first)
  adjourn checkpoint export NAME  write a folder that can be verified anywhere

To continue, start any MCP client behind the proxy and let it call aex.resume
with the name. The spent budget stays spent."""),
    "stores": Topic("Where the history is kept", """\
The store holds the history of all tasks of a workspace. The default
is .aex/adjourn.db (SQLite).

  --store URL             of a command, or $ADJOURN_STORE
  sqlite:PATH             a file
  postgresql://HOST/DB    several machines (pip install 'adjourn[postgres]')

Every event starts with the hash of the one before it:

  adjourn verify          check the whole history and every signature
  adjourn store gc        delete data that nothing refers to
  adjourn store prune     delete old checkpoints (preview first)

Reading commands never create a store. Keys are in $ADJOURN_CONFIG, else in
~/.config/adjourn, and never in a workspace."""),
    "notifications": Topic("How to be notified when something waits", """\
`adjourn notify` reads notify.toml in $ADJOURN_CONFIG, else in
~/.config/adjourn; no file of a workspace can change it.

  kinds = ["approval", "question"]      # all, if left out; also in-doubt,
                                        # resume-point, decision, blocker
  desktop = true                        # notify-send, or macOS

  [[command]]                           # JSON on stdin; no shell
  run = ["ntfy", "publish", "my-topic", "{text}"]

  [[webhook]]                           # https, or http on this machine
  url = "https://hooks.example.com/adjourn"
  secret = "whsec_BASE64"               # signs: standardwebhooks.com
  format = "standard"                   # or slack, discord
  details = true                        # with arguments; off by default

  adjourn notify --test   send each target a test
  adjourn notify          notify until Ctrl-C
  adjourn notify --once   look once, for cron

A target that fails is tried again for a day, also after a restart."""),
    "exit-codes": Topic("What the exit codes mean", _rows(EXIT_CODES)),
    "environment": Topic("Variables that adjourn reads", _rows(ENVIRONMENT)),
}  # fmt: skip

"""`adjourn completion`: scripts by which a shell completes commands, options, and the names of tasks and checkpoints.

The scripts are static, made from the commands, so that a shell starts no program for a command or an option. For names it starts
`adjourn completion --names KIND`, which loads no framework.

Owns: those scripts. Must never: print a name that a shell would expand.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import click

from adjourn.cli.app import COMMANDS
from adjourn.cli.shared.context import example
from adjourn.cli.shared.start import KINDS, say_names

SHELLS = ("bash", "zsh", "fish")
_OF_ARGUMENT = {"task": "tasks", "checkpoint": "checkpoints"}
_CHECKPOINTS = frozenset(("show", "resume", "export"))
"""Commands whose argument NAME is a checkpoint's."""


@click.command(
    epilog=example(
        'eval "$(adjourn completion bash)"',
        "adjourn completion zsh > ~/.zfunc/_adjourn",
        "adjourn completion fish > ~/.config/fish/completions/adjourn.fish",
    )
)
@click.argument("shell", type=click.Choice(SHELLS), required=False)
@click.option("--names", type=click.Choice(KINDS), hidden=True, help="Print the names of this kind.")
def completion(shell: str | None, names: str | None) -> None:
    """Print the script by which SHELL (bash, zsh or fish) completes commands, options, tasks and checkpoints.

    For bash, add the line of the example to ~/.bashrc. zsh reads the file from a folder of its $fpath.
    """
    if names:
        say_names(names)
        return
    if shell is None:
        raise click.UsageError(f"no shell is named: {', '.join(SHELLS)}")
    print({"bash": _bash, "zsh": _zsh, "fish": _fish}[shell](), end="")


class Completed(NamedTuple):
    """What is completed after the words `path`: commands and options with their help, and names of a kind ("": files)."""

    path: str
    commands: dict[str, str]
    options: dict[str, str]
    names: str


def tree() -> Iterator[Completed]:
    """Everything that can be completed, the program itself first."""
    summaries = {name: entry.summary for name, entry in COMMANDS.items()}
    yield Completed(
        "", summaries, {"--help": "Show this message and exit.", "--version": "Print the version."}, ""
    )
    for name, entry in COMMANDS.items():
        yield from _below(entry.load(name), name)


def _below(command: click.Command, path: str) -> Iterator[Completed]:
    options = {
        flag: _first(option.help)
        for option in command.params
        if isinstance(option, click.Option) and not option.hidden
        for flag in option.opts
        if flag.startswith("--") or len(option.opts) == 1
    }
    arguments = [one.name or "" for one in command.params if isinstance(one, click.Argument)]
    first = arguments[0] if arguments else ""
    names = "checkpoints" if first == "name" and path in _CHECKPOINTS else _OF_ARGUMENT.get(first, "")
    subs = command.commands if isinstance(command, click.Group) else {}
    summaries = {name: _first(sub.help) for name, sub in sorted(subs.items())}
    yield Completed(path, summaries, options | {"--help": "Show this message and exit."}, names)
    for name, sub in sorted(subs.items()):
        yield from _below(sub, f"{path} {name}")


def _first(text: str | None) -> str:
    return " ".join((text or "").strip().split("\n\n")[0].split())[:100]


_BASH = """# Completes adjourn in bash.  eval "$(adjourn completion bash)"
_adjourn() {{
    local cur="${{COMP_WORDS[COMP_CWORD]}}" prev="${{COMP_WORDS[COMP_CWORD-1]}}" path="" word words="" options="" names="" i
    COMPREPLY=()
    for ((i = 1; i < COMP_CWORD; i++)); do
        word="${{COMP_WORDS[i]}}"
        if [[ $word == -- ]]; then compopt -o default; return; fi
        case "${{path:+$path }}$word" in
            {paths}) path="${{path:+$path }}$word" ;;
        esac
    done
    case "$path" in
{cases}
    esac
    case "$prev" in
        --task) options=""; words=""; names=tasks ;;
        -C) compopt -o dirnames; return ;;
        --store|--policy|--contract|--out) compopt -o default; return ;;
    esac
    if [[ $cur == -* ]]; then
        COMPREPLY=($(compgen -W "$options" -- "$cur"))
        return
    fi
    [[ -n $names ]] && words="$(adjourn completion --names "$names" 2>/dev/null)"
    COMPREPLY=($(compgen -W "$words" -- "$cur"))
    [[ -z $words ]] && compopt -o default
}}
complete -F _adjourn adjourn
"""


def _bash() -> str:
    found = list(tree())
    cases = [
        f'        "{one.path}") words="{" ".join(one.commands)}"; options="{" ".join(one.options)}"; names={one.names} ;;'
        for one in found
    ]
    return _BASH.format(paths="|".join(f'"{one.path}"' for one in found if one.path), cases="\n".join(cases))


_ZSH = """#compdef adjourn
# Completes adjourn in zsh.  adjourn completion zsh > a folder of $fpath/_adjourn
_adjourn() {{
    local line="" word
    local -a commands options names
    for word in "${{(@)words[2,CURRENT-1]}}"; do
        [[ $word == -- ]] && {{ _normal; return }}
        case "${{line:+$line }}$word" in
            {paths}) line="${{line:+$line }}$word" ;;
        esac
    done
    case "$line" in
{cases}
    esac
    [[ $words[CURRENT-1] == --task ]] && names=(tasks) commands=() options=()
    [[ $words[CURRENT-1] == -C ]] && {{ _files -/; return }}
    if [[ $PREFIX == -* ]]; then
        _describe -t options option options
    elif (( $#names )); then
        compadd -- ${{(f)"$(adjourn completion --names $names 2>/dev/null)"}}
    elif (( $#commands )); then
        _describe -t commands command commands
    else
        _files
    fi
}}
if [[ $funcstack[1] == _adjourn ]]; then _adjourn "$@"; else compdef _adjourn adjourn; fi
"""


def _zsh() -> str:
    def described(items: dict[str, str]) -> str:
        return " ".join(f"'{name}:{_quoted(text)}'" for name, text in items.items())

    found = list(tree())
    cases = [
        f"        ({one.path!r}) commands=({described(one.commands)}) options=({described(one.options)}) names=({one.names}) ;;"
        for one in found
    ]
    return _ZSH.format(paths="|".join(f"{one.path!r}" for one in found if one.path), cases="\n".join(cases))


def _fish() -> str:
    lines = [
        "# Completes adjourn in fish.  adjourn completion fish > ~/.config/fish/completions/adjourn.fish",
        "complete -c adjourn -f",
    ]
    for one in tree():
        first, _, second = one.path.partition(" ")
        seen = [f"__fish_seen_subcommand_from {word}" for word in (first, second) if word]
        where = "; and ".join(seen) or "__fish_use_subcommand"
        bare = (
            where
            if not one.path
            else f"{where}; and not __fish_seen_subcommand_from {' '.join(one.commands)}"
        )
        for name, text in one.commands.items():
            lines.append(f"complete -c adjourn -n '{bare}' -a {name} -d '{_quoted(text)}'")
        for flag, text in one.options.items():
            option = f"-l {flag[2:]}" if flag.startswith("--") else f"-s {flag[1:]}"
            lines.append(f"complete -c adjourn -n '{where}' {option} -d '{_quoted(text)}'")
        if one.names:
            lines.append(
                f"complete -c adjourn -n '{where}' -a '(adjourn completion --names {one.names} 2>/dev/null)'"
            )
        elif one.path and not one.commands:
            lines.append(f"complete -c adjourn -n '{where}' -F")
    return "\n".join(lines) + "\n"


def _quoted(text: str) -> str:
    """Help between single quotes, in any of the shells."""
    return text.replace("\\", "").replace("'", "'\\''").replace(":", " -")

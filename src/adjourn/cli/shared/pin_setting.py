"""Setting the PIN of this account in a dialog at the terminal, and proposing it where it matters.

Owns: these dialogs. Must never: take a PIN from elsewhere than the terminal.
"""

from __future__ import annotations

import sys

import click

from adjourn.aex import Policy
from adjourn.cli.shared.context import check_person
from adjourn.cli.shared.output import complain, safe, say, say_prose
from adjourn.clients import person
from adjourn.errors import AdjournError, InvalidError
from adjourn.host import pin, secret_prompt
from adjourn.policy import read_contract

_TRIES = 3
_SHELL = "shell.exec"


def set_pin(setting: pin.AccountPin, before: pin.PinState | None) -> None:
    """Ask for a new PIN twice, and set it in place of `before`. Raises `InvalidError` when no usable one is typed."""
    for number in range(_TRIES):
        fresh = secret_prompt.ask(f"New PIN (at least {pin.MIN_CHARACTERS} characters): ")
        try:
            if secret_prompt.ask("The same again: ") != fresh:
                raise InvalidError("the two are not the same", "type the new PIN twice")  # noqa: TRY301  # as for a PIN that is too short
            person.given_pin().remember(setting.set(fresh, expect=before))
        except InvalidError as error:
            if number == _TRIES - 1:
                raise
            secret_prompt.tell(safe(f"{error.message}; {error.remedy}"))
        else:
            return


def propose_pin(root: str, *, may_ask: bool) -> None:
    """Propose a PIN where the policy of a workspace lets a shell run unasked, and the account has none. Asks on a terminal, if it may."""
    try:
        policy = read_contract(root).policy
    except AdjournError:  # what is wrong with it is said elsewhere
        return
    try:
        setting = person.account_pin()
        if setting.active is not None or not lets_shell_run(policy):
            return
        say_prose(
            "This policy lets agents run a shell unasked. Such an agent can start a terminal of its own and answer for you. A PIN, which only you know, keeps it from that."
        )
        if not (may_ask and sys.stdin.isatty() and click.confirm("Set a PIN now?", default=False)):
            say("  set one later: adjourn keys pin")
            return
        check_person("keys pin", None, attended=True)
        set_pin(setting, setting.state())
        say("  PIN set; every answer that speaks for you now asks for it")
    except AdjournError as error:
        complain(safe(f"no PIN was set: {error.message}"), safe(error.remedy))


def lets_shell_run(policy: Policy) -> bool:
    """Whether some shell command runs without anybody being asked."""
    rules = policy.rules_of(_SHELL)
    is_stopped = any(guard is None for _, guard in (*rules.denied, *rules.asked))
    return policy.observe or (bool(rules.allowed) and not is_stopped)

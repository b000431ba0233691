"""Setting the PIN of this account in a dialog at the terminal.

Owns: that dialog. Must never: take a PIN from elsewhere.
"""

from __future__ import annotations

from adjourn.cli.shared.output import safe
from adjourn.clients.person import given_pin
from adjourn.errors import InvalidError
from adjourn.host.pin import MIN_CHARACTERS, AccountPin, PinState
from adjourn.host.secret_prompt import ask, tell

_TRIES = 3


def set_pin(setting: AccountPin, before: PinState | None) -> None:
    """Ask for a new PIN twice, and set it in place of `before`. Raises `InvalidError` when no usable one is typed."""
    for number in range(_TRIES):
        fresh = ask(f"New PIN (at least {MIN_CHARACTERS} characters): ")
        try:
            if ask("The same again: ") != fresh:
                raise InvalidError("the two are not the same", "type the new PIN twice")  # noqa: TRY301  # told like a PIN that is too short
            given_pin().remember(setting.set(fresh, expect=before))
        except InvalidError as error:
            if number == _TRIES - 1:
                raise
            tell(safe(f"{error.message}; {error.remedy}"))
        else:
            return

"""The PIN of an account: what verifies it, how many wrong ones were given, and asking for it at the terminal.

    keys/pin     JSON, mode 0600: a scrypt verifier with its salt and parameters (RFC 7914), and the tries since the last right PIN
    heads/pin    the id of the PIN, so that a verifier that is gone is not read as "there is no PIN"

Both are below a configuration folder that the user database names, not the environment: an agent chooses its environment. A PIN
that a person removed leaves its file without a verifier.

INVARIANT: a try is on disk before the PIN is looked at. So neither a kill nor a second process gets a try that is not counted.

A PIN is never kept, printed or passed on.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import select
import stat
import termios
import time
import unicodedata
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from secrets import token_hex
from typing import Final

import msgspec

from adjourn.errors import ConflictError, InvalidError, NotFoundError, RefusedError, StoreError
from adjourn.host.clock import now
from adjourn.host.workspace import locked, open_regular, remove_file, write_file
from adjourn.log.event import timestamp
from adjourn.log.signing import decode_bytes, encode_bytes

MIN_CHARACTERS: Final = 6
MAX_CHARACTERS: Final = 128
FREE_TRIES: Final = 3
"""Wrong PINs that are followed by no wait."""
FIRST_WAIT_MS: Final = 30_000
LONGEST_WAIT_MS: Final = 15 * 60_000
MEMORY_SECONDS: Final = 300.0
"""How long a process may act on a PIN that it was given."""
COST: Final = 1 << 17
"""scrypt's N; with r = 8 and p = 1 a try takes 128 MiB and about 0.3 s."""
_BLOCK, _LANES, _BYTES = 8, 1, 32
_MAX_COST, _MAX_BLOCK, _MAX_LANES = 1 << 20, 16, 4
"""Of a file that is read: it must not make a try take for ever."""
_MAX_FILE = 4096
_NAME = "pin"
_WIDER_THAN_OURS = stat.S_IRWXG | stat.S_IRWXO


class PinState(msgspec.Struct, frozen=True, kw_only=True):
    """What the file says. `verifier` is "" for a PIN that was removed; `until` (ms) is when the next try is taken.

    `failures` counts tries since the last right PIN, `since` is the time of the first of them.
    """

    version: int = 1
    id: str
    n: int
    r: int
    p: int
    salt: str
    verifier: str
    failures: int = 0
    since: str = ""
    until: int = 0

    @property
    def is_active(self) -> bool:
        """Whether the PIN is asked for."""
        return bool(self.verifier)


class WrongPinError(RefusedError):
    """A PIN that was given is not the right one. `failures` counts those since the last right one."""

    def __init__(self, failures: int, wait_ms: int) -> None:
        wait = f"wait {_shown(wait_ms)}, then try again" if wait_ms else "try again"
        super().__init__(f"the PIN is wrong ({failures} wrong since the last right one)", wait)
        self.failures = failures
        self.may_retry = not wait_ms


class AccountPin:
    """The PIN whose files are in a configuration folder. `clock` gives milliseconds."""

    def __init__(self, config: str, clock: Callable[[], int] = now) -> None:
        self._keys = os.path.join(config, "keys")
        self._heads = os.path.join(config, "heads")
        self._clock = clock
        self.path = os.path.join(self._keys, _NAME)
        self.mark = os.path.join(self._heads, _NAME)

    def state(self) -> PinState | None:
        """What is set, None if no PIN ever was. Raises `RefusedError` where a PIN was set and its file is gone, `InvalidError` for
        a file that is not ours or that others can reach.
        """
        state = self._read()
        if state is None and os.path.lexists(self.mark):
            raise self.missing()
        return state

    def missing(self) -> RefusedError:
        """The error where a PIN was set here, and the account has none."""
        return RefusedError(
            f"a PIN was set, and its file is gone: {self.path}",
            "restore the file from a backup; if you lost the PIN, see `adjourn help pin`",
        )

    @property
    def active(self) -> PinState | None:
        """The state of a PIN that has to be asked for; None where there is none. Raises as `state`."""
        state = self.state()
        return state if state is not None and state.is_active else None

    def set(self, pin: str, *, expect: PinState | None, cost: int = COST) -> PinState:
        """Set the PIN; `expect` is the state that was seen. Raises `InvalidError` for an unusable PIN, `ConflictError` for another state."""
        text = _checked(pin)
        salt = os.urandom(_BYTES)
        fresh = PinState(
            id=expect.id if expect else token_hex(16), n=cost, r=_BLOCK, p=_LANES, salt=encode_bytes(salt), verifier=""
        )  # fmt: skip
        fresh = msgspec.structs.replace(fresh, verifier=encode_bytes(_derived(text, fresh)))
        self._replace(fresh, expect)
        return fresh

    def remove(self, expect: PinState) -> None:
        """Remove the PIN that was seen as `expect`. The file stays, so that nobody takes the PIN for deleted."""
        self._replace(msgspec.structs.replace(expect, verifier="", salt="", failures=0, since="", until=0), expect)

    def try_pin(self, pin: str) -> tuple[PinState, PinState]:
        """The states before and after the right PIN was given.

        Raises `WrongPinError` for another one, and `RefusedError` where a wait is not over: that is no try.
        """
        before, counted = self._count()
        right = hmac.compare_digest(_derived(_normal(pin), counted), decode_bytes(counted.verifier, _BYTES))
        if not right:
            raise WrongPinError(counted.failures, self._wait_of(counted))
        with self._alone():
            current = self._read()
            if current is None or current.verifier != counted.verifier:
                raise _changed()
            after = msgspec.structs.replace(current, failures=0, since="", until=0)
            self._write(after)
        return before, after

    def check_wait(self) -> None:
        """Raise `RefusedError` while no try is taken."""
        state = self.active
        if state is not None and (wait := self._wait_of(state)):
            raise RefusedError(
                f"too many wrong PINs ({state.failures} since {state.since})", f"wait {_shown(wait)}, then try again"
            )

    def _count(self) -> tuple[PinState, PinState]:
        """Count a try that is about to be made, on disk. Returns the states before and after."""
        with self._alone():
            self.check_wait()
            before = self.active
            if before is None:
                raise _changed()
            failures = before.failures + 1
            wait = FIRST_WAIT_MS << min(failures - FREE_TRIES, 10) if failures >= FREE_TRIES else 0
            at = self._clock()
            counted = msgspec.structs.replace(
                before, failures=failures, since=before.since or timestamp(at), until=at + min(wait, LONGEST_WAIT_MS)
            )  # fmt: skip
            self._write(counted)
            return before, counted

    def _wait_of(self, state: PinState) -> int:
        """Milliseconds until a try is taken. A clock that was set back makes nobody wait longer than the longest wait."""
        return max(0, min(state.until - self._clock(), LONGEST_WAIT_MS))

    def _replace(self, fresh: PinState, expect: PinState | None) -> None:
        with self._alone():
            if _identity(self._read()) != _identity(expect):
                raise _changed()
            # The mark comes first, and goes last: a kill in between leaves a PIN that is asked for, or an error.
            if fresh.is_active:
                _make_folder(self._heads)
                write_file(self._heads, _NAME, fresh.id.encode() + b"\n", 0o600)
            self._write(fresh)
            if not fresh.is_active:
                remove_file(self._heads, _NAME)

    def _alone(self) -> AbstractContextManager[None]:
        _make_folder(self._keys)
        return locked(self._keys)

    def _write(self, state: PinState) -> None:
        """Replace the file; the lock is held. What a killed writer has left goes."""
        for name in os.listdir(self._keys):
            if name.startswith(f".{_NAME}."):
                remove_file(self._keys, name)
        write_file(self._keys, _NAME, msgspec.json.encode(state) + b"\n", 0o600)

    def _read(self) -> PinState | None:
        try:
            handle = open_regular(self.path, _MAX_FILE)
        except NotFoundError:
            return None
        with os.fdopen(handle, "rb") as file:
            status, data = os.fstat(handle), file.read(_MAX_FILE + 1)
        if status.st_uid != os.getuid() or status.st_mode & _WIDER_THAN_OURS:
            raise InvalidError(
                f"{self.path} can be reached by other users", f"chown it to you, and chmod 600 {self.path}"
            )
        try:
            state = msgspec.json.decode(data, type=PinState)
            sound = state.version == 1 and state.failures >= 0 and (not state.verifier or _is_usable(state))
        except (msgspec.DecodeError, UnicodeDecodeError, InvalidError):
            sound = False
        if not sound:
            raise InvalidError(f"{self.path} is not a file that adjourn wrote", "restore it from a backup")
        return state


class PinMemory:
    """That this process was given the right PIN: for `MEMORY_SECONDS`, and while the PIN is the same. It is in memory only."""

    def __init__(self) -> None:
        self._verifier = ""
        self._until = float("-inf")

    def covers(self, state: PinState) -> bool:
        """Whether the PIN of that state was given here shortly before."""
        return self._verifier == state.verifier and _elapsed() < self._until

    def remember(self, state: PinState) -> None:
        """Note that the PIN of that state was given now."""
        self._verifier, self._until = state.verifier, _elapsed() + MEMORY_SECONDS

    def forget(self) -> None:
        """Ask again."""
        self._verifier = ""


def _elapsed() -> float:
    """Seconds that also pass while the machine sleeps, where the system counts them."""
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


def _checked(pin: str) -> str:
    text = _normal(pin)
    if not MIN_CHARACTERS <= len(text) <= MAX_CHARACTERS:
        raise InvalidError(
            f"a PIN has {MIN_CHARACTERS} to {MAX_CHARACTERS} characters",
            "choose another one; letters and blanks are allowed",
        )
    if len(set(text)) < 3:  # 111111, 121212
        raise InvalidError("this PIN has fewer than 3 different characters", "choose one that is harder to guess")
    return text


def _normal(pin: str) -> str:
    """One form of what keyboards send in several."""
    return unicodedata.normalize("NFC", pin)


def _derived(pin: str, state: PinState) -> bytes:
    data, salt = (pin.encode(errors="surrogatepass")[: 4 * MAX_CHARACTERS + 1], decode_bytes(state.salt, _BYTES))
    room = 128 * state.r * (state.n + state.p + 2)
    return hashlib.scrypt(data, salt=salt, n=state.n, r=state.r, p=state.p, maxmem=room + (1 << 20), dklen=_BYTES)


def _is_usable(state: PinState) -> bool:
    """Whether a verifier can be computed, in bounded time. Raises `InvalidError` for bytes that are none."""
    decode_bytes(state.salt, _BYTES)
    decode_bytes(state.verifier, _BYTES)
    is_power = state.n > 1 and not state.n & (state.n - 1)
    return is_power and state.n <= _MAX_COST and 0 < state.r <= _MAX_BLOCK and 0 < state.p <= _MAX_LANES


def _identity(state: PinState | None) -> tuple[str, str] | None:
    return None if state is None else (state.id, state.verifier)


def _changed() -> ConflictError:
    return ConflictError("the PIN was changed meanwhile", "try again")


def _shown(milliseconds: int) -> str:
    seconds = -(-milliseconds // 1000)
    return f"{seconds} s" if seconds <= 90 else f"{-(-seconds // 60)} min"


def _make_folder(path: str) -> None:
    try:
        os.makedirs(path, mode=0o700, exist_ok=True)
    except OSError as error:
        raise StoreError(f"cannot make {path}: {error.strerror}", "make its folder writable") from error


# --- asking a person for a secret at the controlling terminal, which shows nothing of it

TERMINAL: Final = "/dev/tty"
ANSWER_SECONDS: Final = 180.0
_MAX_BYTES = 1024


def ask_secret(prompt: str) -> str:
    """The line that a person types. Raises `RefusedError` without a terminal, without a line, and where nobody answers in time."""
    with _terminal() as handle:
        _drop_typed(handle)
        return _asked(handle, prompt)


def _asked(handle: int, prompt: str) -> str:
    with _silent(handle):
        os.write(handle, prompt.encode(errors="replace"))
        try:
            return _line(handle).decode(errors="surrogateescape")
        finally:
            os.write(handle, b"\n")


def tell(text: str) -> None:
    """Write a line to the terminal, if there is one."""
    with _terminal() as handle:
        os.write(handle, text.encode(errors="replace") + b"\n")


@contextmanager
def _terminal() -> Iterator[int]:
    try:
        handle = os.open(TERMINAL, os.O_RDWR | os.O_NOCTTY | os.O_CLOEXEC)
    except OSError as error:
        raise RefusedError(f"there is no terminal: {error.strerror}", "run it in a terminal") from error
    try:
        yield handle
    except termios.error as error:
        raise RefusedError("the terminal was closed", "run it in a terminal") from error
    finally:
        os.close(handle)


def _drop_typed(handle: int) -> None:
    """Forget what was typed before it was asked for. Raises `RefusedError` where the input has ended: nobody types there."""
    while select.select([handle], [], [], 0)[0]:
        if not os.read(handle, _MAX_BYTES):
            raise RefusedError("the input of the terminal has ended", "run it in a terminal")


@contextmanager
def _silent(handle: int) -> Iterator[None]:
    before = termios.tcgetattr(handle)
    quiet = termios.tcgetattr(handle)
    quiet[3] = quiet[3] & ~termios.ECHO | termios.ICANON | termios.ISIG
    try:
        termios.tcsetattr(handle, termios.TCSAFLUSH, quiet)
        yield
    finally:
        termios.tcsetattr(handle, termios.TCSAFLUSH, before)


def _line(handle: int) -> bytes:
    end, line = time.monotonic() + ANSWER_SECONDS, b""
    while not line.endswith(b"\n"):
        remaining = end - time.monotonic()
        if remaining <= 0 or not select.select([handle], [], [], remaining)[0]:
            raise RefusedError(f"nothing was typed within {ANSWER_SECONDS:g} s", "run the command again")
        part = os.read(handle, _MAX_BYTES)
        line += part
        if not part or len(line) > _MAX_BYTES:
            raise RefusedError("nothing was typed that can be used", "run the command again")
    return line[:-1]

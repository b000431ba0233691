"""The PIN of an account: its verifier, its tries and waits, and what a missing file means."""

from __future__ import annotations

import json
import os
import signal
import stat
import subprocess
import sys
import tempfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adjourn.errors import AdjournError, ConflictError, InvalidError, RefusedError
from adjourn.host import pin as pins
from adjourn.host.pin import FREE_TRIES, LONGEST_WAIT_MS, AccountPin, PinMemory, WrongPinError
from support.clock import Clock
from support.proxy import wait_for

RIGHT, WRONG = "tulip-42", "violet-42"
CHEAP = 1 << 4
SLOW = 1 << 19


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def account(tmp_path: Path, clock: Clock) -> AccountPin:
    """An account with a PIN."""
    made = AccountPin(str(tmp_path), clock)
    made.set(RIGHT, expect=None, cost=CHEAP)
    return made


def guess(account: AccountPin, text: str = WRONG) -> None:
    with pytest.raises(WrongPinError):
        account.try_pin(text)


def test_the_right_pin_passes_and_another_does_not(account: AccountPin, clock: Clock) -> None:
    """Only the PIN that was set is the right one."""
    account.try_pin(RIGHT)
    for text in (WRONG, "", RIGHT.upper(), RIGHT + " ", "x" * 5000):
        guess(account, text)
        clock.move(seconds=LONGEST_WAIT_MS / 1000)
    account.try_pin(RIGHT)


def _fields(account: AccountPin) -> dict[str, object]:
    found: dict[str, object] = json.loads(Path(account.path).read_text())
    return found


def test_a_pin_that_keyboards_write_differently_is_the_same(tmp_path: Path) -> None:
    """A composed and a decomposed letter are one."""
    made = AccountPin(str(tmp_path))
    made.set("caf\u00e9-12", expect=None, cost=CHEAP)
    made.try_pin("cafe\u0301-12")


@pytest.mark.parametrize("text", ["", "12345", "a" * 129, "111111", "121212", "ababab"])
def test_a_pin_that_is_easily_guessed_is_refused(text: str, tmp_path: Path) -> None:
    """A PIN that is too short, too long or of two characters is not set."""
    account = AccountPin(str(tmp_path))
    with pytest.raises(InvalidError):
        account.set(text, expect=None, cost=CHEAP)
    assert account.state() is None
    assert not os.path.exists(account.mark)


def test_its_files_are_for_their_user_alone_and_hold_no_pin(account: AccountPin, tmp_path: Path) -> None:
    """Mode 0600 in a folder of mode 0700; neither the PIN nor a plain digest of it is in any file."""
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert {stat.S_IMODE(path.stat().st_mode) for path in files} == {0o600}
    assert stat.S_IMODE(Path(account.path).parent.stat().st_mode) == 0o700
    assert all(RIGHT.encode() not in path.read_bytes() for path in files)
    assert {path.name for path in files} == {"pin"}


def test_two_accounts_with_one_pin_have_different_verifiers(tmp_path: Path) -> None:
    """The salt differs."""
    states = [AccountPin(str(tmp_path / name)).set(RIGHT, expect=None, cost=CHEAP) for name in "ab"]
    assert states[0].salt != states[1].salt
    assert states[0].verifier != states[1].verifier


def test_after_three_wrong_pins_waits_grow(account: AccountPin, clock: Clock) -> None:
    """Each further wrong PIN doubles the wait, to 15 minutes; during a wait, also the right PIN is no try."""
    waits = []
    for _ in range(FREE_TRIES + 8):
        guess(account)
        state = account.active
        assert state is not None
        waits.append(state.until - clock())
        if waits[-1]:
            with pytest.raises(RefusedError, match="too many wrong PINs") as caught:
                account.try_pin(RIGHT)
            assert not isinstance(caught.value, WrongPinError)
            clock.move(seconds=waits[-1] / 1000)
    assert waits == [0, 0, *(min(30_000 << number, LONGEST_WAIT_MS) for number in range(9))]


def test_the_right_pin_ends_the_count_and_tells_of_it(account: AccountPin) -> None:
    """Who gives the right PIN learns how many wrong ones came before."""
    guess(account)
    guess(account)
    before, after = account.try_pin(RIGHT)
    assert (before.failures, bool(before.since), after.failures, after.since) == (2, True, 0, "")
    assert account.try_pin(RIGHT)[0].failures == 0


def test_a_clock_that_is_set_back_locks_nobody_out(account: AccountPin, clock: Clock) -> None:
    """A wait lasts 15 minutes at the most, whatever the clock was when it began."""
    clock.move(seconds=365 * 24 * 3600)
    for _ in range(FREE_TRIES):
        guess(account)
    clock.move(seconds=-365 * 24 * 3600)
    with pytest.raises(RefusedError, match="too many") as caught:
        account.try_pin(RIGHT)
    assert "wait 15 min" in caught.value.remedy


GUESSING = """
import sys
from adjourn.errors import RefusedError
from adjourn.host.pin import AccountPin, WrongPinError
made = 0
for number in range(20):
    try:
        AccountPin(sys.argv[1]).try_pin(f"guess-{number}")
    except WrongPinError:
        made += 1
    except RefusedError:
        pass
print(made)
"""


def started(tmp_path: Path, code: str) -> subprocess.Popen[str]:
    return subprocess.Popen([sys.executable, "-c", code, str(tmp_path)], stdout=subprocess.PIPE, text=True)


def test_processes_that_guess_at_once_get_no_more_tries(tmp_path: Path) -> None:
    """Three processes together have as many tries as one."""
    AccountPin(str(tmp_path)).set(RIGHT, expect=None, cost=CHEAP)
    guessing = [started(tmp_path, GUESSING) for _ in range(3)]
    made = [int(one.communicate()[0]) for one in guessing]
    assert sum(made) == FREE_TRIES, made


def test_a_kill_refunds_no_try(tmp_path: Path) -> None:
    """A process that is killed while it computes has made its try; the next one waits as if it had lived."""
    account = AccountPin(str(tmp_path))
    account.set(RIGHT, expect=None, cost=SLOW)
    for number in range(1, FREE_TRIES + 1):
        one = started(tmp_path, GUESSING.replace("range(20)", "range(1)"))

        def is_counted(number: int = number) -> bool:
            return _fields(account)["failures"] == number

        wait_for(is_counted)
        one.send_signal(signal.SIGKILL)
        assert one.wait() == -signal.SIGKILL
        one.communicate()
    with pytest.raises(RefusedError, match="too many wrong PINs \\(3 "):
        account.try_pin(RIGHT)


def test_what_a_killed_writer_left_is_removed(account: AccountPin) -> None:
    """Half a file of an earlier try, which would have a verifier in it, does not stay."""
    left = Path(account.path).with_name(".pin.4711.0f0f0f0f")
    left.write_bytes(Path(account.path).read_bytes())
    guess(account)
    assert not left.exists()


def test_changing_keeps_the_id_and_ends_the_old_pin(account: AccountPin) -> None:
    """After a change, only the new PIN is right; the account's PIN has the same id."""
    before = account.state()
    after = account.set("lilac-99", expect=before, cost=CHEAP)
    assert before is not None
    assert after.id == before.id
    account.try_pin("lilac-99")
    guess(account, RIGHT)


def test_who_saw_another_state_changes_nothing(account: AccountPin) -> None:
    """A PIN that was set meanwhile is not replaced: neither by a first PIN, nor by a change of an earlier one."""
    before = account.state()
    account.set("lilac-99", expect=before, cost=CHEAP)
    for expect in (None, before):
        with pytest.raises(ConflictError):
            account.set("tansy-77", expect=expect, cost=CHEAP)
    account.try_pin("lilac-99")


def test_a_pin_that_was_removed_is_asked_for_no_more(account: AccountPin) -> None:
    """A removed PIN leaves a file that says so."""
    before = account.state()
    assert before is not None
    account.remove(before)
    after = account.state()
    assert after is not None
    assert (after.is_active, account.active, after.id) == (False, None, before.id)
    account.set("lilac-99", expect=after, cost=CHEAP)
    account.try_pin("lilac-99")


def test_a_file_that_is_gone_is_no_missing_pin(account: AccountPin) -> None:
    """Where the verifier was deleted, nobody is taken for somebody without a PIN, and the error names the file."""
    os.unlink(account.path)
    for act in (account.state, lambda: account.active, account.check_wait, lambda: account.try_pin(RIGHT)):
        with pytest.raises(RefusedError, match="its file is gone") as caught:
            act()
        assert account.path in caught.value.message


def _write(change: Callable[[dict[str, object]], None]) -> Callable[[Path], None]:
    def write(path: Path) -> None:
        fields = json.loads(path.read_text())
        change(fields)
        path.write_text(json.dumps(fields))

    return write


def _link(path: Path) -> None:
    path.rename(path.with_name("other"))
    path.symlink_to(path.with_name("other"))


@pytest.mark.parametrize(
    "spoil",
    [
        lambda path: path.chmod(0o640), lambda path: path.chmod(0o602), lambda path: path.write_text(""), lambda path: path.write_text("{}"), _link,
        lambda path: path.write_bytes(b"\xff" * 100), lambda path: path.write_text("[" * 4000), lambda path: path.write_text(" " * 5000),
        _write(lambda fields: fields.update(n=1 << 40)), _write(lambda fields: fields.update(n=12_345)), _write(lambda fields: fields.update(r=10_000)),
        _write(lambda fields: fields.update(p=0)), _write(lambda fields: fields.update(version=2)), _write(lambda fields: fields.update(failures=-5)),
        _write(lambda fields: fields.update(verifier="AAAA")), _write(lambda fields: fields.update(salt="")),
    ],
)  # fmt: skip
def test_a_file_that_adjourn_did_not_write_opens_nothing(spoil: Callable[[Path], None], account: AccountPin) -> None:
    """A verifier that others can reach, that is a link, or that cannot be read as one is an error for every use."""
    spoil(Path(account.path))
    for act in (account.state, account.check_wait, lambda: account.try_pin(RIGHT)):
        with pytest.raises(AdjournError):
            act()


@given(st.binary(max_size=300))
def test_no_bytes_in_its_place_are_taken_for_no_pin(data: bytes) -> None:
    """Whatever is in the file: it is an error, or a PIN."""
    with tempfile.TemporaryDirectory() as folder:
        account = AccountPin(folder)
        account.set(RIGHT, expect=None, cost=CHEAP)
        Path(account.path).write_bytes(data)
        with suppress(InvalidError):
            assert account.state() is not None


def test_a_process_remembers_the_pin_for_minutes(account: AccountPin, monkeypatch: pytest.MonkeyPatch) -> None:
    """The memory ends after its time, with `forget`, and when the PIN is changed."""
    at = 0.0
    monkeypatch.setattr(pins, "_elapsed", lambda: at)
    memory = PinMemory()
    _, state = account.try_pin(RIGHT)
    assert not memory.covers(state)
    memory.remember(state)
    assert memory.covers(state)
    assert not memory.covers(account.set("lilac-99", expect=state, cost=CHEAP))
    at = pins.MEMORY_SECONDS
    assert not memory.covers(state)
    at = 0.0
    memory.forget()
    assert not memory.covers(state)

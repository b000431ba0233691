"""The PIN at real terminals: what an agent starts is refused without it, and a person answers with it, also inside an IDE."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.account import PIN, WRONG, Account
from support.confirming import ARGUMENTS, POLICY
from support.page import serving
from support.proxy import Client, ProxyWorkspace, refused, wait_for
from support.screen import Screen
from support.terminal import at_terminal

COMMAND = [sys.executable, "-m", "adjourn"]
SETTINGS = "allow-unattended = true\nallow-inside-client = true\n"
ENTER, ESCAPE = b"\r", b"\x1b"


@pytest.fixture
def work(tmp_path: Path) -> Iterator[ProxyWorkspace]:
    with ProxyWorkspace(tmp_path, *POLICY) as workspace:
        yield workspace


@pytest.fixture
def account(tmp_path: Path) -> Account:
    """An account with a PIN, whose settings waive all that can be waived."""
    made = Account(tmp_path)
    made.set_pin()
    made.write_settings(SETTINGS)
    return made


def waiting(work: ProxyWorkspace) -> tuple[Client, object, str]:
    """A client (this very process) whose call waits for a person, the call, and the question."""
    client = work.client(elicits=False)
    call = client.begin("file.write", ARGUMENTS)
    wait_for(lambda: work.tasks() and work.facts("confirm.required"))
    return client, call, next(iter(work.ledger().approvals))


class Dialog(Screen):
    """A command that asks at its terminal."""

    _answered = 0

    def reply(self, prompt: str, text: str) -> None:
        """Type a line once a prompt is shown that was not there at the last line: what is typed before it is dropped."""
        end = time.monotonic() + 20
        while prompt not in self.shown[self._answered :] or not self.shown.rstrip(" ").endswith((":", "]")):
            assert time.monotonic() < end, self.shown
            self._read(0.05)
        self._answered = len(self.shown)
        self.press(text.encode() + b"\n")


def screen(work: ProxyWorkspace, account: Account, *arguments: str, apart: bool = False) -> Dialog:
    environment = account.environment(work.environment)
    environment.pop("NO_COLOR", None)
    return Dialog(*arguments, cwd=work.root, env=environment, rows=24, apart=apart)


def yes(work: ProxyWorkspace) -> bool:
    return bool(work.facts("confirm.approved"))


def test_with_the_pin_a_person_answers_inside_an_ide(work: ProxyWorkspace, account: Account) -> None:
    """The terminal descends from the client: the PIN is the proof. It is not shown while it is typed."""
    client, call, question = waiting(work)
    shown = screen(work, account, "approve", question)
    shown.wait_for("PIN for `adjourn approve`: ")
    shown.press(PIN.encode() + b"\n")
    said = shown.finish()
    assert (shown.code, shown.left_sane) == (0, True), said
    assert PIN not in said
    assert not refused(client.answer(call))


def test_the_pin_is_asked_for_after_the_arguments_were_read(work: ProxyWorkspace, account: Account) -> None:
    """An unknown id is reported as such, and no PIN is asked for."""
    waiting(work)
    shown = screen(work, account, "approve", "nothing")
    assert "no open question is 'nothing'" in shown.finish()
    assert shown.code == 1
    assert "PIN" not in shown.shown


def test_three_wrong_pins_end_the_command_and_are_counted(work: ProxyWorkspace, account: Account) -> None:
    """Each wrong PIN is an event of the task; then the right one has to wait."""
    _, _, question = waiting(work)
    shown = screen(work, account, "approve", question, apart=True)
    for _ in range(3):
        shown.reply("PIN for", WRONG)
    said = shown.finish()
    assert (shown.code, yes(work)) == (3, False), said
    assert [one.failures for one in work.facts("pin.refused")] == [1, 2, 3]
    again = screen(work, account, "approve", question)
    assert "too many wrong PINs" in again.finish()
    assert again.code == 3


DETACHED = "setsid -f script -qfc {inner!r} {log} </dev/null >/dev/null"


def test_a_terminal_that_an_agent_makes_gives_no_answer(work: ProxyWorkspace, account: Account, tmp_path: Path) -> None:
    """A process of no parent, with a terminal of its making, is asked for the PIN; without one it gave the answer."""
    _, _, question = waiting(work)
    log = tmp_path / "typescript"
    inner = f"{sys.executable} -m adjourn approve {question}"
    line = DETACHED.format(inner=inner, log=log)
    environment = account.environment(work.environment)
    subprocess.run(["bash", "-c", line], cwd=work.root, env=environment, check=True)
    wait_for(lambda: log.exists() and b"the input of the terminal has ended" in log.read_bytes())
    assert not yes(work)
    typing = line.replace("</dev/null", f"< <(sleep 1; echo {WRONG}; sleep 3)")
    subprocess.run(["bash", "-c", typing], cwd=work.root, env=environment, check=True)
    wait_for(lambda: b"wrong since the last right one" in log.read_bytes() or bool(work.facts("pin.refused")), 20)
    assert not yes(work)


@pytest.mark.parametrize("apart", [True, False])
@pytest.mark.parametrize(
    "command", [("keys", "pin"), ("keys", "pin", "--remove"), ("keys", "trust", "ann", "7sB1" + "A" * 39 + "="), ("init", "--yes"), ("init", "--policy"), ("policy", "tighten", "--write"), ("doctor", "--fix"),
                ("run", "task.aex", "--auto-confirm"), ("api-keys", "add", "ci", "--human"), ("ui", "--no-open")],
    ids=" ".join,
)  # fmt: skip
def test_no_command_speaks_without_the_pin_whatever_settings_say(
    command: tuple[str, ...], work: ProxyWorkspace, account: Account, *, apart: bool
) -> None:
    """Without a terminal: exit code 3, for a person's commands and for those of machines."""
    before = account.pin.state()
    done = at_terminal(
        [*COMMAND, *command], cwd=work.root, env=account.environment(work.environment), apart=apart, terminal=False
    )
    assert (done.returncode, "needs your PIN" in done.stderr) == (3, True), done
    assert account.pin.state() == before


def test_another_configuration_folder_hides_no_pin(work: ProxyWorkspace, account: Account, tmp_path: Path) -> None:
    """Variables that an agent sets lead to no account without a PIN."""
    _, _, question = waiting(work)
    empty = str(tmp_path / "empty")
    environment = account.environment(work.environment) | dict.fromkeys(
        ("ADJOURN_CONFIG", "XDG_CONFIG_HOME", "HOME"), empty
    )
    done = at_terminal([*COMMAND, "approve", question], cwd=work.root, env=environment, terminal=False)
    assert (done.returncode, "needs your PIN" in done.stderr, yes(work)) == (3, True, False), done


def test_notifications_need_no_pin(work: ProxyWorkspace, account: Account) -> None:
    """`adjourn notify` records no answer, and runs as a service."""
    done = at_terminal(
        [*COMMAND, "notify", "--once"], cwd=work.root, env=account.environment(work.environment), terminal=False
    )
    assert "PIN" not in done.stderr
    assert done.returncode != 3, done


CONTRACT = """task work v0
goal "do it"
use file.write
do file.write(writes={"a.txt": "x"})
return 1
"""


def test_a_run_asks_for_the_pin_at_its_terminal(tmp_path: Path, account: Account) -> None:
    """Inside a client, too: a typed yes counts with the PIN only."""
    with ProxyWorkspace(tmp_path, "use echo, file.write", "confirm before file.write") as work:
        work.client().call("echo")
        (work.root / "task.aex").write_text(CONTRACT)
        shown = screen(work, account, "run", "task.aex", "--confirm-timeout", "1")
        shown.wait_for("Do it? [y/N]")
        shown.press(b"y\n")
        for _ in range(3):
            shown.reply("PIN for `adjourn run`", WRONG)
        shown.finish()
        assert not (work.root / "a.txt").exists()
        account.pin.set(PIN, expect=account.pin.state(), cost=1 << 4)  # as after the wait
        shown = screen(work, account, "run", "task.aex")
        shown.wait_for("Do it? [y/N]")
        shown.press(b"y\n")
        shown.reply("PIN for `adjourn run`", PIN)
        said = shown.finish()
        assert ((work.root / "a.txt").read_text(), shown.code) == ("x", 0), said


def test_setting_changing_and_removing_it(work: ProxyWorkspace, tmp_path: Path) -> None:
    """`adjourn keys pin` asks twice for a new PIN, for the old one before a change or a removal, and shows none of them."""
    account = Account(tmp_path)
    shown = screen(work, account, "keys", "pin", apart=True)
    for prompt, text in (
        ("New PIN", "1234"),
        ("The same again", "1234"),
        ("different", ""),
        ("New PIN", PIN),
        ("again", PIN),
    ):
        if text:
            shown.reply(prompt, text)
    said = shown.finish()
    assert (shown.code, "PIN set" in said) == (0, True), said
    shown = screen(work, account, "keys", "pin", apart=True)
    for prompt, text in (("PIN for `adjourn keys pin`", PIN), ("New PIN", "lilac-99"), ("The same again", "lilac-99")):
        shown.reply(prompt, text)
    said += shown.finish()
    assert (shown.code, "PIN changed" in said) == (0, True), said
    shown = screen(work, account, "keys", "pin", "--remove")
    shown.wait_for("PIN for")
    shown.press(b"lilac-99\n")
    said += shown.finish()
    assert (shown.code, account.pin.active) == (0, None), said
    assert not any(text in said for text in (PIN, "lilac-99", "1234"))


def test_the_interactive_inbox_asks_once(work: ProxyWorkspace, account: Account) -> None:
    """Enter asks for the PIN, Esc leaves the answer, a wrong PIN records nothing; the right one counts for the next answer, too."""
    client, call, _ = waiting(work)
    shown = screen(work, account, "inbox")
    shown.wait_for("d deny")
    shown.press(b"a" + ENTER)
    shown.wait_for("your PIN:")
    shown.press(ESCAPE)
    shown.wait_for("q quit")
    shown.press(b"a" + ENTER + WRONG.encode() + ENTER)
    shown.wait_for("the PIN is wrong")
    assert not yes(work)
    shown.press(PIN.encode() + ENTER)
    shown.wait_for("1 wrong PIN was given")
    shown.press(b"n" + ENTER)
    assert not refused(client.answer(call))
    second = client.begin("file.write", {**ARGUMENTS, "path": "b.txt"})
    shown.wait_for("b.txt")
    shown.press(b"a" + ENTER)
    shown.wait_for("u undo")
    shown.press(b"n" + ENTER)
    assert not refused(client.answer(second))
    shown.press(b"q")
    said = shown.finish()
    assert (shown.code, shown.left_sane) == (0, True)
    assert not any(text in said for text in (PIN, WRONG))
    assert [one.action for one in work.facts("pin.refused")] == ["adjourn inbox"]


def test_the_page_asks(work: ProxyWorkspace, account: Account) -> None:
    """`adjourn ui` asks when it starts, and each session of a browser asks again."""
    waiting(work)
    done = at_terminal(
        [*COMMAND, "ui", "--no-open"], cwd=work.root, env=account.environment(work.environment), terminal=False
    )
    assert (done.returncode, "needs your PIN" in done.stderr) == (3, True)
    unasked = Account(account.home)  # the page was started before the PIN was set
    with serving(work.root, unasked.environment(work.environment)) as served:
        served.enter()
        unasked.set_pin()
        fields = {**served.form(), "action": "approve"}
        assert 'type="password"' in served.send(fields).text
        assert not yes(work)
        assert "Approved" in served.send({**fields, "pin": PIN}).text
    assert yes(work)


def test_the_pin_is_in_no_argument_environment_or_title(work: ProxyWorkspace, account: Account) -> None:
    """While the command works with it, /proc shows it nowhere."""
    _, _, question = waiting(work)
    account.pin.set(PIN, expect=account.pin.state(), cost=1 << 17)
    shown = screen(work, account, "deny", question)
    shown.wait_for("PIN for")
    shown.press(PIN.encode() + b"\n")
    seen = b""
    while shown._read(0.01):
        for name in ("cmdline", "environ", "comm", "status"):
            try:
                seen += Path(f"/proc/{shown.process}/{name}").read_bytes()
            except OSError:
                continue
    assert b"adjourn" in seen
    assert PIN.encode() not in seen
    assert PIN not in shown.finish()
    files = [path for path in work.root.parent.rglob("*") if path.is_file() and path.suffix != ".py"]
    assert all(PIN.encode() not in path.read_bytes() for path in files)


def test_without_a_pin_the_refusal_names_what_helps(work: ProxyWorkspace, tmp_path: Path) -> None:
    """Inside a client: the PIN, and the file and key of the setting; an unknown id comes before that."""
    _, _, question = waiting(work)
    account = Account(tmp_path)
    environment = account.environment(work.environment)
    done = at_terminal([*COMMAND, "approve", question], cwd=work.root, env=environment, apart=False)
    said = " ".join(done.stderr.split())
    assert done.returncode == 3
    assert "adjourn keys pin" in said
    assert f"allow-inside-client = true in {account.home}/.config/adjourn/settings.toml" in said
    done = at_terminal([*COMMAND, "approve", "nothing"], cwd=work.root, env=environment, apart=False)
    assert (done.returncode, "no open question is 'nothing'" in done.stderr) == (1, True)


def test_programs_that_these_tests_need_are_there() -> None:
    """`script` and `setsid` make the terminal of an agent's making."""
    assert shutil.which("script")
    assert shutil.which("setsid")
    assert os.path.exists("/dev/tty")


@pytest.mark.parametrize(
    ("rules", "proposes"),
    [
        (("allow *",), True), (("allow shell.exec",), True), (("allow shell.exec:ls*",), True), (("allow *", "confirm before shell.exec"), False),
        (("allow *", "deny shell.exec"), False), (("use file.read",), False),
    ],
)  # fmt: skip
def test_init_proposes_a_pin_where_a_shell_runs_unasked(
    rules: tuple[str, ...], tmp_path: Path, *, proposes: bool
) -> None:
    """With --yes `adjourn init` recommends it, if some shell command needs no yes; with a PIN it says nothing."""
    account = Account(tmp_path)
    with ProxyWorkspace(tmp_path, *rules) as work:
        environment = account.environment(work.environment)
        (work.root / ".mcp.json").write_text('{"mcpServers": {}}')
        done = at_terminal([*COMMAND, "init", "--yes"], cwd=work.root, env=environment)
    assert done.returncode == 0, done
    assert ("adjourn keys pin" in done.stdout) == proposes, done


def test_init_sets_the_pin_that_it_proposes(work: ProxyWorkspace, tmp_path: Path) -> None:
    """A person who agrees types it at once."""
    account = Account(tmp_path)
    work.write_policy("allow *")
    (work.root / ".mcp.json").write_text('{"mcpServers": {}}')
    shown = screen(work, account, "init", apart=True)
    shown.wait_for("y, n, or d")
    shown.press(b"y\n")
    shown.wait_for("Set a PIN now?")
    shown.press(b"y\n")
    for prompt in ("New PIN", "The same again"):
        shown.reply(prompt, PIN)
    said = shown.finish()
    assert (shown.code, "PIN set" in said) == (0, True), said
    account.pin.try_pin(PIN)

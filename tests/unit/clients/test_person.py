"""Who may speak for a person, by the processes above, the terminal, and the settings of the account."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from adjourn.clients import person
from adjourn.clients.task_choice import BOUND, CLIENT
from adjourn.errors import InvalidError, RefusedError
from adjourn.host import keys, own_settings, process
from adjourn.host.clock import now
from adjourn.host.process import Process
from adjourn.store.memory import MemoryStore
from adjourn.tasks.lease import SessionIdentity
from adjourn.tasks.session import Session
from adjourn.tasks.task import Task
from support.policies import policy_of

TASK = "20260502-abcdefgh"
Say = Callable[..., None]


@pytest.fixture
def say(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Say:
    """Checks a command in a store, with a terminal or without, in a home folder with the settings given."""
    monkeypatch.setenv("ADJOURN_CONFIG", str(tmp_path / "config"))
    monkeypatch.setattr(own_settings, "home", lambda: str(tmp_path))
    settings = tmp_path / own_settings.SETTINGS
    settings.parent.mkdir(parents=True)

    def checked(
        store: MemoryStore,
        *,
        terminal: bool = True,
        attended: bool = True,
        text: str = "",
        changes: tuple[str, ...] = ("/w",),
    ) -> None:
        settings.write_text(text)
        monkeypatch.setattr(person, "_has_terminal", lambda: terminal)
        person.check("adjourn approve", changes, store, attended=attended)

    return checked


@pytest.fixture(params=[f"{CLIENT}{{}}/0f0f0f0f", f"{BOUND}{{}}/0f0f0f0f", "session"])
def governed(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> MemoryStore:
    """A store that knows the process which started this one: by its proxies', or a hook's, traces of another workspace."""
    monkeypatch.setenv("ADJOURN_CONFIG", str(tmp_path / "config"))
    store = MemoryStore()
    if request.param == "session":
        task = Task(store, TASK, clock=now, secret=keys.secret())
        Session(task, policy_of("use a"), SessionIdentity(process.parent(), "workspace/0f0f0f0f")).open()
    else:
        store.swap(request.param.format(process.parent()), TASK, expect=None)
    return store


def test_whoever_is_at_a_terminal_speaks(say: Say) -> None:
    """A command that speaks for a person needs a terminal, unless the settings waive it or nobody has to attend."""
    say(MemoryStore())
    with pytest.raises(RefusedError, match="needs a terminal") as caught:
        say(MemoryStore(), terminal=False)
    assert caught.value.remedy.startswith("run it in a terminal of your own")
    say(MemoryStore(), terminal=False, attended=False)


@pytest.mark.parametrize("attended", [True, False])
def test_inside_a_governed_client_nobody_speaks(say: Say, governed: MemoryStore, *, attended: bool) -> None:
    """A command inside a governed client is refused, unless the settings waive exactly that."""
    with pytest.raises(RefusedError, match=r"inside .* \(process \d+\), a client that adjourn governs"):
        say(governed, attended=attended)
    with pytest.raises(RefusedError):
        say(governed, attended=attended, text="allow-unattended = true")
    say(governed, attended=attended, text="allow-inside-client = true")


def test_a_client_of_an_earlier_process_of_the_same_number_is_another(say: Say) -> None:
    """A process with the number of an ended client is not taken for that client."""
    here, store = process.parent(), MemoryStore()
    store.swap(f"{CLIENT}{Process(here.host, here.pid, here.started + 1)}/0f0f0f0f", TASK, expect=None)
    store.swap(f"{CLIENT}a name of another make", TASK, expect=None)
    say(store)


@pytest.mark.parametrize(
    ("text", "passes"),
    [
        ("allow-unattended = true", True),
        ("allow-unattended = false", False),
        ("allow-inside-client = true", False),
        ('allow-unattended = ["/w"]', True),
        ('allow-unattended = ["/srv/x", "/w/"]', True),
        ('allow-unattended = ["/"]', True),
        ('allow-unattended = ["/wor"]', False),
        ('allow-unattended = ["/w/deeper"]', False),
        ('allow-unattended = ["w"]', False),
        ("allow-unattended = []", False),
        ("", False),
    ],
)
def test_settings_waive_the_terminal_everywhere_or_in_folders(say: Say, text: str, *, passes: bool) -> None:
    """`allow-unattended` waives the terminal everywhere, or in the folders that it lists and below."""
    if passes:
        say(MemoryStore(), terminal=False, text=text, changes=("/w", "/w/.aex/adjourn.db"))
    else:
        with pytest.raises(RefusedError):
            say(MemoryStore(), terminal=False, text=text, changes=("/w", "/w/.aex/adjourn.db"))


@pytest.mark.parametrize("elsewhere", ["/other/.aex/adjourn.db", "postgresql://host/base", "/w2"])
def test_a_folder_waives_nothing_for_what_lies_elsewhere(say: Say, elsewhere: str) -> None:
    """A waiver for a folder does not hold for a store outside of it."""
    with pytest.raises(RefusedError):
        say(MemoryStore(), terminal=False, text='allow-unattended = ["/w"]', changes=("/w", elsewhere))


@pytest.mark.parametrize(
    "text",
    ["allow-unattended = 1", 'allow-unattended = "yes"', "allow_unattended = true", "allow-unattended", "x = " + "[" * 9999, "#" * 70_000],
    ids=lambda text: text[:22],
)  # fmt: skip
def test_settings_that_cannot_be_read_waive_nothing(say: Say, text: str) -> None:
    """Invalid settings are an error."""
    with pytest.raises(InvalidError, match=r"settings\.toml"):
        say(MemoryStore(), terminal=False, text=text)


def test_settings_that_others_can_write_waive_nothing(say: Say, tmp_path: Path) -> None:
    """Settings that other users can write are an error."""
    say(MemoryStore(), terminal=False, text="allow-unattended = true")
    (tmp_path / own_settings.SETTINGS).chmod(0o666)
    with pytest.raises(InvalidError, match="can be written by other users"):
        say(MemoryStore(), terminal=False, text="allow-unattended = true")


def test_no_variable_of_the_environment_names_the_settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No environment variable changes where the settings are read."""
    (tmp_path / own_settings.SETTINGS).parent.mkdir(parents=True)
    (tmp_path / own_settings.SETTINGS).write_text("allow-unattended = true")
    before = own_settings.home()
    for name in ("HOME", "XDG_CONFIG_HOME", "ADJOURN_CONFIG"):
        monkeypatch.setenv(name, str(tmp_path))
    assert own_settings.home() == before != str(tmp_path)

"""`adjourn notify` with a real receiver: what waits is delivered at least once, whoever fails or is killed in between."""

from __future__ import annotations

import base64
import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from adjourn.host.clock import now
from adjourn.notify.senders import signature
from adjourn.store.sqlite import SqliteStore
from adjourn.tasks.task import Task
from support.proxy import Done, run, wait_for
from support.receiver import ReceivedRequest, Receiver, receiving
from support.waiting import asked

KEY = b"k" * 24
SECRET = "whsec_" + base64.b64encode(KEY).decode()


class Workplace:
    """A workspace in which calls wait, and the settings of its user."""

    def __init__(self, path: Path) -> None:
        self.root, self.config = path / "shop", path / "config"
        (self.root / ".aex").mkdir(parents=True)
        self.config.mkdir()
        self.store = SqliteStore(self.root / ".aex" / "adjourn.db")
        self.task = Task(self.store, "t1", clock=now, secret=b"s" * 32)
        kept = {name: value for name, value in os.environ.items() if not name.startswith("ADJOURN_")}
        self.environment = kept | {"ADJOURN_CONFIG": str(self.config)}

    def settings(self, text: str) -> None:
        file = self.config / "notify.toml"
        file.touch(0o600)
        file.write_text(text)

    def start(self) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-m", "adjourn", "notify"],
            cwd=self.root, env=self.environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip

    def run(self, *arguments: str) -> Done:
        return run("notify", *arguments, cwd=self.root, env=self.environment)

    def queued(self) -> int:
        (state,) = self.config.glob("notify/*/state.json")
        return len(json.loads(state.read_bytes())["queue"])


@pytest.fixture
def place(tmp_path: Path) -> Workplace:
    return Workplace(tmp_path)


def hook(receiver: Receiver) -> str:
    return f'[[webhook]]\nurl = "{receiver.url}"\nsecret = "{SECRET}"\n'


def is_signed(request: ReceivedRequest) -> bool:
    headers = request.headers
    expected = signature(KEY, headers["webhook-id"], int(headers["webhook-timestamp"]), request.body)
    return headers["webhook-signature"] == expected


def test_a_kill_in_the_middle_loses_nothing(place: Workplace) -> None:
    """A refused delivery is repeated; one that a kill cut off is repeated by the next process, with the same id and body."""
    asked(place.task, arguments='{"token": "s3cret", "to": "prod"}')
    with receiving(503, 0) as receiver:
        place.settings(hook(receiver))
        first = place.start()
        receiver.wait_for(2)
        first.kill()
        _, told = first.communicate()
        assert "127.0.0.1: not delivered: HTTP status 503; trying again" in told
        second = place.start()
        receiver.wait_for(3)
        asked(place.task, "k2", "pay")
        requests = receiver.wait_for(4)
        wait_for(lambda: place.queued() == 0)
        second.send_signal(signal.SIGTERM)
        out, errors = second.communicate()
    assert (second.returncode, errors) == (0, "")
    assert out.startswith("notifying 127.0.0.1")
    assert all(map(is_signed, requests))
    assert len({(one.headers["webhook-id"], one.body) for one in requests[:3]}) == 1
    assert requests[3].headers["webhook-id"] != requests[0].headers["webhook-id"]
    body = json.loads(requests[0].body)
    assert body["type"] == "adjourn.waits.approval"
    assert (body["data"]["title"], body["data"]["answer"]) == ("deploy", "adjourn approve k1")
    assert "prod" not in requests[0].body.decode()


def test_once_tells_what_it_could_not_deliver(place: Workplace) -> None:
    """`--once` exits with 1 while something is left, with 0 once all is delivered, and tells nothing twice."""
    asked(place.task)
    with receiving(500) as receiver:
        place.settings(hook(receiver))
        assert (place.run("--once").code, place.queued()) == (1, 1)
        wait_for(lambda: place.run("--once").code == 0)
        place.run("--once")
    assert len(receiver.got) == 2


def test_a_command_gets_the_notification(place: Workplace, tmp_path: Path) -> None:
    """A command is run without a shell: hostile text is one argument, JSON is on stdin, and no variable of ours is there."""
    place.task.commit(lambda _: [])
    asked(place.task, tool="x; touch /tmp/p $(id) \x1b[2J")
    script = tmp_path / "tell.py"
    script.write_text(
        "import json, os, sys\n"
        "said = [sys.argv[1], json.load(sys.stdin), sorted(n for n in os.environ if n.startswith('ADJOURN_')), os.getcwd()]\n"
        f"open({str(tmp_path / 'told.json')!r}, 'w').write(json.dumps(said))\n"
    )
    place.settings(f'[[command]]\nrun = ["{sys.executable}", "{script}", "{{text}}"]\n')
    done = place.run("--once")
    assert (done.code, done.out) == (0, "all delivered\n")
    text, given, ours, folder = json.loads((tmp_path / "told.json").read_text())
    assert text.startswith("adjourn: a call waits for approval in shop: x; touch /tmp/p $(id) ")
    assert "\x1b" not in text + given["title"]
    assert (given["kind"], ours, folder) == ("approval", [], "/")


def test_each_target_can_be_tried(place: Workplace) -> None:
    """`--test` says of each target whether it works, and keeps nothing."""
    with receiving() as receiver:
        place.settings(hook(receiver) + 'name = "chat"\n[[command]]\nrun = ["false"]\n')
        done = place.run("--test")
    assert done.code == 1
    assert done.out == "false: 'false' exited with 1\nchat: delivered\n"
    assert json.loads(receiver.got[0].body)["data"]["kind"] == "test"
    assert not (place.config / "notify").exists()


def test_a_second_process_is_refused(place: Workplace) -> None:
    """Two processes would tell everything twice: the second one ends with an error."""
    with receiving() as receiver:
        place.settings(hook(receiver))
        first = place.start()
        assert first.stdout is not None
        assert first.stdout.readline().startswith("notifying")
        second = place.run("--once")
        first.send_signal(signal.SIGINT)
        first.communicate()
    assert second.code == 1
    assert "is locked by another process" in second.err
    assert first.returncode == 0


@pytest.mark.parametrize(
    ("page", "begins"),
    [
        ("8900", r"http://127\.\d+\.\d+\.\d+:8900/to/item-"),
        ("https://inbox.example.com", r"https://inbox\.example\.com/to/item-"),
        ("http://[::1]:8090/", r"http://\[::1\]:8090/to/item-"),
    ],
)
def test_links_lead_to_the_page_that_is_named(place: Workplace, page: str, begins: str) -> None:
    """A port means the page of this workspace on this machine, an address that of a gateway."""
    asked(place.task)
    with receiving(200) as receiver:
        place.settings(hook(receiver))
        assert place.run("--once", "--page", page).code == 0
    links = json.loads(receiver.got[0].body)["data"]["links"]
    assert re.match(begins, links["approve"])


@pytest.mark.parametrize(
    "page", ["0", "70000", "x", "https://", "https://a/b", "https://u@h", "ftp://h", "٣", "https://h\n"]
)
def test_a_page_that_is_neither_a_port_nor_an_address_is_refused(place: Workplace, page: str) -> None:
    """It is named, and so is what to give instead."""
    refused = place.run("--once", "--page", page)
    assert refused.code == 2
    assert "--page is neither a port nor an address" in refused.err
    assert "https://inbox.example.com" in refused.err

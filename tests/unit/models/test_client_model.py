"""The box in the store where questions for a client's model are left: who may be asked, and that nothing stays in it."""

from __future__ import annotations

import os
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from adjourn.host import process
from adjourn.host.clock import now
from adjourn.host.process import Process, group_of
from adjourn.models import model
from adjourn.models.model import ModelError, SamplingAnswer, SamplingClient, SamplingRequest
from adjourn.store import Store, open_store

ROOT = "/srv/here"
REQUEST = SamplingRequest(system="s", prompt="p", model="small", max_tokens=5)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    opened = open_store(str(tmp_path / "s.db"))
    yield opened
    opened.close()


@pytest.fixture
def gone() -> Process:
    """A process that has ended."""
    child = subprocess.Popen(["true"])
    child.wait()
    return Process(process.host(), child.pid, 1)


def _offered(store: Store, group: str = "g", client: str = "tester 1") -> SamplingClient:
    sampler = SamplingClient(process.current(), group, client)
    model.offer(store, ROOT, sampler)
    return sampler


def _answered(store: Store, sampler: SamplingClient, answer: SamplingAnswer) -> threading.Thread:
    """Answers the first question, as a proxy does."""

    def work() -> None:
        while not (waiting := model.questions(store, ROOT, sampler.process, now())):
            pass
        assert model.take(store, waiting[0]) == REQUEST
        model.reply(store, waiting[0], answer)

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    return thread


def test_an_answer_comes_back_and_nothing_stays(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """An answered question leaves no ref and no document in the store."""
    kept: list[str] = []
    put = store.put_blob

    def keep(data: bytes) -> str:
        kept.append(put(data))
        return kept[-1]

    monkeypatch.setattr(store, "put_blob", keep)
    sampler = _offered(store)
    answer = SamplingAnswer(text="t", model="m", stop="endTurn")
    thread = _answered(store, sampler, answer)
    assert model.ask(store, ROOT, REQUEST, seconds=10) == answer
    thread.join()
    assert store.refs("sampling/") == {}
    assert len(kept) == 2
    assert [store.get_blob(name) for name in kept] == [None, None]


def test_a_refusal_is_told_with_the_client_and_its_reason(store: Store) -> None:
    """A client's refusal is a model error that names the client and its reason."""
    _answered(store, _offered(store), SamplingAnswer(error="not now"))
    with pytest.raises(ModelError, match="tester 1 returned an error instead of its model's answer: not now"):
        model.ask(store, ROOT, REQUEST, seconds=10)


def test_silence_ends_and_takes_the_question_back(store: Store) -> None:
    """A question without an answer times out and is withdrawn."""
    _offered(store)
    with pytest.raises(ModelError, match=r"gave no answer within 0\.1 seconds"):
        model.ask(store, ROOT, REQUEST, seconds=0.1)
    assert store.refs("sampling/") == {}


def test_a_client_that_withdraws_is_not_waited_for(store: Store) -> None:
    """Its going is noticed while one waits, and before one asks."""
    sampler = _offered(store)
    timer = threading.Timer(0.3, model.withdraw, [store, ROOT, sampler.process])
    timer.start()
    with pytest.raises(ModelError, match="exited before"):
        model.ask(store, ROOT, REQUEST, seconds=10)
    with pytest.raises(ModelError, match="no client is connected"):
        model.sampling_client(store, ROOT)


def test_only_living_clients_of_this_workspace_are_asked(store: Store, gone: Process) -> None:
    """A dead one is none, nor one of another workspace; the client that one was started by comes first."""
    model.offer(store, "/srv/elsewhere", SamplingClient(process.current(), "g", "other"))
    model.offer(store, ROOT, SamplingClient(gone, "g", "dead"))
    with pytest.raises(ModelError):
        model.sampling_client(store, ROOT)
    mine = Process(process.host(), os.getppid(), process.started(os.getppid()) or 0)
    model.offer(store, ROOT, SamplingClient(process.current(), "a", "any"))
    model.offer(store, ROOT, SamplingClient(mine, group_of(process.parent(), ROOT), "own"))
    assert model.sampling_client(store, ROOT).client == "own"


def test_what_a_dead_proxy_left_is_cleared_away(store: Store, gone: Process) -> None:
    """With the next offer: its own, its questions and their documents; and so is a question whose time is over."""
    model.offer(store, ROOT, SamplingClient(gone, "g", "dead"))
    prefix = next(iter(store.refs("sampler/"))).replace("sampler/", "sampling/")
    document = store.put_blob(b"{}")
    store.swap(f"{prefix}/q", f"asked {document} {now() + 60_000}", expect=None)
    sampler = _offered(store)
    assert [name.rsplit("/", 2)[1] for name in store.refs("sampler/")] == [str(os.getpid())]
    assert store.refs("sampling/") == {}
    assert store.get_blob(document) is None
    own = f"{next(iter(store.refs('sampler/'))).replace('sampler/', 'sampling/')}/q"
    store.swap(own, f"asked {store.put_blob(b'{}')} {now() - 1}", expect=None)
    assert model.questions(store, ROOT, sampler.process, now()) == []
    assert store.refs("sampling/") == {}


@pytest.mark.parametrize("value", ["asked", "asked x", "asked x y", "odd", "", "asked  99999999999999"])
def test_what_is_no_question_is_none(store: Store, value: str) -> None:
    """A ref of another make is not put to the client, and does no harm."""
    sampler = _offered(store)
    name = f"{next(iter(store.refs('sampler/'))).replace('sampler/', 'sampling/')}/q"
    store.swap(name, value, expect=None)
    assert model.questions(store, ROOT, sampler.process, now()) == []
    assert model.take(store, name) is None
    model.reply(store, name, SamplingAnswer(error="cannot be read"))
    assert store.ref(name) == value
    model.erase(store, name)


@pytest.mark.parametrize("document", [b"{}", b"nonsense", b'{"system": 1, "prompt": "p"}', None])
def test_a_question_that_cannot_be_read_is_none(store: Store, document: bytes | None) -> None:
    """An unreadable question is not handed to the model."""
    sampler = _offered(store)
    name = f"{next(iter(store.refs('sampler/'))).replace('sampler/', 'sampling/')}/q"
    named = "0" * 64 if document is None else store.put_blob(document)
    store.swap(name, f"asked {named} {now() + 60_000}", expect=None)
    assert model.questions(store, ROOT, sampler.process, now()) == [name]
    assert model.take(store, name) is None


def test_a_late_answer_is_dropped(store: Store) -> None:
    """Where nobody waits any more, nothing is written."""
    sampler = _offered(store)
    name = f"{next(iter(store.refs('sampler/'))).replace('sampler/', 'sampling/')}/q"
    model.reply(store, name, SamplingAnswer(text="late"))
    assert store.refs("sampling/") == {}
    assert sampler.client == "tester 1"

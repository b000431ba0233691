"""Work that is cut off and continues: effects in doubt, tasks shared by one client's proxies, tasks held against others."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from pathlib import Path

from support.proxy import MODERN, NEW, OLD, Client, ProxyWorkspace, refused, text_of

# --- one client, several proxies


def test_the_proxies_of_one_client_share_one_task_and_one_budget_also_when_they_race(tmp_path: Path) -> None:
    """Three proxies of one client that call at once share one task, and exactly its budget passes."""
    with ProxyWorkspace(tmp_path, "allow *", "budget calls=50") as work:
        clients = [work.client(era=era, greet=False) for era in (OLD, NEW, MODERN)]
        for client in clients:
            client.greet()
        answers: list[bool] = []

        def call(client: Client) -> None:
            sent = [client.call_message("echo", {"n": n}) for n in range(30)]
            for start in range(0, 30, 3):
                client.post(*sent[start : start + 3])
            answers.extend(refused(client.answer(message["id"])) for message in sent)

        threads = [threading.Thread(target=call, args=(client,)) for client in clients]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert (len(answers), answers.count(False)) == (90, 50)
        assert len(work.executed()) == 50
        assert len(work.tasks()) == 1
        ledger = work.ledger()
        assert (ledger.calls_used, ledger.calls_refused) == (50, 40)


# --- other clients


def test_another_client_is_refused_with_the_holders_name_until_the_holder_ends(tmp_path: Path) -> None:
    """A task that another client holds is refused with the holder's name and process, until that process exits."""
    with ProxyWorkspace(tmp_path, "allow *") as work:
        holder = work.client("--task", "t", name="claude-code")
        holder.call("echo")
        holder.meta("aex.checkpoint", name="fix")
        (opened,) = [event for event in work.events() if event.event == "session.opened"]
        other = work.client(name="codex", foreign=True)
        answer = other.call("aex.resume", {"name": "fix"})
        assert refused(answer)
        for part in ("held by claude-code", f"process {holder.process.pid}", opened.timestamp, "--take-over"):
            assert part in text_of(answer)
        assert not refused(holder.call("echo"))  # unharmed
        assert work.ledger("t").sessions.keys() == {opened.session}
        holder.kill()  # no farewell
        started = time.monotonic()
        assert other.meta("aex.resume", name="fix")["callsUsed"] == 2
        assert time.monotonic() - started < 2  # seen dead at once, without waiting for a lease


# --- which task


def test_the_task_is_named_by_option_environment_or_meta(tmp_path: Path) -> None:
    """The option goes before the environment; `_meta` names another task only for a client that is bound to none."""
    with ProxyWorkspace(tmp_path, "allow *") as work:
        client = work.client("--task", "by-option", env={"ADJOURN_TASK": "by-environment"}, foreign=True)
        client.call("echo")
        work.client(env={"ADJOURN_TASK": "by-environment"}, foreign=True).call("echo")
        work.client(foreign=True).call("echo", _meta={"dev.adjourn/task": "by-meta"})
        used = {task: work.ledger(task).calls_used for task in work.tasks()}
        assert used == {"by-option": 1, "by-meta": 1, "by-environment": 1}


def test_hooks_work_on_the_task_that_their_client_is_bound_to(tmp_path: Path) -> None:
    """A client whose proxy was given a task has one budget for it and for its own tools."""
    with ProxyWorkspace(tmp_path, "allow echo", "use file.read", "budget calls=2") as work:
        work.client("--task", "bound").call("echo")
        request = json.dumps({"tool_name": "Read", "tool_input": {"file_path": "a"}, "cwd": str(work.root)})
        hook = [sys.executable, "-m", "adjourn", "hook"]
        environment = {key: value for key, value in work.environment.items() if not key.startswith("CLAUDE")}
        said = [
            subprocess.run(hook, input=request, capture_output=True, text=True, env=environment, check=True).stdout
            for _ in range(2)
        ]
        assert ['"allow"' in one for one in said] == [True, False]
        assert work.ledger("bound").calls_used == 2


def test_what_is_no_task_id_stops_the_start(tmp_path: Path) -> None:
    """A proxy that is given a task id which could be a path exits with 1 and says so."""
    with ProxyWorkspace(tmp_path, "allow *") as work:
        broken = work.client("--task", "../x", greet=False)
        assert broken.ended() == 1
        assert "not a task id" in broken.stderr()

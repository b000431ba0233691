"""For tests of servers, policies, agents and stores: a relay in this process, kills, a model provider, and the suite for stores.

    from adjourn.testing import InProcessRelay, ToolServer

    def test_nobody_deploys_without_a_person() -> None:
        with InProcessRelay(ToolServer("deploy"), "allow *", "confirm before deploy") as relay:
            call = relay.begin("deploy")
            assert relay.server.calls == []
            relay.approve()
            assert not relay.answer(call).is_error

It decides, records and answers as `adjourn proxy` does, without pipes, processes, threads or waiting: its clock stands still
until a test moves it (`InProcessRelay.advance`).
"""

from adjourn.store.conformance import StoreConformance
from adjourn.store.memory import MemoryStore
from adjourn.testing._client import InProcessClient, ToolAnswer
from adjourn.testing._kills import kill_points
from adjourn.testing._loop import LineServer, ToolServer
from adjourn.testing._model import ModelRequest, ModelServer, ScriptedReply
from adjourn.testing._relay import InProcessRelay

__all__ = [
    "InProcessClient",
    "InProcessRelay",
    "LineServer",
    "MemoryStore",
    "ModelRequest",
    "ModelServer",
    "ScriptedReply",
    "StoreConformance",
    "ToolAnswer",
    "ToolServer",
    "kill_points",
]

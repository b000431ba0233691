"""Wrap whatever asks a model: its statements are kept, and every tenth reply makes a checkpoint."""

from typing import Any

from adjourn import CognitiveStore, Middleware, SqliteStore

memory = CognitiveStore(SqliteStore("work.db"), "chat", goal="Find the port")


def model(request: dict[str, Any]) -> str:
    """Ask your model here."""
    assert request["messages"]
    return "I looked it up.\nFACT: the port is 8080\nQUESTION: who owns the server?"


ask = Middleware(memory, auto_checkpoint_interval=10).wrap(model)
for number in range(10):
    ask({"messages": [{"role": "user", "content": f"Question {number}"}]})

# in the next process: this prompt gets the state that was saved
(checkpoint,) = memory.checkpoint_ids()
ask({"system": f"RESUME_FROM:{checkpoint}", "messages": [{"role": "user", "content": "Continue"}]})
print(memory.prompt())

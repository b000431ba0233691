"""Create checkpoints when something significant happens."""

from adjourn import CognitiveStore, MemoryStore

memory = CognitiveStore(MemoryStore(), "release", goal="Release version 2", triggers=())
remove = memory.add_triggers("phase_change", "tool_complete")

memory.step("Choose the version", phase="planning")
deploy = memory.step("Deploy", type="tool-call", phase="execution")
memory.update(deploy, status="completed")
remove()
memory.step("Watch the logs", phase="verification")

for name in memory.checkpoint_ids():
    checkpoint = memory.get_checkpoint(name)
    print(checkpoint and checkpoint.label)

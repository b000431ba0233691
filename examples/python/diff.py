"""See what changed between two checkpoints."""

from adjourn import CognitiveStore, MemoryStore, diff_checkpoints

memory = CognitiveStore(MemoryStore(), "release", goal="Release version 2")
build = memory.step("Build")
base = memory.create_checkpoint("base")
memory.update(build, status="completed", confidence=0.9)
memory.step("Deploy", status="pending")
memory.fact("The port is 8080")

changes = diff_checkpoints(base, memory.create_checkpoint("current"))
print([node.label for node in changes.added_nodes], changes.modified_nodes[0].changes, changes.removed_node_ids)
print([fact["content"] for fact in changes.epistemic_changes["facts"]])

"""Two agents work on one task, each in a record of its own. A person settles what they disagree about."""

from adjourn import CRAuthor, MemoryStore, TaskRecord

record = TaskRecord(MemoryStore(), "schema", goal="Choose a database", author="first")
record.decide("Use SQLite", because="one machine is enough", status="tentative")

second = record.fork("second")
second.decide("Use SQLite", status="rejected")
second.decide("Keep the schema small")
record.decide("Use SQLite", status="accepted")

merged = record.merge(second)
print(merged.success, [conflict.resolution for conflict in merged.conflicts])
contested = next(decision for decision in record.current.decisions if decision.status == "contested")
print([(view.author.id, view.status) for view in contested.variants or ()])
record.records.settle_decision(record.id, contested.id, "accepted", CRAuthor(id="bea", type="human"))
print([(decision.description, decision.status) for decision in record.current.decisions])

"""A record that carries work to the next agent: a decision, a question, a gate, and an effect that happens once."""

from adjourn import CRAuthor, SqliteStore, TaskRecord

BEA = CRAuthor(id="bea", type="human")

record = TaskRecord(SqliteStore("work.db"), "pay-42", goal="Pay invoice 42", author="payer")
record.note(facts=["The invoice is due on Friday"], learnings=["The bank closes at six"])
record.decide("Pay by bank transfer", because="the card was refused")
question = record.ask("Which account?", options=["main", "travel"], priority="blocking")
gate = record.resume_point("Transfer", when="the account is known", next_steps=["transfer the amount"])

# people answer in a terminal or a browser (`adjourn inbox`), or here
if question.status == "open":
    question = record.answer(question, "main", by=BEA)
if gate.approval_status == "pending":
    record.approve(gate, by=BEA)

# whoever continues after a kill runs this program again: nothing is said, asked or paid twice
with record.effect("bank", "transfer", {"account": question.answer}, key="invoice:42") as transfer:
    if transfer.run:
        transfer.outputs = {"reference": "T-1"}  # call the bank here
print("made" if transfer.run else "made before", transfer.outputs, record.records.verify_chain(record.id).broken_at)

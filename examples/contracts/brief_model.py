"""Imitates a model, so that the example needs none: returns one sentence with a source for each fact of the prompt."""

import json


def answer(system: str, prompt: str) -> str:
    del system  # it says how to answer
    facts = json.loads(prompt.partition("<facts>")[2].partition("</facts>")[0])
    return " ".join(f"{fact} [{number}]" for number, fact in enumerate(facts, 1))

"""What a person answers on the inbox page: a form, read as the answer that it is.

Owns: that reading. Must never: record an answer itself, or know what each kind of item takes.
"""

from __future__ import annotations

from adjourn import host
from adjourn.errors import AdjournError, NotFoundError
from adjourn.handover import Answerer, ItemReply, record_answer
from adjourn.ui.page import Form, Notice
from adjourn.ui.site import Site

VIA = "page"
"""How events name this way of answering."""


def answer_item(site: Site, form: Form) -> Notice:
    """Record an answer. The form has `kind`, `id`, `task` or `record`, `action`, and what the action needs."""
    store = site.find_store()
    if store is None:
        raise NotFoundError("there is no store any more", "start a session behind `adjourn proxy`")
    option = form.get("option", "")[:6]
    reply = ItemReply(
        form.get("kind", ""),
        form.get("id", ""),
        form.get("action", ""),
        form.get("task", ""),
        form.get("record", ""),
        form.get("text", ""),
        int(option) if option.isascii() and option.isdecimal() else None,
    )
    try:
        said = record_answer(Answerer(store, site.person, VIA, site.clock, host.secret()), reply)
    except AdjournError as error:
        return Notice(f"Not recorded: {error.message}.", "bad", error.remedy)
    return Notice(said.text, "good" if said.is_yes else "plain")

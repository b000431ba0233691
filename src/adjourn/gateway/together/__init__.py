"""All servers at one address: a client's session with several servers, in whichever protocol era each of them speaks.

    single_address.py    the address: its sessions, and when a failed server is tried again
    combined.py          one client's session: which server a message is for
    parts.py             its parts, which come and go with the settings; introduction.py presents the client to a new one
    member.py            a server's part in it: a relay that decides and records
    own_link.py          the gateway's own part, which has the meta-tools
    listings.py          what they list, as one list; merging.py edits the items, gathering.py waits for them
    task_handles.py      ids of tasks, which say whose they are
    resource_owners.py, server_questions.py, changes.py    whose a resource, a question, a subscription is
    upstream_session.py  the gateway's own session with a server; handshake.py begins it, watching.py keeps a stream open
    crossing.py, to_legacy.py, to_modern.py, stateless.py    messages of one era in the other
    server_health.py     whether a server is there

Must never: decide on a call.
"""

from adjourn.front_door import lazily

TYPE_CHECKING = False  # as in adjourn/__init__.py

if TYPE_CHECKING:
    from adjourn.gateway.together.member import Member
    from adjourn.gateway.together.single_address import SingleAddress

__all__ = ["Member", "SingleAddress"]

if not TYPE_CHECKING:
    __getattr__, __dir__ = lazily(__name__, {"member": ("Member",), "single_address": ("SingleAddress",)})

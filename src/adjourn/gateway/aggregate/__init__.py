"""All servers at one address: a client's session with several servers, in whichever protocol era each of them speaks.

    address.py           the address: its sessions, and when a failed server is tried again
    session.py           one client's session: which server a message is for
    backends.py          its backends, which come and go with the settings: each a relay that decides and records
    listings.py          what they list and what changes of it, as one; merging.py edits the items
    task_handles.py      ids of tasks, which name their server
    upstream_session.py  the gateway's own session with a server; watching.py its subscriptions there
    handshake.py         the era of a server; era_bridge.py translates messages of one era into the other

Must never: decide on a call.
"""

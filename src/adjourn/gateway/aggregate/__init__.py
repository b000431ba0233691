"""All servers at one address: a client's session with several servers, in whichever protocol era each of them speaks.

    single_address.py    the address: its sessions, and when a failed server is tried again
    combined.py          one client's session: which server a message is for
    parts.py             its parts, which come and go with the settings, and the gateway's own, which has the meta-tools
    member.py            a server's part in it: a relay that decides and records
    listings.py          what they list, as one list; merging.py edits the items
    task_handles.py      ids of tasks, which say whose they are
    watching.py          what servers say of changes, and who hears it
    upstream_session.py  the gateway's own session with a server
    crossing.py          the era of a server; era_bridge.py translates messages of one era into the other

Must never: decide on a call.
"""

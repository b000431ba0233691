"""Notifications: telling a person elsewhere that something begins to wait for them, by a command, a webhook or the desktop.

Owns: what a notification says, who gets it, and that each gets it at least once. Must never: answer anything, or read a setting from a workspace.
"""

from adjourn.front_door import lazily

TYPE_CHECKING = False  # as in adjourn/__init__.py

if TYPE_CHECKING:
    from adjourn.notify.message import Notification, body
    from adjourn.notify.notifier import Notifier
    from adjourn.notify.outbox import Outbox
    from adjourn.notify.senders import UndeliveredError, sender_of, signature
    from adjourn.notify.settings import NotifySettings, Target, key_of, name_of, read_settings

__all__ = [
    "Notification", "Notifier", "NotifySettings", "Outbox", "Target", "UndeliveredError", "body", "key_of", "name_of", "read_settings",
    "sender_of", "signature",
]  # fmt: skip

if not TYPE_CHECKING:
    __getattr__, __dir__ = lazily(__name__, {
        "message": ("Notification", "body"),
        "notifier": ("Notifier",),
        "outbox": ("Outbox",),
        "senders": ("UndeliveredError", "sender_of", "signature"),
        "settings": ("NotifySettings", "Target", "key_of", "name_of", "read_settings"),
    })  # fmt: skip

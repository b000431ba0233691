"""What tests of confirmation share: a policy that confirms one tool, its call, and the replies of a client's dialog."""

from __future__ import annotations

from support.proxy import Message

POLICY = ("allow *", "confirm before file.write", "budget calls=9")
ARGUMENTS = {"path": "src/a.py", "text": "hello", "token": "s3cret"}
ACCEPT: Message = {"action": "accept", "content": {"approve": True}}
DECLINE: Message = {"action": "decline"}
CANCEL: Message = {"action": "cancel"}

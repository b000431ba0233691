"""Asking a language model: through a client's sampling, or for a draft of a contract."""

from adjourn.front_door import lazily

TYPE_CHECKING = False  # as in adjourn/__init__.py

if TYPE_CHECKING:
    from adjourn.models.client_model import SamplingAnswer, SamplingRequest
    from adjourn.models.draft import Draft
    from adjourn.models.model import Completion, Model, ModelError

__all__ = [
    "Completion",
    "Draft",
    "Model",
    "ModelError",
    "SamplingAnswer",
    "SamplingRequest",
]

if not TYPE_CHECKING:
    __getattr__, __dir__ = lazily(
        __name__,
        {
            "client_model": ("SamplingAnswer", "SamplingRequest"),
            "draft": ("Draft",),
            "model": ("Completion", "Model", "ModelError"),
        },
    )

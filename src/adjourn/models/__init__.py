"""."""

from adjourn.front_door import lazily

TYPE_CHECKING = False  # as in adjourn/__init__.py

if TYPE_CHECKING:
    from adjourn.models.client_model import Answer, Request
    from adjourn.models.draft import Draft
    from adjourn.models.model import Completion, Model, ModelError

__all__ = [
    "Answer",
    "Completion",
    "Draft",
    "Model",
    "ModelError",
    "Request",
]

if not TYPE_CHECKING:
    __getattr__, __dir__ = lazily(
        __name__,
        {
            "Answer": "client_model",
            "Completion": "model",
            "Draft": "draft",
            "Model": "model",
            "ModelError": "model",
            "Request": "client_model",
        },
    )

"""What adjourn looks like from elsewhere: model providers and frameworks. Each module imports its SDK when it is used."""

from adjourn.front_door import lazily

TYPE_CHECKING = False  # as in adjourn/__init__.py

if TYPE_CHECKING:
    from adjourn.adapters.models import choose
    from adjourn.adapters.otlp import Exporter

__all__ = ["Exporter", "choose"]

if not TYPE_CHECKING:
    __getattr__, __dir__ = lazily(__name__, {"models": ("choose",), "otlp": ("Exporter",)})

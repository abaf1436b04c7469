"""Live users: each event counts in the very next score.

from resus.serving import Engine, LoadedModel, open_store

engine = Engine(LoadedModel.load(Path("runs/live-export")), open_store("events.sqlite", capacity=200))

`LiveUser` is the state of one user, without a store.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from resus.serving.engine import Engine
    from resus.serving.live.user import LiveUser
    from resus.serving.loaded import LoadedModel
    from resus.serving.store import Event, EventStore, UserRecord, open_store

__all__ = ["Engine", "Event", "EventStore", "LiveUser", "LoadedModel", "UserRecord", "open_store"]

_HOMES = {
    "Engine": "engine",
    "Event": "store",
    "EventStore": "store",
    "LiveUser": "live.user",
    "LoadedModel": "loaded",
    "UserRecord": "store",
    "open_store": "store",
}


def __getattr__(name: str) -> Any:
    """Import on first use: a store does not need torch."""
    if name in _HOMES:
        return getattr(import_module(f"resus.serving.{_HOMES[name]}"), name)
    raise AttributeError(f"module 'resus.serving' has no attribute '{name}'")

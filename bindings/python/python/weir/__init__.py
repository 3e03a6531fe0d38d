"""Video analytics on live cameras and recordings under a latency promise.

    import weir

    with weir.Engine("graph.toml") as engine:
        for delivery in engine.deliveries():
            for found in delivery.objects:
                print(delivery.stream, delivery.frame, found.class_name, found.score, found.box)
"""

from . import _runtime

_runtime.find()
_runtime.load()

from ._deliveries import Deliveries  # noqa: E402
from ._engine import Engine, check  # noqa: E402
from ._errors import EngineError, Error, GraphError, Problem, StreamError  # noqa: E402
from ._graph import Graph  # noqa: E402
from ._operators import Found, FrameFacts, HeadItem, Item, head, operator, sink, transform  # noqa: E402
from ._weir import Delivery, Image, Incident, Notice, Object, Track, TrackEnd, __version__  # noqa: E402

__all__ = [
    "Deliveries",
    "Delivery",
    "Engine",
    "EngineError",
    "Error",
    "Found",
    "FrameFacts",
    "Graph",
    "GraphError",
    "HeadItem",
    "Image",
    "Incident",
    "Item",
    "Notice",
    "Object",
    "Problem",
    "StreamError",
    "Track",
    "TrackEnd",
    "__version__",
    "check",
    "head",
    "operator",
    "sink",
    "transform",
]

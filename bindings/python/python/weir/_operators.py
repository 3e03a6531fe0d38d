"""Functions that graphs name as ``python:MODULE.FUNCTION``: operators, heads, transforms and sinks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    import numpy
    import numpy.typing

Box = tuple[float, float, float, float]


@dataclass
class FrameFacts:
    """Facts of the frame that an item comes from."""

    stream: str = ""
    """Name of the stream; empty for the blank pictures by which a function is measured before the first frame."""
    sequence: int = 0
    """Number of the frame within its stream, from 0."""
    pts_ms: float = 0.0
    """Time within the recording or the stream, in milliseconds."""
    width: int = 0
    """Width of the frame in pixels."""
    height: int = 0
    """Height of the frame in pixels."""


@dataclass
class Item:
    """One picture of a batch: a whole frame, or the crop of an object."""

    pixels: numpy.typing.NDArray[numpy.uint8]
    """Red, green and blue, of shape (height, width, 3). The next call overwrites them: copy what you keep."""
    frame: FrameFacts = field(default_factory=FrameFacts)
    """The frame that it comes from."""
    box: Box | None = None
    """Left, top, right and bottom of a crop in pixels of the frame; ``None`` for a whole frame."""
    label: str | None = None
    """Class of the object that was cropped; ``None`` for a whole frame."""


@dataclass
class HeadItem:
    """Place of one item of a batch in its frame, for heads."""

    input: tuple[int, int] = (1, 1)
    """Width and height of the model's input in pixels."""
    frame: tuple[float, float] = (1.0, 1.0)
    """Width and height of the frame in pixels."""
    matrix: Sequence[float] = (1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0)
    """From pixels of the input to those of the frame: nine coefficients, row by row."""

    def point(self, x: float, y: float) -> tuple[float, float]:
        """The pixel of the frame at a pixel of the input."""
        m = self.matrix
        w = m[6] * x + m[7] * y + m[8]
        return (m[0] * x + m[1] * y + m[2]) / w, (m[3] * x + m[4] * y + m[5]) / w

    def box(self, box: Box | Sequence[float]) -> Box:
        """The box of the frame at a box of the input, within the frame."""
        left, top = self.point(box[0], box[1])
        right, bottom = self.point(box[2], box[3])
        width, height = self.frame
        return (
            min(max(left, 0.0), width),
            min(max(top, 0.0), height),
            min(max(right, 0.0), width),
            min(max(bottom, 0.0), height),
        )


@dataclass
class Found:
    """An object that an operator or a head found."""

    label: str
    """Its class."""
    score: float
    """Confidence, 0 to 1."""
    box: Box | Sequence[float]
    """Left, top, right and bottom in pixels of the item of an operator, and of the frame for heads."""


_Function = TypeVar("_Function", bound=Callable[[list[Any]], Sequence[Any]])
_Head = TypeVar("_Head", bound=Callable[[dict[str, Any], list[Any]], Sequence[Any]])
_Transform = TypeVar("_Transform", bound=Callable[[Any], Any])
_Sink = TypeVar("_Sink", bound=Callable[[dict[str, Any]], None])


def operator(function: _Function) -> _Function:
    """Marks a function as an operator, which graphs may name.

    The function takes a list of :class:`Item` and returns a list with a result for each: a ``dict`` of attributes, a list
    of :class:`Found`, or ``None``. The value of an attribute is a text, a number, ``True`` or ``False``, or a text with its
    score, as ``("red", 0.9)``. The function itself stays as it is, so it can be called in tests.

        @weir.operator
        def brightness(items):
            return [{"brightness": item.pixels.mean()} for item in items]
    """
    function.__weir_operator__ = True  # type: ignore[attr-defined]
    return function


def head(function: _Head) -> _Head:
    """Marks a function as a head, which models may name.

    The function takes the outputs of a batch, arrays by their names whose first size is the number of items, and a list of
    :class:`HeadItem`. It returns a list with a result for each item, as operators do, with boxes in pixels of the frame.

        @weir.head
        def boxes(outputs, items):
            rows = outputs["output0"]
            return [[weir.Found("car", row[4], item.box(row[:4])) for row in found] for found, item in zip(rows, items)]
    """
    function.__weir_head__ = True  # type: ignore[attr-defined]
    return function


def transform(function: _Transform) -> _Transform:
    """Marks a function, or a class with a state for each stream, as a transform, which graphs may name.

    The function takes the event line of a frame as a ``dict``; a class is made with the name of a stream, and called with its
    frames. It returns ``None``, or a ``dict`` with ``"objects"`` of the frame whose attributes it changed, and ``"incidents"``.

        @weir.transform
        def many(frame):
            return {"incidents": [{"phase": "end", "key": "many"}] if len(frame["objects"]) > 10 else []}
    """
    function.__weir_transform__ = True  # type: ignore[attr-defined]
    return function


def sink(function: _Sink) -> _Sink:
    """Marks a function as a sink, which graphs may name. It takes an event line as a ``dict``.

        @weir.sink
        def show(event):
            print(event["stream"], event["type"])
    """
    function.__weir_sink__ = True  # type: ignore[attr-defined]
    return function

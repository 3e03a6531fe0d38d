"""Operators: functions that graphs name as ``operator = "python:MODULE.FUNCTION"``."""

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
class Found:
    """An object that an operator found in an item."""

    label: str
    """Its class."""
    score: float
    """Confidence, 0 to 1."""
    box: Box | Sequence[float]
    """Left, top, right and bottom in pixels of the item."""


_Function = TypeVar("_Function", bound=Callable[[list[Any]], Sequence[Any]])


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

"""Operators that are written in Python, called directly and by the engine."""

from __future__ import annotations

from pathlib import Path

import numpy
import pytest

import weir

MODULE = """
import weir

@weir.operator
def brightness(items):
    return [{"brightness": item.pixels.mean(), "stream": item.frame.stream} for item in items]
"""


@weir.operator
def corner(items: list[weir.Item]) -> list[list[weir.Found]]:
    """Finds the left upper quarter."""
    return [[weir.Found("corner", 0.5, (0, 0, item.pixels.shape[1] / 2, item.pixels.shape[0] / 2))] for item in items]


def test_marked_function_can_be_called() -> None:
    found = corner([weir.Item(numpy.zeros((4, 6, 3), numpy.uint8))])
    assert found == [[weir.Found("corner", 0.5, (0, 0, 3, 2))]]


def test_heads_transforms_and_sinks_can_be_called() -> None:
    @weir.head
    def whole(outputs: dict[str, numpy.ndarray], items: list[weir.HeadItem]) -> list[list[weir.Found]]:
        return [[weir.Found("whole", 1.0, item.box((0, 0, *item.input)))] for item in items]

    @weir.transform
    class Count:
        def __init__(self, stream: str) -> None:
            self.frames = 0

        def __call__(self, frame: dict[str, object]) -> dict[str, object]:
            self.frames += 1
            return {"incidents": [{"phase": "end", "key": str(self.frames)}]}

    @weir.sink
    def keep(event: dict[str, object]) -> None:
        kept.append(event)

    kept: list[dict[str, object]] = []
    item = weir.HeadItem((2, 2), (40.0, 30.0), (20.0, 0.0, 0.0, 0.0, 20.0, 0.0, 0.0, 0.0, 1.0))
    assert whole({}, [item]) == [[weir.Found("whole", 1.0, (0.0, 0.0, 40.0, 30.0))]]
    assert Count("camera")({}) == {"incidents": [{"phase": "end", "key": "1"}]}
    keep({"type": "frame"})
    assert kept == [{"type": "frame"}]


def graph() -> weir.Graph:
    graph = weir.Graph("python", slo="30s")
    camera = graph.source("camera", "emulated:uniform?rate=100&frames=3&size=64x48", mode="lossless")
    graph.module("light", "python:mine.brightness", inputs=camera)
    return graph


def test_attributes_of_an_operator_are_delivered(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(MODULE)
    with weir.Engine(graph(), python=tmp_path) as engine:
        values = [found.attributes for delivery in engine.deliveries() for found in delivery.objects]
    assert len(values) == 3
    assert all(value["stream"]["class"] == "camera" for value in values), values


def test_graph_may_not_name_python_without_the_folder(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(MODULE)
    with pytest.raises(weir.GraphError, match="in Python"):
        weir.check(graph())
    weir.check(graph(), python=tmp_path)

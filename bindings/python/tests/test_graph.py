"""Graphs: files, graphs built in Python, and problems with their places."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any

import numpy
import pytest
from conftest import emulated

import weir

WRONG = """[app]
name = "wrong"
slo = "fast"
[sources.camera]
uri = "emulated:uniform?rate=10"
colour = "red"
"""


def test_problems_of_a_file_have_its_lines(tmp_path: Path) -> None:
    file = tmp_path / "graph.toml"
    file.write_text(WRONG)
    for run in (weir.check, weir.Engine):
        with pytest.raises(weir.GraphError) as raised:
            run(file)
        problems = raised.value.problems
        assert {problem.line for problem in problems} >= {3, 6}
        assert all(problem.file == str(file) for problem in problems)
        assert f"{file}:3:" in str(raised.value)


def test_missing_file_is_a_graph_error(tmp_path: Path) -> None:
    with pytest.raises(weir.GraphError, match="cannot be read"):
        weir.check(tmp_path / "none.toml")


def test_problems_of_a_built_graph_have_lines_of_python() -> None:
    graph = emulated()
    frame = inspect.currentframe()
    assert frame is not None
    graph.module("bad", "emulate", model="none", inputs="look", colour="red")
    line = frame.f_lineno - 1
    with pytest.raises(weir.GraphError) as raised:
        weir.check(graph)
    assert {(problem.file, problem.line) for problem in raised.value.problems} == {(__file__, line)}
    assert f"{__file__}:{line}:" in str(raised.value)


def test_texts_survive_as_they_are(tmp_path: Path) -> None:
    graph = weir.Graph('a "quoted"\tname\x7f \u00e4\U0001f600', slo="1s")
    camera = graph.source("camera.one", "emulated:uniform?rate=10&frames=1")
    model = graph.model("any", device="emulated:a", profile={"1": "1ms"})
    graph.module("look", "emulate", model=model, inputs=[camera])
    unused = weir.check(graph)
    assert len(unused) == 1 and "nothing takes what module" in unused[0]
    file = tmp_path / "graph.toml"
    file.write_text(graph.to_toml())
    assert len(weir.check(file)) == 1


def test_numbers_and_arrays_of_numpy_are_those_of_python() -> None:
    def text(threshold: Any, count: Any, points: Any, flag: Any) -> str:
        graph = emulated()
        graph.transform("area", "zone", inputs="look", points=points, threshold=threshold, count=count, flag=flag)
        return graph.to_toml()

    own = text(0.25, 3, [[0.0, 0.5], [1.0, 0.5], [1.0, 1.0]], True)
    points = numpy.array([[0.0, 0.5], [1.0, 0.5], [1.0, 1.0]])
    assert text(numpy.float64(0.25), numpy.int64(3), points, numpy.bool_(True)) == own
    assert text(numpy.float32(0.25), numpy.uint8(3), list(points), True) == own


def test_value_that_no_graph_holds_is_refused() -> None:
    with pytest.raises(TypeError, match="set"):
        emulated().sink("bad", "null", inputs="look", classes={"car"})

"""Graphs that are built in Python."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

from . import _toml
from ._errors import GraphError, Problem

Inputs = str | Sequence[str]


class Graph:
    """A graph that is built in Python instead of a file.

    Methods add tables and return the name of the table, so that it can be the input of the next. Keys are those of
    ``docs/reference/graph.md``; those that a method does not name are passed on as they are. Relative paths are relative to
    the current folder. Problems name the Python line that added the table.

        graph = weir.Graph("door", slo="400ms")
        camera = graph.source("camera", "rtsp://camera/stream")
        people = graph.model("people", "zoo:yolox-nano")
        graph.module("detect", "detect", model=people, inputs=camera)
    """

    def __init__(self, name: str, *, slo: str, **keys: Any) -> None:
        """A graph without tables but ``[app]``; ``slo`` is the latency objective, such as ``"400ms"``."""
        self._lines: list[str] = []
        self._places: list[tuple[str, int]] = []
        self._add("app", None, {"name": name, "slo": slo, **keys})

    def source(
        self,
        name: str,
        uri: str | os.PathLike[str],
        *,
        mode: Literal["live", "lossless"] | None = None,
        **keys: Any,
    ) -> str:
        """Adds a source: a file, a folder of images, or the address of a camera."""
        return self._add("sources", name, {"uri": uri, "mode": mode, **keys})

    def device(self, name: str, **keys: Any) -> str:
        """Adds a device."""
        return self._add("devices", name, keys)

    def model(
        self,
        name: str,
        model: str | os.PathLike[str] | None = None,
        *,
        device: str | None = None,
        batch: Sequence[int] | None = None,
        **keys: Any,
    ) -> str:
        """Adds a model: an ``.onnx`` file, ``zoo:NAME`` or ``embedded:NAME``."""
        return self._add("models", name, {"model": model, "device": device, "batch": batch, **keys})

    def module(
        self,
        name: str,
        operator: str,
        *,
        inputs: Inputs,
        model: str | None = None,
        regions: Sequence[str] | None = None,
        **keys: Any,
    ) -> str:
        """Adds a module, such as ``detect``, ``read-text`` or ``track``."""
        given = {"operator": operator, "model": model, "inputs": _list(inputs), "regions": regions}
        return self._add("modules", name, {**given, **keys})

    def transform(self, name: str, type: str, *, inputs: Inputs, **keys: Any) -> str:
        """Adds a transform of tracks, such as ``line`` or ``zone``."""
        return self._add("transforms", name, {"type": type, "inputs": _list(inputs), **keys})

    def sink(self, name: str, type: str, *, inputs: Inputs, **keys: Any) -> str:
        """Adds a sink, such as ``jsonl`` or ``mp4``."""
        return self._add("sinks", name, {"type": type, "inputs": _list(inputs), **keys})

    def policy(self, **keys: Any) -> None:
        """Adds the policy."""
        self._add("policy", None, keys)

    def to_toml(self) -> str:
        """The text of the graph, as a file has it."""
        return "\n".join([*self._lines, ""])

    def _add(self, section: str, name: str | None, keys: dict[str, Any]) -> str:
        caller = sys._getframe(2)
        place = (caller.f_code.co_filename, caller.f_lineno)
        added = list(_toml.lines(section, name, keys))
        self._lines.extend(added)
        self._places.extend([place] * len(added))
        return name or section

    def _place(self, problem: Problem) -> Problem:
        if not 0 < problem.line <= len(self._places):
            return problem
        file, line = self._places[problem.line - 1]
        return Problem(file, line, None, problem.message, problem.hint)

    def _error(self, error: GraphError) -> GraphError:
        problems = [self._place(problem) for problem in error.problems]
        return GraphError("\n".join(map(str, problems)), problems)

    @staticmethod
    def _path() -> str:
        return str(Path.cwd() / "weir.Graph")


def _list(inputs: Inputs) -> list[str]:
    return [inputs] if isinstance(inputs, str) else list(inputs)

"""Exceptions of the package."""

from __future__ import annotations

import os
from dataclasses import dataclass


class Error(Exception):
    """Base of all exceptions of this package."""


@dataclass(frozen=True)
class Problem:
    """A problem of a graph with its place."""

    file: str
    """The file of the graph, or the Python file that built it."""
    line: int
    """Line from 1; 0 where the problem concerns the whole file."""
    column: int | None
    """Column from 1."""
    message: str
    """The problem."""
    hint: str | None
    """A way to fix it."""

    def __str__(self) -> str:
        place = f"{self.file}:{self.line}:" if self.line else f"{self.file}:"
        hint = f"\n    hint: {self.hint}" if self.hint else ""
        return f"{place} {self.message}{hint}"


class GraphError(Error):
    """A graph that cannot be run. Its text is that of ``weir check``."""

    problems: list[Problem]
    """All problems that were found, by line."""

    def __init__(
        self, text: str, problems: list[tuple[str, int, int | None, str, str | None]] | list[Problem]
    ) -> None:
        super().__init__(text)
        self.problems = [
            problem if isinstance(problem, Problem) else Problem(*problem) for problem in problems
        ]


class EngineError(Error):
    """An engine that cannot start or that failed, or streams and sinks that failed while the rest ran to its end."""


class StreamError(Error):
    """A change of a running engine that was refused. Nothing was changed."""


def check_process(process: int) -> None:
    """Raises :class:`EngineError` in any other process: threads of an engine are not copied to one that is forked, which would wait for them forever."""
    if os.getpid() != process:
        raise EngineError(
            "the engine does not run in a process that was forked from its own: start an engine there, and use the start"
            ' method "spawn" of multiprocessing'
        )

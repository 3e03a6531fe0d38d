"""Engines."""

from __future__ import annotations

import atexit
import json
import os
import weakref
from collections.abc import Sequence
from types import TracebackType
from typing import Any, Literal

from . import _toml, _weir
from ._deliveries import Deliveries
from ._errors import Error, GraphError, check_process
from ._graph import Graph

GraphLike = str | os.PathLike[str] | Graph


class Engine:
    """A graph that runs from here on, until its sources end or it is stopped.

    It runs on threads of its own, which never take the interpreter lock. Used by ``with`` it is stopped at the end of the
    block; what still runs when the interpreter exits is stopped then.
    """

    def __init__(
        self,
        graph: GraphLike,
        *,
        frames: bool = False,
        capacity: int = 64,
        when_slow: Literal["wait", "skip"] | None = None,
        speed: float | Literal["max"] = 1.0,
        duration: float | None = None,
        until_stopped: bool = False,
        python: str | os.PathLike[str] | None = None,
    ) -> None:
        """Checks and starts a graph: returns when its models are open and its sources have begun.

        :param graph: the path of a graph, or a :class:`Graph`.
        :param frames: deliveries have their picture. Its memory is that of a frame in flight while it is kept.
        :param capacity: deliveries that wait for Python at most.
        :param when_slow: for a full queue, ``"skip"`` discards its oldest delivery, counted in :attr:`skipped`, and ``"wait"``
            holds up the engine. The default is ``"wait"`` where all sources are lossless, and ``"skip"`` otherwise.
        :param speed: pace of recordings as a multiple of their own, or ``"max"``.
        :param duration: seconds after which sources stop.
        :param until_stopped: goes on while no stream is left, so that streams can be added.
        :param python: folder of the Python modules that the graph may name operators of (:func:`operator`). They run in
            processes of their own, each with ``python3`` or the interpreter that the graph names.
        :raises GraphError: the graph has problems.
        :raises EngineError: a model, a source or a sink cannot be opened.
        """
        if capacity < 1:
            raise ValueError("capacity must be at least 1")
        path, text = _source_of(graph)
        try:
            self._started = _weir.Engine(
                path,
                text,
                capacity=capacity,
                when_slow=when_slow,
                frames=frames,
                speed=None if speed == "max" else speed,
                duration=duration,
                until_stopped=until_stopped,
                python=_folder(python),
            )
        except GraphError as error:
            raise _placed(graph, error) from None
        self._process = os.getpid()
        _running.add(self)

    @property
    def _inner(self) -> _weir.Engine:
        check_process(self._process)
        return self._started

    def deliveries(self) -> Deliveries:
        """Iterates over what comes out of the graph, in frame order within each stream."""
        return Deliveries(self._inner.consumer())

    def notices(self) -> list[_weir.Notice]:
        """Drops, frames in which nothing moved, states of streams, and tracks and incidents that ended with their stream, since the last call.

        The latest 1,024 are kept.
        """
        return self._inner.notices()

    @property
    def skipped(self) -> int:
        """Deliveries that were discarded because they were not taken in time."""
        return self._inner.skipped

    @property
    def finished(self) -> bool:
        """Whether the engine has ended."""
        return self._inner.finished

    def add_stream(
        self,
        name: str,
        uri: str | os.PathLike[str],
        *,
        like: str | None = None,
        into: Sequence[str] | None = None,
        **keys: Any,
    ) -> None:
        """Adds a stream.

        :param like: the source of the graph whose inputs it shares; by default its frames enter whatever takes frames.
        :param into: modules and sinks that its frames enter, instead.
        :param keys: keys of ``[sources.NAME]``.
        :raises StreamError: nothing was changed.
        """
        text = "\n".join(_toml.lines("sources", name, {"uri": uri, **keys}))
        self._inner.add_stream(text, like, None if into is None else list(into))

    def remove_stream(self, name: str) -> dict[str, Any]:
        """Removes a stream once what is in flight has come out, and returns its report.

        :raises StreamError: nothing was changed.
        """
        return _read(self._inner.remove_stream(name))

    def pause(self, name: str) -> None:
        """Pauses a stream: its source is closed.

        :raises StreamError: nothing was changed.
        """
        self._inner.pause(name)

    def resume(self, name: str) -> None:
        """Resumes a stream that is paused.

        :raises StreamError: nothing was changed.
        """
        self._inner.resume(name)

    def swap(self, graph: GraphLike) -> None:
        """Puts another graph into force without losing a frame. Streams go on.

        :raises GraphError: the graph has problems; nothing was changed.
        :raises EngineError: the graph cannot be put into force; nothing was changed.
        """
        try:
            self._inner.swap(*_source_of(graph))
        except GraphError as error:
            raise _placed(graph, error) from None

    def report(self) -> dict[str, Any]:
        """The report until now, or the final one, as ``weir run --report`` writes it."""
        return _read(self._inner.report())

    def state(self) -> dict[str, Any]:
        """Streams, modules, sinks and policy now, as ``GET /api/state`` of ``weir serve`` has them.

        :raises StreamError: the engine has ended.
        """
        return _read(self._inner.state())

    def wait(self) -> dict[str, Any]:
        """Waits for the end and returns the report. Deliveries are discarded unless an iterator takes them.

        :raises EngineError: a stream or a sink failed, which the report says, too.
        """
        return _read(self._inner.wait())

    def stop(self) -> dict[str, Any]:
        """Ends the sources, waits for frames in progress, and returns the report.

        Deliveries that nobody took can be taken afterwards, as far as the queue holds them.
        """
        return _read(self._inner.stop())

    def __enter__(self) -> Engine:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._process != os.getpid():
            return
        try:
            self.stop()
        except Error:
            # What ended the block says more.
            if error is None:
                raise


def check(graph: GraphLike, *, python: str | os.PathLike[str] | None = None) -> list[str]:
    """Checks a graph as ``weir check`` does, without opening models or sources, and returns its warnings.

    :param python: folder of the Python modules that the graph may name operators of.
    :raises GraphError: the graph has problems.
    """
    try:
        return _weir.check(*_source_of(graph), _folder(python))
    except GraphError as error:
        raise _placed(graph, error) from None


_running: weakref.WeakSet[Engine] = weakref.WeakSet()


@atexit.register
def _stop_all() -> None:
    for engine in list(_running):
        try:
            engine.stop()
        except Error:
            pass


def _source_of(graph: GraphLike) -> tuple[str, str | None]:
    if isinstance(graph, Graph):
        return graph._path(), graph.to_toml()
    return os.fspath(graph), None


def _folder(path: str | os.PathLike[str] | None) -> str | None:
    return None if path is None else os.fspath(path)


def _placed(graph: GraphLike, error: GraphError) -> GraphError:
    return graph._error(error) if isinstance(graph, Graph) else error


def _read(text: str) -> dict[str, Any]:
    read: dict[str, Any] = json.loads(text)
    return read

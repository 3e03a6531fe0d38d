"""Iteration over deliveries."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Iterator

from . import _weir
from ._errors import check_process


class Deliveries(Iterator[_weir.Delivery], AsyncIterator[_weir.Delivery]):
    """Deliveries of an engine, for ``for`` and ``async for``.

    The iteration ends with the engine, and raises :class:`EngineError` then where a stream or a sink failed. Several
    iterators of one engine, as in several threads, share its deliveries: each delivery goes to one of them.
    """

    def __init__(self, consumer: _weir.Consumer) -> None:
        self._consumer = consumer
        self._process = os.getpid()

    def __iter__(self) -> Deliveries:
        return self

    def __next__(self) -> _weir.Delivery:
        """Waits for the next delivery, without the interpreter lock."""
        check_process(self._process)
        return self._consumer.take()

    def __aiter__(self) -> Deliveries:
        return self

    async def __anext__(self) -> _weir.Delivery:
        """Waits for the next delivery, without a thread. One task at a time awaits one iterator."""
        check_process(self._process)
        descriptor = self._consumer.fileno()
        while (delivery := self._consumer.take_now()) is None:
            await _readable(descriptor)
        return delivery


async def _readable(descriptor: int) -> None:
    loop = asyncio.get_running_loop()
    readable: asyncio.Future[None] = loop.create_future()

    def wake() -> None:
        if not readable.done():
            readable.set_result(None)

    loop.add_reader(descriptor, wake)
    try:
        await readable
    finally:
        loop.remove_reader(descriptor)

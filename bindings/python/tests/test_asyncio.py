"""Deliveries in an event loop."""

from __future__ import annotations

import asyncio
import os

from conftest import emulated

import weir


def test_async_for_gets_every_frame_while_other_tasks_run() -> None:
    async def run() -> tuple[list[int], int]:
        ticks = 0

        async def tick() -> None:
            nonlocal ticks
            while True:
                ticks += 1
                await asyncio.sleep(0)

        ticking = asyncio.create_task(tick())
        engine = weir.Engine(emulated(frames=40))
        frames = [delivery.frame async for delivery in engine.deliveries()]
        ticking.cancel()
        return frames, ticks

    frames, ticks = asyncio.run(run())
    assert frames == list(range(40)) and ticks > 40


def test_two_loops_in_one_task_group_share_the_deliveries() -> None:
    async def run() -> list[int]:
        engine = weir.Engine(emulated(frames=100, rate=1000))

        async def take() -> list[int]:
            return [delivery.frame async for delivery in engine.deliveries()]

        first, second = await asyncio.gather(take(), take())
        return first + second

    assert sorted(asyncio.run(run())) == list(range(100))


def test_wait_that_is_cancelled_leaves_the_engine_running() -> None:
    async def run() -> int:
        with weir.Engine(emulated(frames=None, rate=1), until_stopped=True) as engine:
            deliveries = engine.deliveries()
            await anext(deliveries)
            try:
                await asyncio.wait_for(anext(deliveries), 0.05)
            except asyncio.TimeoutError:
                pass
            engine.add_stream("fast", "emulated:uniform?rate=100")
            return (await anext(deliveries)).frame

    assert asyncio.run(run()) >= 0


def test_iterators_that_are_gone_leave_no_descriptors() -> None:
    async def run() -> tuple[int, int]:
        with weir.Engine(emulated(frames=None, rate=500)) as engine:
            await anext(engine.deliveries())
            before = len(os.listdir("/proc/self/fd"))
            for _ in range(20):
                await anext(engine.deliveries())
            return before, len(os.listdir("/proc/self/fd"))

    before, after = asyncio.run(run())
    assert after <= before

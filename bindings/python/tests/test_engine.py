"""Engines: deliveries, streams that come and go, other graphs, and the end."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable

import pytest
from conftest import emulated

import weir


def until(condition: Callable[[], bool]) -> None:
    """Waits for a condition that comes true at some time."""
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def states(engine: weir.Engine) -> dict[str, str]:
    return {stream["name"]: stream["state"] for stream in engine.state()["streams"]}


def test_lossless_source_delivers_every_frame_in_order() -> None:
    engine = weir.Engine(emulated(frames=50))
    deliveries = list(engine.deliveries())
    assert [delivery.frame for delivery in deliveries] == list(range(50))
    first = deliveries[0]
    assert (first.stream, first.width, first.height, first.late) == ("camera", 64, 48, False)
    assert first.image is None and first.latency_ms >= 0
    assert first.to_dict() == json.loads(first.to_json())
    assert first.to_dict()["stream"] == "camera"
    report = engine.report()
    assert report["requests"]["delivered"] == 50
    assert engine.finished and engine.skipped == 0
    assert engine.wait() == report


def test_slow_loop_over_archive_loses_nothing() -> None:
    engine = weir.Engine(emulated(frames=60), capacity=2)
    seen = 0
    for _ in engine.deliveries():
        seen += 1
        if seen < 10:
            time.sleep(0.01)
    assert seen == 60 and engine.skipped == 0


def test_full_queue_of_live_graph_discards_oldest_and_counts() -> None:
    engine = weir.Engine(emulated(frames=80, mode="live"), capacity=4)
    until(lambda: engine.finished)
    seen = [delivery.frame for delivery in engine.deliveries()]
    assert seen == [76, 77, 78, 79]
    assert engine.skipped == 76
    assert engine.report()["sinks"]["(python)"]["counts"] == {"skipped": 76}


def test_wait_without_iterator_runs_to_the_end() -> None:
    report = weir.Engine(emulated(frames=100), capacity=3).wait()
    assert report["requests"]["delivered"] == 100


def test_iterator_that_is_dropped_does_not_hold_up_the_engine() -> None:
    engine = weir.Engine(emulated(frames=100), capacity=3)
    next(engine.deliveries())
    until(lambda: engine.finished)
    assert engine.report()["requests"]["delivered"] == 100


def test_stop_in_the_middle_of_a_loop() -> None:
    with weir.Engine(emulated(frames=None, rate=200)) as engine:
        for delivery in engine.deliveries():
            if delivery.frame == 20:
                break
    counts = engine.report()["requests"]
    assert counts["in_flight"] == 0
    assert counts["arrived"] == counts["delivered"] + counts["late"] + counts["dropped"]


def test_threads_share_the_deliveries() -> None:
    engine = weir.Engine(emulated(frames=200, rate=1000))
    taken: list[list[int]] = [[], []]

    def take(number: int) -> None:
        taken[number].extend(delivery.frame for delivery in engine.deliveries())

    threads = [threading.Thread(target=take, args=(number,)) for number in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(taken[0] + taken[1]) == list(range(200))


def test_other_threads_run_while_a_delivery_is_awaited() -> None:
    with weir.Engine(emulated(frames=None, rate=0.5), until_stopped=True) as engine:
        counted = 0
        done = threading.Event()

        def count() -> None:
            nonlocal counted
            while not done.is_set() and counted < 100_000:
                counted += 1
            engine.stop()

        thread = threading.Thread(target=count)
        thread.start()
        # At most one frame comes before the other thread stops the engine.
        assert len(list(engine.deliveries())) <= 2
        done.set()
        thread.join()
        assert counted == 100_000


def test_streams_come_pause_and_go() -> None:
    with weir.Engine(emulated(frames=None), until_stopped=True) as engine:
        engine.add_stream("yard", "emulated:uniform?rate=100", like="camera", weight=2.0)
        seen: set[str] = set()
        for delivery in engine.deliveries():
            seen.add(delivery.stream)
            if len(seen) == 2:
                break
        engine.pause("yard")
        until(lambda: states(engine)["yard"] == "paused")
        engine.resume("yard")
        until(lambda: states(engine)["yard"] == "live")
        removed = engine.remove_stream("yard")
        assert removed["requests"]["delivered"] > 0
        assert "yard" not in states(engine)
        notices = engine.notices()
        assert ("removed", "yard") in {(notice.kind, notice.stream) for notice in notices}
        assert "paused" in {notice.state for notice in notices}


def test_refused_change_says_why() -> None:
    with weir.Engine(emulated(frames=None)) as engine:
        with pytest.raises(weir.StreamError, match="there is no stream attic: there is camera"):
            engine.pause("attic")
        with pytest.raises(weir.StreamError, match="the name camera is taken"):
            engine.add_stream("camera", "emulated:uniform?rate=1")
        with pytest.raises(weir.GraphError, match="rate"):
            engine.add_stream("yard", "emulated:uniform?rate=fast")


def test_swap_puts_another_graph_into_force() -> None:
    with weir.Engine(emulated(frames=None)) as engine:
        deliveries = engine.deliveries()
        next(deliveries)
        another = emulated(frames=None)
        another.module("again", "emulate", model="any", inputs="look")
        engine.swap(another)
        assert [module["name"] for module in engine.state()["modules"]] == ["look", "again"]
        next(deliveries)
        broken = emulated()
        broken.module("bad", "emulate", model="none", inputs="look")
        with pytest.raises(weir.GraphError):
            engine.swap(broken)
        next(deliveries)


def test_dropped_frames_are_notices() -> None:
    graph = weir.Graph("slow", slo="60ms")
    camera = graph.source("camera", "emulated:uniform?rate=200&frames=200")
    model = graph.model("any", device="emulated:a", profile={"1": "20ms"}, batch=[1], workers=1)
    graph.device("emulated:a", slots=1)
    graph.module("look", "emulate", model=model, inputs=camera)
    engine = weir.Engine(graph)
    delivered = len(list(engine.deliveries()))
    drops = [notice for notice in engine.notices() if notice.kind == "dropped"]
    counts = engine.report()["requests"]
    assert drops and all(notice.reason for notice in drops)
    # Of a live stream, frames that come out late are dropped at the end.
    assert counts["dropped"] + counts["late"] == len(drops) and delivered == counts["delivered"]


def test_missing_video_is_an_error_with_its_name(tmp_path: object) -> None:
    graph = emulated(uri=f"{tmp_path}/none.mp4")
    with pytest.raises(weir.Error, match="none.mp4"):
        weir.Engine(graph)


@pytest.mark.parametrize(
    "options", [{"speed": 0.0}, {"speed": float("nan")}, {"capacity": 0}, {"duration": -1.0}, {"when_slow": "never"}]
)
def test_option_out_of_range_is_refused(options: dict[str, object]) -> None:
    with pytest.raises(ValueError):
        weir.Engine(emulated(), **options)  # type: ignore[arg-type]

"""Models that ship, one of the asset pack, and the examples."""

from __future__ import annotations

import asyncio
import runpy
from pathlib import Path

import pytest
from conftest import ROOT

import weir

EXAMPLES = Path(__file__).parents[1] / "examples"


@pytest.mark.usefixtures("onnx_runtime")
def test_public_model_finds_vehicles_in_a_real_clip(assets: Path) -> None:
    graph = weir.Graph("traffic", slo="5s")
    city = graph.source("city", assets / "videos/o4n_traffic_city_640x360.mp4", mode="lossless", sample="2fps")
    model = graph.model("detector", assets / "models/yolox_nano_416.onnx", head="yolox", labels=["coco"])
    objects = graph.module("objects", "detect", model=model, inputs=city)
    graph.module("tracks", "track", inputs=objects)
    found, tracked = [], 0
    with weir.Engine(graph, frames=True, speed="max") as engine:
        for delivery in engine.deliveries():
            found.extend(delivery.objects)
            tracked += sum(thing.track is not None for thing in delivery.objects)
            if delivery.pts_ms > 5000:
                break
    assert {"car"} <= {thing.class_name for thing in found}
    left, top, right, bottom = found[0].box
    assert 0 <= left < right <= 640 and 0 <= top < bottom <= 360 and 0 < found[0].score <= 1
    assert tracked > 0


@pytest.mark.usefixtures("onnx_runtime")
def test_counting_example_counts_vehicles() -> None:
    crossings = runpy.run_path(str(EXAMPLES / "count.py"))["main"]()
    assert sum(crossings.values()) > 0
    assert {direction for _, direction in crossings} <= {"coming", "leaving"}


@pytest.mark.usefixtures("onnx_runtime")
def test_alarm_example_writes_pictures(tmp_path: Path) -> None:
    main = runpy.run_path(str(EXAMPLES / "alarm.py"))["main"]
    alarms = asyncio.run(main(folder=tmp_path))
    assert alarms > 0
    pictures = list(tmp_path.iterdir())
    assert pictures and all(picture.read_bytes()[:2] == b"\xff\xd8" for picture in pictures)

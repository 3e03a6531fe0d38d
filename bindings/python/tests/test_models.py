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
    tracks = graph.module("tracks", "track", inputs=objects)
    graph.transform("street", "zone", inputs=tracks, points=[[0, 0], [1, 0], [1, 1], [0, 1]])
    found, tracked, incidents, ended = [], 0, [], 0
    with weir.Engine(graph, frames=True, speed="max") as engine:
        for delivery in engine.deliveries():
            found.extend(delivery.objects)
            tracked += sum(thing.track is not None for thing in delivery.objects)
            incidents.extend(delivery.incidents)
            ended += len(delivery.ended_tracks)
            if delivery.pts_ms > 9000:
                break
    assert {"car"} <= {thing.class_name for thing in found}
    left, top, right, bottom = found[0].box
    assert 0 <= left < right <= 640 and 0 <= top < bottom <= 360 and 0 < found[0].score <= 1
    assert tracked > 0 and ended > 0
    began = [incident for incident in incidents if incident.phase == "began"]
    assert {(incident.kind, incident.transform, incident.stream) for incident in began} == {("zone", "street", "city")}
    first = began[0]
    assert first.track in {thing.track.id for thing in found if thing.track} and first.box
    assert first.to_dict()["id"] == first.id and first.zones == ["street"]
    assert {incident.phase for incident in incidents} >= {"began", "ended"}


@pytest.mark.usefixtures("onnx_runtime")
def test_boxes_example_writes_a_video_and_pictures(assets: Path, tmp_path: Path) -> None:
    main = runpy.run_path(str(EXAMPLES / "boxes.py"))["main"]
    video = assets / "videos/carnd_vd_test_1280x720.mp4"
    counts = main(video, tmp_path, assets / "models/yolox_nano_416.onnx")
    assert counts["car"] > 10
    assert {path.name for path in tmp_path.iterdir()} == {"boxes.mp4", "0.png", "1.png"}


@pytest.mark.usefixtures("onnx_runtime")
def test_speed_example_measures_all(assets: Path) -> None:
    main = runpy.run_path(str(EXAMPLES / "speed.py"))["main"]
    measured = main(assets / "videos/frigate_motion_178x100.mp4", rounds=1)
    assert set(measured) == {"command", "objects", "planes", "rgb"}
    assert all(rate > 0 for rates in measured.values() for rate in rates)


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

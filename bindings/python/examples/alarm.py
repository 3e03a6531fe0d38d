"""Raises an alarm with a picture when a car stays in a zone, while another task goes on in the same event loop.

    python alarm.py [VIDEO] [FOLDER]
"""

import asyncio
import sys
import tempfile
from pathlib import Path

import weir

CLIPS = Path(__file__).parents[3] / "videos"


def graph(video: str | Path) -> weir.Graph:
    built = weir.Graph("alarm", slo="2s")
    street = built.source("street", video, mode="lossless")
    detector = built.model("detector", "embedded:street-detector-small")
    objects = built.module("objects", "detect", model=detector, inputs=street)
    tracks = built.module("tracks", "track", inputs=objects)
    built.transform(
        "junction",
        "zone",
        inputs=tracks,
        classes=["car", "van", "bus"],
        points=[[0.22, 0.25], [1.0, 0.25], [1.0, 0.36], [0.40, 0.36]],
    )
    built.transform("pictures", "best-shot", inputs=tracks)
    return built


async def watch(video: str | Path, folder: Path) -> int:
    """Writes a JPEG for each alarm; gives how many there were."""
    alarms = 0
    with weir.Engine(graph(video), speed="max") as engine:
        async for delivery in engine.deliveries():
            for incident in delivery.incidents:
                if incident.kind == "zone" and incident.phase == "began":
                    alarms += 1
                    print(f"{delivery.pts_ms / 1000:.1f} s: {incident.class_name} in {incident.transform}")
                if incident.kind == "zone" and incident.phase == "ended" and (jpeg := incident.jpeg()):
                    (folder / f"{incident.track}.jpg").write_bytes(jpeg)
    return alarms


async def main(video: str | Path = CLIPS / "street-day.mp4", folder: str | Path | None = None) -> int:
    pictures = Path(folder or tempfile.mkdtemp(prefix="alarms-"))
    heartbeats = 0

    async def beat() -> None:
        nonlocal heartbeats
        while True:
            heartbeats += 1
            await asyncio.sleep(0.1)

    beating = asyncio.create_task(beat())
    alarms = await watch(video, pictures)
    beating.cancel()
    print(f"{alarms} alarms, {len(list(pictures.iterdir()))} pictures in {pictures}, {heartbeats} heartbeats")
    return alarms


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:3]))

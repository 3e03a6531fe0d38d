"""Counts what crosses a line, by direction and class.

    python count.py [VIDEO]
"""

import sys
from collections import Counter
from pathlib import Path

import weir

CLIPS = Path(__file__).parents[3] / "videos"


def main(video: str | Path = CLIPS / "street-day.mp4") -> Counter[tuple[str, str]]:
    graph = weir.Graph("count", slo="2s")
    street = graph.source("street", video, mode="lossless")
    detector = graph.model("detector", "embedded:street-detector-small")
    objects = graph.module("objects", "detect", model=detector, inputs=street)
    tracks = graph.module("tracks", "track", inputs=objects)
    graph.transform(
        "gate",
        "line",
        inputs=tracks,
        points=[[0.34, 0.70], [0.97, 0.38]],
        directions=["coming", "leaving"],
    )

    crossings: Counter[tuple[str, str]] = Counter()
    with weir.Engine(graph, speed="max") as engine:
        for delivery in engine.deliveries():
            for incident in delivery.incidents:
                direction = str(incident.values["direction"])
                crossings[incident.class_name or "", direction] += 1
        # Tracks that end with the video may have crossed the line, too.
        for notice in engine.notices():
            for incident in notice.incidents:
                crossings[incident.class_name or "", str(incident.values["direction"])] += 1
    return crossings


if __name__ == "__main__":
    for (name, direction), count in sorted(main(*sys.argv[1:2]).items()):
        print(f"{name} {direction}: {count}")

"""Compares event lines with the ground truth of a clip: cross-compare.py TRUTH FIRST FRAMES EVENTS.

Frame 0 of the events is frame FIRST of the clip. Fails unless there are as many frames as FRAMES, and at least half of the vehicles
and persons that are fully visible are found: a build that computes wrong numbers finds next to none.
"""

import json
import sys

CLASSES = {"car", "van", "bus", "bicycle", "person"}
# Overlap of two boxes, as a share of their union, from which they are of one object.
SAME = 0.5
MIN_FOUND = 0.5


def overlap(a: list[float], b: list[float]) -> float:
    width = min(a[2], b[2]) - max(a[0], b[0])
    height = min(a[3], b[3]) - max(a[1], b[1])
    if width <= 0 or height <= 0:
        return 0.0
    both = width * height
    return both / ((a[2] - a[0]) * (a[3] - a[1]) + (b[2] - b[0]) * (b[3] - b[1]) - both)


def main() -> None:
    truth_file, first, frames, events_file = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
    truth = {}
    with open(truth_file, encoding="utf-8") as lines:
        for line in map(json.loads, lines):
            if "frame" in line:
                truth[line["frame"]] = [
                    item["box"]
                    for item in line.get("objects", [])
                    if item["class"] in CLASSES and not item.get("ignore") and item["visible"] >= 1.0
                ]
    with open(events_file, encoding="utf-8") as lines:
        events = [line for line in map(json.loads, lines) if line.get("type") == "frame"]
    if len(events) != frames:
        sys.exit(f"{events_file}: {len(events)} frames, {frames} are expected")
    wanted = found = 0
    for event in events:
        boxes = [item["box"] for item in event["objects"]]
        here = truth[first + event["frame"]]
        wanted += len(here)
        found += sum(any(overlap(box, other) >= SAME for other in boxes) for box in here)
    print(f"{events_file}: {frames} frames, {found} of {wanted} objects of the ground truth found")
    if found < MIN_FOUND * wanted:
        sys.exit(f"{events_file}: that is less than {MIN_FOUND:.0%}: the models compute something else here")


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""What gears are worth under a load that rises and falls: bench-gears.py [--streams 8] [--few 2] [--seconds 28] [--least-side 40] [--keep DIR]

Detection and reading of plates (apps/traffic-monitoring/cascades.toml) in streams of the street: few, then all of them, then few again,
so long each: choose them so that this is some 0.5, 2.5 and 0.5 times what the large detector sustains, which is printed. With
the large models alone, with gears, with the small ones alone. Gears begin at rates that are scaled by what the large detector sustained
in the first run, beside what it did where they were planned. Of each: exact reads of all plates of at least so many pixels in all frames that came,
delivered or not; reads that were wrong; the mean average precision of what was detected (`weir score`), over all frames that
came and over those that were delivered; frames delivered of those that came; goodput; shifts of gear. WEIR names the program.
"""

import argparse
import json
import re
import subprocess
import tempfile
from pathlib import Path

from live_streams import in_phases
from street import CLIP, ROOT, WEIR, iou, truth

# Frames a second that the large detector sustained where gears.toml was made.
PLANNED_FOR = 75
FPS = 25
LARGE, SMALL = "large alone", "small alone"


def graph(rule, folder, events, scale):
    """The graph of cascades with detection and plates alone, by gears or with one stage of each cascade."""
    source = ROOT / "apps/traffic-monitoring"
    text = (source / "cascades.toml").read_text()
    text = re.sub(r"\[sources\.street\]\n.*?\n\n", "[sources.street]\ntemplate = true\n\n", text, flags=re.S)
    for name in ("models.face-embedder", "modules.identities", "sinks.events"):
        text = re.sub(rf"(?:#[^\n]*\n)*\[{name}\]\n.*?(?=\n#|\n\[|\Z)", "", text, flags=re.S)
    if rule == "gears":
        gears = (source / "gears.toml").read_text()
        scaled = lambda found: f"up_to = {float(found[1]) * scale:.1f}"
        (folder / "gears.toml").write_text(re.sub(r"up_to = ([0-9.]+)", scaled, gears))
    else:
        text = text.replace('gears = "gears.toml"\n', "").replace('on_late = "accept"\n', "")
        stage = -1 if rule == LARGE else 0
        names = re.findall(r'cascade = \[.*?\]\n', text)
        for cascade in names:
            model = re.findall(r'model = "(.*?)"', cascade)[stage]
            text = text.replace(cascade, f'model = "{model}"\n')
    return f'{text}\n[sinks.events]\ntype = "jsonl"\npath = "{events}"\ninputs = ["plates"]\n'


def run(rule, folder, seconds, count, few, scale):
    events = folder / "events.jsonl"
    events.unlink(missing_ok=True)
    (folder / "graph.toml").write_text(graph(rule, folder, events, scale))
    streams = [{"name": f"street-{number}", "uri": f"{CLIP}.mp4", "mode": "live", "loop": True} for number in range(count)]
    return in_phases(folder, streams, (few, count, few), seconds), events


def plates(objects, least):
    """Plates of a frame that could be read: box and text."""
    return [
        (o["box"], o["attributes"]["plate"]["text"])
        for o in objects
        if o["class"] == "plate" and not o.get("ignore") and o["box"][2] - o["box"][0] >= least
    ]


def score(events, frames, least):
    """Plates that came, those that were read rightly, and reads that were wrong."""
    came = right = wrong = 0
    of_frame = [plates(objects, least) for objects in frames]
    last = {}
    with open(events) as lines:
        for event in map(json.loads, lines):
            if event["type"] != "frame":
                continue
            # Streams that were removed are not in the report; each was there once, from its first frame on.
            last[event["stream"]] = max(last.get(event["stream"], 0), event["frame"])
            reads = [o for o in event["objects"] if o["class"] == "plate" and "plate" in o["attributes"]]
            for box, text in of_frame[event["frame"] % len(frames)]:
                near = [o for o in reads if iou(o["box"], box) >= 0.3]
                if near:
                    best = max(near, key=lambda o: iou(o["box"], box))
                    is_right = best["attributes"]["plate"]["text"] == text
                    right, wrong = right + is_right, wrong + (not is_right)
    for number in last.values():
        came += sum(len(of_frame[frame % len(frames)]) for frame in range(number + 1))
    return came, right, wrong


def precision(events, folder):
    """Mean average precision in percent, of all frames and of those that were delivered."""
    report = folder / "score.json"
    asked = [WEIR, "score", "--loop", "--events", events, "--truth", f"{CLIP}.truth.jsonl", "--report", report]
    subprocess.run(asked, check=True, stdout=subprocess.DEVNULL)
    accuracy = json.loads(report.read_text())["accuracy"]
    return [100 * accuracy[which]["mean_ap"] for which in ("all", "delivered")]


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--streams", type=int, default=8)
    arguments.add_argument("--few", type=int, default=2)
    arguments.add_argument("--seconds", type=float, default=28)
    arguments.add_argument("--least-side", type=float, default=40)
    arguments.add_argument("--keep", type=Path)
    given = arguments.parse_args()
    frames = truth()
    print("| rule | plates came | read rightly | wrongly | AP of all, of delivered | frames delivered | goodput /s | shifts |")
    print("|---|---|---|---|---|---|---|---|", flush=True)
    scale = 1
    for rule in (LARGE, "gears", SMALL):
        with tempfile.TemporaryDirectory() as folder:
            place = given.keep / rule.replace(" ", "-") if given.keep else Path(folder)
            place = place.resolve()
            place.mkdir(parents=True, exist_ok=True)
            report, events = run(rule, place, given.seconds, given.streams, given.few, scale)
            came, right, wrong = score(events, frames, given.least_side)
            ap = precision(events, place)
        requests = report["requests"]
        shifts = (report.get("gears") or {}).get("shifts", 0)
        print(
            f"| {rule} | {came} | {right} ({100 * right / max(came, 1):.1f} %) | {wrong} |"
            f" {ap[0]:.1f}, {ap[1]:.1f} | {requests['delivered']} of {requests['arrived']} | {report['goodput_rps']:.1f} | {shifts} |",
            flush=True,
        )
        if rule == LARGE:
            # While all streams are there it has as many as it can do.
            sustained = (requests["delivered"] - 2 * given.few * FPS * given.seconds) / given.seconds
            scale = sustained / PLANNED_FOR
    loads = [streams * FPS / sustained for streams in (given.few, given.streams)]
    print(f"the large detector sustains {sustained:.0f} frames/s: the load was {loads[0]:.2f}, {loads[1]:.2f}, {loads[0]:.2f} of that")


if __name__ == "__main__":
    main()

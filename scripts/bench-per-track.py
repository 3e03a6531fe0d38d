#!/usr/bin/env python3
"""What `per_track` saves, and what it costs: bench-per-track.py [--cameras 16] [--seconds 40] [--rounds 2]

The demo of traffic monitoring on cameras that show its clip over and over, with modules that read in every frame and with modules
that read per track, in turn. Of each: goodput, device time of the second stages, and the plates that the tracks of their vehicles
had right when they could be read last in a frame that was delivered, of all plates that could be read in any frame that came.
WEIR names the program, --keep a folder for graphs, events and reports.
"""

import argparse
import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from street import CLIP, ROOT, WEIR, iou, truth

SECOND = ("plates", "identities")


def graph(cameras, events, rules):
    """The demo's graph on so many cameras, events alone, and `per_track` where `rules` has one for a module."""
    text = (ROOT / "apps/traffic-monitoring/demo.toml").read_text()
    names = [f"camera-{number:02}" for number in range(cameras)]
    sources = "".join(f'[sources.{name}]\nuri = "{CLIP}.mp4"\nloop = true\n\n' for name in names)
    text = re.sub(r"\[sources\.street\]\n.*?\n\n", sources, text, flags=re.S)
    text = text.replace('inputs = ["street"]', f"inputs = {json.dumps(names)}")
    text = re.sub(r"\$\{WEIR_GALLERY:-.*?\}", str(ROOT / "videos/gallery"), text)
    text = re.sub(r"^per_track = .*\n", "", text, flags=re.M)
    for module, rule in rules.items():
        text = text.replace(f"[modules.{module}]\n", f"[modules.{module}]\nper_track = {rule}\n")
    text = re.sub(r"\n\[(sinks|transforms)\..*", "", text, flags=re.S)
    inputs = json.dumps(["tracks", *SECOND])
    return f'{text}\n[sinks.events]\ntype = "jsonl"\npath = "{events}"\ninputs = {inputs}\n'


def plates(events, report, frames):
    """Plates that came, that were read at all, and that were right at last: by camera and round of the clip."""
    came, last = set(), {}
    for stream, counts in report["streams"].items():
        for number in range(counts["requests"]["arrived"]):
            objects = frames[number % len(frames)]
            to_read = (o["id"] for o in objects if o["class"] == "plate" and not o.get("ignore"))
            came |= {(stream, number // len(frames), plate) for plate in to_read}
    for event in map(json.loads, events):
        if event["type"] != "frame":
            continue
        turn, number = divmod(event["frame"], len(frames))
        boxes = {o["id"]: o["box"] for o in frames[number]}
        for plate in (o for o in frames[number] if o["class"] == "plate" and not o.get("ignore")):
            key = (event["stream"], turn, plate["id"])
            vehicle = boxes.get(plate["parent"])
            near = [o for o in event["objects"] if vehicle and iou(o["box"], vehicle) > 0.5 and "track" in o]
            if not near:
                continue
            track = max(near, key=lambda o: iou(o["box"], vehicle))["track"]
            text = track.get("attributes", {}).get("plate", {}).get("text")
            if text:
                last[key] = text == plate["attributes"]["plate"]["text"]
    return len(came), len(last), sum(last.values())


def run(folder, name, text, seconds):
    graph_file, events, report = (folder / f"{name}.{kind}" for kind in ("toml", "jsonl", "json"))
    events.unlink(missing_ok=True)
    graph_file.write_text(text(events))
    ran = subprocess.run(
        [WEIR, "run", str(graph_file), "--duration", f"{seconds}s", "--report", str(report)],
        capture_output=True, text=True, check=False,
    )
    if ran.returncode:
        sys.exit(ran.stderr)
    return json.loads(report.read_text()), events


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--cameras", type=int, default=16)
    arguments.add_argument("--seconds", type=int, default=40)
    arguments.add_argument("--rounds", type=int, default=2)
    arguments.add_argument("--plates", default='{ every = "1s", until = 0.9 }', help="`per_track` of the reader of plates")
    arguments.add_argument("--faces", default='{ every = "1s" }', help="that of the recogniser of faces")
    arguments.add_argument("--keep", type=Path)
    given = arguments.parse_args()
    frames = truth()
    rules = {"every frame": {}, "per track": {"plates": given.plates, "identities": given.faces}}
    print("| modules read | goodput /s | plates s | identities s | detector s | plates came | read | right |")
    print("|---|---|---|---|---|---|---|---|", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(given.rounds):
            for name, rule in rules.items():
                text = lambda events, rule=rule: graph(given.cameras, events, rule)
                report, events = run(given.keep or Path(folder), name.replace(" ", "-"), text, given.seconds)
                with open(events) as lines:
                    came, read, right = plates(lines, report, frames)
                busy = {module: report["modules"][module]["busy_s"] for module in ("objects", *SECOND)}
                print(
                    f"| {name} | {report['goodput_rps']:.1f} | {busy['plates']:.2f} | {busy['identities']:.2f} |"
                    f" {busy['objects']:.1f} | {came} | {read} | {right} ({100 * right / max(came, 1):.1f} %) |",
                    flush=True,
                )


if __name__ == "__main__":
    main()

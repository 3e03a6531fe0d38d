#!/usr/bin/env python3
"""What tiles find and cost: bench-tiles.py [--frames 50] [--no-sahi] [--no-load] [--seconds 20] [--many 4]

Sixteen rendered streets of 960 x 540, each of another seed, stand beside each other in a clip of 3840 x 2160, so that what a camera shows
from near is small. First the whole clip, on one slot, in 1, 2 x 2, 3 x 2 and 4 x 3 tiles: mean average precision (`weir score`), of
objects by their size, items, seconds of the model's slot and of the run for each frame. Beside it SAHI's own package, with the same
net, the same tiles and its defaults. Then live, one stream, then `--many`, then one again: 4 x 3 tiles, the whole picture, and gears that
choose the tiles by the load. Run by bench-tiles.sh, which makes the virtual environment; RENDER, SAHI_PYTHON and WEIR name programs.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path

from live_streams import in_phases
from street import ROOT, WEIR

OUT = ROOT / "out" / "tiles"
CLIP, TRUTH = OUT / "streets.mp4", OUT / "streets.truth.jsonl"
SIDE, SIZE, FPS = 4, (960, 540), 5
GRIDS = [(1, 1), (2, 2), (3, 2), (4, 3)]
# Shorter sides in pixels of the picture: what the whole picture shows in 640 x 384 is a sixth of that.
SMALL = 40


def render(frames):
    """The clip and its truth, unless they are there."""
    if CLIP.exists() and sum(1 for _ in TRUTH.open()) == frames + 1:
        return
    parts = [OUT / f"street-{number}.mp4" for number in range(SIDE * SIDE)]
    for number, part in enumerate(parts):
        print(f"rendering street {number + 1} of {len(parts)}", file=sys.stderr)
        seconds = str(frames / FPS)
        arguments = ["street", "--light", "day", "--part", "validation", "--seed", str(100 + number), "--fps", str(FPS)]
        subprocess.run([os.environ["RENDER"], *arguments, "--seconds", seconds, "--crf", "18", "--out", part], check=True, stdout=subprocess.DEVNULL)
    places = [(number % SIDE * SIZE[0], number // SIDE * SIZE[1]) for number in range(len(parts))]
    layout = "|".join(f"{x}_{y}" for x, y in places)
    inputs = [argument for part in parts for argument in ("-i", str(part))]
    joined = ["-filter_complex", f"xstack=inputs={len(parts)}:layout={layout}", "-c:v", "libx264", "-preset", "fast", "-crf", "18", "-bf", "0", "-g", "25"]
    subprocess.run(["ffmpeg", "-nostdin", "-loglevel", "error", "-y", *inputs, *joined, "-pix_fmt", "yuv420p", str(CLIP)], check=True)
    texts = [part.with_suffix(".truth.jsonl").read_text().splitlines() for part in parts]
    header = json.loads(texts[0][0]) | {"width": SIDE * SIZE[0], "height": SIDE * SIZE[1]}
    with TRUTH.open("w") as truth:
        truth.write(json.dumps(header) + "\n")
        for lines in zip(*(text[1:] for text in texts), strict=True):
            shown = [json.loads(line) for line in lines]
            objects = [moved(o, place, number) for number, (line, place) in enumerate(zip(shown, places)) for o in line["objects"]]
            truth.write(json.dumps(shown[0] | {"objects": objects}) + "\n")
    for part in parts:
        part.unlink()
        part.with_suffix(".truth.jsonl").unlink()


def moved(seen, place, number):
    """An object of one street where it is in the whole picture; ids of different streets differ."""
    x, y = place
    left, top, right, bottom = seen["box"]
    own = lambda at: at * SIDE * SIDE + number
    changed = {"box": [left + x, top + y, right + x, bottom + y], "id": own(seen["id"])}
    if seen.get("parent") is not None:
        changed["parent"] = own(seen["parent"])
    return {key: value for key, value in seen.items() if key != "attributes"} | changed


def truth_of(small):
    """A truth file that asks for the small objects alone, or for the others."""
    file = OUT / f"{'small' if small else 'large'}.truth.jsonl"
    with TRUTH.open() as lines, file.open("w") as out:
        out.write(next(lines))
        for line in map(json.loads, lines):
            for seen in line["objects"]:
                left, top, right, bottom = seen["box"]
                if (min(right - left, bottom - top) < SMALL) != small:
                    seen["ignore"] = True
            out.write(json.dumps(line) + "\n")
    return file


def graph(grid, source=f'[sources.streets]\nuri = "{CLIP}"\nmode = "lossless"', app="", slo="60s"):
    tiles = f"tiles = [{grid[0]}, {grid[1]}]"
    return f"""[app]
name = "tiles"
slo = "{slo}"
{app}
{source}
[devices.cpu]
slots = 1
[models.detector]
model = "embedded:street-detector"
[modules.detect]
operator = "detect"
model = "detector"
inputs = [{'"streets"' if "template" not in source else '"cameras"'}]
{tiles}
[sinks.events]
type = "jsonl"
path = "events.jsonl"
candidates = true
inputs = ["detect"]
"""


def weir(*arguments):
    done = subprocess.run([WEIR, *map(str, arguments)], cwd=OUT, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"weir {arguments[0]}: {done.stderr}")


def precision(events, truth, *more):
    report = OUT / "score.json"
    weir("score", "--events", events, "--truth", truth, "--report", report, *more)
    return json.loads(report.read_text())["accuracy"]


def scores(events):
    return [percent(precision(events, truth), "all") for truth in (TRUTH, truth_of(True), truth_of(False))]


def percent(accuracy, which):
    """0 where no frame was delivered."""
    return 100 * (accuracy[which]["mean_ap"] or 0)


def offline(grid):
    """Precision and cost of a run over the whole clip, as an archive."""
    (OUT / "graph.toml").write_text(graph(grid))
    (OUT / "events.jsonl").unlink(missing_ok=True)
    report = OUT / "report.json"
    began = time.monotonic()
    weir("replay", "graph.toml", "--speed", "max", "--report", report)
    took = time.monotonic() - began
    ran = json.loads(report.read_text())
    frames, module = ran["requests"]["delivered"], ran["modules"]["detect"]
    # The program starts and loads its model in the time of the run, too: durations of the engine are without that.
    wall = ran["run"].get("duration_s", took)
    return scores(OUT / "events.jsonl"), module["items"] / frames, module["busy_s"] / frames, wall / frames


def sahi(grid):
    events = OUT / "sahi.jsonl"
    command = [os.environ["SAHI_PYTHON"], ROOT / "benches/tiles/sahi_tiles.py", CLIP, ROOT / "models/street-detector.onnx", events, *grid, "streets"]
    environment = os.environ | {"OMP_NUM_THREADS": "1", "NUMBA_NUM_THREADS": "1"}
    done = subprocess.run([str(part) for part in command], env=environment, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"sahi: {done.stderr}")
    ran = json.loads(done.stdout.splitlines()[-1])
    return scores(events), ran["inferred"], ran["seconds"]


def gears(item_s):
    """A gear for each grid, up to nine tenths of the load that it sustains, the finest first."""
    count = lambda grid: 1 if grid == (1, 1) else grid[0] * grid[1] + 1
    lines = ['graph = "tiles"', "number = 1", 'shift = { window = "2s", dwell = "4s" }']
    for grid in reversed(GRIDS):
        up_to = 0.9 / (item_s * count(grid))
        stage = f'{{ model = "detector", tiles = [{grid[0]}, {grid[1]}] }}'
        lines += ["[[gears]]", f"up_to = {up_to:.2f}", "[gears.cascades]", f"detect = [{stage}]"]
    (OUT / "gears.toml").write_text("\n".join(lines) + "\n")


def live(rule, seconds, many):
    """Streams come and go: one, many, one."""
    (OUT / "events.jsonl").unlink(missing_ok=True)
    template = "[sources.cameras]\ntemplate = true"
    app = 'gears = "gears.toml"' if rule == "gears" else ""
    grid = (1, 1) if rule == "whole picture" else (4, 3)
    (OUT / "graph.toml").write_text(graph(grid, source=template, app=app, slo="1s"))
    streams = [{"name": f"streets-{number}", "uri": str(CLIP), "mode": "live", "loop": True} for number in range(many)]
    ran = in_phases(OUT, streams, (1, many, 1), seconds)
    accuracy = precision(OUT / "events.jsonl", TRUTH, "--loop")
    return ran, [percent(accuracy, which) for which in ("all", "delivered")]


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--frames", type=int, default=50)
    arguments.add_argument("--no-sahi", action="store_true")
    arguments.add_argument("--no-load", action="store_true")
    arguments.add_argument("--seconds", type=float, default=20)
    arguments.add_argument("--many", type=int, default=4)
    given = arguments.parse_args()
    OUT.mkdir(parents=True, exist_ok=True)
    render(given.frames)
    print(f"| tiles | items | AP | AP below {SMALL} px | AP above | slot ms a frame | run ms a frame | SAHI: AP | below | above | net ms | ms a frame |")
    print("|---|---|---|---|---|---|---|---|---|---|---|---|", flush=True)
    item_s = None
    for grid in GRIDS:
        ap, items, busy, wall = offline(grid)
        item_s = busy / items
        beside = ["", "", "", "", ""]
        if not given.no_sahi:
            other, inferred, seconds = sahi(grid)
            beside = [*(f"{value:.1f}" for value in other), f"{1e3 * inferred:.0f}", f"{1e3 * seconds:.0f}"]
        own = [f"{items:.0f}", *(f"{value:.1f}" for value in ap), f"{1e3 * busy:.0f}", f"{1e3 * wall:.0f}"]
        print("| " + " | ".join([f"{grid[0]} x {grid[1]}", *own, *beside]) + " |", flush=True)
    if given.no_load:
        return
    gears(item_s)
    sustained = 1 / (item_s * 13)
    print(f"\n4 x 3 tiles sustain {sustained:.1f} frames a second; a stream has {FPS}, and there are 1, {given.many}, 1 of them\n")
    print("| rule | AP of all frames | of delivered | frames delivered | goodput /s | items a frame | shifts |")
    print("|---|---|---|---|---|---|---|", flush=True)
    for rule in ("4 x 3 tiles", "gears", "whole picture"):
        ran, ap = live(rule, given.seconds, given.many)
        requests, shifts = ran["requests"], (ran.get("gears") or {}).get("shifts", 0)
        items = ran["modules"]["detect"]["items"] / max(requests["delivered"], 1)
        came = f"{requests['delivered']} of {requests['arrived']}"
        print(f"| {rule} | {ap[0]:.1f} | {ap[1]:.1f} | {came} | {ran['goodput_rps']:.1f} | {items:.1f} | {shifts} |", flush=True)


if __name__ == "__main__":
    main()

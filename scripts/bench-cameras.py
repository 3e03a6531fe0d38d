#!/usr/bin/env python3
"""Detection on 4 to 64 cameras of 30 frames a second, decoded as needed and whole, in turn: bench-cameras.py ASSETS

A row a run: goodput, the part of its bound (`efficiency` of the report) and the share of the processor that was idle while frames
were dropped, the rate of results from the third to the tenth second over the later one, results of the least stream over those of
the mean one, frames that were not decoded, processor seconds of the run's threads by kind (`processor`), and processor seconds of
other programs. On a clip with bidirectional frames and key frames eight seconds apart, and on one without whose key frames are a
second apart, of 640 by 360 or, with `--lines 1080`, of 1920 by 1080; cameras join a clip at places of their own. The graph `traffic` is that of traffic monitoring. With a Python that has OpenCV
and ONNX Runtime (benches/reference/requirements.txt) in WEIR_PYTHON, a plain loop that keeps the latest frame is the peer.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
from datetime import datetime
from pathlib import Path

from cameras import busy_time, clip_of

ROOT = Path(__file__).resolve().parent.parent
OUT = ROOT / "out" / "cameras"
WEIR = os.environ.get("WEIR", str(Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / "release" / "weir"))

DETECTION = """
[app]
name = "cameras"
slo = "400ms"
[sources.camera]
uri = "{video}"
decode = "{decode}"
[policy]
preset = "{policy}"
[models.detector]
model = "zoo:yolox-nano"
[modules.detect]
operator = "detect"
model = "detector"
inputs = ["camera"]
[sinks.events]
type = "jsonl"
path = "events.jsonl"
inputs = ["detect"]
"""

KINDS = ["decoding", "workers", "control"]
OTHER_KINDS = ["delivery", "sinks", "encoding", "other"]


def graph(name: str, video: Path, decode: str, policy: str) -> str:
    """The text of a graph on `video`."""
    if name == "detection":
        return DETECTION.format(video=video, decode=decode, policy=policy)
    text = (ROOT / "apps" / "traffic-monitoring" / "graph.toml").read_text()
    text = text.replace("[sources.camera]\n", f'[sources.camera]\ndecode = "{decode}"\n', 1)
    return f'{text}\n[policy]\npreset = "{policy}"\n'


def measured(command: list[str], environment: dict[str, str] | None = None) -> tuple[str, float]:
    """Runs a command: its output, and the processor seconds of other programs meanwhile."""
    before, children = busy_time(), sum(os.times()[2:4])
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"bench-cameras: {' '.join(command)}\n{done.stderr}")
    return done.stdout, max(0.0, busy_time() - before - (sum(os.times()[2:4]) - children))


def early(events: Path) -> str:
    """The rate of results in time from the third to the tenth second, over that of the time after it."""
    times = []
    for path in events.rglob("events.jsonl"):
        for line in path.read_text().splitlines():
            event = json.loads(line)
            if event["type"] == "frame" and not event.get("late"):
                arrived = datetime.fromisoformat(event["time"].replace("Z", "+00:00"))
                times.append(arrived.timestamp() * 1e3 + event["latency_ms"])
    begin = min(times, default=0)
    seconds = sorted((at - begin) / 1e3 for at in times)
    before, after = sum(3 <= at < 10 for at in seconds), sum(at >= 10 for at in seconds)
    return f"{before / 7 / (after / (seconds[-1] - 10)):.2f}" if after else "-"


def row(cells: list[str]) -> None:
    print("| " + " | ".join(cells) + " |", flush=True)


def run(args: argparse.Namespace, clip: str, video: Path, cameras: int, decode: str, policy: str) -> None:
    """The row of one run."""
    text, report = OUT / "graph.toml", OUT / "report.json"
    text.write_text(graph(args.graph, video, decode, policy))
    report.unlink(missing_ok=True)
    shutil.rmtree(OUT / "results", ignore_errors=True)
    command = [WEIR, "replay", str(text), str(video), "--streams", str(cameras), "--loop"]
    command += ["--duration", f"{args.seconds:.0f}s", "--report", str(report), "--out", str(OUT / "results")]
    environment = {"WEIR_MODEL_MIRROR": str(args.assets / "models"), **os.environ}
    _, others = measured(command, environment)
    found = json.loads(report.read_text())
    left_out = sum(drop["count"] for drop in found["drops"] if drop["reason"] == "not-decoded")
    share = left_out / max(1, found["requests"]["arrived"])
    results = [stream["requests"]["delivered"] for stream in found["streams"].values()]
    least = min(results) * len(results) / max(1, sum(results))
    seconds = {kind: found["processor"].get(f"{kind}_s", 0.0) for kind in KINDS + OTHER_KINDS}
    efficiency = found.get("efficiency") or {}
    bound = f"{efficiency['of_bound']:.2f}" if efficiency else "-"
    idle = f"{100 * efficiency['idle']:.0f} %" if efficiency.get("dropping_s") else "-"
    cells = [args.graph, clip, str(cameras), decode, policy, f"{found['goodput_rps']:.1f}", bound, idle]
    cells += [early(OUT / "results"), f"{least:.2f}", f"{100 * share:.0f} %"]
    cells += [f"{found['latency_ms']['p99']:.0f}", *(f"{seconds[kind]:.1f}" for kind in KINDS)]
    row([*cells, f"{sum(seconds[kind] for kind in OTHER_KINDS):.1f}", f"{others:.1f}"])


def peer(args: argparse.Namespace, clip: str, video: Path, cameras: int) -> None:
    """The row of the plain loop, where there is a Python for it."""
    python = os.environ.get("WEIR_PYTHON")
    if not python or args.graph != "detection":
        return
    model = args.assets / "models" / "yolox_nano_416.onnx"
    command = [python, str(ROOT / "benches/reference/latest_frame.py"), str(model), str(video)]
    output, others = measured([*command, "--cameras", str(cameras), "--seconds", f"{args.seconds:.0f}"])
    found = json.loads(output)
    cells = [args.graph, clip, str(cameras), "all", "latest frame, OpenCV", f"{found['goodput_rps']:.1f}"]
    row([*cells, *["-"] * 8, f"{found['cpu_s']:.1f}", f"{others:.1f}"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("assets", type=Path)
    parser.add_argument("--graph", choices=["detection", "traffic"], default="detection")
    parser.add_argument("--clips", nargs="+", choices=["original", "plain"], default=["original", "plain"])
    parser.add_argument("--lines", type=int, choices=[360, 1080], default=360, help="of a picture")
    parser.add_argument("--cameras", nargs="+", type=int, help="4, 16, 32 and 64, or 4, 8 and 16 of 1080 lines")
    parser.add_argument("--decode", nargs="+", default=["as-needed", "all", "peer"], choices=["as-needed", "all", "peer"])
    parser.add_argument("--policies", nargs="+", default=["weir", "newest"], help="presets of [policy]")
    parser.add_argument("--seconds", type=float, default=30.0, help="of each run")
    args = parser.parse_args()
    OUT.mkdir(parents=True, exist_ok=True)
    name = "o4n_traffic_city_640x360.mp4" if args.lines == 360 else "pipeless_street_1080p.mp4"
    source = args.assets / "videos" / name
    counts = args.cameras or ([4, 16, 32, 64] if args.lines == 360 else [4, 8, 16])
    names = {"original": "with B-frames", "plain": "without"}
    seconds = [f"{kind} s" for kind in KINDS]
    heads = ["graph", "clip", "cameras", "decode", "policy", "goodput/s", "of bound", "idle", "early", "least/mean", "not decoded", "p99 ms", *seconds]
    row([*heads, "rest s", "others s"])
    print("|" + "---|" * (14 + len(KINDS)), flush=True)
    for clip in args.clips:
        name, video = names[clip], clip_of(source, clip, args.lines, OUT)
        for cameras in counts:
            for decode in args.decode:
                if decode == "peer":
                    peer(args, name, video, cameras)
                    continue
                for policy in args.policies:
                    run(args, name, video, cameras, decode, policy)


if __name__ == "__main__":
    main()

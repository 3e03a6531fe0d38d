#!/usr/bin/env python3
"""Detection on 4 to 64 cameras of 30 frames a second, decoded as needed and whole, in turn: bench-cameras.py ASSETS

A row a run: goodput, what was not decoded, processor seconds of the run's threads by kind (`processor` of its report), and
those that other programs took meanwhile. On a clip with bidirectional frames, and on one without whose key frames are a
second apart; the cameras of both have their key frames at different moments. The graph `traffic` is that of traffic
monitoring. With a Python that has OpenCV and ONNX Runtime (benches/reference/requirements.txt) in WEIR_PYTHON, a plain
loop that keeps the latest frame is the peer.
"""

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
OUT = ROOT / "out" / "cameras"
WEIR = os.environ.get("WEIR", str(Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / "release" / "weir"))
PHASES = 8

DETECTION = """
[app]
name = "cameras"
slo = "400ms"
[sources.camera]
uri = "{video}"
decode = "{decode}"
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

KINDS = ["decoding", "workers", "control", "sinks", "encoding", "other"]


def graph(name: str, video: Path, decode: str) -> str:
    """The text of a graph on `video`."""
    if name == "detection":
        return DETECTION.format(video=video, decode=decode)
    text = (ROOT / "apps" / "traffic-monitoring" / "graph.toml").read_text()
    return text.replace("[sources.camera]\n", f'[sources.camera]\ndecode = "{decode}"\n', 1)


def ffmpeg(*arguments: str) -> None:
    subprocess.run(["ffmpeg", "-v", "error", "-y", *arguments], check=True)


def original_clips(source: Path) -> list[Path]:
    """The clip as it is, its first group of pictures cut off after so many eighths: no picture is encoded again."""
    clips = [OUT / f"original-{phase}.mp4" for phase in range(1, PHASES)]
    if not all(clip.exists() for clip in clips):
        probe = ["ffprobe", "-v", "error", "-select_streams", "v", "-show_entries", "packet=pts_time,flags", "-of", "csv=p=0"]
        packets = subprocess.run([*probe, str(source)], check=True, capture_output=True, text=True).stdout.split()
        second = [packet.split(",")[0] for packet in packets if ",K" in packet][1]
        first, rest, both = OUT / "first.ts", OUT / "rest.ts", OUT / "both.txt"
        ffmpeg("-ss", second, "-i", str(source), "-an", "-c", "copy", str(rest))
        both.write_text(f"file {first.name}\nfile {rest.name}\n")
        for phase, clip in enumerate(clips, start=1):
            ffmpeg("-i", str(source), "-t", str(float(second) * phase / PHASES), "-an", "-c", "copy", str(first))
            ffmpeg("-f", "concat", "-i", str(both), "-c", "copy", str(clip))
    return [source, *clips]


def plain_clips(source: Path) -> list[Path]:
    """The clip without bidirectional frames, its key frames a second apart, at a moment of its own in each copy."""
    clips = [OUT / f"plain-{phase}.mp4" for phase in range(PHASES)]
    for phase, clip in enumerate(clips):
        if not clip.exists():
            encode = ["-c:v", "libx264", "-preset", "veryfast", "-bf", "0", "-g", "1000", "-sc_threshold", "0"]
            keys = f"expr:gte(t,n_forced-{phase / PHASES})"
            ffmpeg("-i", str(source), "-an", *encode, "-force_key_frames", keys, str(clip))
    return clips


def busy_time() -> float:
    """Processor seconds of this machine so far that something ran in."""
    user, nice, system, _, _, irq, softirq = map(int, Path("/proc/stat").read_text().split()[1:8])
    return (user + nice + system + irq + softirq) / os.sysconf("SC_CLK_TCK")


def measured(command: list[str], environment: dict[str, str] | None = None) -> tuple[str, float]:
    """Runs a command: its output, and the processor seconds of other programs meanwhile."""
    before, children = busy_time(), sum(os.times()[2:4])
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"bench-cameras: {' '.join(command)}\n{done.stderr}")
    return done.stdout, max(0.0, busy_time() - before - (sum(os.times()[2:4]) - children))


def row(cells: list[str]) -> None:
    print("| " + " | ".join(cells) + " |", flush=True)


def run(args: argparse.Namespace, clip: str, clips: list[Path], cameras: int, decode: str) -> None:
    """The row of one run."""
    text, report = OUT / "graph.toml", OUT / "report.json"
    text.write_text(graph(args.graph, clips[0], decode))
    report.unlink(missing_ok=True)
    command = [WEIR, "replay", str(text), *map(str, clips), "--streams", str(cameras), "--loop"]
    command += ["--duration", f"{args.seconds:.0f}s", "--report", str(report), "--out", str(OUT / "results")]
    environment = {"WEIR_MODEL_MIRROR": str(args.assets / "models"), **os.environ}
    _, others = measured(command, environment)
    found = json.loads(report.read_text())
    left_out = sum(drop["count"] for drop in found["drops"] if drop["reason"] == "not-decoded")
    share = left_out / max(1, found["requests"]["arrived"])
    cells = [args.graph, clip, str(cameras), decode, f"{found['goodput_rps']:.1f}", f"{100 * share:.0f} %"]
    cells += [f"{found['latency_ms']['p99']:.0f}", *(f"{found['processor'][f'{kind}_s']:.1f}" for kind in KINDS)]
    row([*cells, f"{others:.1f}"])


def peer(args: argparse.Namespace, clip: str, clips: list[Path], cameras: int) -> None:
    """The row of the plain loop, where there is a Python for it."""
    python = os.environ.get("WEIR_PYTHON")
    if not python or args.graph != "detection":
        return
    model = args.assets / "models" / "yolox_nano_416.onnx"
    command = [python, str(ROOT / "benches/reference/latest_frame.py"), str(model), *map(str, clips)]
    output, others = measured([*command, "--cameras", str(cameras), "--seconds", f"{args.seconds:.0f}"])
    found = json.loads(output)
    cells = [args.graph, clip, str(cameras), "latest frame, OpenCV", f"{found['goodput_rps']:.1f}"]
    row([*cells, *["-"] * 7, f"{found['cpu_s']:.1f}", f"{others:.1f}"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("assets", type=Path)
    parser.add_argument("--graph", choices=["detection", "traffic"], default="detection")
    parser.add_argument("--clips", nargs="+", choices=["original", "plain"], default=["original", "plain"])
    parser.add_argument("--cameras", nargs="+", type=int, default=[4, 16, 32, 64])
    parser.add_argument("--decode", nargs="+", default=["as-needed", "all", "peer"], choices=["as-needed", "all", "peer"])
    parser.add_argument("--seconds", type=float, default=30.0, help="of each run")
    args = parser.parse_args()
    OUT.mkdir(parents=True, exist_ok=True)
    source = args.assets / "videos" / "o4n_traffic_city_640x360.mp4"
    clips = {"original": original_clips, "plain": plain_clips}
    names = {"original": "with B-frames", "plain": "without"}
    row(["graph", "clip", "cameras", "decode", "goodput/s", "not decoded", "p99 ms", *(f"{kind} s" for kind in KINDS), "others s"])
    print("|" + "---|" * (8 + len(KINDS)), flush=True)
    for name in args.clips:
        videos = clips[name](source)
        for cameras in args.cameras:
            for decode in args.decode:
                if decode == "peer":
                    peer(args, names[name], videos, cameras)
                else:
                    run(args, names[name], videos, cameras, decode)


if __name__ == "__main__":
    main()

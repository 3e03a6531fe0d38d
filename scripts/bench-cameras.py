#!/usr/bin/env python3
"""Detection on 4 to 64 cameras of 30 frames a second, decoded as needed and whole, in turn: bench-cameras.py ASSETS

A row a run: goodput, what was not decoded, and processor seconds of each kind of thread, sampled while it runs. On a clip
with bidirectional frames, and on one without whose cameras have their key frames, a second apart, at different moments.
With a Python that has OpenCV and ONNX Runtime (benches/reference/requirements.txt) in WEIR_PYTHON, a plain loop that keeps
the latest frame is the peer. SECONDS_EACH is the length of a run (30), CAMERAS their numbers ("4 16 32 64").
"""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
OUT = ROOT / "out" / "cameras"
SECONDS = float(os.environ.get("SECONDS_EACH", "30"))
CAMERAS = [int(count) for count in os.environ.get("CAMERAS", "4 16 32 64").split()]
WEIR = os.environ.get("WEIR", str(Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / "release" / "weir"))
PHASES = 8

GRAPH = """
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

KINDS = {"weir-source": "decode", "weir-worker": "workers", "weir-slot": "workers", "weir-sink": "sinks", "weir": "control"}


def kind(name: str) -> str:
    """The kind of a thread by its name; the main thread carries control."""
    for prefix, named in KINDS.items():
        if name.startswith(prefix) and (prefix != "weir" or name == "weir"):
            return named
    return "other"


def thread_times(pid: int) -> dict[int, tuple[str, float]]:
    """Processor seconds of each thread of a process so far, with its name."""
    found = {}
    for task in Path(f"/proc/{pid}/task").iterdir():
        try:
            text = (task / "stat").read_text()
        except OSError:
            continue
        name, fields = text[text.index("(") + 1 : text.rindex(")")], text[text.rindex(")") + 2 :].split()
        found[int(task.name)] = (name, (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK"))
    return found


def plain_clips(source: Path) -> list[Path]:
    """The clip without bidirectional frames, its key frames a second apart, at a moment of its own in each copy."""
    clips = []
    for phase in range(PHASES):
        clip = OUT / f"plain-{phase}.mp4"
        if not clip.exists():
            keys = f"expr:gte(t,n_forced-{phase / PHASES})"
            encode = ["-c:v", "libx264", "-preset", "veryfast", "-bf", "0", "-g", "1000", "-sc_threshold", "0"]
            command = ["ffmpeg", "-v", "error", "-y", "-i", str(source), "-an", *encode, "-force_key_frames", keys]
            subprocess.run([*command, str(clip)], check=True)
        clips.append(clip)
    return clips


def run(clips: list[Path], cameras: int, decode: str, mirror: Path) -> dict:
    """One run: its report, with the processor seconds of its threads by kind."""
    graph, report = OUT / "graph.toml", OUT / "report.json"
    graph.write_text(GRAPH.format(video=clips[0], decode=decode))
    report.unlink(missing_ok=True)
    command = [WEIR, "replay", str(graph), *map(str, clips), "--streams", str(cameras), "--loop"]
    command += ["--duration", f"{SECONDS:.0f}s", "--report", str(report), "--out", str(OUT)]
    environment = {"WEIR_MODEL_MIRROR": str(mirror), **os.environ}
    times: dict[int, tuple[str, float]] = {}
    with subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as process:
        while process.poll() is None:
            try:
                times.update(thread_times(process.pid))
            except OSError:
                break
            time.sleep(0.25)
        errors = process.stderr.read().decode()
    if not report.exists():
        sys.exit(f"bench-cameras: no report of {' '.join(command)}\n{errors}")
    found = json.loads(report.read_text())
    found["cpu_s"] = {}
    for name, seconds in times.values():
        found["cpu_s"][kind(name)] = found["cpu_s"].get(kind(name), 0.0) + seconds
    return found


def main() -> None:
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    assets = Path(sys.argv[1])
    clip = assets / "videos" / "o4n_traffic_city_640x360.mp4"
    OUT.mkdir(parents=True, exist_ok=True)
    clips = {"with B-frames": [clip], "without": plain_clips(clip)}
    print("| clip | cameras | decode | goodput/s | not decoded | p99 ms | decode s | workers s | control s | sinks s | other s |")
    print("|---|---|---|---|---|---|---|---|---|---|---|")
    for name, videos in clips.items():
        for cameras in CAMERAS:
            for decode in ("as-needed", "all"):
                found = run(videos, cameras, decode, assets / "models")
                left_out = sum(drop["count"] for drop in found["drops"] if drop["reason"] == "not-decoded")
                share = left_out / max(1, found["requests"]["arrived"])
                times = [f"{found['cpu_s'].get(kind, 0.0):.1f}" for kind in ("decode", "workers", "control", "sinks", "other")]
                cells = [name, str(cameras), decode, f"{found['goodput_rps']:.1f}", f"{100 * share:.0f} %"]
                cells += [f"{found['latency_ms']['p99']:.0f}", *times]
                print("| " + " | ".join(cells) + " |", flush=True)
            peer(name, videos, cameras, assets)


def peer(name: str, videos: list[Path], cameras: int, assets: Path) -> None:
    """The row of the plain loop, where there is a Python for it."""
    python = os.environ.get("WEIR_PYTHON")
    if not python:
        return
    model = assets / "models" / "yolox_nano_416.onnx"
    command = [python, str(ROOT / "benches/reference/latest_frame.py"), str(model), *map(str, videos)]
    command += ["--cameras", str(cameras), "--seconds", f"{SECONDS:.0f}"]
    found = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
    cells = [name, str(cameras), "latest frame, OpenCV", f"{found['goodput_rps']:.1f}", *["-"] * 6, f"{found['cpu_s']:.1f}"]
    print("| " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""Weir and other programs on the same cameras with the same detector, in turn: bench-peers.py ASSETS [--seconds 30] [--cameras 1 4]

Cameras are copies of one clip, played in real time, each from an offset of its own. A result is in time where it is there within the
objective of the moment at which its frame was due. Measured are `--seconds` after a warm-up: results in time a second, latency of all results,
processor time and resident memory of the program, and processor time of other programs. The table is out/peers/peers.txt, and
peers.json beside it. `weir` is the release build (WEIR names another one), `newest` and `all` are benches/reference/peer_loop.py,
`inference` and `inference-freshest` are InferencePipeline of Roboflow, `gstreamer` has to have an element for ONNX.
"""

import argparse
import json
import os
import shutil
import signal
import statistics
import subprocess
import sys
import time
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path

from cameras import busy_time, clip_of

ROOT = Path(__file__).resolve().parent.parent
OUT = ROOT / "out" / "peers"
WEIR = os.environ.get("WEIR", str(Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / "release" / "weir"))
ENVIRONMENTS = ROOT / ".runtime" / "peers"
REFERENCE = ROOT / "benches" / "reference"
THRESHOLD = 0.3
START_TIMEOUT_S = 300.0

GRAPH = """
[app]
name = "peers"
slo = "{objective_ms}ms"
[sources.camera]
uri = "{video}"
[devices.cpu]
slots = {threads}
[models.detector]
model = "zoo:yolox-nano"
score_threshold = {threshold}
[modules.detect]
operator = "detect"
model = "detector"
inputs = ["camera"]
[sinks.events]
type = "jsonl"
path = "events.jsonl"
inputs = ["detect"]
"""

SYSTEMS = {
    "weir": "Weir",
    "inference": "Roboflow inference",
    "inference-freshest": "Roboflow inference, freshest",
    "newest": "OpenCV + ONNX Runtime, newest frame",
    "all": "OpenCV + ONNX Runtime, all frames",
    "gstreamer": "GStreamer",
}


class Unavailable(Exception):
    """Why a system cannot run here."""


@dataclass
class Result:
    """One frame's result: when the frame was due, when the result was there, and how many objects it has."""

    camera: str
    due: float
    done: float
    objects: int


@dataclass
class Row:
    """One system on one number of cameras."""

    system: str
    cameras: int
    in_time_rps: float = 0.0
    results_rps: float = 0.0
    least_camera_rps: float = 0.0
    p50_ms: float | None = None
    p99_ms: float | None = None
    objects_per_result: float = 0.0
    cores: float = 0.0
    memory_mib: float = 0.0
    mib_per_camera: float | None = None
    others_cores: float = 0.0
    error: str | None = None


def command(system: str, args: argparse.Namespace, video: Path, cameras: int) -> tuple[list[str], Path]:
    """The command of a system and the file of its results."""
    model = args.assets / "models" / "yolox_nano_416.onnx"
    results = OUT / f"{system}.jsonl"
    options = [str(model), str(video), "--cameras", str(cameras), "--threads", str(args.threads)]
    options += ["--threshold", str(THRESHOLD), "--out", str(results)]
    if system == "weir":
        if not shutil.which(WEIR):
            raise Unavailable(f"{WEIR} is missing: run make build")
        graph = OUT / "graph.toml"
        graph.write_text(
            GRAPH.format(video=video, objective_ms=args.objective_ms, threads=args.threads, threshold=THRESHOLD)
        )
        replay = [WEIR, "replay", str(graph), str(video), "--streams", str(cameras), "--loop", "--out", str(OUT / "weir")]
        # The events go to a file of the folder; the report stays off the terminal.
        return [*replay, "--report", str(OUT / "weir.json")], OUT / "weir" / "events.jsonl"
    if system in ("newest", "all"):
        return [environment("plain"), str(REFERENCE / "peer_loop.py"), *options, "--keep", system], results
    if system in ("inference", "inference-freshest"):
        mode = "freshest" if system == "inference-freshest" else "default"
        return [environment("inference"), str(REFERENCE / "peer_inference.py"), *options, "--mode", mode], results
    raise Unavailable(gstreamer())


def environment(name: str) -> str:
    """The Python of a virtual environment that scripts/bench-peers.sh made."""
    folder = ENVIRONMENTS / name
    if not (folder / "installed").exists():
        raise Unavailable(f"it could not be installed: {folder / 'install.log'}")
    return str(folder / "bin" / "python")


def gstreamer() -> str:
    """Why GStreamer does not run."""
    package = "gstreamer1.0-plugins-bad"
    version = output_of("dpkg-query", "--show", "--showformat=${Version}", package)
    if not version:
        return f"{package} is not installed"
    if not list(Path("/usr/lib").glob("*/gstreamer-1.0/libgstonnx.so")):
        return f"{package} {version} has no element for ONNX"
    return f"{package} {version} has an element for ONNX, but none that decodes the output of YOLOX"


def processes(session: int) -> list[list[str]]:
    """`stat` of each process of a session, from the state on."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            if int(fields[3]) == session:
                found.append(fields)
    return found


def usage(session: int) -> tuple[float, int]:
    """Processor seconds and resident bytes of a session's processes."""
    found = processes(session)
    ticks = sum(int(fields[11]) + int(fields[12]) for fields in found)
    pages = sum(int(fields[21]) for fields in found)
    return ticks / os.sysconf("SC_CLK_TCK"), pages * os.sysconf("SC_PAGE_SIZE")


def read_results(path: Path) -> list[Result]:
    """All results of a file, of Weir or of a peer. The last line may be cut off."""
    results = []
    for line in path.read_text().splitlines():
        try:
            event = json.loads(line)
        except ValueError:
            continue
        if event.get("type", "frame") != "frame":
            continue
        if "due" in event:
            due, done, camera = event["due"], event["done"], str(event["camera"])
        else:
            # Of a recording, Weir's time of arrival is when the frame was due.
            due = datetime.fromisoformat(event["time"].replace("Z", "+00:00")).timestamp()
            done, camera = due + event["latency_ms"] / 1e3, event["stream"]
        results.append(Result(camera, due, done, len(event["objects"])))
    return results


def wait_for_start(child: subprocess.Popen, log: Path, results: Path) -> None:
    """Waits until the cameras of a program play: it says so, or has a result."""
    end = time.monotonic() + START_TIMEOUT_S
    while time.monotonic() < end:
        if child.poll() is not None:
            raise Unavailable(f"it ended with {child.returncode}: {last_lines(log)}")
        is_ready = "ready\n" in log.read_text(errors="replace")
        if is_ready or (results.exists() and '"type":"frame"' in results.read_text(errors="replace")):
            return
        time.sleep(0.2)
    raise Unavailable(f"it gave no result within {START_TIMEOUT_S:.0f} s: {last_lines(log)}")


def last_lines(log: Path) -> str:
    return " / ".join(log.read_text(errors="replace").strip().splitlines()[-3:])


def stop(child: subprocess.Popen) -> None:
    """Ends a program and its children."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(child.pid, number)
            child.wait(timeout=20)
            return
        except subprocess.TimeoutExpired:
            continue
        except ProcessLookupError:
            return


def measure(system: str, args: argparse.Namespace, video: Path, cameras: int) -> Row:
    """Runs a system on a number of cameras."""
    row = Row(system, cameras)
    try:
        line, path = command(system, args, video, cameras)
    except Unavailable as reason:
        row.error = str(reason)
        return row
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    log = OUT / f"{system}.log"
    variables = {"WEIR_MODEL_MIRROR": str(args.assets / "models"), **os.environ}
    with open(log, "w") as output:
        child = subprocess.Popen(line, env=variables, stdout=output, stderr=output, start_new_session=True)
    try:
        wait_for_start(child, log, path)
        time.sleep(args.warm_up)
        begin, (used, memory), busy = time.time(), usage(child.pid), busy_time()
        while (left := begin + args.seconds - time.time()) > 0.0:
            time.sleep(min(1.0, left))
            memory = max(memory, usage(child.pid)[1])
        end, (used_then, _), busy_then = time.time(), usage(child.pid), busy_time()
        if child.poll() is not None:
            raise Unavailable(f"it ended with {child.returncode}: {last_lines(log)}")
    except Unavailable as reason:
        row.error = str(reason)
        return row
    finally:
        stop(child)
    fill(row, [result for result in read_results(path) if begin <= result.done < end], end - begin, args.objective_ms)
    row.cores = (used_then - used) / (end - begin)
    row.others_cores = max(0.0, (busy_then - busy - (used_then - used)) / (end - begin))
    row.memory_mib = memory / (1 << 20)
    return row


def fill(row: Row, results: list[Result], seconds: float, objective_ms: float) -> None:
    """What the results of the measured time say."""
    delays = sorted((result.done - result.due) * 1e3 for result in results)
    in_time = [result for result in results if (result.done - result.due) * 1e3 <= objective_ms]
    by_camera: dict[str, int] = {}
    for result in in_time:
        by_camera[result.camera] = by_camera.get(result.camera, 0) + 1
    row.in_time_rps, row.results_rps = len(in_time) / seconds, len(results) / seconds
    row.least_camera_rps = min(by_camera.values()) / seconds if len(by_camera) == row.cameras else 0.0
    if delays:
        row.p50_ms, row.p99_ms = statistics.median(delays), delays[min(len(delays) - 1, int(0.99 * len(delays)))]
        row.objects_per_result = sum(result.objects for result in results) / len(results)


def cells(row: Row) -> list[str]:
    """The cells of a line of the table."""
    first = [str(row.cameras), SYSTEMS[row.system]]
    if row.error:
        return [*first, *["-"] * 10]
    latency = ["-" if value is None else f"{value:.0f}" for value in (row.p50_ms, row.p99_ms)]
    growth = "-" if row.mib_per_camera is None else f"{row.mib_per_camera:.1f}"
    rates = [f"{row.in_time_rps:.1f}", f"{row.results_rps:.1f}", f"{row.least_camera_rps:.1f}"]
    used = [f"{row.cores:.2f}", f"{row.memory_mib:.0f}", growth, f"{row.objects_per_result:.2f}", f"{row.others_cores:.2f}"]
    return [*first, *rates, *latency, *used]


HEADS = ["cameras", "system", "in time/s", "results/s", "least camera/s", "p50 ms", "p99 ms", "cores", "memory MiB"]
HEADS += ["MiB a further camera", "objects a result", "others' cores"]


def output_of(*line: str) -> str:
    """The first line that a command prints; empty where it fails."""
    try:
        done = subprocess.run(line, capture_output=True, text=True)
    except OSError:
        return ""
    return done.stdout.strip().split("\n")[0] if done.returncode == 0 else ""


def setup(args: argparse.Namespace, video: Path) -> dict[str, str]:
    """What was run, on what."""
    model = next((line for line in Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("model name")), "")
    versions = "import cv2, onnxruntime; print('OpenCV', cv2.__version__ + ', ONNX Runtime', onnxruntime.__version__)"
    runtime = Path(os.environ.get("ORT_DYLIB_PATH", "")).resolve().name or "the one that setup fetched"
    pipeline = ENVIRONMENTS / "inference" / "bin" / "python"
    named = f"import importlib.metadata as m; print('streamvision', m.version('streamvision') + ',', end=' '); {versions}"
    return {
        "machine": f"{os.cpu_count()} cores, {model.partition(':')[2].strip()}",
        "clip": f"{video.name}, offered {args.fps} frames a second by each camera",
        "objective": f"{args.objective_ms} ms from the time at which a frame is due",
        "measured": f"{args.seconds:.0f} s after {args.warm_up:.0f} s, each system in turn",
        "threads": f"{args.threads} of ONNX Runtime in each system: Weir's {args.threads} slots of one thread, and one session of {args.threads} "
        "threads in the others",
        "weir": f"{output_of(WEIR, '--version')}, ONNX Runtime {runtime}",
        "loops": output_of(str(ENVIRONMENTS / "plain" / "bin" / "python"), "-c", versions),
        "pipeline": output_of(str(pipeline), "-c", named),
    }


def add_growth(rows: list[Row]) -> None:
    """Memory of each further camera, against the same system's run with the fewest."""
    first: dict[str, Row] = {}
    for row in rows:
        if row.error:
            continue
        fewest = first.setdefault(row.system, row)
        if row.cameras > fewest.cameras:
            row.mib_per_camera = (row.memory_mib - fewest.memory_mib) / (row.cameras - fewest.cameras)


def write(facts: dict[str, str], rows: list[Row], reasons: dict[str, str]) -> None:
    """The table and the JSON file, complete after each run."""
    lines = [*(f"{name}: {fact}" for name, fact in facts.items()), "", "| " + " | ".join(HEADS) + " |", "|---" * len(HEADS) + "|"]
    lines += ["| " + " | ".join(cells(row)) + " |" for row in rows]
    lines += ["", *(f"{SYSTEMS[system]}: {reason}" for system, reason in reasons.items())]
    (OUT / "peers.txt").write_text("\n".join(lines).rstrip() + "\n")
    (OUT / "peers.json").write_text(json.dumps({"setup": facts, "rows": [asdict(row) for row in rows]}, indent=1) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("assets", type=Path)
    parser.add_argument("--seconds", type=float, default=30.0, help="measured of each run")
    parser.add_argument("--warm-up", type=float, default=8.0, help="seconds before")
    parser.add_argument("--cameras", nargs="+", type=int, default=[1, 4, 16, 64])
    parser.add_argument("--only", nargs="+", choices=list(SYSTEMS), default=list(SYSTEMS))
    parser.add_argument("--clip", choices=["original", "plain"], default="original", help="plain: key frames a second apart")
    parser.add_argument("--objective-ms", type=int, default=400)
    parser.add_argument("--threads", type=int, default=os.cpu_count() or 1, help="of ONNX Runtime in each system")
    args = parser.parse_args()
    OUT.mkdir(parents=True, exist_ok=True)
    source = args.assets / "videos" / "o4n_traffic_city_640x360.mp4"
    video = clip_of(source, args.clip, 360, OUT)
    args.fps = output_of("ffprobe", "-v", "error", "-select_streams", "v", "-show_entries", "stream=avg_frame_rate", "-of", "csv=p=0", str(video))
    facts, rows, reasons = setup(args, video), [], {}
    for name, fact in facts.items():
        print(f"{name}: {fact}", file=sys.stderr)
    for cameras in sorted(args.cameras):
        for system in args.only:
            row = measure(system, args, video, cameras)
            rows.append(row)
            add_growth(rows)
            if row.error:
                reasons[system] = row.error
            write(facts, rows, reasons)
            print("| " + " | ".join(cells(row)) + " |", file=sys.stderr, flush=True)
    print((OUT / "peers.txt").read_text(), end="")
    if all(row.error for row in rows):
        sys.exit(1)


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""More models than memory on one box: bench-box.py [--seconds 120] [--share 0.6] [--queues ...] [--host-memory 512MiB 1KiB]

One graph of the three demos: traffic monitoring on live cameras that offer a share of what this machine sustains, live video and
game analysis on six archive jobs. It is run with all thirteen nets open and without archives, with all open and with archives,
and in memory for five of the nets, by each rule of `[policy] queues` and by the turns of the arbiter (`-`). Of each: goodput of the
cameras and its ratio to that without archives, archive frames a second and their ratio to what the time that the cameras leave
would allow (frames a second of the archives alone, times the part of the slots that was idle), and openings with the seconds that slots
opened. Objects of each archive frame must be those of a run of that archive alone. By the first of the rules it is run with each of
the --host-memory, by the others with the first of them: in 1KiB nothing is kept, so that every model opens from its file, without warm
start. WEIR names the program, --keep a folder for what is written.
"""

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TARGET = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
WEIR = os.environ.get("WEIR", str(TARGET / "release" / "weir"))
APPS = {"street": "traffic-monitoring", "room": "live-video", "match": "game-analysis"}
CLIPS = {"street": "street-day", "room": "live-room", "match": "game-match"}
SLOTS = 2
FPS = 25
JOBS = 6
# Of nets that are open at a time.
OPEN = 5


def load():
    return Path("/proc/loadavg").read_text().split()[0]


def toml(value):
    if isinstance(value, dict):
        return "{ " + ", ".join(f'"{key}" = {toml(inner)}' for key, inner in value.items()) + " }"
    if isinstance(value, list):
        return "[" + ", ".join(map(toml, value)) + "]"
    return json.dumps(value)


def demo(app):
    """Models and modules of a demo with the app before their names, and the inputs of its sink."""
    text = (ROOT / "apps" / APPS[app] / "demo.toml").read_text()
    text = re.sub(r"\$\{WEIR_GALLERY:-.*?\}", str(ROOT / "videos/gallery"), text)
    graph = tomllib.loads(re.sub(r"\$\{WEIR_VIDEO:-(.*?)\}", r"\1", text))
    own = {name for kind in ("models", "modules") for name in graph[kind]}
    tables = {}
    for kind in ("models", "modules"):
        for name, table in graph[kind].items():
            table = dict(table)
            if "model" in table and kind == "modules":
                table["model"] = f"{app}-{table['model']}"
            if "inputs" in table:
                table["inputs"] = [f"{app}-{name}" if name in own else app for name in table["inputs"]]
            tables[kind, f"{app}-{name}"] = table
    last = [f"{app}-{name}" for name in graph["sinks"]["events"]["inputs"] if name in graph["modules"]]
    return tables, last


def graph(folder, cameras, archives, memory, queues, host):
    """The graph of cameras and of the archives that are named, as text."""
    lines = ['[app]\nname = "box"\nslo = "400ms"\n']
    if queues:
        lines.append(f'[policy]\nqueues = "{queues}"\n')
    lines.append(f"[devices.cpu]\nslots = {SLOTS}\n" + (f'memory = "{memory}KiB"\nhost_memory = "{host}"\n' if memory else ""))
    names = [f"camera-{number:02}" for number in range(cameras)]
    for name in names:
        lines.append(f'[sources.{name}]\nuri = "{ROOT}/videos/street-day.mp4"\nloop = true\n')
    for app in archives:
        lines.append(f'[sources.{app}]\nmode = "queued"\nqueue = "{folder}/{app}-jobs"\nslo = "30m"\nsegment = "2s"\n')
    for app in (["street"] if cameras else []) + archives:
        tables, last = demo(app)
        for (kind, name), table in tables.items():
            inputs = table.get("inputs")
            if inputs == [app] and app == "street":
                table["inputs"] = names
            lines.append(f"[{kind}.{name}]\n" + "".join(f"{key} = {toml(value)}\n" for key, value in table.items()))
        path = f"{folder}/{app}.jsonl" if app == "street" else f"{folder}/{app}/{{stream}}.jsonl"
        lines.append(f'[sinks.{app}-events]\ntype = "jsonl"\npath = "{path}"\ninputs = {toml(last)}\n')
    return "\n".join(lines)


def weir(*arguments):
    ran = subprocess.run([WEIR, *map(str, arguments)], capture_output=True, text=True, check=False)
    if ran.returncode not in (0, 130):
        sys.exit(f"weir {' '.join(map(str, arguments))}: {ran.stderr}")
    return ran.stdout + ran.stderr


def run(folder, seconds, cameras=0, archives=(), memory=None, queues=None, host=None):
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    file, report = folder / "box.toml", folder / "report.json"
    file.write_text(graph(folder, cameras, list(archives), memory, queues, host))
    for number in range(JOBS if archives else 0):
        app = archives[number % len(archives)]
        clips = [ROOT / "videos" / f"{CLIPS[app]}.mp4"] * 200
        weir("submit", folder / f"{app}-jobs", "--graph", file, "--source", app, *clips)
    weir("run", file, "--duration", f"{seconds}s", "--report", report)
    return json.loads(report.read_text())


def archive_frames(folder, apps):
    """Of each archive its committed frames by video: what is said of their objects, without times and numbers of tracks."""
    said = {}
    for app in apps:
        for file in sorted((folder / app).glob("*.jsonl")):
            with open(file) as lines:
                for event in map(json.loads, lines):
                    if event["type"] != "frame":
                        continue
                    objects = [{key: value for key, value in o.items() if key not in ("track", "id", "parent")} for o in event["objects"]]
                    said.setdefault(app, []).append((event["frame"], json.dumps(objects, sort_keys=True)))
    return said


def live(report):
    """Goodput of the cameras, a second."""
    streams = [stream for name, stream in report["streams"].items() if name.startswith("camera")]
    return sum(stream["goodput_rps"] for stream in streams)


def busy(report):
    return sum(module["busy_s"] for module in report["modules"].values()) / (SLOTS * report["run"]["duration_s"])


def memory_of_five(folder):
    """What the largest five of the thirteen take, so that any five fit, as they are measured, in KiB; from `weir check`."""
    file = folder / "check.toml"
    file.write_text(graph(folder, 1, ["room", "match"], 4 << 20, None, "512MiB"))
    said = weir("check", file)
    sizes = [float(size) for size in re.findall(r"(?:street|room|match)-[\w-]+ ([\d.]+) MiB", said)]
    if len(sizes) != 13:
        sys.exit(f"weir check says what {len(sizes)} of 13 models take:\n{said}")
    return int(sum(sorted(sizes)[-OPEN:]) * 1024) + 1


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--seconds", type=int, default=120)
    arguments.add_argument("--share", type=float, default=0.6)
    arguments.add_argument("--queues", nargs="*", default=["-", "fcfs", "edf", "sticky", "virtual"])
    arguments.add_argument("--memory", type=int, help="KiB; default what the largest five of the nets take, as measured")
    arguments.add_argument("--host-memory", nargs="+", default=["512MiB", "1KiB"], help="for what models are opened from faster")
    arguments.add_argument("--keep", type=Path)
    given = arguments.parse_args()
    both = ["room", "match"]
    with tempfile.TemporaryDirectory() as temporary:
        folder = given.keep or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        memory = given.memory or memory_of_five(folder)
        most = live(run(folder / "most", 15, cameras=8))
        cameras = max(1, round(given.share * most / FPS))
        print(f"load of the last minute {load()}; sustained {most:.1f}/s; {cameras} cameras offer {cameras * FPS}/s; memory {memory / 1024:.1f} MiB")
        alone = run(folder / "alone", given.seconds // 2, archives=both)
        expected = {app: dict(frames) for app, frames in archive_frames(folder / "alone", both).items()}
        rate = alone["jobs"]["frames"] / alone["run"]["duration_s"]
        print(f"archives alone, all open: {rate:.1f} frames/s\n")
        print("| memory | host memory | queues | cameras /s | ratio | archives /s | of idle time | opened cold | warm | seconds | in flight | other results |")
        print("|---|---|---|---|---|---|---|---|---|---|---|---|", flush=True)
        base = None
        first, *others = given.host_memory
        rows = [("all", "-", "-", []), ("all", "-", "-", both)] + [("five", first, queues, both) for queues in given.queues]
        rows[3:3] = [("five", host, queues, both) for queues in given.queues[:1] for host in others]
        for kept, host, queues, archives in rows:
            limit = memory if kept == "five" else None
            rule = None if queues == "-" else queues
            name = f"{kept}-{host}-{queues}-{len(archives)}"
            report = run(folder / name, given.seconds, cameras, archives, limit, rule, host)
            goodput = live(report)
            if base is None:
                base, idle = goodput, max(0.0, 1.0 - busy(report))
            frames = report.get("jobs", {}).get("frames", 0) / report["run"]["duration_s"] if archives else 0.0
            found = archive_frames(folder / name, archives)
            other = sum(
                text != expected[app].get(frame, text) for app, said in found.items() for frame, text in said
            )
            residency = report.get("residency") or {}
            print(
                f"| {kept} | {host} | {queues} | {goodput:.1f} | {goodput / base:.3f} | {frames:.1f} |"
                f" {frames / max(rate * idle, 1e-9):.2f} | {residency.get('opened_cold', 0)} | {residency.get('opened_warm', 0)} |"
                f" {residency.get('seconds', 0):.1f} | {report['requests']['in_flight']} | {other} |",
                flush=True,
            )
        print(f"\nload of the last minute {load()}")


if __name__ == "__main__":
    main()

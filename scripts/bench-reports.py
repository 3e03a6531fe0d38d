#!/usr/bin/env python3
"""Whether load changes what reports say: bench-reports.py [--seconds 60] [--clip street-day]

The graph of reports with one on every frame, so that there are thousands of sentences: first the clip as an archive, which shows how
many frames a second this machine sustains; then as cameras that offer half of that, and all of it. Of delivered frames both must
have the same share of sentences right to within a point. What scribe says given what is truly there is held to 95 % by a test
(`cargo test -p weir-operators --test operators reports::`). WEIR names the program.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TARGET = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
WEIR = os.environ.get("WEIR", str(TARGET / "release" / "weir"))
FPS = 25


def graph():
    """The graph of reports with a report on every frame."""
    text = (ROOT / "apps/traffic-monitoring/reports.toml").read_text()
    text = re.sub(r"\$\{WEIR_GALLERY:-.*?\}", str(ROOT / "videos/gallery"), text)
    text = re.sub(r"^per_track = .*\n", "", text, flags=re.M)
    text = re.sub(r'^regions = \["car", .*\n', "", text, flags=re.M)
    return re.sub(r"\n\[sinks\..*", "\n", text, flags=re.S)


def score(folder, clip, *options):
    report = folder / "score.json"
    report.unlink(missing_ok=True)
    ran = subprocess.run(
        [WEIR, "score", str(folder / "reports.toml"), "--truth", f"{clip}.truth.jsonl", f"{clip}.mp4", "--report", str(report),
         "--out", str(folder / "out"), *options],
        capture_output=True, text=True, check=False,
    )
    if ran.returncode:
        sys.exit(ran.stderr)
    return json.loads(report.read_text())


def row(name, report, seconds):
    frames, reports = report["accuracy"]["delivered"]["frames"], report["accuracy"]["reports"]
    share = lambda value: f"{100 * value:.2f} %"
    print(
        f"| {name} | {frames / seconds:.1f} | {reports['reports']} | {share(reports['sentences']['of_stated'])}"
        f" of {reports['sentences']['stated']} | {share(reports['facts']['of_stated'])} of {reports['facts']['stated']} |"
        f" {share(reports['reported_of_true'])} |",
        flush=True,
    )
    return 100 * reports["sentences"]["of_stated"]


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--seconds", type=int, default=60, help="at full load; at half twice as long, for the same frames")
    arguments.add_argument("--clip", default="street-day")
    given = arguments.parse_args()
    clip = ROOT / "videos" / given.clip
    print("| load | delivered/s | reports | sentences right | facts right | true facts reported |")
    print("|---|---|---|---|---|---|", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)
        (folder / "reports.toml").write_text(graph())
        archive = score(folder, clip, "--speed", "max")
        seconds = archive["run"]["duration_s"]
        sustained = archive["accuracy"]["delivered"]["frames"] / seconds
        row("archive", archive, seconds)
        rights = []
        for name, part in (("half", 0.5), ("full", 1.0)):
            speed = f"{part * sustained / FPS:.3f}"
            report = score(folder, clip, "--speed", speed, "--loop", "--duration", f"{given.seconds / part:g}s")
            rights.append(row(f"{name}, {part * sustained:.1f} offered/s", report, report["run"]["duration_s"]))
    apart = abs(rights[0] - rights[1])
    print(f"sentences right at half and at full load: {apart:.2f} points apart")
    if apart > 1:
        sys.exit("more than a point apart")


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""PARD, `weir` and the systems that PARD's paper compares itself with, live and in turn: bench-rivals.py [ASSETS]

Three graphs: a chain on emulated devices of its own under a bursty trace (config/emulated-batches.toml), so with a mailbox for each
worker; the same chain with the slowest module first and last; and, with the asset pack, traffic monitoring on this machine's processor,
whose modules share their workers and so have one mailbox. Each system runs once a round, in another order each round. A row a graph and
system: mean and least goodput of the rounds, its ratio to the best rival of the same round, the part that was dropped or late, and the
part of the device time that went to requests that failed.
"""

import argparse
import json
import os
import random
import statistics
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
OUT = ROOT / "out" / "rivals"
WEIR = os.environ.get("WEIR", str(Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / "release" / "weir"))
OURS, RIVALS = ["weir", "pard", "pard-paper"], ["nexus", "clipper++", "naive", "newest"]
PLACES = ["middle", "first", "last"]


def chain(place: str) -> str:
    """The emulated chain with its slowest device in the first, the second or the last module."""
    text = (ROOT / "config" / "emulated-batches.toml").read_text().replace("traces/", f"{ROOT}/config/traces/")
    orders = {"first": ["second", "first", "third"], "last": ["first", "third", "second"]}
    for module, model in zip(["one", "two", "three"], orders.get(place, [])):
        head, rest = text.split(f"[modules.{module}]\n")
        own, *others = rest.split("\n\n", 1)
        was = next(line for line in own.splitlines() if line.startswith("model"))
        text = f"{head}[modules.{module}]\n" + "\n\n".join([own.replace(was, f'model = "{model}"'), *others])
    return text


def run(name: str, text: str, policy: str, arguments: list[str], environment: dict[str, str]) -> dict:
    """The report of one run."""
    graph, report = OUT / f"{name}.toml", OUT / "report.json"
    graph.write_text(f'{text}\n[policy]\npreset = "{policy}"\n')
    report.unlink(missing_ok=True)
    command = [WEIR, *arguments[:1], str(graph), *arguments[1:], "--report", str(report)]
    done = subprocess.run(command, env={**os.environ, **environment}, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"bench-rivals: {' '.join(command)}\n{done.stderr}")
    return json.loads(report.read_text())


def wasted(report: dict) -> float:
    """The part of the device time that went to requests that failed."""
    modules = report["modules"].values()
    busy = sum(module["busy_s"] for module in modules)
    return sum(module["wasted_s"] for module in modules) / busy if busy else 0.0


def compare(title: str, name: str, text: str, arguments: list[str], environment: dict[str, str], rounds: int) -> None:
    """The rows of one graph."""
    names, order = [*OURS, *RIVALS], random.Random(7)
    if "pard-paper" in names and name == "traffic":
        names.remove("pard-paper")
    reports = {policy: [] for policy in names}
    for _ in range(rounds):
        for policy in order.sample(names, len(names)):
            reports[policy].append(run(name, text, policy, arguments, environment))
    goodput = {policy: [report["goodput_rps"] for report in found] for policy, found in reports.items()}
    best = [max(goodput[policy][number] for policy in RIVALS if policy != "newest") for number in range(rounds)]
    for policy, found in reports.items():
        ratios = [one / other for one, other in zip(goodput[policy], best)]
        failed = [1 - report["requests"]["delivered"] / max(1, report["requests"]["arrived"]) for report in found]
        cells = [title, policy, f"{statistics.mean(goodput[policy]):.1f}", f"{min(goodput[policy]):.1f}"]
        cells += [f"{statistics.mean(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})"]
        cells += [f"{100 * statistics.mean(failed):.1f} %", f"{100 * statistics.mean(map(wasted, found)):.1f} %"]
        print("| " + " | ".join(cells) + " |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("assets", type=Path, nargs="?")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--rates", nargs="+", type=int, default=[200, 260], help="requests a second of the chain, on average")
    parser.add_argument("--seconds", type=int, default=30, help="of each run")
    parser.add_argument("--cameras", type=int, default=12, help="of traffic monitoring")
    args = parser.parse_args()
    OUT.mkdir(parents=True, exist_ok=True)
    heads = ["graph", "system", "goodput/s", "least", "to the best rival", "dropped or late", "wasted device time"]
    print("| " + " | ".join(heads) + " |\n|" + "---|" * len(heads), flush=True)
    lasting = ["--duration", f"{args.seconds}s"]
    for place in PLACES:
        for rate in args.rates:
            title = f"emulated chain, slowest {place}, {rate}/s"
            compare(title, f"chain-{place}", chain(place), ["run", *lasting], {"RATE": str(rate)}, args.rounds)
    if args.assets:
        text = (ROOT / "apps" / "traffic-monitoring" / "graph.toml").read_text()
        video = args.assets / "videos" / "o4n_traffic_city_640x360.mp4"
        streams = [str(video), "--streams", str(args.cameras), "--loop", "--out", str(OUT / "results"), *lasting]
        mirror = {"WEIR_MODEL_MIRROR": str(args.assets / "models")}
        compare(f"traffic monitoring, {args.cameras} cameras", "traffic", text, ["replay", *streams], mirror, args.rounds)


if __name__ == "__main__":
    main()

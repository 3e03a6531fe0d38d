#!/usr/bin/env python3
"""How long models take to open: bench-openings.py [ASSETS]

Of every net that ships, and of every public one in the asset pack that has a head: the time in which a session opens from the file
(cold) and from host memory (warm), a batch of one as `weir profile` measures it, what a session takes, and how many batches of one an
opening is worth. A session runs on one core. WEIR names the program. Models that generate are measured by their graphs.
"""

import os
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TARGET = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
WEIR = os.environ.get("WEIR", str(TARGET / "release" / "weir"))
RUN, OPENING = ["model", "batch", "ms", "items/s"], ["model", "open cold ms", "open warm ms", "session MiB"]


def load():
    return Path("/proc/loadavg").read_text().split()[0]


def models(assets):
    """What `weir profile` is to measure, with its name and where it is from."""
    shipped = tomllib.loads((ROOT / "models/shipped.toml").read_text())
    found = [(name, f"embedded:{name}", "ships") for name, net in shipped.items() if net["head"] != "generate"]
    for name, net in tomllib.loads((ROOT / "models/zoo.toml").read_text()).items():
        file = assets / "models" / net["file"] if assets else None
        if file and file.is_file() and "head" in net:
            found.append((name, str(file), "asset pack"))
    return found


def measured(target, environment):
    """Milliseconds of a batch of one, of an opening cold and warm, and MiB; or what was said instead."""
    ran = subprocess.run([WEIR, "profile", target, "--batches", "1"], capture_output=True, text=True, env=environment, check=False)
    rows = [line.split() for line in ran.stdout.splitlines() if line.strip()]
    heads = [" ".join(RUN).split(), " ".join(OPENING).split()]
    places = [at for head in heads for at, row in enumerate(rows) if row == head]
    if ran.returncode or len(places) != len(heads):
        return None, (ran.stderr.strip() or ran.stdout.strip()).splitlines()[-1:]
    run, opening = (rows[at + 1] for at in places)
    return [float(run[2])] + [float(cell) for cell in opening[1:4]], []


def main():
    assets = Path(sys.argv[1]).resolve() if len(sys.argv) > 1 else None
    if assets and not (assets / "models").is_dir():
        print(f"{assets} has no models: the nets that ship alone")
        assets = None
    environment = {**os.environ, **({"WEIR_MODEL_MIRROR": str(assets / "models")} if assets else {})}
    print(f"load of the last minute {load()}\n")
    print("| model | from | cold ms | warm ms | warm of cold | run ms | runs of an opening, cold | warm | session MiB |")
    print("|---|---|---|---|---|---|---|---|---|", flush=True)
    failed, sums = [], [0.0, 0.0, 0.0]
    for name, target, where in models(assets):
        figures, said = measured(target, environment)
        if figures is None:
            failed.append(f"{name}: {' '.join(said)}")
            continue
        run, cold, warm, size = figures
        sums = [sums[0] + cold, sums[1] + warm, sums[2] + run]
        each = max(run, 1e-3)
        print(f"| {name} | {where} | {cold:.1f} | {warm:.1f} | {warm / max(cold, 1e-3):.2f} | {run:.2f} | {cold / each:.1f} | {warm / each:.1f} | {size:.1f} |", flush=True)
    cold, warm, run = sums
    print(f"| all | | {cold:.1f} | {warm:.1f} | {warm / max(cold, 1e-3):.2f} | {run:.2f} | {cold / max(run, 1e-3):.1f} | {warm / max(run, 1e-3):.1f} | |")
    for line in failed:
        print(f"\nnot measured: {line}")
    print(f"\nload of the last minute {load()}")


if __name__ == "__main__":
    main()

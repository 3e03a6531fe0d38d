#!/usr/bin/env python3
"""What delivering what is known is worth where the next stage would be late: bench-accept.py ASSETS [--seconds 20] [--slo 250ms]

The labelled crops of plates over and over, LPRNet first and PP-OCR for what it is not certain of, one slot for both. First as many as
the cascade sustains, then twice and half of that: with `on_late = "accept"`, with `"drop"`, and the large model alone. Of each: plates
that came, were delivered in time, and were read rightly in time a second. Needs the asset pack. WEIR names the program.
"""

import argparse
import json
import tempfile
from pathlib import Path

from street import ROOT, run_graph

CASCADE = 'cascade = [{ model = "small", certainty = 0.9 }, { model = "large" }]\n'
RULES = {
    "accept": CASCADE + 'on_late = "accept"\n',
    "drop": CASCADE + 'on_late = "drop"\n',
    "large alone": 'model = "large"\n',
}


def graph(assets, rule, source, slo):
    """The graph of the crops' test, by a rule, from a source of this kind."""
    text = (ROOT / "apps/weir/tests/data/plates.toml").read_text()
    for name, file in {"crops": "images/plates", "small": "models/lprnet_plate_24x94.onnx", "large": "models/ppocr_v4_rec.onnx"}.items():
        text = text.replace(f"{{{name}}}", str(assets / file))
    text = text.replace('slo = "20s"', f'slo = "{slo}"').replace(CASCADE, RULES[rule])
    return text.replace("[devices.cpu]", f"loop = true\n{source}\n[devices.cpu]")


def run(text, seconds):
    """The report, and how many plates were read as their file is called."""
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        report = run_graph(place, text, seconds)
        right = 0
        for event in map(json.loads, open(place / "events.jsonl")):
            if event["type"] == "frame" and not event.get("late"):
                said = [o["attributes"]["text"]["text"] for o in event["objects"] if "text" in o["attributes"]]
                right += said == [Path(event["file"]).stem]
        return report, right


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("assets", type=Path)
    arguments.add_argument("--seconds", type=int, default=20)
    arguments.add_argument("--slo", default="250ms")
    given = arguments.parse_args()
    assets = given.assets.resolve()
    whole, _ = run(graph(assets, "drop", 'mode = "lossless"\nfps = 1000', "20s"), given.seconds)
    sustained = whole["goodput_rps"]
    print(f"the cascade sustains {sustained:.1f} plates/s; within {given.slo}:\n")
    print("| load | rule | came | in time | read rightly in time | /s |")
    print("|---|---|---|---|---|---|", flush=True)
    for load in (2.0, 0.5):
        for rule in RULES:
            source = f'mode = "live"\nfps = {load * sustained:.2f}'
            report, right = run(graph(assets, rule, source, given.slo), given.seconds)
            requests = report["requests"]
            print(
                f"| {load} | {rule} | {requests['arrived']} | {requests['delivered']} | {right} | {right / given.seconds:.1f} |",
                flush=True,
            )


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""Exports of detectors by their frameworks, read by Weir: bench-heads.py ASSETS [--rows TEXT ...] [--fresh] [--no-cross]

Weights are drawn at random with a fixed seed, and the last layers are scaled so that a picture has some objects. Twenty pictures go
through the framework's own post-processing and through `weir detect`: each object must be there with the same class, an overlap (IoU) of
0.99 and a score within 0.001, or 0.97 and 0.02 in half precision. A row an export; its second table has each export under every other head, which must be refused or
warned of. Exports are kept in out/heads; --fresh makes them anew. Run by bench-heads.sh, which makes the virtual environment.
"""

import argparse
import json
import math
import os
import re
import subprocess
import sys
import time
import traceback
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "benches" / "heads"))

import common  # noqa: E402

OUT = ROOT / "out" / "heads"
WEIR = os.environ.get("WEIR", str(Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / "release" / "weir"))
# Heads that give objects.
HEADS = ["yolov8", "yolo-pose", "yolo-segment", "yolo-obb", "end2end", "yolov5", "yolox", "detr", "rtdetr", "paddle", "ssd", "mmdeploy", "nanodet", "fastestdet", "yunet", "ultraface",
         "scrfd", "retinaface", "blazeface", "palm", "plate-corners"]
# Heads that are more particular when they choose themselves than when they are named.
NAMED_OTHERWISE = ["yolov8", "yolov5", "yolox"]
EXACT = (0.99, 0.001)
# Boxes are printed to a tenth of a pixel; thinner ones than this are left out.
SIDE, THIN = 0.11, 0.3
MANY = 100
# For pictures that are resized or padded otherwise, and in half precision, where the same input gives other digits.
LOOSE = (0.8, 0.1)
HALF = (0.97, 0.02)
# Pixels between key points and between corners, overlap of masks. Points below this score are not compared.
POINT, CORNER, MASK = 0.5, 1.0, 0.99
# Pixels at the edges of a box in which masks are not compared.
EDGE = 2
POINT_SCORE = 0.5
# Masks of fewer pixels differ by their edge alone.
SMALL_MASK = 100
# Bounds of a mask in Weir: cells along one side, and runs. A mask beyond a bound is kept on a coarser grid and is not compared.
MASK_SIDE, MASK_RUNS = 256, 2048
# The framework has no mask in a box thinner than this, if no corner of a pixel is in it; then it has no object.
MASK_THIN = 1.0

GRAPH = """
[app]
name = "heads"
slo = "60s"
[sources.pictures]
template = true
"""
MODULE = """
[modules.detect]
operator = "detect"
model = "auto"
inputs = ["pictures"]
[sinks.events]
type = "jsonl"
path = "events.jsonl"
inputs = ["detect"]
"""


def model_table(name: str, head: str | None, file: Path, keys: dict) -> str:
    lines = [f"[models.{name}]", f'model = "{file}"']
    if head:
        lines.append(f'head = "{head}"')
    lines += [f"{key} = {json.dumps(value)}" for key, value in keys.items()]
    return "\n".join(lines) + "\n"


def weir(*arguments, cwd: Path) -> subprocess.CompletedProcess:
    return subprocess.run([WEIR, *map(str, arguments)], cwd=cwd, capture_output=True, text=True, timeout=900)


def made(row: common.Row, assets: Path, fresh: bool) -> dict:
    """What is known of an export: from out/heads, or made anew."""
    folder = OUT / row.name
    described = folder / "export.json"
    if described.exists() and not fresh:
        return json.loads(described.read_text())
    folder.mkdir(parents=True, exist_ok=True)
    begin = time.monotonic()
    export = row.make(folder)
    known = {"file": str(export.file), "size": list(export.size), "head": export.head, "threshold": export.threshold, "keys": export.keys,
             "most": export.most, "note": export.note}

    def found(answer, size: tuple | None) -> list:
        whole = common.pictures(assets, size)
        each = zip(whole, answer(whole))
        return [[[one.name, one.score, within(one.box, picture.size), one.detail] for one in objects] for picture, objects in each]

    if export.answer:
        known["exact"] = found(export.answer, export.size)
    if export.answer_resized:
        known["resized"] = found(export.answer_resized, export.other_size)
    known["other_size"] = export.other_size
    known["seconds"] = round(time.monotonic() - begin)
    described.write_text(json.dumps(known))
    return known


def within(box, size: tuple) -> list:
    """A box cut off at the edges of the picture, as Weir does it."""
    width, height = size
    return [min(max(box[0], 0), width), min(max(box[1], 0), height), min(max(box[2], 0), width), min(max(box[3], 0), height)]


def picture_files(assets: Path, size: tuple | None) -> list:
    name = "own" if size is None else f"{size[0]}x{size[1]}"
    folder = OUT / "pictures" / name
    folder.mkdir(parents=True, exist_ok=True)
    files = [folder / f"{number:02}.png" for number in range(common.PICTURES)]
    if not all(file.exists() for file in files):
        for file, picture in zip(files, common.pictures(assets, size)):
            picture.save(file)
    return files


def overlap(a, b) -> float:
    w, h = min(a[2], b[2]) - max(a[0], b[0]), min(a[3], b[3]) - max(a[1], b[1])
    if w <= 0 or h <= 0:
        return 0.0
    both = w * h
    return both / ((a[2] - a[0]) * (a[3] - a[1]) + (b[2] - b[0]) * (b[3] - b[1]) - both)


def side(box) -> float:
    """The shorter side of a box."""
    return min(box[2] - box[0], box[3] - box[1])


def thinnest(detail: dict) -> float:
    """Side below which a box with this detail is not compared."""
    return MASK_THIN if detail.get("mask") else THIN


def detail_of(found: dict) -> dict:
    """Key points, corners or mask of an object in an event line."""
    points = found["attributes"].get("keypoints")
    return {
        "points": points and [[point["at"]["x"], point["at"]["y"], point["score"]] for point in points],
        "corners": found.get("rotated", {}).get("corners"),
        "mask": "mask" in found and common.coco_runs(found["mask"]["counts"]),
    }


def same_detail(expected: dict, got: dict, size: list, box: list) -> bool:
    """Whether key points, corners or pixels are those of the framework, which cuts points off at the edges of the picture."""
    if "points" in expected:
        pairs = list(zip(expected["points"], got["points"] or []))
        apart = [
            max(abs(min(max(b[axis], 0), size[axis]) - a[axis]) for axis in (0, 1))
            for a, b in pairs
            if len(a) < 3 or a[2] > POINT_SCORE + 0.01
        ]
        scores = [abs(a[2] - b[2]) for a, b in pairs if len(a) > 2]
        return len(pairs) == len(expected["points"]) and max(apart, default=0) <= POINT and max(scores, default=0) <= EXACT[1]
    if "corners" in expected:
        # The first corner is another one where the sides are exchanged.
        near = [min((max(abs(a[0] - b[0]), abs(a[1] - b[1])) for b in got["corners"] or []), default=CORNER + 1) for a in expected["corners"]]
        return max(near) <= CORNER
    if not got["mask"]:
        return False
    a, b = common.pixels_of(expected["mask"]), common.pixels_of(got["mask"])
    if a.size != b.size or a.size != size[0] * size[1]:
        return False
    # At the edge of the box a pixel is taken by its corner there, and by its centre here.
    left, top, right, bottom = int(box[0]) + EDGE, int(box[1]) + EDGE, int(box[2]) - EDGE, int(box[3]) - EDGE
    a, b = [pixels.reshape(size[0], size[1])[max(left, 0):max(right, 0), max(top, 0):max(bottom, 0)] for pixels in (a, b)]
    return bool((a | b).sum() < SMALL_MASK or (a & b).sum() / (a | b).sum() >= MASK)


def is_coarse(expected: dict, size: list, box: list) -> bool:
    """Whether a mask is beyond the bounds within which Weir keeps a cell for each pixel."""
    if "mask" not in expected:
        return False
    left, top, right, bottom = math.floor(box[0]), math.floor(box[1]), math.ceil(box[2]), math.ceil(box[3])
    pixels = common.pixels_of(expected["mask"])
    if pixels.size != size[0] * size[1]:
        return False
    pixels = pixels.reshape(size[0], size[1])[left:right, top:bottom]
    return max(pixels.shape) > MASK_SIDE or len(common.column_runs(pixels.T)) > MASK_RUNS


def compare(expected: list, got: list, known: dict, tolerance: tuple) -> dict:
    """How many objects are the same. Those whose score is at the threshold may be missing on either side. A picture with a hundred or more
    is left out, as is one with more than the framework gives: their scores are the same, and it is chance which one suppresses the other."""
    threshold = known["threshold"]
    least, most = tolerance
    counts = {"details": 0, "details_same": 0, "coarse": 0, "objects": 0, "same": 0, "missing": 0, "extra": 0, "least_iou": 1.0, "most_score": 0.0, "examples": []}
    for number, (of_framework, of_weir) in enumerate(zip(expected, got)):
        if len(of_framework) >= min(known["most"], MANY):
            continue
        left = [one for one in of_weir if side(one[2]) >= thinnest(one[3]) - SIDE]
        for name, score, box, detail in of_framework:
            if side(box) < thinnest(detail):
                continue
            same_class = [one for one in left if one[0] == name]
            # Several objects may have the same box.
            best = max(same_class, key=lambda one: (round(overlap(one[2], box), 2), -abs(one[1] - score)), default=None)
            near = best and max(abs(a - b) for a, b in zip(best[2], box)) <= SIDE
            fits = best and (overlap(best[2], box) >= least or near) and abs(best[1] - score) <= most
            if not fits and score < threshold + 2 * most:
                continue
            counts["objects"] += 1
            if fits and is_coarse(detail, known["size"], box):
                counts["coarse"] += 1
            elif fits and detail:
                counts["details"] += 1
                counts["details_same"] += same_detail(detail, best[3], known["size"], box)
            if fits:
                counts["same"] += 1
                left.remove(best)
                if not near:
                    counts["least_iou"] = min(counts["least_iou"], overlap(best[2], box))
                counts["most_score"] = max(counts["most_score"], abs(best[1] - score))
            else:
                counts["missing"] += 1
                if len(counts["examples"]) < 3:
                    counts["examples"].append({"picture": number, "framework": [name, score, box], "weir": best})
        extra = [one for one in left if one[1] >= threshold + 2 * most and side(one[2]) >= thinnest(one[3]) + SIDE]
        counts["extra"] += len(extra)
        if extra and len(counts["examples"]) < 3:
            counts["examples"].append({"picture": number, "only of weir": extra[0]})
    return counts


def detect(folder: Path, known: dict, files: list) -> tuple:
    """Objects of each picture as Weir finds them, or the reason why not."""
    graph = folder / "graph.toml"
    keys = known["keys"] | {"score_threshold": known["threshold"]}
    graph.write_text(GRAPH + model_table("auto", None, Path(known["file"]), keys) + MODULE)
    ran = weir("detect", graph, *files, cwd=folder)
    lines = [json.loads(line) for line in ran.stdout.splitlines() if line.startswith("{")]
    if ran.returncode != 0 or len(lines) != len(files):
        errors = [line for line in ran.stderr.splitlines() if not line.startswith("warning")]
        return None, " ".join(errors)[:600] or f"exit status {ran.returncode}", ran.stderr
    return [[(o["class"], o["score"], o["box"], detail_of(o)) for o in line["objects"]] for line in lines], "", ran.stderr


def inspected(folder: Path, known: dict) -> dict:
    """What `weir models inspect` says of the file."""
    ran = weir("models", "inspect", "--json", known["file"], cwd=folder)
    try:
        return json.loads(ran.stdout)
    except json.JSONDecodeError:
        return {"head": None, "heads": [], "problem": ran.stderr[:600]}


def cross(folder: Path, known: dict, about: dict) -> dict:
    """What is said of the file under every head but its own: by `weir models inspect`, and by `weir check` where that takes it, or may
    take it when it is named."""
    verdicts = {}
    reasons = {one["name"]: one["reason"] for one in about["heads"]}
    for head in HEADS:
        if head == known["head"]:
            continue
        if reasons.get(head) and head not in NAMED_OTHERWISE:
            verdicts[head] = ["refused", reasons[head][:300]]
            continue
        name = f"as_{head.replace('-', '_')}"
        graph = folder / "wrong.toml"
        graph.write_text(GRAPH + model_table(name, head, Path(known["file"]), {key: value for key, value in known["keys"].items() if key != "head"}) + MODULE.replace('"auto"', f'"{name}"'))
        ran = weir("check", graph, cwd=folder)
        text = (ran.stdout + ran.stderr).strip()
        # What every such graph is warned of says nothing of the head.
        remarks = [line for line in text.splitlines() if re.search(r"implausible|warning", line) and "nothing takes" not in line]
        if ran.returncode != 0:
            verdicts[head] = ["refused", text[:300]]
        elif remarks:
            verdicts[head] = ["warned", " ".join(remarks)[:300]]
        else:
            verdicts[head] = ["taken", text[:300]]
    return verdicts


def judge(row: common.Row, assets: Path, options) -> dict:
    folder = OUT / row.name
    try:
        known = made(row, assets, options.fresh)
    except Exception as error:  # Whatever a framework cannot do is a row that is absent.
        traceback.print_exc()
        return {"row": row, "verdict": "absent", "reason": f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"[:200]}
    about = inspected(folder, known)
    found = {"row": row, "known": known, "auto": about["head"], "problem": about["problem"]}
    files = picture_files(assets, tuple(known["size"]))
    objects, reason, found["stderr"] = detect(folder, known, files)
    if known["head"] is None:
        found["verdict"] = "refused, as it must be" if objects is None else "TAKEN, and no head reads it"
        found["reason"] = reason
    elif objects is None:
        found["verdict"], found["reason"] = "REFUSED", reason
    else:
        counts = compare(known["exact"], objects, known, HALF if "half" in row.options else EXACT)
        found["exact"] = counts
        good = counts["missing"] == counts["extra"] == 0 and counts["objects"] > 0 and counts["details"] == counts["details_same"]
        found["verdict"] = "same" if good else "DIFFERS"
        named = known["keys"].get("head")
        if found["auto"] != known["head"] and not named:
            found["verdict"] += f" (auto is {found['auto']}, not {known['head']})"
        if "resized" in known:
            other = tuple(known["other_size"]) if known["other_size"] else None
            objects, _, _ = detect(folder, known, picture_files(assets, other))
            found["resized"] = compare(known["resized"], objects or [[]] * common.PICTURES, known, LOOSE)
    if options.cross:
        found["cross"] = cross(folder, known, about)
    return found


def line(found: dict) -> str:
    row = found["row"]
    cells = [row.framework, row.model, row.options]
    if found["verdict"] == "absent":
        return "| " + " | ".join([*cells, "", "", "absent: " + found["reason"], "", ""]) + " |"
    exact, resized = found.get("exact"), found.get("resized")
    cells.append(found.get("known", {}).get("keys", {}).get("head") or found["auto"] or "none")
    cells.append(f"{exact['same']} of {exact['objects']}" + (f", {exact['extra']} more" if exact["extra"] else "") if exact else "")
    if exact and exact["details"]:
        cells[-1] += f"; {exact['details_same']} of {exact['details']} with the same points, corners or masks"
        cells[-1] += f", {exact['coarse']} masks on a coarser grid" if exact["coarse"] else ""
    cells.append(found["verdict"])
    cells.append(f"{resized['same']} of {resized['objects']}, {resized['extra']} more" if resized else "")
    wrong = found.get("cross", {})
    taken = [head for head, (verdict, _) in wrong.items() if verdict == "taken"]
    warned = [head for head, (verdict, _) in wrong.items() if verdict == "warned"]
    said = "; ".join(filter(None, ["TAKEN " + ", ".join(taken) if taken else "", "warned " + ", ".join(warned) if warned else ""]))
    cells.append(said or ("all refused" if wrong else ""))
    return "| " + " | ".join(cells) + " |"


def all_rows(assets: Path) -> list:
    import emulated_rows
    import plain_rows
    import torchvision_rows
    import transformers_rows
    import ultralytics_rows

    rows = []
    for module in (ultralytics_rows, transformers_rows, torchvision_rows, emulated_rows, plain_rows):
        rows += module.rows(assets)
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("assets", type=Path)
    parser.add_argument("--rows", nargs="*", default=[], help="rows whose name has one of these texts")
    parser.add_argument("--fresh", action="store_true", help="make the exports anew")
    parser.add_argument("--no-cross", dest="cross", action="store_false", help="leave out the other heads")
    options = parser.parse_args()
    OUT.mkdir(parents=True, exist_ok=True)
    rows = [row for row in all_rows(options.assets) if not options.rows or any(text in row.name for text in options.rows)]
    header = ["framework", "model", "options", "head", "same objects", "verdict", "with resizing", "other heads"]
    table = ["| " + " | ".join(header) + " |", "|" + "---|" * len(header)]
    details = []
    for row in rows:
        found = judge(row, options.assets, options)
        table.append(line(found))
        print(table[-1], flush=True)
        found["row"] = row.name
        known = found.get("known", {})
        known.pop("exact", None), known.pop("resized", None)
        details.append(found)
        (OUT / row.name).mkdir(exist_ok=True)
        (OUT / row.name / "found.json").write_text(json.dumps({"line": table[-1], **found}, indent=1))
    suffix = "" if not options.rows else "-part"
    (OUT / f"table{suffix}.md").write_text("\n".join(table) + "\n")
    count = sum("same" == found["verdict"] or found["verdict"].startswith("refused, as") for found in details)
    print(f"{count} of {len(details)} are as they must be; the table is {OUT}/table{suffix}.md")


if __name__ == "__main__":
    main()

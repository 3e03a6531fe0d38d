"""Turns a video into one with boxes, and into a picture for each second.

    python boxes.py VIDEO FOLDER
"""

import sys
from pathlib import Path

import weir


def main(video: str | Path, folder: str | Path, model: str | Path = "zoo:yolox-nano") -> dict[str, int]:
    """Counts objects by class; ``boxes.mp4`` and ``0.png``, ``1.png`` and so on are written into the folder."""
    # It is needed for pictures alone: pip install pillow
    from PIL import Image, ImageDraw

    graph = weir.Graph("boxes", slo="5s")
    street = graph.source("street", video, mode="lossless")
    detector = graph.model("detector", model, head="yolox", labels=["coco"], score_threshold=0.4)
    objects = graph.module("objects", "detect", model=detector, inputs=street)
    graph.sink("video", "mp4", inputs=objects, path=str(Path(folder, "boxes.mp4")), overwrite=True)

    counts: dict[str, int] = {}
    pictures = 0
    with weir.Engine(graph, frames=True, speed="max") as engine:
        for delivery in engine.deliveries():
            for found in delivery.objects:
                counts[found.class_name] = counts.get(found.class_name, 0) + 1
            if delivery.image and delivery.pts_ms >= 1000 * pictures:
                picture = Image.fromarray(delivery.image.rgb())
                draw = ImageDraw.Draw(picture)
                for found in delivery.objects:
                    draw.rectangle(found.box, outline="red", width=2)
                    draw.text(found.box[:2], f"{found.class_name} {found.score:.2f}", fill="red")
                picture.save(Path(folder, f"{pictures}.png"))
                pictures += 1
    return counts


if __name__ == "__main__":
    print(main(*sys.argv[1:3]))

#!/usr/bin/env python3
"""A clip read by SAHI: sahi_tiles.py CLIP MODEL OUT COLUMNS ROWS STREAM.

The detector is the ONNX file of `embedded:street-detector`, with the same picture, thresholds and suppression as in Weir; slices have
the size of Weir's tiles, and everything else is SAHI's default: overlap 0.2, the whole picture as well, GREEDYNMM by IoS of 0.5. With one
tile it is SAHI's standard prediction. Writes event lines that `weir score` reads, and prints seconds a frame.
"""

import json
import math
import sys
import time

import cv2
import numpy as np
import onnxruntime
from sahi.models.base import DetectionModel
from sahi.predict import get_prediction, get_sliced_prediction
from sahi.prediction import ObjectPrediction

WIDTH, HEIGHT, FILL = 640, 384, 114
LABELS = ["car", "van", "bus", "bicycle", "person", "plate", "face"]
# Classes that one thing may be taken for: the better of two stays where they overlap by more than GROUP_IOU.
GROUP, GROUP_IOU = {0, 1, 2}, 0.8
NMS_IOU, OVERLAP = 0.45, 0.2
# The default of SAHI.
SCORE = 0.3


class StreetDetector(DetectionModel):
    """The detector as SAHI calls it."""

    def load_model(self):
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        self.model = onnxruntime.InferenceSession(self.model_path, options, providers=["CPUExecutionProvider"])
        self.category_mapping = {str(index): label for index, label in enumerate(LABELS)}
        self.inferred_s = 0.0

    def perform_inference(self, image):
        high, wide = image.shape[:2]
        scale = min(WIDTH / wide, HEIGHT / high)
        size = round(wide * scale), round(high * scale)
        left, top = (WIDTH - size[0]) // 2, (HEIGHT - size[1]) // 2
        filled = np.full((HEIGHT, WIDTH, 3), FILL, np.uint8)
        filled[top : top + size[1], left : left + size[0]] = cv2.resize(image, size, interpolation=cv2.INTER_AREA)
        began = time.perf_counter()
        tensor = np.ascontiguousarray(filled.transpose(2, 0, 1)[None], np.float32) / 255
        output = self.model.run(None, {self.model.get_inputs()[0].name: tensor})[0][0]
        self.inferred_s += time.perf_counter() - began
        rows = output.T if output.shape[0] == 4 + len(LABELS) else output
        classes = rows[:, 4:].argmax(1)
        scores = rows[:, 4:].max(1)
        kept = scores >= self.confidence_threshold
        rows, classes, scores = rows[kept], classes[kept], scores[kept]
        half = rows[:, 2:4] / 2
        boxes = np.concatenate([rows[:, :2] - half, rows[:, :2] + half], 1)
        boxes = (boxes - [left, top, left, top]) / scale
        boxes = boxes.clip(0, [wide, high, wide, high])
        self._original_predictions = [(boxes[at], float(scores[at]), int(classes[at])) for at in suppressed(boxes, scores, classes)]

    def _create_object_prediction_list_from_original_predictions(self, shift_amount_list=None, full_shape_list=None):
        shift = shift_amount_list[0] if shift_amount_list and isinstance(shift_amount_list[0], list) else shift_amount_list or [0, 0]
        shape = full_shape_list[0] if full_shape_list and isinstance(full_shape_list[0], list) else full_shape_list
        made = [
            ObjectPrediction(bbox=box.tolist(), category_id=at, category_name=LABELS[at], score=score, shift_amount=shift, full_shape=shape)
            for box, score, at in self._original_predictions
            if box[2] - box[0] >= 1 and box[3] - box[1] >= 1
        ]
        self._object_prediction_list_per_image = [made]


def suppressed(boxes, scores, classes):
    """Indices of the boxes that stay: the best of a class where two overlap, and of a group where they nearly cover each other."""
    stay = []
    area = (boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1])
    grouped = np.isin(classes, list(GROUP))
    order = np.argsort(-scores)
    while len(order):
        at, order = order[0], order[1:]
        stay.append(at)
        sides = np.minimum(boxes[at, 2:], boxes[order, 2:]) - np.maximum(boxes[at, :2], boxes[order, :2])
        inner = sides.clip(0).prod(1)
        iou = inner / np.maximum(area[at] + area[order] - inner, 1e-9)
        same = (classes[order] == classes[at]) & (iou > NMS_IOU)
        order = order[~(same | (grouped[order] & grouped[at] & (iou > GROUP_IOU)))]
    return stay


def main():
    clip, model, out, columns, rows, stream = sys.argv[1:]
    columns, rows = int(columns), int(rows)
    detector = StreetDetector(model_path=model, confidence_threshold=SCORE, device="cpu")
    cv2.setNumThreads(1)
    video = cv2.VideoCapture(clip)
    high, wide = int(video.get(cv2.CAP_PROP_FRAME_HEIGHT)), int(video.get(cv2.CAP_PROP_FRAME_WIDTH))
    side = lambda length, count: math.ceil(length / (count - (count - 1) * OVERLAP))
    spent, frame = 0.0, 0
    with open(out, "w") as events:
        while True:
            read, picture = video.read()
            if not read:
                break
            picture = cv2.cvtColor(picture, cv2.COLOR_BGR2RGB)
            began = time.perf_counter()
            if columns * rows == 1:
                result = get_prediction(picture, detector)
            else:
                result = get_sliced_prediction(
                    picture, detector, slice_width=side(wide, columns), slice_height=side(high, rows), verbose=0
                )
            spent += time.perf_counter() - began
            objects = [
                {"class": found.category.name, "score": float(found.score.value), "box": [float(edge) for edge in found.bbox.to_xyxy()]}
                for found in result.object_prediction_list
            ]
            line = {"stream": stream, "frame": frame, "objects": objects}
            events.write(json.dumps(line) + "\n")
            frame += 1
    print(json.dumps({"frames": frame, "seconds": spent / max(frame, 1), "inferred": detector.inferred_s / max(frame, 1)}))


if __name__ == "__main__":
    main()

"""What the references rest on, checked against values worked out by hand: `python -m unittest` in this folder."""

import json
import os
import subprocess
import sys
import tempfile
import unittest

import cv2
import numpy as np

import boxes as plane
from events import event_line, read_events
from letterbox import Placement, letterbox
from lprnet import BLANK, CHARACTERS, greedy_ctc
from matching import Agreement
from mobilefacenet import TEMPLATE, similarity
from yolox import Objects, as_written, decode, grid


def objects(*rows) -> Objects:
    """Objects from (class, score, x0, y0, x1, y1)."""
    table = np.array(rows, dtype=np.float64).reshape(-1, 6)
    return Objects(table[:, 2:], table[:, 1], table[:, 0].astype(np.int64))


class Plane(unittest.TestCase):
    def test_iou_of_halves_and_of_nothing(self):
        square = np.array([[0.0, 0.0, 2.0, 2.0]])
        others = np.array([[0.0, 0.0, 2.0, 1.0], [5.0, 5.0, 6.0, 6.0], [1.0, 1.0, 1.0, 1.0]])
        np.testing.assert_allclose(plane.iou(square, others), [[0.5, 0.0, 0.0]])

    def test_suppression_keeps_the_best_of_a_heap(self):
        heap = np.array([[0.0, 0, 10, 10], [0, 0, 10, 9], [20, 20, 30, 30]])
        self.assertEqual(plane.suppress(heap, np.array([0.5, 0.9, 0.4]), 0.45), [1, 2])

    def test_letterbox_goes_there_and_back(self):
        box, placement = letterbox(np.zeros((352, 640, 3), np.uint8), 416, 416, 114, cv2.INTER_LINEAR)
        self.assertEqual(placement.scale, (416 / 640, 229 / 352))
        self.assertEqual((box[228, 0, 0], box[229, 0, 0]), (0, 114))
        np.testing.assert_allclose(placement.to_source(np.array([[416.0, 229.0]])), [[640.0, 352.0]])

    def test_placement_follows_its_formula(self):
        placed = Placement((10.0, 20.0), (0.5, 0.25), (3.0, 4.0))
        np.testing.assert_allclose(placed.to_source(np.array([[5.0, 5.0, 8.0, 9.0]])), [[14.0, 24.0, 20.0, 40.0]])


class Decoding(unittest.TestCase):
    def test_one_cell_of_each_stride(self):
        cells, strides = grid(416, 416)
        self.assertEqual(len(cells), 3549)
        raw = np.zeros((3549, 85))
        # Stride 8: 52 x 52 cells; stride 16: 26 x 26; stride 32: 13 x 13. Row 1, column 2 of each.
        for row in (52 + 2, 52 * 52 + 26 + 2, 52 * 52 + 26 * 26 + 13 + 2):
            raw[row, :5] = (0.5, 0.25, np.log(2.0), np.log(4.0), 0.8)
            raw[row, 5 + 2] = 0.75
        found = decode(raw, cells, strides, 0.3)
        expected = [[(2.5 - 1) * s, (1.25 - 2) * s, (2.5 + 1) * s, (1.25 + 2) * s] for s in (8, 16, 32)]
        np.testing.assert_allclose(found.boxes[np.argsort(found.boxes[:, 2])], expected)
        np.testing.assert_allclose(found.scores, 0.6)
        self.assertEqual(found.classes.tolist(), [2, 2, 2])

    def test_suppression_is_within_a_class(self):
        cells, strides = grid(32, 32)
        raw = np.zeros((len(cells), 85))
        raw[0, 4:8] = (1.0, 0.9, 0.0, 0.5)
        self.assertEqual(decode(raw, cells, strides, 0.3).classes.tolist(), [0, 2])

    def test_a_car_that_is_also_a_truck_is_given_once(self):
        cells, strides = grid(32, 32)
        raw = np.zeros((len(cells), 85))
        car, truck = 5 + 2, 5 + 7
        raw[0, [4, car, truck]] = (1.0, 0.9, 0.5)
        self.assertEqual(decode(raw, cells, strides, 0.3).classes.tolist(), [2])

    def test_ctc_collapses_repeats_but_not_across_a_blank(self):
        symbols = [0, 0, BLANK, 31, 31, BLANK, 31, 41]
        logits = np.full((BLANK + 1, len(symbols)), -9.0)
        logits[symbols, range(len(symbols))] = 9.0
        self.assertEqual(greedy_ctc(logits)[0], "京00A")
        self.assertEqual((len(CHARACTERS), CHARACTERS[40], CHARACTERS[65:]), (67, "9", "IO"))

    def test_similarity_undoes_a_turn(self):
        angle, scale, shift = 0.3, 1.7, np.array([4.0, -9.0])
        turn = scale * np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
        moved = TEMPLATE @ turn.T + shift
        back = similarity(moved, TEMPLATE)
        np.testing.assert_allclose(moved @ back[:, :2].T + back[:, 2], TEMPLATE, atol=1e-9)


class Matching(unittest.TestCase):
    def agreement(self, reference, subject):
        agreement = Agreement(overlap=0.75, wanted=0.4, lenient=0.35)
        agreement.add(reference, subject)
        return agreement.expected, agreement.matched, agreement.claimed, agreement.extra

    def test_table(self):
        box, far = (0, 0, 10, 10), (50, 50, 60, 60)
        for name, reference, subject, counts in [
            ("equal", [(2, 0.9, *box)], [(2, 0.9, *box)], (1, 1, 1, 0)),
            ("another class", [(2, 0.9, *box)], [(7, 0.9, *box)], (1, 0, 1, 1)),
            ("a duplicate is extra", [(2, 0.9, *box)], [(2, 0.9, *box), (2, 0.8, *box)], (1, 1, 2, 1)),
            ("a lower score still matches", [(2, 0.41, *box)], [(2, 0.31, *box)], (1, 1, 0, 0)),
            ("a lower reference excuses", [(2, 0.36, *box)], [(2, 0.41, *box)], (0, 0, 1, 0)),
            ("too low a reference does not", [(2, 0.34, *box)], [(2, 0.41, *box)], (0, 0, 1, 1)),
            ("elsewhere", [(2, 0.9, *box)], [(2, 0.9, *far)], (1, 0, 1, 1)),
            ("missed", [(2, 0.9, *box), (0, 0.5, *far)], [(0, 0.5, *far)], (2, 1, 1, 0)),
            ("nothing", [], [], (0, 0, 0, 0)),
        ]:
            with self.subTest(name):
                self.assertEqual(self.agreement(objects(*reference), objects(*subject)), counts)

    def test_a_written_box_is_clipped_and_rounded(self):
        found = as_written(objects((2, 0.123456, -3.0, 1.06, 700.0, 9.94)), 640, 360)
        self.assertEqual((found.boxes.tolist(), found.scores.tolist()), ([[0.0, 1.1, 640.0, 9.9]], [0.1235]))


class Files(unittest.TestCase):
    def write(self, *lines: str) -> str:
        file = tempfile.NamedTemporaryFile("w", suffix=".jsonl", delete=False, encoding="utf-8")
        self.addCleanup(os.unlink, file.name)
        with file:
            file.write("\n".join(lines))
        return file.name

    def test_an_event_line_is_read_as_written(self):
        found = objects((2, 0.5, 1.0, 2.0, 3.0, 4.0))
        back = read_events(self.write(event_line("north", 3, found)))["north"][3]
        self.assertEqual((back.boxes.tolist(), back.scores.tolist(), back.classes.tolist()), ([[1, 2, 3, 4]], [0.5], [2]))

    def test_children_and_other_classes_do_not_count(self):
        line = {"stream": "north", "frame": 0, "objects": [
            {"id": 0, "class": "car", "score": 0.9, "box": [0, 0, 1, 1], "parent": None},
            {"id": 1, "class": "person", "score": 0.9, "box": [0, 0, 1, 1], "parent": 0},
            {"id": 2, "class": "plate", "score": 0.9, "box": [0, 0, 1, 1], "parent": None}]}
        self.assertEqual(len(read_events(self.write(json.dumps(line)))["north"][0]), 1)

    def test_bad_files_end_with_code_two(self):
        line = event_line("north", 3, objects())
        for name, lines in [("order", [line, line]), ("json", ["{"]), ("keys", ["{}"]), ("empty", [])]:
            with self.subTest(name), self.assertRaises(SystemExit) as ended:
                read_events(self.write(*lines))
            self.assertEqual(ended.exception.code, 2)

    def test_a_missing_file_is_one_line(self):
        here = os.path.dirname(os.path.abspath(__file__))
        done = subprocess.run([sys.executable, "same_tensors.py", "no-dump", "no.onnx", "no.jsonl"],
                              cwd=here, capture_output=True, text=True, check=False)
        self.assertEqual((done.returncode, done.stderr), (2, "error: no.jsonl: No such file or directory\n"))


if __name__ == "__main__":
    unittest.main()

"""How well two sets of objects agree, added up over frames."""

from dataclasses import dataclass, field

import numpy as np

import boxes as plane
import coco
from yolox import Objects


@dataclass
class Agreement:
    """Counts of a comparison of `subject` (what is checked) with `reference`.

    matched: reference objects of score >= `wanted` that have a subject object of the same class at
    IoU >= `overlap`, whatever its score. extra: subject objects of score >= `wanted` that have no reference
    object of score >= `lenient`. The lenient side of each keeps an object that sits on the score
    threshold from being counted as missed or invented. Pairs are one to one.
    """

    overlap: float
    wanted: float
    lenient: float
    frames: int = 0
    expected: int = 0
    matched: int = 0
    claimed: int = 0
    extra: int = 0
    overlaps: list[float] = field(default_factory=list)
    score_gaps: list[float] = field(default_factory=list)
    missed_by_class: dict[str, int] = field(default_factory=dict)

    def add(self, reference: Objects, subject: Objects) -> None:
        """Counts one frame."""
        self.frames += 1
        wanted = reference.at_least(self.wanted)
        found = pairs(wanted, subject, self.overlap)
        self.expected += len(wanted)
        self.matched += len(found)
        for row, column, value in found:
            self.overlaps.append(value)
            self.score_gaps.append(abs(wanted.scores[row] - subject.scores[column]))
        met = {row for row, _, _ in found}
        for row in set(range(len(wanted))) - met:
            name = coco.NAMES[wanted.classes[row]]
            self.missed_by_class[name] = self.missed_by_class.get(name, 0) + 1
        claimed = subject.at_least(self.wanted)
        self.claimed += len(claimed)
        self.extra += len(claimed) - len(pairs(reference.at_least(self.lenient), claimed, self.overlap))

    @property
    def share_matched(self) -> float:
        """Of the expected objects, 1 where there were none."""
        return self.matched / self.expected if self.expected else 1.0

    @property
    def share_extra(self) -> float:
        """Of the claimed objects, 0 where there were none."""
        return self.extra / self.claimed if self.claimed else 0.0

    def describe(self, title: str) -> str:
        """A few lines for a person."""
        text = [
            f"{title}: {self.frames} frames, IoU >= {self.overlap}, score >= {self.wanted}",
            f"  matched {self.matched} of {self.expected} = {self.share_matched:.2%}"
            f" | extra {self.extra} of {self.claimed} = {self.share_extra:.2%}",
        ]
        if self.overlaps:
            text.append(
                f"  matched pairs: IoU mean {np.mean(self.overlaps):.4f}, least {min(self.overlaps):.4f};"
                f" score gap mean {np.mean(self.score_gaps):.4f}, most {max(self.score_gaps):.4f}"
            )
        if self.missed_by_class:
            worst = sorted(self.missed_by_class.items(), key=lambda item: (-item[1], item[0]))
            text.append("  missed: " + ", ".join(f"{name} {count}" for name, count in worst))
        return "\n".join(text)


def pairs(left: Objects, right: Objects, overlap: float) -> list[tuple[int, int, float]]:
    """One-to-one pairs of equal class at IoU >= `overlap`, the best overlap first: (left row, right row, IoU)."""
    if not len(left) or not len(right):
        return []
    value = plane.iou(left.boxes, right.boxes)
    value[left.classes[:, None] != right.classes[None, :]] = 0.0
    rows, columns = np.nonzero(value >= overlap)
    order = np.argsort(-value[rows, columns], kind="stable")
    used_rows, used_columns, found = set(), set(), []
    for at in order:
        row, column = int(rows[at]), int(columns[at])
        if row not in used_rows and column not in used_columns:
            used_rows.add(row)
            used_columns.add(column)
            found.append((row, column, float(value[row, column])))
    return found

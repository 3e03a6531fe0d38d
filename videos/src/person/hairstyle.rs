//! Hairstyles: the hairline, the volume, and the length of the hair.

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum HairStyle {
    Bald,
    Buzz,
    Short,
    Quiff,
    Receding,
    Curly,
    Afro,
    Fringe,
    Bob,
    Long,
    Bun,
    Ponytail,
}

impl HairStyle {
    pub(super) const ALL: [Self; 12] = [
        Self::Short,
        Self::Long,
        Self::Curly,
        Self::Bald,
        Self::Bob,
        Self::Quiff,
        Self::Bun,
        Self::Buzz,
        Self::Fringe,
        Self::Afro,
        Self::Receding,
        Self::Ponytail,
    ];

    pub(super) fn shape(self) -> Shape {
        let [front, temple, side, swell, top, curl, length] = match self {
            Self::Bald => [-0.5, -0.5, -0.5, 1.0, 0.0, 0.0, 0.0],
            Self::Buzz => [-0.31, -0.30, 0.0, 1.02, 0.0, 0.0, 0.0],
            Self::Short => [-0.29, -0.24, 0.04, 1.07, 0.05, 0.0, 0.0],
            Self::Quiff => [-0.32, -0.29, -0.04, 1.05, 0.2, 0.0, 0.0],
            Self::Receding => [-0.37, -0.43, 0.02, 1.04, 0.0, 0.0, 0.0],
            Self::Curly => [-0.26, -0.22, 0.02, 1.14, 0.06, 0.075, 0.0],
            Self::Afro => [-0.29, -0.24, 0.04, 1.42, 0.06, 0.1, 0.0],
            Self::Fringe => [-0.17, -0.16, 0.1, 1.1, 0.04, 0.0, 0.42],
            Self::Bob => [-0.33, -0.22, 0.12, 1.12, 0.03, 0.0, 0.36],
            Self::Long => [-0.35, -0.19, 0.15, 1.1, 0.04, 0.0, 0.95],
            Self::Bun => [-0.31, -0.26, 0.02, 1.05, 0.0, 0.0, 0.0],
            Self::Ponytail => [-0.29, -0.25, 0.02, 1.06, 0.03, 0.0, 0.0],
        };
        Shape {
            front,
            temple,
            side,
            swell,
            top,
            curl,
            length,
        }
    }
}

/// Heights of the hairline at the front, at the temples and before the ears; volume of the hair all around
/// and on top; radius of curls; height down to which the hair hangs (0: it does not hang).
pub(super) struct Shape {
    pub(super) front: f32,
    pub(super) temple: f32,
    pub(super) side: f32,
    pub(super) swell: f32,
    pub(super) top: f32,
    pub(super) curl: f32,
    pub(super) length: f32,
}

impl Shape {
    /// Extent of the hair at height `y`, as a multiple of the skull's.
    pub(super) fn swell(&self, y: f32) -> f32 {
        let up = ((-0.15 - y) / 0.35).clamp(0.0, 1.0);
        self.swell + self.top * up * up
    }

    /// Height of the hairline at `angle` degrees about the head.
    pub(super) fn line(&self, angle: f32, parting: f32) -> f32 {
        let off = angle.abs();
        let nape = if self.length > 0.0 { 0.3 } else { 0.27 };
        let knots = [
            (0.0, self.front),
            (42.0, self.temple),
            (56.0, self.temple * 0.55),
            (66.0, self.side),
            (84.0, self.side),
            (92.0, self.side.min(-0.02)),
            (112.0, 0.12),
            (140.0, nape),
            (200.0, nape),
        ];
        let next = knots
            .iter()
            .position(|(knot, _)| off < *knot)
            .unwrap_or(knots.len() - 1);
        let ((from, low), (to, high)) = (knots[next.max(1) - 1], knots[next.max(1)]);
        let part = ((off - from) / (to - from)).clamp(0.0, 1.0);
        let slope = parting * (angle / 42.0).clamp(-1.0, 1.0) * 0.03 * (1.0 - (off / 70.0).min(1.0));
        low + (high - low) * part * part * (3.0 - 2.0 * part) + slope
    }
}

//! Expressions, and what they do to a face.

/// Expression of a face.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Expression {
    /// No particular expression.
    #[default]
    Neutral,
    /// Smile: corners of the mouth up, teeth shown.
    Happy,
    /// Corners of the mouth down, brows up in the middle.
    Sad,
    /// Brows down in the middle, teeth shown.
    Angry,
    /// Eyes and mouth wide open.
    Surprised,
}

impl Expression {
    /// All expressions, in the order of their declaration.
    pub const ALL: [Self; 5] = [
        Self::Neutral,
        Self::Happy,
        Self::Sad,
        Self::Angry,
        Self::Surprised,
    ];

    /// Name of the expression in ground truth and events.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Neutral => "neutral",
            Self::Happy => "happy",
            Self::Sad => "sad",
            Self::Angry => "angry",
            Self::Surprised => "surprised",
        }
    }
}

/// Position of the parts of a face. Lengths are in heights of the head.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Mimic {
    /// Elevation of the inner end of the brows.
    pub(super) brow_inner: f32,
    /// Elevation of the outer end of the brows.
    pub(super) brow_outer: f32,
    /// Factor of the opening of the eyes.
    pub(super) open: f32,
    /// Elevation of the lower lid, as a fraction of the opening.
    pub(super) lower_lid: f32,
    /// Lowering of the upper lid at the inner end (negative: at the outer end), as a fraction of the opening.
    pub(super) slant: f32,
    /// Elevation of the corners of the mouth.
    pub(super) corners: f32,
    /// Height of the opening of the mouth.
    pub(super) mouth: f32,
    /// Factor of the width of the mouth.
    pub(super) wide: f32,
    /// Visible part of the teeth, 0 to 1.
    pub(super) teeth: f32,
    /// Wrinkles between the brows, 0 to 1.
    pub(super) frown: f32,
}

impl Mimic {
    const NEUTRAL: [f32; 10] = [0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0];

    /// Positions for `expression` with a strength from 0 to 1, with the mouth opened by `speech` from 0 to 1.
    pub(super) fn of(expression: Expression, strength: f32, speech: f32) -> Self {
        let full: [f32; 10] = match expression {
            Expression::Neutral => Self::NEUTRAL,
            Expression::Happy => [0.01, 0.02, 0.85, 0.42, 0.0, 0.062, 0.07, 1.35, 1.0, 0.0],
            Expression::Sad => [0.05, -0.04, 0.75, 0.0, -0.45, -0.062, 0.0, 0.92, 0.0, 0.0],
            Expression::Angry => [-0.06, 0.035, 0.78, 0.12, 0.55, -0.028, 0.05, 1.12, 1.0, 1.0],
            Expression::Surprised => [0.062, 0.062, 1.45, 0.0, 0.0, -0.004, 0.14, 0.66, 0.0, 0.0],
        };
        let strength = strength.clamp(0.0, 1.0);
        let mut parts = Self::NEUTRAL;
        for (part, full) in parts.iter_mut().zip(full) {
            *part += (full - *part) * strength;
        }
        let [
            brow_inner,
            brow_outer,
            open,
            lower_lid,
            slant,
            corners,
            mouth,
            wide,
            teeth,
            frown,
        ] = parts;
        Self {
            brow_inner,
            brow_outer,
            open,
            lower_lid,
            slant,
            corners,
            mouth: mouth.max(speech.clamp(0.0, 1.0) * 0.04),
            wide,
            teeth,
            frown,
        }
    }
}

//! Overlap of rotated boxes by the Gaussians that have their centre, sides and angle: ProbIoU.
//!
//! Llerena, Zeni, Kristen, Jung: "Gaussian Bounding Boxes and Probabilistic Intersection-over-Union for Object Detection",
//! 2021, arXiv:2106.06072. A box of width w and height h at an angle t is the Gaussian with the covariance
//! `S = R(t) diag(w^2 / 12, h^2 / 12) R(t)^T` (section 3). With `S = (S1 + S2) / 2` and the distance d of the centres, the
//! distance of Bhattacharyya is `B = d^T S^-1 d / 8 + ln(det S / sqrt(det S1 det S2)) / 2`, that of Hellinger
//! `H = sqrt(1 - exp(-B))`, and `ProbIoU = 1 - H` (section 4).

use weir_flow::RotatedRect;

/// ProbIoU of two rotated boxes: 1 for the same box, towards 0 with their distance; 0 if a box has no area, or values that are no
/// numbers.
pub(super) fn prob_iou(one: &RotatedRect, other: &RotatedRect) -> f32 {
    let (one_covariance, other_covariance) = (Covariance::of(one), Covariance::of(other));
    let mean = Covariance {
        xx: (one_covariance.xx + other_covariance.xx) / 2.0,
        yy: (one_covariance.yy + other_covariance.yy) / 2.0,
        xy: (one_covariance.xy + other_covariance.xy) / 2.0,
    };
    let own = one_covariance.determinant() * other_covariance.determinant();
    let shared = mean.determinant();
    // NaN is no number above 0.
    if !(own > 0.0 && shared > 0.0) {
        return 0.0;
    }
    let x = f64::from(other.centre.x) - f64::from(one.centre.x);
    let y = f64::from(other.centre.y) - f64::from(one.centre.y);
    // The inverse of a symmetric matrix of two rows, written out.
    let apart = (mean.yy * x * x - 2.0 * mean.xy * x * y + mean.xx * y * y) / shared;
    let distance = apart / 8.0 + (shared / own.sqrt()).ln() / 2.0;
    if !distance.is_finite() {
        return 0.0;
    }
    let hellinger = (1.0 - (-distance).exp()).max(0.0).sqrt();
    (1.0 - hellinger) as f32
}

/// A symmetric matrix of two rows.
struct Covariance {
    xx: f64,
    yy: f64,
    xy: f64,
}

impl Covariance {
    fn of(rotated: &RotatedRect) -> Self {
        let (sin, cos) = f64::from(rotated.angle).sin_cos();
        let along = f64::from(rotated.width).powi(2) / 12.0;
        let across = f64::from(rotated.height).powi(2) / 12.0;
        Self {
            xx: along * cos * cos + across * sin * sin,
            yy: along * sin * sin + across * cos * cos,
            xy: (along - across) * sin * cos,
        }
    }

    fn determinant(&self) -> f64 {
        self.xx * self.yy - self.xy * self.xy
    }
}

#[cfg(test)]
mod tests {
    use std::f32::consts::PI;

    use weir_flow::Point;

    use super::*;

    fn rotated(x: f32, width: f32, height: f32, angle: f32) -> RotatedRect {
        RotatedRect::new(Point::new(x, 20.0), width, height, angle)
    }

    #[test]
    fn same_box_overlaps_wholly() {
        let one = rotated(10.0, 30.0, 10.0, 0.7);
        assert!((prob_iou(&one, &one) - 1.0).abs() < 1e-3);
        let turned = rotated(10.0, 10.0, 30.0, 0.7 + PI / 2.0);
        assert!((prob_iou(&one, &turned) - 1.0).abs() < 1e-3);
    }

    #[test]
    fn shifted_squares_follow_the_formula() {
        // Squares of side s apart by s: B = s^2 / (8 s^2 / 12) = 1.5, without a term of shapes.
        let expected = 1.0 - (1.0 - (-1.5_f32).exp()).sqrt();
        let found = prob_iou(&rotated(0.0, 12.0, 12.0, 0.0), &rotated(12.0, 12.0, 12.0, 0.3));
        assert!((found - expected).abs() < 1e-5, "{found} {expected}");
    }

    #[test]
    fn crossed_boxes_overlap_less_than_upright_boxes_do() {
        // The upright boxes of both diagonals are the same square.
        let (one, other) = (
            rotated(0.0, 40.0, 4.0, PI / 4.0),
            rotated(0.0, 40.0, 4.0, 3.0 * PI / 4.0),
        );
        assert!(one.bounds().iou(&other.bounds()) > 0.99);
        let found = prob_iou(&one, &other);
        // det S = ((a + b) / 2)^2 with a = 1600 / 12 and b = 16 / 12, det S1 = det S2 = a b.
        let (a, b) = (1600.0_f32 / 12.0, 16.0 / 12.0);
        let distance = (((a + b) / 2.0).powi(2) / (a * b)).ln() / 2.0;
        let expected = 1.0 - (1.0 - (-distance).exp()).sqrt();
        assert!(
            (found - expected).abs() < 1e-5 && found < 0.45,
            "{found} {expected}"
        );
    }

    #[test]
    fn boxes_without_area_or_number_overlap_nothing() {
        let whole = rotated(0.0, 10.0, 10.0, 0.0);
        for broken in [rotated(0.0, 0.0, 10.0, 0.0), rotated(f32::NAN, 10.0, 10.0, 0.0)] {
            assert!(prob_iou(&whole, &broken) <= 0.0 && prob_iou(&broken, &broken) <= 0.0);
        }
    }
}

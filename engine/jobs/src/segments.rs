//! Splits a video into segments: it is cut at the first key frame that is far enough from the last cut. A
//! segment can be decoded from its key frame on, and its frames are those that are shown from that key frame
//! until the next cut.

/// A picture of a video, in the order of presentation.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct IndexedPicture {
    /// Media time in milliseconds.
    pub pts_ms: f64,
    /// True for a key frame, which is decoded without other frames.
    pub key: bool,
}

/// Indices of the pictures that segments of `length_ms` or longer begin with; the first is always 0. Empty for no pictures.
#[must_use]
pub fn cut(pictures: &[IndexedPicture], length_ms: f64) -> Vec<usize> {
    let mut cuts = Vec::new();
    let mut last_ms = f64::NEG_INFINITY;
    for (index, picture) in pictures.iter().enumerate() {
        if index == 0 || (picture.key && picture.pts_ms - last_ms >= length_ms) {
            cuts.push(index);
            last_ms = picture.pts_ms;
        }
    }
    cuts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn segments_begin_at_key_frames_that_are_far_enough_apart() {
        let check = |keys: &[usize], length_ms: f64, expected: &[usize]| {
            let picture = |index: usize| IndexedPicture {
                pts_ms: index as f64 * 100.0,
                key: keys.contains(&index),
            };
            let pictures: Vec<IndexedPicture> = (0..50).map(picture).collect();
            assert_eq!(cut(&pictures, length_ms), expected, "{keys:?} {length_ms}");
        };
        check(&[0, 10, 20, 30, 40], 1_000.0, &[0, 10, 20, 30, 40]);
        check(&[0, 10, 20, 30, 40], 1_500.0, &[0, 20, 40]);
        check(&[0, 5, 9, 30], 1_000.0, &[0, 30]);
        check(&[], 1_000.0, &[0]);
        assert!(cut(&[], 1_000.0).is_empty());
    }
}

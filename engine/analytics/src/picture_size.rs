//! Size of the pictures of a stream, which its camera may change.

/// Width and height of the newest frame.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct PictureSize(Option<(u32, u32)>);

impl PictureSize {
    /// Takes note of the next frame; returns its width and height in parts of those before, where they changed.
    pub(crate) fn on_frame(&mut self, size: (u32, u32)) -> Option<(f64, f64)> {
        let before = self.0.replace(size)?;
        let is_whole = [before.0, before.1, size.0, size.1].iter().all(|side| *side > 0);
        let part = |new: u32, old: u32| f64::from(new) / f64::from(old);
        (before != size && is_whole).then(|| (part(size.0, before.0), part(size.1, before.1)))
    }
}

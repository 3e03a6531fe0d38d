//! A camera whose pictures have bright boxes on a dark ground.

use std::sync::Arc;

use weir_flow::{
    ColorMatrix, Frame, Image, OwnedPlanes, PixelFormat, Rect, Source, SourceError, SourceFactory,
    SourceInfo, StopFlag,
};

/// A clip of grey pictures, 25 a second.
#[derive(Clone, Copy)]
pub(crate) struct BoxCamera {
    /// Width and height in pixels.
    pub(crate) size: (usize, usize),
    pub(crate) frames: u64,
    /// Boxes of a frame, by its index: whole pixels within the picture.
    pub(crate) boxes: fn(u64) -> Vec<Rect>,
}

struct BoxStream {
    camera: BoxCamera,
    next: u64,
}

impl SourceFactory for BoxCamera {
    fn open(&self, _stop: &StopFlag) -> Result<Box<dyn Source>, SourceError> {
        Ok(Box::new(BoxStream {
            camera: *self,
            next: 0,
        }))
    }
}

impl Source for BoxStream {
    fn info(&self) -> SourceInfo {
        SourceInfo {
            fps: Some(25.0),
            ..SourceInfo::default()
        }
    }

    fn next(&mut self) -> Result<Option<Frame>, SourceError> {
        let index = self.next;
        self.next += 1;
        let (width, height) = self.camera.size;
        let mut luma = vec![60; width * height];
        for rect in (self.camera.boxes)(index) {
            let rows = luma.chunks_mut(width).skip(rect.y0 as usize);
            for row in rows.take(rect.height() as usize) {
                row[rect.x0 as usize..rect.x1 as usize].fill(200);
            }
        }
        let image = Image {
            width: width as u32,
            height: height as u32,
            format: PixelFormat::Gray8,
            matrix: ColorMatrix::Bt601,
            full_range: true,
            planes: Arc::new(OwnedPlanes {
                planes: vec![(luma, width)],
            }),
        };
        Ok((index < self.camera.frames).then(|| Frame::new(index, index as f64 * 40.0, image)))
    }
}

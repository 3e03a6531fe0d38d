//! The newest picture of a stream for clients, with its privacy.

use weir_runtime::StreamPhase;
use weir_serve::{ApiError, ErrorCode, Refusal};

use super::Service;
use super::refusals::pictures_private;
use crate::archives;
use crate::live::NoStill;
use crate::lock::lock;

impl Service {
    /// The newest picture of a stream as a JPEG.
    ///
    /// # Errors
    /// There is no such stream, its pictures are private, or none arrives in time.
    pub(super) fn picture_of(&self, name: &str) -> Result<Vec<u8>, ApiError> {
        let snapshot = self.snapshot()?;
        let missing = |what: String| ApiError::new(Refusal::NotFound, what);
        let stream = snapshot.streams.iter().find(|stream| stream.name == name);
        let stream = stream.ok_or_else(|| {
            let error = missing(format!("there is no stream {name}"));
            error.code(ErrorCode::StreamUnknown, [("name", name)])
        })?;
        if self.is_private(name) {
            return Err(pictures_private(name));
        }
        if stream.state != StreamPhase::Live {
            let error = missing(format!("no frames of {name} arrive now"));
            let error = error.code(ErrorCode::NoFrames, [("name", name)]);
            return Err(error.hint("GET /api/streams has its state"));
        }
        let is_idle = stream.outside_schedule;
        let picture = if is_idle {
            self.live.idle_still(self.control()?, name)
        } else {
            self.live.stills.get(name)
        };
        let named = [("name", name)];
        let picture = picture.map_err(|reason| match reason {
            NoStill::Busy => ApiError::new(Refusal::Busy, "too many clients wait for pictures")
                .code(ErrorCode::PicturesBusy, [])
                .retry_after(1),
            NoStill::Late if is_idle => {
                let what = format!("{name} is outside its schedule, and no key frame of it came in time");
                missing(what)
                    .code(ErrorCode::OutsideSchedule, named)
                    .hint("`active` of its source has the times at which every frame is analysed")
            }
            NoStill::Late => {
                let error = missing(format!("no frame of {name} was delivered in time"));
                error.code(ErrorCode::PictureLate, named)
            }
            NoStill::Empty => {
                missing(format!("the frames of {name} show nothing")).code(ErrorCode::PictureEmpty, named)
            }
        })?;
        Ok(picture.to_vec())
    }

    /// True if the graph withholds the video of a stream.
    fn is_private(&self, name: &str) -> bool {
        let loaded = lock(&self.loaded);
        let loaded = loaded.as_ref();
        loaded.is_none_or(|loaded| archives::is_private(&loaded.graph, name))
    }
}

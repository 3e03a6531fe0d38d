//! Incidents that a model is asked about: each once, with its picture.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

use weir_flow::{Frame, Incident, Phase, Picture, PictureLimits, PictureTaker, Rect};

use super::keys::{Config, Shown};
use crate::pictures::ObjectPictures;

/// Incidents or tracks that are known to have been asked about.
const MAX_KNOWN: usize = 16_384;

/// Bytes of the picture of a frame.
const MAX_PICTURE_BYTES: u32 = 256 << 10;

/// Incident or track that a question is about.
#[derive(Debug)]
pub(super) struct Subject {
    pub(super) stream: Arc<str>,
    pub(super) incident: Arc<Incident>,
    pub(super) picture: Arc<dyn Picture>,
}

/// Decision about an event of an incident.
#[derive(Debug)]
pub(super) enum Choice {
    /// It is asked about.
    Ask(Subject),
    /// Nothing is asked: it was asked about, or a later event is better.
    Pass,
    /// It has no picture, and no event of it follows.
    NoPicture,
    /// Its camera is private.
    Private,
}

/// Chooses the events that are asked about.
#[derive(Debug, Default)]
pub(super) struct Selection {
    known: BTreeSet<Arc<str>>,
    /// The same, the oldest first.
    order: VecDeque<Arc<str>>,
    pictures: ObjectPictures,
}

impl Selection {
    /// Decides about an event of an incident. `frame`: the frame that it came with; `is_private`: pictures of the camera stay on
    /// this machine.
    pub(super) fn on_event(
        &mut self,
        config: &Config,
        stream: &Arc<str>,
        incident: &Incident,
        (frame, is_private): (Option<&Frame>, bool),
    ) -> Choice {
        let is_over = incident.phase == Phase::Ended;
        let key: Arc<str> = match incident.track.filter(|_| config.per_track) {
            Some(track) => format!("{stream}/track/{track}").into(),
            None => Arc::clone(&incident.id),
        };
        if (config.at_end && !is_over) || self.known.contains(&key) {
            return Choice::Pass;
        }
        if is_private {
            self.remember(key);
            return Choice::Private;
        }
        match self.picture(config.shown, incident, frame) {
            Some(picture) => {
                self.remember(key);
                Choice::Ask(Subject {
                    stream: Arc::clone(stream),
                    incident: Arc::new(incident.clone()),
                    picture,
                })
            }
            None if is_over => Choice::NoPicture,
            None => Choice::Pass,
        }
    }

    /// The picture, which is encoded here, so that a queue holds no pixels.
    fn picture(&self, shown: Shown, incident: &Incident, frame: Option<&Frame>) -> Option<Arc<dyn Picture>> {
        let of_frame = |max_side: u32| {
            let frame = frame?;
            let (width, height) = frame.size();
            let limits = PictureLimits {
                max_side,
                max_bytes: MAX_PICTURE_BYTES,
            };
            let whole = Rect::new(0.0, 0.0, width as f32, height as f32);
            self.pictures.take(frame, &whole, limits)
        };
        let best = || incident.best.as_ref().map(|best| Arc::clone(&best.picture));
        let picture = match shown {
            Shown::Object => best(),
            Shown::Frame(max_side) => of_frame(max_side).or_else(best),
        };
        picture.filter(|picture| !picture.jpeg().is_empty())
    }

    fn remember(&mut self, key: Arc<str>) {
        if self.order.len() >= MAX_KNOWN
            && let Some(oldest) = self.order.pop_front()
        {
            self.known.remove(&oldest);
        }
        self.order.push_back(Arc::clone(&key));
        self.known.insert(key);
    }
}

//! Frames of a stream outside the times at which it is analysed, for observers that show them to people: no delivery has them.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::PacketTap;
use crate::Frame;

impl PacketTap {
    /// Takes the request of a new observer for a frame of a stream that is not analysed now; true if there is one. It costs the decoding
    /// of one key frame.
    #[must_use]
    pub fn take_idle_request(&self) -> bool {
        self.wants_idle.load(Ordering::Relaxed) && self.wants_idle.swap(false, Ordering::Relaxed)
    }

    /// Hands a frame that is not analysed to the observers that show what they get.
    pub fn on_idle_frame(&self, frame: &Frame) {
        if !self.is_observed() {
            return;
        }
        let mut state = self.lock();
        state.retain_alive();
        let views = state.observers.iter().map(|observed| &observed.observer);
        let views: Vec<_> = views
            .filter(|observer| observer.is_view())
            .map(Arc::clone)
            .collect();
        // Those that make a picture of it take their time.
        drop(state);
        for observer in views {
            observer.on_idle_frame(&self.stream, frame, (self.utc_ms)());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;
    use crate::{Cause, Image, Packet, PacketFormat, PacketObserver, Withheld};

    #[derive(Default)]
    struct Observer {
        is_view: bool,
        /// Frames and their times.
        seen: Mutex<Vec<(u64, u64)>>,
    }

    impl PacketObserver for Observer {
        fn on_format(&self, _stream: &Arc<str>, _format: &Arc<PacketFormat>) {}

        fn on_packet(&self, _stream: &Arc<str>, _packet: &Packet) {}

        fn on_idle_frame(&self, _stream: &Arc<str>, frame: &Frame, time_ms: u64) {
            self.seen.lock().unwrap().push((frame.index, time_ms));
        }

        fn is_view(&self) -> bool {
            self.is_view
        }
    }

    fn observers() -> [Arc<Observer>; 2] {
        [true, false].map(|is_view| {
            Arc::new(Observer {
                is_view,
                ..Observer::default()
            })
        })
    }

    fn frame(index: u64) -> Frame {
        Frame::new(index, 0.0, Image::from_rgb(2, 2, vec![0; 12]))
    }

    #[test]
    fn idle_frames_reach_views_and_each_new_view_requests_one() {
        let (tap, [view, recorder]) = (PacketTap::new("north", || 7), observers());
        tap.on_idle_frame(&frame(1));
        let _recording = tap.observe(recorder.clone());
        assert!(!tap.take_idle_request(), "a recorder shows nothing");
        let watching = tap.observe(view.clone());
        assert!(tap.take_idle_request() && !tap.take_idle_request());
        tap.on_idle_frame(&frame(2));
        assert_eq!(*view.seen.lock().unwrap(), [(2, 7)]);
        drop(watching);
        tap.on_idle_frame(&frame(3));
        assert_eq!(view.seen.lock().unwrap().len(), 1);
        assert!(recorder.seen.lock().unwrap().is_empty());
    }

    #[test]
    fn idle_frames_are_withheld_as_packets_are() {
        for withheld in [Withheld::FromViews, Withheld::FromAll] {
            let (tap, [view, recorder]) = (PacketTap::withholding(withheld, "north", || 7), observers());
            let _subscriptions = [tap.observe(view.clone()), tap.observe(recorder)];
            tap.on_idle_frame(&frame(1));
            assert!(!tap.take_idle_request() && view.seen.lock().unwrap().is_empty());
        }
        let codes = [Withheld::MASKED, Withheld::PRIVATE]
            .map(|reason| Cause::of_view(reason).map(|cause| cause.code));
        assert_eq!(codes, [Some("view-masked"), Some("view-private")]);
    }
}

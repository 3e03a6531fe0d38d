//! Events of a camera: a thread beside that of its source hears them, tells the gate whether something moves, and sends them to the
//! egress.

use std::collections::BTreeMap;
use std::sync::{Arc, mpsc};
use std::time::Duration;

use actix::Addr;
use weir_flow::{CameraEvent, CameraReport, StopFlag};
use weir_policy::CameraSignal;
use weir_types::StreamId;

use super::{SharedMotionGate, SourceThread};
use crate::actors::{CameraReported, Egress};

/// States of a camera at a time, at most.
const MAX_STATES: usize = 256;

/// Longest wait for the subscription to be ended.
const MAX_STOP: Duration = Duration::from_secs(1);

/// States of a camera as it reported them.
#[derive(Debug, Default)]
struct CameraStates {
    /// By topic and source: whether it holds, and whether it is of motion.
    states: BTreeMap<(Arc<str>, Arc<str>), (bool, bool)>,
}

impl CameraStates {
    /// Takes in an event: whether it says anything new.
    fn on_event(&mut self, event: &CameraEvent) -> bool {
        let Some(active) = event.active else {
            return true;
        };
        let key = (Arc::clone(&event.topic), Arc::clone(&event.source));
        if self.states.len() >= MAX_STATES && !self.states.contains_key(&key) {
            return false;
        }
        let before = self.states.insert(key, (active, event.is_of_motion()));
        before.map_or(active, |(before, _)| before != active)
    }

    /// Report of the camera about motion, by all its states.
    fn signal(&self) -> CameraSignal {
        let mut of_motion = self
            .states
            .values()
            .filter(|(_, is_of_motion)| *is_of_motion)
            .peekable();
        if of_motion.peek().is_none() {
            CameraSignal::Unknown
        } else if of_motion.any(|(active, _)| *active) {
            CameraSignal::Moves
        } else {
            CameraSignal::Still
        }
    }
}

/// See the module.
struct Listener {
    name: String,
    stream: StreamId,
    gate: Option<SharedMotionGate>,
    egress: Addr<Egress>,
    states: CameraStates,
    /// True from the first report on that events do not arrive, until they do again.
    is_lost: bool,
}

impl SourceThread {
    /// Hears the events of the camera while `work` runs, if its source has them.
    pub(super) fn listening<T>(&self, work: impl FnOnce() -> T) -> T {
        let Some(events) = self.factory.camera_events() else {
            return work();
        };
        let mut listener = Listener {
            name: self.name.clone(),
            stream: self.stream,
            gate: self.gate.clone(),
            egress: self.egress.clone(),
            states: CameraStates::default(),
            is_lost: false,
        };
        let (over, (thread_lives, thread)) = (StopFlag::default(), mpsc::channel::<()>());
        let ended = over.clone();
        let stop = self.stop.or_until(move || ended.is_raised());
        let named = std::thread::Builder::new().name(format!("weir-events-{}", self.name));
        let heard = named.spawn(move || {
            let _lives = thread_lives;
            events.run(&stop, &mut |report| {
                // Another thread may hear the camera by now.
                if !stop.is_raised() {
                    listener.on_report(report);
                }
            });
        });
        if let Err(error) = heard {
            tracing::warn!(stream = %self.name, "no thread for the events of the camera: {error}");
        }
        // Raised also where the work panics.
        let raised = RaiseOnDrop(&over);
        let result = work();
        drop(raised);
        // A camera that does not answer is not waited for.
        let _ = thread.recv_timeout(MAX_STOP);
        if let Some(gate) = &self.gate {
            gate.on_camera(CameraSignal::Unknown);
        }
        self.egress.do_send(CameraReported {
            stream: self.stream,
            event: None,
        });
        result
    }
}

struct RaiseOnDrop<'f>(&'f StopFlag);

impl Drop for RaiseOnDrop<'_> {
    fn drop(&mut self) {
        self.0.raise();
    }
}

impl Listener {
    fn on_report(&mut self, report: CameraReport) {
        let is_gated = self.gate.as_ref().is_some_and(SharedMotionGate::is_by_camera);
        let meanwhile = if is_gated {
            "every frame is looked at meanwhile; "
        } else {
            ""
        };
        match report {
            CameraReport::Subscribed => {
                self.forget();
                if std::mem::take(&mut self.is_lost) {
                    tracing::info!(stream = %self.name, "the events of the camera arrive again");
                }
            }
            CameraReport::Event(event) => self.on_event(event),
            CameraReport::Lost { reason } => {
                self.forget();
                if !std::mem::replace(&mut self.is_lost, true) {
                    tracing::warn!(
                        stream = %self.name,
                        "the events of the camera do not arrive: {reason}; {meanwhile}trying again"
                    );
                }
            }
            CameraReport::Unsupported { reason } => {
                self.forget();
                let always = if is_gated { "; its gate stays open" } else { "" };
                tracing::warn!(stream = %self.name, "the camera reports no events: {reason}{always}");
            }
        }
    }

    fn on_event(&mut self, event: CameraEvent) {
        let is_new = self.states.on_event(&event);
        if event.active.is_none() && event.is_of_motion() {
            self.set_signal(CameraSignal::Moment);
        }
        self.set_signal(self.states.signal());
        if is_new {
            tracing::debug!(stream = %self.name, topic = %event.topic, active = ?event.active, "event of the camera");
            self.report(Some(event));
        }
    }

    /// Nothing is known of the camera.
    fn forget(&mut self) {
        let was_active = self.states.states.values().any(|(active, _)| *active);
        self.states = CameraStates::default();
        self.set_signal(CameraSignal::Unknown);
        if was_active {
            self.report(None);
        }
    }

    fn set_signal(&self, signal: CameraSignal) {
        if let Some(gate) = &self.gate {
            gate.on_camera(signal);
        }
    }

    fn report(&self, event: Option<CameraEvent>) {
        self.egress.do_send(CameraReported {
            stream: self.stream,
            event,
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(topic: &str, active: Option<bool>) -> CameraEvent {
        CameraEvent {
            topic: topic.into(),
            source: "".into(),
            active,
        }
    }

    #[test]
    fn motion_is_unknown_until_the_camera_reports_it() {
        let mut states = CameraStates::default();
        assert_eq!(states.signal(), CameraSignal::Unknown);
        assert!(states.on_event(&event("Device/Trigger/DigitalInput", Some(true))));
        assert_eq!(states.signal(), CameraSignal::Unknown);
        assert!(!states.on_event(&event("VideoSource/MotionAlarm", Some(false))));
        assert_eq!(states.signal(), CameraSignal::Still);
        assert!(states.on_event(&event("RuleEngine/FieldDetector/ObjectsInside", Some(true))));
        assert!(states.on_event(&event("VideoSource/MotionAlarm", Some(true))));
        assert!(
            !states.on_event(&event("VideoSource/MotionAlarm", Some(true))),
            "repeated"
        );
        assert!(states.on_event(&event("VideoSource/MotionAlarm", Some(false))));
        assert_eq!(states.signal(), CameraSignal::Moves, "another rule holds");
        assert!(states.on_event(&event("RuleEngine/LineDetector/Crossed", None)));
    }

    #[test]
    fn states_are_bounded() {
        let mut states = CameraStates::default();
        for number in 0..2 * MAX_STATES {
            states.on_event(&event(&format!("a/{number}"), Some(true)));
        }
        assert_eq!(states.states.len(), MAX_STATES);
    }
}

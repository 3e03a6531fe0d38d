//! Events that the camera reports itself, as incidents: a state from its begin to its end, and a moment, such as a crossed line, as
//! an incident that is over at once. It looks at no object, and needs no frame to begin or end.

use std::collections::BTreeMap;
use std::sync::Arc;

use weir_flow::{CameraEvent, IncidentValue, Phase};

use super::camera_states::CameraStates;
use super::finding::{Finding, number};
use super::spec::CameraEventSpec;
use crate::track::FrameTime;

#[derive(Debug, Clone, Copy)]
struct Open {
    number: u64,
    began: FrameTime,
    updated: FrameTime,
}

pub(crate) struct CameraIncidents {
    spec: CameraEventSpec,
    every_ms: f64,
    open: BTreeMap<(Arc<str>, Arc<str>), Open>,
    begun: u64,
    last: FrameTime,
}

impl CameraIncidents {
    pub(crate) fn new(spec: CameraEventSpec, every_ms: f64) -> Self {
        Self {
            spec,
            every_ms,
            open: BTreeMap::new(),
            begun: 0,
            last: FrameTime {
                pts_ms: 0.0,
                time_ms: 0,
            },
        }
    }

    /// Begins, updates and ends incidents as the states of the camera say.
    pub(crate) fn on_states(&mut self, states: &CameraStates, now: FrameTime, out: &mut Vec<Finding>) {
        self.last = now;
        let ended: Vec<_> = self
            .open
            .keys()
            .filter(|key| !states.holds(key))
            .cloned()
            .collect();
        for key in ended {
            self.end(&key, now, out);
        }
        for (key, began) in states.iter() {
            if !self.takes(&key.0, &key.1) {
                continue;
            }
            let phase = match self.open.get_mut(key) {
                Some(open) if open.updated.until(now) < self.every_ms => continue,
                Some(open) => {
                    open.updated = now;
                    Phase::Updated
                }
                None => {
                    let open = Open {
                        number: self.begun,
                        began: *began,
                        updated: now,
                    };
                    self.begun += 1;
                    self.open.insert(key.clone(), open);
                    Phase::Began
                }
            };
            if let Some(open) = self.open.get(key) {
                out.push(finding(key, (open.number, phase), open.began, now));
            }
        }
    }

    /// An event without a duration.
    pub(crate) fn on_moment(&mut self, event: &CameraEvent, at: FrameTime, out: &mut Vec<Finding>) {
        if !self.takes(&event.topic, &event.source) {
            return;
        }
        let key = (Arc::clone(&event.topic), Arc::clone(&event.source));
        out.push(finding(&key, (self.begun, Phase::Ended), at, at));
        self.begun += 1;
    }

    /// Ends what goes on.
    pub(crate) fn close(&mut self, out: &mut Vec<Finding>) {
        let open: Vec<_> = self.open.keys().cloned().collect();
        for key in open {
            self.end(&key, self.last, out);
        }
    }

    fn end(&mut self, key: &(Arc<str>, Arc<str>), now: FrameTime, out: &mut Vec<Finding>) {
        if let Some(open) = self.open.remove(key) {
            out.push(finding(key, (open.number, Phase::Ended), open.began, now));
        }
    }

    fn takes(&self, topic: &str, source: &str) -> bool {
        let is_from = |wanted: &Arc<str>| {
            let mut items = source.split(',');
            items.any(|item| item == &**wanted || item.split_once('=').is_some_and(|(_, of)| of == &**wanted))
        };
        self.spec.topics.iter().any(|wanted| wanted.matches(topic))
            && self.spec.from.as_ref().is_none_or(is_from)
    }
}

fn finding(
    (topic, source): &(Arc<str>, Arc<str>),
    (count, phase): (u64, Phase),
    began: FrameTime,
    at: FrameTime,
) -> Finding {
    Finding {
        number: count,
        phase,
        track: None,
        began,
        at,
        values: vec![
            ("topic", IncidentValue::Text(Arc::clone(topic))),
            ("source", IncidentValue::Text(Arc::clone(source))),
            ("lasted_s", number(began.until(at) / 1e3, 3)),
        ],
        ghost: None,
    }
}

#[cfg(test)]
mod tests {
    use weir_flow::{CameraTopic, Incident, StreamNames};

    use super::super::camera_states::MAX_STATES;
    use super::super::spec::{TransformKind, TransformSpec};
    use super::super::stream::{SceneFrame, StreamTransform, StreamTransforms};
    use super::super::{Anchor, transform_type};
    use super::*;

    fn transforms(topic: CameraTopic, from: Option<&str>) -> StreamTransforms {
        let spec = TransformSpec {
            classes: Vec::new(),
            anchor: Anchor::Bottom,
            outline: None,
            every_ms: 5_000.0,
            kind: TransformKind::CameraEvent(CameraEventSpec {
                topics: vec![topic],
                from: from.map(Into::into),
            }),
        };
        let transform = StreamTransform {
            name: "bell".into(),
            spec,
            modules: [0].into(),
            trackers: [].into(),
            streams: StreamNames::default(),
        };
        StreamTransforms::new("door".into(), vec![transform], 1)
    }

    fn event(topic: &str, source: &str, active: Option<bool>) -> CameraEvent {
        CameraEvent {
            topic: topic.into(),
            source: source.into(),
            active,
        }
    }

    /// A frame without objects, so many milliseconds after the first.
    fn frame(at_ms: u64) -> SceneFrame<'static> {
        SceneFrame {
            width: 640,
            height: 360,
            at: FrameTime {
                pts_ms: at_ms as f64,
                time_ms: 1_000_000 + at_ms,
            },
            objects: &[],
            ended: &[],
            pixels: None,
        }
    }

    /// Phase, media time and duration of each incident.
    fn seen(incidents: &[Incident]) -> Vec<(Phase, f64, String)> {
        let values = incidents.iter().map(|incident| {
            let mut values = incident.values.iter();
            let lasted = values.find(|(name, _)| *name == "lasted_s");
            let lasted = lasted.map_or_else(String::new, |(_, value)| match value {
                IncidentValue::Number(seconds) => seconds.to_string(),
                IncidentValue::Text(_) => String::new(),
            });
            (incident.phase, incident.pts_ms, lasted)
        });
        values.collect()
    }

    #[test]
    fn a_state_is_an_incident_from_its_begin_to_its_end_without_frames() {
        let mut bell = transforms(CameraTopic::Input, None);
        bell.on_frame(&frame(0));
        let pressed = event("Device/Trigger/DigitalInput", "InputToken=1", Some(true));
        let began = bell.on_camera(Some(&pressed), 1_002_000);
        assert_eq!(seen(&began), [(Phase::Began, 2_000.0, "0".to_owned())]);
        assert_eq!(began[0].kind, "camera-event");
        assert!(
            bell.on_camera(Some(&pressed), 1_003_000).is_empty(),
            "it holds already"
        );
        let updated = bell.on_frame(&frame(8_000));
        assert_eq!(seen(&updated), [(Phase::Updated, 8_000.0, "6".to_owned())]);
        let released = event("Device/Trigger/DigitalInput", "InputToken=1", Some(false));
        let ended = bell.on_camera(Some(&released), 1_009_000);
        assert_eq!(seen(&ended), [(Phase::Ended, 9_000.0, "7".to_owned())]);
        assert_eq!(ended[0].id, began[0].id);
    }

    #[test]
    fn a_moment_is_over_at_once_and_each_is_an_incident_of_its_own() {
        let mut line = transforms(CameraTopic::Line, Some("Yard"));
        line.on_frame(&frame(0));
        let crossed = |source: &str| event("RuleEngine/LineDetector/Crossed", source, None);
        let first = line.on_camera(Some(&crossed("VideoSourceToken=v1,Rule=Yard")), 1_001_000);
        let second = line.on_camera(Some(&crossed("VideoSourceToken=v1,Rule=Yard")), 1_001_000);
        assert_eq!(seen(&first), [(Phase::Ended, 1_000.0, "0".to_owned())]);
        assert_ne!(first[0].id, second[0].id);
        assert!(line.on_camera(Some(&crossed("Rule=Yard2")), 1_001_000).is_empty());
        let other = event("VideoSource/MotionAlarm", "Rule=Yard", Some(true));
        assert!(line.on_camera(Some(&other), 1_001_000).is_empty());
    }

    #[test]
    fn states_end_where_the_camera_is_not_heard_and_begin_again_after_a_scene() {
        let mut motion = transforms(CameraTopic::Motion, None);
        motion.on_frame(&frame(0));
        let moves = event("VideoSource/MotionAlarm", "", Some(true));
        assert_eq!(motion.on_camera(Some(&moves), 1_001_000).len(), 1);
        // The source is away and comes back, while the camera goes on to report.
        assert_eq!(motion.close(&[]).len(), 1);
        assert_eq!(seen(&motion.on_frame(&frame(4_000)))[0].0, Phase::Began);
        assert_eq!(seen(&motion.on_camera(None, 1_006_000))[0].0, Phase::Ended);
        assert!(motion.on_frame(&frame(7_000)).is_empty());
    }

    #[test]
    fn states_begin_no_incident_before_the_stream_is_analysed_again() {
        let mut motion = transforms(CameraTopic::Motion, None);
        motion.on_frame(&frame(0));
        motion.close(&[]);
        let state = |active: bool| event("VideoSource/MotionAlarm", "", Some(active));
        motion.on_unanalysed_camera(Some(&state(true)), 1_001_000);
        motion.on_unanalysed_camera(Some(&state(false)), 1_002_000);
        motion.on_analysed_again(1_003_000);
        assert!(motion.on_frame(&frame(3_000)).is_empty(), "the state was over");
        motion.close(&[]);
        motion.on_unanalysed_camera(Some(&state(true)), 1_004_000);
        motion.on_analysed_again(1_009_000);
        let began = motion.on_frame(&frame(10_000));
        assert_eq!(seen(&began), [(Phase::Began, 10_000.0, "1".to_owned())]);
    }

    #[test]
    fn states_are_bounded() {
        let mut motion = transforms(CameraTopic::Motion, None);
        motion.on_frame(&frame(0));
        let begun: usize = (0..1_000)
            .map(|number| {
                let moves = event("VideoSource/MotionAlarm", &format!("Source={number}"), Some(true));
                motion.on_camera(Some(&moves), 1_000_000).len()
            })
            .sum();
        assert_eq!(begun, MAX_STATES);
        assert!(transform_type("camera-event").is_some());
    }
}

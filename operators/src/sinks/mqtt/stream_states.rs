//! States of streams that the broker retains, and their entities in Home Assistant: counts, rules, zones, pictures, motion and
//! connection.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::{Map, Value};
use weir_flow::{DeliveredObject, Delivery, Incident, Overlay};

use super::cameras::{Camera, Motion, Rule, RulesChanged, Status, elapsed_ms};
use super::counts::{ALL, Counts};
use super::discovery;
use super::reviews::NO_REVIEW;
use super::topics::Topics;
use super::transport::States;

/// Streams and zones whose states are published.
const MAX_STREAMS: usize = 4_096;

/// Topics of pictures.
const MAX_SNAPSHOTS: usize = 1_024;

/// See the module.
pub(super) struct StreamStates {
    states: Arc<States>,
    topics: Topics,
    counts: Counts,
    /// Streams whose states are those of this sink.
    cameras: BTreeMap<Arc<str>, Camera>,
    /// Entities of the engine that the broker has of an earlier run, by their ids.
    engine: Map<String, Value>,
    /// Classes of which each zone has had any, over all streams.
    zones: BTreeMap<Arc<str>, BTreeSet<String>>,
    /// Track and frame of the newest picture by topic.
    snapshots: BTreeMap<String, (Option<u64>, u64)>,
}

impl StreamStates {
    pub(super) fn new(states: Arc<States>, topics: Topics) -> Self {
        let all = Self {
            states,
            topics,
            counts: Counts::default(),
            cameras: BTreeMap::new(),
            engine: Map::new(),
            zones: BTreeMap::new(),
            snapshots: BTreeMap::new(),
        };
        all.describe_engine();
        all
    }

    /// Adds a stream that the graph has, and clears the counts of it that an earlier run left. Its other states wait until this engine
    /// runs it: in a fleet it may be another one that does.
    pub(super) fn expect(&mut self, stream: &Arc<str>) {
        if !self.cameras.contains_key(stream) && self.cameras.len() < MAX_STREAMS {
            self.cameras.insert(Arc::clone(stream), Camera::default());
            self.states.own(self.topics.counts_of(stream));
        }
    }

    /// Publishes the states of a stream that this engine runs.
    pub(super) fn own(&mut self, stream: &Arc<str>) {
        self.expect(stream);
        let is_new = |camera: &Camera| camera.status.is_none();
        if self.cameras.get(stream).is_some_and(is_new) {
            self.set_status(stream, Status::Offline);
            self.set_review_status(stream, NO_REVIEW);
            self.describe(stream);
        }
        self.take_earlier();
    }

    /// Removes a stream with its states and entities.
    pub(super) fn remove(&mut self, stream: &str) {
        self.counts.remove(stream);
        let beginning = self.topics.counts_of(stream);
        self.snapshots.retain(|topic, _| !topic.starts_with(&beginning));
        self.states.clear(&beginning);
        let Some(camera) = self.cameras.remove(stream) else {
            return;
        };
        self.remove_device(self.topics.config(&self.topics.camera(stream)), &camera.earlier);
        for zone in camera.rules.keys() {
            self.recount_zone(zone);
        }
    }

    /// Takes in a frame; `false` if it is of before its stream went dark, and came late.
    pub(super) fn on_frame(&mut self, delivery: &Delivery) -> bool {
        let (stream, time_ms) = (&delivery.stream, delivery.time_ms);
        if let Some(camera) = self.cameras.get_mut(stream) {
            let is_late = |since_ms| time_ms <= since_ms && elapsed_ms(since_ms, time_ms) == 0;
            if camera.dark_ms.is_some_and(is_late) {
                return false;
            }
            camera.dark_ms = None;
        }
        self.set_status(stream, Status::Online);
        self.set_motion(stream, |motion| motion.on_frame(time_ms, delivery.still));
        self.set_objects(stream, &delivery.objects);
        true
    }

    /// Frames of the stream arrive, also if none is delivered.
    pub(super) fn on_live(&mut self, stream: &Arc<str>) {
        self.own(stream);
        self.set_status(stream, Status::Online);
    }

    /// Takes in frames without motion, which were not decoded.
    pub(super) fn on_still(&mut self, stream: &Arc<str>, time_ms: u64) {
        self.set_motion(stream, |motion| motion.on_frame(time_ms, true));
    }

    /// The stream shows nothing from `time_ms` on.
    pub(super) fn darken(&mut self, stream: &Arc<str>, time_ms: u64, status: Status) {
        self.own(stream);
        if let Some(camera) = self.cameras.get_mut(stream) {
            camera.dark_ms = Some(time_ms);
        }
        self.set_status(stream, status);
        self.set_motion(stream, Motion::on_dark);
        self.set_objects(stream, &[]);
    }

    /// Publishes how many objects of each class the stream shows.
    pub(super) fn set_objects(&mut self, stream: &str, objects: &[DeliveredObject]) {
        let changed = self.counts.on_objects(stream, objects);
        for (class, count) in changed.counts {
            self.states
                .set(self.topics.count(stream, &class), count.now.to_string());
            self.states
                .set(self.topics.active(stream, &class), count.active.to_string());
        }
        if changed.has_new {
            self.describe(stream);
        }
    }

    /// Takes in the rules of a stream, which overlays of its deliveries name.
    pub(super) fn on_rules(&mut self, stream: &Arc<str>, overlays: &[Overlay]) {
        let Some(camera) = self.cameras.get_mut(stream) else {
            return;
        };
        let changed = camera.on_overlays(overlays);
        if changed == RulesChanged::default() {
            return;
        }
        if !changed.removed.is_empty() {
            let described = self.topics.config(&self.topics.camera(stream));
            let described = described.and_then(|topic| self.states.get(&topic));
            let entities = described.and_then(|config| discovery::earlier(&self.topics, &config));
            camera.earlier.extend(entities.unwrap_or_default());
        }
        for rule in &changed.added {
            self.set_rule(stream, rule);
        }
        for rule in &changed.removed {
            self.states.set(self.topics.rule(stream, rule), "");
            self.states.set(self.topics.rule_count(stream, rule), "");
            self.recount_zone(rule);
        }
        self.describe(stream);
    }

    /// Takes in an event of an incident: its rule, and its picture if that is another one than before.
    pub(super) fn on_incident(&mut self, stream: &Arc<str>, incident: &Incident) {
        let camera = self.cameras.get_mut(stream);
        if camera.is_some_and(|camera| camera.on_incident(incident)) {
            self.set_rule(stream, &incident.transform);
        }
        let Some((best, class)) = incident.best.as_ref().zip(incident.class.as_ref()) else {
            return;
        };
        let (shown, mut is_new) = ((incident.track, best.frame), false);
        for class in [&**class, ALL] {
            let topic = self.topics.snapshot(stream, class);
            let before = self.snapshots.get(&topic);
            let has_room = before.is_some() || self.snapshots.len() < MAX_SNAPSHOTS;
            if before == Some(&shown) || !has_room || best.jpeg().is_empty() {
                continue;
            }
            self.states.set(topic.clone(), best.jpeg());
            self.snapshots.insert(topic, shown);
            if let Some(camera) = self.cameras.get_mut(stream) {
                is_new |= camera.pictures.insert(class.to_owned());
            }
        }
        if is_new {
            self.describe(stream);
        }
    }

    pub(super) fn set_review_status(&self, stream: &str, status: &str) {
        self.states.set(self.topics.review_status(stream), status);
    }

    fn set_status(&mut self, stream: &str, status: Status) {
        if let Some(camera) = self.cameras.get_mut(stream)
            && camera.status.replace(status) != Some(status)
        {
            self.states.set(self.topics.status(stream), status.name());
        }
    }

    fn set_motion(&mut self, stream: &str, change: impl FnOnce(&mut Motion) -> Option<bool>) {
        let Some(camera) = self.cameras.get_mut(stream) else {
            return;
        };
        let was_known = camera.motion.is_on.is_some();
        if let Some(is_on) = change(&mut camera.motion) {
            self.states.set(self.topics.motion(stream), on_off(is_on));
            if !was_known {
                self.describe(stream);
            }
        }
    }

    /// Publishes whether incidents of a rule are open, and how many.
    fn set_rule(&mut self, stream: &str, rule: &Arc<str>) {
        let camera = self.cameras.get(stream);
        let found = camera.and_then(|camera| camera.rules.get(rule));
        let Some(found) = found.filter(|found| Rule::lasts(found.kind)) else {
            return;
        };
        self.states
            .set(self.topics.rule(stream, rule), on_off(found.is_open()));
        if Rule::is_zone(found.kind) {
            self.states
                .set(self.topics.rule_count(stream, rule), found.open().to_string());
            self.count_zone(rule);
        }
    }

    /// Publishes how many objects of each class are in a zone, over all streams. If a stream has the same name, these topics are
    /// those of the stream.
    fn count_zone(&mut self, zone: &Arc<str>) {
        let is_known = self.zones.contains_key(zone);
        if self.cameras.contains_key(zone) || (!is_known && self.zones.len() >= MAX_STREAMS) {
            return;
        }
        let mut counts = BTreeMap::<String, u64>::new();
        for camera in self.cameras.values() {
            let rule = camera.rules.get(zone).filter(|rule| Rule::is_zone(rule.kind));
            for (class, count) in rule.map(Rule::classes).unwrap_or_default() {
                *counts.entry(class.to_owned()).or_default() += count;
            }
        }
        counts.insert(ALL.to_owned(), counts.values().sum());
        if !is_known {
            self.states.own(self.topics.counts_of(zone));
        }
        let known = self.zones.entry(Arc::clone(zone)).or_default();
        known.extend(counts.keys().cloned());
        for class in known.iter() {
            let count = counts.get(class).copied().unwrap_or(0);
            self.states.set(self.topics.count(zone, class), count.to_string());
        }
    }

    /// Publishes these numbers once more if a rule that is gone was a zone.
    fn recount_zone(&mut self, rule: &Arc<str>) {
        if self.zones.contains_key(rule) {
            self.count_zone(rule);
        }
    }

    /// Publishes the configuration of a stream for Home Assistant.
    fn describe(&self, stream: &str) {
        let topic = self.topics.config(&self.topics.camera(stream));
        let camera = self.cameras.get(stream);
        let camera = camera.filter(|camera| camera.status.is_some());
        if let (Some(topic), Some(camera)) = (topic, camera) {
            let config = discovery::camera(&self.topics, stream, camera, &self.counts);
            self.states.set(topic, config.to_string());
        }
    }

    /// Publishes the configuration of the engine.
    fn describe_engine(&self) {
        if let Some(topic) = self.topics.config(&self.topics.device()) {
            let config = discovery::engine(&self.topics, &self.engine);
            self.states.set(topic, config.to_string());
        }
    }

    /// Takes in configurations that an earlier run left at the broker, and removes those of streams that are no more.
    fn take_earlier(&mut self) {
        let configs = self.states.take_configs();
        if configs.is_empty() {
            return;
        }
        let engine = self.topics.config(&self.topics.device());
        let topic_of = |stream: &Arc<str>| self.topics.config(&self.topics.camera(stream));
        let owners = self
            .cameras
            .keys()
            .map(|stream| (topic_of(stream), Arc::clone(stream)));
        let owners: BTreeMap<Option<String>, Arc<str>> = owners.collect();
        for (topic, config) in configs {
            let Some(entities) = discovery::earlier(&self.topics, &config) else {
                continue;
            };
            if engine.as_ref() == Some(&topic) {
                let before = self.states.get(&topic);
                self.engine = entities;
                self.describe_engine();
                // A count that was an entity of the engine is refused as one of a stream before it is removed.
                if self.states.get(&topic) != before {
                    for topic in owners.keys().flatten() {
                        self.states.resend(topic);
                    }
                }
                continue;
            }
            let topic = Some(topic);
            if let Some(stream) = owners.get(&topic) {
                if let Some(camera) = self.cameras.get_mut(stream) {
                    camera.earlier = entities;
                }
                self.describe(stream);
            } else if self.states.is_successor() {
                self.remove_device(topic, &entities);
            }
        }
    }

    /// Removes a device and the states of its entities.
    fn remove_device(&self, config: Option<String>, entities: &Map<String, Value>) {
        for state in discovery::state_topics(&self.topics, entities) {
            self.states.set(state, "");
        }
        if let Some(config) = config {
            self.states.set(config, "");
        }
    }
}

const fn on_off(is_on: bool) -> &'static str {
    if is_on { "ON" } else { "OFF" }
}

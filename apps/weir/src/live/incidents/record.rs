//! An incident as clients list it and as it is stored. It depends on no transform: the one that reported it may be gone.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use weir_flow::{Incident, IncidentValue, Phase};
use weir_operators::sinks::ClipOf;

use crate::live::notes::word;

/// Characters of a text that are kept; plates, names and zones are shorter.
const MAX_TEXT: usize = 256;

/// Values, attributes and zones of an incident that are kept, of each.
const MAX_ENTRIES: usize = 32;

/// Descriptions of an incident that are kept, and characters of each.
const MAX_DESCRIPTIONS: usize = 4;
const MAX_DESCRIPTION: usize = 1_000;

/// See the module.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Record {
    /// Position among all incidents in the order in which they began; a client continues a list behind it.
    pub(crate) number: u64,
    pub(crate) id: Arc<str>,
    pub(crate) stream: Arc<str>,
    pub(crate) transform: Arc<str>,
    #[serde(rename = "type")]
    pub(crate) kind: Arc<str>,
    /// `began`, `updated` or `ended`.
    pub(crate) phase: Arc<str>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) track: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) class: Option<Arc<str>>,
    pub(crate) score: f32,
    pub(crate) began_ms: u64,
    pub(crate) time_ms: u64,
    pub(crate) zones: Vec<Arc<str>>,
    pub(crate) values: BTreeMap<Arc<str>, Value>,
    pub(crate) attributes: BTreeMap<Arc<str>, Arc<str>>,
    /// Words of models about its picture, by the name of the sink that asked.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) descriptions: BTreeMap<Arc<str>, Arc<str>>,
    #[serde(default)]
    pub(crate) seen: bool,
    #[serde(default)]
    pub(crate) pinned: bool,
}

impl Record {
    pub(crate) fn new(number: u64, stream: &Arc<str>, incident: &Incident) -> Self {
        let values = incident.values.iter().take(MAX_ENTRIES);
        let values = values.map(|(name, value)| {
            let value = match value {
                IncidentValue::Number(number) => json!(number),
                IncidentValue::Text(text) => json!(bounded(text, MAX_TEXT)),
            };
            (Arc::from(*name), value)
        });
        let attributes = incident.attributes.iter();
        let attributes = attributes.filter_map(|(name, attribute)| Some((name, word(attribute)?)));
        let attributes = attributes
            .take(MAX_ENTRIES)
            .map(|(name, word)| (bounded(name, MAX_TEXT), bounded(word, MAX_TEXT)));
        Self {
            number,
            id: Arc::clone(&incident.id),
            stream: Arc::clone(stream),
            transform: Arc::clone(&incident.transform),
            kind: incident.kind.into(),
            phase: incident.phase.name().into(),
            track: incident.track,
            class: incident.class.as_deref().map(|class| bounded(class, MAX_TEXT)),
            // A number that JSON does not have would not be read again.
            score: if incident.score.is_finite() {
                incident.score
            } else {
                0.0
            },
            began_ms: incident.began_ms,
            time_ms: incident.time_ms,
            zones: incident
                .zones
                .iter()
                .take(MAX_ENTRIES)
                .map(|zone| bounded(zone, MAX_TEXT))
                .collect(),
            values: values.collect(),
            attributes: attributes.collect(),
            descriptions: BTreeMap::new(),
            seen: false,
            pinned: false,
        }
    }

    /// Takes in words of a model that the sink of that name asked.
    pub(super) fn describe(&mut self, sink: &str, text: &str) {
        if self.descriptions.len() < MAX_DESCRIPTIONS || self.descriptions.contains_key(sink) {
            self.descriptions
                .insert(bounded(sink, MAX_TEXT), bounded(text, MAX_DESCRIPTION));
        }
    }

    pub(crate) fn is_over(&self) -> bool {
        *self.phase == *Phase::Ended.name()
    }

    /// Ends an incident of an engine that stopped: its track is gone.
    pub(super) fn end(&mut self) {
        self.phase = Phase::Ended.name().into();
    }

    /// Returns the incident as clients see it.
    pub(crate) fn shown(&self, has_picture: bool, has_clip: bool) -> Value {
        let mut shown = json!(self);
        if let Some(map) = shown.as_object_mut() {
            map.remove("number");
            map.insert("is_over".to_owned(), self.is_over().into());
            map.insert("has_picture".to_owned(), has_picture.into());
            map.insert("has_clip".to_owned(), has_clip.into());
        }
        shown
    }

    /// The parts that name its clip.
    pub(crate) fn clip(&self) -> ClipOf<'_> {
        ClipOf {
            stream: &self.stream,
            transform: &self.transform,
            id: &self.id,
            began_ms: self.began_ms,
        }
    }
}

/// The first `max` characters.
fn bounded(text: &str, max: usize) -> Arc<str> {
    match text.char_indices().nth(max) {
        Some((end, _)) => text[..end].into(),
        None => text.into(),
    }
}

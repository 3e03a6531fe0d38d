//! Whether two sinks are one client of an MQTT broker, which closes the connection of one whenever the other connects.

use std::collections::BTreeMap;

use weir_config::Diagnostics;

use crate::raw::{RawGraph, RawSink};

/// Type of the sinks that may name themselves to their broker.
const MQTT: &str = "mqtt";

pub(super) fn check(raw: &RawGraph, diagnostics: &mut Diagnostics) {
    let mut seen: BTreeMap<(&str, u64, &str), &str> = BTreeMap::new();
    for sink in raw.sinks.iter().filter(|sink| sink.is_whole && is_mqtt(sink)) {
        let (Some(host), Some(id)) = (given(sink, "host"), given(sink, "client_id")) else {
            continue;
        };
        if let Some(other) = seen.insert((host, port(sink), id), &sink.name.value) {
            let message = format!(
                "sinks \"{other}\" and \"{}\" have the `client_id` \"{id}\" at one broker, which ends the connection of the other one each \
                 time that one of them connects",
                sink.name.value
            );
            let hint = "leave `client_id` out of one of them";
            diagnostics.add(sink.name.at, message, Some(hint.to_owned()));
        }
    }
}

fn is_mqtt(sink: &RawSink) -> bool {
    let kind = sink.kind.given();
    kind.is_some_and(|kind| kind.value == MQTT)
}

/// Port of the broker as bits of a number, with the defaults of MQTT with and without TLS.
fn port(sink: &RawSink) -> u64 {
    let files = ["ca_file", "certificate_file", "key_file"];
    let has_file = files.iter().any(|key| given(sink, key).is_some());
    let default = if sink.settings.flag("tls", has_file) {
        8883.0
    } else {
        1883.0
    };
    sink.settings.number("port", default).to_bits()
}

/// Text of a key, if it is given and not empty.
fn given<'a>(sink: &'a RawSink, key: &str) -> Option<&'a str> {
    sink.settings.text(key).filter(|text| !text.is_empty())
}

//! Cameras as tables of a graph.

use super::facts::{Found, Stream};
use super::report::{head, size};

/// User and password of an address: a graph takes them from variables, and no file holds them.
const USER: &str = "${CAMERA_USER}:${CAMERA_PASSWORD}@";

/// Tables `[cameras.NAME]` for a graph; empty if no device has a stream. Addresses have a login `with_login`.
pub(crate) fn graph_tables(found: &Found, with_login: bool) -> String {
    let mut tables = Vec::new();
    for device in &found.devices {
        for camera in &device.cameras {
            let Some((main, second)) = camera.main_and_second() else {
                continue;
            };
            let mut lines = vec![format!("# {}", head(device)), format!("# uri: {}", facts(main))];
            lines.extend(second.map(|second| format!("# detect_uri: {}", facts(second))));
            lines.push(format!("[cameras.{}]", camera.name));
            lines.push(format!("uri = {}", address(&main.uri, with_login)));
            lines.extend(second.map(|second| format!("detect_uri = {}", address(&second.uri, with_login))));
            tables.push(lines.join("\n"));
        }
    }
    tables.join("\n\n")
}

/// Profile, size, codec and rate of a stream.
fn facts(stream: &Stream) -> String {
    let fps = stream.fps.map(|fps| format!("{fps} frames a second"));
    let facts = [
        Some(stream.profile.clone()),
        Some(size(stream)),
        stream.codec.clone(),
        fps,
    ];
    let facts = facts.into_iter().flatten().filter(|fact| !fact.is_empty());
    facts.collect::<Vec<_>>().join(", ")
}

/// A text of TOML in which a dollar sign of the device is one.
fn address(uri: &str, with_login: bool) -> String {
    let uri = uri.replace('$', "$$");
    let text = match uri.split_once("://") {
        Some((scheme, rest)) if with_login => format!("{scheme}://{USER}{rest}"),
        _ => uri,
    };
    toml::Value::String(text).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::discover::facts::{Camera, Device};

    #[test]
    fn addresses_are_quoted_and_take_the_login_from_variables() {
        let found = Found {
            devices: vec![Device {
                address: "10.0.0.7:80".to_owned(),
                cameras: vec![Camera {
                    name: "door".to_owned(),
                    streams: vec![Stream {
                        profile: "Main".to_owned(),
                        uri: "rtsp://10.0.0.7/a\"b$c".to_owned(),
                        ..Stream::default()
                    }],
                }],
                ..Device::default()
            }],
            warnings: Vec::new(),
        };
        let text = graph_tables(&found, true);
        let read: toml::Table = toml::from_str(&text).unwrap();
        let uri = read["cameras"]["door"]["uri"].as_str().unwrap();
        assert_eq!(uri, "rtsp://${CAMERA_USER}:${CAMERA_PASSWORD}@10.0.0.7/a\"b$$c");
        let plain = graph_tables(&found, false);
        assert!(plain.contains("uri = 'rtsp://10.0.0.7/a\"b$$c'"), "{plain}");
    }
}

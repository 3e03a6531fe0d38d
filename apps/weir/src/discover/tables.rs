//! Cameras as tables of a graph.

use std::path::Path;

use super::facts::{Found, Stream};
use super::report::{head, size};
use crate::graph_text::quoted;

/// Tables `[cameras.NAME]` for a graph; empty if no device has a stream. `login` is the user of all of them and the absolute path of
/// the file with the password, which no table contains.
pub(crate) fn graph_tables(found: &Found, login: Option<(&str, &Path)>) -> String {
    let login = login.map(|(user, file)| {
        let file = quoted(&file.to_string_lossy());
        [
            format!("user = {}", quoted(user)),
            format!("password_file = {file}"),
        ]
    });
    let mut tables = Vec::new();
    for device in &found.devices {
        for camera in &device.cameras {
            let Some((main, second)) = camera.main_and_second() else {
                continue;
            };
            let mut lines = vec![format!("# {}", head(device)), format!("# uri: {}", facts(main))];
            lines.extend(second.map(|second| format!("# detect_uri: {}", facts(second))));
            lines.push(format!("[cameras.{}]", camera.name));
            // A dollar sign of the device is one.
            lines.push(format!("uri = {}", quoted(&main.uri)));
            lines.extend(second.map(|second| format!("detect_uri = {}", quoted(&second.uri))));
            let service = device.service.as_deref();
            lines.extend(service.map(|service| format!("onvif = {}", quoted(service))));
            lines.extend(login.iter().flatten().cloned());
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::discover::facts::{Camera, Device};

    #[test]
    fn addresses_are_quoted_and_name_the_file_of_the_password() {
        let found = Found {
            devices: vec![Device {
                address: "10.0.0.7:80".to_owned(),
                service: Some("http://10.0.0.7:80/onvif/device_service".to_owned()),
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
        let text = graph_tables(&found, Some(("ad$min", Path::new("/etc/weir/camera \"1\""))));
        let read: toml::Table = toml::from_str(&text).unwrap();
        let camera = &read["cameras"]["door"];
        assert_eq!(camera["uri"].as_str(), Some("rtsp://10.0.0.7/a\"b$$c"));
        let service = camera["onvif"].as_str();
        assert_eq!(service, Some("http://10.0.0.7:80/onvif/device_service"));
        assert_eq!(camera["user"].as_str(), Some("ad$$min"));
        assert_eq!(camera["password_file"].as_str(), Some("/etc/weir/camera \"1\""));
        let plain = graph_tables(&found, None);
        assert!(plain.contains("uri = 'rtsp://10.0.0.7/a\"b$$c'"), "{plain}");
        assert!(!plain.contains("user"), "{plain}");
    }
}

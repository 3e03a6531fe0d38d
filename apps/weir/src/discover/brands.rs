//! Usual addresses of streams by brand. They are hints for devices without ONVIF, taken from manuals of their makers; models of one
//! brand differ.

use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::time::Duration;

use serde::Serialize;
use weir_operators::onvif::{Deadline, clean};

/// Ports that cameras usually have RTSP at.
const PORTS: [u16; 2] = [554, 8554];

/// Longest wait for a connection, and for an answer.
const MAX_WAIT: Duration = Duration::from_secs(1);

/// Bytes of an answer that are read.
const MAX_ANSWER: usize = 4_096;

/// Usual paths of a brand.
struct Brand {
    name: &'static str,
    /// Words in lower case that name it, in what devices answer.
    words: &'static [&'static str],
    main: &'static str,
    second: &'static str,
}

const BRANDS: [Brand; 9] = [
    Brand {
        name: "Hikvision",
        words: &["hikvision", "hiwatch", "annke"],
        main: "/Streaming/Channels/101",
        second: "/Streaming/Channels/102",
    },
    Brand {
        name: "Dahua, Amcrest",
        words: &["dahua", "amcrest", "lorex"],
        main: "/cam/realmonitor?channel=1&subtype=0",
        second: "/cam/realmonitor?channel=1&subtype=1",
    },
    Brand {
        name: "Reolink",
        words: &["reolink"],
        main: "/h264Preview_01_main",
        second: "/h264Preview_01_sub",
    },
    Brand {
        name: "Axis",
        words: &["axis"],
        main: "/axis-media/media.amp",
        second: "/axis-media/media.amp?resolution=640x360",
    },
    Brand {
        name: "Uniview",
        words: &["uniview", "unv"],
        main: "/media/video1",
        second: "/media/video2",
    },
    Brand {
        name: "TP-Link Tapo",
        words: &["tp-link", "tplink", "tapo"],
        main: "/stream1",
        second: "/stream2",
    },
    Brand {
        name: "Foscam",
        words: &["foscam"],
        main: "/videoMain",
        second: "/videoSub",
    },
    Brand {
        name: "Hanwha",
        words: &["hanwha", "wisenet", "samsung techwin"],
        main: "/profile2/media.smp",
        second: "/profile3/media.smp",
    },
    Brand {
        name: "Milesight",
        words: &["milesight"],
        main: "/main",
        second: "/sub",
    },
];

/// Addresses that a brand usually has.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Hint {
    pub(crate) brand: &'static str,
    pub(crate) main: String,
    pub(crate) second: String,
}

/// Hints for a device: those of its brand if `answer` names one, else all.
pub(super) fn hints(device: SocketAddr, answer: &str) -> Vec<Hint> {
    let answer = answer.to_lowercase();
    let is_named = |brand: &&Brand| brand.words.iter().any(|word| answer.contains(word));
    let named: Vec<&Brand> = BRANDS.iter().filter(is_named).collect();
    let brands = if named.is_empty() {
        BRANDS.iter().collect()
    } else {
        named
    };
    let hints = brands.into_iter().map(|brand| Hint {
        brand: brand.name,
        main: format!("rtsp://{device}{}", brand.main),
        second: format!("rtsp://{device}{}", brand.second),
    });
    hints.collect()
}

/// Address at which a host speaks RTSP, and the name of its server if it has one. Besides the usual ports, `port` is tried.
pub(super) fn of_host(host: IpAddr, port: Option<u16>) -> Option<(SocketAddr, String)> {
    let ports = port.into_iter().chain(PORTS);
    ports
        .map(|port| SocketAddr::from((host, port)))
        .find_map(|device| Some((device, server(device)?)))
}

/// Name of the server of a device that speaks RTSP; empty if it names none.
fn server(device: SocketAddr) -> Option<String> {
    let mut stream = TcpStream::connect_timeout(&device, MAX_WAIT).ok()?;
    stream.set_write_timeout(Some(MAX_WAIT)).ok()?;
    stream.write_all(b"OPTIONS * RTSP/1.0\r\nCSeq: 1\r\n\r\n").ok()?;
    let end = Deadline::after(MAX_WAIT);
    let mut answer = Vec::new();
    let mut buffer = [0; 512];
    while let Some(left) = end.left().filter(|_| answer.len() < MAX_ANSWER) {
        stream.set_read_timeout(Some(left)).ok()?;
        match stream.read(&mut buffer) {
            Ok(0) | Err(_) => break,
            Ok(length) => answer.extend_from_slice(&buffer[..length]),
        }
        if answer.windows(4).any(|end| end == b"\r\n\r\n") {
            break;
        }
    }
    let answer = String::from_utf8_lossy(&answer);
    let mut headers = answer.strip_prefix("RTSP/1.")?.lines();
    let server = headers.find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.trim().eq_ignore_ascii_case("server").then(|| clean(value))
    });
    Some(server.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_named_brand_has_its_own_hints() {
        let device: SocketAddr = "10.0.0.7:554".parse().unwrap();
        let found = hints(device, "HIKVISION Digital Technology");
        assert_eq!(
            found,
            [Hint {
                brand: "Hikvision",
                main: "rtsp://10.0.0.7:554/Streaming/Channels/101".to_owned(),
                second: "rtsp://10.0.0.7:554/Streaming/Channels/102".to_owned(),
            }]
        );
        assert_eq!(hints(device, "").len(), BRANDS.len());
        assert_eq!(hints(device, "nothing that is known").len(), BRANDS.len());
    }

    #[test]
    fn paths_hold_no_credentials() {
        for brand in &BRANDS {
            for path in [brand.main, brand.second] {
                let address = format!("rtsp://10.0.0.7:554{path}");
                let used = super::super::address::stream(&address, [10, 0, 0, 7].into(), "");
                assert_eq!(used, Ok(address));
            }
        }
    }
}

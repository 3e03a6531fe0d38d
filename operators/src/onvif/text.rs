//! Texts of devices: control characters are escaped, and lengths bounded, before anything else sees them.

use std::net::{IpAddr, SocketAddr};

use weir_flow::printable::line;
use weir_flow::{host, is_service_path, with_small_scheme};

/// Characters of a name or a message of a device.
const MAX_CHARS: usize = 120;

/// Port of HTTP.
const HTTP: u16 = 80;

/// One line without control characters.
#[must_use]
pub fn clean(text: &str) -> String {
    let short: String = text.trim().chars().take(MAX_CHARS).collect();
    line(&short).into_owned()
}

/// The text with the characters that XML reserves as references.
#[must_use]
pub fn xml_escaped(text: &str) -> String {
    quick_xml::escape::escape(text).into_owned()
}

/// Path of a service, whatever host a device names: requests go to the host that was asked. Some devices leave the host out.
#[must_use]
pub fn path(address: &str) -> Option<String> {
    let path = match address.split_once("://") {
        Some((_, rest)) => &rest[rest.find('/')?..],
        None => address,
    };
    is_service_path(path).then(|| path.to_owned())
}

/// Port and path of a service of `device`. The port counts if the device names its own address; behind a router it names another
/// host, whose port means nothing here.
#[must_use]
pub(super) fn place(address: &str, device: SocketAddr) -> Option<(u16, String)> {
    let own = service(address).filter(|(host, _, _)| *host == device.ip().to_canonical());
    let port = own.map_or(device.port(), |(_, port, _)| port);
    Some((port, path(address)?))
}

/// Address, port and path of a service over HTTP at a host that is named by its address.
#[must_use]
pub fn service(address: &str) -> Option<(IpAddr, u16, String)> {
    let (host, port, path) = parts(address)?;
    Some((host.parse::<IpAddr>().ok()?.to_canonical(), port, path))
}

/// Host, port and path of the address of a service over HTTP.
pub(super) fn parts(address: &str) -> Option<(String, u16, String)> {
    let address = with_small_scheme(address);
    let rest = address.strip_prefix("http://")?;
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let (authority, path) = rest.split_at(end);
    let place = authority.rsplit_once('@').map_or(authority, |(_, place)| place);
    let path = if path.is_empty() { "/" } else { path };
    let port = match place.rsplit(']').next()?.rsplit_once(':') {
        Some((_, port)) => port.parse().ok()?,
        None => HTTP,
    };
    Some((host(&address)?, port, path.to_owned())).filter(|_| is_service_path(path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_become_one_bounded_line() {
        assert_eq!(clean(" a\u{1b}[31m\nb "), "a\\u{1b}[31m\\nb");
        assert_eq!(clean(&"x".repeat(1_000)).len(), MAX_CHARS);
    }

    #[test]
    fn services_stay_at_the_device_whatever_host_they_name() {
        let device: SocketAddr = "10.0.0.7:8000".parse().unwrap();
        for (address, expected) in [
            ("http://10.0.0.7:8899/a?b=1", Some((8_899, "/a?b=1"))),
            ("http://10.0.0.7/a", Some((80, "/a"))),
            ("http://192.168.1.5:99/a", Some((8_000, "/a"))),
            ("http://camera.local:99/a", Some((8_000, "/a"))),
            ("/onvif/sub?id=3", Some((8_000, "/onvif/sub?id=3"))),
            ("http://10.0.0.7:99999/a", Some((8_000, "/a"))),
            ("http://10.0.0.7", None),
            ("http://10.0.0.7/a\r\nX: y", None),
            ("", None),
        ] {
            let expected = expected.map(|(port, path)| (port, path.to_owned()));
            assert_eq!(place(address, device), expected, "{address:?}");
        }
    }

    #[test]
    fn services_are_read_over_http_only() {
        let ten: IpAddr = [10, 0, 0, 7].into();
        for (address, read) in [
            (
                "http://10.0.0.7/onvif/device_service",
                Some((ten, 80, "/onvif/device_service")),
            ),
            ("HTTP://10.0.0.7:8000/a?b=1", Some((ten, 8_000, "/a?b=1"))),
            ("http://10.0.0.7", Some((ten, 80, "/"))),
            ("https://10.0.0.7/a", None),
            ("http://cam/a", None),
            ("http://10.0.0.7:99999/a", None),
            ("http://10.0.0.7/a b", None),
        ] {
            let read = read.map(|(host, port, path)| (host, port, path.to_owned()));
            assert_eq!(service(address), read, "{address}");
        }
    }
}

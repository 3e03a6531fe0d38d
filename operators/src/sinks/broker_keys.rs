//! Keys of brokers that are checked together: the name of the broker, and how a client logs in.

use std::net::{IpAddr, Ipv6Addr};

use weir_flow::{KeyFault, Settings};

use super::alarm_keys;
use super::webhook::fault;

/// Longest name of a machine, in bytes.
const MAX_HOST_BYTES: usize = 253;

/// Faults in the keys of a sink for an MQTT broker, beside those that [`super::sink`] refuses. No fault shows a value: an address may hold
/// a password.
pub(super) fn mqtt_faults(settings: &Settings) -> Vec<KeyFault> {
    let mut faults = faults(settings);
    let host = settings.text("host").filter(|host| !host.is_empty());
    if host.is_some_and(|host| host_of(host).is_none()) {
        let hint = "write it without a scheme, user, port or path: `port` has the port, `username` the user, and `tls = true` encrypts";
        faults.push(fault("host", "`host` is no name or address of a machine", hint));
    }
    faults
}

/// Faults in the keys of a sink for a broker or a cluster. Without a user, the others of a login would have no effect.
pub(super) fn faults(settings: &Settings) -> Vec<KeyFault> {
    let mut faults = alarm_keys::faults(settings);
    let is_set = |key: &str| settings.text(key).is_some_and(|text| !text.is_empty());
    if !is_set("username") {
        for key in ["password", "password_file", "sasl"] {
            if is_set(key) {
                let message = format!("`{key}` has no effect without `username`");
                faults.push(fault(key, message, "name the user, or leave it out"));
            }
        }
    }
    faults
}

/// The name or the address of a machine, without the brackets of an address of IPv6; `None` if the text is neither.
pub(super) fn host_of(text: &str) -> Option<&str> {
    if let Some(inner) = text.strip_prefix('[').and_then(|text| text.strip_suffix(']')) {
        return is_address(inner)
            .then_some(inner)
            .filter(|inner| inner.contains(':'));
    }
    let is_name = (1..=MAX_HOST_BYTES).contains(&text.len()) && text.chars().all(is_of_name);
    (is_name || is_address(text)).then_some(text)
}

/// Whether a text is an address of IP; one of a single link has its zone behind it, such as `fe80::7%eth0`.
fn is_address(text: &str) -> bool {
    match text.split_once('%') {
        Some((address, zone)) => {
            address.parse::<Ipv6Addr>().is_ok() && !zone.is_empty() && zone.chars().all(is_of_name)
        }
        None => text.parse::<IpAddr>().is_ok(),
    }
}

fn is_of_name(c: char) -> bool {
    c.is_alphanumeric() || "-_.".contains(c)
}

#[cfg(test)]
mod tests {
    use weir_flow::Value;

    use super::*;

    fn keys(keys: &[(&str, &str)]) -> Settings {
        let keys = keys.iter();
        let keys = keys.map(|(key, text)| ((*key).to_owned(), Value::Text((*text).to_owned())));
        Settings(keys.collect())
    }

    #[test]
    fn addresses_of_brokers_are_names_without_scheme_port_and_user() {
        for (text, expected) in [
            ("broker.lan", "broker.lan"),
            ("core-mosquitto", "core-mosquitto"),
            ("192.0.2.7", "192.0.2.7"),
            ("::1", "::1"),
            ("[fe80::7]", "fe80::7"),
            ("fe80::7%eth0", "fe80::7%eth0"),
            ("b\u{fc}ro", "b\u{fc}ro"),
        ] {
            assert_eq!(host_of(text), Some(expected), "{text}");
        }
        for text in [
            "",
            "mqtt://broker.lan",
            "broker.lan:1883",
            "weir:SECRET@broker.lan",
            "broker.lan/mqtt",
            " broker.lan",
            "[broker.lan]",
            "[192.0.2.7]",
            "192.0.2.7%eth0",
        ] {
            assert_eq!(host_of(text), None, "{text}");
            let faults = mqtt_faults(&keys(&[("host", text)]));
            assert_eq!(faults.len(), usize::from(!text.is_empty()), "{text}: {faults:?}");
            assert!(!format!("{faults:?}").contains("SECRET"), "{faults:?}");
        }
    }

    #[test]
    fn password_without_a_user_is_refused() {
        let named = |given: &[(&str, &str)]| {
            let faults = faults(&keys(given));
            faults.iter().map(|fault| fault.key).collect::<Vec<_>>()
        };
        let user = ("username", "weir");
        assert_eq!(named(&[("password", "open sesame")]), ["password"]);
        assert_eq!(
            named(&[("sasl", "plain"), ("password_file", "/x"), ("username", "")]),
            ["password_file", "sasl"]
        );
        assert!(named(&[user, ("password", "open sesame"), ("sasl", "plain")]).is_empty());
        // As graphs fill them from variables that are not set.
        assert!(named(&[("username", ""), ("password", "")]).is_empty());
    }
}

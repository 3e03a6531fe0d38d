//! Addresses of the servers of a cluster, as keys list them.

use weir_flow::{Settings, SinkError};

/// Servers that are tried.
const MAX_SERVERS: usize = 16;

/// The servers that `key` lists, each with its port.
///
/// # Errors
/// None is named, or one is no name with a port.
pub(super) fn addresses(
    settings: &Settings,
    key: &str,
    default_port: u16,
    target: &str,
) -> Result<Vec<String>, SinkError> {
    let failed = |reason: String| SinkError {
        target: target.to_owned(),
        reason,
    };
    let named = settings.texts(key).unwrap_or_default();
    if named.is_empty() || named.len() > MAX_SERVERS {
        return Err(failed(format!(
            "`{key}` names {} servers: name one to {MAX_SERVERS}, as [\"broker.lan:{default_port}\"]",
            named.len()
        )));
    }
    // What is wrong may hold a password: it is not shown.
    let address = |(index, text): (usize, &String)| {
        with_port(text, default_port).ok_or_else(|| {
            failed(format!(
                "entry {} of `{key}` is no name or address with a port: write \"broker.lan:{default_port}\", without a scheme, \
                 user or path",
                index + 1
            ))
        })
    };
    named.iter().enumerate().map(address).collect()
}

fn with_port(text: &str, default_port: u16) -> Option<String> {
    let (host, port) = match text.rsplit_once(':') {
        // An address of IPv6 has its colons in brackets.
        Some((host, port)) if !port.ends_with(']') => (host, port.parse().ok().filter(|port| *port > 0)?),
        _ => (text, default_port),
    };
    let inner = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
    let is_host = match inner {
        Some(address) => address.parse::<std::net::Ipv6Addr>().is_ok(),
        None => {
            let fits = |c: char| c.is_alphanumeric() || "-_.".contains(c);
            !host.is_empty() && host.chars().all(fits)
        }
    };
    is_host.then(|| format!("{host}:{port}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_are_names_with_ports() {
        let check = |text: &str, expected: Option<&str>| {
            assert_eq!(with_port(text, 9_092).as_deref(), expected, "{text}");
        };
        check("kafka.lan", Some("kafka.lan:9092"));
        check("kafka.lan:19092", Some("kafka.lan:19092"));
        check("[::1]", Some("[::1]:9092"));
        check("[::1]:4222", Some("[::1]:4222"));
        for text in [
            "",
            ":4222",
            "a:b",
            "a:0",
            "nats://a:4222",
            "user:password@a:4222",
            "a/b",
            "::1",
        ] {
            check(text, None);
        }
    }
}

//! Parsers of command-line values; an error says which form to write.

use std::path::PathBuf;

use weir_flow::DeviceKind;
use weir_policy::Order;
use weir_types::Span;

/// Device of a worker's partitions: `cpu`, or `cuda:N`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Device(pub(crate) DeviceKind);

impl std::str::FromStr for Device {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text == "cpu" {
            return Ok(Self(DeviceKind::Cpu));
        }
        let ordinal = text.strip_prefix("cuda:").and_then(|number| number.parse().ok());
        ordinal
            .map(|ordinal| Self(DeviceKind::Cuda(ordinal)))
            .ok_or("write cpu, or cuda: and a number such as cuda:0")
    }
}

/// Bandwidth in bits per second, 1 to 10^15.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Bandwidth(pub(crate) u64);

impl std::str::FromStr for Bandwidth {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let bad = "write a number with a unit, such as 1Gbps, 200Mbps or 64kbps";
        let units = [("Gbps", 1e9), ("Mbps", 1e6), ("kbps", 1e3), ("bps", 1.0)];
        let split = units
            .iter()
            .find_map(|(unit, factor)| Some((text.strip_suffix(unit)?.trim(), factor)));
        let (number, factor) = split.ok_or(bad)?;
        let bits = number.parse::<f64>().map_err(|_| bad)? * factor;
        // Up to what no network carries; a cast takes what is not a number for none.
        (1.0..=1e15)
            .contains(&bits)
            .then_some(Self(bits as u64))
            .ok_or(bad)
    }
}

/// Condition that picks one of several gear plans.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Pick {
    /// The fastest with at least this accuracy, 0 to 1.
    Accuracy(f64),
    /// The most accurate with at most this latency, in seconds, or drop rate, 0 to 1.
    Latency(f64),
}

impl std::str::FromStr for Pick {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let bad = "write \"accuracy >= 0.95\", \"latency <= 80ms\", or for a drop rate \"latency <= 0.01\"";
        if let Some((name, least)) = text.split_once(">=") {
            let least: f64 = least.trim().parse().map_err(|_| bad)?;
            let is_one = name.trim() == "accuracy" && (0.0..=1.0).contains(&least);
            return is_one.then_some(Self::Accuracy(least)).ok_or(bad);
        }
        let (name, most) = text.split_once("<=").ok_or(bad)?;
        let most = most.trim();
        let span = most.parse::<Span>().map(Span::as_secs_f64).ok();
        let part = most.parse().ok().filter(|part| (0.0..=1.0).contains(part));
        let most = part.or(span).filter(|_| name.trim() == "latency");
        most.map(Self::Latency).ok_or(bad)
    }
}

/// Playback speed of a recorded video.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Speed {
    /// Real time, by the time stamps of the video.
    Own,
    /// This many times faster than real time, 0.01 to 1000.
    Times(f64),
    /// As fast as the graph takes frames.
    Max,
}

impl std::str::FromStr for Speed {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "max" {
            return Ok(Self::Max);
        }
        match text.parse::<f64>() {
            Ok(1.0) => Ok(Self::Own),
            Ok(times) if (0.01..=1000.0).contains(&times) => Ok(Self::Times(times)),
            _ => Err("write max, or a factor from 0.01 to 1000 such as 1 or 2.5".to_owned()),
        }
    }
}

/// Parses a duration; zero is an error.
pub(super) fn duration(text: &str) -> Result<Span, String> {
    let span: Span = text
        .parse()
        .map_err(|error: weir_types::ParseSpanError| error.to_string())?;
    if span == Span::ZERO {
        return Err(
            "the time must be above zero, such as 60s; without it, the run lasts until the sources end"
                .to_owned(),
        );
    }
    Ok(span)
}

pub(super) fn device(text: &str) -> Result<DeviceKind, String> {
    let ordinal = text
        .strip_prefix("cuda:")
        .and_then(|ordinal| ordinal.parse().ok());
    match (text, ordinal) {
        ("cpu", _) => Ok(DeviceKind::Cpu),
        (_, Some(ordinal)) => Ok(DeviceKind::Cuda(ordinal)),
        _ => Err("write cpu, or cuda: and a number".to_owned()),
    }
}

pub(super) fn factor(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(factor) if (0.001..=1000.0).contains(&factor) => Ok(factor),
        _ => Err("write a factor from 0.001 to 1000".to_owned()),
    }
}

/// Machines by name or address, each with one port or with any (`None`).
pub(crate) type HopNames = Vec<(String, Option<u16>)>;

/// Checks that host and port are both there; the name is resolved later.
pub(super) fn listen(text: &str) -> Result<String, String> {
    match host_and_port(text) {
        Some((_, Some(_))) => Ok(text.to_owned()),
        _ => Err("write HOST:PORT, such as 127.0.0.1:7101 or localhost:0".to_owned()),
    }
}

/// `HOST[:PORT],...`, or `none`.
pub(super) fn hops(text: &str) -> Result<HopNames, String> {
    if text == "none" {
        return Ok(Vec::new());
    }
    let each = text.split(',').map(|hop| {
        host_and_port(hop.trim())
            .ok_or_else(|| format!("\"{hop}\" is no HOST or HOST:PORT; write none for nowhere"))
    });
    each.collect()
}

pub(super) fn host_and_port(text: &str) -> Option<(String, Option<u16>)> {
    let bare = |host: &str| host.trim_start_matches('[').trim_end_matches(']').to_owned();
    if text.parse::<std::net::IpAddr>().is_ok() || text.ends_with(']') {
        return Some((bare(text), None));
    }
    let (host, port) = match text.rsplit_once(':') {
        Some((host, port)) => (host, Some(port.parse().ok()?)),
        None => (text, None),
    };
    // An address with colons stands in brackets where a port follows.
    let plain = !host.is_empty() && (host.starts_with('[') || !host.contains(':'));
    plain.then(|| (bare(host), port))
}

pub(super) fn drop_rule(text: &str) -> Result<weir_policy::DropRule, String> {
    parse_word(text)
}

pub(super) fn order(text: &str) -> Result<Order, String> {
    parse_word(text)
}

/// Parses a value that graphs write as a TOML string.
fn parse_word<T: serde::de::DeserializeOwned>(text: &str) -> Result<T, String> {
    serde_json::from_value(serde_json::Value::String(text.to_owned())).map_err(|error| error.to_string())
}

/// A file with ground truth, for one stream or for all.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TruthOf {
    /// The stream; `None` for all streams that have no file of their own.
    pub(crate) stream: Option<String>,
    pub(crate) path: PathBuf,
}

impl std::str::FromStr for TruthOf {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        // A folder's name may have the sign in it, a stream's name no folder.
        let named = text.split_once('=').filter(|(stream, _)| !stream.contains('/'));
        let (stream, path) = named.map_or((None, text), |(stream, path)| (Some(stream.to_owned()), path));
        if path.is_empty() || stream.as_ref().is_some_and(String::is_empty) {
            return Err("write FILE, or STREAM=FILE");
        }
        let path = path.into();
        Ok(Self { stream, path })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn speeds() {
        let check = |text: &str, speed: Option<Speed>| assert_eq!(text.parse().ok(), speed, "{text}");
        check("1", Some(Speed::Own));
        check("2.5", Some(Speed::Times(2.5)));
        check("max", Some(Speed::Max));
        check("0", None);
        check("-1", None);
        check("inf", None);
        check("NaN", None);
        check("fast", None);
    }

    #[test]
    fn hosts_and_ports() {
        let check = |text: &str, host: &str, port| {
            assert_eq!(host_and_port(text), Some((host.to_owned(), port)), "{text}");
        };
        check("localhost:7101", "localhost", Some(7101));
        check("10.0.0.1", "10.0.0.1", None);
        check("::1", "::1", None);
        check("[::1]", "::1", None);
        check("[::1]:7101", "::1", Some(7101));
        for bad in ["", ":1", "a:", "a:b", "a:65536", "a:b:1"] {
            assert_eq!(host_and_port(bad), None, "{bad}");
        }
        assert!(listen("localhost").is_err() && listen("localhost:0").is_ok());
        assert_eq!(hops("none"), Ok(Vec::new()));
        assert_eq!(hops("a, b:1").map(|hops| hops.len()), Ok(2));
        assert!(hops("a,,b").is_err());
    }

    #[test]
    fn bandwidths_and_devices() {
        let check = |text: &str, bps: Option<u64>| {
            assert_eq!(text.parse().ok(), bps.map(Bandwidth), "{text}");
        };
        check("1Gbps", Some(1_000_000_000));
        check("2.5 Mbps", Some(2_500_000));
        check("64kbps", Some(64_000));
        check("8bps", Some(8));
        check("0bps", None);
        check("1", None);
        check("-1Gbps", None);
        check("NaNbps", None);
        check("fast", None);
        assert_eq!("cpu".parse(), Ok(Device(DeviceKind::Cpu)));
        assert_eq!("cuda:1".parse(), Ok(Device(DeviceKind::Cuda(1))));
        assert!("cuda".parse::<Device>().is_err() && "gpu:0".parse::<Device>().is_err());
    }

    #[test]
    fn policies_are_the_words_of_toml() {
        for rule in weir_policy::DropRule::NAMES {
            assert_eq!(drop_rule(rule).map(|rule| rule.name()), Ok(*rule));
        }
        assert!(drop_rule("prd").is_err_and(|error| error.contains("unknown variant")));
        assert_eq!(order("lbf"), Ok(Order::Lbf));
        assert!(order("lifo").is_err());
    }

    #[test]
    fn truths_may_name_their_stream() {
        let check = |text: &str, stream: Option<&str>, path: &str| {
            let (stream, path) = (stream.map(str::to_owned), path.into());
            assert_eq!(text.parse(), Ok(TruthOf { stream, path }), "{text}");
        };
        check("street.jsonl", None, "street.jsonl");
        check("north=street.jsonl", Some("north"), "street.jsonl");
        check("north=a=b/street.jsonl", Some("north"), "a=b/street.jsonl");
        check("./a=b.jsonl", None, "./a=b.jsonl");
        for bad in ["", "=a", "north="] {
            assert!(bad.parse::<TruthOf>().is_err(), "{bad}");
        }
    }
}

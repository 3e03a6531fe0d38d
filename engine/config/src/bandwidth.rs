//! Bandwidths of links, as texts with a unit.

/// Bits a second of `10Gbps`, `1.5Mbps`, `800kbps` or `9600bps`; `None` where it is not a bandwidth, or not above zero.
#[must_use]
pub fn parse_bandwidth_bps(text: &str) -> Option<u64> {
    let number = text.trim().strip_suffix("bps")?;
    let (number, unit) = match number.as_bytes().last()? {
        b'k' => (number.strip_suffix('k')?, 1e3),
        b'M' => (number.strip_suffix('M')?, 1e6),
        b'G' => (number.strip_suffix('G')?, 1e9),
        b'T' => (number.strip_suffix('T')?, 1e12),
        _ => (number, 1.0),
    };
    let bits = number.trim().parse::<f64>().ok()? * unit;
    (bits.is_finite() && (1.0..1e18).contains(&bits)).then_some(bits as u64)
}

#[cfg(test)]
mod tests {
    use super::parse_bandwidth_bps;

    #[test]
    fn a_bandwidth_is_a_number_with_a_unit() {
        for (text, rate) in [
            ("10Gbps", Some(10_000_000_000)),
            ("1.5 Mbps", Some(1_500_000)),
            ("800kbps", Some(800_000)),
            ("9600bps", Some(9_600)),
            ("0bps", None),
            ("-1Gbps", None),
            ("infGbps", None),
            ("10", None),
            ("bps", None),
            ("10GBps", None),
        ] {
            assert_eq!(parse_bandwidth_bps(text), rate, "{text}");
        }
    }
}

//! Bandwidths as texts: a number with a unit.

/// Bits a second; `None` for what is no bandwidth above zero.
pub(super) fn parse(text: &str) -> Option<u64> {
    let text = text.trim();
    let split = text.find(|c: char| c.is_ascii_alphabetic())?;
    let (number, unit) = text.split_at(split);
    let scale = match unit {
        "Gbps" | "Gb/s" => 1e9,
        "Mbps" | "Mb/s" => 1e6,
        "Kbps" | "kbps" => 1e3,
        "bps" => 1.0,
        _ => return None,
    };
    let bps = number.trim().parse::<f64>().ok()? * scale;
    (1.0..1e18).contains(&bps).then_some(bps as u64)
}

#[cfg(test)]
mod tests {
    use super::parse;

    #[test]
    fn bandwidths() {
        assert_eq!(parse("10Gbps"), Some(10_000_000_000));
        assert_eq!(parse("2.5 Mbps"), Some(2_500_000));
        for bad in ["10", "Gbps", "-1Gbps", "0bps", "10GBps", "NaNGbps", "infbps"] {
            assert_eq!(parse(bad), None, "{bad}");
        }
    }
}

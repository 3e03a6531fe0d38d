//! Amounts of memory and of space on disks, as texts with a unit.

/// Bytes of an amount such as `"64MiB"`; `None` where it is not a whole amount above zero.
#[must_use]
pub fn parse_bytes(text: &str) -> Option<u64> {
    let trimmed = text.trim();
    let split = trimmed.find(|c: char| c.is_ascii_alphabetic())?;
    let (number, unit) = trimmed.split_at(split);
    let unit: u64 = match unit {
        "B" => 1,
        "kB" | "KB" => 1_000,
        "MB" => 1_000_000,
        "GB" => 1_000_000_000,
        "TB" => 1_000_000_000_000,
        "KiB" => 1 << 10,
        "MiB" => 1 << 20,
        "GiB" => 1 << 30,
        "TiB" => 1 << 40,
        _ => return None,
    };
    let number: u64 = number.trim().parse().ok()?;
    number.checked_mul(unit).filter(|bytes| *bytes > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_have_decimal_and_binary_units() {
        for (text, expected) in [
            ("512B", Some(512)),
            ("96 MiB", Some(96 << 20)),
            (" 20GB ", Some(20_000_000_000)),
            ("4TB", Some(4_000_000_000_000)),
            ("2TiB", Some(2 << 40)),
            ("16777216TiB", None),
            ("0GB", None),
            ("1.5GiB", None),
            ("4tb", None),
            ("4", None),
            ("", None),
        ] {
            assert_eq!(parse_bytes(text), expected, "{text}");
        }
    }
}

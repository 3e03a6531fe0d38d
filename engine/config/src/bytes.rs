//! Amounts of memory, as texts with a unit.

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
        "KiB" => 1 << 10,
        "MiB" => 1 << 20,
        "GiB" => 1 << 30,
        _ => return None,
    };
    let number: u64 = number.trim().parse().ok()?;
    number.checked_mul(unit).filter(|bytes| *bytes > 0)
}

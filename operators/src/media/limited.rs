//! Decoding within the limit on sources that decode at once, and watched for references that are missing.

use weir_flow::DecodeLimit;

use super::damage::Damage;
use super::log;

/// Decodes under the limit.
fn decode_limited<T>(limit: Option<&dyn DecodeLimit>, mut decode: impl FnMut() -> T) -> T {
    let Some(limit) = limit else { return decode() };
    let mut result = None;
    limit.decode(&mut || result = Some(decode()));
    // No limit skips the work; if one did, the limit would be exceeded rather than the frame lost.
    result.unwrap_or_else(decode)
}

/// As [`decode_limited`]; `damage` hears of references that are missing.
pub(super) fn decode_watched<T>(
    limit: Option<&dyn DecodeLimit>,
    damage: &mut Option<Damage>,
    mut decode: impl FnMut() -> T,
) -> T {
    let Some(damage) = damage else {
        return decode_limited(limit, decode);
    };
    let (result, misses) = decode_limited(limit, || log::watching_references(&mut decode));
    if misses {
        damage.on_missing();
    }
    result
}

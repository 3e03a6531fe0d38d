//! The section `[decoding]` of a world: what decoding costs, and whether it is done as needed.

use weir_config::{Diagnostics, Entry, Fields};
use weir_types::Span;

use super::values::number;
use crate::spec::{DecodingSpec, SceneSpec};

/// The most cores of a machine.
const MAX_CORES: u32 = 1_024;

/// The most frames of a group of pictures.
const MAX_GROUP: u32 = 100_000;

/// Reads the section; `None` if a problem was reported.
pub(super) fn read(entry: &Entry, diagnostics: &mut Diagnostics) -> Option<DecodingSpec> {
    let mut fields = Fields::open("[decoding]".to_owned(), entry, diagnostics)?;
    fields.expect(
        &[
            "cores",
            "picture",
            "group",
            "non_reference",
            "decode",
            "moves",
            "rests",
        ],
        false,
        diagnostics,
    );
    let picture = fields.span("picture", diagnostics);
    if picture.is_absent() {
        let hint = Some("picture = \"1300us\": processor time of one picture".to_owned());
        diagnostics.add_if_parsed(fields.at, "[decoding] has no `picture`", hint);
    }
    let as_needed = match fields.text("decode", diagnostics).given() {
        None => true,
        Some(word) if word.value == "as-needed" => true,
        Some(word) if word.value == "all" => false,
        Some(word) => {
            let message = format!("`decode` is \"as-needed\" or \"all\", not \"{}\"", word.value);
            diagnostics.add(word.at, message, None);
            return None;
        }
    };
    let picture: Span = picture.into_value()?;
    let (moves, rests) = (
        fields.span("moves", diagnostics),
        fields.span("rests", diagnostics),
    );
    if let Some(alone) = moves
        .given()
        .or(rests.given())
        .filter(|_| moves.is_absent() || rests.is_absent())
    {
        let hint = Some("moves = \"5s\" and rests = \"15s\": cameras with a motion gate".to_owned());
        diagnostics.add(alone.at, "`moves` and `rests` come together", hint);
    }
    Some(DecodingSpec {
        cores: fields
            .count("cores", MAX_CORES, diagnostics)
            .into_value()
            .unwrap_or(1),
        picture,
        group: fields
            .count("group", MAX_GROUP, diagnostics)
            .into_value()
            .unwrap_or(30),
        non_reference: number(&fields, "non_reference", 0.0, 0.9, diagnostics).unwrap_or(0.0),
        as_needed,
        scene: moves
            .into_value()
            .zip(rests.into_value())
            .map(|(moves, rests)| SceneSpec { moves, rests }),
    })
}

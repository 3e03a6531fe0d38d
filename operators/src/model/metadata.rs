//! Settings of a head that come with the file, and findings about a model that was just opened.

use std::path::Path;

use weir_flow::{Settings, Value};

use super::adapt::Opened;
use super::batch_probe::blank;
use super::companion;
use super::noise::unlike_item;
use super::onnx::read_metadata;
use super::runtime::OutputView;
use crate::heads::input::ItemTransform;
use crate::heads::{
    CHARACTERS, Head, INPUTS, Input, KEY_POINT_NAMES, KEY_POINT_SHAPE, NAMES, Output, TASK, names,
};

/// Target of warnings about outputs, which the log shows by default.
const OUTPUTS_TARGET: &str = "weir::outputs";

/// The settings with what the file and those beside it say, where the graph says nothing: characters, as text recognisers of the
/// PP-OCR family have them; classes, task and size, as Ultralytics writes them; and what [`companion`] reads.
pub(super) fn with_metadata(
    settings: &Settings,
    file: &[u8],
    path: Option<&Path>,
    opened: &Opened,
) -> Settings {
    let companions = path.map(|path| companion::read(path, opened)).unwrap_or_default();
    for (path, reason) in &companions.unread {
        tracing::warn!(target: OUTPUTS_TARGET, "{} is not used: {reason}", path.display());
    }
    let mut all = of_file(file);
    all.0.extend(companions.settings.0);
    let computed = opened.computed();
    if !computed.is_empty() {
        all.0.insert(INPUTS.to_owned(), Value::Texts(computed));
    }
    if opened.takes_bytes() {
        for (key, value) in [("mean", "0"), ("std", "1")] {
            all.0
                .entry(key.to_owned())
                .or_insert_with(|| Value::Text(value.to_owned()));
        }
    }
    let is_sized = ["size", "width", "height"]
        .iter()
        .any(|key| settings.0.contains_key(*key));
    if is_sized {
        all.0.retain(|key, _| key != "width" && key != "height");
    }
    all.0.extend(settings.0.clone());
    all
}

/// Settings by the metadata of the file.
pub(super) fn of_file(file: &[u8]) -> Settings {
    let mut settings = Settings::default();
    let mut set = |key: &str, value: Value| settings.0.insert(key.to_owned(), value);
    if let Some(characters) = read_metadata(file, CHARACTERS) {
        let lines = characters.split('\n').map(str::to_owned).collect();
        set(CHARACTERS, Value::Texts(lines));
    }
    if let Some(names) = read_metadata(file, NAMES) {
        match names::parse(&names) {
            Some(names) => {
                set(NAMES, Value::Texts(names));
            }
            None => tracing::warn!(
                target: OUTPUTS_TARGET,
                "the file's `names` are neither a dictionary nor a list of classes: they are not used"
            ),
        }
    }
    if let Some(task) = read_metadata(file, TASK) {
        set(TASK, Value::Text(task));
    }
    if let Some(shape) = read_metadata(file, KEY_POINT_SHAPE).and_then(|shape| names::parse(&shape)) {
        set(KEY_POINT_SHAPE, Value::Texts(shape));
    }
    if let Some(points) = read_metadata(file, KEY_POINT_NAMES).and_then(|points| names::parse_lists(&points))
    {
        set(KEY_POINT_NAMES, Value::Texts(points));
    }
    // Height, then width.
    let sides = read_metadata(file, "imgsz").and_then(|sides| names::parse(&sides));
    let sides: Option<Vec<f64>> =
        sides.and_then(|sides| sides.iter().map(|side| side.parse().ok()).collect());
    if let Some([height, width]) = sides.as_deref()
        && [height, width]
            .iter()
            .all(|side| (16.0..=8192.0).contains(*side) && side.fract() == 0.0)
    {
        set("height", Value::Number(*height));
        set("width", Value::Number(*width));
    }
    settings
}

/// Runs a blank item and one of noise, and looks at the outputs: a finding where they are implausible.
///
/// # Errors
/// The runtime's error; within, the layout that the outputs have, where it is not the head's.
pub(super) fn inspect(
    opened: &mut Opened,
    input: &Input,
    head: &dyn Head,
) -> Result<Result<Option<String>, String>, String> {
    let rows = opened.rows();
    let session = &mut opened.session;
    let mut feed = session.feed()?;
    blank(&mut feed, rows, &input.item_shape())?;
    let found = session.run(&feed, |views: &[OutputView<'_>]| {
        let data: Vec<&[f32]> = views.iter().map(|view| view.data).collect();
        inspect_row(&data, rows, input, head)
    })?;
    if found != Ok(None) || head.labels().is_none() {
        return Ok(found);
    }
    unlike_item(0, input.range(), feed.elements());
    session.run(&feed, |views: &[OutputView<'_>]| {
        let outputs: Vec<Output<'_>> = views
            .iter()
            .map(|view| Output::of_row(view.data, 0, rows))
            .collect();
        Ok(implausible(&outputs, input, head, "a picture of noise"))
    })
}

/// Looks at the outputs of a blank item, the first of so many rows.
///
/// # Errors
/// The layout that the outputs have, where it is not the head's.
pub(super) fn inspect_row(
    data: &[&[f32]],
    rows: usize,
    input: &Input,
    head: &dyn Head,
) -> Result<Option<String>, String> {
    let outputs: Vec<Output<'_>> = data.iter().map(|data| Output::of_row(data, 0, rows)).collect();
    if let Some(finding) = head.inspect(&outputs, input)? {
        return Ok(Some(finding));
    }
    Ok(implausible(&outputs, input, head, "a blank picture"))
}

/// A sign that the outputs of a detector are not those of its head.
fn implausible(outputs: &[Output<'_>], input: &Input, head: &dyn Head, picture: &str) -> Option<String> {
    head.labels()?;
    let whole = ItemTransform::identity(input.spec.width, input.spec.height);
    let sign = head.decode(outputs, &whole).implausible?;
    Some(format!("outputs of {picture} are implausible: {sign}"))
}

/// Writes findings about a model to the log.
pub(super) fn warn(model: &str, remarks: &[String]) {
    for remark in remarks {
        tracing::warn!(target: OUTPUTS_TARGET, "model {model}: {remark}");
    }
}

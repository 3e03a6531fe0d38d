//! Settings of a head that come with the file, and findings about a model that was just opened.

use std::borrow::Cow;

use weir_flow::{Settings, Value};

use super::batch_probe::blank;
use super::onnx::read_metadata;
use super::prepost::output;
use super::runtime::{OrtSession, OutputView};
use crate::heads::input::ItemTransform;
use crate::heads::{CHARACTERS, Head, Input, NAMES, Output, TASK, names};

/// Target of warnings about outputs, which the log shows by default.
const OUTPUTS_TARGET: &str = "weir::outputs";

/// The settings with the metadata that heads read: characters, as text recognisers of the PP-OCR family have them, and the
/// classes and the task, as Ultralytics writes them.
pub(super) fn with_metadata<'a>(settings: &'a Settings, file: &[u8]) -> Cow<'a, Settings> {
    let mut settings = Cow::Borrowed(settings);
    let mut set = |key: &str, value: Value| settings.to_mut().0.insert(key.to_owned(), value);
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
    settings
}

/// Runs a blank item and looks at the outputs: a finding where they are implausible.
///
/// # Errors
/// The runtime's error; within, the layout that the outputs have, where it is not the head's.
pub(super) fn inspect(
    session: &mut OrtSession,
    input: &Input,
    head: &dyn Head,
) -> Result<Result<Option<String>, String>, String> {
    let rows = session
        .inputs()
        .first()
        .and_then(|port| port.shape.first().copied())
        .flatten()
        .unwrap_or(1);
    let mut feed = session.feed()?;
    blank(&mut feed, rows, &input.item_shape())?;
    session.run(&feed, |views: &[OutputView<'_>]| {
        let data: Vec<&[f32]> = views.iter().map(|view| view.data).collect();
        inspect_row(&data, rows, input, head)
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
    let outputs: Vec<Output<'_>> = data.iter().map(|data| output(data, 0, rows)).collect();
    if let Some(finding) = head.inspect(&outputs, input)? {
        return Ok(Some(finding));
    }
    if head.labels().is_none() {
        return Ok(None);
    }
    let whole = ItemTransform::identity(input.spec.width, input.spec.height);
    let sign = head.decode(&outputs, &whole).implausible;
    Ok(sign.map(|sign| format!("outputs of a blank picture are implausible: {sign}")))
}

/// Writes findings about a model to the log.
pub(super) fn warn(model: &str, remarks: &[String]) {
    for remark in remarks {
        tracing::warn!(target: OUTPUTS_TARGET, "model {model}: {remark}");
    }
}

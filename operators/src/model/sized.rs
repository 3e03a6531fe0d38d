//! Sessions by batch size. On a GPU a session plans its layers anew, for tens of milliseconds, whenever its input has another shape
//! than the last; so there each batch size that is asked for has a session of its own.

use weir_flow::DeviceKind;

use super::batch_probe::Rows;
use super::loaded::Loaded;
use super::runtime::{OpenError, OrtSession};

/// The sessions of one model on one slot: of each of its graphs one, for each number of rows.
pub(super) struct SizedSessions {
    /// By rows, ascending; at least one. The last of them takes every larger number of rows.
    by_rows: Vec<(usize, Vec<OrtSession>)>,
    /// Whether inputs are filled up to the batch sizes that are asked for.
    fills_up: bool,
}

impl SizedSessions {
    /// Opens them by `open`, which opens all graphs once.
    pub(super) fn open(
        model: &Loaded,
        device: DeviceKind,
        open: impl Fn() -> Result<Vec<OrtSession>, OpenError>,
    ) -> Result<Self, OpenError> {
        let fills_up = matches!(device, DeviceKind::Cuda(_));
        let sizes = match model.rows {
            Rows::Free if fills_up && !model.gpu.batches.is_empty() => {
                model.gpu.batches.iter().map(|size| *size as usize).collect()
            }
            rows => vec![rows.of(1)],
        };
        let opened = sizes.into_iter().map(|rows| Ok((rows, open()?)));
        Ok(Self {
            by_rows: opened.collect::<Result<_, OpenError>>()?,
            fills_up,
        })
    }

    /// Whether inputs are filled up to the batch sizes that are asked for.
    pub(super) fn fills_up(&self) -> bool {
        self.fills_up
    }

    /// The numbers of rows that have sessions of their own, where inputs are filled up to them.
    pub(super) fn sizes(&self) -> Vec<usize> {
        let sizes = self.by_rows.iter().map(|(rows, _)| *rows);
        sizes.filter(|_| self.fills_up).collect()
    }

    /// Those that run an input of `rows`, one for each graph.
    pub(super) fn of(&mut self, rows: usize) -> &mut [OrtSession] {
        let last = self.by_rows.len().saturating_sub(1);
        let at = self.by_rows.iter().position(|(most, _)| *most >= rows);
        self.by_rows
            .get_mut(at.unwrap_or(last))
            .map_or(&mut [], |(_, sessions)| sessions.as_mut_slice())
    }

    /// One of them.
    ///
    /// # Errors
    /// The model has no graph.
    pub(super) fn any(&self) -> Result<&OrtSession, OpenError> {
        let first = self.by_rows.first().and_then(|(_, sessions)| sessions.first());
        first.ok_or_else(|| OpenError::Refused("there is no graph".to_owned()))
    }
}

/// Rows of an input of `model` with so many items; `fills_up`: those of the next batch size that is asked for, where the model takes
/// any.
pub(super) fn rows(model: &Loaded, items: usize, fills_up: bool) -> usize {
    match model.rows {
        Rows::Free if fills_up => model.gpu.rows(items.max(1)),
        rows => rows.of(items),
    }
}

//! Batch sizes that a model supports, measured rather than taken from its declaration.
//!
//! A batch dimension fixed at 1 is made symbolic where the graph allows it; a dimension declared free is probed too,
//! since exports often declare what their graphs cannot do. Each row of a batch must equal the run of that item alone.

use std::borrow::Cow;
use std::sync::Arc;

use weir_flow::{Batching, DeviceKind};

use super::edit::{Leading, free_batch};
use super::noise::unlike_item;
use super::runtime::{Feed, OrtSession, OutputView};

/// Largest difference between an element of a batch and of its single run, relative to the largest magnitude of its kind: scores
/// beside boxes in pixels are compared as scores.
const TOLERANCE: f32 = 1e-4;
/// The same for elements whose kind is near zero, relative to the row's largest magnitude or to 1, whichever is less.
const FLOOR: f32 = 1e-5;

/// Rows of an input tensor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Rows {
    /// One for each item.
    Free,
    /// Always this many; rows without an item are blank.
    Fixed(usize),
}

impl Rows {
    /// Rows of an input with so many items, of which one takes at least one.
    pub(crate) fn of(self, items: usize) -> usize {
        match self {
            Self::Free => items.max(1),
            Self::Fixed(rows) => rows,
        }
    }
}

/// The result of a probe.
#[derive(Debug, Clone)]
pub(crate) struct BatchProbe {
    /// The file, edited where that frees the batch.
    pub(crate) bytes: Arc<[u8]>,
    pub(crate) rows: Rows,
    pub(crate) batching: Batching,
}

impl BatchProbe {
    fn free(bytes: &[u8], remark: Option<&str>) -> Self {
        let batching = Batching {
            max: None,
            remark: remark.map(str::to_owned),
        };
        Self {
            bytes: bytes.into(),
            rows: Rows::Free,
            batching,
        }
    }

    fn fixed(bytes: &[u8], rows: usize, remark: Option<String>) -> Self {
        let max = u32::try_from(rows).unwrap_or(u32::MAX);
        Self {
            bytes: bytes.into(),
            rows: Rows::Fixed(rows),
            batching: Batching {
                max: Some(max),
                remark,
            },
        }
    }
}

/// Input of a probe.
#[derive(Debug, Clone)]
pub(crate) struct ProbeInput {
    /// Shape of one item.
    pub(crate) item: Vec<usize>,
    /// Smallest and largest value of an element.
    pub(crate) range: (f32, f32),
    /// Largest batch that will be requested, in items.
    pub(crate) max: usize,
}

/// Measures the batches that the model in `bytes` supports. `session` has the unedited model open.
pub(crate) fn probe_batch(bytes: &[u8], session: &mut OrtSession, input: &ProbeInput) -> BatchProbe {
    match session
        .inputs()
        .first()
        .and_then(|input| input.shape.first().copied())
        .flatten()
    {
        Some(rows) if rows > 1 => BatchProbe::fixed(
            bytes,
            rows,
            Some(format!("batch dimension is fixed at {rows}; padded")),
        ),
        _ if input.max <= 1 => BatchProbe::fixed(bytes, 1, None),
        None => match check(bytes, session, input) {
            Ok(()) => BatchProbe::free(bytes, None),
            Err(reason) => {
                let remark = format!("declares a free batch dimension but {reason}; run one by one");
                BatchProbe::fixed(bytes, 1, Some(remark))
            }
        },
        Some(_) => {
            let mut reason = Cow::Borrowed("the graph has no dimension to free");
            for leading in [Leading::Keep, Leading::Infer] {
                let Some(edited) = free_batch(bytes, leading) else {
                    break;
                };
                match check(&edited, session, input) {
                    Ok(()) => return BatchProbe::free(&edited, Some("batch dimension made symbolic")),
                    Err(why) => reason = Cow::Owned(format!("with a symbolic one it {why}")),
                }
            }
            BatchProbe::fixed(
                bytes,
                1,
                Some(format!("batch dimension is fixed at 1: {reason}; run one by one")),
            )
        }
    }
}

/// Compares batches of `bytes` with single runs of `single`; the error completes a sentence that begins with "it".
fn check(bytes: &[u8], single: &mut OrtSession, input: &ProbeInput) -> Result<(), String> {
    let mut sizes = vec![2, 3, input.max];
    sizes.retain(|size| *size <= input.max);
    sizes.dedup();
    let mut session =
        OrtSession::open(bytes, DeviceKind::Cpu).map_err(|error| format!("does not load: {error}"))?;
    let expected: Vec<Vec<Vec<f32>>> = (0..input.max)
        .map(|row| {
            run(single, &[row], input, |views| {
                views.iter().map(|view| view.data.to_vec()).collect()
            })
        })
        .collect::<Result<_, _>>()
        .map_err(|error| format!("fails on a single item: {error}"))?;
    for size in sizes {
        let rows: Vec<usize> = (0..size).collect();
        run(&mut session, &rows, input, |views| {
            let views = views.iter().map(|view| (view.name, view.shape, view.data));
            compare_rows(views, &expected[..size])
        })
        .map_err(|error| format!("fails at a batch of {size}: {error}"))?
        .map_err(|error| format!("gives other results at a batch of {size}: {error}"))?;
    }
    Ok(())
}

/// Runs items that are unlike: row `n` is the same in every batch.
fn run<R>(
    session: &mut OrtSession,
    rows: &[usize],
    input: &ProbeInput,
    read: impl FnOnce(&[OutputView<'_>]) -> R,
) -> Result<R, String> {
    let mut feed = session.feed()?;
    let mut shape = vec![rows.len()];
    shape.extend(&input.item);
    feed.reshape(&shape)?;
    let each = input.item.iter().product::<usize>();
    for (row, elements) in rows.iter().zip(feed.elements().chunks_exact_mut(each.max(1))) {
        unlike_item(*row as u64, input.range, elements);
    }
    session.run(&feed, read)
}

/// Compares the outputs of a batch, each with its name and shape, with those of its items alone.
///
/// # Errors
/// The first difference.
pub(super) fn compare_rows<'a>(
    outputs: impl Iterator<Item = (&'a str, &'a [i64], &'a [f32])>,
    expected: &[Vec<Vec<f32>>],
) -> Result<(), String> {
    for (index, (name, shape, data)) in outputs.enumerate() {
        let each = data.len() / expected.len().max(1);
        if expected.iter().any(|single| single[index].len() != each) {
            return Err(format!("output {name} has shape {shape:?}"));
        }
        for (row, single) in expected.iter().enumerate() {
            let single = &single[index];
            let allowed = Allowed::of(single, shape);
            let batched = &data[row * each..(row + 1) * each];
            let mut pairs = batched.iter().zip(single).enumerate();
            let differs = pairs.position(|(at, (a, b))| !same(*a, *b, allowed.at(at, single.len())));
            if let Some(at) = differs {
                let (got, wanted) = (batched[at], single[at]);
                return Err(format!(
                    "output {name} differs in row {row}: {got} instead of {wanted}"
                ));
            }
        }
    }
    Ok(())
}

fn same(a: f32, b: f32, allowed: f32) -> bool {
    a == b || (a.is_nan() && b.is_nan()) || (a - b).abs() <= allowed
}

/// Differences that are allowed in the elements of one row. Elements of a kind (boxes, scores) lie along the first or the last
/// dimension of an item, so the magnitude of an element's kind is the smaller one of its two lines.
struct Allowed {
    /// Largest magnitude by place in the first dimension, and by place in the last.
    first: Vec<f32>,
    last: Vec<f32>,
    least: f32,
}

impl Allowed {
    fn of(row: &[f32], shape: &[i64]) -> Self {
        let size = |size: Option<&i64>| size.map_or(1, |size| size.unsigned_abs() as usize).max(1);
        let item = shape.get(1..).unwrap_or_default();
        let (first, last) = match item.len() {
            0 | 1 => (1, 1),
            _ => (size(item.first()), size(item.last())),
        };
        let (first, last) = match row.len().is_multiple_of(first * last) {
            true => (first, last),
            false => (1, 1),
        };
        let mut found = Self {
            first: vec![0.0; first],
            last: vec![0.0; last],
            least: 0.0,
        };
        let mut most = 0.0_f32;
        for (at, value) in row.iter().enumerate() {
            let (by_first, by_last) = found.lines(at, row.len());
            let magnitude = value.abs();
            found.first[by_first] = found.first[by_first].max(magnitude);
            found.last[by_last] = found.last[by_last].max(magnitude);
            most = most.max(magnitude);
        }
        found.least = FLOOR * most.min(1.0);
        found
    }

    fn lines(&self, at: usize, elements: usize) -> (usize, usize) {
        let each = (elements / self.first.len()).max(1);
        ((at / each).min(self.first.len() - 1), at % self.last.len())
    }

    fn at(&self, at: usize, elements: usize) -> f32 {
        let (first, last) = self.lines(at, elements);
        (TOLERANCE * self.first[first].min(self.last[last])).max(self.least)
    }
}

/// Fills an input of `rows` items with zeros.
///
/// # Errors
/// The device is out of memory.
pub(crate) fn blank(feed: &mut Feed, rows: usize, item: &[usize]) -> Result<(), String> {
    let mut shape = vec![rows];
    shape.extend(item);
    feed.reshape(&shape)?;
    feed.elements().fill(0.0);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn assets() -> Option<std::path::PathBuf> {
        let found = std::env::var_os("WEIR_ASSETS").map(std::path::PathBuf::from);
        if found.is_none() {
            println!("skipped: WEIR_ASSETS is not set");
        }
        found
    }

    /// Name of a model, shape of an item, whether the fixed batch can be freed.
    const MODELS: &[(&str, &[usize], bool)] = &[
        ("yolox_nano_416", &[3, 416, 416], true),
        ("light_person_detector_192", &[3, 192, 192], true),
        ("nanodet_m_320", &[3, 320, 320], true),
        ("yunet_n_320", &[3, 320, 320], true),
        ("yunet_n_dynamic", &[3, 320, 320], true),
        ("ultraface_rfb_320", &[3, 240, 320], true),
        ("mobilefacenet_112", &[3, 112, 112], true),
        ("fsanet_1x1_64", &[3, 64, 64], true),
        ("fsanet_var_64", &[3, 64, 64], true),
        ("hyperlpr_y5fu_320", &[3, 320, 320], true),
        ("hyperlpr_platecls_96", &[3, 96, 96], true),
        ("selfie_seg_144x256", &[144, 256, 3], true),
        ("shufflenet_v2_int8", &[3, 224, 224], true),
        ("lprnet_plate_24x94", &[3, 24, 94], true),
        ("ppocr_en_number_v2_rec", &[3, 32, 320], true),
        ("fer_mini_xception_48", &[48, 48, 1], true),
        ("bodypix_x050_s16", &[321, 321, 3], true),
        ("fastestdet_352", &[3, 352, 352], false),
        ("blazeface_front_128", &[128, 128, 3], false),
        ("iris_landmark_64", &[3, 64, 64], false),
    ];

    #[test]
    fn models_of_the_asset_pack_support_batches_as_listed() {
        let Some(assets) = assets() else { return };
        for (name, item, can) in MODELS {
            let bytes = std::fs::read(assets.join(format!("models/{name}.onnx"))).expect("readable");
            let mut session = OrtSession::open(&bytes, DeviceKind::Cpu).expect("opens");
            let input = ProbeInput {
                item: item.to_vec(),
                range: (-1.0, 1.0),
                max: 4,
            };
            let probe = probe_batch(&bytes, &mut session, &input);
            println!("{name}: {:?} {:?}", probe.rows, probe.batching.remark);
            assert_eq!(probe.rows == Rows::Free, *can, "{name}");
        }
    }

    fn probe_model(bytes: &[u8], item: &[usize]) -> BatchProbe {
        let mut session = OrtSession::open(bytes, DeviceKind::Cpu).expect("opens");
        probe_batch(
            bytes,
            &mut session,
            &ProbeInput {
                item: item.to_vec(),
                range: (-1.0, 1.0),
                max: 4,
            },
        )
    }

    #[test]
    fn a_free_batch_that_fails_is_run_one_by_one() {
        let Some(assets) = assets() else { return };
        let honest = std::fs::read(assets.join("models/fastestdet_352.onnx")).expect("readable");
        let lying = free_batch(&honest, Leading::Keep).expect("edited");
        let probe = probe_model(&lying, &[3, 352, 352]);
        let remark = probe.batching.remark.unwrap_or_default();
        println!("{remark}");
        assert_eq!((probe.rows, probe.batching.max), (Rows::Fixed(1), Some(1)));
        assert!(
            remark.starts_with("declares a free batch dimension but fails at a batch of 2"),
            "{remark}"
        );
    }

    #[test]
    fn scores_beside_boxes_are_compared_as_scores() {
        // Two boxes of 4 values with a score, value after value.
        let single = vec![vec![100.0, 300.0, 50.0, 60.0, 640.0, 20.0, 80.0, 70.0, 0.2, 0.9]];
        let differs = |at: usize, by: f32| {
            let mut batched = single[0].clone();
            batched[at] += by;
            let outputs = [("output0", &[1, 5, 2][..], &batched[..])];
            compare_rows(outputs.into_iter(), std::slice::from_ref(&single)).is_err()
        };
        assert!(differs(8, 0.01) && differs(9, -0.001) && differs(4, 1.0));
        assert!(!differs(8, 0.000_01) && !differs(4, 0.01));
    }

    #[test]
    fn a_batch_fixed_at_two_is_padded() {
        let Some(assets) = assets() else { return };
        let free = std::fs::read(assets.join("models/yunet_n_dynamic.onnx")).expect("readable");
        let probe = probe_model(
            &super::super::edit::fix_batch(&free, 2).expect("edited"),
            &[3, 64, 64],
        );
        assert_eq!((probe.rows, probe.batching.max), (Rows::Fixed(2), Some(2)));
    }
}

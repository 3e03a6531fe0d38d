//! `weir profile --blocks`: one model, its layers grouped into blocks, and each block measured alone (PPipe 5.1, 5.2).
//!
//! A file that is there already is added to: its blocks stay as they are, so that several classes and shares can be
//! measured one after the other, on several machines.

use std::path::Path;
use std::sync::Arc;

use comfy_table::CellAlignment;
use weir_flow::{DeviceKind, PartitionLoader, PartitionedModel, SessionError, Tensor};
use weir_operators::{LayerChain, LoadRequest, ModelFile, OnnxModel, OnnxPartitionLoader, PartitionedOnnx};
use weir_planner::{BlockTimes, Blocks};
use weir_runtime::Clock;

use super::layers::LayerCosts;
use super::single::SingleModel;
use super::{RUNS, sizes};
use crate::args::{BlockedProfile, Profile};
use crate::error::{UserError, write_error};
use crate::output;
use crate::report::plain_table;
use crate::whole_file::write_whole;

/// Measured where the caller does not say.
const BATCHES: [u32; 3] = [1, 2, 4];
/// Says the part of a GPU that a process may use.
const MPS: &str = "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE";

/// Profiles one model in blocks; prints a table, and writes what is asked for.
///
/// # Errors
/// Files that are no models or cannot be cut, more blocks than there are boundaries, files that do not fit or cannot be
/// written.
pub(super) fn profile(args: &Profile, blocks: usize, single: SingleModel) -> anyhow::Result<()> {
    let asked = &args.blocked;
    mps(asked)?;
    let mut batches = sizes(&args.batches, &BATCHES);
    let most = batches.last().copied().unwrap_or(1);
    let name = single.name.clone();
    let chain = open(single, args, most)?;
    if let Some(most) = chain.max_batch() {
        output::remark(&format!("{name} takes no batches other than of {most}"));
        batches = vec![u32::try_from(most).unwrap_or(u32::MAX)];
    }
    let before = match &args.out {
        Some(path) if path.exists() => Some(read(path, &name, blocks)?),
        _ => None,
    };
    let mut layers = LayerCosts::measure(&chain, asked)?;
    let starts = match &before {
        Some(before) => {
            let starts: Vec<usize> = before.layers.iter().map(|layer| *layer as usize).collect();
            layers.check(&chain, &starts, &name)?;
            starts
        }
        None => layers.group_layers(&chain, blocks, &name)?,
    };
    if let Some(path) = &asked.layers {
        write(path, &layers.csv())?;
    }
    let bytes: Vec<u64> = starts[1..]
        .iter()
        .filter_map(|start| layers.bytes.get(start - 1).copied())
        .collect();
    let blocked = chain.partition(&starts).map_err(|error| user_error(&error))?;
    let measured = measure(&blocked, asked, &batches).map_err(|error| user_error(&error))?;
    let mut profile = before.unwrap_or_else(|| Blocks {
        model: name.clone(),
        layers: starts.iter().map(|start| *start as u32).collect(),
        boundary_bytes: bytes.clone(),
        times: Vec::new(),
    });
    if profile.boundary_bytes != bytes {
        let path = args.out.as_deref().unwrap_or(Path::new("the profile"));
        let found = "the model or the precision is not the one that it was made of; write to another file";
        return Err(UserError::new(format!("{} does not fit: {found}", path.display())).into());
    }
    add(
        &mut profile,
        BlockTimes {
            class: asked.class.clone(),
            shares: asked.shares,
            batch: batches.clone(),
            us: measured.blocks.clone(),
            whole_us: measured.whole.clone(),
        },
    );
    if let Some(path) = &args.out {
        write(path, &text(&profile)?)?;
    }
    table(&layers, &starts, &bytes, &batches, &measured)
}

pub(super) fn user_error(error: &SessionError) -> UserError {
    UserError::new(error.to_string())
}

/// A share of a GPU is given from outside: the runtime of a process cannot change its own.
fn mps(asked: &BlockedProfile) -> Result<(), UserError> {
    if !matches!(asked.device, DeviceKind::Cuda(_)) || asked.shares == 1 {
        return Ok(());
    }
    let percentage = (100 / asked.shares).to_string();
    if std::env::var(MPS).is_ok_and(|set| set == percentage) {
        return Ok(());
    }
    let shares = asked.shares;
    Err(UserError::new(format!(
        "one of {shares} shares of a GPU is measured under MPS: start its daemon (nvidia-cuda-mps-control -d) and set \
         {MPS}={percentage}"
    )))
}

fn open(single: SingleModel, args: &Profile, max_batch: u32) -> Result<LayerChain, UserError> {
    let bytes: Arc<[u8]> = match single.file {
        ModelFile::Bytes(bytes) => bytes,
        ModelFile::Path(path) => weir_operators::read_model(&path)
            .map_err(|error| UserError::new(format!("cannot read {}: {error}", path.display())))?,
        ModelFile::Server(_) => {
            let reason = "a model on a model server is not cut: name its file";
            return Err(UserError::new(format!("model {}: {reason}", single.name)));
        }
    };
    let name = &single.name;
    let chain = match single.head {
        Some((head, settings)) => OnnxModel::load(&LoadRequest {
            name,
            file: ModelFile::Bytes(bytes),
            head: &head,
            settings: &settings,
            max_batch,
            dump: None,
        })
        .map_err(SessionError::from)
        .and_then(|model| model.layer_chain()),
        None => {
            let side = args.blocked.side.map(|side| side as usize);
            LayerChain::open(name, &bytes, side, max_batch)
        }
    };
    chain.map_err(|error| user_error(&error))
}

/// Median run times in microseconds, multiplied by `--slower`.
struct Measured {
    /// Times by block, then batch size.
    blocks: Vec<Vec<u64>>,
    /// Times of the uncut model by batch size.
    whole: Vec<u64>,
}

fn measure(
    blocked: &PartitionedOnnx,
    asked: &BlockedProfile,
    batches: &[u32],
) -> Result<Measured, SessionError> {
    let clock = Clock::start();
    let blank = |batch: &u32| blocked.layer_chain().blank_inputs(*batch as usize);
    let mut tensors: Vec<Vec<Tensor>> = batches.iter().map(blank).collect();
    let count = blocked.blocks();
    let take =
        |blocks: std::ops::Range<usize>, inputs: &mut [Vec<Tensor>]| -> Result<Vec<u64>, SessionError> {
            let loader = OnnxPartitionLoader {
                threads: asked.threads as usize,
            };
            let mut part = loader.load(&blocked.partition(blocks)?, asked.device, !asked.full_precision)?;
            let mut spans = Vec::with_capacity(inputs.len());
            for inputs in inputs {
                let outputs = part.run(inputs.clone())?;
                let mut times = Vec::with_capacity(RUNS);
                for _ in 0..RUNS {
                    let copy = inputs.clone();
                    let began = clock.now();
                    let given = part.run(copy)?;
                    times.push(clock.now().since(began).micros());
                    drop(given);
                }
                times.sort_unstable();
                // A reader of the profile refuses a duration of zero.
                let median = times[times.len() / 2] as f64 * asked.slower;
                spans.push((median.round() as u64).max(1));
                *inputs = outputs;
            }
            Ok(spans)
        };
    let whole = take(0..count, &mut tensors.clone())?;
    let blocks = (0..count).map(|block| take(block..block + 1, &mut tensors));
    Ok(Measured {
        blocks: blocks.collect::<Result<_, _>>()?,
        whole,
    })
}

/// Puts in times, in place of those of the same class and share.
fn add(profile: &mut Blocks, times: BlockTimes) {
    let same = |other: &BlockTimes| (&other.class, other.shares) == (&times.class, times.shares);
    profile.times.retain(|other| !same(other));
    profile.times.push(times);
    profile
        .times
        .sort_by(|a, b| (&a.class, a.shares).cmp(&(&b.class, b.shares)));
}

/// A profile that is to be added to.
fn read(path: &Path, name: &str, blocks: usize) -> Result<Blocks, UserError> {
    let wrong = |reason: String| {
        UserError::new(format!(
            "{} cannot be added to: {reason}; write to another file",
            path.display()
        ))
    };
    let text = weir_config::read_text(path).map_err(wrong)?;
    let profile: Blocks = toml::from_str(&text)
        .map_err(|error| wrong(format!("it is no profile of blocks: {}", error.message())))?;
    if profile.model != name {
        return Err(wrong(format!("it is of the model {}", profile.model)));
    }
    if profile.layers.len() != blocks || profile.layers.is_empty() {
        return Err(wrong(format!("it has {} blocks", profile.layers.len())));
    }
    if profile.layers[0] != 0 || !profile.layers.is_sorted_by(|a, b| a < b) {
        let layers = &profile.layers;
        return Err(wrong(format!("its layers, {layers:?}, do not ascend from 0")));
    }
    Ok(profile)
}

fn text(profile: &Blocks) -> anyhow::Result<String> {
    let head = "# Blocks of a model, measured by weir profile --blocks: the first layer of each, the bytes of one item\n\
                # that cross to the next, and by class and share the microseconds of each block, and of all in one, by batch size.\n\n";
    Ok(format!("{head}{}", toml::to_string(profile)?))
}

fn write(path: &Path, text: &str) -> Result<(), UserError> {
    std::fs::create_dir_all(path.parent().unwrap_or(Path::new("")))
        .and_then(|()| write_whole(path, text))
        .map_err(|error| write_error(path.display(), &error))
}

fn table(
    layers: &LayerCosts,
    starts: &[usize],
    bytes: &[u64],
    batches: &[u32],
    measured: &Measured,
) -> anyhow::Result<()> {
    let mut header = vec!["block".to_owned(), "layers".to_owned()];
    header.extend(batches.iter().map(|batch| format!("ms at {batch}")));
    header.extend(["KiB on".to_owned(), "last layer".to_owned()]);
    let header: Vec<&str> = header.iter().map(String::as_str).collect();
    let mut table = plain_table(&header);
    for column in table.column_iter_mut().take(3 + batches.len()) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    let ms = |us: &u64| format!("{:.3}", *us as f64 / 1e3);
    for (block, start) in starts.iter().enumerate() {
        let end = starts.get(block + 1).copied().unwrap_or(layers.names.len());
        let mut row = vec![block.to_string(), format!("{start}..{end}")];
        row.extend(measured.blocks[block].iter().map(ms));
        row.push(
            bytes
                .get(block)
                .map_or_else(String::new, |bytes| format!("{:.1}", *bytes as f64 / 1024.0)),
        );
        row.push(
            layers
                .names
                .get(end - 1)
                .map_or_else(String::new, |(name, _)| name.clone()),
        );
        table.add_row(row);
    }
    let mut sum = vec!["sum".to_owned(), String::new()];
    sum.extend((0..batches.len()).map(|at| ms(&measured.blocks.iter().map(|block| block[at]).sum())));
    table.add_row(sum);
    let mut whole = vec!["whole".to_owned(), format!("0..{}", layers.names.len())];
    whole.extend(measured.whole.iter().map(ms));
    table.add_row(whole);
    output::say(&table.trim_fmt())
}

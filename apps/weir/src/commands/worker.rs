//! `weir worker`: holds partitions of models and runs the batches that an engine sends through them.

use std::sync::Arc;
use std::time::Duration;

use weir_flow::StopFlag;
use weir_operators::OnnxParts;
use weir_partition::{Emulation, WorkerOptions, pin_to_core};
use weir_runtime::Clock;

use crate::args::Worker;
use crate::error::UserError;
use crate::{interrupt, output};

/// How often it looks whether it is to stop.
const LOOK_UP: Duration = Duration::from_millis(50);

/// Serves until Ctrl-C.
///
/// # Errors
/// An address that is not to be had, a core that is not there, and no ONNX Runtime.
pub(crate) fn worker(args: &Worker) -> anyhow::Result<()> {
    weir_operators::find_runtime().map_err(UserError::new)?;
    if let Some(core) = args.core {
        // Before any thread is started: all of them keep to it.
        let pinned = pin_to_core(core);
        pinned.map_err(|error| UserError::new(format!("cannot keep to core {core}: {error}")))?;
    }
    let stop = StopFlag::default();
    interrupt::watch_saying(&stop, "stopping: batches in flight are dropped")?;
    let options = WorkerOptions {
        class: args.class.clone(),
        shares: args.shares,
        device: args.device.0,
        emulation: Emulation {
            slowdown: args.slowdown,
            uplink_bps: args.bandwidth.map(|bandwidth| bandwidth.0),
        },
        ..WorkerOptions::default()
    };
    let clock = Clock::start();
    let now = Arc::new(move || clock.now());
    let worker = weir_partition::Worker::listen(args.listen, options, Arc::new(OnnxParts::default()), now)
        .map_err(mendable)?;
    output::say(&format!("listening on {}", worker.address()))?;
    while !stop.raised() {
        std::thread::sleep(LOOK_UP);
    }
    let tally = worker.tally();
    worker.stop();
    output::remark(&format!(
        "{} batches run, {} failed, {} turned away, {} dropped with their engine; {} peers broke the protocol",
        tally.batches, tally.failed, tally.turned_away, tally.stale, tally.foul
    ));
    Ok(())
}

fn mendable(error: weir_partition::WorkerError) -> anyhow::Error {
    match error {
        weir_partition::WorkerError::Thread(_) => error.into(),
        error => UserError::new(error.to_string()).into(),
    }
}

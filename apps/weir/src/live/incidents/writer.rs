//! The thread that writes incidents to their store and marks the clips of pinned ones, so that no sink and no client waits for a disk.

use std::io;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use weir_files::io_reason;
use weir_flow::BestShot;
use weir_runtime::Clock;
use weir_types::Span;

use super::Shared;
use super::record::Record;
use super::store::Store;

/// Incidents that are written at a time.
const BATCH: usize = 256;

/// Time until a disk that failed is tried again.
const RETRY_INTERVAL: Duration = Duration::from_secs(5);

/// Time between two looks for the clips of pinned incidents.
const PIN_INTERVAL: Span = Span::from_millis(5_000);

/// A picture that is to be stored.
struct NewPicture {
    number: u64,
    id: Arc<str>,
    best: Arc<BestShot>,
}

/// Changes that are written together.
#[derive(Default)]
struct Batch {
    removed: Vec<String>,
    pictures: Vec<NewPicture>,
    records: Vec<Record>,
}

/// Writes until the program ends. `is_untidy`: the file is rewritten first.
pub(super) fn run(shared: &Shared, mut store: Option<Store>, mut is_untidy: bool) {
    let clock = Clock::start();
    let mut pins_due = clock.now();
    loop {
        let batch = next(shared, is_untidy);
        if let Some(store) = &mut store {
            let written = write(shared, store, &batch, is_untidy);
            // After a failure, a line may be torn.
            is_untidy = written.is_err();
            if is_untidy {
                restore(shared, batch);
            }
            shared.on_written(written.as_ref().err().map(io_reason));
            if is_untidy {
                std::thread::sleep(RETRY_INTERVAL);
            }
        }
        if clock.now() >= pins_due {
            pins_due = clock.now() + PIN_INTERVAL;
            shared.pin_clips();
        }
    }
}

/// Waits for changes, at most for [`RETRY_INTERVAL`], and takes some of them.
fn next(shared: &Shared, is_untidy: bool) -> Batch {
    let mut state = shared.lock();
    if !is_untidy {
        let waited = shared
            .wake
            .wait_timeout_while(state, RETRY_INTERVAL, |state| !state.work.has_changes());
        (state, _) = waited.unwrap_or_else(PoisonError::into_inner);
    }
    let mut batch = Batch {
        removed: std::mem::take(&mut state.work.removed),
        ..Batch::default()
    };
    for number in state.work.take_changed(BATCH) {
        let Some(kept) = state.kept.get_mut(&number) else {
            continue;
        };
        batch.records.push(kept.record.clone());
        let is_new = std::mem::take(&mut kept.is_new_picture);
        if let Some(best) = kept.best.as_ref().filter(|_| is_new) {
            batch.pictures.push(NewPicture {
                number,
                id: Arc::clone(&kept.record.id),
                best: Arc::clone(best),
            });
        }
    }
    state.work.is_writing = true;
    batch
}

fn write(shared: &Shared, store: &mut Store, batch: &Batch, is_untidy: bool) -> io::Result<()> {
    for name in &batch.removed {
        store.pictures().remove(name);
    }
    for picture in &batch.pictures {
        let jpeg = picture.best.jpeg();
        store.pictures().write(&picture.id, jpeg)?;
        shared
            .lock()
            .on_picture_stored(picture.number, &picture.id, jpeg.len() as u64);
    }
    if is_untidy || store.is_long() {
        let state = shared.lock();
        let records: Vec<Record> = state.kept.values().map(|kept| kept.record.clone()).collect();
        drop(state);
        return store.rewrite(records.iter());
    }
    if batch.records.is_empty() {
        return Ok(());
    }
    store.append(&batch.records)
}

/// Changes that were not written are to be written again; the file as a whole is.
fn restore(shared: &Shared, batch: Batch) {
    let mut state = shared.lock();
    for picture in batch.pictures {
        if let Some(kept) = state.kept.get_mut(&picture.number) {
            kept.is_new_picture |= kept.best.as_ref() == Some(&picture.best);
            state.work.mark(picture.number);
        }
    }
}

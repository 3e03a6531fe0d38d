//! The thread that moves a camera: one move at a time, also where several sinks move the same camera.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, TryLockError, Weak};
use std::time::{Duration, Instant};

use super::plan::{Move, Plan};
use crate::onvif::Camera;
use crate::onvif::ptz::{Preset, Presets};

/// Attempts of a move, and the wait between them.
const MAX_TRIES: u32 = 3;
const RETRY_WAIT: Duration = Duration::from_secs(1);

/// Time between two looks whether the camera is free.
const POLL: Duration = Duration::from_millis(100);

/// Longest wait for a thread that was stopped.
const MAX_STOP: Duration = Duration::from_secs(2);

/// Counts of moves.
#[derive(Debug, Default)]
pub(super) struct Counts {
    pub(super) moves: AtomicU64,
    pub(super) returns: AtomicU64,
    pub(super) failed: AtomicU64,
    /// Alarms whose place a newer one took before the camera moved.
    pub(super) replaced: AtomicU64,
}

/// Camera that moves, and its presets by the names in the graph.
pub(super) struct Mover {
    pub(super) camera: Camera,
    /// Name of the camera in the graph.
    pub(super) name: String,
    pub(super) preset: String,
    pub(super) home: Option<String>,
}

/// Handle of the thread.
pub(super) struct MoverThread {
    shared: Arc<Shared>,
}

struct Shared {
    state: Mutex<State>,
    changed: Condvar,
    stopped: AtomicBool,
    counts: Counts,
    began: Instant,
}

struct State {
    plan: Plan,
    outage: Option<String>,
    is_over: bool,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        // The plan is valid at any moment, so also after a panic of another thread that used it.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn now_ms(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    /// Asks the thread to end. Behind the lock, so that no wait begins without seeing the flag.
    fn stop(&self) {
        let state = self.lock();
        self.stopped.store(true, Ordering::Relaxed);
        drop(state);
        self.changed.notify_all();
    }

    fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::Relaxed)
    }

    /// Waits for so long, or until it is stopped.
    fn pause(&self, time: Duration) {
        let waited = self
            .changed
            .wait_timeout_while(self.lock(), time, |_| !self.is_stopped());
        drop(waited);
    }
}

impl MoverThread {
    /// Starts the thread. `presets` are those of the camera if it answered already.
    ///
    /// # Errors
    /// The machine gives no thread.
    pub(super) fn start(
        mover: Mover,
        presets: Option<Presets>,
        home_after_ms: Option<u64>,
    ) -> std::io::Result<Self> {
        #[expect(clippy::disallowed_methods, reason = "the time until a return is real time")]
        let began = Instant::now();
        let shared = Arc::new(Shared {
            state: Mutex::new(State {
                plan: Plan::new(home_after_ms),
                outage: None,
                is_over: false,
            }),
            changed: Condvar::new(),
            stopped: AtomicBool::new(false),
            counts: Counts::default(),
            began,
        });
        let of_thread = Arc::clone(&shared);
        let thread = std::thread::Builder::new().name(format!("weir-ptz-{}", mover.name));
        thread.spawn(move || {
            mover.run(&of_thread, presets);
            of_thread.lock().is_over = true;
            of_thread.changed.notify_all();
        })?;
        Ok(Self { shared })
    }

    pub(super) fn on_alarm(&self, incident: &Arc<str>) {
        if self.shared.lock().plan.on_alarm(incident) {
            self.shared.counts.replaced.fetch_add(1, Ordering::Relaxed);
        }
        self.shared.changed.notify_all();
    }

    pub(super) fn on_follow_up(&self) {
        let now_ms = self.shared.now_ms();
        self.shared.lock().plan.on_follow_up(now_ms);
    }

    pub(super) fn counts(&self) -> &Counts {
        &self.shared.counts
    }

    pub(super) fn outage(&self) -> Option<String> {
        self.shared.lock().outage.clone()
    }

    /// Ends the thread; a camera that does not answer is waited for no longer than [`MAX_STOP`].
    pub(super) fn stop(&self) {
        self.shared.stop();
        let state = self.shared.lock();
        let waited = self
            .shared
            .changed
            .wait_timeout_while(state, MAX_STOP, |state| !state.is_over);
        drop(waited);
    }
}

impl Drop for MoverThread {
    fn drop(&mut self) {
        self.shared.stop();
    }
}

impl Mover {
    /// Name of the preset that a move goes to.
    fn wanted(&self, moved: &Move) -> &str {
        match moved {
            Move::Preset(_) => &self.preset,
            Move::Home => self.home.as_ref().unwrap_or(&self.preset),
        }
    }

    /// The presets of the camera, in which those of the sink are.
    ///
    /// # Errors
    /// The reason, with the presets that there are; whether the camera answered.
    pub(super) fn resolve(&self) -> Result<Presets, (String, bool)> {
        use crate::onvif::Problem;
        let presets = Presets::ask(&self.camera).map_err(|problem| {
            let answered = !matches!(problem, Problem::Unreached(_));
            (problem.reason().to_owned(), answered)
        })?;
        for name in std::iter::once(&self.preset).chain(&self.home) {
            presets.find(name).map_err(|reason| (reason, true))?;
        }
        Ok(presets)
    }

    fn run(&self, shared: &Shared, mut presets: Option<Presets>) {
        let turn = turn_of(&self.camera);
        while let Some(next) = wait_for_move(shared) {
            let Some(free) = wait_for_turn(&turn, shared) else {
                return;
            };
            let result = self.try_to_move(&next, shared, &mut presets);
            drop(free);
            self.log(&next, &result);
            let counts = &shared.counts;
            let count = match (&result, &next) {
                (Err(_), _) => &counts.failed,
                (Ok(_), Move::Preset(_)) => &counts.moves,
                (Ok(_), Move::Home) => &counts.returns,
            };
            count.fetch_add(1, Ordering::Relaxed);
            let mut state = shared.lock();
            state.plan.on_moved(&next, result.is_ok(), shared.now_ms());
            state.outage = result.err();
        }
    }

    fn log(&self, moved: &Move, result: &Result<Preset, String>) {
        let incident = match moved {
            Move::Preset(incident) => &**incident,
            Move::Home => "",
        };
        match result {
            Ok(preset) => {
                tracing::info!(camera = %self.name, preset = %preset.name, incident, "the camera moved to a preset");
            }
            Err(reason) => {
                tracing::warn!(camera = %self.name, preset = %self.wanted(moved), incident, "the camera was not moved: {reason}");
            }
        }
    }

    fn try_to_move(
        &self,
        next: &Move,
        shared: &Shared,
        presets: &mut Option<Presets>,
    ) -> Result<Preset, String> {
        let wanted = self.wanted(next);
        let mut last = String::new();
        for attempt in 0..MAX_TRIES {
            if attempt > 0 {
                shared.pause(RETRY_WAIT);
            }
            if shared.is_stopped() {
                break;
            }
            let mut known = match presets.take() {
                Some(known) => known,
                None => match self.resolve() {
                    Ok(known) => known,
                    Err((reason, false)) => {
                        last = reason;
                        continue;
                    }
                    // A refused login, or a preset that is missing, does not mend itself within seconds.
                    Err((reason, true)) => return Err(reason),
                },
            };
            let preset = known.find(wanted)?;
            match known.go_to(&preset, &|| shared.is_stopped()) {
                Ok(()) => {
                    *presets = Some(known);
                    return Ok(preset);
                }
                // Its address or its presets may have changed: they are asked again.
                Err(problem) => problem.reason().clone_into(&mut last),
            }
        }
        Err(last)
    }
}

/// The next move; `None` once it is stopped.
fn wait_for_move(shared: &Shared) -> Option<Move> {
    let mut state = shared.lock();
    loop {
        if shared.is_stopped() {
            return None;
        }
        let now_ms = shared.now_ms();
        if let Some(next) = state.plan.next(now_ms) {
            return Some(next);
        }
        state = match state.plan.wait_ms(now_ms) {
            Some(wait_ms) => {
                let wait = Duration::from_millis(wait_ms.max(1));
                let woken = shared.changed.wait_timeout(state, wait);
                woken.unwrap_or_else(PoisonError::into_inner).0
            }
            None => {
                let woken = shared.changed.wait(state);
                woken.unwrap_or_else(PoisonError::into_inner)
            }
        };
    }
}

/// A lock for each camera that is moved: cameras obey the last order, so a second one would break off the first.
static TURNS: Mutex<BTreeMap<String, Weak<Mutex<()>>>> = Mutex::new(BTreeMap::new());

fn turn_of(camera: &Camera) -> Arc<Mutex<()>> {
    let mut turns = TURNS.lock().unwrap_or_else(PoisonError::into_inner);
    turns.retain(|_, turn| turn.strong_count() > 0);
    if let Some(turn) = turns.get(&camera.name()).and_then(Weak::upgrade) {
        return turn;
    }
    let turn = Arc::new(Mutex::new(()));
    turns.insert(camera.name(), Arc::downgrade(&turn));
    turn
}

/// The turn of this sink; `None` once it is stopped.
fn wait_for_turn<'t>(turn: &'t Mutex<()>, shared: &Shared) -> Option<MutexGuard<'t, ()>> {
    while !shared.is_stopped() {
        match turn.try_lock() {
            Ok(free) => return Some(free),
            Err(TryLockError::Poisoned(free)) => return Some(free.into_inner()),
            Err(TryLockError::WouldBlock) => std::thread::sleep(POLL),
        }
    }
    None
}

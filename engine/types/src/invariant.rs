//! Conditions that must hold for any input; a violation is a bug of this program.
//! [`invariant!`](crate::invariant!) checks them in every build. A violation panics in tests and simulations;
//! in a live engine it is counted by kind, and the engine continues or ends, as configured.
//!
//! Counts and examples belong to the process: a driver keeps [`violations`] from before its run and reports
//! the difference. Nothing is logged here.

use std::cell::RefCell;
use std::fmt;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Kind of condition, for counts and metrics.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// `arrived = delivered + late + dropped + in flight`, for the graph and for each stream; each request arrives once.
    Ledger,
    /// A slot is granted, started and finished once, by one module, and runs one batch at a time.
    Slots,
    /// A batch that finishes is one that runs.
    Batches,
    /// Each item of a request is bound, started and finished once.
    Items,
    /// Bookings of one share or link do not overlap; each is used or returned once.
    Bookings,
    /// Frames of a stream leave in the order in which they arrived.
    FrameOrder,
    /// Released bytes of frames were acquired before.
    FrameMemory,
    /// A released place of a stream was acquired before.
    StreamLimit,
    /// A block of a cache has one owner or is free; no block is lost.
    CacheBlocks,
    /// A sequence is on one instance and in a step at most once; a step has no more tokens than it may.
    Sequences,
    /// Models take no more memory of a device than it has; a model that runs is open.
    Residency,
    /// Each request that waits is in one group, and each group in one virtual queue.
    Groups,
}

/// Number of kinds.
const KINDS: usize = 12;

impl Kind {
    /// All kinds, in the order of their declaration.
    pub const ALL: [Self; KINDS] = [
        Self::Ledger,
        Self::Slots,
        Self::Batches,
        Self::Items,
        Self::Bookings,
        Self::FrameOrder,
        Self::FrameMemory,
        Self::StreamLimit,
        Self::CacheBlocks,
        Self::Sequences,
        Self::Residency,
        Self::Groups,
    ];

    /// Name of the kind in reports, metrics and logs.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ledger => "ledger",
            Self::Slots => "slots",
            Self::Batches => "batches",
            Self::Items => "items",
            Self::Bookings => "bookings",
            Self::FrameOrder => "frame-order",
            Self::FrameMemory => "frame-memory",
            Self::StreamLimit => "stream-limit",
            Self::CacheBlocks => "cache-blocks",
            Self::Sequences => "sequences",
            Self::Residency => "residency",
            Self::Groups => "groups",
        }
    }
}

/// Reaction to a condition that does not hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// Panics with the kind and the values. The default in builds with debug assertions.
    Panic,
    /// Counts the violation and continues. The default in all other builds.
    Count,
}

/// Number of violations of each kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Violations([u64; KINDS]);

impl Violations {
    /// Number of violations of `kind`.
    #[must_use]
    pub fn count(&self, kind: Kind) -> u64 {
        self.0[kind as usize]
    }

    /// Violations since `before`, an earlier state of the same counts.
    #[must_use]
    pub fn since(&self, before: &Self) -> Self {
        Self(std::array::from_fn(|kind| {
            self.0[kind].saturating_sub(before.0[kind])
        }))
    }

    /// Kinds that did not hold, with their counts.
    pub fn iter(&self) -> impl Iterator<Item = (Kind, u64)> {
        let all = Kind::ALL.map(|kind| (kind, self.count(kind)));
        all.into_iter().filter(|(_, count)| *count > 0)
    }

    /// True if there was no violation.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0 == [0; KINDS]
    }
}

/// Mode of one thread while a closure runs, which overrides the mode of the process.
#[derive(Debug, Clone, Copy)]
enum Scope {
    Panic,
    Count(Violations),
}

const PANIC: u8 = 0;
const COUNT: u8 = 1;

static MODE: AtomicU8 = AtomicU8::new(if cfg!(debug_assertions) { PANIC } else { COUNT });
static COUNTS: [AtomicU64; KINDS] = [const { AtomicU64::new(0) }; KINDS];
/// First message of each kind since it was last taken. One per kind is formatted and kept, however many
/// violations there are.
static EXAMPLES: Mutex<[Option<String>; KINDS]> = Mutex::new([const { None }; KINDS]);

thread_local! {
    static SCOPE: RefCell<Option<Scope>> = const { RefCell::new(None) };
}

/// Sets the mode of all threads, except within [`panicking`] or [`counted`].
pub fn set_mode(mode: Mode) {
    let mode = match mode {
        Mode::Panic => PANIC,
        Mode::Count => COUNT,
    };
    MODE.store(mode, Ordering::Relaxed);
}

/// Runs `act`; a violation on this thread panics meanwhile.
pub fn panicking<T>(act: impl FnOnce() -> T) -> T {
    let _scope = Entered::new(Scope::Panic);
    act()
}

/// Runs `act` and returns its violations on this thread, which neither panic nor count for the process.
pub fn counted<T>(act: impl FnOnce() -> T) -> (T, Violations) {
    let scope = Entered::new(Scope::Count(Violations::default()));
    let result = act();
    (result, scope.violations())
}

/// Violations in this process so far.
#[must_use]
pub fn violations() -> Violations {
    Violations(std::array::from_fn(|kind| COUNTS[kind].load(Ordering::Relaxed)))
}

/// Message of the first violation of `kind` since the last call for that kind.
#[must_use]
pub fn take_example(kind: Kind) -> Option<String> {
    examples()[kind as usize].take()
}

/// Reports a violation; [`invariant!`](crate::invariant!) calls it if its condition does not hold.
///
/// # Panics
/// As [`Mode`] says.
#[cold]
#[inline(never)]
#[track_caller]
pub fn violated(kind: Kind, what: fmt::Arguments<'_>) {
    // The scope is gone while a thread ends; the mode of the process then applies.
    let scope = SCOPE.try_with(|scope| {
        let mut scope = scope.borrow_mut();
        if let Some(Scope::Count(violations)) = scope.as_mut() {
            violations.0[kind as usize] += 1;
        }
        *scope
    });
    let mode = match scope.ok().flatten() {
        Some(Scope::Count(_)) => return,
        Some(Scope::Panic) => PANIC,
        None => MODE.load(Ordering::Relaxed),
    };
    assert!(mode != PANIC, "invariant {} broken: {what}", kind.name());
    // The example is stored first, so that it exists when the count is visible.
    examples()[kind as usize].get_or_insert_with(|| what.to_string());
    COUNTS[kind as usize].fetch_add(1, Ordering::Relaxed);
}

fn examples() -> MutexGuard<'static, [Option<String>; KINDS]> {
    EXAMPLES.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A scope of this thread, left when it is dropped; a panic leaves it, too.
struct Entered {
    before: Option<Scope>,
}

impl Entered {
    fn new(scope: Scope) -> Self {
        Self {
            before: SCOPE.with(|current| current.replace(Some(scope))),
        }
    }

    fn violations(&self) -> Violations {
        SCOPE.with(|current| match *current.borrow() {
            Some(Scope::Count(violations)) => violations,
            Some(Scope::Panic) | None => Violations::default(),
        })
    }
}

impl Drop for Entered {
    fn drop(&mut self) {
        SCOPE.with(|current| *current.borrow_mut() = self.before.take());
    }
}

/// Checks a condition in every build, and evaluates to its value: `invariant!(free, Kind::Slots, "slot {} is
/// granted twice", slot.0)`.
///
/// If it does not hold, [`Mode`](crate::invariant::Mode) decides between a panic and a count. The values are
/// formatted only then, so a check costs as much as its condition: keep that O(1) and free of allocation.
#[macro_export]
macro_rules! invariant {
    ($condition:expr, $kind:expr, $($what:tt)+) => {{
        let holds: bool = $condition;
        if !holds {
            $crate::invariant::violated($kind, ::core::format_args!($($what)+));
        }
        holds
    }};
}

#[cfg(test)]
mod tests {
    use std::panic::catch_unwind;

    use super::*;

    fn halve(number: u32) -> u32 {
        invariant!(number.is_multiple_of(2), Kind::Items, "{number} is odd");
        number / 2
    }

    #[test]
    fn names_are_distinct_and_kinds_stand_at_their_places() {
        for (place, kind) in Kind::ALL.into_iter().enumerate() {
            assert_eq!(kind as usize, place);
            let same = Kind::ALL.iter().filter(|other| other.name() == kind.name());
            assert_eq!(same.count(), 1, "{}", kind.name());
        }
    }

    #[test]
    fn a_violation_panics_with_its_kind_and_values() {
        let panic = catch_unwind(|| panicking(|| halve(3))).unwrap_err();
        assert_eq!(
            panic.downcast_ref::<String>().map(String::as_str),
            Some("invariant items broken: 3 is odd")
        );
    }

    #[test]
    fn violations_are_counted_and_what_follows_goes_on() {
        let (halves, violations) = counted(|| [2, 3, 5].map(halve));
        assert_eq!(halves, [1, 1, 2]);
        assert_eq!(violations.iter().collect::<Vec<_>>(), [(Kind::Items, 2)]);
        assert!(counted(|| halve(4)).1.is_empty());
    }

    #[test]
    fn scopes_nest_and_a_panic_leaves_them() {
        let (inner, outer) = counted(|| {
            halve(1);
            let inner = counted(|| halve(3)).1;
            let _ = catch_unwind(|| panicking(|| halve(5)));
            halve(7);
            inner
        });
        assert_eq!((inner.count(Kind::Items), outer.count(Kind::Items)), (1, 2));
    }
}

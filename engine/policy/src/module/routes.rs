//! Recent work on slots that differ in speed.

use weir_types::Span;

use crate::route::recent::Recent;
use crate::slots::SlotShares;

/// Windows for counting a slot's work: a minute for items, three minutes for seconds of work, as for
/// instances.
const WINDOWS: [Span; 2] = [Span::from_secs(60), Span::from_secs(180)];
/// Work assigned to each slot of a module, if the slots differ in speed.
#[derive(Debug, Clone)]
pub(super) struct Routes {
    /// Number of requests assigned so far, to any slot.
    pub(super) picked: u64,
    /// The slot at which the next check for late requests begins.
    pub(super) next: usize,
    /// By place: items, and seconds of work.
    pub(super) recent: Vec<[Recent; 2]>,
    /// Share of the work that each slot is to do.
    pub(super) shares: SlotShares,
}

impl Routes {
    pub(super) fn new(slots: usize) -> Self {
        Self {
            picked: 0,
            next: 0,
            shares: SlotShares::default(),
            recent: vec![WINDOWS.map(Recent::new); slots],
        }
    }
}

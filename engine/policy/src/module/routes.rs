//! What was put on slots of unequal speed of late.

use weir_types::Span;

use crate::route::recent::Recent;
use crate::slots::SlotShares;

/// Windows of what was put on a slot: a minute for items, three for work, as for instances.
const WINDOWS: [Span; 2] = [Span::from_secs(60), Span::from_secs(180)];
/// What was put on the slots of a module, where these are not alike.
#[derive(Debug, Clone)]
pub(super) struct Routes {
    /// Requests that were put on any.
    pub(super) picked: u64,
    /// The slot at which the next look at what waits begins.
    pub(super) next: usize,
    /// By place: items and seconds of work.
    pub(super) recent: Vec<[Recent; 2]>,
    /// The part of the work that each slot is to do.
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

//! Results of a world that has run.

use weir_policy::*;
use weir_types::*;

use super::site::RequestState;
use super::world::World;

impl World {
    /// Number of requests that ended in `from_s..to_s` with an outcome for which `is` holds.
    pub fn ended(&self, from_s: u64, to_s: u64, is: impl Fn(Outcome) -> bool) -> usize {
        let moment = |s| Timestamp::ZERO + Span::from_secs(s);
        let ended = self.site.requests.iter().filter_map(|state| state.ended);
        ended
            .filter(|&(outcome, at)| at >= moment(from_s) && at < moment(to_s) && is(outcome))
            .count()
    }

    /// Latencies of completed requests.
    pub fn latencies(&self) -> Vec<Span> {
        let completed = |state: &RequestState| match state.ended? {
            (Outcome::Dropped(..), _) => None,
            (_, at) => Some(at.since(state.sent_at)),
        };
        self.site.requests.iter().filter_map(completed).collect()
    }

    /// Drops by module.
    pub fn dropped_by(&self) -> Vec<u64> {
        let by = |module: usize| {
            let drops = self
                .ledger()
                .drops()
                .filter(|(at, ..)| *at == Some(ModuleId(module as u32)));
            drops.map(|(.., count)| count).sum()
        };
        (0..self.controller.modules().len()).map(by).collect()
    }
}

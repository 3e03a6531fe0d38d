//! The books: every request ends exactly once, and `arrived = delivered + late + dropped + in flight` at every moment,
//! for the whole graph and for each stream.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use weir_types::invariant;
use weir_types::invariant::Kind;
use weir_types::{DropReason, ModuleId, RequestId, Span, StreamId};

use crate::queue::request_map::RequestMap;

/// How a request ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// It came out within the SLO.
    Delivered,
    /// It came out after it.
    Late,
    /// It was let go: where (`None`: before it reached a module) and why.
    Dropped(Option<ModuleId>, DropReason),
}

/// Requests by how they ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Counts {
    /// All that were sent.
    pub arrived: u64,
    /// Out within the SLO.
    pub delivered: u64,
    /// Out after it.
    pub late: u64,
    /// Let go.
    pub dropped: u64,
    /// On their way.
    pub in_flight: u64,
}

impl Counts {
    /// `(dropped + late) / arrived`; 0 where nothing arrived.
    #[must_use]
    pub fn drop_rate(&self) -> f64 {
        if self.arrived == 0 {
            0.0
        } else {
            (self.dropped + self.late) as f64 / self.arrived as f64
        }
    }

    /// Whether each request that arrived is delivered, late, dropped or in flight.
    #[must_use]
    pub fn is_balanced(&self) -> bool {
        self.arrived == self.delivered + self.late + self.dropped + self.in_flight
    }
}

/// An open account.
#[derive(Debug, Clone)]
struct Account {
    stream: StreamId,
    spent: Vec<(ModuleId, Span)>,
}

/// Sums of time by module: their numbers are small and without gaps.
#[derive(Debug, Clone, Default)]
struct Times(Vec<Span>);

impl Times {
    fn add(&mut self, module: ModuleId, span: Span) {
        if self.0.len() <= module.index() {
            self.0.resize(module.index() + 1, Span::ZERO);
        }
        self.0[module.index()] += span;
    }

    fn of(&self, module: ModuleId) -> Span {
        self.0.get(module.index()).copied().unwrap_or_default()
    }
}

/// The books of a run.
#[derive(Debug, Clone, Default)]
pub struct Ledger {
    open: RequestMap<Account>,
    total: Counts,
    streams: BTreeMap<StreamId, Counts>,
    drops: BTreeMap<(Option<ModuleId>, DropReason), u64>,
    /// Device time by module.
    busy: Times,
    /// The part of it that went into requests which were not delivered.
    wasted: Times,
    /// Empty lists of what was spent, for the next accounts.
    blank: Vec<Vec<(ModuleId, Span)>>,
}

impl Ledger {
    /// A request was sent. Says false, and changes nothing, where it is known already, which is a violation.
    pub fn arrived(&mut self, request: RequestId, stream: StreamId) -> bool {
        let is_new = self.open.get(request).is_none();
        if !invariant!(is_new, Kind::Ledger, "request {} arrives twice", request.0) {
            return false;
        }
        self.open.insert(
            request,
            Account {
                stream,
                spent: self.blank.pop().unwrap_or_default(),
            },
        );
        for counts in [&mut self.total, self.streams.entry(stream).or_default()] {
            counts.arrived += 1;
            counts.in_flight += 1;
        }
        true
    }

    /// Device time went into a request, whether or not it is still under way.
    pub fn spent(&mut self, request: RequestId, module: ModuleId, span: Span) {
        self.busy.add(module, span);
        match self.open.get_mut(request) {
            Some(account) => account.spent.push((module, span)),
            // It ended while it ran: nobody waits for the result.
            None => self.wasted.add(module, span),
        }
    }

    /// A request ended. Says false, and changes nothing, where it had ended already: that is no violation, since branches
    /// that do not know of each other may each end it, and a run that is stopped ends what they still hold.
    pub fn ended(&mut self, request: RequestId, outcome: Outcome) -> bool {
        let Some(mut account) = self.open.remove(request) else {
            return false;
        };
        let mut balanced = true;
        for counts in [&mut self.total, self.streams.entry(account.stream).or_default()] {
            balanced &= counts.in_flight > 0;
            counts.in_flight = counts.in_flight.saturating_sub(1);
            match outcome {
                Outcome::Delivered => counts.delivered += 1,
                Outcome::Late => counts.late += 1,
                Outcome::Dropped(..) => counts.dropped += 1,
            }
            balanced &= counts.is_balanced();
        }
        invariant!(
            balanced && self.total.in_flight == self.open.len() as u64,
            Kind::Ledger,
            "{} accounts are open; the graph has {:?}, stream {} has {:?}",
            self.open.len(),
            self.total,
            account.stream.0,
            self.stream(account.stream)
        );
        if let Outcome::Dropped(module, reason) = outcome {
            *self.drops.entry((module, reason)).or_default() += 1;
        }
        if outcome != Outcome::Delivered {
            for (module, span) in &account.spent {
                self.wasted.add(*module, *span);
            }
        }
        account.spent.clear();
        self.blank.push(account.spent);
        true
    }

    /// Requests that are on their way, with their streams, oldest first.
    #[must_use]
    pub fn open(&self) -> Vec<(RequestId, StreamId)> {
        self.open
            .iter()
            .map(|(request, account)| (request, account.stream))
            .collect()
    }

    /// The whole graph.
    #[must_use]
    pub fn total(&self) -> Counts {
        self.total
    }

    /// One stream.
    #[must_use]
    pub fn stream(&self, stream: StreamId) -> Counts {
        self.streams.get(&stream).copied().unwrap_or_default()
    }

    /// Drops by place and reason.
    pub fn drops(&self) -> impl Iterator<Item = (Option<ModuleId>, DropReason, u64)> {
        self.drops
            .iter()
            .map(|(&(module, reason), &count)| (module, reason, count))
    }

    /// Device time of a module, and the part of it that went into requests which were not delivered.
    #[must_use]
    pub fn time(&self, module: ModuleId) -> (Span, Span) {
        (self.busy.of(module), self.wasted.of(module))
    }

    /// Device time spent in vain over all device time.
    #[must_use]
    pub fn invalid_rate(&self) -> f64 {
        let busy: Span = self.busy.0.iter().copied().sum();
        let wasted: Span = self.wasted.0.iter().copied().sum();
        if busy == Span::ZERO {
            0.0
        } else {
            wasted.micros() as f64 / busy.micros() as f64
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::violation::assert_violates;

    proptest! {
        /// Whatever is told, in whatever order, the books add up and no request ends twice.
        #[test]
        fn the_books_always_add_up(facts in prop::collection::vec((0_u8..4, 0_u64..30, 0_u32..3), 0..300)) {
            let mut ledger = Ledger::default();
            let mut ended = 0;
            for (kind, request, stream) in facts {
                let id = RequestId(request);
                match kind {
                    0 if ledger.open.get(id).is_none() => { ledger.arrived(id, StreamId(stream)); }
                    0 => {}
                    1 => ended += u64::from(ledger.ended(id, Outcome::Delivered)),
                    2 => ended += u64::from(ledger.ended(id, Outcome::Dropped(None, DropReason::Infeasible))),
                    _ => ledger.spent(id, ModuleId(stream), Span::from_micros(5)),
                }
                let total = ledger.total();
                prop_assert!(total.is_balanced());
                prop_assert_eq!(total.in_flight as usize, ledger.open().len());
                prop_assert_eq!(total.delivered + total.dropped, ended);
                let streams: u64 = (0..3).map(|stream| ledger.stream(StreamId(stream)).arrived).sum();
                prop_assert_eq!(streams, total.arrived);
                prop_assert!((0..3).all(|stream| ledger.stream(StreamId(stream)).is_balanced()));
            }
        }
    }

    fn one_in_flight() -> Ledger {
        let mut ledger = Ledger::default();
        ledger.arrived(RequestId(1), StreamId(0));
        ledger
    }

    #[test]
    fn a_request_that_arrives_twice_is_a_violation_and_counts_once() {
        let mut ledger = assert_violates(Kind::Ledger, || {
            let mut ledger = one_in_flight();
            assert!(!ledger.arrived(RequestId(1), StreamId(1)));
            ledger
        });
        assert_eq!(ledger.total().arrived, 1);
        assert!(ledger.ended(RequestId(1), Outcome::Late));
        assert!(!ledger.ended(RequestId(1), Outcome::Delivered), "only once");
    }

    #[test]
    fn counts_that_do_not_add_up_when_a_request_ends_are_a_violation() {
        let breakages: [fn(&mut Ledger); 3] = [
            |ledger| ledger.total.delivered += 1,
            // These add up, but only one account is open.
            |ledger| (ledger.total.arrived, ledger.total.in_flight) = (2, 2),
            |ledger| ledger.streams.clear(),
        ];
        for break_it in breakages {
            assert_violates(Kind::Ledger, || {
                let mut ledger = one_in_flight();
                break_it(&mut ledger);
                ledger.ended(RequestId(1), Outcome::Delivered)
            });
        }
    }

    #[test]
    fn time_in_requests_that_were_not_delivered_is_wasted() {
        let mut ledger = Ledger::default();
        for request in [1, 2] {
            ledger.arrived(RequestId(request), StreamId(0));
            ledger.spent(RequestId(request), ModuleId(0), Span::from_millis(10));
        }
        ledger.ended(RequestId(1), Outcome::Delivered);
        ledger.ended(
            RequestId(2),
            Outcome::Dropped(Some(ModuleId(1)), DropReason::Infeasible),
        );
        ledger.spent(RequestId(2), ModuleId(0), Span::from_millis(20));
        assert_eq!(
            ledger.time(ModuleId(0)),
            (Span::from_millis(40), Span::from_millis(30))
        );
        assert_eq!(ledger.invalid_rate(), 0.75);
    }
}

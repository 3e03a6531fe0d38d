//! The ledger of requests. Every request ends exactly once, and
//! `arrived = delivered + late + dropped + still + in flight` holds after every event, for the whole graph
//! and for each stream.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use weir_types::invariant;
use weir_types::invariant::Kind;
use weir_types::{DropReason, ModuleId, RequestId, Span, StreamId};

use crate::queue::request_map::RequestMap;

/// Outcome of a request; each request has exactly one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// It completed within its SLO.
    Delivered,
    /// It completed after its SLO.
    Late,
    /// It was dropped at a module (`None`: before the first) for a reason.
    Dropped(Option<ModuleId>, DropReason),
}

/// Requests by outcome.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Counts {
    /// Number of requests that were sent.
    pub arrived: u64,
    /// Number of requests completed within their SLO.
    pub delivered: u64,
    /// Number of requests completed after their SLO.
    pub late: u64,
    /// Number of requests dropped, for any reason.
    pub dropped: u64,
    /// Frames that no module saw and none was to see: nothing had changed since the last that was looked at, whose objects they
    /// have, or they came outside the times at which their source is analysed.
    #[serde(default)]
    pub still: u64,
    /// Number of requests that have not ended.
    pub in_flight: u64,
}

impl Counts {
    /// `(dropped + late) / (arrived - still)`; 0 if nothing arrived that was to be looked at.
    #[must_use]
    pub fn drop_rate(&self) -> f64 {
        match self.arrived.saturating_sub(self.still) {
            0 => 0.0,
            looked_at => (self.dropped + self.late) as f64 / looked_at as f64,
        }
    }

    /// Whether each frame that arrived is delivered, late, dropped, still or in flight.
    #[must_use]
    pub fn is_balanced(&self) -> bool {
        self.arrived == self.delivered + self.late + self.dropped + self.still + self.in_flight
    }
}

/// Counts of streams that were removed during the run; the totals include them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct RemovedStreams {
    /// Number of removed streams.
    pub streams: u64,
    /// Outcomes of their requests.
    pub requests: Counts,
}

/// A request in flight, with the device time spent on it.
#[derive(Debug, Clone)]
struct Account {
    stream: StreamId,
    device_time: Vec<(ModuleId, Span)>,
}

/// Device time by module id.
#[derive(Debug, Clone, Default)]
struct DeviceTimes(Vec<Span>);

impl DeviceTimes {
    fn add(&mut self, module: ModuleId, span: Span) {
        if self.0.len() <= module.index() {
            self.0.resize(module.index() + 1, Span::ZERO);
        }
        self.0[module.index()] += span;
    }

    fn total(&self, module: ModuleId) -> Span {
        self.0.get(module.index()).copied().unwrap_or_default()
    }
}

/// The ledger of a run.
#[derive(Debug, Clone, Default)]
pub struct Ledger {
    open: RequestMap<Account>,
    total: Counts,
    streams: BTreeMap<StreamId, Counts>,
    /// Number of removed streams, and the sum of their counts.
    removed: RemovedStreams,
    drops: BTreeMap<(Option<ModuleId>, DropReason), u64>,
    /// All device time.
    busy: DeviceTimes,
    /// Device time spent on requests that were not delivered.
    wasted: DeviceTimes,
    /// Empty lists, to be reused by new requests.
    free_lists: Vec<Vec<(ModuleId, Span)>>,
}

impl Ledger {
    /// A request was sent. Returns false without any change if the request is known already, which is a
    /// violation.
    pub fn on_arrived(&mut self, request: RequestId, stream: StreamId) -> bool {
        let is_new = self.open.get(request).is_none();
        if !invariant!(is_new, Kind::Ledger, "request {} arrives twice", request.0) {
            return false;
        }
        self.open.insert(
            request,
            Account {
                stream,
                device_time: self.free_lists.pop().unwrap_or_default(),
            },
        );
        for counts in [&mut self.total, self.streams.entry(stream).or_default()] {
            counts.arrived += 1;
            counts.in_flight += 1;
        }
        true
    }

    /// Frames of a stream arrived and were dropped for `reason` before the first module, without becoming
    /// requests.
    pub fn on_left_out(&mut self, stream: StreamId, reason: DropReason, count: u64) {
        for counts in [&mut self.total, self.streams.entry(stream).or_default()] {
            counts.arrived += count;
            counts.dropped += count;
        }
        if count > 0 {
            *self.drops.entry((None, reason)).or_default() += count;
        }
    }

    /// Frames of a stream arrived that no module was to see ([`Counts::still`]).
    pub fn on_still(&mut self, stream: StreamId, count: u64) {
        for counts in [&mut self.total, self.streams.entry(stream).or_default()] {
            counts.arrived += count;
            counts.still += count;
        }
    }

    /// Whether a request in flight that is dropped now for `reason` was decoded for nothing: it is dropped
    /// for lack of capacity before any device time was spent on it.
    #[must_use]
    pub fn is_unused(&self, request: RequestId, reason: DropReason) -> bool {
        let for_room = match reason {
            DropReason::Infeasible
            | DropReason::OverBudget
            | DropReason::Shed
            | DropReason::Superseded
            | DropReason::StreamFull
            | DropReason::MemoryFull
            | DropReason::NotDecoded => true,
            DropReason::Failed | DropReason::Stopped => false,
        };
        let account = self.open.get(request);
        for_room && account.is_some_and(|account| account.device_time.is_empty())
    }

    /// Device time was spent on a request, whether or not it is still in flight.
    pub fn on_spent(&mut self, request: RequestId, module: ModuleId, span: Span) {
        self.busy.add(module, span);
        match self.open.get_mut(request) {
            Some(account) => account.device_time.push((module, span)),
            // The request ended while its batch ran: the result is discarded.
            None => self.wasted.add(module, span),
        }
    }

    /// A request ended. Returns false without any change if it had ended before. That is no violation:
    /// independent branches may each end a request, and a stopped run ends all that are left.
    pub fn on_ended(&mut self, request: RequestId, outcome: Outcome) -> bool {
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
            for (module, span) in &account.device_time {
                self.wasted.add(*module, *span);
            }
        }
        account.device_time.clear();
        self.free_lists.push(account.device_time);
        true
    }

    /// Requests in flight with their streams, oldest first.
    #[must_use]
    pub fn open_requests(&self) -> Vec<(RequestId, StreamId)> {
        self.open
            .iter()
            .map(|(request, account)| (request, account.stream))
            .collect()
    }

    /// Counts of the whole graph.
    #[must_use]
    pub fn total(&self) -> Counts {
        self.total
    }

    /// Counts of one stream.
    #[must_use]
    pub fn stream(&self, stream: StreamId) -> Counts {
        self.streams.get(&stream).copied().unwrap_or_default()
    }

    /// Removes a stream's counts from the books and returns them; the totals keep them. `None`, without any
    /// change, while a request of the stream is in flight.
    pub fn remove_stream(&mut self, stream: StreamId) -> Option<Counts> {
        let counts = self.stream(stream);
        if counts.in_flight > 0 {
            return None;
        }
        self.streams.remove(&stream);
        let removed = &mut self.removed.requests;
        removed.arrived += counts.arrived;
        removed.delivered += counts.delivered;
        removed.late += counts.late;
        removed.dropped += counts.dropped;
        removed.still += counts.still;
        self.removed.streams += 1;
        Some(counts)
    }

    /// Counts of streams that were removed.
    #[must_use]
    pub fn removed_streams(&self) -> RemovedStreams {
        self.removed
    }

    /// Drops by module (`None`: before the first) and reason.
    pub fn drops(&self) -> impl Iterator<Item = (Option<ModuleId>, DropReason, u64)> {
        self.drops
            .iter()
            .map(|(&(module, reason), &count)| (module, reason, count))
    }

    /// Device time of a module, and the part of it that was spent on requests that were not delivered.
    #[must_use]
    pub fn device_time(&self, module: ModuleId) -> (Span, Span) {
        (self.busy.total(module), self.wasted.total(module))
    }

    /// Fraction of device time that was spent on requests that were not delivered (PARD 5.1).
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
        /// For any sequence of events, counts are balanced and no request ends twice.
        #[test]
        fn requests_are_conserved_after_every_event(facts in prop::collection::vec((0_u8..4, 0_u64..30, 0_u32..3), 0..300)) {
            let mut ledger = Ledger::default();
            let mut ended = 0;
            for (kind, request, stream) in facts {
                let id = RequestId(request);
                match kind {
                    0 if ledger.open.get(id).is_none() => { ledger.on_arrived(id, StreamId(stream)); }
                    0 => {}
                    1 => ended += u64::from(ledger.on_ended(id, Outcome::Delivered)),
                    2 => ended += u64::from(ledger.on_ended(id, Outcome::Dropped(None, DropReason::Infeasible))),
                    _ => ledger.on_spent(id, ModuleId(stream), Span::from_micros(5)),
                }
                let total = ledger.total();
                prop_assert!(total.is_balanced());
                prop_assert_eq!(total.in_flight as usize, ledger.open_requests().len());
                prop_assert_eq!(total.delivered + total.dropped, ended);
                let streams: u64 = (0..3).map(|stream| ledger.stream(StreamId(stream)).arrived).sum();
                prop_assert_eq!(streams, total.arrived);
                prop_assert!((0..3).all(|stream| ledger.stream(StreamId(stream)).is_balanced()));
            }
        }
    }

    #[test]
    fn a_removed_stream_stays_in_the_totals_and_goes_only_when_its_requests_have_ended() {
        let mut ledger = one_in_flight();
        ledger.on_arrived(RequestId(2), StreamId(1));
        assert_eq!(ledger.remove_stream(StreamId(0)), None);
        ledger.on_ended(RequestId(1), Outcome::Late);
        assert_eq!(
            ledger.remove_stream(StreamId(0)).map(|counts| counts.late),
            Some(1)
        );
        let removed = ledger.removed_streams();
        assert_eq!((removed.streams, removed.requests.arrived), (1, 1));
        assert_eq!(ledger.stream(StreamId(0)), Counts::default());
        assert_eq!(
            ledger.total().arrived,
            removed.requests.arrived + ledger.stream(StreamId(1)).arrived
        );
    }

    fn one_in_flight() -> Ledger {
        let mut ledger = Ledger::default();
        ledger.on_arrived(RequestId(1), StreamId(0));
        ledger
    }

    #[test]
    fn a_request_that_arrives_twice_is_a_violation_and_counts_once() {
        let mut ledger = assert_violates(Kind::Ledger, || {
            let mut ledger = one_in_flight();
            assert!(!ledger.on_arrived(RequestId(1), StreamId(1)));
            ledger
        });
        assert_eq!(ledger.total().arrived, 1);
        assert!(ledger.on_ended(RequestId(1), Outcome::Late));
        assert!(!ledger.on_ended(RequestId(1), Outcome::Delivered), "only once");
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
                ledger.on_ended(RequestId(1), Outcome::Delivered)
            });
        }
    }

    #[test]
    fn frames_left_out_arrived_and_were_dropped() {
        let mut ledger = one_in_flight();
        ledger.on_left_out(StreamId(0), DropReason::NotDecoded, 7);
        ledger.on_left_out(StreamId(1), DropReason::NotDecoded, 0);
        for counts in [ledger.total(), ledger.stream(StreamId(0))] {
            assert_eq!((counts.arrived, counts.dropped, counts.in_flight), (8, 7, 1));
            assert!(counts.is_balanced());
        }
        let drops: Vec<_> = ledger.drops().collect();
        assert_eq!(drops, [(None, DropReason::NotDecoded, 7)]);
        assert!(ledger.on_ended(RequestId(1), Outcome::Delivered));
    }

    #[test]
    fn a_request_is_unused_until_device_time_is_spent_on_it() {
        let mut ledger = one_in_flight();
        assert!(ledger.is_unused(RequestId(1), DropReason::Infeasible));
        assert!(!ledger.is_unused(RequestId(1), DropReason::Stopped));
        assert!(!ledger.is_unused(RequestId(2), DropReason::Infeasible));
        ledger.on_spent(RequestId(1), ModuleId(0), Span::from_millis(10));
        assert!(!ledger.is_unused(RequestId(1), DropReason::Infeasible));
    }

    #[test]
    fn time_in_requests_that_were_not_delivered_is_wasted() {
        let mut ledger = Ledger::default();
        for request in [1, 2] {
            ledger.on_arrived(RequestId(request), StreamId(0));
            ledger.on_spent(RequestId(request), ModuleId(0), Span::from_millis(10));
        }
        ledger.on_ended(RequestId(1), Outcome::Delivered);
        ledger.on_ended(
            RequestId(2),
            Outcome::Dropped(Some(ModuleId(1)), DropReason::Infeasible),
        );
        ledger.on_spent(RequestId(2), ModuleId(0), Span::from_millis(20));
        assert_eq!(
            ledger.device_time(ModuleId(0)),
            (Span::from_millis(40), Span::from_millis(30))
        );
        assert_eq!(ledger.invalid_rate(), 0.75);
    }
}

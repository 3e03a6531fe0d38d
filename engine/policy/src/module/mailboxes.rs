//! Requests in a module. Waiting ones are in a mailbox, one for the pool or one for each worker, ordered by
//! their keys; those that may be dropped early are also ordered by deadline.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};

use weir_types::invariant;
use weir_types::invariant::Kind;
use weir_types::{RequestId, Span, StreamId, Timestamp};

use crate::flow::stream_shares::StreamShares;
use crate::queue::depq::{Depq, End};
use crate::queue::request_map::RequestMap;
use crate::weir::fair_streams::FairStreams;
use crate::weir::slack::SlackThreshold;

/// Maximum number of requests near the slack threshold that are examined for the next one.
const MAX_CANDIDATES: usize = 64;

/// Ratio of stale to live entries in `urgent` at which stale ones are removed.
const STALE: usize = 4;

/// One request in one module.
#[derive(Debug, Clone, Copy)]
pub(super) struct Entry {
    /// Sort key in the mailbox.
    pub(super) key: Timestamp,
    pub(super) stream: StreamId,
    pub(super) sent_at: Timestamp,
    /// Its own latency objective, or the graph's.
    pub(super) slo: Span,
    pub(super) arrived_at: Timestamp,
    pub(super) items: u32,
    /// Items that were put into batches.
    pub(super) bound: u32,
    /// Items that were put on a slot.
    started: u32,
    /// Number of items that have run.
    done: u32,
    pub(super) droppable: bool,
    /// Whether it has so many items that other requests go first under overload.
    pub(super) deprioritized: bool,
    /// Whether it was lost with its worker once and runs again.
    pub(super) again: bool,
    /// Index of its mailbox.
    pub(super) mailbox: usize,
    /// Time at which it was moved here from another mailbox.
    pub(super) moved_at: Option<Timestamp>,
}

impl Entry {
    /// A request that arrives at `arrived_at`; its key is set later.
    pub(super) fn new(
        stream: StreamId,
        sent_at: Timestamp,
        slo: Span,
        arrived_at: Timestamp,
        items: u32,
        droppable: bool,
    ) -> Self {
        Self {
            key: sent_at,
            stream,
            sent_at,
            slo,
            arrived_at,
            items,
            bound: 0,
            started: 0,
            done: 0,
            droppable,
            deprioritized: false,
            again: false,
            mailbox: 0,
            moved_at: None,
        }
    }

    /// By when it must be through the graph.
    pub(super) fn deadline(&self) -> Timestamp {
        self.sent_at + self.slo
    }

    /// Whether some of its items have started on a slot.
    pub(super) fn partially_run(&self) -> bool {
        self.started > 0
    }

    /// The request as it arrived, to run once more after a loss. `None` if it was lost before, or if only a
    /// part was lost, since other parts are elsewhere.
    pub(super) fn reset_for_retry(self, lost: u32) -> Option<Self> {
        let whole = lost == self.items && !self.again;
        whole.then_some(Self {
            bound: 0,
            started: 0,
            done: 0,
            again: true,
            ..self
        })
    }

    /// The entry with all items unbound that have not started; in a mailbox of one worker, items run in their
    /// order.
    pub(super) fn unbound(self) -> Self {
        Self {
            bound: self.started,
            ..self
        }
    }

    /// Items that still wait for a batch.
    pub(super) fn waiting(&self) -> u32 {
        self.items - self.bound
    }
}

/// One mailbox of requests, in several orders.
#[derive(Debug, Clone, Default)]
struct Mailbox {
    waiting: Depq<()>,
    /// Waiting requests by stream, if streams have shares; no queue in it is empty.
    by_stream: BTreeMap<StreamId, Depq<()>>,
    /// Requests that bring too many items at present.
    deprioritized: Depq<()>,
    /// Requests with items that do not run yet and that may be dropped, by deadline, if early drop needs
    /// them. Requests that have left are removed when they reach the top.
    urgent: BinaryHeap<Reverse<(Timestamp, RequestId)>>,
    /// Requests with some items bound and some not: they go first, because work that was begun is to be
    /// finished.
    partially_run: BTreeSet<(Timestamp, RequestId)>,
    items: u64,
}

impl Mailbox {
    /// Adds a waiting request, by its key and, if streams have shares, also to its stream's queue.
    fn push(&mut self, entry: &Entry, request: RequestId, shared: bool) {
        if entry.deprioritized {
            self.deprioritized.push(entry.key, request, ());
            return;
        }
        self.waiting.push(entry.key, request, ());
        if shared {
            let line = self.by_stream.entry(entry.stream).or_default();
            line.push(entry.key, request, ());
        }
    }

    /// Streams with a request that has slack; all streams with a request if slack does not matter.
    fn streams_with_slack(&self, slack: Option<SlackThreshold>) -> impl Iterator<Item = StreamId> {
        let has_slack =
            move |line: &Depq<()>| slack.is_none_or(|slack| line.range_from(slack.from).next().is_some());
        let able = self.by_stream.iter().filter(move |(_, line)| has_slack(line));
        able.map(|(stream, _)| *stream)
    }

    /// Removes a request that has left the queue from its stream's queue, if it is there.
    fn forget(&mut self, entry: &Entry, request: RequestId) {
        if let Some(line) = self.by_stream.get_mut(&entry.stream) {
            line.remove(entry.key, request);
            if line.is_empty() {
                self.by_stream.remove(&entry.stream);
            }
        }
    }
}

/// All requests in a module.
#[derive(Debug, Clone)]
pub(super) struct MailboxSet {
    all: RequestMap<Entry>,
    mailboxes: Vec<Mailbox>,
    items: u64,
    /// Whether the most urgent requests are indexed.
    urgency: bool,
    /// Whether streams have shares.
    shared: bool,
}

impl MailboxSet {
    /// Creates that many empty mailboxes, at least one. `urgency`: the most urgent requests are indexed.
    /// `shared`: requests are indexed by stream too.
    pub(super) fn new(mailboxes: usize, urgency: bool, shared: bool) -> Self {
        Self {
            all: RequestMap::default(),
            mailboxes: vec![Mailbox::default(); mailboxes.max(1)],
            items: 0,
            urgency,
            shared,
        }
    }

    pub(super) fn count(&self) -> usize {
        self.mailboxes.len()
    }

    /// Puts a request that is not here into a mailbox.
    pub(super) fn insert(&mut self, request: RequestId, mut entry: Entry, mailbox: usize) {
        debug_assert!(self.get(request).is_none(), "{request:?} is here already");
        entry.mailbox = mailbox;
        let into = &mut self.mailboxes[mailbox];
        if entry.droppable && self.urgency {
            into.urgent.push(Reverse((entry.deadline(), request)));
        }
        into.push(&entry, request, self.shared);
        into.items += u64::from(entry.waiting());
        self.items += u64::from(entry.waiting());
        self.all.insert(request, entry);
    }

    /// Puts a request that is here into a mailbox, as `entry`.
    pub(super) fn put_back(&mut self, request: RequestId, entry: Entry, mailbox: usize) {
        self.remove(request);
        self.insert(request, entry, mailbox);
    }

    /// Waiting requests that are not partially bound, by id.
    pub(super) fn in_line(&self) -> impl Iterator<Item = (RequestId, &Entry)> {
        self.all.iter().filter(|(request, entry)| {
            let partially_run = &self.mailboxes[entry.mailbox].partially_run;
            entry.waiting() > 0 && !partially_run.contains(&(entry.deadline(), *request))
        })
    }

    /// Orders waiting requests again, by new keys and a new mark for those over the cost limit. `urgency` and
    /// `shared` as in [`Self::new`].
    pub(super) fn reorder(
        &mut self,
        waiting: Vec<(RequestId, Timestamp, bool)>,
        urgency: bool,
        shared: bool,
    ) {
        (self.urgency, self.shared) = (urgency, shared);
        for mailbox in &mut self.mailboxes {
            *mailbox = Mailbox {
                partially_run: std::mem::take(&mut mailbox.partially_run),
                items: mailbox.items,
                ..Mailbox::default()
            };
        }
        let droppable = |(_, entry): &(RequestId, &Entry)| entry.droppable && entry.started < entry.items;
        for (request, entry) in self.all.iter().filter(droppable).filter(|_| urgency) {
            let urgent = &mut self.mailboxes[entry.mailbox].urgent;
            urgent.push(Reverse((entry.deadline(), request)));
        }
        for (request, key, deprioritized) in waiting {
            if let Some(entry) = self.all.get_mut(request) {
                (entry.key, entry.deprioritized) = (key, deprioritized);
                self.mailboxes[entry.mailbox].push(entry, request, shared);
            }
        }
    }

    /// Removes a request, whether it waits, is bound or runs.
    pub(super) fn remove(&mut self, request: RequestId) -> Option<Entry> {
        let entry = self.all.remove(request)?;
        let waiting = entry.waiting();
        if waiting == 0 {
            return Some(entry);
        }
        let from = &mut self.mailboxes[entry.mailbox];
        if entry.bound == 0 || !from.partially_run.remove(&(entry.deadline(), request)) {
            let line = if entry.deprioritized {
                &mut from.deprioritized
            } else {
                &mut from.waiting
            };
            line.remove(entry.key, request);
            from.forget(&entry, request);
        }
        from.items -= u64::from(waiting);
        self.items -= u64::from(waiting);
        Some(entry)
    }

    pub(super) fn get(&self, request: RequestId) -> Option<&Entry> {
        self.all.get(request)
    }

    pub(super) fn len(&self) -> usize {
        self.all.len()
    }

    /// Items that wait for a batch, in all mailboxes.
    pub(super) fn waiting_items(&self) -> u64 {
        self.items
    }

    /// Number of waiting items, over all mailboxes, of requests whose key is before `until`.
    pub(super) fn waiting_items_until(&self, until: Timestamp) -> u64 {
        let waiting = |request: RequestId| self.get(request).map_or(0, |entry| u64::from(entry.waiting()));
        let of = |mailbox: &Mailbox| -> u64 {
            let lines = [&mailbox.waiting, &mailbox.deprioritized].into_iter();
            let in_line = lines.flat_map(|line| line.iter().take_while(|(key, ..)| *key < until));
            let partially_run = mailbox
                .partially_run
                .iter()
                .take_while(|(deadline, _)| *deadline < until);
            let requests = in_line.map(|(_, request, ())| request);
            requests
                .chain(partially_run.map(|(_, request)| *request))
                .map(waiting)
                .sum()
        };
        self.mailboxes.iter().map(of).sum()
    }

    /// Requests that wait in one mailbox.
    pub(super) fn requests_in(&self, mailbox: usize) -> u64 {
        let of = &self.mailboxes[mailbox];
        (of.waiting.len() + of.deprioritized.len() + of.partially_run.len()) as u64
    }

    /// Items that wait for a batch in one mailbox.
    pub(super) fn items_in(&self, mailbox: usize) -> u64 {
        self.mailboxes[mailbox].items
    }

    /// Returns the next request of a mailbox: one that is partially bound, else the one at `end`, which
    /// leaves the queue.
    pub(super) fn next(&mut self, mailbox: usize, end: End) -> Option<RequestId> {
        let from = &mut self.mailboxes[mailbox];
        if let Some((_, partially_run)) = from.partially_run.first() {
            return Some(*partially_run);
        }
        let first = |line: &Depq<()>| line.peek(end).map(|(key, ..)| key);
        let deprioritized = match (first(&from.waiting), first(&from.deprioritized)) {
            (Some(waiting), Some(deprioritized)) => end == End::Low && deprioritized < waiting,
            (waiting, _) => waiting.is_none(),
        };
        let line = if deprioritized {
            &mut from.deprioritized
        } else {
            &mut from.waiting
        };
        let (_, request, ()) = line.pop(end)?;
        if self.shared
            && let Some(entry) = self.all.get(request)
        {
            from.forget(entry, request);
        }
        Some(request)
    }

    /// Returns the next request if streams have shares: one that is partially bound, else one that leaves the
    /// queue. Its stream is the next in turn among those with a request that has slack, or among all if slack
    /// does not matter. Requests over the cost limit come when no other has slack.
    pub(super) fn next_by_share(
        &mut self,
        mailbox: usize,
        slack: Option<SlackThreshold>,
        end: End,
        shares: &StreamShares,
        now: Timestamp,
    ) -> Option<RequestId> {
        let from = &mut self.mailboxes[mailbox];
        if let Some((_, partially_run)) = from.partially_run.first() {
            return Some(*partially_run);
        }
        let next = shares.next(from.streams_with_slack(slack), now);
        if next.is_none() && !from.deprioritized.is_empty() {
            return take(&mut from.deprioritized, slack, end);
        }
        let stream = next.or_else(|| shares.next(from.by_stream.keys().copied(), now))?;
        self.take_of(mailbox, stream, slack, end)
    }

    /// Returns the next request of the stream that is furthest behind, among streams with a request that has
    /// slack if there are any. The request leaves the queue unless it is partially bound.
    pub(super) fn next_behind(
        &mut self,
        mailbox: usize,
        slack: Option<SlackThreshold>,
        end: End,
        fair: &FairStreams,
    ) -> Option<RequestId> {
        let from = &self.mailboxes[mailbox];
        if !from.partially_run.is_empty() {
            return None;
        }
        let stream = fair.behind(from.streams_with_slack(slack))?;
        self.take_of(mailbox, stream, slack, end)
    }

    /// Removes and returns the next request of a stream.
    fn take_of(
        &mut self,
        mailbox: usize,
        stream: StreamId,
        slack: Option<SlackThreshold>,
        end: End,
    ) -> Option<RequestId> {
        let from = &mut self.mailboxes[mailbox];
        let request = take(from.by_stream.get_mut(&stream)?, slack, end)?;
        let entry = self.all.get(request)?;
        from.waiting.remove(entry.key, request);
        from.forget(entry, request);
        Some(request)
    }

    /// Smallest key of the requests that wait in a mailbox.
    pub(super) fn first_key(&self, mailbox: usize) -> Option<Timestamp> {
        let of = &self.mailboxes[mailbox];
        let lines = [&of.waiting, &of.deprioritized].into_iter();
        lines
            .filter_map(|line| line.peek(End::Low))
            .map(|(key, ..)| key)
            .min()
    }

    /// Returns the next request if those with slack go first: one that is partially bound, else the most
    /// urgent one with slack, else the last of the others. Requests over the cost limit come when no other
    /// has slack, or all others have plenty.
    pub(super) fn next_with_slack(&mut self, mailbox: usize, slack: SlackThreshold) -> Option<RequestId> {
        let from = &mut self.mailboxes[mailbox];
        if let Some((_, partially_run)) = from.partially_run.first() {
            return Some(*partially_run);
        }
        let first = |line: &Depq<()>| line.range_from(slack.from).next().map(|(key, _)| key);
        let deprioritized = !from.deprioritized.is_empty()
            && match (first(&from.waiting), first(&from.deprioritized)) {
                (Some(waiting), Some(deprioritized)) => {
                    waiting >= slack.relaxed_from && deprioritized < waiting
                }
                (None, Some(_)) => true,
                (_, None) => from.waiting.is_empty(),
            };
        let line = if deprioritized {
            &mut from.deprioritized
        } else {
            &mut from.waiting
        };
        let request = take_next(line, slack)?;
        if self.shared
            && let Some(entry) = self.all.get(request)
        {
            from.forget(entry, request);
        }
        Some(request)
    }

    /// Waiting requests of a mailbox, smallest key first.
    pub(super) fn waiting(&self, mailbox: usize) -> impl Iterator<Item = RequestId> {
        let waiting = self.mailboxes[mailbox].waiting.iter();
        waiting.map(|(_, request, ())| request)
    }

    /// All that have items waiting in a mailbox.
    pub(super) fn standing(&self, mailbox: usize) -> impl Iterator<Item = RequestId> {
        let of = &self.mailboxes[mailbox];
        let lines = of.waiting.iter().chain(of.deprioritized.iter());
        let partially_run = of.partially_run.iter().map(|(_, request)| *request);
        lines.map(|(_, request, ())| request).chain(partially_run)
    }

    /// Candidates for the most urgent request: the first partially bound one, and the first waiting one.
    pub(super) fn foremost(&self, mailbox: usize) -> impl Iterator<Item = RequestId> {
        let of = &self.mailboxes[mailbox];
        let partially_run = of.partially_run.first().map(|(_, request)| *request);
        partially_run
            .into_iter()
            .chain(of.waiting.peek(End::Low).map(|(_, request, _)| request))
            .chain(of.deprioritized.peek(End::Low).map(|(_, request, _)| request))
    }

    /// Binds up to `room` items of `request`; returns the index of the first one and their number.
    pub(super) fn bind(&mut self, request: RequestId, room: u32) -> (u32, u32) {
        let Some(entry) = self.all.get_mut(request) else {
            return (0, 0);
        };
        let (first, count) = (entry.bound, entry.waiting().min(room));
        entry.bound += count;
        let mailbox = &mut self.mailboxes[entry.mailbox];
        mailbox.items -= u64::from(count);
        self.items -= u64::from(count);
        let place = (entry.deadline(), request);
        if entry.waiting() > 0 {
            mailbox.partially_run.insert(place);
        } else if first > 0 {
            mailbox.partially_run.remove(&place);
        }
        (first, count)
    }

    /// Marks `items` as running. A request without items left to run cannot be dropped early any more.
    /// Returns the latency objective of the request; `None` if it is not here.
    pub(super) fn started(&mut self, request: RequestId, items: u32) -> Option<Span> {
        let entry = self.all.get_mut(request);
        let holds = invariant!(
            entry
                .as_ref()
                .is_some_and(|entry| items <= entry.bound.saturating_sub(entry.started)),
            Kind::Items,
            "{items} items of request {} run that are not bound: {entry:?}",
            request.0
        );
        let entry = entry?;
        if holds {
            entry.started += items;
        }
        Some(entry.slo)
    }

    /// The droppable request with the earliest deadline among those with items that do not run yet, bound or
    /// not; with its deadline.
    pub(super) fn most_urgent(&mut self, mailbox: usize) -> Option<(RequestId, Timestamp)> {
        let stands = |request: RequestId| {
            let entry = self.all.get(request);
            entry.is_some_and(|entry| entry.started < entry.items && entry.mailbox == mailbox)
        };
        let urgent = &mut self.mailboxes[mailbox].urgent;
        if urgent.len() > STALE * self.all.len().max(1) {
            urgent.retain(|Reverse((_, request))| stands(*request));
        }
        while let Some(&Reverse((deadline, request))) = urgent.peek() {
            if stands(request) {
                return Some((request, deadline));
            }
            urgent.pop();
        }
        None
    }

    /// Lower bound of these deadlines; `None` if there are none. The first entry may be stale: removing stale
    /// entries is what costs time.
    pub(super) fn urgent_from(&self, mailbox: usize) -> Option<Timestamp> {
        let first = self.mailboxes[mailbox].urgent.peek();
        first.map(|Reverse((deadline, _))| *deadline)
    }

    /// Marks `items` as ended; returns the entry if they were its last. Legal for a request that is not here:
    /// it was dropped, or cancelled by a sibling, while its batch ran.
    pub(super) fn done(&mut self, request: RequestId, items: u32) -> Option<Entry> {
        let entry = self.all.get_mut(request)?;
        let holds = invariant!(
            items <= entry.started.saturating_sub(entry.done),
            Kind::Items,
            "{items} items of request {} come back that do not run: {entry:?}",
            request.0
        );
        if !holds {
            return None;
        }
        entry.done += items;
        if entry.done < entry.items {
            None
        } else {
            self.remove(request)
        }
    }
}

/// Removes the next request of a queue: by slack, or the one at `end` if slack does not matter.
fn take(line: &mut Depq<()>, slack: Option<SlackThreshold>, end: End) -> Option<RequestId> {
    match slack {
        Some(slack) => take_next(line, slack),
        None => line.pop(end).map(|(_, request, ())| request),
    }
}

/// Removes the first request with slack. The threshold is randomized for each request; if none of the first
/// requests has slack, the first beyond the random range is taken.
fn take_next(line: &mut Depq<()>, slack: SlackThreshold) -> Option<RequestId> {
    let has_time = |key: Timestamp, request: RequestId| key >= slack.starts_at(request);
    if let Some((_, first, ())) = line.pop_low_if(has_time) {
        return Some(first);
    }
    let by_lot = line
        .range_from(slack.earliest())
        .take(MAX_CANDIDATES)
        .find(|&(key, request)| has_time(key, request));
    match by_lot.or_else(|| line.range_from(slack.from).next()) {
        Some((key, request)) => line.remove(key, request).map(|()| request),
        None => line.pop(End::High).map(|(_, request, ())| request),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::violation::assert_violates;
    use weir_types::Span;

    fn at(ms: u64) -> Timestamp {
        Timestamp::ZERO + Span::from_millis(ms)
    }

    /// A mailbox set with waiting requests, and with others over the cost limit, by deadlines in
    /// milliseconds.
    fn mailboxes(waiting: &[u64], deprioritized: &[u64]) -> MailboxSet {
        let mut queues = MailboxSet::new(1, true, false);
        let all = waiting.iter().map(|ms| (*ms, false));
        for (ms, deprioritized) in all.chain(deprioritized.iter().map(|ms| (*ms, true))) {
            let mut entry = Entry::new(StreamId(0), Timestamp::ZERO, Span::ZERO, Timestamp::ZERO, 1, true);
            (entry.key, entry.deprioritized) = (at(ms), deprioritized);
            queues.insert(RequestId(ms), entry, 0);
        }
        queues
    }

    #[test]
    fn items_that_run_unbound_or_come_back_without_having_run_are_a_violation() {
        let request = RequestId(10);
        let bound = || {
            let mut queues = MailboxSet::new(1, true, false);
            let entry = Entry::new(StreamId(0), Timestamp::ZERO, Span::ZERO, Timestamp::ZERO, 4, true);
            queues.insert(request, entry, 0);
            assert_eq!(queues.bind(request, 2), (0, 2));
            queues
        };
        assert_violates(Kind::Items, || bound().started(request, 3));
        assert_violates(Kind::Items, || bound().started(RequestId(11), 1));
        let done = assert_violates(Kind::Items, || {
            let mut queues = bound();
            queues.started(request, 2);
            assert!(queues.done(request, 1).is_none());
            queues.done(request, 2)
        });
        assert!(done.is_none(), "two items are left to be bound");
    }

    #[test]
    fn deprioritized_requests_wait_until_the_others_have_plenty_of_time() {
        let slack = SlackThreshold {
            from: at(100),
            relaxed_from: at(200),
            spread: Span::ZERO,
        };
        let next = |waiting: &[u64], deprioritized: &[u64]| {
            mailboxes(waiting, deprioritized)
                .next_with_slack(0, slack)
                .map(|request| request.0)
        };
        assert_eq!(next(&[150, 300], &[120]), Some(150), "the others are pressed");
        assert_eq!(next(&[210, 300], &[120]), Some(120), "they have time");
        assert_eq!(next(&[210], &[250]), Some(210), "the most urgent of all");
        assert_eq!(next(&[50, 70], &[250]), Some(250), "no other has slack");
        assert_eq!(next(&[50, 70], &[60]), Some(70), "none has: high budget first");
        assert_eq!(next(&[], &[60, 80]), Some(80));
        assert_eq!(next(&[], &[]), None);
    }
}

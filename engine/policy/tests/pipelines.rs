//! A module with a partitioned model, its reservations, and a small world that runs bookings on shares, one batch at a time
//! each: requests end once, and bookings hold.

#![allow(clippy::unwrap_used, reason = "a test may fail by panicking")]

use std::collections::{BTreeMap, BTreeSet};

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use weir_policy::reservations::*;
use weir_policy::*;
use weir_types::*;

const SLO: Span = Span::from_millis(120);

fn ms(ms: u64) -> Span {
    Span::from_millis(ms)
}

/// Parameters of a run.
#[derive(Debug, Clone, Copy)]
struct Case {
    seed: u64,
    /// Requests a second.
    rate: f64,
    /// Maximum relative deviation of durations from the profile, in either direction.
    noise: f64,
    /// Whether shares go down and up during the run.
    faults: bool,
    droppable: bool,
    /// Whether all durations are eight times as long from second 2 to second 5.
    slow: bool,
    tables: BookingTable,
}

/// Two stages over three servers: two slow shares, then one fast. 4 items in 40 and 20 ms: 200 a second, and 200.
fn cluster() -> ClusterSpec {
    let share = |server, device, class: &str| ShareSpec {
        server: ServerId(server),
        device,
        class: class.to_owned(),
    };
    let stage = |blocks, shares: &[u32], one: u64, four: u64, received_bytes| StageSpec {
        blocks,
        shares: shares.iter().copied().map(ShareId).collect(),
        profile: Profile::new(vec![(1, ms(one)), (4, ms(four))]).unwrap(),
        received_bytes,
    };
    ClusterSpec {
        servers: vec![
            ServerSpec {
                bandwidth_bps: 1_000_000_000
            };
            3
        ],
        shares: vec![share(0, 0, "slow"), share(1, 1, "slow"), share(2, 2, "fast")],
        pipelines: vec![PipelineSpec {
            module: ModuleId(0),
            batch: 4,
            stages: vec![
                stage((0, 4), &[0, 1], 16, 40, 0),
                stage((4, 10), &[2], 8, 20, 125_000),
            ],
        }],
    }
}

fn module() -> Module {
    let profile = Profile::new(vec![(1, ms(25)), (4, ms(64))]).unwrap();
    let peer = ModuleInfo {
        profile: profile.clone(),
        batch: vec![4],
        workers: 3,
        fallback: weir_policy::gears::Fallback::Never,
    };
    Module::new(ModuleSpec {
        ends: Vec::new(),
        generate: None,
        id: ModuleId(0),
        slo: SLO,
        policy: Policy::default(),
        slots: (0..3).map(SlotId).collect(),
        pool: Pool::Pipelines,
        batch: vec![4],
        profile,
        topology: Topology::new(vec![vec![]]),
        peers: vec![peer],
        share: 1.0,
        shares: Vec::new(),
        seed: 1,
        overlap: None,
    })
}

#[derive(Debug, Clone)]
enum Event {
    Arrives,
    Wake,
    Tick,
    /// A use of the batch has ended; it started then.
    Ended(BatchId, usize, Timestamp),
    Share(ShareId, bool),
}

struct BookedPath {
    booking: BookingId,
    size: u32,
    path: Vec<ShareId>,
    finish: Timestamp,
}

/// A batch in flight: transfer and run of each stage in order.
struct Batch {
    booked_path: BookedPath,
    items: u32,
    uses: Vec<(usize, ResourceUse, Span)>,
}

/// The batch on a share, and the ones that wait for it in the order of their bookings.
type Share = (Option<BatchId>, Vec<(BookingId, BatchId)>);

struct World {
    case: Case,
    module: Module,
    reservations: Reservations,
    random: Pcg64Mcg,
    now: Timestamp,
    events: BTreeMap<(Timestamp, u64), Event>,
    sequence: u64,
    sent: BTreeMap<RequestId, Timestamp>,
    ended: BTreeMap<RequestId, (bool, Timestamp)>,
    booked_paths: BTreeMap<BookingId, BookedPath>,
    batches: BTreeMap<BatchId, Batch>,
    shares: Vec<Share>,
    down: BTreeSet<ShareId>,
    lateness: Vec<Span>,
}

impl World {
    fn run(case: Case) -> Self {
        let spec = ReserveSpec {
            cluster: cluster(),
            tables: case.tables,
            feedback: true,
            corrected: !case.seed.is_multiple_of(3),
            head_min_fraction: 0.95,
        };
        let mut world = Self {
            case,
            module: module(),
            reservations: Reservations::new(&spec),
            random: Pcg64Mcg::seed_from_u64(case.seed),
            now: Timestamp::ZERO,
            events: BTreeMap::new(),
            sequence: 0,
            sent: BTreeMap::new(),
            ended: BTreeMap::new(),
            booked_paths: BTreeMap::new(),
            batches: BTreeMap::new(),
            shares: vec![(None, Vec::new()); 3],
            down: BTreeSet::new(),
            lateness: Vec::new(),
        };
        world.schedule(ms(1), Event::Arrives);
        world.schedule(ms(100), Event::Tick);
        if case.faults {
            for at in [2_000, 4_500, 7_000] {
                let share = ShareId(world.random.random_range(0..3));
                world.schedule(ms(at), Event::Share(share, false));
                world.schedule(ms(at + 700), Event::Share(share, true));
            }
        }
        while let Some(((at, _), event)) = world.events.pop_first() {
            if at > Timestamp::ZERO + Span::from_secs(60) {
                break;
            }
            world.now = at;
            world.handle(&event);
        }
        world
    }

    fn schedule(&mut self, after: Span, event: Event) {
        self.sequence += 1;
        self.events.insert((self.now + after, self.sequence), event);
    }

    fn handle(&mut self, event: &Event) {
        match *event {
            Event::Arrives => {
                let request = RequestId(self.sent.len() as u64);
                self.sent.insert(request, self.now);
                if self.now < Timestamp::ZERO + Span::from_secs(10) {
                    let gap = -(1.0 - self.random.random::<f64>()).ln() / self.case.rate;
                    self.schedule(Span::from_secs_f64(gap), Event::Arrives);
                }
                self.send(ModuleEvent::Arrived {
                    request,
                    stream: StreamId(0),
                    sent_at: self.now,
                    items: 1,
                    droppable: self.case.droppable,
                    slo: None,
                });
            }
            Event::Tick => {
                self.schedule(ms(100), Event::Tick);
                self.reserve(ReserveEvent::Tick);
                self.send(ModuleEvent::Tick);
            }
            Event::Wake => {
                self.reserve(ReserveEvent::Tick);
                self.step(None);
            }
            Event::Ended(batch, place, began) => self.use_ended(batch, place, began),
            Event::Share(share, true) => {
                self.down.remove(&share);
                self.reserve(ReserveEvent::Up { share });
            }
            Event::Share(share, false) => {
                self.down.insert(share);
                self.shares[share.index()] = (None, Vec::new());
                self.reserve(ReserveEvent::Down { share });
            }
        }
    }

    fn send(&mut self, event: ModuleEvent) {
        self.step(Some(event));
    }

    fn step(&mut self, event: Option<ModuleEvent>) {
        let mut effects = Vec::new();
        self.module.step(event, self.now, &mut effects);
        for effect in effects {
            let module = ModuleId(0);
            match effect {
                ModuleEffect::RequestPath(ask) => {
                    self.reserve(ReserveEvent::PathRequested { module, request: ask })
                }
                ModuleEffect::CancelBid { .. } => self.reserve(ReserveEvent::RequestCancelled { module }),
                ModuleEffect::CancelBooking { booking } => {
                    self.booked_paths.remove(&booking).unwrap();
                    self.reserve(ReserveEvent::Declined { booking });
                }
                ModuleEffect::Dispatch {
                    booking,
                    batch,
                    slices,
                    ..
                } => self.dispatch(booking, batch, &slices),
                ModuleEffect::Forward { request } => self.end(request, true),
                ModuleEffect::Drop { request, .. } => {
                    assert!(
                        self.case.droppable || self.case.faults,
                        "{request:?} must not be dropped"
                    );
                    self.end(request, false);
                }
                ModuleEffect::SetTimer { at } => self.schedule(at.since(self.now), Event::Wake),
                ModuleEffect::Spent { .. }
                | ModuleEffect::Publish(_)
                | ModuleEffect::PublishFanOut { .. } => {}
                other => panic!("unexpected effect of a pool of pipelines: {other:?}"),
            }
        }
    }

    fn end(&mut self, request: RequestId, out: bool) {
        let before = self.ended.insert(request, (out, self.now));
        assert_eq!(before, None, "{request:?} ends twice");
    }

    fn reserve(&mut self, event: ReserveEvent) {
        let mut effects = Vec::new();
        self.reservations.step([event], self.now, &mut effects);
        for effect in effects {
            match effect {
                ReserveEffect::Book {
                    booking,
                    size,
                    path,
                    finish,
                    ..
                } => {
                    let booked_path = BookedPath {
                        booking,
                        size,
                        path: path.iter().map(|leg| leg.share).collect(),
                        finish,
                    };
                    self.booked_paths.insert(booking, booked_path);
                    self.send(ModuleEvent::Booked {
                        booking,
                        size,
                        finish,
                    });
                }
                ReserveEffect::NoPath { finish, .. } => self.send(ModuleEvent::NoPath { finish }),
                ReserveEffect::Lost { booking, .. } => self.on_lost(booking),
                ReserveEffect::SetTimer { at } => self.schedule(at.since(self.now), Event::Wake),
            }
        }
    }

    fn dispatch(&mut self, booking: BookingId, id: BatchId, slices: &[BatchSlice]) {
        let booked_path = self.booked_paths.remove(&booking).unwrap();
        let items: u32 = slices.iter().map(|slice| slice.count).sum();
        assert!(
            items > 0 && items <= booked_path.size,
            "{items} items were booked for {}",
            booked_path.size
        );
        let spec = cluster();
        let mut uses = Vec::new();
        for (stage, known) in spec.pipelines[0].stages.iter().enumerate() {
            let noise = 1.0 + self.case.noise * (2.0 * self.random.random::<f64>() - 1.0);
            if stage > 0 {
                uses.push((stage, ResourceUse::Transfer, ms(u64::from(items))));
            }
            let slow = if self.case.slow && (2..5).contains(&(self.now.micros() / 1_000_000)) {
                8.0
            } else {
                1.0
            };
            uses.push((
                stage,
                ResourceUse::Run,
                known.profile.duration(items).scale(noise * slow),
            ));
        }
        self.batches.insert(
            id,
            Batch {
                booked_path,
                items,
                uses,
            },
        );
        self.start_use(id, 0);
    }

    /// Starts a use of a batch, or queues it for its share.
    fn start_use(&mut self, id: BatchId, place: usize) {
        let batch = &self.batches[&id];
        let (stage, used, length) = batch.uses[place];
        let (share, booking) = (batch.booked_path.path[stage], batch.booked_path.booking);
        if used == ResourceUse::Transfer {
            return self.schedule(length, Event::Ended(id, place, self.now));
        }
        assert!(!self.down.contains(&share), "a batch on a share that is down");
        let (on, waiting) = &mut self.shares[share.index()];
        if on.is_some() {
            waiting.push((booking, id));
            waiting.sort_unstable();
            return;
        }
        *on = Some(id);
        self.schedule(length, Event::Ended(id, place, self.now));
    }

    fn use_ended(&mut self, id: BatchId, place: usize, from: Timestamp) {
        let Some(batch) = self.batches.get(&id) else {
            return;
        };
        let (stage, used, _) = batch.uses[place];
        let (booking, share) = (batch.booked_path.booking, batch.booked_path.path[stage]);
        let last = place + 1 == batch.uses.len();
        self.reserve(ReserveEvent::Used {
            booking,
            stage: stage as u32,
            used,
            from,
            to: self.now,
        });
        if used == ResourceUse::Run {
            self.free(share, id);
        }
        if !last {
            return self.start_use(id, place + 1);
        }
        let batch = self.batches.remove(&id).unwrap();
        self.lateness.push(self.now.since(batch.booked_path.finish));
        self.reserve(ReserveEvent::Finished { booking });
        assert!(batch.items > 0);
        self.send(ModuleEvent::Finished {
            batch: id,
            took: ms(40),
        });
    }

    fn free(&mut self, share: ShareId, id: BatchId) {
        let (on, waiting) = &mut self.shares[share.index()];
        if *on != Some(id) {
            return;
        }
        *on = None;
        if !waiting.is_empty() {
            let (_, next) = waiting.remove(0);
            let uses = &self.batches[&next].uses;
            let of_share = |(stage, used, _): &(usize, ResourceUse, Span)| {
                *used == ResourceUse::Run && self.batches[&next].booked_path.path[*stage] == share
            };
            let place = uses.iter().position(of_share).unwrap();
            self.start_use(next, place);
        }
    }

    /// A booking is lost, and its batch wherever it is.
    fn on_lost(&mut self, booking: BookingId) {
        self.booked_paths.remove(&booking);
        let found = self
            .batches
            .iter()
            .find(|(_, batch)| batch.booked_path.booking == booking);
        let Some((&id, _)) = found else { return };
        let batch = self.batches.remove(&id).unwrap();
        for (_, waiting) in &mut self.shares {
            waiting.retain(|(_, waits)| *waits != id);
        }
        for share in batch.booked_path.path {
            self.free(share, id);
        }
        self.send(ModuleEvent::Lost {
            batch: id,
            took: Span::ZERO,
        });
    }

    fn on_time_fraction(&self) -> f64 {
        let on_time_fraction = |(request, (out, at)): (&RequestId, &(bool, Timestamp))| {
            *out && at.since(self.sent[request]) <= SLO
        };
        let count = self
            .ended
            .iter()
            .filter(|ended| on_time_fraction((ended.0, ended.1)))
            .count();
        count as f64 / self.sent.len() as f64
    }
}

fn cases(faults: bool, droppable: bool) -> impl Iterator<Item = Case> {
    (0..12_u64).map(move |seed| Case {
        seed,
        rate: [60.0, 120.0, 190.0, 400.0][seed as usize % 4],
        noise: [0.0, 0.1, 0.3][seed as usize % 3],
        faults,
        droppable,
        slow: false,
        tables: if seed % 2 == 0 {
            BookingTable::Intervals
        } else {
            BookingTable::BusyUntil
        },
    })
}

#[test]
fn every_request_ends_once_when_shares_fail() {
    for faults in [false, true] {
        for case in cases(faults, true) {
            let world = World::run(case);
            assert_eq!(world.ended.len(), world.sent.len(), "{case:?}");
            assert_eq!(world.module.requests(), 0, "{case:?}");
            assert!(
                world.booked_paths.is_empty() && world.batches.is_empty(),
                "{case:?}"
            );
        }
    }
}

#[test]
fn undroppable_requests_complete_late_under_overload() {
    for case in cases(false, false) {
        let world = World::run(case);
        let out = world.ended.values().filter(|(out, _)| *out).count();
        assert_eq!(
            (out, world.ended.len()),
            (world.sent.len(), world.sent.len()),
            "{case:?}"
        );
    }
}

#[test]
fn bookings_end_on_time_where_durations_match_the_profile() {
    for case in cases(false, true).filter(|case| case.noise == 0.0) {
        let world = World::run(case);
        assert!(
            world
                .lateness
                .iter()
                .all(|lateness| *lateness <= Span::from_micros(1)),
            "{case:?}: {:?}",
            world.lateness.iter().max()
        );
        let lateness = world
            .ended
            .iter()
            .filter(|(request, (out, at))| *out && at.since(world.sent[request]) > SLO);
        assert_eq!(lateness.count(), 0, "{case:?}");
    }
}

#[test]
fn goodput_reaches_the_capacity_of_the_pipelines() {
    for case in cases(false, true) {
        let world = World::run(case);
        let can = (200.0 / case.rate).min(1.0);
        let least = if case.rate < 150.0 {
            0.97
        } else {
            (0.8 - case.noise) * can
        };
        assert!(
            world.on_time_fraction() >= least,
            "{case:?}: {} in time",
            world.on_time_fraction()
        );
    }
}

/// If everything is slower than the SLO, no batch runs and nothing is measured; the device must be tried
/// again nevertheless.
#[test]
fn a_device_that_was_slow_is_used_again_once_it_is_fast() {
    for case in cases(false, true).filter(|case| case.rate < 150.0) {
        let world = World::run(Case { slow: true, ..case });
        let later = |sent: &Timestamp| *sent >= Timestamp::ZERO + Span::from_secs(8);
        let (mut sent, mut on_time_fraction) = (0, 0);
        for (request, sent_at) in world.sent.iter().filter(|(_, at)| later(at)) {
            let (out, at) = world.ended[request];
            sent += 1;
            on_time_fraction += u32::from(out && at.since(*sent_at) <= SLO);
        }
        assert!(
            f64::from(on_time_fraction) >= 0.9 * f64::from(sent),
            "{case:?}: {on_time_fraction} of {sent} in time three seconds after it is fast again"
        );
    }
}

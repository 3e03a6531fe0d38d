//! Reservations case by case.

use super::*;
use crate::violation::assert_violates;
use weir_types::invariant::Kind;
use weir_types::*;

const MODULE: ModuleId = ModuleId(0);

/// One pipeline: a stage of one share, then one of two, each on a server of its own; a batch of `n` takes 10n, then 20n
/// microseconds, and 2n over a link.
fn pipeline(batch: u32, tables: BookingTable, head_min_fraction: f64) -> Reservations {
    Reservations::new(&spec(batch, tables, head_min_fraction))
}

/// The same, with durations corrected by measurements.
fn corrected(batch: u32) -> Reservations {
    Reservations::new(&ReserveSpec {
        corrected: true,
        ..spec(batch, BookingTable::Intervals, 0.95)
    })
}

fn spec(batch: u32, tables: BookingTable, head_min_fraction: f64) -> ReserveSpec {
    let profile = |per_item: u64| {
        let points = (1..=8).map(|size| (size, Span::from_micros(per_item * u64::from(size))));
        Profile::new(points.collect()).unwrap()
    };
    let share = |server| ShareSpec {
        server: ServerId(server),
        device: server,
        class: "any".to_owned(),
    };
    let stage = |blocks, shares: &[u32], per_item, received_bytes| StageSpec {
        blocks,
        shares: shares.iter().copied().map(ShareId).collect(),
        profile: profile(per_item),
        received_bytes,
    };
    ReserveSpec {
        cluster: ClusterSpec {
            servers: vec![
                ServerSpec {
                    bandwidth_bps: 4_000_000
                };
                3
            ],
            shares: vec![share(0), share(1), share(2)],
            pipelines: vec![PipelineSpec {
                module: MODULE,
                batch,
                stages: vec![stage((0, 1), &[0], 10, 0), stage((1, 2), &[1, 2], 20, 1)],
            }],
        },
        tables,
        feedback: true,
        corrected: false,
        head_min_fraction,
    }
}

fn step(
    reservations: &mut Reservations,
    events: impl IntoIterator<Item = ReserveEvent>,
    now: u64,
) -> Vec<ReserveEffect> {
    let mut effects = Vec::new();
    reservations.step(events, at(now), &mut effects);
    effects
}

fn request(deadline: u64, since: u64, waiting: u32) -> ReserveEvent {
    let request = PathRequest {
        deadline: at(deadline),
        since: at(since),
        waiting,
    };
    ReserveEvent::PathRequested {
        module: MODULE,
        request,
    }
}

/// Size, shares, start and finish of each booking.
fn booked(effects: &[ReserveEffect]) -> Vec<(u32, Vec<u32>, u64, u64)> {
    effects
        .iter()
        .filter_map(|effect| match effect {
            ReserveEffect::Book {
                size,
                path,
                start,
                finish,
                ..
            } => {
                let shares = path.iter().map(|stage| stage.share.0).collect();
                Some((*size, shares, start.micros(), finish.micros()))
            }
            _ => None,
        })
        .collect()
}

/// The run of each stage.
fn runs(all: &Reservations, id: u64) -> Vec<(u64, u64)> {
    let path = all.booked(BookingId(id)).unwrap();
    let run = |stage: &PathStage| (stage.run.from.micros(), stage.run.to.micros());
    path.iter().map(run).collect()
}

#[test]
fn batches_use_the_shares_of_a_pool_in_parallel() {
    let mut all = pipeline(1, BookingTable::Intervals, 0.95);
    assert_eq!(
        booked(&step(&mut all, [request(100, 0, 9)], 0)),
        [(1, vec![0, 1], 0, 32)]
    );
    assert_eq!(
        booked(&step(&mut all, [request(100, 0, 8)], 0)),
        [(1, vec![0, 2], 10, 42)]
    );
    assert_eq!(
        booked(&step(&mut all, [request(100, 0, 7)], 0)),
        [(1, vec![0, 1], 20, 52)]
    );
}

#[test]
fn an_infeasible_request_is_answered_with_the_earliest_finish() {
    let mut all = pipeline(1, BookingTable::Intervals, 0.95);
    let finish = at(32);
    assert_eq!(
        step(&mut all, [request(31, 0, 1)], 0),
        [ReserveEffect::NoPath {
            module: MODULE,
            finish
        }]
    );
    assert_eq!(
        step(&mut all, [ReserveEvent::Tick], 40),
        [],
        "one request, one answer"
    );
}

#[test]
fn a_larger_batch_is_waited_for_until_it_would_be_late() {
    let mut all = pipeline(2, BookingTable::Intervals, 0.95);
    // Two items take 64, so there is time to wait until 36.
    assert_eq!(
        step(&mut all, [request(100, 0, 1)], 0),
        [ReserveEffect::SetTimer { at: at(36) }]
    );
    assert_eq!(step(&mut all, [ReserveEvent::Tick], 35), []);
    assert_eq!(
        booked(&step(&mut all, [ReserveEvent::Tick], 36)),
        [(1, vec![0, 1], 36, 68)]
    );
    let mut all = pipeline(2, BookingTable::Intervals, 0.95);
    step(&mut all, [request(100, 0, 1)], 0);
    assert_eq!(
        booked(&step(&mut all, [request(100, 0, 2)], 10)),
        [(2, vec![0, 1], 10, 74)]
    );
}

#[test]
fn the_head_rule_decides_whether_a_batch_may_shrink() {
    let check = |fraction, deadline, expected: &[u32]| {
        let mut all = pipeline(4, BookingTable::Intervals, fraction);
        let effects = step(&mut all, [request(deadline, 0, 4)], 0);
        let sizes: Vec<u32> = booked(&effects).iter().map(|(size, ..)| *size).collect();
        assert_eq!(sizes, expected, "{fraction} {deadline}");
    };
    check(0.95, 128, &[4]);
    check(0.95, 127, &[]);
    check(0.75, 96, &[3]);
    check(0.0, 127, &[3]);
    check(0.0, 31, &[]);
    // After the head has passed, the batch may shrink.
    let mut all = pipeline(4, BookingTable::Intervals, 0.95);
    step(&mut all, [request(140, 0, 1)], 0);
    assert_eq!(
        booked(&step(&mut all, [request(140, 0, 3)], 40)),
        [(3, vec![0, 1], 40, 136)]
    );
}

#[test]
fn reported_uses_reschedule_later_ones() {
    let mut all = pipeline(1, BookingTable::Intervals, 0.95);
    for _ in 0..2 {
        step(&mut all, [request(1_000, 0, 1)], 0);
    }
    let used = |booking, stage, used, from, to| ReserveEvent::Used {
        booking: BookingId(booking),
        stage,
        used,
        from: at(from),
        to: at(to),
    };
    // The first run takes 14 instead of 10: its successors start 4 later.
    step(&mut all, [used(0, 0, ResourceUse::Run, 0, 14)], 14);
    assert_eq!(runs(&all, 0), [(0, 14), (16, 36)]);
    assert_eq!(runs(&all, 1), [(14, 24), (26, 46)]);
    // The second run takes 6: its successors start earlier.
    step(&mut all, [used(1, 0, ResourceUse::Run, 14, 20)], 20);
    assert_eq!(runs(&all, 1), [(14, 20), (22, 42)]);
    step(
        &mut all,
        [
            used(0, 1, ResourceUse::Transfer, 14, 16),
            used(1, 1, ResourceUse::Transfer, 20, 22),
        ],
        22,
    );
    // Unreported uses continue: at 45 both still run.
    step(&mut all, [ReserveEvent::Tick], 45);
    assert_eq!(all.probe(PipelineId(0), 1, at(45)).unwrap().finish, at(77));
    step(&mut all, [used(0, 1, ResourceUse::Run, 16, 45)], 45);
    assert_eq!(all.booked(BookingId(0)), None, "finished");
}

#[test]
fn a_batch_of_fewer_items_than_booked_frees_the_rest_of_its_booking() {
    let mut all = pipeline(4, BookingTable::Intervals, 0.95);
    for _ in 0..2 {
        step(&mut all, [request(1_000, 0, 4)], 0);
    }
    assert_eq!(runs(&all, 0), [(0, 40), (48, 128)]);
    assert_eq!(runs(&all, 1), [(40, 80), (88, 168)]);
    let dispatched = |booking, items| ReserveEvent::Dispatched {
        booking: BookingId(booking),
        items,
    };
    step(&mut all, [dispatched(1, 4)], 0);
    assert_eq!(runs(&all, 1), [(40, 80), (88, 168)], "as booked");
    step(&mut all, [dispatched(0, 1)], 0);
    assert_eq!(runs(&all, 0), [(0, 10), (12, 32)]);
    assert_eq!(runs(&all, 1), [(10, 50), (58, 138)]);
}

#[test]
fn durations_are_measured_by_the_items_of_the_batch() {
    let mut all = corrected(4);
    for batch in 0..20_u64 {
        let now = batch * 1_000;
        step(&mut all, [request(now + 900, now, 4)], now);
        let booking = BookingId(batch);
        let run = |stage, from, to| ReserveEvent::Used {
            booking,
            stage,
            used: ResourceUse::Run,
            from: at(now + from),
            to: at(now + to),
        };
        step(&mut all, [ReserveEvent::Dispatched { booking, items: 1 }], now);
        step(&mut all, [run(0, 0, 10), run(1, 12, 32)], now + 32);
    }
    let now = 20_000;
    let finish = all.probe(PipelineId(0), 4, at(now)).unwrap().finish;
    assert_eq!(finish, at(now + 128), "as profiled, since each ran as profiled");
}

#[test]
fn a_link_that_is_slower_than_planned_is_avoided() {
    let mut all = corrected(1);
    let mut chosen = Vec::new();
    for batch in 0..20_u64 {
        let now = batch * 1_000;
        step(&mut all, [request(now + 900, now, 1)], now);
        let booking = BookingId(batch);
        let share = all.booked(booking).unwrap()[1].share;
        chosen.push(share);
        let sent = now + 10 + if share == ShareId(1) { 8 } else { 2 };
        let use_of = |stage, used, from, to| ReserveEvent::Used {
            booking,
            stage,
            used,
            from: at(from),
            to: at(to),
        };
        let uses = [
            use_of(0, ResourceUse::Run, now, now + 10),
            use_of(1, ResourceUse::Transfer, now + 10, sent),
            use_of(1, ResourceUse::Run, sent, sent + 20),
        ];
        step(&mut all, uses, sent + 20);
    }
    assert_eq!(chosen[0], ShareId(1), "both links have the same bandwidth");
    assert!(chosen[1..].iter().all(|share| *share == ShareId(2)), "{chosen:?}");
    step(&mut all, [ReserveEvent::Down { share: ShareId(2) }], 20_000);
    let finish = all.probe(PipelineId(0), 1, at(20_000)).unwrap().finish;
    assert_eq!(
        finish,
        at(20_033),
        "one transfer of 8 instead of 2 us is a tenth of the mean"
    );
}

#[test]
fn measured_durations_are_known_to_the_next_plan() {
    let mut all = corrected(1);
    for batch in 0..60_u64 {
        let now = batch * 1_000;
        step(&mut all, [request(now + 900, now, 1)], now);
        let booking = BookingId(batch);
        let slow_run = ReserveEvent::Used {
            booking,
            stage: 0,
            used: ResourceUse::Run,
            from: at(now),
            to: at(now + 20),
        };
        step(&mut all, [slow_run], now + 20);
        step(&mut all, [ReserveEvent::Finished { booking }], now + 42);
    }
    let mut next = corrected(1);
    let finish =
        |reservations: &Reservations| reservations.probe(PipelineId(0), 1, at(70_000)).unwrap().finish;
    assert_eq!(finish(&next), at(70_032));
    next.adopt_corrections(&all);
    assert_eq!((finish(&next), finish(&all)), (at(70_042), at(70_042)));
}

#[test]
fn bookings_on_a_lost_share_are_lost() {
    let mut all = pipeline(1, BookingTable::BusyUntil, 0.95);
    for _ in 0..2 {
        step(&mut all, [request(1_000, 0, 1)], 0);
    }
    let (module, booking) = (MODULE, BookingId(1));
    let lost = step(&mut all, [ReserveEvent::Down { share: ShareId(2) }], 1);
    assert_eq!(lost, [ReserveEffect::Lost { module, booking }]);
    assert_eq!(
        booked(&step(&mut all, [request(1_000, 0, 1)], 1)),
        [(1, vec![0, 1], 10, 52)],
        "around it"
    );
    step(&mut all, [ReserveEvent::Down { share: ShareId(1) }], 1);
    let finish = Timestamp::MAX;
    assert_eq!(
        step(&mut all, [request(1_000, 0, 1)], 1),
        [ReserveEffect::NoPath { module, finish }]
    );
    assert_eq!(
        booked(&step(
            &mut all,
            [ReserveEvent::Up { share: ShareId(2) }, request(1_000, 0, 1)],
            1
        ))
        .len(),
        1
    );
}

#[test]
fn ended_spans_are_removed() {
    let mut all = pipeline(1, BookingTable::Intervals, 0.95);
    all.feedback = false;
    for number in 0..10_000 {
        let now = number * 40;
        step(&mut all, [request(now + 40, now, 1)], now);
    }
    assert!(all.bookings.all.len() < 200, "{}", all.bookings.all.len());
    assert!(all.bookings.tables.iter().all(|table| table.spans.len() < 200));
}

#[test]
fn a_path_that_is_booked_twice_is_a_violation_of_its_first_resource_on() {
    for tables in [BookingTable::Intervals, BookingTable::BusyUntil] {
        let mut reservations = assert_violates(Kind::Bookings, || {
            let mut reservations = pipeline(4, tables, 0.0);
            let probe = reservations.probe(PipelineId(0), 2, at(0)).unwrap();
            reservations.reserve(&probe, at(0));
            reservations.reserve(&probe, at(0));
            reservations
        });
        // Overlapping spans are reported once; without one of the two, nothing overlaps.
        let declined = |booking| ReserveEvent::Declined {
            booking: BookingId(booking),
        };
        step(&mut reservations, [declined(0)], 1);
        let probe = reservations.probe(PipelineId(0), 2, at(1)).unwrap();
        let booking = reservations.reserve(&probe, at(1));
        assert_eq!(reservations.booked(booking), Some(probe.path));
    }
}

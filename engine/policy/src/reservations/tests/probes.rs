//! `probe` against exhaustive search; release; the two kinds of tables.

use super::*;
use crate::reservations::booking_table::{BookedSpan, ResourceTable, UseKey};
use weir_types::*;

/// Books random batches; returns the time after them.
fn fill(reservations: &mut Reservations, batches: u32, random: &mut Pcg64Mcg) -> Timestamp {
    let mut now = at(1);
    for _ in 0..batches {
        let pipeline = PipelineId(random.random_range(0..3));
        if let Some(probe) = reservations.probe(pipeline, random.random_range(1..5), now) {
            reservations.reserve(&probe, now);
        }
        now = now + Span::from_micros(random.random_range(0..20));
    }
    now
}

/// Earliest start of a gap of `length` between all spans, by trying `from` and every end.
fn first_gap(taken: &[Interval], from: Timestamp, length: Span) -> Timestamp {
    let free = |at: Timestamp| taken.iter().all(|span| span.to <= at || span.from >= at + length);
    let ends = taken.iter().map(|span| span.to).filter(|end| *end >= from);
    std::iter::once(from)
        .chain(ends)
        .filter(|at| free(*at))
        .min()
        .unwrap()
}

/// Least finish over all paths.
fn exhaustive_finish(
    spec: &ReserveSpec,
    taken: &[((u32, u32), Interval)],
    probe: &Probe,
    now: Timestamp,
) -> Timestamp {
    let on = |resources: &[(u32, u32)]| -> Vec<Interval> {
        taken
            .iter()
            .filter(|(resource, _)| resources.contains(resource))
            .map(|(_, span)| *span)
            .collect()
    };
    let stages = &spec.cluster.pipelines[probe.pipeline.index()].stages;
    let mut ends: Vec<(Option<ServerId>, Timestamp)> = vec![(None, now)];
    for stage in stages {
        let mut next = Vec::new();
        for (sender, ready) in ends {
            for share in &stage.shares {
                let server = spec.cluster.shares[share.index()].server;
                let mut arrived = ready;
                if let Some(sender) = sender.filter(|sender| *sender != server && stage.received_bytes > 0) {
                    let speed = |server: ServerId| spec.cluster.servers[server.index()].bandwidth_bps;
                    let bits = stage.received_bytes * 8 * u64::from(probe.size);
                    let bandwidth = speed(sender).min(speed(server));
                    let length = Span::from_micros((bits * 1_000_000).div_ceil(bandwidth));
                    arrived = first_gap(&on(&[(1, sender.0), (2, server.0)]), ready, length) + length;
                }
                let duration = stage.profile.duration(probe.size);
                let end = first_gap(&on(&[(0, share.0)]), arrived, duration) + duration;
                next.push((Some(server), end));
            }
        }
        ends = next;
    }
    ends.into_iter().map(|(_, end)| end).min().unwrap()
}

/// Greedy is exact if the choice of a share does not affect later stages: pipelines of one stage, without links, or with a
/// single server in every stage but the last.
fn is_exact(spec: &ReserveSpec, pipeline: PipelineId) -> bool {
    let stages = &spec.cluster.pipelines[pipeline.index()].stages;
    let at_one_place = |stage: &StageSpec| {
        let servers = stage
            .shares
            .iter()
            .map(|share| spec.cluster.shares[share.index()].server);
        servers.collect::<std::collections::BTreeSet<_>>().len() == 1
    };
    let linkless = stages.iter().all(|stage| stage.received_bytes == 0);
    linkless
        || stages
            .split_last()
            .is_none_or(|(_, first)| first.iter().all(at_one_place))
}

#[test]
fn probe_never_beats_exhaustive_search_and_equals_it_where_greedy_is_exact() {
    let (mut exact, mut greedy, mut worse) = (0, 0, 0);
    for seed in 0..1_500 {
        let random = &mut Pcg64Mcg::seed_from_u64(seed);
        let draw = Draw {
            stages: 1 + u32::try_from(seed % 3).unwrap(),
            links: seed % 5 != 0,
            tables: BookingTable::Intervals,
            feedback: true,
            head_min_fraction: 0.0,
        };
        let (spec, mut reservations) = reservations(draw, random);
        let now = fill(&mut reservations, 12, random);
        let all: Vec<Vec<PathStage>> = (0..12)
            .filter_map(|id| reservations.booked(BookingId(id)))
            .collect();
        let taken = check_spans(&spec.cluster, all.iter().map(Vec::as_slice), now, seed);
        for pipeline in (0..3).map(PipelineId) {
            let batch = spec.cluster.pipelines[pipeline.index()].batch;
            let probe = reservations
                .probe(pipeline, random.random_range(1..=batch), now)
                .unwrap();
            let least = exhaustive_finish(&spec, &taken, &probe, now);
            assert!(probe.finish >= least, "seed {seed}: below the optimum");
            if is_exact(&spec, pipeline) {
                assert_eq!(probe.finish, least, "seed {seed}, {pipeline:?}");
                exact += 1;
            } else {
                greedy += 1;
                worse += usize::from(probe.finish > least);
            }
        }
    }
    assert!(
        exact > 1_000 && greedy > 300 && worse > 0,
        "{exact} {greedy} {worse}"
    );
}

#[test]
fn release_restores_the_tables() {
    for seed in 0..500 {
        let random = &mut Pcg64Mcg::seed_from_u64(seed);
        let draw = Draw {
            stages: 3,
            links: true,
            tables: if seed % 2 == 0 {
                BookingTable::BusyUntil
            } else {
                BookingTable::Intervals
            },
            feedback: true,
            head_min_fraction: 0.0,
        };
        let (_, mut reservations) = reservations(draw, random);
        let now = fill(&mut reservations, 10, random);
        let before = reservations.bookings.tables.clone();
        let pipeline = PipelineId(random.random_range(0..3));
        let probe = reservations.probe(pipeline, 1, now).unwrap();
        let booking = reservations.reserve(&probe, now);
        assert_ne!(reservations.bookings.tables, before);
        assert!(reservations.bookings.release(booking).is_some());
        assert_eq!(reservations.bookings.tables, before, "seed {seed}");
        assert_eq!(reservations.probe(pipeline, 1, now), Some(probe), "seed {seed}");
    }
}

/// On one resource always; on a path if greedy is exact, since the server of an early stage may affect later ones.
#[test]
fn busy_until_is_never_earlier_than_intervals() {
    let mut later = 0;
    for seed in 0..1_000 {
        let random = &mut Pcg64Mcg::seed_from_u64(seed);
        let draw = Draw {
            stages: 2,
            links: true,
            tables: BookingTable::Intervals,
            feedback: true,
            head_min_fraction: 0.0,
        };
        let (spec, mut reservations) = reservations(draw, random);
        let now = fill(&mut reservations, 12, random);
        for pipeline in (0..3)
            .map(PipelineId)
            .filter(|pipeline| is_exact(&spec, *pipeline))
        {
            reservations.tables = BookingTable::Intervals;
            let intervals = reservations.probe(pipeline, 1, now).unwrap();
            reservations.tables = BookingTable::BusyUntil;
            let until = reservations.probe(pipeline, 1, now).unwrap();
            assert!(until.finish >= intervals.finish, "seed {seed}");
            later += usize::from(until.finish > intervals.finish);
        }
    }
    assert!(later > 0);
}

#[test]
fn the_first_gap_is_found() {
    let mut table = ResourceTable::default();
    for (number, (from, to)) in (0..).zip([(10, 20), (25, 30), (30, 40)]) {
        let key = UseKey {
            booking: BookingId(number),
            stage: 0,
            used: ResourceUse::Run,
        };
        table.insert(BookedSpan {
            from: at(from),
            to: at(to),
            key,
        });
    }
    let check = |from, length, intervals, until| {
        let length = Span::from_micros(length);
        assert_eq!(
            table.earliest(BookingTable::Intervals, at(from), length),
            at(intervals)
        );
        assert_eq!(
            table.earliest(BookingTable::BusyUntil, at(from), length),
            at(until)
        );
    };
    check(0, 10, 0, 40);
    check(0, 11, 40, 40);
    check(12, 5, 20, 40);
    check(21, 5, 40, 40);
    check(50, 5, 50, 50);
}

/// Two devices on one server, the third on another; all send to a second stage.
#[test]
fn among_idle_shares_the_one_with_a_free_uplink_is_chosen() {
    let share = |server: u32, device: u32| ShareSpec {
        server: ServerId(server),
        device,
        class: "any".to_owned(),
    };
    let stage = |shares: &[u32], received_bytes: u64| StageSpec {
        blocks: (0, 1),
        shares: shares.iter().copied().map(ShareId).collect(),
        profile: Profile::new(vec![(1, Span::from_micros(10))]).unwrap(),
        received_bytes,
    };
    let spec = ReserveSpec {
        cluster: ClusterSpec {
            servers: vec![
                ServerSpec {
                    bandwidth_bps: 1_000_000
                };
                5
            ],
            shares: vec![share(0, 0), share(0, 1), share(1, 2), share(2, 3), share(3, 4)],
            pipelines: vec![PipelineSpec {
                module: ModuleId(0),
                batch: 1,
                stages: vec![stage(&[0, 1, 2], 0), stage(&[3, 4], 10)],
            }],
        },
        tables: BookingTable::Intervals,
        feedback: false,
        corrected: false,
        head_min_fraction: 0.0,
    };
    let mut reservations = Reservations::new(&spec);
    let first: Vec<ShareId> = (0..3)
        .map(|_| {
            let probe = reservations.probe(PipelineId(0), 1, at(1)).unwrap();
            reservations.reserve(&probe, at(1));
            probe.path[0].share
        })
        .collect();
    // The second device of the first server would wait for the uplink.
    assert_eq!(first, [ShareId(0), ShareId(2), ShareId(1)]);
}

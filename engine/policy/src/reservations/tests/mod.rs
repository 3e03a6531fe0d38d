//! Reservations against naive models, on random clusters. A failure prints its seed.

mod cases;
mod planned;
mod probes;
mod random;

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use weir_types::*;

use super::*;

fn at(micros: u64) -> Timestamp {
    Timestamp::from_micros(micros)
}

/// Parameters of a random cluster.
#[derive(Debug, Clone, Copy)]
struct Draw {
    stages: u32,
    links: bool,
    tables: BookingTable,
    feedback: bool,
    head_min_fraction: f64,
}

fn profile(random: &mut Pcg64Mcg) -> Profile {
    let base: u64 = random.random_range(5..40);
    let slope: u64 = random.random_range(1..20);
    let points = (1..=4).map(|size| (size, Span::from_micros(base + slope * u64::from(size))));
    Profile::new(points.collect()).unwrap()
}

/// A few servers, disjoint pools, one or two pipelines for each of two modules.
fn cluster(draw: Draw, random: &mut Pcg64Mcg) -> ClusterSpec {
    let servers: u32 = random.random_range(1..5);
    let mut shares = Vec::new();
    let mut pipelines = Vec::new();
    for module in [0, 0, 1] {
        let stages = (0..random.random_range(1..=draw.stages))
            .map(|stage| {
                let pool = (0..random.random_range(1..4_u32))
                    .map(|_| {
                        let device = u32::try_from(shares.len()).unwrap();
                        let server = ServerId(random.random_range(0..servers));
                        let class = "any".to_owned();
                        shares.push(ShareSpec {
                            server,
                            device,
                            class,
                        });
                        ShareId(device)
                    })
                    .collect();
                StageSpec {
                    blocks: (stage, stage + 1),
                    shares: pool,
                    profile: profile(random),
                    received_bytes: if draw.links && stage > 0 {
                        random.random_range(0..4)
                    } else {
                        0
                    },
                }
            })
            .collect();
        pipelines.push(PipelineSpec {
            module: ModuleId(module),
            batch: random.random_range(1..5),
            stages,
        });
    }
    let bandwidth = |random: &mut Pcg64Mcg| ServerSpec {
        bandwidth_bps: random.random_range(1..4) * 1_000_000,
    };
    ClusterSpec {
        servers: (0..servers).map(|_| bandwidth(random)).collect(),
        shares,
        pipelines,
    }
}

fn reservations(draw: Draw, random: &mut Pcg64Mcg) -> (ReserveSpec, Reservations) {
    let spec = ReserveSpec {
        cluster: cluster(draw, random),
        tables: draw.tables,
        feedback: draw.feedback,
        corrected: false,
        head_min_fraction: draw.head_min_fraction,
    };
    let reservations = Reservations::new(&spec);
    (spec, reservations)
}

/// The resources of every use, as (0 share, 1 uplink or 2 downlink; index).
fn uses(cluster: &ClusterSpec, path: &[PathStage]) -> Vec<((u32, u32), Interval)> {
    let mut uses = Vec::new();
    let mut sender = ServerId(0);
    for stage in path {
        let server = cluster.shares[stage.share.index()].server;
        if let Some(transfer) = stage.transfer {
            assert_ne!(sender, server, "nothing is sent within a server");
            uses.push(((1, sender.0), transfer));
            uses.push(((2, server.0), transfer));
        }
        uses.push(((0, stage.share.0), stage.run));
        sender = server;
    }
    uses
}

/// Checks that no resource is booked twice and that stages follow each other, as far as they end after `now`.
fn check_spans<'a>(
    cluster: &ClusterSpec,
    all: impl IntoIterator<Item = &'a [PathStage]>,
    now: Timestamp,
    seed: u64,
) -> Vec<((u32, u32), Interval)> {
    let mut spans = Vec::new();
    for path in all {
        let mut ready = Timestamp::ZERO;
        for stage in path {
            let arrived = stage.transfer.map_or(ready, |transfer| {
                assert!(
                    transfer.to <= now || transfer.from >= ready,
                    "seed {seed}: sent before it is ready"
                );
                transfer.to
            });
            assert!(
                stage.run.to <= now || stage.run.from >= arrived,
                "seed {seed}: run before it has arrived"
            );
            ready = stage.run.to;
        }
        spans.extend(uses(cluster, path).into_iter().filter(|(_, span)| span.to > now));
    }
    spans.sort_by_key(|(resource, span)| (*resource, span.from));
    for pair in spans.windows(2) {
        let [(one, first), (other, second)] = pair else {
            unreachable!()
        };
        assert!(
            one != other || first.to <= second.from,
            "seed {seed}: {one:?} is booked twice at {now:?}: {first:?} {second:?}"
        );
    }
    spans
}

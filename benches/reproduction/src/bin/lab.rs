#![allow(clippy::all, clippy::print_stdout, clippy::unwrap_used, missing_docs)]
use weir_policy::*;
use weir_sim::*;

fn prof(a: f64, c: f64) -> Profile {
    Profile::new(
        [1u32, 2, 4, 8, 16, 32]
            .iter()
            .map(|&b| (b, Span::from_micros(((a + c * b as f64) * 1e3) as u64)))
            .collect(),
    )
    .unwrap()
}
struct Rng(u64);
impl Rng {
    fn f(&mut self) -> f64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as f64 / (1u64 << 53) as f64
    }
}
/// rates per second: base with bursts
fn rates(kind: &str, n: usize, mean: f64, seed: u64) -> Vec<f64> {
    let mut r = Rng(seed * 7919 + 88172645463325252);
    for _ in 0..10 {
        r.f();
    }
    let mut v = Vec::new();
    let mut burst = 0.0f64;
    for t in 0..n {
        let b = match kind {
            "wiki" => 1.0 + 0.6 * (t as f64 / 120.0 * 6.283).sin() + 0.1 * (r.f() - 0.5),
            "tweet" => {
                if r.f() < 0.02 {
                    burst += 1.0 + 2.0 * r.f();
                }
                burst *= 0.85;
                0.7 + burst
            }
            "azure" => {
                if r.f() < 0.03 {
                    burst += 2.0 + 4.0 * r.f() * r.f();
                }
                burst *= 0.7;
                0.5 + burst
            }
            _ => 1.0,
        };
        v.push(b.max(0.05));
    }
    let m = v.iter().sum::<f64>() / n as f64;
    v.iter().map(|x| x / m * mean).collect()
}
fn arrivals(rates: &[f64], seed: u64) -> Vec<Timestamp> {
    let mut r = Rng(seed * 104729 + 1234567891011);
    let mut out = Vec::new();
    let mut need = -(1.0 - r.f()).ln();
    for (t, rate) in rates.iter().enumerate() {
        let mut at = 0.0;
        while need < rate * (1.0 - at) {
            at += need / rate;
            out.push(Timestamp::from_micros(((t as f64 + at) * 1e6) as u64));
            need = -(1.0 - r.f()).ln();
        }
        need -= rate * (1.0 - at);
    }
    out
}
fn paper(drop: DropRule) -> Policy {
    Policy {
        drop,
        forming: Forming::Eager,
        mailbox: Mailboxes::Worker,
        sweep: false,
        order: Order::Adaptive,
        ..Policy::default()
    }
}
fn fcfs(drop: DropRule) -> Policy {
    Policy {
        order: Order::Fcfs,
        ..paper(drop)
    }
}
fn recent() -> Lookahead {
    Lookahead {
        queueing: Queueing::Recent,
        ..Lookahead::default()
    }
}

fn w(order: Order, quantile: f64) -> Policy {
    Policy {
        order,
        drop: DropRule::Weir(Lookahead {
            quantile,
            samples: 2000,
            ..Lookahead::default()
        }),
        ..Policy::default()
    }
}
fn policies() -> Vec<(&'static str, Policy)> {
    vec![
        ("naive", fcfs(DropRule::None)),
        ("nexus", fcfs(DropRule::Nexus(Scan::default()))),
        ("clipper++", fcfs(DropRule::ClipperPlusPlus(Split::default()))),
        (
            "clip-local",
            fcfs(DropRule::ClipperPlusPlus(Split {
                budget: Budget::Local,
            })),
        ),
        ("pard", paper(DropRule::Pard(recent()))),
        ("pard-present", paper(DropRule::Pard(Lookahead::default()))),
        ("back", paper(DropRule::Back)),
        ("sf", paper(DropRule::Sf)),
        ("upper", paper(DropRule::Upper(recent()))),
        ("lower", paper(DropRule::Lower(recent()))),
        ("fcfs", fcfs(DropRule::Pard(recent()))),
        (
            "hbf",
            Policy {
                order: Order::Hbf,
                ..paper(DropRule::Pard(recent()))
            },
        ),
        (
            "lbf",
            Policy {
                order: Order::Lbf,
                ..paper(DropRule::Pard(recent()))
            },
        ),
        ("spare", w(Order::Adaptive, 0.1)),
        ("spare.5", w(Order::Adaptive, 0.5)),
        ("w.1", w(Order::Adaptive, 0.1)),
        ("w.5", w(Order::Adaptive, 0.5)),
        ("w.9", w(Order::Adaptive, 0.9)),
        ("wl.1", w(Order::Lbf, 0.1)),
        ("wl.5", w(Order::Lbf, 0.5)),
        ("wl.8", w(Order::Lbf, 0.8)),
        ("wl.95", w(Order::Lbf, 0.95)),
        (
            "weir",
            Policy {
                drop: DropRule::Weir(Lookahead::default()),
                ..Policy::default()
            },
        ),
        (
            "weir-hbf",
            Policy {
                order: Order::Hbf,
                drop: DropRule::Weir(Lookahead::default()),
                ..Policy::default()
            },
        ),
        (
            "weir-lbf",
            Policy {
                order: Order::Lbf,
                drop: DropRule::Weir(Lookahead::default()),
                ..Policy::default()
            },
        ),
        ("weir0", Policy::default()),
        (
            "weir0-lbf",
            Policy {
                order: Order::Lbf,
                ..Policy::default()
            },
        ),
        (
            "weir0-hbf",
            Policy {
                order: Order::Hbf,
                ..Policy::default()
            },
        ),
    ]
}
fn main() {
    let args: Vec<String> = std::env::args().collect();
    let only: Option<Vec<&str>> = args.get(2).map(|s| s.split(',').collect());
    let mods: [(&str, f64, f64); 5] = [
        ("person", 5.0, 4.0),
        ("face", 3.5, 1.1),
        ("expr", 2.5, 0.6),
        ("eye", 2.0, 0.5),
        ("pose", 4.0, 2.2),
    ];
    let slo = 500u64;
    let mut kinds: Vec<(String, WorldSpec, Vec<f64>, f64)> = Vec::new();
    let world = |pools: Vec<PoolPlan>| WorldSpec {
        slo: Span::from_millis(slo),
        policy: Policy::default(),
        modules: mods
            .iter()
            .enumerate()
            .map(|(i, m)| ModulePlan {
                name: m.0.into(),
                profile: prof(m.1, m.2),
                batch: vec![1, 2, 4, 8, 16, 32],
                pool: pools[i].clone(),
                next: if i + 1 < mods.len() {
                    vec![Edge {
                        to: i + 1,
                        link: None,
                    }]
                } else {
                    vec![]
                },
                weight: 1.0,
            })
            .collect(),
        shared_slots: 0,
        hop: Span::from_millis(1),
        links: vec![],
        streams: 1,
        under_way: None,
        demand: Demand::default(),
        noise: 0.0,
        failures: vec![],
        workers_most: None,
        seed: 1,
    };
    let which = args.get(1).map(String::as_str).unwrap_or("all");
    for trace in ["wiki", "tweet", "azure"] {
        let r = rates(trace, 300, 1200.0, 3);
        let scaled = mods
            .iter()
            .map(|_| {
                PoolPlan::Scaled(Scaling {
                    begin: 4,
                    rule: ScalingRule {
                        least: 1,
                        most: 32,
                        headroom: 1.2,
                        patience: Span::from_secs(30),
                    },
                    cold_start: Span::from_secs(4),
                })
            })
            .collect();
        kinds.push((format!("scaled-{trace}"), world(scaled), r.clone(), 0.0));
        for (name, slow) in [("even", 9), ("last", 4)] {
            // capacity per module for 360 rps at its chosen batch; the slow one 300
            let sum: f64 = mods.iter().map(|m| m.1 + m.2).sum();
            let pools = mods
                .iter()
                .enumerate()
                .map(|(i, m)| {
                    let p = prof(m.1, m.2);
                    let share = Span::from_secs_f64(slo as f64 / 1e3 * (m.1 + m.2) / sum);
                    let b = p.batch_size(&[1, 2, 4, 8, 16, 32], share);
                    let target = if i == slow {
                        1200.0
                    } else if slow == 9 {
                        1320.0
                    } else {
                        2000.0
                    };
                    PoolPlan::Fixed((target / p.throughput(b)).round().max(1.0) as u32)
                })
                .collect();
            kinds.push((format!("{name}-{trace}"), world(pools), r.clone(), 0.0));
        }
    }

    for trace in ["wiki", "tweet", "azure"] {
        let m = |n: &str, a: f64, c: f64, w: u32, next: Vec<usize>| ModulePlan {
            name: n.into(),
            profile: prof(a, c),
            batch: vec![1, 2, 4, 8, 16, 32],
            pool: PoolPlan::Fixed(w),
            next: next.into_iter().map(|to| Edge { to, link: None }).collect(),
            weight: 1.0,
        };
        let r = rates(trace, 120, 1200.0, 3);
        for pers in [0.0, 0.95] {
            let mut w = world(vec![PoolPlan::Fixed(1); 5]);
            w.slo = Span::from_millis(420);
            w.streams = 45;
            w.hop = Span::from_micros(500);
            w.modules = vec![
                m("persons", 5.0, 4.0, 6, vec![1, 2]),
                m("pose", 4.0, 2.2, 2, vec![3]),
                m("faces", 3.5, 1.1, 1, vec![3]),
                m("expr", 2.5, 0.6, 1, vec![]),
            ];
            w.demand = Demand {
                crops: vec![],
                branches: vec![Branches {
                    branches: vec![(vec![1], 0.5), (vec![2], 0.5)],
                    persistence: pers,
                }],
            };
            kinds.push((format!("dyn{pers}-{trace}"), w, r.clone(), 0.0));
        }
        let mut w = world(vec![PoolPlan::Fixed(1); 5]);
        w.slo = Span::from_millis(400);
        w.streams = 45;
        w.hop = Span::from_micros(500);
        w.modules = vec![
            m("detect", 5.0, 4.1, 6, vec![1]),
            m("faces", 3.5, 1.1, 4, vec![2]),
            m("text", 2.5, 0.7, 2, vec![]),
        ];
        w.demand = Demand {
            crops: vec![
                Crops {
                    module: 1,
                    mean: 2.4,
                    spread: 0.6,
                    persistence: 0.95,
                    most: 24,
                },
                Crops {
                    module: 2,
                    mean: 1.9,
                    spread: 0.6,
                    persistence: 0.95,
                    most: 24,
                },
            ],
            branches: vec![],
        };
        kinds.push((format!("crowd-{trace}"), w, r.clone(), 0.0));
    }
    for (name, spec, r, _) in &kinds {
        if which != "all" && !name.contains(which) {
            continue;
        }
        let a = arrivals(r, 5);
        println!(
            "== {name} n={} pools {:?}",
            a.len(),
            spec.modules
                .iter()
                .map(|m| if let PoolPlan::Fixed(n) = m.pool { n } else { 0 })
                .collect::<Vec<_>>()
        );
        let mut first = true;
        for (pname, policy) in policies() {
            if let Some(only) = &only {
                if !only.contains(&pname) {
                    continue;
                }
            }
            let spec = WorldSpec {
                policy,
                ..spec.clone()
            };
            let o = simulate(&spec, pname, &mut a.iter().copied(), &mut |_| ());
            if first {
                first = false;
                let b = o.limit(&spec).unwrap();
                let mut s2 = spec.clone();
                for m in &mut s2.modules {
                    m.batch.retain(|b| *b <= 16);
                }
                let b2 = o.limit(&s2).unwrap();
                println!("BOUND16 {:6.3}%", b2.drop_rate_least * 100.0);
                println!(
                    "BOUND {:6.3}%  binding {:?}",
                    b.drop_rate_least * 100.0,
                    b.binding
                );
            }
            let r = &o.report;
            let drops: Vec<f64> = spec
                .modules
                .iter()
                .map(|m| {
                    r.modules[&m.name].dropped as f64 / (r.requests.dropped + r.requests.late).max(1) as f64
                })
                .collect();
            println!(
                "{pname:14} drop {:6.3}%  late {:6}  invalid {:6.3}%  batches {:?}  drops@ {:?}",
                r.drop_rate * 100.0,
                r.requests.late,
                r.invalid_rate * 100.0,
                spec.modules
                    .iter()
                    .map(|m| (r.modules[&m.name].mean_batch * 10.0).round() / 10.0)
                    .collect::<Vec<_>>(),
                drops
                    .iter()
                    .map(|d| (d * 100.0).round() as i32)
                    .collect::<Vec<_>>()
            );
        }
    }
}

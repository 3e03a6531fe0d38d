//! Figures to test with and to look at: every kind of panel, and every number that could go wrong.

use super::super::*;

fn names(prefix: &str, count: usize) -> Vec<String> {
    (0..count).map(|i| format!("{prefix}{i}")).collect()
}

/// A repeatable number between 0 and 1.
pub(super) fn noise(seed: usize) -> f64 {
    let mixed = (seed as u64).wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    ((mixed ^ (mixed >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 11) as f64 / (1u64 << 53) as f64
}

pub(super) fn grouped() -> Figure {
    let apps = ["lv", "tm", "gm", "da"];
    let traces = ["wiki", "tweet", "azure"];
    let categories = traces
        .iter()
        .flat_map(|t| apps.iter().map(move |a| format!("{a}-{t}")))
        .collect();
    let series = ["pard", "nexus", "clipper++", "naive"]
        .into_iter()
        .enumerate()
        .map(|(s, name)| BarSeries {
            name: name.to_owned(),
            values: (0..12)
                .map(|c| {
                    let value = if (s, c) == (0, 5) {
                        0.0
                    } else {
                        0.12 * 6f64.powi(s as i32) * (0.4 + noise(s * 12 + c))
                    };
                    Bar {
                        value,
                        error: Some((value * 0.8, value * 1.25)),
                        paper: (c % 3 != 1).then_some(value * (0.7 + noise(c))),
                    }
                })
                .collect(),
        });
    let kind = Kind::Bars(Bars {
        categories,
        series: series.collect(),
    });
    let rules = vec![Rule {
        name: "1 % promised".to_owned(),
        at: 1.0,
    }];
    let panel = Panel {
        x: Axis::new("application and trace"),
        y: Axis::new("drop rate (%)").log(),
        kind,
        rules,
        ..Panel::default()
    };
    Figure {
        title: "Drop rate of every workload".to_owned(),
        panels: vec![panel],
        columns: 1,
        width: 1000,
        height: 420,
    }
}

pub(super) fn over_time() -> Figure {
    let panel = |title: &str, seed: usize| {
        let line = |name: &str, offset: f64, step: bool, area: bool| Line {
            name: name.to_owned(),
            points: (0..1000)
                .map(|i| {
                    (
                        i as f64,
                        offset + 80.0 * (i as f64 / 90.0 + seed as f64).sin() + 30.0 * noise(i + seed),
                    )
                })
                .collect(),
            band: if area {
                Vec::new()
            } else {
                (0..1000)
                    .map(|i| {
                        (
                            i as f64,
                            offset - 30.0 + 80.0 * (i as f64 / 90.0 + seed as f64).sin(),
                            offset + 60.0 + 80.0 * (i as f64 / 90.0 + seed as f64).sin(),
                        )
                    })
                    .collect()
            },
            step,
            area,
            dashed: name == "bound",
        };
        Panel {
            title: title.to_owned(),
            x: Axis::new("time (s)"),
            y: Axis::new("goodput (requests/s)"),
            kind: Kind::Lines(vec![
                line("pard", 300.0, false, false),
                line("nexus", 180.0, seed == 3, false),
                line("bound", 420.0, false, false),
                line("load", 120.0, true, true),
            ]),
            regions: vec![
                Region {
                    name: "HBF active".to_owned(),
                    from: 120.0,
                    to: 260.0,
                },
                Region {
                    name: "HBF active".to_owned(),
                    from: 700.0,
                    to: 760.0,
                },
            ],
            rules: vec![Rule {
                name: "capacity".to_owned(),
                at: 400.0,
            }],
        }
    };
    let panels = vec![
        panel("lv-tweet", 1),
        panel("tm-azure <burst>", 2),
        panel("gm-wiki", 3),
    ];
    Figure {
        title: "Goodput over time, 5 seeds".to_owned(),
        panels,
        columns: 3,
        width: 1200,
        height: 360,
    }
}

pub(super) fn stacked() -> Figure {
    let categories: Vec<String> = (0..11)
        .map(|i| {
            ["pard-back", "pard-split & even", "clipper++", "request broker"][i % 4].to_owned()
                + &format!(" {i}")
        })
        .collect();
    let parts = |count: usize| -> Vec<Part> {
        (1..=5)
            .map(|m| Part {
                name: format!("module {m}"),
                values: (0..count)
                    .map(|c| {
                        let all: f64 = (1..=5).map(|n| noise(n * 17 + c)).sum();
                        100.0 * noise(m * 17 + c) / all
                    })
                    .collect(),
            })
            .collect()
    };
    let short = Stacked {
        categories: names("w", 11),
        parts: parts(11),
    };
    let long = Stacked {
        categories,
        parts: parts(11),
    };
    let panel = |title: &str, stacked| Panel {
        title: title.to_owned(),
        y: Axis::new("share of drops (%)"),
        kind: Kind::Stacked(stacked),
        ..Panel::default()
    };
    Figure {
        title: "Where requests are dropped".to_owned(),
        panels: vec![panel("long names", long), panel("short names", short)],
        columns: 2,
        width: 1000,
        height: 420,
    }
}

pub(super) fn odd_values() -> Figure {
    let odd = [
        f64::NAN,
        f64::INFINITY,
        f64::NEG_INFINITY,
        0.0,
        -1.0,
        1e308,
        -1e308,
        5e-324,
        f64::MAX,
    ];
    let bars = Bars {
        categories: names("c", odd.len()),
        series: vec![BarSeries {
            name: String::new(),
            values: odd
                .iter()
                .map(|v| Bar {
                    value: *v,
                    error: Some((*v, f64::NAN)),
                    paper: Some(*v),
                })
                .collect(),
        }],
    };
    let line = Line {
        name: "l\u{0}\u{1f600}".to_owned(),
        points: odd
            .iter()
            .enumerate()
            .flat_map(|(i, v)| [(i as f64, *v), (*v, i as f64)])
            .collect(),
        band: odd.iter().map(|v| (*v, *v, -*v)).collect(),
        step: true,
        area: true,
        dashed: true,
    };
    let part = Part {
        name: "p".to_owned(),
        values: odd.to_vec(),
    };
    let kinds = [
        Kind::Bars(bars.clone()),
        Kind::Stacked(Stacked {
            categories: names("a very long name ", odd.len()),
            parts: vec![part.clone(), part],
        }),
        Kind::Lines(vec![line.clone(), Line::default()]),
        Kind::Bars(Bars::default()),
        Kind::Stacked(Stacked::default()),
        Kind::default(),
        Kind::Lines(vec![Line {
            points: vec![(2.0, 5.0)],
            ..Line::default()
        }]),
    ];
    let axes = [
        Axis::default(),
        Axis::default().log(),
        Axis::new("x").range(f64::NAN, 1.0),
        Axis::new("y").range(0.0, 1e-12),
        Axis::default().log().range(1.0, 1.0),
    ];
    let panels = kinds.iter().flat_map(|kind| {
        axes.iter().map(move |axis| Panel {
            x: axis.clone(),
            y: axis.clone(),
            kind: kind.clone(),
            regions: odd
                .iter()
                .map(|v| Region {
                    name: "r".to_owned(),
                    from: *v,
                    to: 1.0,
                })
                .collect(),
            rules: odd
                .iter()
                .map(|v| Rule {
                    name: "q".to_owned(),
                    at: *v,
                })
                .collect(),
            ..Panel::default()
        })
    });
    Figure {
        title: "odd".to_owned(),
        panels: panels.collect(),
        columns: 5,
        width: 1000,
        height: 1200,
    }
}

pub(super) fn all() -> [(&'static str, Figure); 4] {
    [
        ("grouped", grouped()),
        ("over-time", over_time()),
        ("stacked", stacked()),
        ("odd", odd_values()),
    ]
}

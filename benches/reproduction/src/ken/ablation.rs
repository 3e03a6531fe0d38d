//! Ablation (Figure 15): lowest p95 latency at a given accuracy without switching, without cascades, and with one
//! model for all loads.

use super::trade_off::TradeOff;
use crate::plot::{Axis, Bar, BarSeries, Bars, Figure, Kind, Panel};

/// Name of a variant that lacks one part, and the lowest p95 with it.
type Without = (&'static str, fn(&TradeOff) -> f64);

/// p95 by part, at the accuracy of [`super::trade_off::ACCURACY`].
#[must_use]
pub fn figure_15(all: &[TradeOff]) -> Figure {
    let kinds: [Without; 4] = [
        ("gears", |found| TradeOff::best(&found.gears)),
        ("no switching", |found| TradeOff::best(&found.fixed)),
        ("no cascades", |found| TradeOff::best(&found.switching)),
        ("single model", |found| TradeOff::best(&found.single)),
    ];
    let series = |(name, of): &Without| BarSeries {
        name: (*name).to_owned(),
        values: all.iter().map(|found| Bar::from(1e3 * of(found))).collect(),
    };
    Figure {
        title: "Lowest p95 at 84.8 % accuracy (after Figure 15)".to_owned(),
        panels: vec![Panel {
            y: Axis::new("p95 (ms)").log(),
            kind: Kind::Bars(Bars {
                categories: all.iter().map(|found| format!("{} V100", found.slots)).collect(),
                series: kinds.iter().map(series).collect(),
            }),
            ..Panel::default()
        }],
        columns: 1,
        width: 640,
        height: 380,
    }
}

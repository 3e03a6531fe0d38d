//! Moving a sequence by the numbers of its tokens or by its cache (Figure 9), by link, tokens and model.

use weir_policy::generate::InstanceSpec;
use weir_policy::route::{Link, Transfer, TransferCost};
use weir_types::Span;

use super::setting::Devices;
use crate::plot::markdown;

/// Gigabits a second.
const LINKS: [f64; 4] = [1.0, 10.0, 100.0, 900.0];
/// Tokens that a sequence has.
const TOKENS: [u32; 4] = [128, 512, 2_048, 8_192];
/// Models, and bytes of a token's part of the cache: layers x 2 x heads of keys and values x 128 numbers of 16 bits.
const MODELS: [(&str, f64); 3] = [
    ("Llama 8 B, 8 heads of 32", 131_072.0),
    ("Qwen2.5 14 B, 8 heads of 40", 196_608.0),
    ("8 B without shared heads", 524_288.0),
];

/// Costs of migrations of one model to one device over one link.
#[derive(Debug, Clone, PartialEq)]
pub struct Move {
    /// Name of the model.
    pub model: &'static str,
    /// Device to which the sequence migrates.
    pub device: &'static str,
    /// Capacity of the link in gigabits per second.
    pub gbps: f64,
    /// Cost of a migration by number of tokens.
    pub costs: Vec<TransferCost>,
}

/// All migrations, to the slowest and to the fastest device. Prompts of the larger model take as long as
/// those of the smaller one here, since no step times of the larger are published.
#[must_use]
pub fn moves(devices: &Devices) -> Vec<Move> {
    let ends = [devices.instances.first(), devices.instances.last()];
    let names = [devices.names.first(), devices.names.last()];
    let mut all = Vec::new();
    for (model, cache_bytes) in MODELS {
        for (device, spec) in names.iter().zip(&ends) {
            let (Some(device), Some(spec)) = (device, spec) else {
                continue;
            };
            for gbps in LINKS {
                all.push(Move {
                    model,
                    device,
                    gbps,
                    costs: TOKENS.map(|tokens| cost(spec, gbps, cache_bytes, tokens)).into(),
                });
            }
        }
    }
    all
}

fn cost(spec: &InstanceSpec, gbps: f64, cache_bytes: f64, tokens: u32) -> TransferCost {
    let link = Link {
        latency: Span::from_millis(1),
        bandwidth_bps: 1e9 * gbps,
    };
    let device = (&spec.steps, spec.max_step_tokens);
    TransferCost::new(&link, cache_bytes, [tokens, tokens], device)
}

/// Numbers and cache in ms, and which of them the policy takes.
#[must_use]
pub fn table(all: &[Move]) -> String {
    let row = |of: &Move| {
        let cells = of.costs.iter().map(|cost| {
            let best = match cost.best() {
                Transfer::TokenIds => "ids",
                Transfer::Cache => "cache",
            };
            format!(
                "{:.0}, {:.0}: {best}",
                cost.token_ids.as_millis_f64(),
                cost.cache.as_millis_f64()
            )
        });
        let first = [of.model.to_owned(), of.device.to_owned(), format!("{}", of.gbps)];
        first.into_iter().chain(cells).collect::<Vec<String>>()
    };
    let rows: Vec<Vec<String>> = all.iter().map(row).collect();
    let tokens = TOKENS.map(|tokens| format!("{tokens} tokens (ms)"));
    let head = ["cache of", "to", "Gb/s"].map(str::to_owned);
    let head: Vec<String> = head.into_iter().chain(tokens).collect();
    markdown(&head, &rows)
}

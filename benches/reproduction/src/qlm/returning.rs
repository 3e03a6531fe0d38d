//! Return of a sequence to the queue: either its tokens are computed again, or its cache moves to host memory
//! and back. The choice of the policy by estimated costs is compared with both, simulated on an instance with
//! other sequences.

use std::path::Path;

use weir_policy::generate::InstanceSpec;
use weir_policy::route::{Link, Transfer, TransferCost};
use weir_sim::generate::{InstanceDriver, Placed, SequenceNews, published_instance, smoothed};
use weir_types::{SequenceId, Span, Timestamp};

use super::ReproduceError;
use crate::plot::markdown;

/// Size of a token's share of the cache in bytes (16-bit values), by a part of the profile's name.
const CACHES: [(&str, f64); 4] = [
    ("-70B-", 327_680.0),
    ("-8B-", 131_072.0),
    ("-3B-", 114_688.0),
    ("-1B-", 32_768.0),
];
/// Gigabits a second to host memory, from an old slot of four lanes to a new one of sixteen.
const LINKS: [f64; 4] = [16.0, 64.0, 128.0, 256.0];
/// Tokens that the sequence has.
const TOKENS: [u32; 6] = [64, 256, 1_024, 2_048, 4_096, 7_000];
/// Sequences that run meanwhile.
const BESIDE: [u64; 3] = [0, 8, 32];
/// Steps after which those beside have their prompts behind them.
const SETTLED: usize = 40;
/// Tokens of a step, where a profile goes so far.
const MAX_STEP_TOKENS: u32 = 512;
/// The sequence that comes back.
const BACK: SequenceId = SequenceId(0);

/// The cases of a profile.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Returning {
    /// Name of the profile.
    pub profile: String,
    /// Number of cases.
    pub cases: usize,
    /// Number of cases in which the policy moves the cache to host memory.
    pub by_cache: usize,
    /// Number of cases in which the policy's choice has the next token first.
    pub cheaper: usize,
    /// Longest delay caused by a wrong choice.
    pub worst: Span,
}

impl Returning {
    fn add(&mut self, other: &Self) {
        self.cases += other.cases;
        self.by_cache += other.by_cache;
        self.cheaper += other.cheaper;
        self.worst = self.worst.max(other.worst);
    }

    /// Cases in which the cheaper was picked, in per cent.
    #[must_use]
    pub fn share(&self) -> f64 {
        100.0 * self.cheaper as f64 / self.cases.max(1) as f64
    }
}

/// Evaluates all published profiles of the asset pack.
///
/// # Errors
/// [`ReproduceError`] if a file is not valid.
pub fn run(assets: &Path) -> Result<Vec<Returning>, ReproduceError> {
    let folder = assets.join("profiles/llm/steps");
    let files = std::fs::read_dir(&folder).map_err(|_| ReproduceError::NoAssets)?;
    let mut files: Vec<_> = files.filter_map(|file| Some(file.ok()?.path())).collect();
    files.sort();
    let mut found = Vec::new();
    for file in files {
        let name = file
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        let cache = CACHES.iter().find(|(part, _)| name.contains(part));
        let Some((_, cache_bytes)) = cache else { continue };
        let spec = smoothed(&published_instance(&file, None)?);
        let spec = InstanceSpec {
            max_step_tokens: spec.max_step_tokens.min(MAX_STEP_TOKENS),
            ..spec
        };
        found.push(Returning {
            profile: name.replace("_complete_profile.json", ""),
            ..of_profile(&spec, *cache_bytes)
        });
    }
    Ok(found)
}

fn of_profile(spec: &InstanceSpec, cache_bytes: f64) -> Returning {
    let mut found = Returning::default();
    let room =
        (spec.blocks.saturating_sub(spec.reserve_blocks) * spec.block_tokens).min(spec.max_sequence_tokens);
    for gbps in LINKS {
        let link = Link {
            latency: Span::from_millis(1),
            bandwidth_bps: gbps * 1e9,
        };
        for tokens in TOKENS {
            for beside in BESIDE {
                // The other sequences have some hundred tokens each.
                if u64::from(tokens) + 256 * (beside + 1) > u64::from(room) {
                    continue;
                }
                let device = (&spec.steps, spec.max_step_tokens);
                // As the queues reckon it (`engine/policy/src/groups/dispatch.rs`).
                let cost = TransferCost::new(&link, 2.0 * cache_bytes, [tokens, tokens - 1], device);
                let step = match beside {
                    0 => Span::ZERO,
                    _ => spec.steps.duration(beside as u32, false),
                };
                let cache = cost.cache + step / 2;
                let picked = TransferCost { cache, ..cost }.best();
                let there_and_back = link.duration(cache_bytes * f64::from(tokens)) * 2;
                let again = next_token(spec, (tokens, beside), Transfer::TokenIds, Span::ZERO);
                let swapped = next_token(spec, (tokens, beside), Transfer::Cache, there_and_back);
                let (Some(again), Some(swapped)) = (again, swapped) else {
                    continue;
                };
                let (own, other) = match picked {
                    Transfer::Cache => (swapped, again),
                    Transfer::TokenIds => (again, swapped),
                };
                found.add(&Returning {
                    profile: String::new(),
                    cases: 1,
                    by_cache: usize::from(picked == Transfer::Cache),
                    cheaper: usize::from(own <= other),
                    worst: own.saturating_sub(other),
                });
            }
        }
    }
    found
}

/// Time until the next token of a sequence that leaves now and may return after `away`; `None` if it never
/// gets one.
fn next_token(spec: &InstanceSpec, (tokens, beside): (u32, u64), by: Transfer, away: Span) -> Option<Span> {
    let mut driver = InstanceDriver::new(spec.clone()).ok()?;
    for number in 1..=beside {
        driver.place(Placed {
            sequence: SequenceId(number),
            prompt: 64,
            generated: 0,
            cached: 0,
            length: spec.max_sequence_tokens,
            due: Timestamp::ZERO,
            prefix: None,
        });
    }
    let (mut now, mut news) = (Timestamp::ZERO, Vec::new());
    for _ in 0..if beside > 0 { SETTLED } else { 0 } {
        driver.decide(now, &mut news);
        now = driver.step_end()?;
        driver.finish_step(now, &mut news);
    }
    let left = now;
    let mut is_back = false;
    loop {
        if !is_back && now >= left + away {
            is_back = true;
            driver.place(Placed {
                sequence: BACK,
                prompt: tokens - 1,
                generated: 1,
                cached: match by {
                    Transfer::Cache => tokens - 1,
                    Transfer::TokenIds => 0,
                },
                due: Timestamp::ZERO,
                prefix: None,
                length: 16,
            });
        }
        news.clear();
        driver.decide(now, &mut news);
        match driver.step_end() {
            Some(end) => {
                now = end;
                driver.finish_step(now, &mut news);
            }
            None if !is_back => now = left + away,
            None => return None,
        }
        let has_token = |news: &SequenceNews| match news {
            SequenceNews::Generated { sequence, .. } => *sequence == BACK,
            _ => false,
        };
        if news.iter().any(has_token) {
            return Some(now.since(left));
        }
    }
}

/// Of all profiles together.
#[must_use]
pub fn all(found: &[Returning]) -> Returning {
    let mut sum = Returning {
        profile: "all".to_owned(),
        ..Returning::default()
    };
    found.iter().for_each(|one| sum.add(one));
    sum
}

/// A row for each profile.
#[must_use]
pub fn table(found: &[Returning]) -> String {
    let head = [
        "profile",
        "cases",
        "by cache",
        "cheaper of both (%)",
        "wrong pick, at most (ms)",
    ];
    let row = |one: &Returning| {
        vec![
            one.profile.clone(),
            one.cases.to_string(),
            one.by_cache.to_string(),
            format!("{:.1}", one.share()),
            format!("{:.1}", one.worst.as_millis_f64()),
        ]
    };
    let mut rows: Vec<Vec<String>> = found.iter().map(row).collect();
    rows.push(row(&all(found)));
    markdown(&head, &rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_picked_is_the_cheaper_of_both_in_95_of_100_cases() {
        let Some(assets) = std::env::var_os("WEIR_ASSETS") else {
            println!("skipped: WEIR_ASSETS is not set");
            return;
        };
        let found = run(Path::new(&assets)).expect("the asset pack");
        println!("{}", table(&found));
        let sum = all(&found);
        assert!(sum.cases > 300 && sum.share() >= 95.0, "{sum:?}");
        // Neither is always the cheaper one.
        assert!(sum.by_cache > 100 && sum.cases - sum.by_cache > 100, "{sum:?}");
    }
}

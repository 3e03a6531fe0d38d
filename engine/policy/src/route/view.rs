//! The router's knowledge of each instance: reports, and work assigned since.

use weir_types::{InstanceId, Span, Timestamp};

use super::recent::Recent;
use super::transfer::{Arriving, MoveCost, Transfer};
use crate::generate::{InstanceSpec, InstanceState, Prefix, PrefixCache};

/// One sequence that needs an instance.
#[derive(Debug, Clone, Copy)]
pub(super) struct Demand {
    /// Number of earlier demands; rules that draw or take turns use it.
    pub(super) number: u64,
    /// Tokens to compute before the sequence generates: its prompt, and tokens generated on another instance.
    pub(super) prompt: u32,
    pub(super) prefix: Option<Prefix>,
    /// Number of tokens that it is still expected to generate.
    pub(super) expected: u32,
    /// Seconds until its deadline; negative if that has passed.
    pub(super) left_s: f64,
    /// Instance that must not be picked, because the sequence is leaving it.
    pub(super) excluded: Option<InstanceId>,
    /// Cost of the move, if the sequence comes from another instance over a link. `None`: all its tokens are
    /// computed.
    pub(super) transfer: Option<MoveCost>,
}

/// State of one instance as the router sees it.
#[derive(Debug, Clone)]
pub(super) struct View {
    pub(super) spec: InstanceSpec,
    /// Latest report of the instance.
    pub(super) state: InstanceState,
    /// `q`: smoothed value of the reported waits, which are smoothed already (A.2, line 5), in seconds.
    pub(super) wait_s: f64,
    /// `d` of a sequence that runs alone, from the profile, in seconds.
    pub(super) idle_token_s: f64,
    pub(super) is_up: bool,
    /// Number of sequences that were routed there and have not ended.
    pub(super) sequences: u32,
    /// Number of blocks for prompts routed there since the latest report.
    pub(super) blocks_since: u32,
    /// Number of tokens of prompts routed there since the latest report.
    pub(super) prompts_since: u32,
    /// Tokens within the window of rule `lowest-tokens`: prompts routed there, and generated tokens.
    pub(super) tokens: Recent,
    /// Seconds of work routed there within the window of rule `prefix`.
    pub(super) work_s: Recent,
    /// Prefixes assumed to be in the cache: those of sequences that were routed there, by the rule by which the
    /// instance evicts.
    pub(super) prefixes: PrefixCache,
}

/// Window of rule `lowest-tokens`: tokens per minute.
const TOKENS_WINDOW: Span = Span::from_secs(60);
/// Window of rule `prefix` (Preble 3.2: three minutes).
const WORK_WINDOW: Span = Span::from_secs(180);

impl View {
    pub(super) fn new(spec: InstanceSpec) -> Self {
        let chunk = spec.max_step_tokens.max(1);
        let state = InstanceState {
            running: 0,
            waiting: 0,
            free_blocks: spec.blocks,
            wait_s: 0.0,
            prompt_token_s: spec.steps.prompt.duration(chunk).as_secs_f64() / f64::from(chunk),
            token_s: spec.steps.decode.duration(1).as_secs_f64(),
            correction: 1.0,
        };
        Self {
            idle_token_s: state.token_s,
            state,
            wait_s: 0.0,
            is_up: true,
            sequences: 0,
            blocks_since: 0,
            prompts_since: 0,
            tokens: Recent::new(TOKENS_WINDOW),
            work_s: Recent::new(WORK_WINDOW),
            prefixes: PrefixCache::new(spec.prefix_tokens),
            spec,
        }
    }

    /// `d`: smoothed time of a step. An instance with fewer than two sequences counts with the time of a
    /// sequence alone, since its latest measurement may be of another load.
    #[inline]
    pub(super) fn token_s(&self) -> f64 {
        if self.state.running < 2 {
            self.idle_token_s
        } else {
            self.state.token_s
        }
    }

    /// Number of tokens of a prompt that should be in the cache.
    pub(super) fn reused(&self, prefix: Option<Prefix>) -> u32 {
        self.prefixes.tokens_of(prefix)
    }

    /// Arrival of a sequence on this instance: the tokens computed here, and the delay on the link.
    #[inline]
    pub(super) fn arriving(&self, demand: &Demand) -> Arriving {
        match demand.transfer {
            Some(cost) => cost.of(demand.prompt, &self.spec),
            None => Arriving {
                by: Transfer::TokenIds,
                tokens: demand.prompt.saturating_sub(self.reused(demand.prefix)),
                delay_s: 0.0,
            },
        }
    }

    /// `T = q + p (in - reused) + d out` (equation 2), in seconds.
    #[inline]
    pub(super) fn estimate_s(&self, demand: &Demand) -> f64 {
        let arriving = self.arriving(demand);
        self.wait_s
            + arriving.delay_s
            + self.state.prompt_token_s * f64::from(arriving.tokens)
            + self.token_s() * f64::from(demand.expected)
    }

    /// The same with the work that was routed here since the report. Without it, sequences that arrive between
    /// two reports would all go to one instance.
    ///
    /// ```text
    /// T = max(q, b d out / places) + p (in - reused + prompts since the report) + max(d, d(n)) out
    /// ```
    ///
    /// `n` counts this sequence and all on the instance, `d(n)` is their step time by profile, as corrected by
    /// measurements, and `b` of them have no place in its steps.
    #[inline]
    pub(super) fn estimate_with_routed_s(&self, demand: &Demand) -> f64 {
        let arriving = self.arriving(demand);
        let places = self
            .spec
            .max_sequences
            .min(self.spec.steps.decode.known_tokens())
            .max(1);
        let count = self.sequences.saturating_add(1);
        let step = self.spec.steps.decode.duration(count.min(places));
        let token_s = self.token_s().max(self.state.correction * step.as_secs_f64());
        let own_s = token_s * f64::from(demand.expected);
        let turns = f64::from(count.saturating_sub(places)) / f64::from(places);
        let prompts = arriving.tokens.saturating_add(self.prompts_since);
        self.wait_s.max(turns * own_s)
            + arriving.delay_s
            + self.state.prompt_token_s * f64::from(prompts)
            + own_s
    }

    /// Number of reported free blocks, less those routed here since the report.
    #[inline]
    pub(super) fn free_blocks(&self) -> u32 {
        self.state.free_blocks.saturating_sub(self.blocks_since)
    }

    /// Whether the cache has blocks for the whole expected length of the sequence.
    #[inline]
    pub(super) fn has_memory(&self, demand: &Demand) -> bool {
        let tokens = demand.prompt.saturating_add(demand.expected);
        self.free_blocks()
            >= self
                .spec
                .blocks_of(tokens)
                .saturating_add(self.spec.reserve_blocks)
    }

    /// A sequence was routed here.
    pub(super) fn on_routed(&mut self, demand: &Demand, now: Timestamp) {
        let prompt = self.arriving(demand).tokens;
        let work =
            self.state.prompt_token_s * f64::from(prompt) + self.idle_token_s * f64::from(demand.expected);
        self.work_s.add(work, now);
        self.tokens.add(f64::from(demand.prompt), now);
        self.sequences += 1;
        self.prompts_since = self.prompts_since.saturating_add(prompt);
        self.blocks_since += self.spec.blocks_of(demand.prompt);
        if let Some(prefix) = demand.prefix {
            self.prefixes.insert(prefix);
        }
    }
}

/// All instances, by their ids.
#[derive(Debug, Clone)]
pub(super) struct Cluster {
    pub(super) instances: Vec<View>,
    pub(super) seed: u64,
}

impl Cluster {
    /// Usable instances that are not excluded by `demand`.
    pub(super) fn candidates<'a>(
        &'a self,
        demand: &'a Demand,
    ) -> impl Iterator<Item = (InstanceId, &'a View)> {
        let all = (0..).map(InstanceId).zip(&self.instances);
        all.filter(|(id, view)| view.is_up && demand.excluded != Some(*id))
    }
}

/// Instance with the least cost; among equals the one with the lowest id.
pub(super) fn least<'a>(
    candidates: impl Iterator<Item = (InstanceId, &'a View)>,
    cost: impl Fn(InstanceId, &View) -> f64,
) -> Option<InstanceId> {
    let costs = candidates.map(|(id, view)| (cost(id, view), id));
    costs.min_by(|a, b| a.0.total_cmp(&b.0)).map(|(_, id)| id)
}

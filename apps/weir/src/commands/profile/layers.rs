//! Measured costs of a model's layers, and the boundaries at which the model is cut into blocks.

use std::fmt::Write as _;

use weir_operators::{LayerChain, RejectedBoundary};
use weir_planner::group_layers;

use super::RUNS;
use super::blocks::user_error;
use crate::args::BlockedProfile;
use crate::error::UserError;
use crate::output;

/// Measured costs of the layers, in the order in which they run.
pub(super) struct LayerCosts {
    pub(super) names: Vec<(String, String)>,
    /// Run time of each layer in microseconds.
    times: Vec<u64>,
    /// Bytes that pass on after each layer except the last.
    pub(super) bytes: Vec<u64>,
    /// For each layer except the last: true if the model may be cut after it.
    allowed: Vec<bool>,
}

impl LayerCosts {
    pub(super) fn measure(chain: &LayerChain, asked: &BlockedProfile) -> Result<Self, UserError> {
        let threads = asked.threads as usize;
        Ok(Self {
            names: chain.layer_names().map_err(|error| user_error(&error))?,
            times: chain
                .layer_times_us(threads, RUNS)
                .map_err(|error| user_error(&error))?,
            bytes: chain
                .boundary_bytes(!asked.full_precision)
                .map_err(|error| user_error(&error))?,
            allowed: chain.boundaries().map_err(|error| user_error(&error))?,
        })
    }

    /// The first layer of each block. Boundaries where parts give something else than the model are no longer allowed.
    pub(super) fn group_layers(
        &mut self,
        chain: &LayerChain,
        blocks: usize,
        name: &str,
    ) -> Result<Vec<usize>, UserError> {
        self.check_block_count(blocks, name)?;
        let choose = |allowed: &[bool]| {
            let boundaries = self.bytes.iter().zip(allowed);
            let boundaries: Vec<Option<u64>> = boundaries
                .map(|(bytes, allowed)| allowed.then_some(*bytes))
                .collect();
            group_layers(&self.times, &boundaries, blocks)
        };
        let settled = chain.validate_cut(self.allowed.clone(), choose);
        let settled = settled.map_err(|error| user_error(&error))?;
        for over in &settled.rejected {
            self.warn(name, "is not cut", over);
        }
        self.allowed = settled.boundaries;
        self.check_block_count(blocks, name)?;
        Ok(settled.starts)
    }

    /// Tries the boundaries of a profile that was made before, perhaps on another machine.
    pub(super) fn check(&self, chain: &LayerChain, starts: &[usize], name: &str) -> Result<(), UserError> {
        let inside = starts.iter().skip(1).copied();
        let inside: Vec<usize> = inside.filter(|layer| *layer < self.times.len()).collect();
        let found = chain
            .rejected_boundaries(&inside)
            .map_err(|error| user_error(&error))?;
        for over in &found {
            self.warn(name, "should on this machine not be cut", over);
        }
        Ok(())
    }

    fn warn(&self, name: &str, what: &str, over: &RejectedBoundary) {
        let layer = self.names.get(over.layer).map_or("", |(name, _)| name);
        output::remark(&format!(
            "{name} {what} before layer {} ({layer}): parts {}",
            over.layer, over.reason
        ));
    }

    fn check_block_count(&self, blocks: usize, name: &str) -> Result<(), UserError> {
        let most = 1 + self.allowed.iter().filter(|allowed| **allowed).count();
        if blocks <= most {
            return Ok(());
        }
        let layers = self.times.len();
        Err(UserError::new(format!(
            "{name} can be cut into at most {most} blocks ({layers} layers), not {blocks}: lower --blocks"
        )))
    }

    pub(super) fn csv(&self) -> String {
        let mut text = "layer,name,operator,us,bytes_after,may_be_cut_after\n".to_owned();
        for (layer, ((name, operator), us)) in self.names.iter().zip(&self.times).enumerate() {
            let name = name.replace('"', "\"\"");
            let bytes = self.bytes.get(layer).map(u64::to_string).unwrap_or_default();
            let cut = self.allowed.get(layer).copied().unwrap_or_default();
            let _ = writeln!(text, "{layer},\"{name}\",{operator},{us},{bytes},{cut}");
        }
        text
    }
}

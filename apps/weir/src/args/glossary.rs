//! Explanation of the words in a run's table, printed below the options by `--help`.

/// Help text of the commands that end with a table: `run`, `serve`, `replay` and `score`.
pub(super) const TABLE: &str = "\
The table at the end

A request is one frame and its path through the graph. It ends once:
  arrived      frames that sources sent
  delivered    completed within the SLO (slo of [app])
  late         completed after the SLO; counts as dropped in every rate
  dropped      not completed, with a reason (below)
  in flight    not ended when the run ended
  goodput/s    delivered per second
  drop rate    (dropped + late) / arrived
  invalid rate device time spent on frames that were not delivered / all device time
  p50, p99     latency in ms that 50 % and 99 % of the delivered and late frames did not exceed

A module runs a model on items: whole frames, or crops of them.
  batches      runs of the model
  items        items in them; mean batch is items / batches
  busy s       seconds of its devices that it used
  wasted s     seconds of them spent on frames that were not delivered
  dropped      frames that it dropped
  failed       batches that ended with an error
  queue p50    ms from the arrival of a frame at the module until its batch was chosen
  exec p50/p99 ms that a batch ran

Reasons of drops:
  infeasible   it would miss its deadline
  over-budget  it used more than its share of the SLO (rules with shares)
  shed         too many frames arrive: some are dropped on arrival so that the rest is in time
  superseded   a newer frame of its stream took its place (drop = \"newest\")
  stream-full  its stream has the maximum number of frames in flight
  memory-full  decoded frames use all of their memory (setting frame_memory)
  not-decoded  the decoder left it out: the engine can use no more of its stream (decode of [sources])
  failed       its batch failed
  stopped      the run ended first

Sinks: written, skipped (the sink was slow, when_slow = \"skip\"), lost (it could not write).";

#[cfg(test)]
mod tests {
    use weir_types::DropReason;

    use super::TABLE;

    #[test]
    fn every_reason_of_a_drop_is_explained() {
        let reasons = [
            DropReason::Infeasible,
            DropReason::OverBudget,
            DropReason::Shed,
            DropReason::Superseded,
            DropReason::StreamFull,
            DropReason::MemoryFull,
            DropReason::NotDecoded,
            DropReason::Failed,
            DropReason::Stopped,
        ];
        for reason in reasons.map(DropReason::name) {
            assert!(TABLE.contains(&format!("\n  {reason} ")), "{reason}");
        }
    }
}

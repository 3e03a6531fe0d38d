//! Explanation of the words in a run's table, printed below the options by `--help`.

/// Help text of the commands that end with a table: `run`, `serve`, `replay` and `score`.
pub(super) const TABLE: &str = "\
The table at the end

A request is one frame and its path through the graph. It ends once:
  arrived      frames that sources sent
  delivered    out within the SLO (slo of [app])
  late         out after it; counts as dropped in every rate
  dropped      ended before they came out, with a reason (below)
  in flight    had not ended when the run did
  goodput/s    delivered in a second
  drop rate    (dropped + late) / arrived
  invalid rate device time spent on frames that were not delivered / all device time
  p50, p99     half, and 99 of 100, of what was delivered or late took no longer, in ms

A module runs a model on items: whole frames, or crops of them.
  batches      runs of the model
  items        items in them; mean batch is items / batches
  busy s       seconds of its devices that it used
  wasted s     those of them that went into frames which were not delivered
  dropped      frames that it dropped
  failed       batches that ended with an error
  queue p50    ms from the arrival of a frame at the module until its batch was chosen
  exec p50/p99 ms that a batch ran

Reasons of drops:
  infeasible   it would miss its deadline
  over-budget  it used more than its share of the SLO (rules with shares)
  shed         too much arrives: some is dropped on arrival so that the rest is in time
  superseded   a newer frame of its stream took its place (drop = \"newest\")
  stream-full  its stream has as many frames in flight as it may
  memory-full  decoded frames take what they may (setting frame_memory)
  not-decoded  its decoder left it out: no more of its stream can be used (decode of [sources])
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

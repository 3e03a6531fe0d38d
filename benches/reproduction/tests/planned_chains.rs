//! Modules that follow each other on slots whose order of work is planned, under more load than they sustain.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use weir_policy::SlotQueues;
use weir_reproduction::memory_chain::memory_chain;
use weir_sim::simulate;
use weir_types::Timestamp;

#[test]
fn what_was_begun_is_not_left_for_what_is_new() {
    let delivered = |queues| {
        let mut arrivals = (0..3_000).map(|number| Timestamp::from_micros(number * 4_600));
        let chain = memory_chain(true, queues).unwrap();
        let ran = simulate(&chain, "chain", &mut arrivals, &mut |_| ());
        ran.report.requests.delivered
    };
    let (plain, planned) = (delivered(None), delivered(Some(SlotQueues::Virtual)));
    // The order of groups costs something there; before what was begun counted for more, it cost two fifths.
    assert!(planned * 4 >= plain * 3, "{planned} of {plain}");
}

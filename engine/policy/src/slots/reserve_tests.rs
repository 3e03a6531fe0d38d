//! Sessions that cameras need stay open beside work that can wait, and are used before more are opened.

use std::collections::BTreeSet;

use super::memory_tests::{bid, closed, finished, ms, opened, spec, started, step};
use super::*;
use crate::strategy::SlotQueues;

const RULES: [Option<SlotQueues>; 5] = [
    None,
    Some(SlotQueues::Sticky),
    Some(SlotQueues::Edf),
    Some(SlotQueues::Fcfs),
    Some(SlotQueues::Virtual),
];

/// Modules 1 and 2 bid for a batch at each of the times, and effects are carried out at once. Returns the
/// modules that were served and the models that were closed.
fn play(slots: &mut Slots, times: std::ops::Range<u64>) -> (BTreeSet<u32>, BTreeSet<u32>) {
    let (mut served, mut left) = (BTreeSet::new(), BTreeSet::new());
    let mut effects = Vec::new();
    let mut asked = [false; 3];
    let end = times.end;
    for now in (times.start..end + 500).step_by(5) {
        let mut events = vec![SlotEvent::TimerFired];
        for module in [1, 2] {
            // Batches in progress are finished.
            if now < end && !std::mem::replace(&mut asked[module as usize], true) {
                events.push(bid(module, now + 60_000));
            }
        }
        for effect in effects.drain(..) {
            match effect {
                SlotEffect::Open { model, .. } => events.push(opened(model.0, 0, true)),
                SlotEffect::Close { model, .. } => {
                    left.insert(model.0);
                    events.push(closed(model.0, 0));
                }
                SlotEffect::Grant { module, .. } => {
                    served.insert(module.0);
                    asked[module.index()] = false;
                    events.extend([started(module.0, 0), finished(module.0, 0)]);
                }
                _ => {}
            }
        }
        for event in events {
            slots.step([event], ms(now), &mut effects);
        }
    }
    (served, left)
}

#[test]
fn what_cameras_need_stays_open_until_they_need_it_no_more() {
    for queues in RULES {
        let mut spec = spec(1, 20, &[10, 10, 10]);
        spec.placements[0].live = true;
        spec.queues = queues;
        let mut slots = Slots::new(spec);
        step(&mut slots, [bid(0, 100)], 0);
        step(&mut slots, [opened(0, 0, false)], 20);
        step(&mut slots, [started(0, 0)], 20);
        step(&mut slots, [finished(0, 0)], 30);
        // The other modules share the rest of the memory.
        let (served, closed) = play(&mut slots, 100..4_000);
        assert_eq!(served, BTreeSet::from([1, 2]), "{queues:?}");
        assert_eq!(closed, BTreeSet::from([1, 2]), "{queues:?}");
        let (_, closed) = play(&mut slots, 8_000..9_000);
        assert!(closed.contains(&0), "{queues:?}: it is kept for nobody");
    }
}

#[test]
fn a_second_session_is_opened_where_the_first_would_be_late() {
    for (latest, opens) in [(500, false), (35, true)] {
        let mut spec = spec(2, 40, &[10, 10, 10]);
        spec.placements[0].live = true;
        spec.queues = Some(SlotQueues::Edf);
        let mut slots = Slots::new(spec);
        step(&mut slots, [bid(0, 100)], 0);
        step(&mut slots, [opened(0, 0, false)], 20);
        step(&mut slots, [started(0, 0)], 20);
        step(&mut slots, [finished(0, 0), bid(0, 100)], 30);
        // It runs until 40 ms, and is wanted again meanwhile.
        step(&mut slots, [started(0, 0)], 30);
        let effects = step(&mut slots, [bid(0, latest)], 31);
        let asks = effects
            .iter()
            .any(|effect| matches!(effect, SlotEffect::Open { slot: SlotId(1), .. }));
        assert_eq!(asks, opens, "{effects:?}");
    }
}

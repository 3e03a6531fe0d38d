//! A breaker for slots that lose one batch after another: they are taken out of use for a while. A slot that
//! fails at once is always free first, and would otherwise be granted every batch.
//!
//! ```text
//! in use ──losses in a window──TakeOut──> out of use ──cooldown──PutBack──> in use
//! ```

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use weir_types::{SlotId, Span, Timestamp};

/// Condition for taking a slot out of use, and the duration of that.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct BreakerSpec {
    /// Number of lost batches within the window that takes a slot out of use; at least 1.
    pub losses: u32,
    /// Period over which losses are counted.
    pub window: Span,
    /// Time that a slot stays out of use.
    pub cooldown: Span,
}

impl Default for BreakerSpec {
    fn default() -> Self {
        Self {
            losses: 5,
            window: Span::from_secs(1),
            cooldown: Span::from_secs(1),
        }
    }
}

/// A fact for the breaker. A step without events only lets time pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "kebab-case")]
pub enum BreakerEvent {
    /// A slot lost a batch.
    BatchLost {
        /// Slot that lost the batch.
        slot: SlotId,
    },
}

/// An effect of the breaker.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "effect", rename_all = "kebab-case")]
pub enum BreakerEffect {
    /// Grant no more batches on the slot.
    TakeOut {
        /// Slot that lost too many batches.
        slot: SlotId,
    },
    /// Use the slot again.
    PutBack {
        /// Slot whose cooldown has passed.
        slot: SlotId,
    },
    /// Call again at that time, also without events; replaces the previous timer.
    SetTimer {
        /// Time of the step.
        at: Timestamp,
    },
}

/// The breaker of all slots.
#[derive(Debug, Clone)]
pub struct SlotBreaker {
    spec: BreakerSpec,
    /// Losses within the window, by slot.
    losses: BTreeMap<SlotId, Vec<Timestamp>>,
    /// Slots out of use, with the time at which each returns.
    out: BTreeMap<SlotId, Timestamp>,
    timer_at: Option<Timestamp>,
}

impl SlotBreaker {
    /// Creates a breaker with all slots in use.
    #[must_use]
    pub fn new(spec: BreakerSpec) -> Self {
        Self {
            spec,
            losses: BTreeMap::new(),
            out: BTreeMap::new(),
            timer_at: None,
        }
    }

    /// Takes in a burst of events, decides once, and appends the resulting effects.
    pub fn step(
        &mut self,
        events: impl IntoIterator<Item = BreakerEvent>,
        now: Timestamp,
        effects: &mut Vec<BreakerEffect>,
    ) {
        let due = self.out.extract_if(.., |_, until| *until <= now);
        effects.extend(due.map(|(slot, _)| BreakerEffect::PutBack { slot }));
        for BreakerEvent::BatchLost { slot } in events {
            let exceeded = self.count_loss(slot, now);
            if exceeded && !self.out.contains_key(&slot) {
                self.out.insert(slot, now + self.spec.cooldown);
                effects.push(BreakerEffect::TakeOut { slot });
            }
        }
        let first = self.out.values().min().copied();
        if let Some(at) = first
            && self.timer_at != first
        {
            effects.push(BreakerEffect::SetTimer { at });
        }
        self.timer_at = first;
    }

    /// Counts a loss of the slot; returns `true` if that was one too many within the window.
    fn count_loss(&mut self, slot: SlotId, now: Timestamp) -> bool {
        let window = self.spec.window;
        let losses = self.losses.entry(slot).or_default();
        losses.push(now);
        losses.retain(|&at| now.since(at) <= window);
        let exceeded = losses.len() >= self.spec.losses as usize;
        if exceeded {
            losses.clear();
        }
        exceeded
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SLOT: SlotId = SlotId(3);

    fn ms(ms: u64) -> Timestamp {
        Timestamp::ZERO + Span::from_millis(ms)
    }

    fn step(breaker: &mut SlotBreaker, losses: usize, now: u64) -> Vec<BreakerEffect> {
        let mut effects = Vec::new();
        let lost = [BreakerEvent::BatchLost { slot: SLOT }];
        breaker.step(lost.into_iter().cycle().take(losses), ms(now), &mut effects);
        effects
    }

    #[test]
    fn a_slot_that_loses_batch_after_batch_is_out_of_use_for_a_while() {
        let mut breaker = SlotBreaker::new(BreakerSpec::default());
        assert_eq!(step(&mut breaker, 4, 100), []);
        let taken_out = [
            BreakerEffect::TakeOut { slot: SLOT },
            BreakerEffect::SetTimer { at: ms(1_200) },
        ];
        assert_eq!(step(&mut breaker, 1, 200), taken_out);
        assert_eq!(step(&mut breaker, 0, 1_199), []);
        assert_eq!(
            step(&mut breaker, 0, 1_200),
            [BreakerEffect::PutBack { slot: SLOT }]
        );
        assert_eq!(step(&mut breaker, 4, 1_300), [], "it is counted anew");
    }

    #[test]
    fn losses_far_apart_take_no_slot_out_of_use() {
        let mut breaker = SlotBreaker::new(BreakerSpec::default());
        for loss in 0..100 {
            assert_eq!(step(&mut breaker, 1, 251 * loss), []);
        }
    }

    #[test]
    fn a_slot_is_put_back_once_for_each_time_that_it_is_taken_out() {
        let mut breaker = SlotBreaker::new(BreakerSpec::default());
        let losses = [5, 3, 2, 1, 9, 0, 7, 5, 5, 0, 0].into_iter().cycle().take(200);
        let steps = (0..).map(|number| 170 * number).zip(losses).chain([(60_000, 0)]);
        let (mut out, mut taken_out) = (0_u32, 0);
        for (now, losses) in steps {
            for effect in step(&mut breaker, losses, now) {
                match effect {
                    BreakerEffect::TakeOut { .. } => (out, taken_out) = (out + 1, taken_out + 1),
                    BreakerEffect::PutBack { .. } => out -= 1,
                    BreakerEffect::SetTimer { at } => assert!(at > ms(now), "it is due"),
                }
                assert!(out <= 1);
            }
        }
        assert_eq!(out, 0);
        assert!(taken_out > 10, "{taken_out}");
    }
}

//! Adaptive priority of a mailbox (PARD 4.3): high budget first (HBF) under overload, low budget first (LBF) otherwise, with
//! hysteresis.

use std::collections::VecDeque;

use crate::queue::depq::End;
use crate::strategy::Order;

/// Number of readings over which the hysteresis band is computed.
const MAX_READINGS: usize = 50;

/// The priority of a module's mailbox.
///
/// ```text
///            mu > 1 + eps
///   Low  ------------------>  High
///  (LBF) <------------------  (HBF)
///            mu < 1 - eps
/// ```
#[derive(Debug, Clone)]
pub struct AdaptivePriority {
    order: Order,
    end: End,
    readings: VecDeque<(f64, f64)>,
    load_factor: f64,
    switches: u64,
}

impl AdaptivePriority {
    /// The initial priority under `order`.
    #[must_use]
    pub fn new(order: Order) -> Self {
        let end = if order == Order::Hbf { End::High } else { End::Low };
        Self {
            order,
            end,
            readings: VecDeque::with_capacity(MAX_READINGS),
            load_factor: 0.0,
            switches: 0,
        }
    }

    /// Another order is in force; readings and switches so far stay.
    pub(crate) fn set_order(&mut self, order: Order) {
        if order != self.order {
            (self.order, self.end) = (order, Self::new(order).end);
        }
    }

    /// Adds a reading, in items a second: the recent input rate (`T_in`), the input rate smoothed over a longer window
    /// (`T_s`), and the throughput of the module (`T_m`).
    pub fn update(&mut self, input: f64, smoothed: f64, throughput: f64) {
        if self.readings.len() == MAX_READINGS {
            self.readings.pop_front();
        }
        self.readings.push_back((input, smoothed));
        self.load_factor = if throughput > 0.0 {
            input / throughput
        } else {
            f64::INFINITY
        };
        let band = match self.order {
            Order::Adaptive => self.band(),
            Order::Instant => 0.0,
            Order::Fcfs | Order::Hbf | Order::Lbf => return,
        };
        let end = if self.load_factor > 1.0 + band {
            End::High
        } else if self.load_factor < 1.0 - band || (band == 0.0 && self.load_factor <= 1.0) {
            End::Low
        } else {
            self.end
        };
        if end != self.end {
            self.end = end;
            self.switches += 1;
        }
    }

    /// `eps = sum |T_in - T_s| / sum T_in` over the recent readings: the burstiness of the input.
    #[must_use]
    pub fn band(&self) -> f64 {
        let (deviation, input) = self
            .readings
            .iter()
            .fold((0.0, 0.0), |(deviation, sum), (input, smoothed)| {
                (deviation + (input - smoothed).abs(), sum + input)
            });
        if input > 0.0 { deviation / input } else { 0.0 }
    }

    /// End of the mailbox from which requests are taken.
    #[must_use]
    pub fn end(&self) -> End {
        self.end
    }

    /// Whether keys of the mailbox are arrival times rather than deadlines.
    #[must_use]
    pub fn is_fcfs(&self) -> bool {
        self.order == Order::Fcfs
    }

    /// `mu = T_in / T_m` at the last reading.
    #[must_use]
    pub fn load_factor(&self) -> f64 {
        self.load_factor
    }

    /// Number of switches.
    #[must_use]
    pub fn switches(&self) -> u64 {
        self.switches
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn overload_switches_to_high_budget_first_and_back() {
        let mut priority = AdaptivePriority::new(Order::Adaptive);
        priority.update(50.0, 50.0, 100.0);
        assert_eq!(priority.end(), End::Low);
        priority.update(150.0, 150.0, 100.0);
        assert_eq!(priority.end(), End::High);
        priority.update(50.0, 50.0, 100.0);
        assert_eq!((priority.end(), priority.switches()), (End::Low, 2));
    }

    #[test]
    fn fixed_orders_never_switch() {
        for (order, end) in [
            (Order::Fcfs, End::Low),
            (Order::Lbf, End::Low),
            (Order::Hbf, End::High),
        ] {
            let mut priority = AdaptivePriority::new(order);
            for input in [10.0, 500.0, 10.0] {
                priority.update(input, input, 100.0);
                assert_eq!(priority.end(), end);
            }
        }
    }

    proptest! {
        /// Within the band the priority never switches.
        #[test]
        fn hysteresis_holds_inside_the_band(readings in prop::collection::vec((1.0..200.0_f64, 1.0..200.0_f64), 1..200)) {
            let mut priority = AdaptivePriority::new(Order::Adaptive);
            for (input, smoothed) in readings {
                let before = priority.end();
                priority.update(input, smoothed, 100.0);
                let band = priority.band();
                let inside = (1.0 - band..=1.0 + band).contains(&priority.load_factor());
                if inside {
                    prop_assert_eq!(priority.end(), before);
                }
            }
        }
    }
}

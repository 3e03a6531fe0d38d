//! The next token from logits.

use weir_flow::Sampling;

/// The token after `place` others of its sequence, and the probability that the model gave it.
///
/// Greedy: the one with the largest logit, of several the first. Else it is drawn from the softmax of the `top_k` largest
/// logits over the temperature, by a number that the seed and the place give.
pub(super) fn next_token(logits: &[f32], sampling: &Sampling, place: u32) -> (u32, f32) {
    let best = largest(logits);
    let most = logits[best as usize];
    let sum: f64 = logits.iter().map(|logit| f64::from(logit - most).exp()).sum();
    let chosen = if sampling.temperature > 0.0 {
        draw(logits, sampling, place)
    } else {
        best
    };
    let probability = f64::from(logits[chosen as usize] - most).exp() / sum;
    (chosen, probability as f32)
}

fn largest(logits: &[f32]) -> u32 {
    let mut best = 0;
    for (token, logit) in logits.iter().enumerate() {
        if *logit > logits[best] {
            best = token;
        }
    }
    best as u32
}

fn draw(logits: &[f32], sampling: &Sampling, place: u32) -> u32 {
    let mut order: Vec<u32> = (0..logits.len() as u32).collect();
    let by_logit = |a: &u32, b: &u32| logits[*b as usize].total_cmp(&logits[*a as usize]).then(a.cmp(b));
    let kept = match sampling.top_k as usize {
        0 => order.len(),
        top => top.min(order.len()),
    };
    if kept < order.len() {
        order.select_nth_unstable_by(kept, by_logit);
        order.truncate(kept);
    }
    order.sort_unstable_by(by_logit);
    let most = logits[order[0] as usize];
    let weight = |token: &u32| f64::from((logits[*token as usize] - most) / sampling.temperature).exp();
    let all: f64 = order.iter().map(weight).sum();
    let mut left = uniform(sampling.seed, place) * all;
    for token in &order {
        left -= weight(token);
        if left < 0.0 {
            return *token;
        }
    }
    order[order.len() - 1]
}

/// From 0 up to 1, by the finaliser of SplitMix64 (Steele et al. 2014).
fn uniform(seed: u64, place: u32) -> f64 {
    let mut bits = seed.wrapping_add((u64::from(place) + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15));
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    ((bits ^ (bits >> 31)) >> 11) as f64 / (1_u64 << 53) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn greedy_takes_the_first_of_the_largest() {
        let (token, probability) = next_token(&[0.0, 2.0, 2.0, -1.0], &Sampling::default(), 7);
        assert_eq!(token, 1);
        assert!((probability - 0.457).abs() < 0.001, "{probability}");
    }

    #[test]
    fn draws_have_the_share_of_their_probability_and_repeat_by_seed() {
        let logits = [1.0_f32, 0.0, 3.0, 2.0];
        let sampling = Sampling {
            temperature: 1.0,
            top_k: 2,
            seed: 5,
        };
        let draws: Vec<u32> = (0..4000)
            .map(|place| next_token(&logits, &sampling, place).0)
            .collect();
        let again: Vec<u32> = (0..4000)
            .map(|place| next_token(&logits, &sampling, place).0)
            .collect();
        assert_eq!(draws, again);
        let share = draws.iter().filter(|token| **token == 2).count() as f64 / 4000.0;
        assert!((share - 0.731).abs() < 0.03, "{share}");
        assert!(draws.iter().all(|token| [2, 3].contains(token)), "top two alone");
    }
}

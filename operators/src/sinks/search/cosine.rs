//! Cosines of stored vectors to the vector of a query.

use half::f16;
use half::slice::HalfFloatSliceExt;

/// Lanes of the sum of products: processors add so many numbers at a time, and one sum after the other loses precision.
const LANES: usize = 16;

/// Cosines of vectors in half precision to one in single precision. Half precision changes the length of a vector, so it is divided by it.
pub(super) struct Cosine {
    /// L2-normalised.
    query: Vec<f32>,
    halves: Vec<f16>,
    numbers: Vec<f32>,
}

impl Cosine {
    pub(super) fn new(query: &[f32]) -> Self {
        let length = product(query, query).sqrt().max(f32::MIN_POSITIVE);
        Self {
            query: query.iter().map(|number| number / length).collect(),
            halves: Vec::with_capacity(query.len()),
            numbers: vec![0.0; query.len()],
        }
    }

    /// The cosine to a vector of as many numbers as the query, -1 to 1; -1 if it has no length.
    pub(super) fn to(&mut self, bytes: &[u8]) -> f32 {
        self.halves.clear();
        let halves = bytes.as_chunks::<2>().0.iter();
        self.halves.extend(halves.map(|half| f16::from_le_bytes(*half)));
        self.halves.convert_to_f32_slice(&mut self.numbers);
        let length = product(&self.numbers, &self.numbers).sqrt();
        let cosine = product(&self.query, &self.numbers) / length;
        if cosine.is_finite() {
            cosine.clamp(-1.0, 1.0)
        } else {
            -1.0
        }
    }
}

/// The sum of the products of two vectors.
fn product(one: &[f32], other: &[f32]) -> f32 {
    let (one, one_rest) = one.as_chunks::<LANES>();
    let (other, other_rest) = other.as_chunks::<LANES>();
    let mut sums = [0.0; LANES];
    for (one, other) in one.iter().zip(other) {
        for ((sum, one), other) in sums.iter_mut().zip(one).zip(other) {
            *sum += one * other;
        }
    }
    let rest = one_rest.iter().zip(other_rest);
    sums.iter().sum::<f32>() + rest.map(|(one, other)| one * other).sum::<f32>()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn cosine_is_the_sum_of_products_within_half_precision(
            pairs in proptest::collection::vec((-1.0_f32..1.0, -1.0_f32..1.0), 1..70),
        ) {
            let (query, stored): (Vec<f32>, Vec<f32>) = pairs.into_iter().unzip();
            let sum = |one: &[f32], other: &[f32]| -> f64 {
                one.iter().zip(other).map(|(one, other)| f64::from(*one) * f64::from(*other)).sum()
            };
            let lengths = (sum(&query, &query) * sum(&stored, &stored)).sqrt();
            prop_assume!(lengths > 0.1);
            let bytes: Vec<u8> = stored.iter().flat_map(|number| f16::from_f32(*number).to_le_bytes()).collect();
            let found = f64::from(Cosine::new(&query).to(&bytes));
            let expected = sum(&query, &stored) / lengths;
            prop_assert!((found - expected).abs() < 2e-3, "{} {}", found, expected);
        }
    }

    #[test]
    fn damaged_numbers_are_the_least_similar() {
        let bytes: Vec<u8> = [f16::NAN, f16::INFINITY]
            .iter()
            .flat_map(|half| half.to_le_bytes())
            .collect();
        assert_eq!(Cosine::new(&[0.6, 0.8]).to(&bytes), -1.0);
        assert_eq!(Cosine::new(&[0.6, 0.8]).to(&[0; 4]), -1.0);
        assert_eq!(Cosine::new(&[0.0, 0.0]).to(&[0, 60, 0, 60]), 0.0);
    }
}

//! Items that requests bring to modules, and the exclusive branches that they take. Drawn request by request,
//! stream by stream: successive frames of a stream are correlated, so demand can be predicted.

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

/// Items that requests bring. By default one item to every module.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Demand {
    /// Modules to which requests bring a varying number of items.
    pub crops: Vec<Crops>,
    /// Sets of branches of which a request takes one.
    pub branches: Vec<Branches>,
}

impl Demand {
    /// Sets the items of a module, in the place of those that it has.
    pub(crate) fn set_crops(&mut self, crops: Crops) {
        self.crops.retain(|other| other.module != crops.module);
        self.crops.push(crops);
        self.crops.sort_by_key(|crops| crops.module);
    }
}

/// A varying number of items: Poisson around a level that wanders slowly, as objects in view of a camera do.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Crops {
    /// Index of the module.
    pub module: usize,
    /// Mean number of items.
    pub mean: f64,
    /// Standard deviation of the logarithm of the level.
    pub spread: f64,
    /// Correlation of the level with that of the frame before, from 0 to below 1.
    pub persistence: f64,
    /// The most items of one request.
    pub max: u32,
}

/// Exclusive branches: a request brings no items to modules of branches that it does not take.
#[derive(Debug, Clone, PartialEq)]
pub struct Branches {
    /// Modules of each branch, and how often it is taken; the shares add up to 1.
    pub branches: Vec<(Vec<usize>, f64)>,
    /// Probability that a request takes the same branch as the request before it in its stream; otherwise it
    /// draws anew.
    pub persistence: f64,
}

#[derive(Debug, Clone)]
struct Stream {
    levels: Vec<f64>,
    taken: Vec<usize>,
}

/// Draws what requests bring.
#[derive(Debug, Clone)]
pub(crate) struct DemandSampler {
    demand: Demand,
    streams: Vec<Stream>,
    random: Pcg64Mcg,
}

impl DemandSampler {
    pub(crate) fn new(demand: Demand, streams: u32, seed: u64) -> Self {
        let mut random = Pcg64Mcg::seed_from_u64(seed ^ 0x6465_6d61_6e64);
        let stream = |random: &mut Pcg64Mcg| Stream {
            levels: demand.crops.iter().map(|_| normal(random)).collect(),
            taken: demand.branches.iter().map(|set| choose(set, random)).collect(),
        };
        let streams = (0..streams.max(1)).map(|_| stream(&mut random)).collect();
        Self {
            demand,
            streams,
            random,
        }
    }

    /// The items of the next request of `stream`, by module, into `items`, which holds ones.
    pub(crate) fn draw(&mut self, stream: u32, items: &mut [u8]) {
        let Some(of) = self.streams.get_mut(stream as usize) else {
            return;
        };
        for (crops, level) in self.demand.crops.iter().zip(&mut of.levels) {
            let kept = crops.persistence;
            *level = kept * *level + (1.0 - kept * kept).sqrt() * normal(&mut self.random);
            let mean = crops.mean * (crops.spread * *level - crops.spread * crops.spread / 2.0).exp();
            let count = poisson(mean, &mut self.random).min(crops.max);
            if let Some(place) = items.get_mut(crops.module) {
                *place = count.min(u32::from(u8::MAX)) as u8;
            }
        }
        for (set, taken) in self.demand.branches.iter().zip(&mut of.taken) {
            if !self.random.random_bool(set.persistence.clamp(0.0, 1.0)) {
                *taken = choose(set, &mut self.random);
            }
            for (branch, (modules, _)) in set.branches.iter().enumerate() {
                for &module in modules.iter().filter(|_| branch != *taken) {
                    if let Some(place) = items.get_mut(module) {
                        *place = 0;
                    }
                }
            }
        }
    }
}

fn choose(set: &Branches, random: &mut Pcg64Mcg) -> usize {
    let mut left = random.random::<f64>();
    for (branch, (_, share)) in set.branches.iter().enumerate() {
        left -= share;
        if left < 0.0 {
            return branch;
        }
    }
    set.branches.len().saturating_sub(1)
}

/// A standard normal draw (Box and Muller).
pub(crate) fn normal(random: &mut Pcg64Mcg) -> f64 {
    let (u, v) = (1.0 - random.random::<f64>(), random.random::<f64>());
    (-2.0 * u.ln()).sqrt() * (std::f64::consts::TAU * v).cos()
}

/// A Poisson draw of a small mean (Knuth).
fn poisson(mean: f64, random: &mut Pcg64Mcg) -> u32 {
    let limit = (-mean.clamp(0.0, 100.0)).exp();
    let (mut count, mut product) = (0, random.random::<f64>());
    while product > limit {
        count += 1;
        product *= random.random::<f64>();
    }
    count
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_and_means_come_out() {
        let demand = Demand {
            crops: vec![Crops {
                module: 0,
                mean: 3.0,
                spread: 0.5,
                persistence: 0.9,
                max: 50,
            }],
            branches: vec![Branches {
                branches: vec![(vec![1], 0.3), (vec![2], 0.7)],
                persistence: 0.5,
            }],
        };
        let mut sampler = DemandSampler::new(demand, 4, 1);
        let (mut items, mut first) = (0_u64, 0_u64);
        const REQUESTS: u64 = 200_000;
        for request in 0..REQUESTS {
            let mut bring = [1; 4];
            sampler.draw((request % 4) as u32, &mut bring);
            assert_eq!(
                u32::from(bring[1]) + u32::from(bring[2]),
                1,
                "one branch is taken"
            );
            assert_eq!(bring[3], 1);
            items += u64::from(bring[0]);
            first += u64::from(bring[1]);
        }
        let (mean, share) = (items as f64 / REQUESTS as f64, first as f64 / REQUESTS as f64);
        assert!((mean - 3.0).abs() < 0.1, "{mean}");
        assert!((share - 0.3).abs() < 0.01, "{share}");
    }
}

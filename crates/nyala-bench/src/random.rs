//! A seeded random number generator with 8 bytes of state, and normal deviates by the ziggurat method.
//!
//! No crate is used, because a seed must give the same data for years, with any version of a library.
//! Every host has its own generator, so that its history can be computed without the others; so the state has to be
//! small.

use std::sync::LazyLock;

/// SplitMix64: a counter through a strong mixing function.
#[derive(Clone, Debug)]
pub struct Random {
    state: u64,
}

const GOLDEN_GAMMA: u64 = 0x9e37_79b9_7f4a_7c15;

fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// 64 bits that depend on all three numbers: randomness that can be computed again without state.
#[inline]
pub fn hash(seed: u64, a: u64, b: u64) -> u64 {
    mix(mix(seed ^ a.wrapping_mul(GOLDEN_GAMMA)) ^ b.wrapping_add(GOLDEN_GAMMA))
}

impl Random {
    /// A generator for `seed` and a numbered stream of it; different streams are independent.
    pub fn new(seed: u64, stream: u64) -> Random {
        Random { state: mix(mix(seed.wrapping_add(GOLDEN_GAMMA)) ^ stream.wrapping_mul(GOLDEN_GAMMA)) }
    }

    /// 64 uniform bits.
    #[inline]
    pub fn bits(&mut self) -> u64 {
        self.state = self.state.wrapping_add(GOLDEN_GAMMA);
        mix(self.state)
    }

    /// A uniform integer below `limit`, which is not 0.
    #[inline]
    pub fn below(&mut self, limit: u64) -> u64 {
        assert!(limit > 0, "an empty range has no member");
        ((u128::from(self.bits()) * u128::from(limit)) >> 64) as u64
    }

    /// A uniform float in [0, 1).
    #[inline]
    pub fn unit(&mut self) -> f64 {
        (self.bits() >> 11) as f64 * (1.0 / (1u64 << 53) as f64)
    }

    /// One of `choices`, uniformly.
    pub fn choice<'a, T>(&mut self, choices: &'a [T]) -> &'a T {
        &choices[self.below(choices.len() as u64) as usize]
    }

    /// A standard normal deviate (mean 0, deviation 1).
    #[inline]
    pub fn normal(&mut self, ziggurat: &Ziggurat) -> f64 {
        let bits = self.bits();
        let layer = (bits & (LAYERS as u64 - 1)) as usize;
        // The top 53 bits as a signed fraction in [-1, 1): independent of the layer's low bits.
        let fraction = ((bits as i64) >> 11) as f64 * (1.0 / (1u64 << 52) as f64);
        let x = fraction * ziggurat.edge[layer];
        if x.abs() < ziggurat.edge[layer + 1] { x } else { self.normal_edge(ziggurat, layer, x) }
    }

    /// The 1 % of draws that fall on a layer's edge or in the tail.
    #[cold]
    fn normal_edge(&mut self, ziggurat: &Ziggurat, layer: usize, x: f64) -> f64 {
        if layer == 0 {
            return loop {
                let tail = -(1.0 - self.unit()).ln() / TAIL_START;
                let height = -(1.0 - self.unit()).ln();
                if 2.0 * height >= tail * tail {
                    break (TAIL_START + tail).copysign(x);
                }
            };
        }
        let (low, high) = (ziggurat.height[layer], ziggurat.height[layer + 1]);
        if low + self.unit() * (high - low) < density(x) { x } else { self.normal(ziggurat) }
    }
}

const LAYERS: usize = 256;
/// Where the tail begins and the area of each layer, for 256 layers (Marsaglia and Tsang, 2000).
const TAIL_START: f64 = 3.654_152_885_361_009;
const LAYER_AREA: f64 = 0.004_928_673_233_997_087;

fn density(x: f64) -> f64 {
    (-0.5 * x * x).exp()
}

/// The tables of the ziggurat: layer edges from the widest to 0, and the density at them.
#[derive(Debug)]
pub struct Ziggurat {
    edge: [f64; LAYERS + 1],
    height: [f64; LAYERS + 1],
}

impl Ziggurat {
    /// The tables, computed once.
    pub fn shared() -> &'static Ziggurat {
        static SHARED: LazyLock<Ziggurat> = LazyLock::new(Ziggurat::compute);
        &SHARED
    }

    fn compute() -> Ziggurat {
        let mut edge = [0.0; LAYERS + 1];
        edge[0] = LAYER_AREA / density(TAIL_START);
        edge[1] = TAIL_START;
        for layer in 2..LAYERS {
            let below = edge[layer - 1];
            edge[layer] = (-2.0 * (LAYER_AREA / below + density(below)).ln()).sqrt();
        }
        Ziggurat { edge, height: edge.map(density) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn normal_deviates_have_the_moments_and_tails_of_the_normal_distribution() {
        let (mut random, ziggurat) = (Random::new(7, 0), Ziggurat::shared());
        let count = 2_000_000;
        let (mut sum, mut squares, mut fourth) = (0.0, 0.0, 0.0);
        let (mut beyond_two, mut beyond_tail) = (0u32, 0u32);
        for _ in 0..count {
            let x = random.normal(ziggurat);
            sum += x;
            squares += x * x;
            fourth += x * x * x * x;
            beyond_two += u32::from(x.abs() > 2.0);
            beyond_tail += u32::from(x.abs() > TAIL_START);
        }
        let count = f64::from(count);
        assert!((sum / count).abs() < 0.004);
        assert!((squares / count - 1.0).abs() < 0.006);
        assert!((fourth / count - 3.0).abs() < 0.05);
        assert!((f64::from(beyond_two) / count - 0.0455).abs() < 0.001);
        assert!((f64::from(beyond_tail) / count - 0.000_258).abs() < 0.000_06);
    }

    #[test]
    fn layers_meet_at_the_top() {
        let ziggurat = Ziggurat::shared();
        assert!(ziggurat.edge.windows(2).all(|pair| pair[0] > pair[1]));
        let top = ziggurat.edge[LAYERS - 1];
        assert!((top * (1.0 - density(top)) - LAYER_AREA).abs() < 1e-6);
    }

    #[test]
    fn streams_of_a_seed_differ_and_repeat() {
        let draw = |seed, stream| Random::new(seed, stream).bits();
        assert_eq!(draw(1, 2), draw(1, 2));
        assert_ne!(draw(1, 2), draw(1, 3));
        assert_ne!(draw(1, 2), draw(2, 2));
    }

    #[test]
    fn bounded_integers_cover_their_range() {
        let mut random = Random::new(3, 3);
        let mut seen = [0u32; 6];
        for _ in 0..6000 {
            seen[random.below(6) as usize] += 1;
        }
        assert!(seen.iter().all(|&count| count > 850 && count < 1150), "{seen:?}");
    }
}

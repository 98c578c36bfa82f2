//! Which rows are asked for: all alike, few of them mostly, mostly the newest, or one after the other.

use super::rows::fnv_64;
use crate::random::Random;
use clap::ValueEnum;

/// YCSB's constant: the most popular of a million rows gets 6 % of all requests.
const THETA: f64 = 0.99;

/// How popular rows are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Popularity {
    /// All alike.
    Uniform,
    /// By Zipf's law; popular rows lie anywhere among the keys.
    Zipfian,
    /// By Zipf's law, the newest first.
    Latest,
    /// One after the other in the order of insertion; each client begins anywhere.
    Sequential,
}

/// Draws numbers below a limit, small ones more often: after Gray et al., "Quickly Generating Billion-Record Synthetic
/// Databases", 1994.
#[derive(Clone, Debug)]
pub struct Zipf {
    limit: u64,
    /// The sum of 1 / rank^theta over all ranks.
    zeta: f64,
    alpha: f64,
    eta: f64,
}

/// The sum of 1 / rank^theta of `first..=last`.
fn zeta(first: u64, last: u64) -> f64 {
    (first..=last).map(|rank| (rank as f64).powf(-THETA)).sum()
}

/// Terms that are added one by one; the rest is an integral, exact to twelve digits.
const TERMS: u64 = 1_000_000;

fn zeta_to(limit: u64) -> f64 {
    if limit <= TERMS {
        return zeta(1, limit);
    }
    let integral = |x: f64| x.powf(1.0 - THETA) / (1.0 - THETA);
    let ends = ((limit as f64).powf(-THETA) - (TERMS as f64).powf(-THETA)) / 2.0;
    zeta(1, TERMS) + integral(limit as f64) - integral(TERMS as f64) + ends
}

impl Zipf {
    /// Numbers below a limit, which is not 0.
    pub fn new(limit: u64) -> Self {
        let zeta_limit = zeta_to(limit);
        let eta = (1.0 - (2.0 / limit as f64).powf(1.0 - THETA)) / (1.0 - zeta(1, 2) / zeta_limit);
        Self { limit, zeta: zeta_limit, alpha: 1.0 / (1.0 - THETA), eta }
    }

    /// The next number.
    pub fn draw(&self, random: &mut Random) -> u64 {
        let unit = random.unit();
        let scaled = unit * self.zeta;
        if scaled < 1.0 {
            return 0;
        }
        if scaled < 1.0 + 0.5_f64.powf(THETA) {
            return 1.min(self.limit - 1);
        }
        let rank = self.limit as f64 * (self.eta * unit - self.eta + 1.0).powf(self.alpha);
        (rank as u64).min(self.limit - 1)
    }
}

/// Draws rows.
#[derive(Clone, Debug)]
pub struct RowChooser {
    popularity: Popularity,
    zipf: Zipf,
    /// Of those that are asked for one after the other; drawn at first.
    next: Option<u64>,
}

impl RowChooser {
    /// Draws from about `rows` rows.
    pub fn new(popularity: Popularity, rows: u64) -> Self {
        Self { popularity, zipf: Zipf::new(rows.max(1)), next: None }
    }

    /// A row of those inserted so far, of which there is at least one.
    pub fn draw(&mut self, random: &mut Random, inserted: u64) -> u64 {
        match self.popularity {
            Popularity::Uniform => random.below(inserted),
            // Hashed, so that popular rows are not neighbours.
            Popularity::Zipfian => fnv_64(self.zipf.draw(random)) % inserted,
            Popularity::Latest => inserted - 1 - self.zipf.draw(random).min(inserted - 1),
            Popularity::Sequential => {
                let row = self.next.unwrap_or_else(|| random.below(inserted)) % inserted;
                self.next = Some(row + 1);
                row
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_as_frequent_as_the_law_says() {
        let (limit, draws) = (1000, 400_000);
        let zipf = Zipf::new(limit);
        let mut random = Random::new(3, 0);
        let mut found = vec![0_u32; limit as usize];
        (0..draws).for_each(|_| found[zipf.draw(&mut random) as usize] += 1);
        let all = zeta(1, limit);
        for (rank, tolerance) in [(1, 0.02), (2, 0.03), (10, 0.25), (100, 0.25)] {
            let expected = (rank as f64).powf(-THETA) / all;
            let share = f64::from(found[rank - 1]) / f64::from(draws);
            assert!((share / expected - 1.0).abs() < tolerance, "rank {rank}: {share} of {expected}");
        }
    }

    #[test]
    fn a_long_sum_equals_its_terms() {
        let limit = TERMS + 1000;
        assert!((zeta_to(limit) - zeta(1, limit)).abs() < 1e-9);
    }

    #[test]
    fn the_newest_rows_are_the_latest() {
        let mut chooser = RowChooser::new(Popularity::Latest, 10_000);
        let mut random = Random::new(4, 0);
        let newest = (0..10_000).filter(|_| chooser.draw(&mut random, 10_000) >= 9_900).count();
        assert!((4_000..6_500).contains(&newest), "{newest}");
        let mut chooser = RowChooser::new(Popularity::Uniform, 10_000);
        assert!((0..100).all(|_| chooser.draw(&mut random, 7) < 7));
        let mut chooser = RowChooser::new(Popularity::Sequential, 7);
        let rows: Vec<u64> = (0..8).map(|_| chooser.draw(&mut random, 7)).collect();
        assert!(rows.windows(2).all(|pair| pair[1] == (pair[0] + 1) % 7), "{rows:?}");
    }
}

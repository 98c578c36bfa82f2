//! Draws the random hosts and time range of a query as TSBS does.

use super::kind::{QueryKind, Shape};
use crate::random::Random;
use crate::time::Span;

/// Random streams of a seed for queries. Each type has its own, so that skipping a type does not change the others.
const QUERY_STREAMS: u64 = 2 << 40;

/// One query: its shape, hosts and time range.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Query {
    /// Its shape.
    pub shape: Shape,
    /// The hosts that it names; empty for all hosts.
    pub hosts: Vec<u64>,
    /// The time range, in whole seconds. [`Shape::FiveMinutes`] uses only its end, and [`Shape::LastPoint`] does not
    /// use it.
    pub span: Span,
}

/// Source of queries of one type.
#[derive(Debug)]
pub struct QueryGenerator {
    kind: QueryKind,
    hosts: u64,
    data: Span,
    random: Random,
}

impl QueryGenerator {
    /// For a data set of `hosts` hosts over `data`.
    pub fn new(kind: QueryKind, hosts: u64, data: Span, seed: u64) -> QueryGenerator {
        let stream = kind.name.bytes().fold(0u64, |sum, byte| sum.wrapping_mul(31).wrapping_add(byte.into()));
        QueryGenerator { kind, hosts, data, random: Random::new(seed, QUERY_STREAMS ^ stream) }
    }

    /// The next query.
    pub fn draw(&mut self) -> Query {
        let span = match self.kind.shape.range_seconds() {
            Some(seconds) => self.window(seconds),
            None => self.data,
        };
        let hosts = self.kind.shape.named_hosts().map_or_else(Vec::new, |count| self.some_hosts(count));
        Query { shape: self.kind.shape, hosts, span }
    }

    /// A window at a random time within the data. TSBS draws its start in nanoseconds and writes whole seconds. If the
    /// data is shorter than the window, which TSBS refuses, the window starts with the data.
    fn window(&mut self, seconds: i64) -> Span {
        let room = (self.data.seconds() - seconds).max(1);
        let start = self.data.start + self.random.below(room as u64) as i64;
        Span { start, end: start + seconds }
    }

    /// Different hosts in random order: TSBS takes the beginning of a permutation.
    fn some_hosts(&mut self, count: usize) -> Vec<u64> {
        let count = count.min(usize::try_from(self.hosts).unwrap_or(usize::MAX));
        let mut hosts = Vec::with_capacity(count);
        while hosts.len() < count {
            let host = self.random.below(self.hosts);
            if !hosts.contains(&host) {
                hosts.push(host);
            }
        }
        hosts
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::query::kind::{DEVOPS, TSBS};
    use crate::time::{DAY_SECONDS, TSBS_START};

    #[test]
    fn windows_lie_within_the_data_and_hosts_differ() {
        let data = Span { start: TSBS_START, end: TSBS_START + DAY_SECONDS };
        for kind in TSBS.into_iter().chain(DEVOPS) {
            let mut generator = QueryGenerator::new(kind, 10, data, 1);
            let mut again = QueryGenerator::new(kind, 10, data, 1);
            for _ in 0..50 {
                let query = generator.draw();
                assert_eq!(query, again.draw());
                assert!(query.span.start >= data.start && query.span.end <= data.end, "{query:?}");
                assert_eq!(query.hosts.len(), kind.shape.named_hosts().unwrap_or(0));
                let mut sorted = query.hosts.clone();
                sorted.sort_unstable();
                sorted.dedup();
                assert_eq!(sorted.len(), query.hosts.len());
                assert!(sorted.iter().all(|&host| host < 10));
            }
        }
    }

    #[test]
    fn few_hosts_and_short_data_still_give_queries() {
        let data = Span { start: TSBS_START, end: TSBS_START + 3600 };
        let query = QueryGenerator::new(TSBS[5], 3, data, 1).draw();
        assert_eq!((query.hosts.len(), query.span.start), (3, TSBS_START));
        let query = QueryGenerator::new(TSBS[9], 3, data, 1).draw();
        assert_eq!(query.span, Span { start: TSBS_START, end: TSBS_START + 12 * 3600 });
    }
}

//! `types.db`: which values each type has. A line is the name of a type and its sources, `name:KIND:min:max`, separated by commas.

use std::collections::HashMap;

/// The types of one or more files.
#[derive(Debug, Clone, Default)]
pub struct Types {
    sources: HashMap<String, Vec<Source>>,
}

/// A value of a type, with its name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Source {
    Gauge(String),
    Derive(String),
    /// `COUNTER`, and `ABSOLUTE`, which InfluxDB does not know.
    Unsigned(String),
}

impl Source {
    pub(super) fn name(&self) -> &str {
        let (Source::Gauge(name) | Source::Derive(name) | Source::Unsigned(name)) = self;
        name
    }
}

impl Types {
    /// Adds the types of a file; a later line replaces an earlier one. Lines that are wrong are left out, as InfluxDB and collectd
    /// do.
    ///
    /// # Returns
    /// The first line that is wrong.
    pub fn add(&mut self, text: &str) -> Option<String> {
        let mut wrong = None;
        for line in text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#')) {
            let mut words = line.split_whitespace();
            let name = words.next().unwrap_or_default();
            match words.map(source).collect::<Option<Vec<_>>>() {
                Some(sources) if !sources.is_empty() => {
                    self.sources.insert(name.to_owned(), sources);
                }
                _ => wrong = wrong.or_else(|| Some(line.to_owned())),
            }
        }
        wrong
    }

    /// How many types there are.
    pub fn count(&self) -> usize {
        self.sources.len()
    }

    pub(super) fn of(&self, name: &str) -> Option<&[Source]> {
        self.sources.get(name).map(Vec::as_slice)
    }
}

fn source(word: &str) -> Option<Source> {
    let parts: Vec<&str> = word.strip_suffix(',').unwrap_or(word).split(':').collect();
    let [name, kind, least, most] = parts[..] else { return None };
    let is_bound = |bound: &str| bound == "U" || bound.parse::<f64>().is_ok();
    if name.is_empty() || !is_bound(least) || !is_bound(most) {
        return None;
    }
    let kind = match kind {
        "GAUGE" => Source::Gauge,
        "DERIVE" => Source::Derive,
        "COUNTER" | "ABSOLUTE" => Source::Unsigned,
        _ => return None,
    };
    Some(kind(name.to_owned()))
}

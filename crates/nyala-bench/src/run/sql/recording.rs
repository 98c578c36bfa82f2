//! Answers of DuckDB in a file, to compare with where there is no DuckDB.

use crate::error::{BenchError, Result};
use crate::verify::tables::TableAnswer;
use serde::{Deserialize, Serialize};
use std::path::Path;

/// The answers to the queries of a benchmark.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Recording {
    /// Which benchmark, with its size.
    pub benchmark: String,
    /// Who answered.
    pub source: String,
    /// The answers by the names of the queries.
    pub answers: Vec<(String, TableAnswer)>,
}

impl Recording {
    /// Reads the recording of a benchmark.
    pub fn read(path: &Path, benchmark: &str) -> Result<Recording> {
        let text = std::fs::read(path).map_err(BenchError::io(format!("reading {}", path.display())))?;
        let wrong = |words: String| BenchError::Invalid(format!("{}: {words}", path.display()));
        let recording: Recording = serde_json::from_slice(&text).map_err(|error| wrong(error.to_string()))?;
        match recording.benchmark == benchmark {
            true => Ok(recording),
            false => Err(wrong(format!("it has answers of {}, not of {benchmark}", recording.benchmark))),
        }
    }

    /// Writes it, with a line for each query.
    pub fn write(&self, path: &Path) -> Result<()> {
        let answers: Vec<String> = self.answers.iter().map(json).collect();
        let text = format!(
            "{{\"benchmark\": {}, \"source\": {}, \"answers\": [\n{}\n]}}\n",
            json(&self.benchmark),
            json(&self.source),
            answers.join(",\n")
        );
        std::fs::write(path, text).map_err(BenchError::io(format!("writing {}", path.display())))
    }

    /// The answer to a query.
    pub fn answer(&self, name: &str) -> Option<&TableAnswer> {
        self.answers.iter().find(|(own, _)| own == name).map(|(_, answer)| answer)
    }
}

fn json<T: Serialize>(value: &T) -> String {
    serde_json::to_string(value).expect("texts in lists")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::verify::tables::Kind;

    #[test]
    fn a_recording_is_read_as_it_was_written() {
        let answer =
            TableAnswer { kinds: vec![Kind::Text], rows: vec![vec![Some("\"x\"".to_owned())], vec![None]] };
        let answers = vec![("1".to_owned(), answer.clone()), ("2".to_owned(), answer)];
        let recording = Recording { benchmark: "b".to_owned(), source: "s".to_owned(), answers };
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("answers.json");
        recording.write(&path).unwrap();
        let read = Recording::read(&path, "b").unwrap();
        assert_eq!((read.answers, read.source), (recording.answers, recording.source));
        assert!(Recording::read(&path, "another").is_err());
    }
}

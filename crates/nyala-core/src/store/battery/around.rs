//! Changes whose surroundings the subject is asked for later: the store just before and just after each.

use super::super::memory::MemoryStore;
use super::super::{Around, Atomicity, Feature, SnapshotRef, Store};
use super::compare::{Outcome, compare_snapshots};
use super::generate::Generator;
use super::latest;
use crate::ids::{Sequence, TableId};

/// Changes that are remembered at a time.
const REMEMBERED: usize = 8;

#[derive(Default)]
pub(super) struct Changes(Vec<Known>);

/// A change, and what the model had around it.
struct Known {
    sequence: Sequence,
    before: SnapshotRef,
    after: SnapshotRef,
    tables: Vec<(TableId, TableId)>,
}

/// How far the subject had come, and what the model had.
pub(super) type Before = Option<(Sequence, SnapshotRef)>;

impl Changes {
    /// Before a change; `None` if the subject keeps no past, or may make several writes of one change.
    pub(super) async fn before(
        &self,
        subject: &dyn Store,
        model: &MemoryStore,
    ) -> std::result::Result<Before, String> {
        let capabilities = subject.capabilities();
        let is_one_write = capabilities.atomicity == Atomicity::Batch;
        match capabilities.features.has(Feature::History) && is_one_write {
            true => Ok(Some((latest(subject).await?.sequence(), model.latest()))),
            false => Ok(None),
        }
    }

    /// After it. A change that has no sequence of its own changed nothing.
    pub(super) async fn note(
        &mut self,
        before: Before,
        generator: &Generator,
        subject: &dyn Store,
        model: &MemoryStore,
    ) -> Outcome {
        let Some((reached, before)) = before else { return Ok(()) };
        let sequence = latest(subject).await?.sequence();
        if sequence > reached {
            if self.0.len() == REMEMBERED {
                self.0.remove(0);
            }
            self.0.push(Known { sequence, before, after: model.latest(), tables: generator.table_ids() });
        }
        Ok(())
    }

    /// Compares what the subject had around a change.
    pub(super) async fn check(&self, generator: &mut Generator, subject: &dyn Store) -> Outcome {
        if self.0.is_empty() {
            return Ok(());
        }
        let Known { sequence, before, after, tables } =
            &self.0[generator.below(self.0.len() as u64) as usize];
        let found = subject.around(*sequence).await;
        let Around { before: found_before, after: found_after } =
            found.map_err(|error| format!("sequence {sequence}: {error}"))?;
        for (when, found, expected) in [("before", found_before, before), ("after", found_after, after)]
            as [(_, SnapshotRef, &SnapshotRef); 2]
        {
            let compared = compare_snapshots(&*found, &**expected, tables).await;
            compared.map_err(|error| format!("{when} sequence {sequence}: {error}"))?;
        }
        Ok(())
    }

    pub(super) fn clear(&mut self) {
        self.0.clear();
    }
}

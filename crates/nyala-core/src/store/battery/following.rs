//! Copies of the subject, which follow its changes and equal the model at every position.

use super::super::memory::MemoryStore;
use super::super::{ChangeStream, ChangesRequest, Freshness, SnapshotRef, Store};
use super::compare::{Outcome, compare_snapshots};
use super::follower::Follower;
use super::generate::Generator;
use crate::error::{Error, ErrorKind, Result};
use crate::ids::{Sequence, TableId};
use std::collections::BTreeMap;

const FOLLOWERS_MAX: usize = 2;

/// A follower, and the tables that it follows, if not all.
struct Following {
    follower: Follower,
    tables: Option<Vec<TableId>>,
}

/// The followers, and the states that they must reach at positions.
#[derive(Default)]
pub(super) struct Followers {
    following: Vec<Following>,
    /// States of the naive store by sequences of the subject; none where two states have the same sequence.
    states: BTreeMap<Sequence, Option<SnapshotRef>>,
}

impl Followers {
    /// Records a new state of both stores.
    pub(super) async fn note(&mut self, subject: &dyn Store, model: &MemoryStore) -> Outcome {
        let snapshot = subject.snapshot(Freshness::Latest).await.map_err(|error| error.to_string())?;
        let state = self.states.entry(snapshot.sequence());
        let model = Some(model.latest());
        state.and_modify(|state| *state = None).or_insert(model);
        Ok(())
    }

    /// Lets a follower continue to the present, or a part of the way.
    pub(super) async fn step(
        &mut self,
        generator: &mut Generator,
        subject: &dyn Store,
        model: &MemoryStore,
    ) -> Outcome {
        let error = |error: Error| error.to_string();
        if self.following.is_empty() || (self.following.len() < FOLLOWERS_MAX && generator.chance(3)) {
            let tables = generator.table_ids().into_iter().map(|(subject, _)| subject);
            let tables = generator.chance(3).then(|| tables.filter(|_| generator.chance(2)).collect());
            self.following.push(Following::begin(generator, subject, tables).await.map_err(error)?);
        }
        let at = generator.below(self.following.len() as u64) as usize;
        if generator.chance(12) {
            self.following.swap_remove(at);
            return Ok(());
        }
        let following = &mut self.following[at];
        let present = subject.snapshot(Freshness::Latest).await.map_err(error)?.sequence();
        let mut stream = match following.changes(subject).await {
            Err(error) if error.kind() == ErrorKind::Missing => {
                let tables = following.tables.take();
                *following =
                    Following::begin(generator, subject, tables).await.map_err(|error| error.to_string())?;
                // The present is always known.
                following.changes(subject).await
            }
            stream => stream,
        }
        .map_err(error)?;
        let after = following.follower.position;
        while following.follower.advance(&mut *stream).await.map_err(error)? {
            let position = following.follower.position;
            if let Some(Some(state)) = self.states.get(&position) {
                let compared = following.compare(generator, state).await;
                compared.map_err(|error| format!("at position {position} after {after}: {error}"))?;
            }
            if generator.chance(4) {
                return Ok(());
            }
        }
        let position = following.follower.position;
        match position >= present {
            true => following.compare(generator, &model.latest()).await,
            false => Err(format!("changes end at {position}, before {present}")),
        }
    }
}

impl Following {
    async fn begin(generator: &Generator, subject: &dyn Store, tables: Option<Vec<TableId>>) -> Result<Self> {
        let snapshot = subject.snapshot(Freshness::Latest).await?;
        let all = || generator.table_ids().into_iter().map(|(subject, _)| subject).collect();
        let copied = tables.clone().unwrap_or_else(all);
        Ok(Self { follower: Follower::begin(MemoryStore::default(), &*snapshot, copied).await?, tables })
    }

    async fn changes(&self, subject: &dyn Store) -> Result<Box<dyn ChangeStream>> {
        let (tables, after) = (self.tables.clone(), self.follower.position);
        subject.changes(ChangesRequest { tables, after }).await
    }

    async fn compare(&self, generator: &Generator, model: &SnapshotRef) -> Outcome {
        let followed = |subject| self.tables.as_ref().is_none_or(|tables| tables.contains(&subject));
        let tables = generator.table_ids().into_iter().filter(|(subject, _)| followed(*subject));
        let pairs: Vec<_> = tables.map(|(subject, model)| (self.follower.id_of(subject), model)).collect();
        let there = pairs.iter().filter(|(_, table)| model.schema(*table).is_ok()).count();
        match self.follower.copy.tables().len() {
            count if count == there => {
                compare_snapshots(&*self.follower.copy.latest(), &**model, &pairs).await
            }
            count => Err(format!("{count} tables, not {there}")),
        }
    }
}

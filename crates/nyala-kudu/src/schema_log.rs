//! The log of schema changes: which tables there are, agreed on by all daemons of a cluster.
//!
//! Kudu can change one row at once, and no more. So a change of any number of tables is one row of the table
//! `<prefix>.schema`, whose key is the number of the change: whoever inserts the next number has made the next change, and
//! whoever finds it taken reads what the other did and decides again. Changes that a row does not hold are written to
//! `<prefix>.schema_text` before, in parts, under a random name that the row says.
//!
//! Kudu's own tables follow the log, never the other way: see [`crate::kudu_tables`].

use crate::clock::ClusterClock;
use crate::entry::{Change, Entry};
use crate::error::{of_read, of_write};
use crate::options::{CHANGED_PAUSE, KuduOptions};
use crate::state::State;
use arrow_array::cast::AsArray;
use arrow_array::types::{Int32Type, Int64Type};
use arrow_array::{Array, RecordBatch};
use kudu_client::{Client, Column, DataType, Error as KuduError, ErrorKind as KuduKind, Operation};
use kudu_client::{Predicate, ReadMode, Schema, Table, Timestamp};
use nyala_core::{Error, ErrorKind, Result, SharedLook};
use parking_lot::RwLock;
use rand::Rng;
use std::sync::Arc;
use tokio::time::Instant;

/// Bytes of a change that a row holds; a cell has room for 64 KiB.
const TEXT_BYTES: usize = 60_000;
/// After so many changes one says everything, and those before the last that did so go.
const CHANGES_KEPT: i64 = 512;

/// The log, and what it adds up to.
pub(crate) struct SchemaLog {
    changes: Table,
    texts: Table,
    timeout: std::time::Duration,
    state: RwLock<Arc<State>>,
    clock: Arc<ClusterClock>,
    look: SharedLook<(Timestamp, Arc<State>)>,
}

impl SchemaLog {
    /// Opens the log of a cluster, which is made if there is none.
    pub(crate) async fn open(
        client: &Client,
        options: &KuduOptions,
        clock: Arc<ClusterClock>,
    ) -> Result<Self> {
        let changes = vec![
            Column::new("number", DataType::Int64).key(),
            Column::new("name", DataType::String),
            Column::new("parts", DataType::Int32),
            Column::new("text", DataType::String).nullable(),
        ];
        let texts = vec![
            Column::new("name", DataType::String).key(),
            Column::new("part", DataType::Int32).key(),
            Column::new("text", DataType::String),
        ];
        let log = Self {
            changes: open_or_create(client, options, "schema", changes).await?,
            texts: open_or_create(client, options, "schema_text", texts).await?,
            timeout: options.write_timeout,
            state: RwLock::default(),
            clock,
            look: SharedLook::default(),
        };
        for table in [&log.changes, &log.texts] {
            log.clock.note_replicas(usize::try_from(table.replicas()).unwrap_or(1));
        }
        log.refresh().await?;
        Ok(log)
    }

    /// The state as this daemon knows it.
    pub(crate) fn state(&self) -> Arc<State> {
        self.state.read().clone()
    }

    /// The state with everything that was acknowledged before this call, by any daemon.
    pub(crate) async fn refresh(&self) -> Result<Arc<State>> {
        self.look().await.map(|(_, state)| state)
    }

    /// A moment at which everything is there that was acknowledged before this call, and the state then. Calls that wait for
    /// a look at the log share the next one.
    pub(crate) async fn look(&self) -> Result<(Timestamp, Arc<State>)> {
        self.look.run(async || self.read_on().await).await
    }

    /// Makes the next change: what `decide` makes of the state, if anything. It is asked again when another daemon was
    /// quicker. Returns the state in which the change is made, with what was decided.
    pub(crate) async fn change<T>(
        &self,
        mut decide: impl FnMut(&State) -> Result<(Vec<Change>, T)>,
    ) -> Result<(Arc<State>, T)> {
        loop {
            let state = self.state();
            let (changes, decided) = decide(&state)?;
            if changes.is_empty() {
                return Ok((state, decided));
            }
            let number = state.version + 1;
            let entry = Entry { changes };
            // What nobody could read again must not get into the log.
            state.after(number, &entry)?;
            // What fails after the entry was appended may have been done.
            let undecided = |error: Error| Error::new(ErrorKind::Unknown, error.message());
            let is_ours =
                self.append(number, &entry).await? && self.is_in_reach(number).await.map_err(undecided)?;
            let state = self.refresh().await.map_err(undecided)?;
            if is_ours {
                if number % CHANGES_KEPT == 0
                    && let Err(error) = self.shorten(&state).await
                {
                    // The change is made all the same. The next time, these entries are removed, too.
                    tracing::warn!(%error, "the log of schema changes could not be shortened");
                }
                return Ok((state, decided));
            }
        }
    }

    /// Appends an entry; `false`: its number is taken.
    async fn append(&self, number: i64, entry: &Entry) -> Result<bool> {
        let name = format!("{:032x}", rand::rng().random::<u128>());
        let text = serde_json::to_string(entry).expect("entries are plain data");
        let parts = parts_of(&text);
        if parts.len() > 1 {
            let mut call = self.texts.write(self.timeout);
            let mut row = self.texts.row(Operation::Insert);
            for (part, text) in parts.iter().enumerate() {
                row.clear();
                row.set_at(0, &name).and_then(|row| row.set_at(1, part as i32)).map_err(of_write)?;
                row.set_at(2, *text).map_err(of_write)?;
                call.add(&row).await.map_err(of_read)?;
            }
            if let Some((_, error)) = call.finish().await.map_err(of_read)?.into_iter().next() {
                return Err(of_read(error));
            }
        }
        let mut row = self.changes.row(Operation::Insert);
        let mut fill = || -> std::result::Result<(), KuduError> {
            row.set_at(0, number)?.set_at(1, &name)?.set_at(2, parts.len() as i32)?;
            if let [text] = parts[..] {
                row.set_at(3, text)?;
            }
            Ok(())
        };
        fill().map_err(of_write)?;
        let mut call = self.changes.write(self.timeout);
        call.add(&row).await.map_err(of_read)?;
        match call.finish().await {
            Ok(failed) => match failed.into_iter().next() {
                None => Ok(true),
                Some((_, error)) if error.kind() == KuduKind::AlreadyPresent => {
                    if parts.len() > 1
                        && let Err(error) = self.remove_text(&name, parts.len()).await
                    {
                        tracing::warn!(%error, "a text that is in no entry of the schema log stays");
                    }
                    Ok(false)
                }
                Some((_, error)) => Err(of_write(error)),
            },
            // It may be there: the log knows.
            Err(error) => match self.name_of(number).await {
                Ok(Some(found)) => Ok(found == name),
                Ok(None) | Err(_) => Err(of_write(error)),
            },
        }
    }

    /// Removes the text of an entry that did not get into the log.
    async fn remove_text(&self, name: &str, parts: usize) -> Result<()> {
        let mut call = self.texts.write(self.timeout);
        let mut row = self.texts.row(Operation::DeleteIgnore);
        for part in 0..parts as i32 {
            row.set_at(0, name).and_then(|row| row.set_at(1, part)).map_err(of_write)?;
            call.add(&row).await.map_err(of_write)?;
        }
        call.finish().await.map(drop).map_err(of_write)
    }

    /// Whether an entry that was just appended stands where others read. It does not if its number was free because the
    /// entries around it were removed, since this daemon has not looked for very long. Then it is removed, too.
    async fn is_in_reach(&self, number: i64) -> Result<bool> {
        let at = self.clock.now().await?;
        let follows = match number {
            1 => {
                self.rows(Predicate::gt("number", 1_i64), at).await?.first().is_none_or(|row| row.number == 2)
            }
            _ => !self.rows(Predicate::eq("number", number - 1), at).await?.is_empty(),
        };
        if !follows {
            self.remove(&self.rows(Predicate::eq("number", number), at).await?).await?;
        }
        Ok(follows)
    }

    async fn name_of(&self, number: i64) -> Result<Option<String>> {
        let at = self.clock.now().await?;
        let found = self.rows(Predicate::eq("number", number), at).await?;
        Ok(found.into_iter().next().map(|row| row.name))
    }

    /// Rows of the log as they are at a moment, in order. A replica that was replaced as leader, and has heard of it, answers
    /// when it has all of them. Until it has heard, it may answer without the last ones: Kudu has no leases of leaders
    /// (KUDU-1188).
    async fn rows(&self, filter: Predicate, at: Timestamp) -> Result<Vec<Row>> {
        let scan = self.changes.scan().filter(filter).read_mode(ReadMode::Snapshot(Some(at)));
        let batches = scan.open().await.map_err(of_read)?.collect().await.map_err(of_read)?;
        let mut rows: Vec<Row> = batches.iter().flat_map(rows_of).collect();
        rows.sort_by_key(|row| row.number);
        Ok(rows)
    }

    /// Reads what came after the last entry that is known.
    async fn read_on(&self) -> Result<(Timestamp, Arc<State>)> {
        let at = self.clock.now().await?;
        // Most looks find nothing, and copy nothing.
        let mut state = self.state();
        let version = state.version;
        let found = self.rows(Predicate::gt("number", version), at).await?;
        // The last that says everything, and what comes after it: those before may be half deleted already.
        let mut entries = Vec::new();
        for row in found.into_iter().rev() {
            let (number, entry) = (row.number, self.entry_of(row, at).await?);
            let is_whole = entry.is_whole();
            entries.push((number, entry));
            if is_whole {
                break;
            }
        }
        for (number, entry) in entries.into_iter().rev() {
            state = Arc::new(state.after(number, &entry)?);
        }
        if state.version > version {
            *self.state.write() = state.clone();
        }
        Ok((at, state))
    }

    async fn entry_of(&self, row: Row, at: Timestamp) -> Result<Entry> {
        let damaged = |words: String| Error::invalid(format!("change {} of the schema {words}", row.number));
        let text = match row.text {
            Some(text) => text,
            None => self
                .read_text(&row.name, row.parts, at)
                .await?
                .ok_or_else(|| damaged("has no text".to_owned()))?,
        };
        serde_json::from_str(&text).map_err(|error| damaged(format!("cannot be read: {error}")))
    }

    async fn read_text(&self, name: &str, parts: i32, at: Timestamp) -> Result<Option<String>> {
        let scan = self.texts.scan().filter(Predicate::eq("name", name)).project(["text"]);
        let scan = scan.read_mode(ReadMode::Snapshot(Some(at))).sorted();
        let batches = scan.open().await.map_err(of_read)?.collect().await.map_err(of_read)?;
        let (mut text, mut found) = (String::new(), 0);
        for batch in &batches {
            let texts = batch.column(0).as_string::<i32>();
            found += texts.len() as i32;
            texts.iter().flatten().for_each(|part| text.push_str(part));
        }
        Ok((found == parts).then_some(text))
    }

    /// Writes an entry that says everything, and removes old ones.
    async fn shorten(&self, state: &State) -> Result<()> {
        let tables = state.tables.iter().map(|(id, table)| table.whole(*id)).collect();
        let (next_table, next_range) = (state.next_table, state.next_range);
        let everything = Change::Everything { next_table, next_range, tables };
        let number = state.version + 1;
        if !self.append(number, &Entry { changes: vec![everything] }).await? {
            return Ok(());
        }
        // Those since the last that said everything stay: most daemons that append late find their number taken.
        let at = self.clock.now().await?;
        let mut old = self.rows(Predicate::lt("number", number), at).await?;
        while let Some(row) = old.pop() {
            if self.entry_of(row, at).await?.is_whole() {
                break;
            }
        }
        self.remove(&old).await
    }

    /// Removes entries in their order: if one is there, its successors were not removed.
    async fn remove(&self, rows: &[Row]) -> Result<()> {
        let mut changes = self.changes.write(self.timeout);
        let mut texts = self.texts.write(self.timeout);
        let mut change = self.changes.row(Operation::DeleteIgnore);
        let mut text = self.texts.row(Operation::DeleteIgnore);
        for row in rows {
            change.set_at(0, row.number).map_err(of_write)?;
            changes.add(&change).await.map_err(of_write)?;
            for part in 0..if row.text.is_none() { row.parts } else { 0 } {
                text.set_at(0, &row.name).and_then(|text| text.set_at(1, part)).map_err(of_write)?;
                texts.add(&text).await.map_err(of_write)?;
            }
        }
        changes.finish().await.map_err(of_write)?;
        texts.finish().await.map_err(of_write)?;
        Ok(())
    }
}

/// A row of the log.
struct Row {
    number: i64,
    name: String,
    parts: i32,
    text: Option<String>,
}

fn rows_of(batch: &RecordBatch) -> impl Iterator<Item = Row> {
    let numbers = batch.column(0).as_primitive::<Int64Type>();
    let names = batch.column(1).as_string::<i32>();
    let parts = batch.column(2).as_primitive::<Int32Type>();
    let texts = batch.column(3).as_string::<i32>();
    (0..batch.num_rows()).map(|row| Row {
        number: numbers.value(row),
        name: names.value(row).to_owned(),
        parts: parts.value(row),
        text: texts.is_valid(row).then(|| texts.value(row).to_owned()),
    })
}

/// A text in parts that each fit into a cell.
fn parts_of(text: &str) -> Vec<&str> {
    let mut parts = Vec::new();
    let mut rest = text;
    while rest.len() > TEXT_BYTES {
        let (part, after) = rest.split_at(rest.floor_char_boundary(TEXT_BYTES));
        parts.push(part);
        rest = after;
    }
    parts.push(rest);
    parts
}

async fn open_or_create(
    client: &Client,
    options: &KuduOptions,
    name: &str,
    columns: Vec<Column>,
) -> Result<Table> {
    let name = format!("{}.{name}", options.prefix);
    let schema = Schema::new(columns).map_err(of_write)?;
    let deadline = Instant::now() + options.write_timeout;
    loop {
        match client.open_table(&name).await {
            Err(error) if error.kind() == KuduKind::NotFound => {}
            other => return other.map_err(of_read),
        }
        match client.create_table(&name, schema.clone()).replicas(options.replicas).create().await {
            // Another daemon is creating it. For a moment it is neither there nor free.
            Err(error) if error.kind() == KuduKind::AlreadyPresent && Instant::now() < deadline => {
                tokio::time::sleep(CHANGED_PAUSE).await;
            }
            other => return other.map_err(of_write),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_texts_are_cut_between_characters() {
        // Two bytes each, behind one: a cut would fall into a character.
        let text = format!("a{}", "ü".repeat(TEXT_BYTES));
        let parts = parts_of(&text);
        assert_eq!(parts.concat(), text);
        assert!(parts.len() == 3 && parts.iter().all(|part| part.len() <= TEXT_BYTES));
        assert_eq!(parts_of(""), [""]);
    }
}

//! A table of points that several servers write to: how this server follows the others' changes of series and names, and
//! tells them of its own (`records::ChangeLog`).
//!
//! An id means the same tag set for ever. A series without points is only *hidden*: its records stay, and it is shown
//! again under its id when somebody writes to it. So a server that does not know yet that a series was hidden writes
//! points that are not lost. It reads the log before it acknowledges them, finds the series hidden, and shows it again.
//! Before that a series is *doubted*, so that it is known whether somebody writes to it while another one looks for points.
//!
//! Whether a series is hidden is in the log, and in marks: records that say since which entry (`record`). They are written
//! after their entry, at the latest before the log loses it.

use super::record::{hidden_key, is_type_key, read_tags, series_key, type_prefixes};
use super::series_table::{Loaded, SeriesTable};
use crate::records::{Applied, ChangeLog, Doubts, Entry, Follower, SeriesChange};
use async_trait::async_trait;
use nyala_core::{Result, SeriesId};
use roaring::RoaringBitmap;

#[async_trait]
impl Follower for SeriesTable {
    async fn apply(&self, number: i64, change: &SeriesChange) -> Result<()> {
        match self.is_loaded() {
            true => self.make(self.loaded(), number, change).await,
            false => {
                self.note_missed(number, change);
                Ok(())
            }
        }
    }

    async fn mark(&self, ids: &RoaringBitmap, number: i64, is_hidden: bool) -> Result<()> {
        let value = [u8::from(is_hidden)];
        let mut left = ids.iter().peekable();
        while left.peek().is_some() {
            let some = left.by_ref().take(MARKED_AT_ONCE);
            let keys: Vec<Vec<u8>> = some.map(|id| hidden_key(self.table(), id, number)).collect();
            let records = keys.iter().map(|key| (key.as_slice(), &value[..]));
            self.records().write(vec![self.records().put(records)]).await?;
        }
        Ok(())
    }
}

/// Marks that are written together.
const MARKED_AT_ONCE: usize = 1 << 14;

impl SeriesTable {
    /// Makes a change that stands in the log in what is loaded, or is about to be.
    pub(super) async fn make(&self, loaded: &Loaded, number: i64, change: &SeriesChange) -> Result<()> {
        match change {
            SeriesChange::Shown { ids, .. } => {
                self.show(loaded, ids).await?;
                loaded.note_shown(ids);
            }
            SeriesChange::Doubted(ids) => self.doubt(loaded, ids, number),
            SeriesChange::Hidden(ids) => self.forget_hidden(loaded, ids),
            SeriesChange::Names => self.read_types(loaded).await?,
            SeriesChange::Everything(recent) => {
                let read = Self::read(&[self]).await?.remove(0);
                let (mut series, hidden) = (read.series, read.hidden.hidden(recent));
                series.remove(&hidden);
                *loaded.series.write() = series;
                *loaded.hidden.lock() = hidden;
                loaded.doubted.lock().clone_from(&recent.doubted);
                self.table_lock().note_removal();
                self.read_types(loaded).await?;
            }
        }
        Ok(())
    }

    /// Adds series to the index.
    async fn show(&self, loaded: &Loaded, ids: &RoaringBitmap) -> Result<()> {
        let unknown = ids - loaded.series.read().all();
        let mut found: Vec<(u32, Vec<u8>)> = Vec::with_capacity(unknown.len() as usize);
        let mut rest = unknown.iter().peekable();
        while let Some(first) = rest.next() {
            let mut last = first;
            while rest.next_if(|id| Some(*id) == last.checked_add(1)).is_some() {
                last += 1;
            }
            let (from, to) =
                (series_key(self.table(), SeriesId(first)), series_key(self.table(), SeriesId(last)));
            let take = |key: &[u8], record: &[u8]| {
                if let Some(id) = key.last_chunk::<4>() {
                    found.push((u32::from_be_bytes(*id), record.to_vec()));
                }
            };
            self.records().visit_between(&from, &to, take).await?;
        }
        let mut series = loaded.series.write();
        for (id, record) in &found {
            let tags = read_tags(record).ok_or_else(|| self.malformed("a series"))?;
            if !series.contains(SeriesId(*id)) {
                series.insert_with_id(SeriesId(*id), &tags);
            }
        }
        Ok(())
    }

    /// Removes series from the index. Writers that use their ids find out before they acknowledge.
    fn forget_hidden(&self, loaded: &Loaded, ids: &RoaringBitmap) {
        loaded.series.write().remove(ids);
        *loaded.hidden.lock() |= ids;
        loaded.no_longer_doubted(ids);
        self.table_lock().note_removal();
    }

    /// Makes whoever writes to series say so.
    fn doubt(&self, loaded: &Loaded, ids: &RoaringBitmap, number: i64) {
        loaded.doubted.lock().note(ids, number);
        self.table_lock().note_removal();
    }

    /// Asks all servers whether series have points. A point that was acknowledged before this returns is in the next
    /// snapshot. Of one that is acknowledged later its writer says in the log that its series is there. Returns the entries.
    pub(crate) async fn doubt_series(&self, log: &ChangeLog, ids: &RoaringBitmap) -> Result<Doubts> {
        let mut doubts: Option<Doubts> = None;
        for (entry, ids) in Entry::doubted(self.table(), ids) {
            let last = log.append(&entry, |number| self.doubt(self.loaded(), &ids, number)).await?;
            doubts = Some(Doubts { first: doubts.map_or(last, |doubts| doubts.first), last });
        }
        Ok(doubts.expect("there are series"))
    }

    /// Hides those of some series that nobody has written to since they were doubted by some entries. A snapshot taken
    /// since then has no points of them. Hides none if servers may have forgotten the entries.
    pub(crate) async fn hide_doubted(
        &self,
        log: &ChangeLog,
        ids: &RoaringBitmap,
        doubt: Doubts,
    ) -> Result<()> {
        let still_doubted = |applied: &Applied| {
            if !applied.has_doubt(doubt.first) {
                return None;
            }
            // If the first is later, it is somebody else's doubt: the series was written in between.
            let ids = ids & self.loaded().doubted.lock().since(doubt.last);
            Entry::hidden(self.table(), &ids).next().map(|(entry, _)| entry)
        };
        loop {
            let mut hidden = RoaringBitmap::new();
            let hide = |entry: &Entry, _: i64| {
                hidden = entry.hidden_ids();
                self.forget_hidden(self.loaded(), &hidden);
            };
            let Some(number) = log.append_if(still_doubted, hide).await? else { return Ok(()) };
            self.mark(&hidden, number, true).await?;
        }
    }

    /// Registers the types of fields, and the members of a group, that this server has just given. Returns false if
    /// another server has given a field another type: the other's type counts, and rows have to be checked again.
    pub(crate) async fn register_names(&self, log: &ChangeLog) -> Result<bool> {
        let names: Vec<(Vec<u8>, u8)> =
            self.unsaved().lock().names.iter().map(|(key, code)| (key.clone(), *code)).collect();
        if names.is_empty() {
            return Ok(true);
        }
        let offered = names.iter().map(|(key, code)| (key.as_slice(), std::slice::from_ref(code)));
        let mut agreed = true;
        for taken in self.records().insert(offered).await? {
            let (key, code) = &names[taken];
            if is_type_key(key) && agreed {
                agreed = self.records().find(key).await?.is_some_and(|found| found == [*code]);
            }
        }
        // Whoever was faster may have died before it said so.
        log.append(&Entry::names(self.table()), |_| ()).await?;
        if !agreed {
            self.read_types(self.loaded()).await?;
            // Other writers here may have checked their rows by the type that lost.
            self.table_lock().note_removal();
        }
        for (key, _) in &names {
            self.unsaved().lock().names.remove(key);
        }
        Ok(agreed)
    }

    /// Reads the types of fields. Those that this server has given and not registered yet stay.
    async fn read_types(&self, loaded: &Loaded) -> Result<()> {
        let mut records: Vec<(Vec<u8>, Vec<u8>)> = Vec::new();
        for prefix in type_prefixes(self.table()) {
            let take = |key: &[u8], value: &[u8]| records.push((key.to_vec(), value.to_vec()));
            self.records().visit(&prefix, take).await?;
        }
        match self.set_types(loaded, &records) {
            true => Ok(()),
            false => Err(self.malformed("a type of a field")),
        }
    }
}

impl Loaded {
    /// Notes that series were shown.
    pub(super) fn note_shown(&self, ids: &RoaringBitmap) {
        *self.hidden.lock() -= ids;
        self.no_longer_doubted(ids);
    }

    /// Notes that series were shown or hidden since they were doubted.
    fn no_longer_doubted(&self, ids: &RoaringBitmap) {
        self.doubted.lock().remove(ids);
    }
}

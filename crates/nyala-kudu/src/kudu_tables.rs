//! The Kudu tables of a table, one for each sheet ([`crate::sheets`]): named by the table's id, their columns by theirs.
//!
//! It follows the log of schema changes: what a change needs of it is made after the change is in the log, by whoever needs
//! it first, and making it twice does no harm. So a daemon that dies in between leaves nothing to repair. Tables that are
//! divided by time are made with their first range, since Kudu makes none without one. All columns outside the key may be
//! NULL: that a column is required is judged above. Columns and tables that were dropped stay, for snapshots
//! that still read them.

mod removal;

pub(crate) use removal::ranges_in_cluster;

use crate::cells::Stored;
use crate::clock::ClusterClock;
use crate::error::{of_read, of_write};
use crate::options::{CHANGED_PAUSE, KuduOptions};
use crate::sheets::{self, Sheet};
use crate::state::{RangeState, State, TableState};
use kudu_client::{
    Client, Column, ColumnChange, Compression, DataType, ErrorKind as KuduKind, HashPartition, Predicate,
    RangeBound, RangePartition, Schema, Table, TableAlterer,
};
use nyala_core::schema::{ColumnSchema, Encoding, TableSchema};
use nyala_core::{ColumnId, Error, Result, TableId, TimeRange};
use parking_lot::Mutex;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use tokio::time::Instant;

/// A column that never holds anything: an update that sets nothing else sets it, to learn whether its row is there.
const TOUCHED: &str = "touched";

/// So many tablets of a sheet are remembered. When they are forgotten, the log is looked at again.
const TABLETS_NOTED_MAX: usize = 1 << 16;

/// Columns a table has beside those of its schema.
pub(crate) const OWN_COLUMNS: usize = 1;

/// A table of the cluster, opened.
pub(crate) struct Physical {
    pub(crate) table: Table,
    /// Where columns stand, those too that were dropped.
    places: HashMap<ColumnId, usize>,
    pub(crate) touched: usize,
    /// All columns below it that a schema has are there, with their defaults.
    next_column: ColumnId,
}

/// The tables that this daemon has opened.
pub(crate) struct PhysicalTables {
    client: Client,
    options: KuduOptions,
    clock: Arc<ClusterClock>,
    opened: Mutex<Opened>,
}

#[derive(Default)]
struct Opened {
    slots: HashMap<Sheet, Arc<Slot>>,
    /// The version of the log for which slots of dropped tables were last removed.
    version: i64,
}

#[derive(Default)]
struct Slot {
    current: Mutex<Option<Arc<Physical>>>,
    /// The numbers of ranges that this daemon made or saw.
    ranges: Mutex<HashSet<u32>>,
    /// The ids of tablets that were there before the log said that nobody was dropping their range.
    tablets: Mutex<HashSet<String>>,
    /// Held by whoever makes or changes it.
    changing: tokio::sync::Mutex<()>,
}

impl Physical {
    fn new(table: Table, schema: &TableSchema) -> Self {
        let columns = || table.schema().columns().iter().enumerate();
        let id = |name: &str| name.strip_prefix('c')?.parse().ok().map(ColumnId);
        let places = columns().filter_map(|(place, column)| Some((id(column.name())?, place))).collect();
        let touched = columns().find(|(_, column)| column.name() == TOUCHED).map(|(place, _)| place);
        let next_column = schema.next_column;
        Self { places, touched: touched.unwrap_or(usize::MAX), next_column, table }
    }

    /// The number of replicas of its tablets.
    pub(crate) fn replicas(&self) -> usize {
        usize::try_from(self.table.replicas()).unwrap_or(1)
    }

    /// Where a column stands; `None`: it is not there, so no row has it.
    pub(crate) fn place(&self, id: ColumnId) -> Option<usize> {
        self.places.get(&id).copied()
    }
}

/// How a column is stored.
pub(crate) fn stored(schema: &TableSchema, column: &ColumnSchema) -> Stored {
    Stored { column_type: column.column_type, is_key: schema.is_key(column.id) }
}

pub(crate) fn name_of(column: ColumnId) -> String {
    format!("c{column}")
}

impl PhysicalTables {
    /// Those of a store, none of them opened yet.
    pub(crate) async fn of(
        client: Client,
        options: KuduOptions,
        clock: Arc<ClusterClock>,
        state: &State,
    ) -> Result<Self> {
        // Tables keep the number of replicas that they were made with. Noted before the first look at them, none is refused.
        let names = format!("{}.t", options.prefix);
        let is_there = |name: &str| {
            let sheet = name.strip_prefix(&names).and_then(|sheet| sheet.split('_').next());
            sheet.and_then(|id| id.parse().ok()).is_some_and(|id| state.tables.contains_key(&TableId(id)))
        };
        let listed = client.list_tables(&names).await.map_err(of_read)?;
        let replicas = listed.iter().filter(|table| is_there(&table.name)).filter_map(|table| table.replicas);
        replicas.for_each(|replicas| clock.note_replicas(replicas as usize));
        Ok(Self { client, options, clock, opened: Mutex::default() })
    }

    fn opened(&self, table: Table, schema: &TableSchema, slot: &Slot) -> Arc<Physical> {
        let opened = Arc::new(Physical::new(table, schema));
        self.clock.note_replicas(opened.replicas());
        *slot.current.lock() = Some(opened.clone());
        opened
    }

    fn table_name(&self, Sheet { table, number }: Sheet) -> String {
        match number {
            0 => format!("{}.t{table}", self.options.prefix),
            _ => format!("{}.t{table}_{number}", self.options.prefix),
        }
    }

    fn slot(&self, sheet: Sheet) -> Arc<Slot> {
        self.opened.lock().slots.entry(sheet).or_default().clone()
    }

    /// Forgets the tables that a state has no longer. Who still reads one opens it again.
    pub(crate) fn forget_dropped(&self, state: &State) {
        self.opened.lock().forget_dropped(state);
    }

    /// The sheet with all its columns of a schema; `None`: it was never written to.
    pub(crate) async fn to_read(&self, id: Sheet, state: &TableState) -> Result<Option<Arc<Physical>>> {
        let slot = self.slot(id);
        let mut found = slot.covering(&state.schema);
        if found.is_none() {
            let _changing = slot.changing.lock().await;
            found = match slot.covering(&state.schema) {
                Some(known) => Some(known),
                None => self.open(id, state, &slot, Follows::NewColumns).await?,
            };
        }
        if let Some(known) = &found {
            self.look_for_ranges(known, id, state, &slot).await?;
        }
        Ok(found)
    }

    /// Asks the masters for ranges of the log that this daemon has not seen. What the client remembers is not believed:
    /// another daemon may have made them since, and a scan would pass over them. Whoever makes a range says so in the log
    /// before it writes to it, so those of which the log does not say it need not be there.
    async fn look_for_ranges(
        &self,
        known: &Physical,
        id: Sheet,
        state: &TableState,
        slot: &Slot,
    ) -> Result<()> {
        let Some(column) = time_column(&state.schema) else { return Ok(()) };
        let made = id.ranges(&state.ranges).filter(|range| !range.is_unmade(id.number));
        let unseen = slot.unseen(made);
        if unseen.is_empty() {
            return Ok(());
        }
        known.table.forget_locations();
        for range in unseen {
            if self.has_range(&known.table, &name_of(column), range.time).await? {
                slot.ranges.lock().insert(range.number);
            }
        }
        Ok(())
    }

    /// Whether a range is there. The masters are asked for tablets in parts, so one that is made meanwhile has some of its tablets
    /// in what they say.
    async fn has_range(&self, table: &Table, time_column: &str, time: TimeRange) -> Result<bool> {
        // Of the last time, since the first may be unbounded. By itself, time decides its bucket.
        let last_ns = time.end_ns.saturating_sub(1);
        let others = table.hash_dimensions().filter(|(columns, _)| columns[..] != [time_column]);
        let all: usize = others.map(|(_, buckets)| buckets as usize).product();
        let deadline = Instant::now() + self.options.read_timeout;
        loop {
            let scan = table.scan().filter(Predicate::eq(time_column, last_ns));
            let found = scan.timeout(self.options.read_timeout).into_tablets().await.map_err(of_read)?.len();
            if found == 0 || found >= all {
                return Ok(found > 0);
            }
            if Instant::now() >= deadline {
                return Err(Error::retry("a range of time is still being made or dropped"));
            }
            tokio::time::sleep(CHANGED_PAUSE).await;
            table.forget_locations();
        }
    }

    /// The sheet with all its columns of a schema, and these ranges; and whether ranges were made for it, perhaps again.
    pub(crate) async fn to_write(
        &self,
        id: Sheet,
        state: &TableState,
        ranges: &[RangeState],
    ) -> Result<(Arc<Physical>, bool)> {
        let slot = self.slot(id);
        if let (Some(known), true) =
            (slot.covering(&state.schema), slot.unseen(ranges.iter().copied()).is_empty())
        {
            return Ok((known, false));
        }
        let _changing = slot.changing.lock().await;
        let deadline = Instant::now() + self.options.write_timeout;
        let missing = slot.unseen(ranges.iter().copied());
        let known = match slot.covering(&state.schema) {
            Some(known) => Some(known),
            None => self.open(id, state, &slot, Follows::NewColumns).await?,
        };
        let known = match known {
            Some(known) => known,
            // Kudu bounds the replicas that a new table has, and not those that are added.
            None => self.create(id, state, missing.first(), &slot).await?,
        };
        add_ranges(&known, &state.schema, &missing, &slot, deadline).await?;
        Ok((known, !missing.is_empty()))
    }

    /// What was taken for made may be gone: another daemon dropped it.
    pub(crate) fn forget_ranges(&self, id: Sheet) {
        let slot = self.slot(id);
        slot.ranges.lock().clear();
        if let Some(known) = &*slot.current.lock() {
            known.table.forget_locations();
        }
    }

    /// Whether all of some tablets were noted.
    pub(crate) fn has_noted(&self, id: Sheet, tablets: &[String]) -> bool {
        let slot = self.slot(id);
        let noted = slot.tablets.lock();
        tablets.iter().all(|tablet| noted.contains(tablet))
    }

    /// Notes tablets of ranges which the log had without a mark when these tablets were there.
    pub(crate) fn note(&self, id: Sheet, tablets: Vec<String>) {
        let slot = self.slot(id);
        let mut noted = slot.tablets.lock();
        if noted.len() + tablets.len() > TABLETS_NOTED_MAX {
            noted.clear();
        }
        noted.extend(tablets);
    }

    /// Brings defaults and encodings to what a schema says.
    pub(crate) async fn follow(&self, table: TableId, state: &TableState) -> Result<()> {
        for sheet in sheets::all(table, &state.schema) {
            let slot = self.slot(sheet);
            let _changing = slot.changing.lock().await;
            self.open(sheet, state, &slot, Follows::Everything).await?;
        }
        Ok(())
    }

    async fn open(
        &self,
        id: Sheet,
        state: &TableState,
        slot: &Slot,
        follows: Follows,
    ) -> Result<Option<Arc<Physical>>> {
        let mut table = match self.client.open_table(&self.table_name(id)).await {
            Err(error) if error.kind() == KuduKind::NotFound => return Ok(None),
            other => other.map_err(of_read)?,
        };
        let deadline = Instant::now() + self.options.write_timeout;
        while let Some(alter) = missing_of(&table, id, state, follows) {
            match alter.apply().await {
                Ok(altered) => table = altered,
                // Another daemon is adding the same columns. The masters show them when all tablets have them.
                Err(error) if error.kind() == KuduKind::AlreadyPresent && Instant::now() < deadline => {
                    tokio::time::sleep(CHANGED_PAUSE).await;
                    table = self.client.open_table(&self.table_name(id)).await.map_err(of_read)?;
                }
                Err(error) => return Err(of_write(error)),
            }
        }
        Ok(Some(self.opened(table, &state.schema, slot)))
    }

    async fn create(
        &self,
        id: Sheet,
        state: &TableState,
        first: Option<&RangeState>,
        slot: &Slot,
    ) -> Result<Arc<Physical>> {
        let schema = &*state.schema;
        let name = self.table_name(id);
        let keys = schema.key.iter().filter_map(|id| schema.column(*id));
        let mut columns: Vec<Column> =
            keys.chain(columns_of(schema, id)).map(|column| column_of(schema, column)).collect();
        columns.push(Column::new(TOUCHED, DataType::Int8).nullable());
        let physical = Schema::new(columns).map_err(of_write)?;
        let mut creator = self.client.create_table(&name, physical).replicas(self.options.replicas);
        creator = creator.extra_config("kudu.table.history_max_age_sec", HISTORY_SECONDS.to_string());
        for (columns, buckets) in &schema.partitioning.hash {
            creator = creator.hash(HashPartition::new(columns.iter().map(|id| name_of(*id)), *buckets));
        }
        if schema.is_series_keyed() && schema.partitioning.hash.is_empty() && self.options.buckets > 1 {
            creator = creator.hash(HashPartition::new([name_of(schema.key[0])], self.options.buckets));
        }
        if let Some(column) = time_column(schema) {
            creator = creator.range_columns([name_of(column)]);
            if let Some(first) = first {
                creator = creator.range(partition(schema, first.time));
            }
        }
        match creator.create().await {
            Ok(table) => {
                slot.ranges.lock().extend(first.map(|range| range.number));
                Ok(self.opened(table, schema, slot))
            }
            // Another daemon was quicker, perhaps with other ranges.
            Err(error) if error.kind() == KuduKind::AlreadyPresent => {
                let deadline = Instant::now() + self.options.write_timeout;
                loop {
                    match self.open(id, state, slot, Follows::NewColumns).await? {
                        Some(opened) => return Ok(opened),
                        // For a moment its name is taken and it is not there.
                        None if Instant::now() < deadline => tokio::time::sleep(CHANGED_PAUSE).await,
                        None => return Err(of_write(error)),
                    }
                }
            }
            Err(error) => Err(of_write(error)),
        }
    }
}

/// Makes those of some ranges that this daemon neither made nor saw, until a deadline. Others who need ranges of this sheet wait
/// as long.
async fn add_ranges(
    known: &Physical,
    schema: &TableSchema,
    ranges: &[RangeState],
    slot: &Slot,
    deadline: Instant,
) -> Result<()> {
    let unseen = slot.unseen(ranges.iter().copied());
    for (number, range) in unseen.iter().enumerate() {
        if Instant::now() >= deadline {
            let words = format!("{number} of {} new shards are made so far: send it again", unseen.len());
            return Err(Error::retry(words));
        }
        match known.table.alter().add_range(&partition(schema, range.time)).apply().await {
            Ok(_) => {}
            // The masters are asked for its tablets, too.
            Err(error) if error.kind() == KuduKind::AlreadyPresent => known.table.forget_locations(),
            Err(error) => return Err(of_write(error)),
        }
        slot.ranges.lock().insert(range.number);
    }
    Ok(())
}

/// What a table that is opened is made to follow. Defaults and encodings are brought about by whoever changes them: a state
/// that is not the newest would bring back old ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Follows {
    NewColumns,
    Everything,
}

impl Opened {
    fn forget_dropped(&mut self, state: &State) {
        if state.version > self.version {
            self.version = state.version;
            self.slots.retain(|sheet, _| state.tables.contains_key(&sheet.table));
        }
    }
}

impl Slot {
    /// Those of some ranges that this daemon neither made nor saw.
    fn unseen(&self, ranges: impl Iterator<Item = RangeState>) -> Vec<RangeState> {
        let seen = self.ranges.lock();
        ranges.filter(|range| !seen.contains(&range.number)).collect()
    }

    /// The open table, if it has all columns of a schema.
    fn covering(&self, schema: &TableSchema) -> Option<Arc<Physical>> {
        self.current.lock().clone().filter(|known| known.next_column >= schema.next_column)
    }
}

/// The column by which a table is divided by time.
pub(crate) fn time_column(schema: &TableSchema) -> Option<ColumnId> {
    schema.partitioning.time_width_ns()?;
    Some(schema.key[schema.time_key()?])
}

/// The range partition of a range of times. The last one has no end: it holds the last time that there is.
fn partition(schema: &TableSchema, range: TimeRange) -> RangePartition {
    let column = name_of(time_column(schema).expect("only tables divided by time have ranges of it"));
    let lower = match range.start_ns {
        i64::MIN => RangeBound::Unbounded,
        start_ns => RangeBound::inclusive(&column, start_ns),
    };
    let upper = match range.end_ns {
        i64::MAX => RangeBound::Unbounded,
        end_ns => RangeBound::exclusive(&column, end_ns),
    };
    RangePartition::new(lower, upper)
}

fn column_of(schema: &TableSchema, column: &ColumnSchema) -> Column {
    let stored = stored(schema, column);
    let mut made = Column::new(name_of(column.id), stored.data_type()).compression(compression(column));
    made = made.block_size_bytes(BLOCK_BYTES);
    made = if stored.is_key { made.key() } else { made.nullable() };
    // Names are longer in other databases than a comment may be.
    if let Some(name) = column.name.get(..column.name.floor_char_boundary(COMMENT_BYTES)) {
        made = made.comment(name.replace('\0', "."));
    }
    match column.default.as_ref().and_then(|value| stored.value(value)) {
        Some(value) => made.default_value(value),
        None => made,
    }
}

/// Blocks of this size make the look-up of one series three to seven times as cheap as Kudu's 256 KiB, and files 3 % larger
/// (measured on 1.18).
const BLOCK_BYTES: i32 = 16 << 10;

/// How long Kudu keeps what rows were: longer than a query takes, since it reads a snapshot. Kudu's default is a week, and
/// takes 9 bytes a row.
const HISTORY_SECONDS: u32 = 3600;

/// Kudu keeps comments of 256 bytes, but all columns of a table must fit into a row of its catalog, which has 64 KiB.
const COMMENT_BYTES: usize = 120;

fn compression(column: &ColumnSchema) -> Compression {
    match column.encoding {
        Encoding::Automatic => Compression::Default,
        Encoding::Speed => Compression::None,
        Encoding::Size => Compression::Zlib,
    }
}

/// The columns of a sheet outside the key.
fn columns_of(schema: &TableSchema, sheet: Sheet) -> impl Iterator<Item = &ColumnSchema> {
    schema.columns.iter().filter(move |column| sheet.has_field(schema, column.id))
}

/// What a sheet lacks of a schema.
fn missing_of(table: &Table, id: Sheet, state: &TableState, follows: Follows) -> Option<TableAlterer> {
    let schema = &*state.schema;
    let mut alter = table.alter();
    let mut is_needed = false;
    for column in columns_of(schema, id) {
        let wanted = column_of(schema, column);
        let name = name_of(column.id);
        let Some(found) = table.schema().columns().iter().find(|found| found.name() == name) else {
            // Its default is what older rows have of it for ever; the next look brings that of new ones.
            let old_rows = state.added.get(&column.id).cloned();
            let added = ColumnSchema { default: old_rows, ..column.clone() };
            alter = alter.add_column(&column_of(schema, &added));
            is_needed = true;
            continue;
        };
        if follows == Follows::NewColumns {
            continue;
        }
        let mut change = ColumnChange::default();
        let mut differs = false;
        if found.default() != wanted.default() {
            differs = true;
            change.default_value = wanted.default().cloned();
            change.remove_default = wanted.default().is_none();
        }
        if found.storage().1 != compression(column) {
            differs = true;
            change.compression = Some(compression(column));
        }
        if differs {
            alter = alter.change_column(&name, change);
            is_needed = true;
        }
    }
    is_needed.then_some(alter)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::entry::{Change, Entry};

    #[test]
    fn dropped_tables_are_forgotten() {
        let create = |table| {
            let schema = (&TableSchema::measurement(format!("m{table}"), 100)).into();
            Change::Create { table, schema }
        };
        let after = |state: &State, changes| state.after(state.version + 1, &Entry { changes }).unwrap();
        let both = after(&State::default(), vec![create(0), create(1)]);
        let one = after(&both, vec![Change::Drop { table: 0 }]);
        let mut opened = Opened::default();
        for table in [TableId(0), TableId(1)] {
            opened.slots.insert(Sheet { table, number: 1 }, Arc::default());
        }
        opened.forget_dropped(&both);
        assert_eq!(opened.slots.len(), 2);
        opened.forget_dropped(&one);
        assert_eq!(opened.slots.keys().map(|sheet| sheet.table).collect::<Vec<_>>(), [TableId(1)]);
        // Whoever knows an old state has no say.
        opened.forget_dropped(&State::default());
        assert_eq!(opened.slots.len(), 1);
    }
}

//! Footers, index pages and the other pages of rowsets, drawn in `docs/format/rowset.md`: one file of a store gets other
//! bytes in one place, and every checksum is made right again.

use arrow_array::{
    ArrayRef, BooleanArray, Float64Array, Int64Array, StringArray, TimestampNanosecondArray, UInt32Array,
};
use nyala_core::store::{
    AggregateFunction, AggregateRequest, Alteration, CellColumn, Direction, Measure, Operation, Order,
    RowSelection, ScanRequest, Store, Upsert, Windows, WriteBatch, WriteMode,
};
use nyala_core::{ColumnId, ColumnSchema, ColumnType, Result, SeriesId, TableId, TableSchema, TimeRange};
use nyala_engine::fs::{Access, FileSystem, FsRef, SimulatedFs};
use nyala_engine::manifest_log::{self, ManifestLog};
use nyala_engine::{Engine, EngineOptions, block_on, check};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

const DIR: &str = "/data";
/// Room in each file for pages and footers that are longer than those they replace.
const SLACK: usize = 4096;
const TAIL_BYTES: usize = 24;
const SERIES: i64 = 3;
/// Enough for last rows.
const SERIES_ROWS: i64 = 150;
/// More than a group.
const KEYED_ROWS: i64 = 1100;

/// A small store, and its rowsets taken apart.
pub struct Template {
    /// Its disk.
    pub fs: SimulatedFs,
    files: Vec<File>,
}

struct File {
    path: PathBuf,
    /// Header, blocks and pages.
    blocks: Vec<u8>,
    footer: Vec<u8>,
    /// Where the footer has references to blocks and pages.
    references: Vec<usize>,
}

/// The store that all runs change a copy of.
pub fn template() -> &'static Template {
    static TEMPLATE: OnceLock<Template> = OnceLock::new();
    TEMPLATE.get_or_init(|| make_template().expect("a store in memory"))
}

/// Options of a store that does nothing by itself.
pub fn options() -> EngineOptions {
    EngineOptions { maintenance_threads: 0, wal_segment_bytes: 4096, ..EngineOptions::new(DIR) }
}

/// Makes a table of series and one with a key of its own.
pub fn create(engine: &Engine) -> Result<[TableId; 2]> {
    let points = block_on(engine.create_table(TableSchema::measurement("points", 1 << 40)))?;
    let fields = [ColumnType::Int64, ColumnType::Float64, ColumnType::String];
    let fields = fields.map(|column_type| Alteration::add_column(format!("{column_type:?}"), column_type));
    block_on(engine.alter_table(points, fields.to_vec()))?;
    let columns = vec![
        ColumnSchema::new(ColumnId(0), "key", ColumnType::String).required(),
        ColumnSchema::new(ColumnId(1), "value", ColumnType::Int64),
        ColumnSchema::new(ColumnId(2), "flag", ColumnType::Bool),
    ];
    let keyed = block_on(engine.create_table(TableSchema::keyed("keyed", columns, vec![ColumnId(0)])))?;
    Ok([points, keyed])
}

fn write(engine: &Engine, table: TableId, columns: Vec<ArrayRef>) -> Result<()> {
    let columns = (0..).zip(columns);
    let cells = |(id, values)| CellColumn { column: ColumnId(id), values, null_cells: None };
    let upsert = Upsert { table, mode: WriteMode::Upsert, columns: columns.map(cells).collect() };
    block_on(engine.write(WriteBatch { operations: vec![Operation::Upsert(upsert)] })).map(drop)
}

fn make_template() -> Result<Template> {
    let fs = SimulatedFs::new();
    let engine = Engine::open(EngineOptions { fs: Arc::new(fs.clone()), ..options() })?;
    let [points, keyed] = create(&engine)?;
    let rows = 0..SERIES * SERIES_ROWS;
    let some = || rows.clone().map(|row| (row % 5 > 0).then_some(row));
    let columns: Vec<ArrayRef> = vec![
        Arc::new(UInt32Array::from_iter_values(rows.clone().map(|row| (row / SERIES_ROWS) as u32))),
        Arc::new(TimestampNanosecondArray::from_iter_values(rows.clone().map(|row| row % SERIES_ROWS * 10))),
        Arc::new(some().map(|cell| cell.map(|row| row * row)).collect::<Int64Array>()),
        Arc::new(some().map(|cell| cell.map(|row| row as f64 / 4.0)).collect::<Float64Array>()),
        Arc::new(some().map(|cell| cell.map(|row| format!("text {}", row % 9))).collect::<StringArray>()),
    ];
    write(&engine, points, columns)?;
    let columns: Vec<ArrayRef> = vec![
        Arc::new(StringArray::from_iter_values((0..KEYED_ROWS).map(|row| format!("key {row:04}")))),
        Arc::new(Int64Array::from_iter_values(0..KEYED_ROWS)),
        Arc::new((0..KEYED_ROWS).map(|row| Some(row % 3 == 0)).collect::<BooleanArray>()),
    ];
    write(&engine, keyed, columns)?;
    engine.flush()?;
    drop(engine);

    let disk: FsRef = Arc::new(fs.clone());
    let loaded = manifest_log::load(&disk, Path::new(DIR))?.expect("a store has a manifest");
    let mut edits = loaded.checkpoint.to_vec();
    loaded.edits.iter().for_each(|edit| edits.extend_from_slice(edit));
    let rowsets = Path::new(DIR).join("rowsets");
    let mut files = Vec::new();
    for entry in fs.list(&rowsets)? {
        let path = rowsets.join(entry.name);
        let file = fs.open(&path, Access::Read)?;
        let mut bytes = vec![0; file.length()? as usize];
        file.read_exact_at(&mut bytes, 0)?;
        // The manifest tells the length of the file.
        let length = (bytes.len() as u64).to_le_bytes();
        let at = edits.windows(8).position(|window| window == length).expect("the manifest names the file");
        edits[at..at + 8].copy_from_slice(&((bytes.len() + SLACK) as u64).to_le_bytes());
        let tail = bytes.split_off(bytes.len() - TAIL_BYTES);
        let footer_at = u64::from_le_bytes(tail[..8].try_into().expect("eight bytes"));
        let footer = bytes.split_off(footer_at as usize);
        let references = references(&footer);
        files.push(File { path, blocks: bytes, footer, references });
    }
    for entry in fs.list(Path::new(DIR))?.iter().filter(|entry| entry.name.starts_with("manifest-")) {
        fs.remove(&Path::new(DIR).join(&entry.name))?;
    }
    ManifestLog::begin(disk, Path::new(DIR), &edits, loaded.revision)?;
    Ok(Template { fs, files })
}

/// Where a sound footer has references that name something.
fn references(footer: &[u8]) -> Vec<usize> {
    let u32_at = |at: usize| u32::from_le_bytes(footer[at..at + 4].try_into().expect("four bytes")) as usize;
    let columns = u32_at(9);
    let last_key_at = 13 + columns * 7;
    let mut at = last_key_at + 4 + u32_at(last_key_at);
    let mut found = vec![at];
    at += 16;
    for _ in 0..2 {
        let pages = u32_at(at);
        at += 4;
        for _ in 0..pages {
            at += 28;
            at += 4 + u32_at(at);
            found.extend((0..=columns).map(|index| at + index * 16));
            at += 16 * (columns + 1);
        }
    }
    found.push(at);
    assert_eq!(at + 16, footer.len());
    found.retain(|at| u32_at(at + 8) > 0);
    found
}

fn put_reference(out: &mut [u8], offset: usize, block: &[u8]) {
    out[..8].copy_from_slice(&(offset as u64).to_le_bytes());
    out[8..12].copy_from_slice(&(block.len() as u32).to_le_bytes());
    out[12..16].copy_from_slice(&crc32fast::hash(block).to_le_bytes());
}

impl File {
    fn chosen(selector: u8) -> &'static Self {
        let files = &template().files;
        &files[usize::from(selector) % files.len()]
    }

    /// The file with another end.
    fn whole(&self, page: &[u8], footer: &[u8]) -> Vec<u8> {
        let mut bytes = [&self.blocks, page].concat();
        let tail_at = self.blocks.len() + self.footer.len() + SLACK;
        bytes.resize(tail_at - footer.len(), 0);
        bytes.extend_from_slice(footer);
        bytes.resize(tail_at + 16, 0);
        put_reference(&mut bytes[tail_at..], tail_at - footer.len(), footer);
        bytes.extend_from_slice(b"nyalaROW");
        bytes
    }

    fn judge(&self, bytes: &[u8]) -> bool {
        let fs: FsRef = Arc::new(template().fs.snapshot());
        fs.remove(&self.path).expect("a disk in memory");
        let file = fs.open(&self.path, Access::Create).expect("a disk in memory");
        file.write_at(bytes, 0).expect("a disk in memory");
        drop(file);
        let report = check(&fs, Path::new(DIR), &mut |_| {});
        let Ok(engine) = Engine::open(EngineOptions { fs, ..options() }) else { return false };
        for (table, schema) in engine.tables() {
            drop(read(&engine, table, &schema));
        }
        drop(engine.compact());
        report.is_ok_and(|report| report.damage_count == 0)
    }
}

/// Reads everything in several ways, as far as it can be read.
fn read(engine: &Engine, table: TableId, schema: &TableSchema) -> Result<()> {
    let is_series = schema.is_series_keyed();
    let columns: Vec<_> =
        schema.columns.iter().map(|column| column.id).skip(usize::from(is_series)).collect();
    let scan = |order, limit_per_prefix| {
        let request = ScanRequest::by_key(table, RowSelection::All, columns.clone());
        let request = ScanRequest { order: Order::Key(order), limit_per_prefix, ..request };
        block_on(async {
            let mut stream = engine.latest().scan(request).await?;
            while stream.next().await?.is_some() {}
            Result::Ok(())
        })
    };
    let mut outcomes = vec![scan(Direction::Forward, None), scan(Direction::Backward, None)];
    if is_series {
        outcomes.push(scan(Direction::Backward, Some(1)));
        let measure = |function| Measure { column: ColumnId(2), function };
        let functions = [
            AggregateFunction::Count,
            AggregateFunction::Sum,
            AggregateFunction::Max,
            AggregateFunction::Last,
        ];
        for windows in
            [Windows::single(TimeRange::ALL), Windows::Regular { start_ns: 5, width_ns: 333, count: 4 }]
        {
            let request = AggregateRequest {
                table,
                series: (0..SERIES as u32).map(|series| (SeriesId(series), series)).collect(),
                groups: SERIES as usize,
                time: TimeRange::ALL,
                windows,
                predicates: Vec::new(),
                measures: functions.map(measure).to_vec(),
                times: true,
            };
            outcomes.push(block_on(engine.latest().aggregate(request)).map(drop));
        }
    }
    outcomes.into_iter().collect()
}

/// Reads `bytes` as which file (1 byte) and its footer.
pub fn run_footer(bytes: &[u8]) -> bool {
    let Some((selector, footer)) = bytes.split_first() else { return false };
    let file = File::chosen(*selector);
    let footer = &footer[..footer.len().min(file.footer.len() + SLACK)];
    file.judge(&file.whole(&[], footer))
}

/// Reads `bytes` as which file (1 byte), which of its pages (1 byte), and that page.
pub fn run_page(bytes: &[u8]) -> bool {
    let Some((&[selector, page], bytes)) = bytes.split_first_chunk::<2>() else { return false };
    let file = File::chosen(selector);
    let bytes = &bytes[..bytes.len().min(SLACK)];
    let mut footer = file.footer.clone();
    let at = file.references[usize::from(page) % file.references.len()];
    put_reference(&mut footer[at..], file.blocks.len(), bytes);
    file.judge(&file.whole(bytes, &footer))
}

/// The footers of the store.
pub fn footer_seeds() -> Vec<Vec<u8>> {
    let seed = |(index, file): (u8, &File)| [&[index], &file.footer[..]].concat();
    (0..).zip(&template().files).map(seed).collect()
}

/// The pages of the store.
pub fn page_seeds() -> Vec<Vec<u8>> {
    let mut seeds = Vec::new();
    for (index, file) in (0..).zip(&template().files) {
        for (page, at) in (0..).zip(&file.references) {
            let number =
                |at: usize| u32::from_le_bytes(file.footer[at..at + 4].try_into().expect("four bytes"));
            let (offset, length) = (number(*at) as usize, number(at + 8) as usize);
            seeds.push([&[index, page], &file.blocks[offset..offset + length]].concat());
        }
    }
    seeds
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seeds_are_read() {
        assert_eq!(template().files.len(), 2);
        footer_seeds().iter().for_each(|seed| assert!(run_footer(seed)));
        page_seeds().iter().for_each(|seed| assert!(run_page(seed)));
    }
}

//! What the fuzz targets found: bytes whose checksums are right and that contradict themselves.

use arrow_array::{ArrayRef, Int64Array};
use nyala_core::store::{
    CellColumn, Direction, Operation, Order, RowSelection, ScanRequest, Store, Upsert, WriteBatch, WriteMode,
};
use nyala_core::{ColumnId, ColumnSchema, ColumnType, Result, TableSchema};
use nyala_engine::fs::{Access, FileSystem, FsRef, SimulatedFs};
use nyala_engine::manifest_log::ManifestLog;
use nyala_engine::{Engine, EngineOptions, block_on, check};
use std::path::{Path, PathBuf};
use std::sync::Arc;

const DIR: &str = "/data";

fn open(fs: &FsRef) -> Result<Engine> {
    Engine::open(EngineOptions { fs: fs.clone(), maintenance_threads: 0, ..EngineOptions::new(DIR) })
}

/// A store whose manifest is one table, with a column of this id, and one partition.
fn store(table: u32, column: u32, partition: u64) -> Result<FsRef> {
    let text = |text: &str| [&(text.len() as u32).to_le_bytes(), text.as_bytes()].concat();
    let (one, none) = (1_u32.to_le_bytes(), 0_u32.to_le_bytes());
    let timestamp = [14, 0, 0];
    let columns = [&one[..], &column.to_le_bytes(), &text("key"), &timestamp, &[0]].concat();
    let schema = [text("points"), columns, [one, column.to_le_bytes(), none].concat(), vec![0; 12]].concat();
    let range = [i64::MIN, i64::MAX].map(i64::to_le_bytes).concat();
    let edits = [
        [&[1][..], &table.to_le_bytes(), &schema].concat(),
        [&[3][..], &table.to_le_bytes(), &partition.to_le_bytes(), &range].concat(),
    ];
    let fs: FsRef = Arc::new(SimulatedFs::new());
    fs.create_dirs(Path::new(DIR))?;
    ManifestLog::begin(fs.clone(), Path::new(DIR), &edits.concat(), 0)?;
    Ok(fs)
}

#[test]
fn a_column_with_the_number_of_markers_is_refused() -> Result<()> {
    let error = open(&store(0, u32::MAX, 0)?).map(drop).expect_err("the number is taken");
    assert!(error.message().contains("row markers"), "{error}");
    Ok(())
}

#[test]
fn the_last_numbers_of_tables_and_partitions_are_no_overflow() -> Result<()> {
    let fs = store(u32::MAX, 7, u64::MAX)?;
    for _ in 0..2 {
        assert_eq!(open(&fs)?.tables().len(), 1);
    }
    Ok(())
}

#[test]
fn a_block_beyond_the_file_is_refused_before_memory_is_reserved() -> Result<()> {
    fn copy(from: &Path, to: PathBuf, fs: &dyn FileSystem) -> Result<()> {
        fs.create_dirs(&to)?;
        for entry in std::fs::read_dir(from).expect("is there").flatten() {
            let (path, target) = (entry.path(), to.join(entry.file_name()));
            if path.is_dir() {
                copy(&path, target, fs)?;
            } else {
                fs.open(&target, Access::Create)?.write_at(&std::fs::read(path).expect("is read"), 0)?;
            }
        }
        Ok(())
    }
    let fs: FsRef = Arc::new(SimulatedFs::new());
    let kept = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/formats/rowsets-v3");
    copy(&kept, DIR.into(), &*fs)?;
    let path = Path::new(DIR).join("rowsets/0000000000000000.rowset");
    let file = fs.open(&path, Access::Write)?;
    let mut bytes = vec![0; file.length()? as usize];
    file.read_exact_at(&mut bytes, 0)?;
    let number = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"));
    let tail_at = bytes.len() - 24;
    let footer_at = number(tail_at) as usize;
    // The first page is known by its checksum.
    let is_reference = |at: &usize| {
        let (offset, length) = (number(*at) as usize, number(at + 8) as usize);
        let block = bytes[..footer_at].get(offset..offset.saturating_add(length));
        length > 0 && block.is_some_and(|block| crc32fast::hash(block) == number(at + 12))
    };
    let reference = (footer_at..tail_at - 16).find(is_reference).expect("a footer has references");
    bytes[reference + 8..reference + 12].copy_from_slice(&u32::MAX.to_le_bytes());
    let checksum = crc32fast::hash(&bytes[footer_at..tail_at]);
    bytes[tail_at + 12..tail_at + 16].copy_from_slice(&checksum.to_le_bytes());
    file.write_at(&bytes, 0)?;
    drop(file);
    let damage = check(&fs, Path::new(DIR), &mut |_| {})?.damage;
    assert!(damage.iter().any(|found| found.message.contains("beyond the file")), "{damage:?}");
    Ok(())
}

#[test]
fn keys_that_are_not_in_order_are_reported() -> Result<()> {
    let fs: FsRef = Arc::new(SimulatedFs::new());
    let engine = open(&fs)?;
    let names = ["key", "value"];
    let columns = (0..)
        .zip(names)
        .map(|(id, name)| ColumnSchema::new(ColumnId(id), name, ColumnType::Int64).required())
        .collect();
    let table = block_on(engine.create_table(TableSchema::keyed("pairs", columns, vec![ColumnId(0)])))?;
    // The first value is the first key, which the index has too; the others fall.
    let values: [Vec<i64>; 2] = [(0..10).collect(), std::iter::once(0).chain((1..10).rev()).collect()];
    let columns = (0..).zip(values).map(|(id, values)| {
        let values: ArrayRef = Arc::new(Int64Array::from(values));
        CellColumn { column: ColumnId(id), values, null_cells: None }
    });
    let upsert = Upsert { table, mode: WriteMode::Upsert, columns: columns.collect() };
    block_on(engine.write(WriteBatch { operations: vec![Operation::Upsert(upsert)] }))?;
    engine.flush()?;
    drop(engine);

    // The keys are the first block: two of them change places, and every checksum is made right again.
    let file = fs.open(&Path::new(DIR).join("rowsets/0000000000000000.rowset"), Access::Write)?;
    let mut bytes = vec![0; file.length()? as usize];
    file.read_exact_at(&mut bytes, 0)?;
    let keys_at = 16;
    let last_bytes_at = keys_at + 5 + 7;
    assert_eq!(bytes[last_bytes_at..last_bytes_at + 10], [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]);
    bytes.swap(last_bytes_at + 3, last_bytes_at + 6);
    let page_at = correct_checksum(&mut bytes, keys_at) - 32;
    correct_checksum(&mut bytes, page_at);
    let tail_at = bytes.len() - 24;
    let footer_at = u64::from_le_bytes(bytes[tail_at..tail_at + 8].try_into().expect("eight bytes"));
    correct_checksum(&mut bytes, footer_at as usize);
    file.write_at(&bytes, 0)?;
    drop(file);

    let damage = check(&fs, Path::new(DIR), &mut |_| {})?.damage;
    assert!(damage.iter().any(|found| found.message.contains("keys are not in order")), "{damage:?}");
    // What is read is not defined, but it is read without a panic.
    let engine = open(&fs)?;
    for direction in [Direction::Forward, Direction::Backward] {
        let request = ScanRequest::by_key(table, RowSelection::All, vec![ColumnId(0), ColumnId(1)]);
        let request = ScanRequest { order: Order::Key(direction), ..request };
        block_on(async {
            let mut stream = engine.latest().scan(request).await?;
            while stream.next().await?.is_some() {}
            Result::Ok(())
        })?;
    }
    Ok(())
}

/// Corrects the checksum of the block at an offset; returns where its reference is.
fn correct_checksum(bytes: &mut [u8], offset: usize) -> usize {
    let is_reference = |at: &usize| bytes[*at..at + 8] == (offset as u64).to_le_bytes();
    let at = (offset..bytes.len() - 16).find(is_reference).expect("a block has a reference");
    let length = u32::from_le_bytes(bytes[at + 8..at + 12].try_into().expect("four bytes")) as usize;
    let checksum = crc32fast::hash(&bytes[offset..offset + length]);
    bytes[at + 12..at + 16].copy_from_slice(&checksum.to_le_bytes());
    at
}

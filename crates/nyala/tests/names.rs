//! Many new measurements and fields at once: their cost is counted in syncs, and a request may create only a limited
//! number.

use nyala_core::Result;
use nyala_core::memory::MemoryBudget;
use nyala_core::store::Store;
use nyala_db::catalog::Catalog;
use nyala_db::ingest::ParseOptions;
use nyala_db::write::{LineWriter, WriteReport};
use nyala_engine::fs::{OperationKind, SimulatedFs};
use nyala_engine::{Engine, EngineOptions, block_on};
use std::fmt::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A database on a disk that counts its syncs.
struct Counted {
    engine: Arc<Engine>,
    catalog: Arc<Catalog>,
    writer: LineWriter,
    syncs: Arc<AtomicU64>,
}

impl Counted {
    fn open(series_limit_bytes: usize) -> Result<Self> {
        let (fs, syncs) = (SimulatedFs::new(), Arc::new(AtomicU64::new(0)));
        let counted = syncs.clone();
        fs.on_operation(move |_, operation| {
            if matches!(operation.kind, OperationKind::Sync | OperationKind::SyncDir) {
                counted.fetch_add(1, Ordering::Relaxed);
            }
        });
        let options =
            EngineOptions { fs: Arc::new(fs), maintenance_threads: 0, ..EngineOptions::new("/data") };
        let engine = Arc::new(Engine::open(options)?);
        let catalog = Arc::new(block_on(Catalog::open(engine.clone()))?);
        block_on(catalog.create_database("d", None))?;
        let writer = LineWriter::new(catalog.clone(), MemoryBudget::new(1 << 40), series_limit_bytes);
        Ok(Self { engine, catalog, writer, syncs })
    }

    fn write(&self, lines: &str) -> Result<WriteReport> {
        block_on(self.writer.write("d", "", ParseOptions::default(), lines.as_bytes()))
    }

    /// How many syncs an action takes.
    fn syncs_of(&self, what: impl FnOnce() -> Result<()>) -> Result<u64> {
        let before = self.syncs.load(Ordering::Relaxed);
        what()?;
        Ok(self.syncs.load(Ordering::Relaxed) - before)
    }

    fn fields(&self, measurement: &str) -> Result<usize> {
        let found = block_on(self.catalog.measurement("d", "autogen", measurement))?;
        Ok(found.map_or(0, |measurement| measurement.fields().len()))
    }
}

fn lines(count: usize, line: impl Fn(usize) -> String) -> String {
    (0..count).map(|number| line(number) + "\n").collect()
}

/// A line with this many fields.
fn wide(measurement: &str, fields: usize) -> String {
    let mut line = format!("{measurement} f0=1");
    (1..fields).for_each(|number| write!(line, ",f{number}=1").expect("text grows"));
    line + " 1"
}

#[test]
fn many_names_are_created_and_dropped_with_a_few_syncs() -> Result<()> {
    let counted = Counted::open(usize::MAX)?;
    let write = |lines: String, points: u64| {
        let report = counted.write(&lines)?;
        assert_eq!((report.written, report.complaint()), (points, None));
        Ok(())
    };
    // Tables, columns, partitions and points: a sync each, and one more where the log begins a segment.
    let made = counted.syncs_of(|| write(lines(300, |n| format!("m{n},host=a v=1,w=2i {n}")), 300))?;
    assert!(made <= 6, "{made} syncs for 300 measurements");
    let added = counted.syncs_of(|| write(lines(300, |n| format!("m{n},host=a x=t,y=\"s\" {n}")), 300))?;
    assert!(added <= 4, "{added} syncs for new fields of 300 measurements");
    assert_eq!((counted.fields("m0")?, counted.fields("m299")?), (4, 4));
    let known = counted.syncs_of(|| write(lines(300, |n| format!("m{n},host=a v=3 {n}")), 300))?;
    assert!(known <= 2, "{known} syncs for points of known measurements");
    let dropped = counted.syncs_of(|| block_on(counted.catalog.drop_database("d")))?;
    assert!(dropped <= 8, "{dropped} syncs to drop 300 measurements");
    assert!(counted.engine.tables().iter().all(|(_, schema)| schema.name.starts_with("nyala.")));
    // New measurements of the same names see nothing of them.
    block_on(counted.catalog.create_database("d", None))?;
    write("m0,host=b z=1 1".to_owned(), 1)?;
    assert_eq!((counted.fields("m0")?, counted.fields("m1")?), (1, 0));
    Ok(())
}

#[test]
fn the_number_of_names_that_a_request_creates_is_limited() -> Result<()> {
    let counted = Counted::open(usize::MAX)?;
    let report = counted.write(&wide("wide", 8000))?;
    assert_eq!((report.written, counted.fields("wide")?), (1, 8000));
    // A line of too many names is dropped, lines without new ones are stored.
    for (measurement, what) in [("wide", "field \"f"), ("wider", "measurement \"wider\"")] {
        let known = "wide f0=2 2\nwide f7999=2 3";
        let report = counted.write(&format!("{}\n{known}", wide(measurement, 30_000)))?;
        let complaint = report.complaint().expect("a line was dropped");
        assert!(complaint.starts_with(&format!("partial write: no new {what}")), "{complaint}");
        assert!(complaint.contains("may bring 16384 measurements and fields"), "{complaint}");
        assert!(complaint.ends_with("dropped=1"), "{complaint}");
        assert_eq!((report.written, counted.fields("wide")?, counted.fields("wider")?), (2, 8000, 0));
    }
    let tables = counted.engine.tables().len();
    let report = counted.write(&lines(20_000, |n| format!("many{n} v=1 1")))?;
    let dropped = report.dropped.expect("lines were dropped");
    assert_eq!(dropped.count + report.written, 20_000);
    assert!(dropped.reason.starts_with("no new measurement \"many"), "{}", dropped.reason);
    assert_eq!((report.written, counted.engine.tables().len() - tables), (8192, 8192));
    Ok(())
}

#[test]
fn names_are_charged_before_they_are_created() -> Result<()> {
    let counted = Counted::open(100_000)?;
    assert_eq!(counted.write("known,host=a v=1 1")?.written, 1);
    counted.write(&lines(100, |n| format!("m{n} v=1 1")))?;
    let tables = counted.engine.tables().len();
    let report = counted.write("new v=1 1\nknown,host=a v=2 2\nknown,host=a w=2 3\nknown,host=b v=2 4")?;
    let dropped = report.dropped.expect("new names are dropped");
    assert_eq!((report.written, dropped.count), (1, 3));
    assert!(dropped.reason.starts_with("no new measurement \"new\""), "{}", dropped.reason);
    assert_eq!((counted.engine.tables().len(), counted.fields("known")?), (tables, 1));
    Ok(())
}

#[test]
fn a_batch_in_too_many_shards_is_refused() -> Result<()> {
    const WEEK_NS: u64 = 7 * 86_400_000_000_000;
    let counted = Counted::open(usize::MAX)?;
    let report = counted.write(&lines(6000, |n| format!("m v={n} {}", n as u64 * WEEK_NS)))?;
    let dropped = report.dropped.expect("points were dropped");
    assert_eq!((report.written, dropped.count), (4097, 1903));
    assert!(dropped.reason.starts_with("points in more than 4096 shards"), "{}", dropped.reason);
    Ok(())
}

use super::writer_cache::OWN_SERIES_MAX;
use super::*;
use crate::ingest::{ColumnBatch, FieldSlice, LineLimits, ValueSlice};
use crate::selection::PointSelection;
use crate::series::TagFilter;
use nyala_core::store::memory::MemoryStore;
use nyala_core::{SeriesId, TimeRange};
use std::collections::BTreeMap;

async fn named(catalog: &Catalog) -> Arc<Measurement> {
    catalog.measurement("d", "autogen", "m").await.unwrap().unwrap()
}

#[tokio::test]
async fn writers_of_very_many_series_share_a_cache() {
    let catalog = Arc::new(Catalog::open(Arc::new(MemoryStore::default())).await.unwrap());
    catalog.create_database("d", None).await.unwrap();
    let writer = LineWriter::new(catalog.clone(), MemoryBudget::new(1 << 40), usize::MAX);
    let body = |first: usize, count: usize, time: i64| -> String {
        (first..first + count).map(|host| format!("m,host={host} f=1 {time}\n")).collect()
    };
    let write = async |body: String| {
        let report = writer.write("d", "", ParseOptions::default(), body.as_bytes()).await.unwrap();
        report.written
    };
    let many = OWN_SERIES_MAX + 10;
    assert_eq!(write(body(0, many, 1)).await, many as u64);
    // Two at once, both with new series: they do not deadlock, and ids stay as they were.
    let (one, two) = tokio::join!(write(body(many - 5, 10, 2)), write(body(many, 10, 2)));
    assert_eq!((one, two), (10, 10));
    let measurement = named(&catalog).await;
    assert_eq!(measurement.series().len(), many + 10);
    for host in [0, many - 1, many, many + 9] {
        let id = measurement.series().find(&[("host", &host.to_string())]);
        assert!(id.is_some_and(|id| host >= many || id == SeriesId(host as u32)), "{host}");
    }
    // Dropped series are no longer cached.
    catalog.drop_measurement("d", "m").await.unwrap();
    assert_eq!(write(body(0, 20, 3)).await, 20);
    let measurement = named(&catalog).await;
    assert_eq!(measurement.series().len(), 20);
}

#[tokio::test]
async fn a_batch_writes_the_records_it_needs_even_if_another_unfinished_batch_has_them() {
    let catalog = Arc::new(Catalog::open(Arc::new(MemoryStore::default())).await.unwrap());
    catalog.create_database("d", None).await.unwrap();
    let policy = catalog.database("d").unwrap().existing_policy("").unwrap().clone();
    catalog.create_measurements("d", &policy, vec!["m".to_owned()]).await.unwrap();
    let measurement = named(&catalog).await;
    let ids: Vec<u32> = ["a", "b", "c"]
        .iter()
        .map(|host| measurement.stored().new_series_id(&[("host", host)]).unwrap().0.0)
        .collect();
    let count = |used: &[u32]| measurement.stored().unsaved_records(used.iter().copied()).series.len();
    assert_eq!(count(&[ids[0]]), 3, "all that nobody has taken");
    assert_eq!(count(&[ids[1], ids[1], 77]), 1, "the first batch may fail");
    assert_eq!(count(&[]), 0);
    measurement.stored().saved(&measurement.stored().unsaved_records(ids.iter().copied()));
    assert_eq!(count(&ids), 0);
}

#[tokio::test]
async fn a_body_is_written_as_a_whole_or_not_at_all() {
    let catalog = Arc::new(Catalog::open(Arc::new(MemoryStore::default())).await.unwrap());
    catalog.create_database("d", None).await.unwrap();
    let writer = LineWriter::new(catalog.clone(), MemoryBudget::new(1 << 40), usize::MAX);
    writer.write("d", "", ParseOptions::default(), b"m,host=a f=1 1").await.unwrap();
    let measurement = named(&catalog).await;
    let points = async || {
        let all = PointSelection { tags: TagFilter::All, time: TimeRange::ALL, predicates: Vec::new() };
        catalog.count_points(&measurement, &all).await.unwrap()
    };
    for max_rows in [2, 100] {
        let limits = LineLimits { max_rows, ..LineLimits::default() };
        let options = ParseOptions { limits, ..ParseOptions::default() };
        let write = async |body: &str| writer.write_whole("d", "", options, body.as_bytes()).await.unwrap();
        let (before, series) = (points().await, measurement.series().len());
        for wrong in ["m,host=z f=\"text\" 3", "m,host=z f", "m,time=z f=1 3"] {
            let report = write(&format!("m,host=x f=1 1\nm,host=y f=1 2\n{wrong}\nm,host=w f=1 4\n")).await;
            assert!(report.complaint().is_some() && report.written == 0, "{wrong}: {report:?}");
            assert_eq!((points().await, measurement.series().len()), (before, series), "{wrong} {max_rows}");
        }
        let body: String = (0..5).map(|host| format!("m,host={max_rows}-{host} f=1 {host}\n")).collect();
        let report = write(&body).await;
        assert_eq!((report.complaint(), report.written), (None, 5));
        assert_eq!((points().await, measurement.series().len()), (before + 5, series + 5));
    }
}

#[tokio::test]
async fn a_batch_reuses_the_memory_of_the_last_one() {
    let catalog = Arc::new(Catalog::open(Arc::new(MemoryStore::default())).await.unwrap());
    catalog.create_database("d", None).await.unwrap();
    let writer = LineWriter::new(catalog, MemoryBudget::new(1 << 40), usize::MAX);
    let mut held = Vec::new();
    for round in 0..3 {
        let lines = (0..1000).map(|row| format!("m,host=a f={row}.5,g={row}i {}\n", round * 1000 + row));
        let body: String = lines.collect();
        let report = writer.write("d", "", ParseOptions::default(), body.as_bytes()).await.unwrap();
        assert_eq!(report.written, 1000);
        let mut writer_cache = writer.caches.take("d", "autogen", Form::Lines);
        let group = &mut writer_cache.batch.groups_mut()[0];
        held.push((group.series_ids.as_ptr(), group.times_ns.as_ptr(), group.lines.as_ptr()));
        assert!(group.times_ns.capacity() >= 1000);
        writer.caches.give_back(writer_cache);
    }
    assert!(held.iter().all(|places| *places == held[0]));
}

/// All rows of the measurement `m`, as text.
async fn rows_of(catalog: &Arc<Catalog>, database: &str) -> String {
    let measurement = catalog.measurement(database, "autogen", "m").await.unwrap().unwrap();
    let schema = catalog.store().schema(measurement.table()).unwrap();
    let fields = schema.columns.iter().filter(|column| column.id != SERIES_COLUMN);
    let mut columns: Vec<_> = fields.map(|column| (column.name.clone(), column.id)).collect();
    columns.sort();
    let snapshot = catalog.snapshot().await.unwrap();
    let points = catalog.points(&measurement, &TagFilter::All, TimeRange::ALL).await.unwrap();
    let ids = columns.iter().map(|(_, id)| *id).collect();
    let mut stream = points.scan(&snapshot, ids).await.unwrap().unwrap();
    let mut text = format!("{:?}\n", columns.iter().map(|(name, _)| name).collect::<Vec<_>>());
    while let Some(batch) = stream.next().await.unwrap() {
        for run in &batch.series {
            text += &format!("{:?} × {}\n", measurement.series().tags_of(run.series), run.rows);
        }
        batch.columns.iter().for_each(|column| text += &format!("{column:?}\n"));
    }
    text
}

#[tokio::test]
async fn columns_are_stored_as_lines_are() {
    let catalog = Arc::new(Catalog::open(Arc::new(MemoryStore::default())).await.unwrap());
    for database in ["lines", "columns"] {
        catalog.create_database(database, None).await.unwrap();
    }
    let writer = LineWriter::new(catalog.clone(), MemoryBudget::new(1 << 40), usize::MAX);
    let lines = "m,host=a\\ b f=1.5,i=7i,s=\"x\",on=true 1\n\
        m,host=a\\ b f=2.5,s=\"yz\" 2\n\
        m,host=a\\ b i=9i,on=false 3\n\
        m,host=c u=5u 1\n\
        m,host=c u=6u 2\n";
    assert_eq!(
        writer.write("lines", "", ParseOptions::default(), lines.as_bytes()).await.unwrap().written,
        5
    );
    let mut batch = ColumnBatch::default();
    let field = |name, values, present| FieldSlice { name, values, present };
    // "x" and "yz", in a longer text.
    let text = b"ooxyz?";
    let fields = [
        field(&b"f"[..], ValueSlice::Float(&[1.5, 2.5]), Some(&[true, true, false][..])),
        field(b"i", ValueSlice::Integer(&[7, 9]), Some(&[true, false, true])),
        field(b"on", ValueSlice::Boolean(&[true, false]), Some(&[true, false, true])),
    ];
    batch.append(b"m,host=a\\ b", &[1, 2, 3], &fields[..2]).unwrap();
    batch.append(b"m,host=a\\ b", &[1, 2, 3], &fields[2..]).unwrap();
    let strings = [field(b"s", ValueSlice::String(&[3, 5], text, 2), None)];
    batch.append(b"m,host=a\\ b", &[1, 2], &strings).unwrap();
    batch.append(b"m,host=c", &[1, 2], &[field(b"u", ValueSlice::Unsigned(&[5, 6]), None)]).unwrap();
    for bad in [&b""[..], b"m,host", b"m,host=", b"m,a=1,a=2", b"m m"] {
        assert!(batch.append(bad, &[1], &strings[..0]).is_err(), "{}", bad.escape_ascii());
    }
    let report = writer.write_columns("columns", "", 0, &mut batch).await.unwrap();
    assert_eq!(report.points.complaint(), None);
    assert_eq!(report.values, BTreeMap::from([("m".to_owned(), 10)]));
    assert!(batch.is_empty());
    assert_eq!(rows_of(&catalog, "columns").await, rows_of(&catalog, "lines").await);

    // A field of another type is left out, and is not counted.
    batch.append(b"m,host=c", &[1, 2, 3], &[field(b"u", ValueSlice::Float(&[1.0, 2.0, 3.0]), None)]).unwrap();
    batch.append(b"m,host=c", &[4], &[field(b"i", ValueSlice::Integer(&[1]), None)]).unwrap();
    let report = writer.write_columns("columns", "", 0, &mut batch).await.unwrap();
    assert_eq!(report.points.dropped.map(|dropped| dropped.count), Some(3));
    assert_eq!(report.values, BTreeMap::from([("m".to_owned(), 1)]));
}

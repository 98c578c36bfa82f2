//! Points are corrected while others write: what others write meanwhile is kept, and nobody's change is lost.

use arrow_array::{ArrayRef, Float64Array, TimestampNanosecondArray, UInt32Array};
use nyala_core::memory::MemoryBudget;
use nyala_core::store::memory::MemoryStore;
use nyala_core::store::{Comparison, Predicate};
use nyala_core::{ErrorKind, TimeRange, Value};
use nyala_db::catalog::{Catalog, Field, Measurement};
use nyala_db::correct::{CorrectedField, Correction, Others};
use nyala_db::ingest::ParseOptions;
use nyala_db::selection::PointSelection;
use nyala_db::series::TagFilter;
use nyala_db::write::LineWriter;
use std::sync::Arc;
use std::time::Duration;

struct Bed {
    catalog: Arc<Catalog>,
    writer: LineWriter,
}

impl Bed {
    async fn new(lines: &str) -> (Self, Arc<Measurement>) {
        let catalog = Arc::new(Catalog::open(Arc::new(MemoryStore::default())).await.unwrap());
        catalog.create_database("d", None).await.unwrap();
        let writer = LineWriter::new(catalog.clone(), MemoryBudget::new(1 << 40), usize::MAX);
        let bed = Self { catalog, writer };
        bed.write(lines).await;
        let measurement = bed.catalog.measurement("d", "autogen", "m").await.unwrap().unwrap();
        (bed, measurement)
    }

    async fn write(&self, lines: &str) {
        let report = self.writer.write("d", "", ParseOptions::default(), lines.as_bytes()).await.unwrap();
        assert_eq!(report.complaint(), None);
    }

    /// How many points have a value.
    async fn having(&self, measurement: &Measurement, value: f64) -> u64 {
        self.catalog.count_points(measurement, &having(measurement, value)).await.unwrap()
    }
}

fn field(measurement: &Measurement) -> Field {
    measurement.fields().iter().find(|field| field.name == "f").unwrap().clone()
}

fn having(measurement: &Measurement, value: f64) -> PointSelection {
    let comparison = Comparison::Equal(Value::Float(value));
    let predicates = vec![Predicate { column: field(measurement).column, comparison }];
    PointSelection { tags: TagFilter::All, time: TimeRange::ALL, predicates }
}

/// Sets the field of a point of host `a`.
async fn set(correction: &mut Correction<'_>, measurement: &Measurement, time_ns: i64, value: f64) {
    let series = measurement.series().find(&[("host", "a")]).unwrap();
    let values: ArrayRef = Arc::new(Float64Array::from(vec![value]));
    let fields = vec![CorrectedField { field: field(measurement), values }];
    let times = TimestampNanosecondArray::from(vec![time_ns]);
    correction.update(UInt32Array::from(vec![series.0]), times, fields).await.unwrap();
}

#[tokio::test]
async fn others_write_while_points_are_corrected() {
    let (bed, measurement) = Bed::new("m,host=a f=1 1\nm,host=a f=1 2").await;
    let mut correction = bed.catalog.begin_correction(&measurement, Others::Write).await.unwrap();
    bed.write("m,host=a f=1 3\nm,host=b f=1 1").await;
    set(&mut correction, &measurement, 1, 5.0).await;
    bed.write("m,host=a f=1 4").await;
    assert_eq!(bed.having(&measurement, 5.0).await, 0, "not before the commit");
    let changed = correction.commit().await.unwrap();
    assert_eq!(changed.points, 1);
    assert_eq!((bed.having(&measurement, 5.0).await, bed.having(&measurement, 1.0).await), (1, 4));
}

#[tokio::test]
async fn a_point_that_somebody_else_changed_is_no_ones_to_correct() {
    let (bed, measurement) = Bed::new("m,host=a f=1 1\nm,host=a f=1 2").await;
    let mut correction = bed.catalog.begin_correction(&measurement, Others::Write).await.unwrap();
    set(&mut correction, &measurement, 1, 5.0).await;
    bed.write("m,host=a f=7 1").await;
    let error = correction.commit().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Conflict);
    assert_eq!((bed.having(&measurement, 5.0).await, bed.having(&measurement, 7.0).await), (0, 1));
}

#[tokio::test]
async fn others_wait_when_a_correction_is_repeated() {
    let (bed, measurement) = Bed::new("m,host=a f=1 1\nm,host=a f=1 2").await;
    let mut correction = bed.catalog.begin_correction(&measurement, Others::Wait).await.unwrap();
    set(&mut correction, &measurement, 1, 5.0).await;
    let mut writing = std::pin::pin!(bed.write("m,host=a f=7 1"));
    let waited = tokio::time::timeout(Duration::from_millis(50), &mut writing).await;
    assert!(waited.is_err(), "the writer waits");
    assert_eq!(correction.commit().await.unwrap().points, 1);
    writing.await;
    assert_eq!((bed.having(&measurement, 5.0).await, bed.having(&measurement, 7.0).await), (0, 1));
}

#[tokio::test]
async fn a_series_is_removed_with_its_last_point_unless_it_got_another_meanwhile() {
    let (bed, measurement) = Bed::new("m,host=a f=1 1\nm,host=b f=1 1\nm,host=c f=2 1").await;
    let ids = ["a", "b"].map(|host| measurement.series().find(&[("host", host)]).unwrap().0);
    let mut correction = bed.catalog.begin_correction(&measurement, Others::Write).await.unwrap();
    let times = TimestampNanosecondArray::from(vec![1, 1]);
    correction.delete(UInt32Array::from(ids.to_vec()), times).await.unwrap();
    bed.write("m,host=b f=2 2").await;
    assert_eq!(correction.commit().await.unwrap().points, 2);
    let known = |host| measurement.series().find(&[("host", host)]).is_some();
    assert_eq!(["a", "b", "c"].map(known), [false, true, true]);
    assert_eq!((bed.having(&measurement, 1.0).await, bed.having(&measurement, 2.0).await), (0, 2));
    // What is selected by a value is deleted by the statement's own way, which is the same.
    let deleted = bed.catalog.delete_selected(&measurement, &having(&measurement, 2.0), true).await.unwrap();
    assert_eq!((deleted.points, measurement.series().len()), (2, 0));
}

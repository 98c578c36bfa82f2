//! Rows that are written and read again are the same; damaged files are errors.

use super::*;
use crate::error::{FileErrorKind, FileResult};
use arrow_array::builder::{BinaryBuilder, StringDictionaryBuilder};
use arrow_array::cast::AsArray;
use arrow_array::types::{Date32Type, Decimal128Type, Int32Type, TimestampNanosecondType};
use arrow_array::{
    Array, ArrayRef, BooleanArray, Date32Array, Decimal128Array, Float32Array, Float64Array, Int16Array,
    Int32Array, Int64Array, RecordBatch, StringArray, TimestampNanosecondArray, UInt64Array,
};
use arrow_schema::DataType;
use arrow_select::concat::concat_batches;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use std::io::{Seek, Write};
use std::sync::Arc;

type Row = (
    (Option<bool>, Option<i16>, Option<i32>, Option<i64>, Option<u64>),
    (Option<f32>, Option<f64>, Option<i128>, Option<i32>, Option<i64>),
    (Option<String>, Option<Vec<u8>>, Option<u8>),
);

/// The greatest number of 38 digits.
const DIGITS_38: i128 = 10_i128.pow(38) - 1;

fn row() -> impl Strategy<Value = Row> {
    let float = prop_oneof![
        any::<f64>(),
        prop::sample::select(vec![f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -0.0, 0.0, f64::MIN_POSITIVE])
    ];
    let float4 = prop_oneof![any::<f32>(), prop::sample::select(vec![f32::NAN, f32::INFINITY, -0.0])];
    let decimal = prop_oneof![-DIGITS_38..=DIGITS_38, prop::sample::select(vec![DIGITS_38, -DIGITS_38, 0])];
    let time = prop_oneof![any::<i64>(), prop::sample::select(vec![i64::MIN, i64::MAX, -1, 0])];
    let day = prop_oneof![any::<i32>(), prop::sample::select(vec![i32::MIN, i32::MAX])];
    let text = prop_oneof![any::<String>(), Just(String::new()), Just("x".repeat(70_000))];
    use proptest::option::of as some;
    (
        (
            some(any::<bool>()),
            some(any::<i16>()),
            some(any::<i32>()),
            some(any::<i64>()),
            some(prop_oneof![any::<u64>(), Just(u64::MAX)]),
        ),
        (some(float4), some(float), some(decimal), some(day), some(time)),
        (some(text), some(any::<Vec<u8>>()), some(0_u8..4)),
    )
}

fn batch(rows: &[Row]) -> RecordBatch {
    let texts: StringArray = rows.iter().map(|row| row.2.0.as_deref()).collect();
    let mut bytes = BinaryBuilder::new();
    let mut tags = StringDictionaryBuilder::<Int32Type>::new();
    for row in rows {
        bytes.append_option(row.2.1.as_deref());
        tags.append_option(row.2.2.map(|tag| format!("host{tag}")));
    }
    let times: TimestampNanosecondArray = rows.iter().map(|row| row.1.4).collect();
    let decimals: Decimal128Array = rows.iter().map(|row| row.1.2).collect();
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("bool", Arc::new(rows.iter().map(|row| row.0.0).collect::<BooleanArray>())),
        ("int2", Arc::new(rows.iter().map(|row| row.0.1).collect::<Int16Array>())),
        ("int4", Arc::new(rows.iter().map(|row| row.0.2).collect::<Int32Array>())),
        ("int8", Arc::new(rows.iter().map(|row| row.0.3).collect::<Int64Array>())),
        ("unsigned", Arc::new(rows.iter().map(|row| row.0.4).collect::<UInt64Array>())),
        ("float4", Arc::new(rows.iter().map(|row| row.1.0).collect::<Float32Array>())),
        ("float8", Arc::new(rows.iter().map(|row| row.1.1).collect::<Float64Array>())),
        ("numeric", Arc::new(decimals.with_precision_and_scale(38, 10).unwrap())),
        ("date", Arc::new(rows.iter().map(|row| row.1.3).collect::<Date32Array>())),
        ("time", Arc::new(times.clone().with_timezone("+00:00"))),
        ("local", Arc::new(times)),
        ("text", Arc::new(texts)),
        ("bytea", Arc::new(bytes.finish())),
        ("tag", Arc::new(tags.finish())),
    ];
    RecordBatch::try_from_iter_with_nullable(columns.into_iter().map(|(name, array)| (name, array, true)))
        .unwrap()
}

fn written(batches: &[RecordBatch], options: &ParquetOptions) -> Vec<u8> {
    let mut output = ParquetOutput::new(Vec::new(), "x.parquet", &batches[0].schema(), options).unwrap();
    batches.iter().for_each(|rows| output.write(rows).unwrap());
    output.finish().unwrap()
}

fn opened(bytes: &[u8]) -> FileResult<ParquetInput> {
    ParquetInput::open(file_of(bytes), "x.parquet")
}

fn file_of(bytes: &[u8]) -> std::fs::File {
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(bytes).unwrap();
    file.rewind().unwrap();
    file
}

fn read(bytes: &[u8]) -> FileResult<Vec<RecordBatch>> {
    let mut input = opened(bytes)?;
    let mut all = Vec::new();
    while let Some(rows) = input.next_rows()? {
        all.push(rows);
    }
    Ok(all)
}

/// What tells every value from every other one: also the two zeroes.
fn shown(rows: &RecordBatch) -> String {
    let column = |array: &ArrayRef| match array.data_type() {
        DataType::Dictionary(..) => {
            let tags = array.as_dictionary::<Int32Type>().downcast_dict::<StringArray>().unwrap();
            format!("{:?}", tags.into_iter().collect::<Vec<_>>())
        }
        DataType::Utf8 => format!("{:?}", array.as_string::<i32>().iter().collect::<Vec<_>>()),
        DataType::Timestamp(..) => {
            let times = array.as_primitive::<TimestampNanosecondType>();
            format!("{:?}", times.iter().collect::<Vec<_>>())
        }
        DataType::Date32 => format!("{:?}", array.as_primitive::<Date32Type>().iter().collect::<Vec<_>>()),
        DataType::Decimal128(..) => {
            format!("{:?}", array.as_primitive::<Decimal128Type>().iter().collect::<Vec<_>>())
        }
        _ => (0..array.len()).map(|row| format!("{:?}", array.slice(row, 1))).collect(),
    };
    rows.columns().iter().map(column).collect::<Vec<_>>().join("\n")
}

#[test]
fn rows_are_read_as_they_were_written() {
    let mut runner = TestRunner::new(Config { cases: 48, failure_persistence: None, ..Config::default() });
    let compressions = [Compression::Zstd, Compression::Snappy, Compression::Lz4, Compression::None];
    let strategy =
        (prop::collection::vec(row(), 1..60), 1_usize..40, prop::sample::select(compressions.to_vec()));
    let outcome = runner.run(&strategy, |(rows, row_group_rows, compression)| {
        let rows = batch(&rows);
        let options = ParquetOptions { compression, row_group_rows, ..ParquetOptions::default() };
        let half = rows.num_rows() / 2;
        let bytes = written(&[rows.slice(0, half), rows.slice(half, rows.num_rows() - half)], &options);
        let again = read(&bytes).unwrap();
        let again = concat_batches(&again[0].schema(), &again).unwrap();
        prop_assert_eq!(shown(&again), shown(&rows));
        Ok(())
    });
    outcome.unwrap();
}

#[test]
fn a_row_group_ends_when_it_takes_much_memory() {
    let texts: StringArray = (0..2000).map(|number| Some(format!("{number:01000}"))).collect();
    let rows = RecordBatch::try_from_iter([("text", Arc::new(texts) as ArrayRef)]).unwrap();
    let options =
        ParquetOptions { compression: Compression::None, row_group_bytes: 256 << 10, ..Default::default() };
    let mut output = ParquetOutput::new(Vec::new(), "x.parquet", &rows.schema(), &options).unwrap();
    for row in (0..2000).step_by(20) {
        output.write(&rows.slice(row, 20)).unwrap();
        assert!(output.memory_bytes() < 2 << 20, "{}", output.memory_bytes());
    }
    let bytes = output.finish().unwrap();
    let input = opened(&bytes).unwrap();
    assert_eq!(input.rows(), 2000);
    assert_eq!(read(&bytes).unwrap().iter().map(RecordBatch::num_rows).sum::<usize>(), 2000);
}

#[test]
fn what_parquet_cannot_say_is_refused_first() {
    use arrow_schema::{DataType, Field, IntervalUnit, Schema};
    let refused = |fields: Vec<Field>| {
        let output =
            ParquetOutput::new(Vec::new(), "x.parquet", &Schema::new(fields), &ParquetOptions::default());
        let error = output.err().unwrap();
        assert_eq!(error.kind, FileErrorKind::Unsupported);
        error.message
    };
    let interval = Field::new("i", DataType::Interval(IntervalUnit::MonthDayNano), true);
    assert!(refused(vec![interval]).contains("\"i\" is an interval"));
    let twice = vec![Field::new("a", DataType::Int64, true), Field::new("a", DataType::Utf8, true)];
    assert!(refused(twice).contains("two columns are called \"a\""));
}

fn example(compression: Compression) -> Vec<u8> {
    let hosts: StringArray = (0..300).map(|row| Some(format!("host{}", row % 7))).collect();
    let rows = RecordBatch::try_from_iter([
        ("id", Arc::new((0..300).collect::<Int64Array>()) as ArrayRef),
        ("host", Arc::new(hosts)),
        (
            "load",
            Arc::new((0..300).map(|row| (row % 3 > 0).then_some(f64::from(row))).collect::<Float64Array>()),
        ),
    ]);
    let options = ParquetOptions { compression, row_group_rows: 100, ..ParquetOptions::default() };
    written(&[rows.unwrap()], &options)
}

/// Reads all of it, in whatever state it is; memory that it takes is bounded by the layout's checks.
fn survives(bytes: &[u8]) -> FileResult<u64> {
    Ok(read(bytes)?.iter().map(|rows| rows.num_rows() as u64).sum())
}

#[test]
fn a_file_that_was_cut_off_is_an_error() {
    let whole = example(Compression::Zstd);
    assert_eq!(survives(&whole), Ok(300));
    for length in (0..whole.len()).step_by(13) {
        let error = survives(&whole[..length]).unwrap_err();
        assert_eq!(error.kind, FileErrorKind::Corrupt, "{length}: {error}");
        assert!(error.message.starts_with("\"x.parquet\", "), "{error}");
    }
}

#[test]
fn flipped_bits_never_panic_and_name_the_place() {
    for compression in [Compression::None, Compression::Snappy, Compression::Lz4, Compression::Zstd] {
        let whole = example(compression);
        for at in (0..whole.len()).step_by(3) {
            for bit in [0, 6, 7] {
                let mut bytes = whole.clone();
                bytes[at] ^= 1 << bit;
                if let Err(error) = survives(&bytes) {
                    assert!(error.message.contains("x.parquet"), "{error}");
                    assert_ne!(error.kind, FileErrorKind::Io, "{error}");
                }
            }
        }
    }
}

#[test]
fn what_is_no_parquet_file_is_said() {
    let message = |bytes: &[u8]| survives(bytes).unwrap_err().message;
    assert!(message(b"id,host\n1,a\n2,b\n").contains("this is no Parquet file"));
    assert!(message(b"").contains("too short"));
    assert!(message(b"PAR1xxxxxxxxxxxPARE").contains("encrypted"));
    assert!(message(b"PAR1xxxx\xff\xff\xff\x7fPAR1").contains("longer than the file"));
    // A list of 2^31 row groups.
    let footer = [0x49, 0xfc, 0xff, 0xff, 0xff, 0xff, 0x07];
    let hostile = [b"PAR1", &footer[..], &(footer.len() as u32).to_le_bytes(), b"PAR1"].concat();
    assert!(message(&hostile).contains("damaged"));
}

/// A file with this schema and these bytes of row groups, and no rows.
fn with_schema(elements: &[Vec<u8>], row_groups: &[u8]) -> Vec<u8> {
    let mut footer = vec![0x15, 2, 0x19, 0xfc];
    footer.extend(varint(elements.len() as u64));
    footer.extend(elements.concat());
    footer.extend([0x16, 0, 0x19]);
    footer.extend(row_groups);
    footer.push(0);
    [b"PAR1", &footer[..], &(footer.len() as u32).to_le_bytes(), b"PAR1"].concat()
}

fn varint(mut number: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    while number >= 0x80 {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
    bytes
}

/// A group of columns: its name and how many it declares.
fn group(name: &str, children: u64) -> Vec<u8> {
    let length = varint(name.len() as u64);
    [&[0x35, 2, 0x18][..], &length, name.as_bytes(), &[0x15], &varint(children << 1), &[0]].concat()
}

/// A column of 32-bit integers.
fn column(name: &str) -> Vec<u8> {
    [&[0x15, 2, 0x25, 2, 0x18, name.len() as u8][..], name.as_bytes(), &[0]].concat()
}

#[test]
fn a_schema_that_would_take_much_is_refused_before_it_is_built() {
    let none = [0x0c];
    let input = opened(&with_schema(&[group("all", 2), column("a"), column("b")], &none)).unwrap();
    assert_eq!(input.schema().fields().len(), 2);
    let nested = |depth: usize| [vec![group("g", 1); depth], vec![column("a")]].concat();
    assert!(opened(&with_schema(&nested(20), &none)).is_ok());
    let many = |count: u64| [vec![group("all", count)], vec![column("a"); count as usize]].concat();
    let long = [vec![group("all", 1), group(&"x".repeat(1 << 20), 100)], vec![column("a"); 100]].concat();
    let row_groups = [&[0xfc][..], &varint(20_000), &[0; 20_000]].concat();
    let refused = |elements: &[Vec<u8>], row_groups: &[u8], kind: FileErrorKind, words: &str| {
        let error = opened(&with_schema(elements, row_groups)).err().unwrap();
        assert!(error.kind == kind && error.message.contains(words), "{error}, not {words}");
    };
    refused(&nested(40), &none, FileErrorKind::TooLarge, "more than 32 groups in each other");
    refused(&nested(2_000_000), &none, FileErrorKind::TooLarge, "a schema of 2000001 columns");
    refused(&many(20_000), &none, FileErrorKind::TooLarge, "a schema of 20001 columns");
    refused(&many(100), &row_groups, FileErrorKind::TooLarge, "20000 row groups of 100 columns");
    refused(&long, &none, FileErrorKind::TooLarge, "the names of its columns");
    let wide = [group("all", 1), group("g", i32::MAX as u64), column("a")];
    refused(&wide, &none, FileErrorKind::Corrupt, "more columns than there are");
    // Numbers that the crate would cut to 32 bits, and those that are negative.
    for children in [1 << 33, (1 << 34) + 1, 3] {
        let odd = [group("all", 1), [&[0x35, 2, 0x18, 1, b'g', 0x16][..], &varint(children), &[0]].concat()];
        refused(&odd, &none, FileErrorKind::Corrupt, "more columns than there are");
    }
    refused(&[group("all", 2), column("a")], &none, FileErrorKind::Corrupt, "more columns than there are");
    let short = [group("all", 2), group("g", 1), column("a")];
    refused(&short, &none, FileErrorKind::Corrupt, "lacks columns");
    let outside = [group("all", 1), column("a"), column("b")];
    refused(&outside, &none, FileErrorKind::Corrupt, "outside of its groups");
    // What says that it is a text is read as a number of children by the crate, with what is in the text behind it.
    let text = [&[0x35, 2, 0x18, 1, b'g', 0x18, 6][..], b"hidden", &[0]].concat();
    refused(&[text, column("a")], &none, FileErrorKind::Corrupt, "the type of another one");
    // Another schema before the one that is looked at.
    let mut file = with_schema(&[group("all", 1), column("a")], &none);
    file[4] = 0x35;
    assert!(opened(&file).err().unwrap().message.contains("not in order"));
}

/// A file with times of INT96 behind a number, as a day since 4713 BC and its nanoseconds.
fn with_int96(times: &[(u32, u64)]) -> Vec<u8> {
    use parquet::data_type::{Int32Type, Int96, Int96Type};
    let schema = "message m { REQUIRED INT32 id; OPTIONAL INT96 at; }";
    let schema = Arc::new(parquet::schema::parser::parse_message_type(schema).unwrap());
    let mut writer =
        parquet::file::writer::SerializedFileWriter::new(Vec::new(), schema, Default::default()).unwrap();
    let mut group = writer.next_row_group().unwrap();
    let mut ids = group.next_column().unwrap().unwrap();
    ids.typed::<Int32Type>().write_batch(&vec![7; times.len() + 1], None, None).unwrap();
    ids.close().unwrap();
    let mut column = group.next_column().unwrap().unwrap();
    let int96 = |(day, nanoseconds): &(u32, u64)| {
        let mut time = Int96::new();
        time.set_data(*nanoseconds as u32, (*nanoseconds >> 32) as u32, *day);
        time
    };
    let values: Vec<Int96> = times.iter().map(int96).collect();
    // The last one is NULL.
    let levels: Vec<i16> = (0..=times.len()).map(|row| i16::from(row < times.len())).collect();
    column.typed::<Int96Type>().write_batch(&values, Some(&levels), None).unwrap();
    column.close().unwrap();
    group.close().unwrap();
    writer.into_inner().unwrap()
}

#[test]
fn times_of_96_bits_are_exact_or_refused() {
    const EPOCH: u32 = 2_440_588;
    const DAY: u64 = 86_400_000_000_000;
    let ends = [(EPOCH + 106_751, 85_636_854_775_807), (EPOCH - 106_752, 763_145_224_192)];
    let good = [(EPOCH, 1), (EPOCH - 1, DAY - 1), (EPOCH + 20_484, DAY / 2), ends[0], ends[1]];
    let rows = read(&with_int96(&good)).unwrap();
    let times = rows[0].column(1).as_primitive::<TimestampNanosecondType>();
    let found: Vec<Option<i64>> = times.iter().collect();
    let noon = 20_484 * DAY as i64 + DAY as i64 / 2;
    assert_eq!(found, [Some(1), Some(-1), Some(noon), Some(i64::MAX), Some(i64::MIN), None]);
    // A nanosecond later and earlier, the last day that Spark has, and the first.
    let beyond = [(ends[0].0, ends[0].1 + 1), (ends[1].0, ends[1].1 - 1)];
    for time in [beyond[0], beyond[1], (5_373_484, 0), (1_721_426, 0), (0, 0), (u32::MAX, DAY - 1)] {
        let error = read(&with_int96(&[good[0], time])).unwrap_err();
        assert_eq!(error.kind, FileErrorKind::Unsupported, "{time:?}: {error}");
        assert!(error.message.contains("column \"at\": a time is not between"), "{error}");
    }
}

#[test]
fn long_values_of_many_columns_are_refused_together() {
    let long = "x".repeat(3 << 19);
    // In dictionaries, in pages, and short ones behind a long one: there is room for a few rows at once then.
    for rows in [vec![&*long], vec![&*long, "y"], [vec![&*long], vec!["y"; 5000]].concat()] {
        let column: ArrayRef = Arc::new(StringArray::from(rows.clone()));
        let file = |columns: usize| {
            let named = (0..columns).map(|number| (format!("c{number}"), column.clone()));
            written(&[RecordBatch::try_from_iter(named).unwrap()], &ParquetOptions::default())
        };
        let read_within = |bytes: &[u8]| {
            let mut input = ParquetInput::open_within(file_of(bytes), "x.parquet", 4 << 20).unwrap();
            let mut count = 0;
            while let Some(rows) = input.next_rows()? {
                count += rows.num_rows();
            }
            FileResult::Ok(count)
        };
        assert!(file(1).len() < 1 << 16, "a small file says it");
        assert_eq!(read_within(&file(1)), Ok(rows.len()));
        let error = read_within(&file(2)).unwrap_err();
        assert_eq!(error.kind, FileErrorKind::TooLarge, "{error}");
        assert!(error.message.contains("its dictionaries, pages and longest values take"), "{error}");
        assert_eq!(survives(&file(2)), Ok(rows.len() as u64));
    }
}

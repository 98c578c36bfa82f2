//! Values as a real PostgreSQL 15 prints, sends and reads them (`testdata/postgres`; `record` there writes its answers).

use arrow_schema::DataType;
use nyala_exec::Zone;
use nyala_postgres::error::Failure;
use nyala_postgres::value::types::ColumnType;
use nyala_postgres::value::{Column, Format, PgType, parameter};
use nyala_sql::ScalarValue;
use std::path::Path;

fn lines(name: &str) -> Vec<Vec<String>> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/postgres").join(name);
    let text = std::fs::read_to_string(path).expect("a file with answers");
    text.lines().map(|line| line.split('\t').map(str::to_owned).collect()).collect()
}

fn type_of(name: &str) -> ColumnType {
    let (element, is_array) = name.strip_suffix("[]").map_or((name, false), |element| (element, true));
    ColumnType { of: PgType::of_name(element).expect("a known type"), is_array, digits: None, length: None }
}

fn written(value: &ScalarValue, column: ColumnType, format: Format) -> Result<Vec<u8>, Failure> {
    let array = value.to_array_of_size(1).expect("an array");
    let mut out = Vec::new();
    Column::of(&array, column, format)?.write(0, &mut out)?;
    let (length, bytes) = out.split_first_chunk::<4>().expect("a length");
    assert_eq!(u32::from_be_bytes(*length) as usize, bytes.len());
    Ok(bytes.to_vec())
}

fn bytes_of(hexadecimal: &str) -> Vec<u8> {
    let digits = hexadecimal.as_bytes().chunks(2);
    digits.map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap()).collect()
}

/// What a value of a type becomes, with as many digits as a `numeric` shows.
fn wanted(column: ColumnType, text: &str) -> DataType {
    match column.of {
        PgType::Numeric => {
            let scale = text.split_once('.').map_or(0, |(_, fraction)| fraction.len());
            DataType::Decimal128(38, scale as i8)
        }
        _ => column.values(),
    }
}

#[test]
fn values_are_printed_and_sent_as_by_postgresql() {
    let mut wrong = Vec::new();
    for line in lines("values.txt") {
        let [name, text, hexadecimal] = &line[..] else { panic!("{line:?}") };
        let (column, bytes) = (type_of(name), bytes_of(hexadecimal));
        let wanted = wanted(column, text);
        let shown = match (name.as_str(), text.as_str()) {
            // The protocol has a letter where a cast to text has a word.
            ("bool", word) => &word[..1],
            (_, text) => text,
        };
        let read = match parameter::read(Some(&bytes), Format::Binary, column, &wanted, Zone::UTC) {
            Ok(read) => read,
            Err(failure) => {
                wrong.push(format!("{name} {text}: {failure:?}"));
                continue;
            }
        };
        let printed = written(&read, column, Format::Text).map(|text| String::from_utf8(text).unwrap());
        if printed.as_deref() != Ok(shown) {
            wrong.push(format!("{name} {text}: printed as {printed:?}"));
        }
        // Minus zero, and a NaN of other bits, are not told apart by text alone.
        let sent = written(&read, column, Format::Binary);
        if sent.as_ref() != Ok(&bytes) {
            wrong.push(format!("{name} {text}: sent as {sent:?} instead of {bytes:?}"));
        }
        let read_text = parameter::read(Some(shown.as_bytes()), Format::Text, column, &wanted, Zone::UTC);
        let again = read_text.and_then(|value| written(&value, column, Format::Binary));
        if again.as_ref() != Ok(&bytes) {
            wrong.push(format!("{name} {text}: read from text as {again:?} instead of {bytes:?}"));
        }
    }
    assert!(wrong.is_empty(), "{}\n{} wrong", wrong.join("\n"), wrong.len());
}

#[test]
fn texts_of_parameters_are_read_as_by_postgresql() {
    let mut wrong = Vec::new();
    for line in lines("parameters.txt") {
        let [name, sent, printed] = &line[..] else { panic!("{line:?}") };
        let column = type_of(name);
        let wanted = if column.of == PgType::Numeric { DataType::Utf8 } else { column.values() };
        let read = parameter::read(Some(sent.as_bytes()), Format::Text, column, &wanted, Zone::UTC);
        let ours = match read.and_then(|value| written(&value, column, Format::Text)) {
            Ok(bytes) => String::from_utf8(bytes).unwrap(),
            Err(failure) => failure.code.to_owned(),
        };
        let theirs = match (name.as_str(), printed.as_str()) {
            ("bool", "true") => "t",
            ("bool", "false") => "f",
            (_, text) => text,
        };
        // C's hexadecimal numbers, which no driver sends.
        let is_left_out = name.starts_with("float") && sent.starts_with("0x");
        if ours != theirs && !is_left_out {
            wrong.push(format!("{name} {sent:?}: {ours} instead of {theirs}"));
        }
    }
    assert!(wrong.is_empty(), "{}\n{} wrong", wrong.join("\n"), wrong.len());
}

/// As psycopg sends a list of `Decimal`, for `price = ANY($1)`.
#[test]
fn numbers_of_an_array_keep_their_digits() {
    let (column, wanted) = (type_of("numeric[]"), DataType::new_list(DataType::Decimal128(10, 3), true));
    // {1.25,-3,NULL}
    let header = bytes_of("0000000100000001000006a40000000300000001");
    let (first, second) =
        (bytes_of("0000000c0002000000000002000109c4"), bytes_of("0000000a00010000400000000003"));
    let binary = [header, first, second, bytes_of("ffffffff")].concat();
    for (sent, format) in [(&b"{1.25,-3,NULL}"[..], Format::Text), (&binary[..], Format::Binary)] {
        let read = parameter::read(Some(sent), format, column, &wanted, Zone::UTC);
        let printed = read.and_then(|value| written(&value, column, Format::Text));
        assert_eq!(
            printed.map(|text| String::from_utf8(text).unwrap()),
            Ok("{1.250,-3.000,NULL}".to_owned())
        );
    }
    let far = parameter::read(Some(b"{1e37,0.001}"), Format::Text, column, &wanted, Zone::UTC);
    assert_eq!(far.unwrap_err().code, "22003", "no type has the digits of both");
}

#[test]
fn what_postgresql_has_no_value_for_is_refused() {
    let read = |name: &str, bytes: &[u8], format| {
        let column = type_of(name);
        let read = parameter::read(Some(bytes), format, column, &wanted(column, ""), Zone::UTC)?;
        written(&read, column, Format::Text).map(|text| String::from_utf8(text).unwrap())
    };
    for us in [-1, 86_400_000_001, i64::MIN, i64::MAX] {
        assert_eq!(read("time", &us.to_be_bytes(), Format::Binary).unwrap_err().code, "22008", "{us}");
    }
    // One day before the first, one after the last, and what would be infinity when it is counted from 1970.
    for days in [-2_451_546, 2_145_031_949, i32::MAX - 10_957, i32::MIN + 1] {
        assert_eq!(read("date", &days.to_be_bytes(), Format::Binary).unwrap_err().code, "22008", "{days}");
    }
    for (days, shown) in [(-2_451_545, "4714-11-24 BC"), (2_145_031_948, "5874897-12-31")] {
        assert_eq!(read("date", &i32::to_be_bytes(days), Format::Binary).as_deref(), Ok(shown));
        assert_eq!(read("date", shown.as_bytes(), Format::Text).as_deref(), Ok(shown));
    }
    assert_eq!(read("date", b"5874898-01-01", Format::Text).unwrap_err().code, "22008");
    let normal = "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11";
    for text in [normal, "{A0EEBC999C0B-4EF8-BB6D6BB9BD380A11}", "a0ee-bc99-9c0b-4ef8-bb6d-6bb9-bd38-0a11"] {
        assert_eq!(read("uuid", text.as_bytes(), Format::Text).as_deref(), Ok(normal), "{text}");
    }
    for text in
        [" a0eebc999c0b4ef8bb6d6bb9bd380a11", "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11-", &"+a".repeat(16)]
    {
        assert_eq!(read("uuid", text.as_bytes(), Format::Text).unwrap_err().code, "22P02", "{text}");
    }
    assert_eq!(read("text[]", b"{NULL,\\NULL}", Format::Text).as_deref(), Ok("{NULL,\"NULL\"}"));
}

/// A division in PostgreSQL gives a number more zeros than a number has digits here.
#[test]
fn zeros_that_a_number_only_shows_are_no_reason_to_refuse_it() {
    let (column, wanted) = (type_of("numeric"), DataType::Decimal128(38, 2));
    // 12345678, of which 50 digits behind the point are shown.
    let bytes = bytes_of("000200010000003204d2162e");
    let read = parameter::read(Some(&bytes), Format::Binary, column, &wanted, Zone::UTC);
    assert_eq!(read, Ok(ScalarValue::Decimal128(Some(1_234_567_800), 38, 2)));
}

/// An offset must have digits, and too many of them are no zone (`ParseDateTime`, `DecodeTimezone` of PostgreSQL).
#[test]
fn offsets_without_digits_or_with_too_many_are_refused() {
    for (offset, answer) in [
        ("+", Err("22007")),
        ("-x", Err("22007")),
        ("+99999999999999999999", Err("22009")),
        ("+01:99999999999999999999", Err("22009")),
        ("+16", Err("22009")),
        ("+130", Ok("2023-12-31 22:30:00+00")),
        ("+0130", Ok("2023-12-31 22:30:00+00")),
        ("+01:", Ok("2023-12-31 23:00:00+00")),
    ] {
        let (column, text) = (type_of("timestamptz"), format!("2024-01-01 00:00:00{offset}"));
        let read = parameter::read(Some(text.as_bytes()), Format::Text, column, &column.values(), Zone::UTC);
        let shown = read.and_then(|value| written(&value, column, Format::Text));
        let shown = shown.map(|bytes| String::from_utf8(bytes).unwrap()).map_err(|failure| failure.code);
        assert_eq!(shown, answer.map(str::to_owned), "{text}");
    }
}

//! What a client of PostgreSQL sends, past the connection: its first message, messages, proofs of its password, values of
//! parameters, and rows of COPY.

use arrow_array::{Array, StringArray};
use nyala_db::users::ScramVerifier;
use nyala_exec::Zone;
use nyala_postgres::authentication::scram::{Exchange, NONCE_BYTES};
use nyala_postgres::copy::{ArbitraryRow, CopyWriter, split_arbitrary};
use nyala_postgres::message::{Frontend, Startup, startup};
use nyala_postgres::value::types::ColumnType;
use nyala_postgres::value::{Column, Format, PgType, parameter};
use nyala_sql::{CopyForm, CopyKind};

/// What a PostgreSQL stored for a password.
const VERIFIER: &str = "SCRAM-SHA-256$4096:5qOoq0vt6+Fg/AT3HqmDsQ==$HR6Hh5ba5teeVU1yme7rtCk6iCvecBpiCLDkMgrYIzw=:L5OGH/iaD/s8Mfrg6tZIjoYalS9PafnssFFEQi9qCQA=";
/// The types of values that are written as they were read.
const TYPES: [PgType; 18] = [
    PgType::Bool,
    PgType::Int2,
    PgType::Int4,
    PgType::Int8,
    PgType::Oid,
    PgType::Float4,
    PgType::Float8,
    PgType::Numeric,
    PgType::Text,
    PgType::Varchar,
    PgType::Json,
    PgType::Jsonb,
    PgType::Bytea,
    PgType::Date,
    PgType::Time,
    PgType::Timestamp,
    PgType::Timestamptz,
    PgType::Interval,
];

/// Reads bytes, of which the first says as what.
///
/// # Panics
/// What must hold does not.
pub fn run(bytes: &[u8]) {
    let Some((kind, bytes)) = bytes.split_first() else { return };
    match kind % 5 {
        0 => run_startup(bytes),
        1 => run_message(bytes),
        2 => run_scram(&String::from_utf8_lossy(bytes)),
        3 => run_parameter(bytes),
        _ => run_rows(bytes),
    }
}

fn run_startup(bytes: &[u8]) {
    let _ = Startup::read(bytes.to_vec().into());
    let _ = startup::settings_of(&String::from_utf8_lossy(bytes));
}

/// A message has no more parts than bytes.
fn run_message(bytes: &[u8]) {
    let Some((letter, body)) = bytes.split_first() else { return };
    match Frontend::read(*letter, body.to_vec().into()) {
        Ok(Frontend::Parse { types, .. }) => assert!(types.len() <= body.len()),
        Ok(Frontend::Bind(bind)) => assert!(bind.parameters.len() <= body.len()),
        _ => {}
    }
}

/// Two messages, each in a line. Nobody guesses the password.
fn run_scram(text: &str) {
    let _ = ScramVerifier::read(text);
    let (first, second) = text.split_once('\n').unwrap_or((text, ""));
    let verifier = ScramVerifier::read(VERIFIER).expect("it is one");
    if let Ok((exchange, answer)) = Exchange::begin(first, verifier, [7; NONCE_BYTES]) {
        assert!(answer.ends_with(",i=4096"));
        assert!(!matches!(exchange.finish(second), Ok(Some(_))));
    }
}

/// The first byte chooses a type and a format. A binary value is written as it is read.
fn run_parameter(bytes: &[u8]) {
    let Some((kind, bytes)) = bytes.split_first() else { return };
    let (of, is_array) = (TYPES[usize::from(kind >> 2) % TYPES.len()], kind & 1 == 1);
    let column = ColumnType { of, is_array, digits: None, length: None };
    let wanted = column.values();
    let read = |bytes: &[u8], format| parameter::read(Some(bytes), format, column, &wanted, Zone::UTC);
    if kind & 2 == 0 {
        let _ = read(bytes, Format::Text);
        return;
    }
    let Ok(value) = read(bytes, Format::Binary) else { return };
    let array = value.to_array_of_size(1).expect("a value is an array of one");
    let mut written = Vec::new();
    let column = Column::of(&array, column, Format::Binary);
    if column.and_then(|column| column.write(0, &mut written)).is_err() {
        return;
    }
    // Its length comes first.
    assert_eq!(read(&written[4..], Format::Binary).ok(), Some(value));
}

/// The first bytes choose a form, how many columns there are, and how the bytes come. Rows do not depend on that, and are read as
/// they are written.
fn run_rows(bytes: &[u8]) {
    let Some(([kind, columns, piece_bytes], bytes)) = bytes.split_first_chunk::<3>() else { return };
    let columns = usize::from(columns % 4) + 1;
    let form = match kind % 3 {
        0 => CopyForm {
            kind: CopyKind::Text,
            delimiter: b"\t,|"[usize::from(kind >> 4) % 3],
            null: "\\N".to_owned(),
            ..CopyForm::default()
        },
        1 => CopyForm {
            kind: CopyKind::Csv,
            delimiter: b",;\t"[usize::from(kind >> 4) % 3],
            quote: b'"',
            escape: if kind >> 7 == 0 { b'"' } else { b'\\' },
            ..CopyForm::default()
        },
        _ => CopyForm { kind: CopyKind::Binary, ..CopyForm::default() },
    };
    let form = CopyForm { force_quote: vec![false; columns], ..form };
    let whole = split_arbitrary(&form, columns, bytes.len(), bytes);
    assert_eq!(split_arbitrary(&form, columns, usize::from(*piece_bytes), bytes), whole);
    if form.kind == CopyKind::Binary {
        return;
    }
    let rows: Vec<ArbitraryRow> = whole.0.into_iter().filter(|row| row.len() == columns).collect();
    let written = written(&form, columns, &rows);
    assert_eq!(split_arbitrary(&form, columns, 3, &written), (rows, None));
}

/// Rows of texts as COPY writes them.
fn written(form: &CopyForm, columns: usize, rows: &[ArbitraryRow]) -> Vec<u8> {
    let text = ColumnType { of: PgType::Text, is_array: false, digits: None, length: None };
    let of_column = |number: usize| {
        let value =
            |row: &ArbitraryRow| row[number].clone().map(|own| String::from_utf8(own).expect("a text"));
        let values: StringArray = rows.iter().map(value).collect();
        Column::of(&values as &dyn Array, text, Format::Text).expect("texts have a form")
    };
    let of_rows: Vec<Column> = (0..columns).map(of_column).collect();
    let (mut writer, mut out) = (CopyWriter::of(form.clone()), Vec::new());
    for row in 0..rows.len() {
        writer.row(&of_rows, row, &mut out).expect("texts have a form");
    }
    out
}

/// Inputs to begin with.
#[must_use]
pub fn seeds() -> Vec<Vec<u8>> {
    let startup = b"\0\0\x03\0\0user\0me\0options\0-c a=b --c=d\\ e\0\0";
    let bind = b"\x01B\0s\0\0\x01\0\x01\0\x01\0\0\0\x01x\0\0";
    let nonce = "BwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcH";
    let proof = "dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=";
    let scram = format!("\x02n,,n=me,r=abc\nc=biws,r=abc{},p={proof}", &nonce[..24]);
    let mut all = vec![startup.to_vec(), bind.to_vec(), scram.into_bytes()];
    for (place, text) in ["t", "-1", "{1,NULL}", "1.5e3", "\\x00ff", "2024-01-01 12:00:00.5+02", "1 day 2:03"]
        .iter()
        .enumerate()
    {
        all.extend((0..TYPES.len()).filter(|of| (of + place) % 3 == 0).flat_map(|of| {
            let kind = (of << 2) as u8;
            [kind, kind | 1].map(|kind| [&[3, kind][..], text.as_bytes()].concat())
        }));
    }
    for of in 0..TYPES.len() as u8 {
        for length in [1, 2, 4, 8, 16] {
            all.push([&[3, of << 2 | 2][..], &vec![0; length]].concat());
        }
        let oid = TYPES[usize::from(of)].oid().to_be_bytes();
        let array =
            [&[0, 0, 0, 1, 0, 0, 0, 1][..], &oid, &[0, 0, 0, 1, 0, 0, 0, 1, 255, 255, 255, 255]].concat();
        all.push([&[3, of << 2 | 3][..], &array].concat());
    }
    let binary =
        b"\x04\x02\x00\x05PGCOPY\n\xff\r\n\0\0\0\0\0\0\0\0\0\0\x01\0\0\0\x01a\0\x01\xff\xff\xff\xff\xff\xff";
    all.extend([
        b"\x04\x00\x01\x05a\tb\n\\N\t\\x41\\101\\\\\n\\.\n".to_vec(),
        b"\x04\x01\x01\x03a,\"b\"\"\nc\"\r\n,\"\"\r\n\\.\r\n".to_vec(),
        binary.to_vec(),
    ]);
    all
}

/// Conversations to begin with: messages of `postgres::Peer::converse`.
#[must_use]
pub fn conversations() -> Vec<Vec<u8>> {
    let message =
        |letter: u8, body: &[u8]| [&[letter][..], &(body.len() as u16).to_be_bytes(), body].concat();
    let query = |text: &str| message(b'Q', text.as_bytes());
    vec![
        query("SELECT a, b FROM t WHERE a = 2; SELECT 1/0"),
        [
            query("BEGIN"),
            query("DECLARE c CURSOR FOR SELECT a FROM t"),
            query("FETCH 2 FROM c"),
            query("COMMIT"),
        ]
        .concat(),
        [query("COPY t FROM STDIN"), message(b'd', b"8\teight\n9\t\\N\n"), message(b'c', b"")].concat(),
        [query("COPY t FROM STDIN (FORMAT csv)"), message(b'd', b"8,\"eight\"\n"), message(b'c', b"")]
            .concat(),
        [
            query("COPY t FROM STDIN (FORMAT binary)"),
            message(
                b'd',
                b"PGCOPY\n\xff\r\n\0\0\0\0\0\0\0\0\0\0\x02\0\0\0\x04\0\0\0\x08\xff\xff\xff\xff\xff\xff",
            ),
            message(b'c', b""),
        ]
        .concat(),
        [
            message(b'P', b"s\0SELECT a FROM t WHERE a = $1\0\0\x01\0\0\0\x17"),
            message(b'B', b"\0s\0\0\x01\0\x01\0\x01\0\0\0\x04\0\0\0\x02\0\0"),
            message(b'D', b"P\0"),
            message(b'E', b"\0\0\0\0\0"),
            message(b'S', b""),
        ]
        .concat(),
    ]
}

//! What the program reads of requests, settings and files.
//!
//! The program has no library: its modules are compiled with the targets, in modules of the same names, so that they find each other.

/// Reads a request without its body: the first byte says what of it.
///
/// # Panics
/// What must hold does not.
pub fn run_request(bytes: &[u8]) {
    let Some((kind, bytes)) = bytes.split_first() else { return };
    match kind % 6 {
        0 => http::run_parameters(&String::from_utf8_lossy(bytes)),
        1 => http::run_form(bytes),
        2 => http::access::run(bytes),
        3 => http::v2::run(bytes),
        4 => http::prometheus::run_write(bytes),
        _ => http::prometheus::run_read(bytes),
    }
}

/// Decompresses a body: by gzip if the first byte is even, else by zstd.
///
/// # Panics
/// What must hold does not.
pub fn run_body(bytes: &[u8]) {
    http::body::run(bytes);
}

/// Reads a body of Arrow IPC.
///
/// # Panics
/// Rows that were taken are not valid.
#[cfg(feature = "postgres")]
pub fn run_arrow(bytes: &[u8]) {
    crate::contain_panics();
    http::sql::run(bytes);
}

/// Reads what an operator gives: the first byte says what of it.
///
/// # Panics
/// What must hold does not.
pub fn run_file(bytes: &[u8]) {
    let Some((kind, bytes)) = bytes.split_first() else { return };
    match kind % 4 {
        0 => run_settings(&String::from_utf8_lossy(bytes)),
        1 => run_certificate(bytes),
        2 => files::run_csv(bytes),
        _ => files::run_journal(bytes),
    }
}

#[path = "../../crates/nyala/src/config/value.rs"]
mod value;

/// Values of settings are read as they are printed.
fn run_settings(text: &str) {
    fn check<T: std::str::FromStr + std::fmt::Display + PartialEq>(text: &str) {
        if let Ok(value) = text.parse::<T>() {
            let printed = value.to_string();
            assert!(printed.parse::<T>().is_ok_and(|again| again == value), "{text:?}: {printed}");
        }
    }
    check::<value::ByteSize>(text);
    check::<value::Time>(text);
    check::<value::WalSync>(text);
    check::<value::Ratio>(text);
    check::<value::BindAddress>(text);
    check::<value::OptionalBind>(text);
    check::<value::LogLevel>(text);
}

#[path = "../../crates/nyala/src/server/certificate.rs"]
mod certificate;

fn run_certificate(der: &[u8]) {
    let _ = certificate::not_after(der);
}

#[path = "../../crates/nyala/src/cli/files"]
mod files {
    mod csv;
    mod journal;

    use csv::Records;
    use journal::Journal;

    /// Records are the same however their bytes come, and nothing of them is lost.
    pub(super) fn run_csv(bytes: &[u8]) {
        let Some((piece_bytes, text)) = bytes.split_first() else { return };
        let records = |piece_bytes: usize| {
            let (mut records, mut found) = (Records::default(), Vec::new());
            for piece in text.chunks(piece_bytes).chain([&b""[..]]) {
                records.push(piece);
                while let Some(record) = records.next(piece.is_empty()) {
                    let _ = record.names();
                    found.push(record.text.to_vec());
                }
                let _ = records.check();
            }
            found
        };
        let whole = records(text.len().max(1));
        assert_eq!(records(usize::from(*piece_bytes).max(1)), whole);
        assert_eq!(whole.concat(), text);
    }

    /// The lines of a journal are there again, with one that is added.
    pub(super) fn run_journal(bytes: &[u8]) {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("journal");
        std::fs::write(&path, bytes).expect("written");
        let open = || Journal::<u64>::open(&path, &String::new());
        let Ok((mut journal, mut lines)) = open() else {
            assert_eq!(std::fs::read(&path).expect("it is there"), bytes, "what is no journal stays");
            return;
        };
        journal.add(&7).expect("written");
        lines.push(7);
        drop(journal);
        assert_eq!(open().expect("it is a journal").1, lines);
    }
}

#[path = "../../crates/nyala/src/server/http"]
mod http {
    mod buffer_pool;
    mod multipart;
    mod params;

    use params::Params;

    /// What is decoded is what another decoder makes of it.
    pub(super) fn run_parameters(text: &str) {
        let _ = Params::parse(text).take("q");
        let value = text.replace('&', "");
        let decoded = params::percent_decoded(&value.replace('+', " ")).unwrap_or_default().into_owned();
        assert_eq!(Params::parse(&format!("q={value}")).get("q"), decoded);
    }

    /// The first line is the type of the form.
    pub(super) fn run_form(bytes: &[u8]) {
        let end = bytes.iter().position(|byte| *byte == b'\n').unwrap_or(bytes.len());
        let (content_type, body) = bytes.split_at(end);
        let content_type = String::from_utf8_lossy(content_type);
        let mut params = Params::default();
        if let Some(boundary) = multipart::boundary(&content_type) {
            multipart::read(body, boundary, &mut params);
        }
        // A byte that is no text is shown by a letter of three.
        assert!(params.take("q").len() <= 3 * body.len());
    }

    pub(super) mod access {
        mod jwt;

        use base64ct::{Base64UrlUnpadded, Encoding};
        use ring::hmac;
        use jwt::SharedSecret;

        const SECRET: &str = "a secret that nobody can guess, as it is long";

        /// Nothing is valid that was not signed, and what was signed by the issuer names a user.
        pub fn run(bytes: &[u8]) {
            let secret: SharedSecret = SECRET.parse().expect("any text is one");
            assert!(secret.user_of(&String::from_utf8_lossy(bytes), 0).is_err());
            let encoded = |text: &[u8]| Base64UrlUnpadded::encode_string(text);
            let signed = format!("{}.{}", encoded(br#"{"alg":"HS256"}"#), encoded(bytes));
            let key = hmac::Key::new(hmac::HMAC_SHA256, SECRET.as_bytes());
            let signature = encoded(hmac::sign(&key, signed.as_bytes()).as_ref());
            if let Ok(user) = secret.user_of(&format!("{signed}.{signature}"), 0) {
                assert!(!user.is_empty());
            }
        }
    }

    pub(super) mod body {
        mod buffer;
        mod decompress;
        mod inflate;

        pub(super) use buffer::{BodyCharge, Buffer};

        use super::buffer_pool::BufferPool;
        use nyala_core::memory::MemoryBudget;
        use std::io::Read;

        /// The longest body.
        const LIMIT_BYTES: usize = 1 << 20;
        /// What the server may have.
        const MEMORY_BYTES: u64 = 64 << 20;

        /// What is decompressed is within its bounds and charged, and is what another decompressor makes of it.
        pub fn run(bytes: &[u8]) {
            let Some((kind, packed)) = bytes.split_first() else { return };
            let is_gzip = kind % 2 == 0;
            let memory = MemoryBudget::new(MEMORY_BYTES);
            let mut charge = BodyCharge::of(&memory);
            let mut into = Buffer::take(&BufferPool::for_bodies(&memory), &mut charge);
            let unpacked = match is_gzip {
                true => decompress::gzip(packed, &mut into, LIMIT_BYTES, &mut charge),
                false => decompress::zstd(packed, &mut into, LIMIT_BYTES, &mut charge),
            };
            assert!(into.bytes.capacity() as u64 <= memory.total_bytes(), "all of the buffer is charged");
            if unpacked.is_err() {
                return;
            }
            assert!(into.bytes.len() <= LIMIT_BYTES);
            let mut other = Vec::new();
            let read = match is_gzip {
                true => flate2::read::MultiGzDecoder::new(packed).read_to_end(&mut other),
                false => zstd::Decoder::new(packed).and_then(|mut input| input.read_to_end(&mut other)),
            };
            // The others read less: no empty bodies.
            if read.is_ok() {
                assert!(other == into.bytes);
            }
        }
    }

    pub(super) mod prometheus {
        mod lines;
        mod selection;

        use super::body::BodyCharge;
        use lines::{Lines, decompressed};
        use nyala_core::memory::MemoryBudget;
        use nyala_exec::QueryMemory;
        use selection::Selection;

        const LIMIT_BYTES: usize = 1 << 20;
        const MEMORY_BYTES: u64 = 64 << 20;

        /// As it is, and compressed: nobody guesses that.
        fn requests(bytes: &[u8]) -> [Vec<u8>; 2] {
            let packed = snap::raw::Encoder::new().compress_vec(bytes).expect("it is short");
            [bytes.to_vec(), packed]
        }

        /// Lines are whole, and charged.
        pub fn run_write(bytes: &[u8]) {
            for request in requests(bytes) {
                let memory = MemoryBudget::new(MEMORY_BYTES);
                let mut charge = BodyCharge::of(&memory);
                let has_own_table = |name: &str| name.len() % 2 == 0;
                let Ok(lines) = Lines::of(&request, LIMIT_BYTES, has_own_table, &mut charge) else {
                    continue;
                };
                assert!(lines.len() as u64 <= memory.total_bytes());
                for text in [&lines.of_group, &lines.of_tables] {
                    assert!(text.is_empty() || text.ends_with('\n'));
                    assert!(text.lines().all(|line| line.contains(" value=")), "{text}");
                }
            }
        }

        pub fn run_read(bytes: &[u8]) {
            for request in requests(bytes) {
                let memory = MemoryBudget::new(MEMORY_BYTES);
                let mut charge = BodyCharge::of(&memory);
                let Ok(message) = decompressed(&request, LIMIT_BYTES, &mut charge) else { continue };
                if let Ok(selection) = Selection::of(&message, &QueryMemory::new(16 << 20, &memory)) {
                    let _ = selection.names.iter().all(|name| name.matches("up"));
                }
            }
        }
    }

    #[cfg(feature = "postgres")]
    pub(super) mod sql {
        mod arrow_stream;

        use arrow_array::Array;
        use arrow_stream::ArrowStream;

        pub fn run(bytes: &[u8]) {
            let Ok(mut stream) = ArrowStream::of(bytes) else { return };
            while let Ok(Some(rows)) = stream.next() {
                for column in rows.columns() {
                    column.to_data().validate_full().expect("rows that were taken are valid");
                }
            }
        }
    }

    pub(super) mod v2 {
        mod deletion;

        use deletion::{DeleteRequest, deletion};

        pub fn run(bytes: &[u8]) {
            if let Ok(request) = serde_json::from_slice::<DeleteRequest>(bytes) {
                let _ = deletion(&request, "autogen".to_owned());
            }
        }
    }
}

/// Inputs to begin with.
#[must_use]
pub fn request_seeds() -> Vec<Vec<u8>> {
    let form = b"multipart/form-data; boundary=\"x\"\n--x\r\nContent-Disposition: form-data; name=\"q\"\r\n\r\nSELECT\r\n--x--";
    let token = br#"{"username":"u","exp":1e10,"nbf":0,"aud":[]}"#;
    let deletion = br#"{"start":"2026-01-01T00:00:00Z","stop":"2026-01-02T00:00:00.5Z","predicate":"_measurement=\"m\" AND (a='b')"}"#;
    let label = b"\x0a\x0e\x0a\x08__name__\x12\x02up";
    let sample = b"\x12\x0b\x09\0\0\0\0\0\0\xf8\x3f\x10\x01";
    let write = [&b"\x0a\x1d"[..], label, sample].concat();
    let matcher = b"\x1a\x10\x08\x02\x12\x08__name__\x1a\x02u.";
    let read = [&b"\x0a\x16\x08\x01\x10\x02"[..], matcher].concat();
    [
        (0, &b"db=d&q=SELECT+%2A+FROM%20m%3Bx&epoch=%zz"[..]),
        (1, &form[..]),
        (2, &token[..]),
        (3, &deletion[..]),
        (4, &write[..]),
        (5, &read[..]),
    ]
    .into_iter()
    .map(|(kind, bytes)| [&[kind][..], bytes].concat())
    .collect()
}

/// Inputs to begin with.
#[must_use]
pub fn body_seeds() -> Vec<Vec<u8>> {
    use std::io::Write;
    let text = b"m,host=a v=1 1\n".repeat(20);
    let mut gzip = flate2::write::GzEncoder::new(vec![0], flate2::Compression::default());
    gzip.write_all(&text).expect("in memory");
    let zstd = zstd::bulk::compress(&text, 1).expect("in memory");
    vec![gzip.finish().expect("in memory"), [&[1][..], &zstd].concat()]
}

/// Inputs to begin with.
#[must_use]
pub fn file_seeds() -> Vec<Vec<u8>> {
    let time = b"\x17\x0d261126104500Z";
    let validity = [&b"\x30\x1e"[..], time, time].concat();
    let signed = [&b"\x30\x27\x02\x01\x05\x30\0\x30\0"[..], &validity].concat();
    let certificate = [&b"\x30\x29"[..], &signed].concat();
    let settings = ["512MiB", "1h30m", "interval:500ms", "0.1", "localhost:8086", "none", "nyala=debug,info"];
    let settings = settings.iter().map(|text| (0, text.as_bytes()));
    let (csv, journal) = (b"\x03a,\"b\"\"\nc\"\r\n1,2", b"\"\"\n1\n23\n4");
    let others = [(1, &certificate[..]), (2, &csv[..]), (3, &journal[..])];
    settings.chain(others).map(|(kind, bytes)| [&[kind][..], bytes].concat()).collect()
}

/// Inputs to begin with.
///
/// # Panics
/// They cannot be written.
#[cfg(feature = "postgres")]
#[must_use]
pub fn arrow_seeds() -> Vec<Vec<u8>> {
    use arrow_array::types::Int32Type;
    use arrow_array::{ArrayRef, DictionaryArray, Int64Array, RecordBatch, StringArray};
    use std::sync::Arc;
    let numbers: ArrayRef = Arc::new(Int64Array::from(vec![Some(1), None]));
    let texts: ArrayRef = Arc::new(StringArray::from(vec!["a", ""]));
    let tags: ArrayRef = Arc::new(["x", "x"].into_iter().collect::<DictionaryArray<Int32Type>>());
    let rows =
        RecordBatch::try_from_iter([("a", numbers), ("b", texts), ("c", tags)]).expect("they are rows");
    let mut writer = arrow_ipc::writer::StreamWriter::try_new(Vec::new(), &rows.schema()).expect("in memory");
    writer.write(&rows).expect("in memory");
    vec![writer.into_inner().expect("in memory")]
}

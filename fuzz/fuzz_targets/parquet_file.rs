//! Any bytes are read as a Parquet file. What can be read has as many rows as it declares.
#![no_main]

use libfuzzer_sys::fuzz_target;
use nyala_files::parquet::ParquetInput;
use std::io::{Seek, Write};

fuzz_target!(|bytes: &[u8]| {
    nyala_fuzz::contain_panics();
    let mut file = tempfile::tempfile().expect("a file");
    file.write_all(bytes).and_then(|()| file.rewind()).expect("written");
    let Ok(mut input) = ParquetInput::open(file, "x.parquet") else { return };
    let declared = input.rows();
    let mut rows = 0;
    loop {
        match input.next_rows() {
            Ok(Some(batch)) => rows += batch.num_rows() as u64,
            Ok(None) => break,
            Err(_) => return,
        }
    }
    assert_eq!(rows, declared);
});

//! Any path is read as folders named by values, and values are read as they were written.
#![no_main]

use libfuzzer_sys::fuzz_target;
use nyala_files::partition::{folder, values_of};

fuzz_target!(|names: (&str, &str, Option<&str>)| {
    let (path, name, value) = names;
    let _ = values_of(path);
    if let Ok(written) = folder([(name, value)].into_iter()) {
        assert!(!written.contains(['/', '\\', '\0']), "{written}");
        assert_eq!(values_of(&written), [(name.to_owned(), value.map(str::to_owned))]);
    }
});

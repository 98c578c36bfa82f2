//! The list of a backup, as somebody who can write where backups are could leave it: any bytes are read as one, or refused. Of
//! what is not refused, no file is anywhere but among backups.
//!
//! The program has no library: this file is compiled with the target, which has the modules of backups beside it, and with the tests
//! of those modules.

use crate::backup::files::Checksum;
use crate::backup::layout::place_of;
use crate::backup::manifest::Manifest;
use std::collections::BTreeSet;
use std::path::{Component, Path};

/// The name of the backup.
pub const NAME: &str = "20251126T105019.000000042Z";

/// Reads bytes as they are, and as a line whose checksum matches: nobody guesses one.
///
/// # Panics
/// What must hold does not.
pub fn run(bytes: &[u8]) {
    let with_checksum = [bytes, format!("\nsha256 {}\n", Checksum::of(bytes)).as_bytes()].concat();
    for bytes in [bytes, &with_checksum] {
        if let Ok(manifest) = Manifest::decode(bytes, NAME) {
            check(&manifest);
        }
    }
}

fn check(manifest: &Manifest) {
    let mut places = BTreeSet::new();
    for entry in &manifest.files {
        // In the place of backups, and in a data directory that is restored.
        for place in [place_of(NAME, entry), entry.path.clone()] {
            let path = Path::new(&place);
            let is_below = path.components().all(|part| matches!(part, Component::Normal(_)));
            assert!(is_below && path.components().count() <= 3 && !place.contains(['\\', '\0']), "{place:?}");
        }
        assert!(places.insert(&entry.path), "{} stands there twice", entry.path);
    }
    let again = manifest.encode().and_then(|bytes| Manifest::decode(&bytes, NAME));
    assert_eq!(again.as_ref(), Ok(manifest));
}

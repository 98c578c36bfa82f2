//! Copies of a store in its data directory, while backups are made of them.
//!
//! A copy is a folder of links, `copies/NAME`, beside a file `NAME.lease`. Whoever reads the copy holds that file locked. A copy
//! whose lease nobody holds is of no use any more, also after its reader was killed, and is removed: by the server, when it is
//! asked for the next copy, from time to time, and at its start. So copies keep the space of files that the store has
//! replaced only as long as somebody reads them.

use super::{failed, make_dir, names_in, remove_dir};
use nyala_bench::time::{parse_rfc3339, rfc3339};
use std::fs::{self, File, OpenOptions, TryLockError};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// The folder, in a data directory.
const FOLDER: &str = "copies";
const LEASE: &str = ".lease";

/// A copy of a store, which is a data directory.
#[derive(Debug, Clone, Copy)]
pub struct CopiedStore {
    /// The moment: what was acknowledged before is in it.
    pub time_ns: i64,
    /// The last batch in it.
    pub sequence: u64,
    /// Files of rowsets.
    pub rowsets: u64,
    /// Bytes of these and of the log.
    pub bytes: u64,
}

/// The place of a copy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CopyPlace {
    /// The moment, in a form that sorts.
    pub name: String,
    /// The folder with the copy.
    pub dir: PathBuf,
    lease: PathBuf,
}

/// Held by the reader of a copy.
pub struct Lease(#[expect(dead_code, reason = "held for its drop")] File);

impl CopyPlace {
    fn of(data_dir: &Path, name: &str) -> Self {
        let folder = data_dir.join(FOLDER);
        Self { name: name.to_owned(), dir: folder.join(name), lease: folder.join(format!("{name}{LEASE}")) }
    }

    /// The place of a copy that a server has made.
    pub fn beside(dir: &Path) -> Option<Self> {
        let name = dir.file_name()?.to_str()?;
        Some(Self::of(dir.parent()?.parent()?, name))
    }

    /// A place for a copy that is made now. It stays while the lease is held.
    pub fn new(data_dir: &Path, time_ns: i64) -> Result<(Self, Lease), String> {
        make_dir(&data_dir.join(FOLDER))?;
        let place = Self::of(data_dir, &name_of(time_ns));
        let created = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&place.lease);
        created.map_err(|error| failed("create", &place.lease, error))?;
        let lease = place.lease()?;
        Ok((place, lease))
    }

    /// Takes the lease, unless the copy was removed or somebody has it.
    pub fn lease(&self) -> Result<Lease, String> {
        let file = File::open(&self.lease).map_err(|error| failed("open", &self.lease, error))?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                return Err(format!("{} is read by another process", self.dir.display()));
            }
            Err(TryLockError::Error(error)) => return Err(failed("lock", &self.lease, error)),
        }
        // It may have been removed before it was locked.
        match fs::exists(&self.lease) {
            Ok(true) => Ok(Lease(file)),
            _ => Err(format!("{} was removed", self.dir.display())),
        }
    }

    /// Removes the copy.
    pub fn remove(&self) -> Result<(), String> {
        remove_dir(&self.dir)?;
        match fs::remove_file(&self.lease) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                Err(failed("remove", &self.lease, error))
            }
            _ => Ok(()),
        }
    }
}

/// Removes the copies of a data directory that nobody reads, except one; returns the others.
pub fn remove_unread(data_dir: &Path, except: Option<&str>) -> Result<Vec<String>, String> {
    let folder = data_dir.join(FOLDER);
    if !fs::exists(&folder).map_err(|error| failed("look for", &folder, error))? {
        return Ok(Vec::new());
    }
    let mut read = Vec::new();
    for entry in names_in(&folder)? {
        // A folder without a lease is what is left of a removal.
        let name = entry.strip_suffix(LEASE).unwrap_or(&entry);
        if except == Some(name) {
            continue;
        }
        let place = CopyPlace::of(data_dir, name);
        let is_read = File::open(&place.lease)
            .is_ok_and(|file| matches!(file.try_lock(), Err(TryLockError::WouldBlock)));
        match is_read {
            true if entry.ends_with(LEASE) => read.push(name.to_owned()),
            true => {}
            false => place.remove()?,
        }
    }
    Ok(read)
}

/// `20261126T105019.123456789Z`.
pub fn name_of(time_ns: i64) -> String {
    let (seconds, rest) = (time_ns.div_euclid(1_000_000_000), time_ns.rem_euclid(1_000_000_000));
    let shown: String =
        rfc3339(seconds).chars().filter(|letter| !matches!(letter, '-' | ':' | 'Z')).collect();
    format!("{shown}.{rest:09}Z")
}

/// The name of a backup of this moment, where `newest` is the newest one. It is behind that also if a clock was ahead when that was
/// made: names say which backup is the newest, which is restored and the last to be removed.
///
/// # Errors
/// No name is behind that.
pub fn name_behind(newest: Option<&str>, time_ns: i64) -> Result<String, String> {
    let name = name_of(time_ns);
    let Some(newest) = newest.filter(|newest| *newest >= name.as_str()) else { return Ok(name) };
    // Several commands may add backups to a bucket at once: the fraction of its second is each one's own.
    let behind_ns = time_ns.rem_euclid(1_000_000_000) + 1;
    let later = moment_of(newest).and_then(|newest_ns| newest_ns.checked_add(behind_ns));
    later.map(name_of).ok_or_else(|| {
        format!("the newest backup has the name {newest:?}, and no moment is later: move it elsewhere")
    })
}

/// The moment that a name of [`name_of`] says.
fn moment_of(name: &str) -> Option<i64> {
    let (seconds, rest) = name.strip_suffix('Z')?.split_once('.')?;
    let part = |from: usize, to: usize| seconds.get(from..to);
    let (date, time) =
        ((part(0, 4)?, part(4, 6)?, part(6, 8)?), (part(9, 11)?, part(11, 13)?, part(13, 15)?));
    let text = format!("{}-{}-{}T{}:{}:{}Z", date.0, date.1, date.2, time.0, time.1, time.2);
    parse_rfc3339(&text)?.checked_mul(1_000_000_000)?.checked_add(rest.parse().ok()?)
}

/// Whether a name is one of [`name_of`].
pub fn is_name(name: &str) -> bool {
    let pattern = b"00000000T000000.000000000Z";
    name.len() == pattern.len()
        && name.bytes().zip(pattern).all(|(byte, wanted)| match wanted {
            b'0' => byte.is_ascii_digit(),
            other => byte == *other,
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_sort_as_their_moments() {
        let name = name_of(1_764_154_219_000_000_042);
        assert_eq!(name, "20251126T105019.000000042Z");
        assert!(is_name(&name) && !is_name("20251126T105019.00000004/Z") && !is_name(".."));
    }

    #[test]
    fn the_name_of_a_later_backup_is_behind_that_of_an_earlier_one() -> Result<(), String> {
        let (time_ns, name) = (1_764_154_219_000_000_042, "20251126T105019.000000042Z");
        for newest in [None, Some("20251126T105019.000000041Z"), Some("19700101T000000.000000000Z")] {
            assert_eq!(name_behind(newest, time_ns)?, name);
        }
        assert_eq!(name_behind(Some(name), time_ns)?, "20251126T105019.000000085Z");
        assert_eq!(name_behind(Some("20991231T235959.999999999Z"), time_ns)?, "21000101T000000.000000042Z");
        // No clock of ours has these.
        for newest in ["99991231T235959.999999999Z", "99999999T999999.999999999Z"] {
            assert!(is_name(newest) && name_behind(Some(newest), time_ns).is_err());
        }
        Ok(())
    }

    #[test]
    fn a_copy_stays_while_it_is_read() -> Result<(), String> {
        let dir = tempfile::tempdir().map_err(|error| error.to_string())?;
        let (place, lease) = CopyPlace::new(dir.path(), 1)?;
        make_dir(&place.dir)?;
        assert_eq!(remove_unread(dir.path(), None)?, std::slice::from_ref(&place.name));
        assert!(place.dir.exists() && place.lease().is_err());
        drop(lease);
        assert_eq!(remove_unread(dir.path(), Some(&place.name))?, [""; 0]);
        assert!(place.dir.exists());
        assert_eq!(remove_unread(dir.path(), None)?, [""; 0]);
        assert!(!place.dir.exists() && place.lease().is_err());
        Ok(())
    }
}

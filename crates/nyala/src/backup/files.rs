//! Files of backups: reading them with their checksums, and putting them where they belong.

use super::{failed, sync_dir};
use ring::digest::{Context, SHA256};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt::{self, Display};
use std::fs::{self, File, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// Bytes that are read at once.
const CHUNK_BYTES: usize = 1 << 20;
/// After so many bytes what was written is synced: otherwise the system writes it all at once, and syncs of a server's log on
/// the same disk wait for it.
const SYNC_BYTES: usize = 16 << 20;
/// The end of a rowset has the checksum of its footer, which has those of all that is in front. See
/// `docs/format/rowset.md`.
const TAIL_BYTES: u64 = 24;

/// The SHA-256 of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Checksum([u8; 32]);

impl Checksum {
    /// That of some bytes.
    pub fn of(bytes: &[u8]) -> Self {
        let mut context = Context::new(&SHA256);
        context.update(bytes);
        Self::finish(context)
    }

    fn finish(context: Context) -> Self {
        let mut bytes = [0; 32];
        bytes.copy_from_slice(context.finish().as_ref());
        Self(bytes)
    }

    /// Reads 64 hexadecimal digits.
    pub fn parse(text: &str) -> Option<Self> {
        let mut bytes = [0; 32];
        if text.len() != 64
            || !text.bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte))
        {
            return None;
        }
        for (byte, digits) in bytes.iter_mut().zip(text.as_bytes().chunks(2)) {
            *byte = u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()?;
        }
        Some(Self(bytes))
    }
}

impl Display for Checksum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl Serialize for Checksum {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Checksum {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Self::parse(&text).ok_or_else(|| serde::de::Error::custom("a checksum has 64 hexadecimal digits"))
    }
}

/// The name of a file that backups share.
pub fn shared_name(stem: &str, tail: u32, checksum: &Checksum, extension: &str) -> String {
    format!("{stem}-{tail:08x}-{checksum}.{extension}")
}

/// Opens a file, but no symbolic link and nothing else that is not a file.
pub fn open(path: &Path) -> Result<File, String> {
    let opened =
        OpenOptions::new().read(true).custom_flags(rustix::fs::OFlags::NOFOLLOW.bits() as i32).open(path);
    let file = opened.map_err(|error| failed("open", path, error))?;
    let is_file = file.metadata().map_err(|error| failed("look at", path, error))?.is_file();
    if is_file { Ok(file) } else { Err(format!("{} is not a file", path.display())) }
}

/// The length of a rowset, and what tells its contents from those of others with its number.
pub fn tail(path: &Path) -> Result<(u64, u32), String> {
    let mut file = open(path)?;
    let bytes = file.metadata().map_err(|error| failed("look at", path, error))?.len();
    let mut end = Vec::new();
    file.seek(SeekFrom::Start(bytes.saturating_sub(TAIL_BYTES)))
        .and_then(|_| file.read_to_end(&mut end))
        .map_err(|error| failed("read", path, error))?;
    Ok((bytes, crc32fast::hash(&end)))
}

/// The length and the checksum of a file; `watch` is told how many bytes were read each time.
pub fn read(path: &Path, watch: &mut dyn FnMut(u64)) -> Result<(u64, Checksum), String> {
    pump(&mut open(path)?, &path.display(), &mut |_| Ok(()), watch)
}

/// When a copy is on disk, but for its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Durability {
    /// When the copying returns.
    OnReturn,
    /// When [`FileSystem::sync`] returns.
    OnSync,
}

/// The file system of a directory, opened before anything is written to it, so that no error of a write is missed.
pub struct FileSystem(File);

impl FileSystem {
    pub fn of(dir: &Path) -> Result<Self, String> {
        File::open(dir).map(Self).map_err(|error| failed("open", dir, error))
    }

    /// Puts all on disk that was written to it: many small files in a fraction of the time that a sync of each takes.
    pub fn sync(&self) -> Result<(), String> {
        rustix::fs::syncfs(&self.0).map_err(|error| format!("cannot sync the file system: {error}"))
    }
}

/// Copies a file to a name that must be free. Only its owner can read it.
pub fn copy(
    from: &Path,
    to: &Path,
    durability: Durability,
    watch: &mut dyn FnMut(u64),
) -> Result<(u64, Checksum), String> {
    store(&mut open(from)?, &from.display(), to, durability, watch)
}

/// The same of what is read from somewhere, `shown` in messages.
pub fn store(
    from: &mut dyn Read,
    shown: &dyn Display,
    to: &Path,
    durability: Durability,
    watch: &mut dyn FnMut(u64),
) -> Result<(u64, Checksum), String> {
    let created = OpenOptions::new().write(true).create_new(true).mode(0o600).open(to);
    let mut file = created.map_err(|error| failed("create", to, error))?;
    let mut unsynced_bytes = 0;
    let mut write = |bytes: &[u8]| -> Result<(), String> {
        file.write_all(bytes).map_err(|error| failed("write", to, error))?;
        unsynced_bytes += bytes.len();
        if unsynced_bytes >= SYNC_BYTES {
            unsynced_bytes = 0;
            file.sync_data().map_err(|error| failed("sync", to, error))?;
        }
        Ok(())
    };
    let copied = pump(from, shown, &mut write, watch)?;
    if durability == Durability::OnReturn {
        file.sync_all().map_err(|error| failed("sync", to, error))?;
    }
    Ok(copied)
}

/// Reads to the end, and hands each chunk over.
pub fn pump(
    from: &mut dyn Read,
    shown: &dyn Display,
    write: &mut dyn FnMut(&[u8]) -> Result<(), String>,
    watch: &mut dyn FnMut(u64),
) -> Result<(u64, Checksum), String> {
    let (mut buffer, mut context, mut bytes) = (vec![0; CHUNK_BYTES], Context::new(&SHA256), 0);
    loop {
        let read = from.read(&mut buffer).map_err(|error| format!("cannot read {shown}: {error}"))?;
        if read == 0 {
            return Ok((bytes, Checksum::finish(context)));
        }
        context.update(&buffer[..read]);
        write(&buffer[..read])?;
        bytes += read as u64;
        watch(read as u64);
    }
}

/// Writes a file that must not be there; it is on disk when this returns, with its name.
pub fn write(path: &Path, bytes: &[u8]) -> Result<(), String> {
    let created = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
    let mut file = created.map_err(|error| failed("create", path, error))?;
    file.write_all(bytes).and_then(|()| file.sync_all()).map_err(|error| failed("write", path, error))?;
    path.parent().map_or(Ok(()), sync_dir)
}

/// Bytes that may still be written to the file system of a directory.
pub fn free_bytes(dir: &Path) -> Result<u64, String> {
    let stat = rustix::fs::statvfs(dir).map_err(|error| failed("ask for free space of", dir, error))?;
    Ok(stat.f_bavail.saturating_mul(stat.f_frsize))
}

/// Removes a file, if it is there.
pub fn remove(path: &Path) -> Result<(), String> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(failed("remove", path, error)),
        _ => Ok(()),
    }
}

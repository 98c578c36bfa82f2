//! The manifest file: a checkpoint of the catalog, followed by a log of edits.
//!
//! A file is one generation: the whole state when it was begun, then edits, each synced before it counts. When
//! the edits outgrow the checkpoint the caller writes the next generation: a new file, synced, renamed into place,
//! its directory synced. The highest number in the directory is the manifest; lower ones are leftovers.
//!
//! Invariants: a file with the name of a generation is whole (it got its name after its sync), so one without a
//! readable checkpoint is damaged. It is made as long as it may become, so one that is shorter was cut. Frames are
//! numbered through all generations: the number of the last one is the *revision*, which only rises. After a failed
//! write or sync the log takes no edit until the caller has written a checkpoint: its state decides what became of the
//! edit in doubt. Opening for writing always begins a generation, so nothing is ever appended behind what a crash left.
//! Payloads are opaque. The bytes are drawn in `docs/format/manifest.md`.

use std::io::IoSlice;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use nyala_core::{Error, ErrorKind, Result};

use crate::files::framed_log::{
    Authority, Damage, FILE_HEADER_BYTES, FRAME_HEADER_BYTES, FileHeader, FrameHeader, FrameKind,
    MAX_FILE_BYTES, Scanned, Scanner, frame_bytes, padding,
};
use crate::files::fs::{Access, FileRef, FileSystem, FsRef, SimulatedFs};

pub(crate) const MAGIC: [u8; 8] = *b"nyalaMAN";
const PREFIX: &str = "manifest-";
pub(crate) const UNNAMED: &str = "manifest.new";
/// Room for edits however small the state is: what a directory of little data takes for it.
const MIN_EDIT_BYTES: u64 = 64 << 10;

/// What a manifest says.
#[derive(Debug, Clone)]
pub struct LoadedManifest {
    /// The state when the generation was begun.
    pub checkpoint: Bytes,
    /// The edits since, in order.
    pub edits: Vec<Bytes>,
    /// The number of the last edit, counted through all generations.
    pub revision: u64,
    /// An unfinished edit follows, as a crash leaves it; it was not acknowledged.
    pub torn: bool,
}

/// A manifest open for writing.
#[derive(Debug)]
pub struct ManifestLog {
    fs: FsRef,
    dir: PathBuf,
    number: u64,
    file: FileRef,
    /// Its length.
    pub length: u64,
    /// How long the file was made.
    made_length: u64,
    /// The number of the last edit that is known to be on disk, counted through all generations.
    pub revision: u64,
    /// Whether every edit is known to be there or not; false after a failure, until the next checkpoint.
    pub usable: bool,
}

/// A manifest and what is wrong with it.
#[derive(Debug, Clone)]
pub struct ReadManifest {
    /// The number of its generation.
    pub number: u64,
    /// What can be read, up to the first damage; nothing if that is in front of the checkpoint.
    pub manifest: Option<LoadedManifest>,
    /// Everything that is not what was written.
    pub damage: Vec<Damage>,
}

/// Reads the manifest of a directory; nothing if there is none. Damage is an error: a store that does not know
/// what it consists of must not guess.
pub fn load(fs: &FsRef, dir: &Path) -> Result<Option<LoadedManifest>> {
    let Some(read) = verify(fs, dir)? else { return Ok(None) };
    match read.damage.into_iter().next() {
        Some(damage) => Err(damage.into()),
        None => Ok(read.manifest),
    }
}

/// Whether a directory has a manifest, readable or not.
pub(crate) fn exists(fs: &FsRef, dir: &Path) -> Result<bool> {
    Ok(!generations(fs, dir)?.is_empty())
}

/// Reads the whole manifest of a directory whatever is wrong with it, and says so.
pub fn verify(fs: &FsRef, dir: &Path) -> Result<Option<ReadManifest>> {
    let Some(number) = generations(fs, dir)?.pop() else { return Ok(None) };
    let path = path(dir, number);
    let mut damage = Vec::new();
    let mut damaged =
        |offset: u64, message: String| damage.push(Damage { file: path.clone(), offset, message });
    let file = fs.open(&path, Access::Read)?;
    let mut header = [0; FILE_HEADER_BYTES as usize];
    match file.read_exact_at(&mut header, 0) {
        Ok(()) => match FileHeader::decode(&header, MAGIC, number)? {
            Ok(header) => {
                let length = file.length()?;
                if length < header.made_length {
                    let made = header.made_length;
                    damaged(
                        length,
                        format!("the file is {length} bytes long, not {made}: its end is missing"),
                    );
                }
            }
            Err(message) => damaged(0, message),
        },
        Err(error) => damaged(0, error.message().to_owned()),
    }
    let mut scanner = Scanner::new(file, number, 0, Authority::Open)?;
    let mut manifest: Option<LoadedManifest> = None;
    let mut whole = true;
    while let Some(scanned) = scanner.next() {
        match (scanned, &mut manifest) {
            (Scanned::Frame { kind: FrameKind::Checkpoint, payload, .. }, None) => {
                manifest =
                    Some(LoadedManifest { checkpoint: payload, edits: Vec::new(), revision: 0, torn: false });
            }
            (Scanned::Frame { kind: FrameKind::Record, payload, .. }, Some(manifest)) => {
                if whole {
                    manifest.edits.push(payload);
                }
            }
            (Scanned::Frame { .. }, _) => {
                whole = false;
                damaged(scanner.position, "before this is a frame out of place".to_owned());
            }
            (Scanned::Damage(Damage { offset, message, .. }), _) => {
                whole = false;
                damaged(offset, message);
            }
        }
    }
    match &mut manifest {
        Some(manifest) => (manifest.revision, manifest.torn) = (scanner.last_sequence, scanner.torn),
        None => damaged(FILE_HEADER_BYTES, "the checkpoint cannot be read".to_owned()),
    }
    Ok(Some(ReadManifest { number, manifest, damage }))
}

/// Reads arbitrary bytes as a manifest: what a fuzzer calls. No bytes are a panic.
pub fn decode(bytes: &[u8]) -> Result<LoadedManifest> {
    let fs = SimulatedFs::new();
    let dir = Path::new("");
    fs.open(&path(dir, 1), Access::Create)?.write_at(bytes, 0)?;
    let fs: FsRef = Arc::new(fs);
    Ok(load(&fs, dir)?.expect("it was just written"))
}

impl ManifestLog {
    /// Begins a generation with `checkpoint` as the whole state: for a new store, and each time one is opened,
    /// after [`load`], whose revision it goes on from. The directory must exist and belong to this process.
    pub fn begin(fs: FsRef, dir: &Path, checkpoint: &[u8], revision: u64) -> Result<Self> {
        let number = generations(&fs, dir)?.pop().unwrap_or(0) + 1;
        let revision = revision + 1;
        let Begun { file, length, made_length } =
            begin_generation(&fs, dir, number, revision, checkpoint, 0)?;
        let dir = dir.to_path_buf();
        Ok(Self { fs, dir, number, file, length, made_length, revision, usable: true })
    }

    /// Appends an edit; it is on disk when this returns.
    ///
    /// An error of kind [`ErrorKind::Unknown`] says that it may or may not be there after a restart; after any
    /// other it is not. Both call for [`ManifestLog::checkpoint`] before the next edit.
    pub fn append(&mut self, edit: &[u8]) -> Result<()> {
        if !self.usable {
            return Err(Error::retry("the manifest takes no edit before its next checkpoint"));
        }
        let frame = frame_bytes(edit.len() as u64);
        if self.wants_checkpoint(edit.len() as u64) {
            self.usable = false;
            return Err(Error::retry("the manifest is full and takes no edit before its next checkpoint"));
        }
        let unknown = |error: Error| {
            Error::new(ErrorKind::Unknown, format!("an edit of the manifest may be lost: {error}"))
        };
        // Until it has succeeded.
        self.usable = false;
        let revision = self.revision + 1;
        write_frame(&self.file, FrameKind::Record, self.number, revision, self.length, edit)
            .map_err(unknown)?;
        self.file.sync_data().map_err(unknown)?;
        self.length += frame;
        self.revision = revision;
        mark_end(&self.file, self.number, self.revision, self.length);
        // Last: after a panic before this line, it is not known whether the edit is there.
        self.usable = true;
        Ok(())
    }

    /// Replaces checkpoint and edits by the state now, with room for an edit of `edit_bytes`. If it fails the old
    /// ones stay, and with them a doubt about the edit that failed last, if one did.
    pub fn checkpoint(&mut self, state: &[u8], edit_bytes: u64) -> Result<()> {
        // After a failure that leaves both generations in the directory, the new one counts: nothing may be appended to
        // the old one.
        self.usable = false;
        // One is left out for the edit that may be there or not.
        let (number, revision) = (self.number + 1, self.revision + 2);
        let begun = begin_generation(&self.fs, &self.dir, number, revision, state, edit_bytes)?;
        Begun { file: self.file, length: self.length, made_length: self.made_length } = begun;
        (self.number, self.revision) = (number, revision);
        self.usable = true;
        Ok(())
    }

    /// Whether a checkpoint must be written before an edit of `edit_bytes`: after a failure, and when the edits have
    /// used up their room, which is as large as the state.
    pub fn wants_checkpoint(&self, edit_bytes: u64) -> bool {
        !self.usable || self.length + frame_bytes(edit_bytes) + FRAME_HEADER_BYTES > self.made_length
    }
}

impl Drop for ManifestLog {
    /// Puts the last end mark on disk, so that a rotten last edit is not taken for an unfinished one.
    fn drop(&mut self) {
        if self.usable {
            // Every edit was synced already.
            let _ = self.file.sync_data();
        }
    }
}

/// The file of a generation.
pub(crate) fn path(dir: &Path, number: u64) -> PathBuf {
    dir.join(format!("{PREFIX}{number:020}"))
}

/// The numbers of the generations in a directory, ascending.
pub(crate) fn generations(fs: &FsRef, dir: &Path) -> Result<Vec<u64>> {
    let mut numbers: Vec<u64> = (fs.list(dir)?.iter())
        .filter_map(|entry| {
            let number = entry.name.strip_prefix(PREFIX)?.parse().ok()?;
            (path(Path::new(""), number) == Path::new(&entry.name)).then_some(number)
        })
        .collect();
    numbers.sort_unstable();
    Ok(numbers)
}

/// A generation that was begun.
struct Begun {
    file: FileRef,
    /// Where the first edit goes.
    length: u64,
    made_length: u64,
}

/// Writes a generation with room for an edit of `edit_bytes`; when this returns it is the manifest.
fn begin_generation(
    fs: &FsRef,
    dir: &Path,
    number: u64,
    revision: u64,
    checkpoint: &[u8],
    edit_bytes: u64,
) -> Result<Begun> {
    let length = FILE_HEADER_BYTES + frame_bytes(checkpoint.len() as u64);
    let room = length.max(MIN_EDIT_BYTES).max(frame_bytes(edit_bytes) + FRAME_HEADER_BYTES);
    let made_length = (length + room).min(MAX_FILE_BYTES);
    if length + frame_bytes(edit_bytes) + FRAME_HEADER_BYTES > made_length {
        return Err(Error::limit(format!("a manifest of {} bytes", checkpoint.len())));
    }
    let unnamed = dir.join(UNNAMED);
    if fs.exists(&unnamed)? {
        fs.remove(&unnamed)?;
    }
    let file = fs.open(&unnamed, Access::Create)?;
    match file.preallocate(made_length) {
        // Its length is what counts; that the room is there is for a disk that fills up later.
        Err(error) if error.kind() == ErrorKind::Retry => file.truncate(made_length)?,
        preallocated => preallocated?,
    }
    let header = FileHeader {
        magic: MAGIC,
        number,
        first_sequence: revision,
        previous_length: 0,
        previous_last_sequence: 0,
        revision,
        made_length,
    };
    file.write_at(&header.encode(), 0)?;
    write_frame(&file, FrameKind::Checkpoint, number, revision, FILE_HEADER_BYTES, checkpoint)?;
    // With the mark: the checkpoint is known to be whole from the moment the file has its name.
    mark_end(&file, number, revision, length);
    file.sync_all()?;
    let named = path(dir, number);
    fs.rename(&unnamed, &named)?;
    fs.sync_dir(dir)?;
    for old in generations(fs, dir)?.into_iter().filter(|old| *old < number) {
        // A leftover is ignored, and removed with the next generation.
        let _ = fs.remove(&path(dir, old));
    }
    Ok(Begun { file: fs.open(&named, Access::Write)?, length, made_length })
}

/// Writes a frame behind everything that was synced.
fn write_frame(
    file: &FileRef,
    kind: FrameKind,
    number: u64,
    sequence: u64,
    offset: u64,
    payload: &[u8],
) -> Result<()> {
    let header = FrameHeader {
        kind,
        length: payload.len() as u32,
        sequence,
        number: number as u32,
        synced_length: offset as u32,
        payload_crc: crc32fast::hash(payload),
    }
    .encode();
    let zeros = padding(payload.len() as u64);
    let mut slices = [IoSlice::new(&header), IoSlice::new(payload), IoSlice::new(zeros)];
    file.write_slices_at(&mut slices, offset)
}

/// Writes an end mark: nothing follows. Without it nothing is lost, but a rotten last edit looks like an unfinished
/// one.
fn mark_end(file: &FileRef, number: u64, sequence: u64, offset: u64) {
    let _ = write_frame(file, FrameKind::End, number, sequence, offset, &[]);
}

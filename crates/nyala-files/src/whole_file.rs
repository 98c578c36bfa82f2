//! A file that appears when all of it is there. On a disk it is written under another name, synced, and renamed; an object is
//! put together from its parts at the end.

use crate::directory::{Directory, Place};
use crate::error::{FileError, FileResult};
use crate::folder::Folder;
use crate::upload::Upload;
use std::fs::File;
use std::io::{self, Write};
use std::sync::atomic::{AtomicU64, Ordering};

/// Temporary names that were given out in this process.
static NUMBER: AtomicU64 = AtomicU64::new(0);
/// How many names are tried: what a process left that was killed may have the same one.
const TRIES: usize = 64;

/// A file that is being written. If this is dropped, it never existed.
#[derive(Debug)]
pub struct WholeFile {
    path: String,
    target: Target,
    bytes: u64,
    is_published: bool,
}

#[derive(Debug)]
enum Target {
    Disk { place: Place, temporary: String, file: File },
    Object(Box<Upload>),
}

impl WholeFile {
    /// Begins a file in a folder, and creates the folders before it.
    pub fn create(folder: &Folder, path: &str) -> FileResult<Self> {
        let target = match folder {
            Folder::Directory(directory) => Target::on_disk(directory, path)?,
            Folder::Bucket(bucket) => Target::Object(Box::new(Upload::begin(bucket, path)?)),
        };
        Ok(Self { path: path.to_owned(), target, bytes: 0, is_published: false })
    }

    /// The memory that is held for what is not written yet.
    pub fn memory_bytes(&self) -> usize {
        match &self.target {
            Target::Disk { .. } => 0,
            Target::Object(upload) => upload.memory_bytes(),
        }
    }

    /// Makes it durable and gives it its name; what had that name before is replaced. Returns its length, bytes.
    pub fn publish(mut self) -> FileResult<u64> {
        match &mut self.target {
            Target::Disk { place, temporary, file } => {
                let published = file.sync_all().and_then(|()| place.publish(temporary));
                published.map_err(FileError::io(&self.path))?;
            }
            Target::Object(upload) => upload.finish()?,
        }
        self.is_published = true;
        Ok(self.bytes)
    }
}

impl Target {
    fn on_disk(directory: &Directory, path: &str) -> FileResult<Self> {
        let place = directory.place(path, true)?;
        let shown = FileError::io(path);
        for _ in 0..TRIES {
            let number = NUMBER.fetch_add(1, Ordering::Relaxed);
            // Readers of folders leave out names that begin with a dot.
            let temporary = format!(".nyala-{}-{number}.tmp", std::process::id());
            match place.create(&temporary) {
                Ok(file) => return Ok(Self::Disk { place, temporary, file }),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(shown(error)),
            }
        }
        Err(shown(io::ErrorKind::AlreadyExists.into()))
    }
}

impl Write for WholeFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = match &mut self.target {
            Target::Disk { file, .. } => file.write(bytes)?,
            Target::Object(upload) => upload.write(bytes)?,
        };
        self.bytes += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Drop for WholeFile {
    fn drop(&mut self) {
        if self.is_published {
            return;
        }
        match &mut self.target {
            // If it cannot be removed, its name says what it is.
            Target::Disk { place, temporary, .. } => drop(place.remove(temporary)),
            Target::Object(upload) => upload.abort(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::FileErrorKind;
    use crate::directory::FileKind;
    use rustix::fs::{FileType, Mode};
    use std::io::Read;
    use std::os::unix::fs::symlink;

    fn kind<T: std::fmt::Debug>(result: FileResult<T>) -> FileErrorKind {
        result.unwrap_err().kind
    }

    #[test]
    fn no_path_leads_out() {
        let outside = tempfile::tempdir().unwrap();
        std::fs::write(outside.path().join("secret"), "x").unwrap();
        let inside = outside.path().join("files");
        std::fs::create_dir_all(inside.join("folder")).unwrap();
        symlink("../secret", inside.join("link")).unwrap();
        symlink("..", inside.join("up")).unwrap();
        symlink("folder", inside.join("sideways")).unwrap();
        let directory = Directory::open(&inside).unwrap();
        let folder = Folder::Directory(directory.clone());
        let absolute = outside.path().join("secret").display().to_string();
        let paths = [
            "../secret",
            "folder/../../secret",
            "link",
            "up/secret",
            "sideways/x",
            "a\0b",
            "",
            ".",
            "folder",
        ];
        for path in paths.into_iter().chain([&*absolute]) {
            assert_eq!(kind(directory.read(path)), FileErrorKind::Forbidden, "{path}");
        }
        for path in ["../new", "up/new", "sideways/new", "folder/../../new"] {
            assert_eq!(kind(WholeFile::create(&folder, path)), FileErrorKind::Forbidden, "{path}");
        }
        assert_eq!(kind(directory.create_folder("up/new")), FileErrorKind::Forbidden);
        assert!(!outside.path().join("new").exists());
        // A link in the place of a new file is replaced, not followed.
        let mut file = WholeFile::create(&folder, "link").unwrap();
        file.write_all(b"new").unwrap();
        file.publish().unwrap();
        assert_eq!(std::fs::read(outside.path().join("secret")).unwrap(), b"x");
        assert_eq!(std::fs::read(inside.join("link")).unwrap(), b"new");
    }

    #[test]
    fn what_is_no_file_is_refused_at_once() {
        let inside = tempfile::tempdir().unwrap();
        rustix::fs::mknodat(
            rustix::fs::CWD,
            inside.path().join("pipe"),
            FileType::Fifo,
            Mode::from_raw_mode(0o600),
            0,
        )
        .unwrap();
        let directory = Directory::open(inside.path()).unwrap();
        assert_eq!(kind(directory.read("pipe")), FileErrorKind::Forbidden);
        assert_eq!(kind(directory.read("missing")), FileErrorKind::Missing);
        assert_eq!(kind(directory.read("missing/x")), FileErrorKind::Missing);
    }

    #[test]
    fn a_file_appears_whole_or_not_at_all() {
        let inside = tempfile::tempdir().unwrap();
        let directory = Directory::open(inside.path()).unwrap();
        let folder = Folder::Directory(directory.clone());
        let mut given_up = WholeFile::create(&folder, "a/b").unwrap();
        given_up.write_all(b"half").unwrap();
        assert_eq!(directory.kind("a/b"), Ok(None));
        drop(given_up);
        assert_eq!(directory.create_folder("a").unwrap().names().unwrap(), Vec::<String>::new());
        let mut file = WholeFile::create(&folder, "a/b").unwrap();
        file.write_all(b"all").unwrap();
        assert_eq!(file.publish().unwrap(), 3);
        let mut text = String::new();
        directory.read("a/b").unwrap().read_to_string(&mut text).unwrap();
        assert_eq!(
            (&*text, directory.kind("a"), directory.kind("a/b")),
            ("all", Ok(Some(FileKind::Folder)), Ok(Some(FileKind::File)))
        );
        assert_eq!(directory.create_folder("a").unwrap().names().unwrap(), ["b"]);
    }
}

//! A place in a bucket of S3, or of a server that speaks its protocol, as a folder of files.
//!
//! An object is fetched into a file without a name before it is read. So all that is read is one version of it, pages can be
//! read in any order without a request each, and readers know only files of the disk.
//!
//! Which server, which region and whose credentials is what the environment says, with the names of Amazon's own programs
//! (`AWS_ENDPOINT_URL`, `AWS_REGION`, `AWS_ACCESS_KEY_ID` …): no statement can name them.

use crate::directory::{FileKind, components};
use crate::error::{FileError, FileErrorKind, FileResult};
use crate::object_reader::ObjectReader;
use crate::remote::{failed, wait};
use futures::{StreamExt, TryStreamExt, stream};
use object_store::aws::{AmazonS3, AmazonS3Builder};
use object_store::path::Path as ObjectPath;
use object_store::{ClientOptions, Error, ObjectMeta, ObjectStore, ObjectStoreExt, PutPayload, RetryConfig};
use rustix::fs::{Mode, OFlags, statvfs};
use std::fs::File;
use std::io::{self, Seek};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// What names of objects begin with.
const SCHEME: &str = "s3://";
/// How long a server may take to accept a connection …
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// … and to answer a request, which moves 8 MiB at most.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(60);
/// A request that fails for a reason of the server's is sent again so often …
const RETRIES_MAX: usize = 8;
/// … for so long.
const RETRY_TIMEOUT: Duration = Duration::from_secs(90);
/// So often at most is something asked that the client does not repeat.
const TRIES_MAX: usize = 4;

/// A bucket, or all of it whose names begin with a prefix. Copies are of the same place.
#[derive(Debug, Clone)]
pub struct Bucket {
    url: String,
    store: Arc<AmazonS3>,
    /// Begins all names, without a slash at its end.
    prefix: String,
    /// Where objects go that are read.
    scratch: PathBuf,
}

impl Bucket {
    /// The place that a URL names, `s3://bucket/prefix`. Nothing is asked of the server yet.
    ///
    /// `scratch` is a directory with room for an object that is read.
    ///
    /// # Errors
    /// The URL is none of a bucket, or the environment is not what the server needs.
    pub fn open(url: &str, scratch: &Path) -> FileResult<Self> {
        let invalid = |words: &str| FileError::new(FileErrorKind::Forbidden, format!("\"{url}\": {words}"));
        let rest = url.strip_prefix(SCHEME).ok_or_else(|| invalid("is no URL of S3: s3://bucket/prefix"))?;
        let (bucket, prefix) = rest.split_once('/').unwrap_or((rest, ""));
        if bucket.is_empty() {
            return Err(invalid("names no bucket"));
        }
        let prefix = components(prefix)?.join("/");
        let retry =
            RetryConfig { max_retries: RETRIES_MAX, retry_timeout: RETRY_TIMEOUT, ..RetryConfig::default() };
        let client = ClientOptions::new()
            .with_connect_timeout(CONNECT_TIMEOUT)
            .with_timeout(ANSWER_TIMEOUT)
            // Whoever names a server by http:// means it.
            .with_allow_http(true);
        let store = AmazonS3Builder::from_env()
            .with_client_options(client)
            .with_retry(retry)
            .with_bucket_name(bucket)
            .build()
            .map_err(failed(url))?;
        let url = format!("{SCHEME}{bucket}{}{prefix}", if prefix.is_empty() { "" } else { "/" });
        Ok(Self { url, store: Arc::new(store), prefix, scratch: scratch.to_owned() })
    }

    /// Whether a name is one of an object.
    pub fn is_url(name: &str) -> bool {
        name.starts_with(SCHEME)
    }

    /// Its URL, without a slash at its end.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// The path of a URL below this place; `None`: it is elsewhere.
    pub fn path_of<'a>(&self, url: &'a str) -> Option<&'a str> {
        url.strip_prefix(&self.url)?.strip_prefix('/')
    }

    /// Fetches an object, to read it. The file has no name, and is gone when it is closed.
    pub fn read(&self, path: &str) -> FileResult<File> {
        let shown = self.shown(path);
        let mut object = self.reader(path)?;
        let mut file = self.scratch_file(&shown)?;
        check_room(&self.scratch, object.bytes(), &shown)?;
        let copied = io::copy(&mut object, &mut file).and_then(|_| file.rewind());
        copied.map_err(FileError::io(&shown))?;
        Ok(file)
    }

    /// Reads an object from its beginning to its end, with memory for two pieces of it.
    pub fn reader(&self, path: &str) -> FileResult<ObjectReader> {
        let (store, object) = self.place(path)?;
        ObjectReader::open(self.shown(path), store, object)
    }

    /// Writes a short object, in the place of what has that name.
    pub fn put(&self, path: &str, bytes: Vec<u8>) -> FileResult<()> {
        let (store, object) = self.place(path)?;
        let put = wait(async move { store.put(&object, PutPayload::from(bytes)).await });
        put.map(drop).map_err(failed(&self.shown(path)))
    }

    /// Removes objects, as far as they are there.
    ///
    /// # Errors
    /// Some may be removed all the same.
    pub fn remove(&self, paths: &[String]) -> FileResult<()> {
        let objects = paths.iter().map(|path| self.object_path(path)).collect::<FileResult<Vec<_>>>()?;
        let removed = repeated(|| {
            let (store, named) = (self.store.clone(), stream::iter(objects.clone().into_iter().map(Ok)));
            wait(async move { store.delete_stream(named.boxed()).try_for_each(async |_| Ok(())).await })
        });
        match removed {
            Err(Error::NotFound { .. }) | Ok(()) => Ok(()),
            Err(error) => Err(failed(&self.url)(error)),
        }
    }

    /// A place below.
    pub fn folder(&self, path: &str) -> FileResult<Self> {
        let below = components(path)?.join("/");
        let joined = |before: &str| match (before.is_empty(), below.is_empty()) {
            (_, true) => before.to_owned(),
            (true, false) => below.clone(),
            (false, false) => format!("{before}/{below}"),
        };
        Ok(Self { url: joined(&self.url), prefix: joined(&self.prefix), ..self.clone() })
    }

    /// Whether there is nothing below.
    pub fn is_empty(&self) -> FileResult<bool> {
        Ok(self.list(1)?.is_empty())
    }

    /// An object.
    ///
    /// # Errors
    /// Missing.
    pub fn object(&self, path: &str) -> FileResult<Object> {
        let (shown, object, store) = (self.shown(path), self.object_path(path)?, self.store.clone());
        wait(async move { store.head(&object).await.map(Object::from).map_err(failed(&shown)) })
    }

    /// All objects below, in the order of their names.
    pub fn objects(&self) -> FileResult<Vec<(String, Object)>> {
        self.listed(usize::MAX)
    }

    /// One of the objects below, if there is any.
    pub fn any_object(&self) -> FileResult<Option<(String, Object)>> {
        Ok(self.listed(1)?.pop())
    }

    fn listed(&self, most: usize) -> FileResult<Vec<(String, Object)>> {
        let mut all = Vec::new();
        for object in self.list(most)? {
            let name = object.location.as_ref();
            let below = match self.prefix.is_empty() {
                true => Some(name),
                false => name.strip_prefix(&*self.prefix).and_then(|name| name.strip_prefix('/')),
            };
            let below = below.map(str::to_owned);
            all.extend(below.map(|below| (below, Object::from(object))));
        }
        all.sort_unstable_by(|(left, _), (right, _)| left.cmp(right));
        Ok(all)
    }

    /// Whether there is an object, or one below that name.
    pub fn kind(&self, path: &str) -> FileResult<Option<FileKind>> {
        match self.object(path) {
            Ok(_) => Ok(Some(FileKind::File)),
            Err(error) if error.kind == FileErrorKind::Missing => {
                Ok((!self.folder(path)?.is_empty()?).then_some(FileKind::Folder))
            }
            Err(error) => Err(error),
        }
    }

    /// The store, and the name in it of a path.
    pub(crate) fn place(&self, path: &str) -> FileResult<(Arc<AmazonS3>, ObjectPath)> {
        Ok((self.store.clone(), self.object_path(path)?))
    }

    /// A path, for messages.
    pub(crate) fn shown(&self, path: &str) -> String {
        format!("{}/{path}", self.url)
    }

    fn list(&self, most: usize) -> FileResult<Vec<ObjectMeta>> {
        let prefix = ObjectPath::parse(&self.prefix).map_err(|error| failed(&self.url)(error.into()))?;
        let listed = repeated(|| {
            let (store, prefix) = (self.store.clone(), prefix.clone());
            wait(async move { store.list(Some(&prefix)).take(most).try_collect::<Vec<_>>().await })
        });
        listed.map_err(failed(&self.url))
    }

    fn object_path(&self, path: &str) -> FileResult<ObjectPath> {
        let shown = self.shown(path);
        let parts = components(path)?;
        if parts.is_empty() {
            return Err(FileError::new(FileErrorKind::Forbidden, format!("\"{shown}\" names no object")));
        }
        let below = parts.join("/");
        let name = if self.prefix.is_empty() { below } else { format!("{}/{below}", self.prefix) };
        ObjectPath::parse(name).map_err(|error| failed(&shown)(error.into()))
    }

    fn scratch_file(&self, shown: &str) -> FileResult<File> {
        let flags = OFlags::RDWR | OFlags::TMPFILE | OFlags::CLOEXEC;
        let opened = rustix::fs::open(&self.scratch, flags, Mode::from_raw_mode(0o600));
        opened.map(File::from).map_err(|error| {
            let place = self.scratch.display();
            FileError::new(
                FileErrorKind::Io,
                format!("\"{shown}\" cannot be fetched into the directory {place}: {error}"),
            )
        })
    }
}

/// What a server says of an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Object {
    /// Its length.
    pub bytes: u64,
    /// Changes when it is replaced.
    pub version: String,
    /// When it was written, by the server's clock: milliseconds since 1970.
    pub modified_ms: i64,
}

impl From<ObjectMeta> for Object {
    fn from(meta: ObjectMeta) -> Self {
        let modified_ms = meta.last_modified.timestamp_millis();
        let version = meta.e_tag.unwrap_or_else(|| meta.last_modified.to_rfc3339());
        Self { bytes: meta.size, version, modified_ms }
    }
}

/// Checks that an object leaves half of the disk's free space to others.
fn check_room(scratch: &Path, bytes: u64, shown: &str) -> FileResult<()> {
    let free = statvfs(scratch).map_err(|error| FileError::io(shown)(error.into()))?;
    let free_bytes = free.f_bavail.saturating_mul(free.f_frsize);
    match bytes <= free_bytes / 2 {
        true => Ok(()),
        false => {
            let message = format!(
                "\"{shown}\" has {bytes} bytes, which is more than half of what is free in {}, where it is fetched to",
                scratch.display()
            );
            Err(FileError::new(FileErrorKind::DiskFull, message))
        }
    }
}

/// Asks again what may be asked again and what the client gives up at once: a removal whose answer is lost, or a listing whose
/// answer is cut off.
fn repeated<T>(ask: impl Fn() -> Result<T, Error>) -> Result<T, Error> {
    let (begun, mut tries) = (Instant::now(), 1);
    loop {
        match ask() {
            // After a longer time it is the client that has repeated it.
            Err(Error::Generic { .. }) if tries < TRIES_MAX && begun.elapsed() < RETRY_TIMEOUT => tries += 1,
            done => return done,
        }
    }
}

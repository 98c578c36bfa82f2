//! An object that is read from its beginning to its end, however long it is: a piece is read while the next one is on its way.

use crate::error::{FileError, FileErrorKind, FileResult};
use crate::remote::{failed, handle, wait};
use object_store::aws::AmazonS3;
use object_store::path::Path as ObjectPath;
use object_store::{Error, GetOptions, ObjectStore, ObjectStoreExt};
use std::io::{self, Read};
use std::sync::Arc;
use tokio::task::JoinHandle;

/// What one request fetches: two of them are held.
const PIECE_BYTES: u64 = 8 << 20;

/// An object that is being read. If somebody replaces it meanwhile, the next read is an error, and no mixture of both.
#[derive(Debug)]
pub struct ObjectReader {
    shown: String,
    store: Arc<AmazonS3>,
    object: ObjectPath,
    version: Option<String>,
    bytes: u64,
    /// Where the next request begins.
    asked: u64,
    next: Option<JoinHandle<Result<Vec<u8>, Error>>>,
    piece: Vec<u8>,
    /// How much of the piece was read.
    read: usize,
}

impl ObjectReader {
    /// Looks at an object. Nothing of it is fetched yet.
    pub(crate) fn open(shown: String, store: Arc<AmazonS3>, object: ObjectPath) -> FileResult<Self> {
        let (of, name) = (store.clone(), object.clone());
        let found = wait(async move { of.head(&name).await }).map_err(failed(&shown))?;
        let (version, bytes) = (found.e_tag, found.size);
        Ok(Self { shown, store, object, version, bytes, asked: 0, next: None, piece: Vec::new(), read: 0 })
    }

    /// Its length.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    fn ask(&mut self) {
        if self.asked == self.bytes {
            return;
        }
        let range = self.asked..self.bytes.min(self.asked + PIECE_BYTES);
        self.asked = range.end;
        let options =
            GetOptions { range: Some(range.into()), if_match: self.version.clone(), ..GetOptions::default() };
        let (store, object) = (self.store.clone(), self.object.clone());
        let fetch = async move { Ok(store.get_opts(&object, options).await?.bytes().await?.into()) };
        self.next = Some(handle().spawn(fetch));
    }

    /// Waits for the piece that is on its way, and asks for the next one.
    fn advance(&mut self) -> FileResult<()> {
        if self.next.is_none() {
            self.ask();
        }
        let expected = self.asked;
        let Some(next) = self.next.take() else { return Ok(()) };
        let fetched = wait(next).map_err(|error| {
            FileError::new(FileErrorKind::Io, format!("\"{}\": a request was given up: {error}", self.shown))
        })?;
        let begin = expected.saturating_sub(1) / PIECE_BYTES * PIECE_BYTES;
        (self.piece, self.read) = (fetched.map_err(failed(&self.shown))?, 0);
        if self.piece.len() as u64 != expected - begin {
            let words = format!("\"{}\": the server sends another length than it says", self.shown);
            return Err(FileError::new(FileErrorKind::Io, words));
        }
        self.ask();
        Ok(())
    }
}

impl Read for ObjectReader {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if self.read == self.piece.len() {
            (self.piece, self.read) = (Vec::new(), 0);
            self.advance().map_err(io::Error::other)?;
        }
        let taken = into.len().min(self.piece.len() - self.read);
        into[..taken].copy_from_slice(&self.piece[self.read..self.read + taken]);
        self.read += taken;
        Ok(taken)
    }
}

impl Drop for ObjectReader {
    fn drop(&mut self) {
        if let Some(next) = &self.next {
            next.abort();
        }
    }
}

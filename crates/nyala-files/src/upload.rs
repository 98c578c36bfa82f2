//! An object that is being written, in parts while the rows come. It is there when the last request is answered, and not
//! before: that is how S3 puts parts together.

use crate::bucket::Bucket;
use crate::error::{FileError, FileErrorKind, FileResult};
use crate::remote::{failed, handle, wait};
use object_store::aws::AmazonS3;
use object_store::path::Path as ObjectPath;
use object_store::{Error, MultipartUpload, ObjectStoreExt, PutPayload};
use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use tokio::task::JoinHandle;

/// The length of a part: all but the last have the same, which some servers want, and no less than 5 MiB.
const PART_BYTES: usize = 8 << 20;
/// S3 takes no more parts of an object.
const PARTS_MAX: usize = 10_000;
/// Parts that are on their way while the next one is filled.
const IN_FLIGHT_MAX: usize = 2;

/// An object on its way.
#[derive(Debug)]
pub(crate) struct Upload {
    shown: String,
    store: Arc<AmazonS3>,
    object: ObjectPath,
    /// What is not sent yet, less than a part.
    buffer: Vec<u8>,
    /// `None` as long as there is only one part, or after the end.
    parts: Option<Box<dyn MultipartUpload>>,
    in_flight: VecDeque<JoinHandle<Result<(), Error>>>,
    begun: usize,
}

impl Upload {
    pub(crate) fn begin(bucket: &Bucket, path: &str) -> FileResult<Self> {
        let (store, object) = bucket.place(path)?;
        let shown = bucket.shown(path);
        let (buffer, in_flight) = (Vec::new(), VecDeque::new());
        Ok(Self { shown, store, object, buffer, parts: None, in_flight, begun: 0 })
    }

    /// The memory that is held.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.buffer.capacity() + self.in_flight.len() * PART_BYTES
    }

    pub(crate) fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let taken = bytes.len().min(PART_BYTES - self.buffer.len());
        self.buffer.extend_from_slice(&bytes[..taken]);
        if self.buffer.len() == PART_BYTES {
            self.send_part().map_err(io::Error::other)?;
        }
        Ok(taken)
    }

    /// Sends the rest. The object is there afterwards.
    pub(crate) fn finish(&mut self) -> FileResult<()> {
        if self.parts.is_none() {
            let (store, object) = (self.store.clone(), self.object.clone());
            let all = PutPayload::from(std::mem::take(&mut self.buffer));
            let put = wait(async move { store.put(&object, all).await });
            return put.map(|_| ()).map_err(failed(&self.shown));
        }
        if !self.buffer.is_empty() {
            self.send_part()?;
        }
        while !self.in_flight.is_empty() {
            self.await_part()?;
        }
        let Some(mut parts) = self.parts.take() else { return Ok(()) };
        let (parts, completed) = wait(async move {
            let completed = parts.complete().await;
            (parts, completed)
        });
        completed.map(|_| ()).map_err(failed(&self.shown)).inspect_err(|_| self.parts = Some(parts))
    }

    /// Removes the parts that were sent. What cannot be removed, rules of the bucket have to.
    pub(crate) fn abort(&mut self) {
        for part in self.in_flight.drain(..) {
            part.abort();
        }
        if let Some(mut parts) = self.parts.take() {
            drop(wait(async move { parts.abort().await }));
        }
    }

    fn send_part(&mut self) -> FileResult<()> {
        if self.begun == PARTS_MAX {
            let message = format!(
                "\"{}\": an object has at most {PARTS_MAX} parts, {} GiB: write several, with PARTITION_BY",
                self.shown,
                (PARTS_MAX * PART_BYTES) >> 30
            );
            return Err(FileError::new(FileErrorKind::TooLarge, message));
        }
        if self.parts.is_none() {
            let (store, object) = (self.store.clone(), self.object.clone());
            let begun = wait(async move { store.put_multipart(&object).await });
            self.parts = Some(begun.map_err(failed(&self.shown))?);
        }
        while self.in_flight.len() >= IN_FLIGHT_MAX {
            self.await_part()?;
        }
        let part = PutPayload::from(std::mem::replace(&mut self.buffer, Vec::with_capacity(PART_BYTES)));
        let parts = self.parts.as_mut().expect("it was begun above");
        // Polled by the other thread, but begun here: requests need its timers.
        let _context = handle().enter();
        self.in_flight.push_back(handle().spawn(parts.put_part(part)));
        self.begun += 1;
        Ok(())
    }

    /// Waits for the oldest part that is on its way.
    fn await_part(&mut self) -> FileResult<()> {
        let Some(part) = self.in_flight.pop_front() else { return Ok(()) };
        let sent = wait(part).map_err(|error| {
            FileError::new(FileErrorKind::Io, format!("\"{}\": a part was given up: {error}", self.shown))
        })?;
        sent.map_err(failed(&self.shown))
    }
}

//! Reads a file of BoltDB, the key-value store of InfluxDB 2.x, as one transaction left it.
//!
//! ```text
//! page:    number (8) · kind (2) · count (2) · overflow: pages that belong to it besides (4) │ elements
//! meta:    0xED0CDAED · version 2 · page size (4) · flags (4) · root bucket: page (8) · sequence (8) · freelist (8)
//!          · pages of the file (8) · transaction (8) · FNV-1a of what is before (8)
//! branch:  position of the key (4) · its length (4) · page (8) │ …
//! leaf:    1 if the value is a bucket (4) · position of the key (4) · lengths of key and value (4 + 4) │ …
//! bucket:  page (8) · sequence (8) │ if the page is 0: a page of its own, with no number
//! ```
//!
//! Numbers have their lowest byte first. Positions count from the element. Pages 0 and 1 are metas; the one with the newest
//! transaction counts. Nothing of the file is trusted: what leads out of a page or of the file is an error.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

const MAGIC: u32 = 0xED0C_DAED;
const VERSION: u32 = 2;
const HEADER_BYTES: usize = 16;
const META_BYTES: usize = 64;
const BUCKET_BYTES: usize = 16;
const BRANCH: u16 = 1;
const LEAF: u16 = 2;
/// Page sizes that BoltDB can have: powers of two from here on, if the first meta does not tell.
const PAGE_BYTES_MIN: u64 = 1024;
const PAGE_SIZES: u32 = 15;
/// A page with its overflow.
const PAGE_BYTES_MAX: u64 = 256 << 20;
/// More pages from the root of a tree to a leaf than any has: BoltDB keeps its trees flat.
const DEPTH_MAX: usize = 64;
/// Keys and values of a bucket.
const BUCKET_BYTES_MAX: usize = 256 << 20;

/// A key and its value.
pub type Pair = (Vec<u8>, Vec<u8>);

/// An open file.
#[derive(Debug)]
pub struct BoltFile {
    file: File,
    file_bytes: u64,
    page_bytes: u64,
    root: u64,
}

/// The newest state that a meta page tells.
#[derive(Debug, Clone, Copy)]
struct Meta {
    page_bytes: u64,
    root: u64,
    transaction: u64,
}

/// A value of a leaf, which may be a bucket.
enum Found<'a> {
    Value(&'a [u8]),
    Bucket(&'a [u8]),
}

/// Takes a key and its value.
type Target<'a> = dyn FnMut(&[u8], Found<'_>) -> Result<(), String> + 'a;

impl BoltFile {
    /// Opens a file. The error says why it is not one.
    pub fn open(path: &Path) -> Result<Self, String> {
        let unreadable = |error: std::io::Error| format!("cannot be read: {error}");
        let file = File::open(path).map_err(unreadable)?;
        let file_bytes = file.metadata().map_err(unreadable)?.len();
        let meta_at = |offset: u64| {
            let mut bytes = [0; HEADER_BYTES + META_BYTES];
            file.read_exact_at(&mut bytes, offset).ok()?;
            parse_meta(&bytes[HEADER_BYTES..])
        };
        let first = meta_at(0);
        let second = match first {
            Some(meta) => meta_at(meta.page_bytes),
            None => (0..PAGE_SIZES).find_map(|power| meta_at(PAGE_BYTES_MIN << power)),
        };
        let newest = first.into_iter().chain(second).max_by_key(|meta| meta.transaction);
        let meta = newest.ok_or("it is no file of BoltDB, or both of its first pages are damaged")?;
        Ok(Self { file, file_bytes, page_bytes: meta.page_bytes, root: meta.root })
    }

    /// The keys and values of a bucket, in ascending order of keys; `None` if there is no such bucket.
    pub fn bucket(&self, name: &[u8]) -> Result<Option<Vec<Pair>>, String> {
        let mut header = None;
        self.walk(self.root, 0, &mut self.pages(), &mut |key, found| {
            if let Found::Bucket(value) = found
                && key == name
            {
                header = Some(value.to_vec());
            }
            Ok(())
        })?;
        let Some(header) = header else { return Ok(None) };
        let (mut pairs, mut bytes) = (Vec::new(), 0);
        let mut keep = |key: &[u8], found: Found<'_>| {
            if let Found::Value(value) = found {
                bytes += key.len() + value.len();
                if bytes > BUCKET_BYTES_MAX {
                    return Err(format!("a bucket of more than {} MiB", BUCKET_BYTES_MAX >> 20));
                }
                pairs.push((key.to_vec(), value.to_vec()));
            }
            Ok(())
        };
        match number(&header, 0).ok_or_else(cut_off)? {
            0 => leaf(header.get(BUCKET_BYTES..).ok_or_else(cut_off)?, &mut keep)?,
            root => self.walk(root, 0, &mut self.pages(), &mut keep)?,
        }
        Ok(Some(pairs))
    }

    /// How many pages a tree can have.
    fn pages(&self) -> u64 {
        self.file_bytes / self.page_bytes
    }

    /// Hands the elements of a tree on, in order of keys. `depth` is how many pages are above, `left` how many it can have still.
    fn walk(&self, page: u64, depth: usize, left: &mut u64, target: &mut Target<'_>) -> Result<(), String> {
        if depth > DEPTH_MAX {
            return Err(format!("a tree of more than {DEPTH_MAX} pages from its root to a leaf"));
        }
        let bytes = self.page(page)?;
        // With those that overflow it: so all pages that are read, and held, are no longer than the file.
        let pages = bytes.len() as u64 / self.page_bytes;
        *left = left.checked_sub(pages).ok_or("pages that lead to themselves")?;
        match kind(&bytes)? {
            LEAF => leaf(&bytes, target),
            BRANCH => {
                for element in elements(&bytes, 16)? {
                    let child = number(element, 8).ok_or_else(cut_off)?;
                    self.walk(child, depth + 1, left, target)?;
                }
                Ok(())
            }
            other => Err(format!("page {page} is of kind {other}, which holds no keys")),
        }
    }

    /// The bytes of a page, with those that overflow it.
    fn page(&self, page: u64) -> Result<Vec<u8>, String> {
        let outside = || format!("page {page} is outside of the file");
        let offset = page.checked_mul(self.page_bytes).ok_or_else(outside)?;
        let mut header = [0; HEADER_BYTES];
        self.file.read_exact_at(&mut header, offset).map_err(|_| outside())?;
        let overflow = u32::from_le_bytes(*header.last_chunk().expect("16 bytes"));
        let length = (u64::from(overflow) + 1) * self.page_bytes;
        if length > PAGE_BYTES_MAX || offset.checked_add(length).is_none_or(|end| end > self.file_bytes) {
            return Err(outside());
        }
        let mut bytes = vec![0; length as usize];
        self.file.read_exact_at(&mut bytes, offset).map_err(|error| format!("page {page}: {error}"))?;
        Ok(bytes)
    }
}

fn cut_off() -> String {
    "a page is cut off".to_owned()
}

fn word(bytes: &[u8], at: usize) -> Option<usize> {
    Some(u32::from_le_bytes(*bytes.get(at..)?.first_chunk()?) as usize)
}

fn number(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

fn parse_meta(bytes: &[u8]) -> Option<Meta> {
    let is_meta = word(bytes, 0)? == MAGIC as usize && word(bytes, 4)? == VERSION as usize;
    let page_bytes = word(bytes, 8)? as u64;
    let is_whole = number(bytes, 56)? == fnv_1a(&bytes[..56]);
    let is_size = page_bytes.is_power_of_two() && page_bytes >= PAGE_BYTES_MIN;
    (is_meta && is_whole && is_size).then_some(())?;
    Some(Meta { page_bytes, root: number(bytes, 16)?, transaction: number(bytes, 48)? })
}

fn fnv_1a(bytes: &[u8]) -> u64 {
    let fold = |state: u64, byte: &u8| (state ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3);
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, fold)
}

fn kind(page: &[u8]) -> Result<u16, String> {
    Ok(u16::from_le_bytes(*page.get(8..).and_then(<[u8]>::first_chunk).ok_or_else(cut_off)?))
}

/// The bytes of a page from each of its elements on.
fn elements(page: &[u8], element_bytes: usize) -> Result<impl Iterator<Item = &[u8]>, String> {
    let count = u16::from_le_bytes(*page.get(10..).and_then(<[u8]>::first_chunk).ok_or_else(cut_off)?);
    let count = usize::from(count);
    if HEADER_BYTES + count * element_bytes > page.len() {
        return Err(cut_off());
    }
    Ok((0..count).map(move |index| &page[HEADER_BYTES + index * element_bytes..]))
}

fn leaf(page: &[u8], target: &mut Target<'_>) -> Result<(), String> {
    if kind(page)? != LEAF {
        return Err("a bucket without a leaf".to_owned());
    }
    for element in elements(page, 16)? {
        let [flags, position, key_bytes, value_bytes] =
            [0, 4, 8, 12].map(|at| word(element, at).unwrap_or(0));
        let key = element.get(position..).and_then(|rest| rest.get(..key_bytes)).ok_or_else(cut_off)?;
        let value = element[position + key_bytes..].get(..value_bytes).ok_or_else(cut_off)?;
        target(key, if flags & 1 == 1 { Found::Bucket(value) } else { Found::Value(value) })?;
    }
    Ok(())
}

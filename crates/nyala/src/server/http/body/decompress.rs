//! Decompresses bodies into the buffer that they are parsed in: gzip (RFC 1952, any number of members) and zstd (RFC
//! 8878). The output is bounded and charged as it grows, so that a small body cannot become a very large one.

use super::buffer::{BodyCharge, Buffer};
use super::inflate::inflate;
use flate2::{Decompress, FlushDecompress, Status};
use zstd::zstd_safe::{self, DCtx, DParameter, InBuffer, OutBuffer};

/// Line protocol rarely compresses better than by this factor, so no more is reserved for gzip in advance.
const USUAL_FACTOR: usize = 16;
/// The buffer grows by at least this much.
const STEP_BYTES: usize = 64 << 10;
/// The largest window of zstd: 8 MiB, which RFC 8878 recommends to support and which all levels below 20 keep to.
const ZSTD_WINDOW_LOG_MAX: u32 = 23;

/// Why a body was not decompressed.
#[derive(Debug)]
pub(super) enum Error {
    /// Its decompressed length exceeds the limit.
    TooLarge,
    /// There is not enough memory now.
    OutOfMemory(nyala_core::Error),
    /// It does not have the format that it declares.
    Corrupt(String),
}

impl From<nyala_core::Error> for Error {
    fn from(error: nyala_core::Error) -> Self {
        Error::OutOfMemory(error)
    }
}

fn corrupt(words: &str) -> Error {
    Error::Corrupt(words.to_owned())
}

/// InfluxDB's message for a body that is cut off; clients may know it.
fn unexpected_eof() -> Error {
    corrupt("unexpected EOF")
}

/// Makes room in a full buffer, or fails when the limit is exceeded.
fn make_room(into: &mut Buffer, limit_bytes: usize, charge: &mut BodyCharge) -> Result<(), Error> {
    if into.bytes.len() > limit_bytes {
        return Err(Error::TooLarge);
    }
    if into.bytes.len() == into.bytes.capacity() {
        into.reserve(STEP_BYTES, limit_bytes + STEP_BYTES, charge)?;
    }
    Ok(())
}

/// Decompresses the members of a gzip file.
pub(super) fn gzip(
    compressed: &[u8],
    into: &mut Buffer,
    limit_bytes: usize,
    charge: &mut BodyCharge,
) -> Result<(), Error> {
    // A gzip file ends with the length of its last member, which is usually the only one.
    let declared_bytes = compressed.last_chunk().map_or(0, |declared| u32::from_le_bytes(*declared) as usize);
    let likely_bytes = declared_bytes.min(compressed.len().saturating_mul(USUAL_FACTOR)).min(limit_bytes);
    into.reserve(likely_bytes, likely_bytes, charge)?;
    let may_fit = declared_bytes <= into.bytes.capacity();
    // One for all members: a body may have a million of them, and making one costs more than such a member.
    let mut growing = None;
    let mut rest = compressed;
    while !rest.is_empty() {
        let start = into.bytes.len();
        rest = &rest[member_header_bytes(rest)?..];
        rest = match may_fit.then(|| inflate(rest, &mut into.bytes)).flatten() {
            Some(read) => &rest[read..],
            None => inflate_growing(&mut growing, rest, into, limit_bytes, charge)?,
        };
        let (trailer, behind) = rest.split_first_chunk::<8>().ok_or_else(unexpected_eof)?;
        let member = &into.bytes[start..];
        let declared = u64::from_le_bytes(*trailer);
        if declared != u64::from(crc32fast::hash(member)) | (member.len() as u64) << 32 {
            return Err(corrupt("gzip: invalid checksum: error in the data or on their way"));
        }
        rest = behind;
    }
    match into.bytes.len() > limit_bytes {
        true => Err(Error::TooLarge),
        false => Ok(()),
    }
}

/// Decompresses a member into a buffer that grows, or says why it cannot; returns what follows the member. `kept` is used for
/// the next member again.
fn inflate_growing<'a>(
    kept: &mut Option<Decompress>,
    mut rest: &'a [u8],
    into: &mut Buffer,
    limit_bytes: usize,
    charge: &mut BodyCharge,
) -> Result<&'a [u8], Error> {
    let inflate = kept.get_or_insert_with(|| Decompress::new(false));
    inflate.reset(false);
    loop {
        make_room(into, limit_bytes, charge)?;
        let (read, written) = (inflate.total_in(), inflate.total_out());
        let status = inflate.decompress_vec(rest, &mut into.bytes, FlushDecompress::Finish);
        let status = status.map_err(|_| corrupt("gzip: corrupt deflate stream"))?;
        rest = &rest[(inflate.total_in() - read) as usize..];
        let no_progress = inflate.total_in() == read && inflate.total_out() == written;
        match status {
            Status::StreamEnd => return Ok(rest),
            _ if into.bytes.len() < into.bytes.capacity() && (rest.is_empty() || no_progress) => {
                return Err(unexpected_eof());
            }
            _ => {}
        }
    }
}

/// The length of the header of a member.
fn member_header_bytes(member: &[u8]) -> Result<usize, Error> {
    const FIXED_BYTES: usize = 10;
    const HAS_CHECKSUM: u8 = 2;
    const HAS_EXTRA: u8 = 4;
    const HAS_NAME: u8 = 8;
    const HAS_COMMENT: u8 = 16;
    let header = member.first_chunk::<FIXED_BYTES>().ok_or_else(unexpected_eof)?;
    let flags = header[3];
    if header[..3] != [0x1f, 0x8b, 8] || flags & 0xe0 != 0 {
        return Err(corrupt("gzip: invalid header"));
    }
    let mut at = FIXED_BYTES;
    let from = |at: usize| member.get(at..).ok_or_else(unexpected_eof);
    if flags & HAS_EXTRA != 0 {
        let length = from(at)?.first_chunk::<2>().ok_or_else(unexpected_eof)?;
        at += 2 + usize::from(u16::from_le_bytes(*length));
    }
    for text in [HAS_NAME, HAS_COMMENT] {
        if flags & text != 0 {
            at += memchr::memchr(0, from(at)?).ok_or_else(unexpected_eof)? + 1;
        }
    }
    if flags & HAS_CHECKSUM != 0 {
        let declared = from(at)?.first_chunk::<2>().ok_or_else(unexpected_eof)?;
        if u16::from_le_bytes(*declared) != crc32fast::hash(&member[..at]) as u16 {
            return Err(corrupt("gzip: invalid header"));
        }
        at += 2;
    }
    from(at).map(|_| at)
}

/// Decompresses zstd frames.
pub(super) fn zstd(
    compressed: &[u8],
    into: &mut Buffer,
    limit_bytes: usize,
    charge: &mut BodyCharge,
) -> Result<(), Error> {
    let declared_bytes = zstd_safe::get_frame_content_size(compressed).ok().flatten().unwrap_or(0);
    if declared_bytes > limit_bytes as u64 {
        return Err(Error::TooLarge);
    }
    // With room for a whole frame, zstd needs no separate window.
    into.reserve(declared_bytes as usize, declared_bytes as usize, charge)?;
    let mut context = DCtx::create();
    context.set_parameter(DParameter::WindowLogMax(ZSTD_WINDOW_LOG_MAX)).map_err(failed)?;
    let mut charged_bytes = 0;
    let mut input = InBuffer::around(compressed);
    loop {
        make_room(into, limit_bytes, charge)?;
        let start = into.bytes.len();
        let mut output = OutBuffer::around_pos(&mut into.bytes, start);
        let expected = context.decompress_stream(&mut output, &mut input).map_err(failed)?;
        let held_bytes = context.sizeof();
        charge.grow(held_bytes.saturating_sub(charged_bytes))?;
        charged_bytes = charged_bytes.max(held_bytes);
        if input.pos() == compressed.len() && (expected == 0 || into.bytes.len() < into.bytes.capacity()) {
            charge.shrink(charged_bytes);
            return match expected {
                0 if into.bytes.len() <= limit_bytes => Ok(()),
                0 => Err(Error::TooLarge),
                _ => Err(corrupt("zstd: incomplete frame")),
            };
        }
    }
}

fn failed(code: usize) -> Error {
    match zstd_safe::get_error_name(code) {
        "Frame requires too much memory for decoding" => Error::Corrupt(format!(
            "zstd: the window is larger than {} MiB: pack at a level below 20 and without --long",
            (1 << ZSTD_WINDOW_LOG_MAX) >> 20
        )),
        words => Error::Corrupt(format!("zstd: {words}")),
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::buffer_pool::BufferPool;
    use super::*;
    use nyala_core::memory::MemoryBudget;
    use std::io::Write;

    const LIMIT_BYTES: usize = 4 << 20;

    fn packed(text: &[u8]) -> Vec<u8> {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
        encoder.write_all(text).and_then(|()| encoder.finish()).expect("it is packed in memory")
    }

    /// The decompressed text, or why there is none.
    fn unpacked(packed: &[u8]) -> Result<Vec<u8>, String> {
        let memory = MemoryBudget::new(64 << 20);
        let mut charge = BodyCharge::of(&memory);
        let mut into = Buffer::take(&BufferPool::for_bodies(&memory), &mut charge);
        let done = gzip(packed, &mut into, LIMIT_BYTES, &mut charge);
        assert_eq!(memory.total_bytes(), into.bytes.capacity() as u64, "all of the buffer is charged");
        done.map(|()| std::mem::take(&mut into.bytes)).map_err(|error| match error {
            Error::Corrupt(words) => words,
            other => format!("{other:?}"),
        })
    }

    fn lines(count: u64) -> Vec<u8> {
        let line =
            |n: u64| format!("m,host=h{} v={} {n}\n", n % 7, n.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40);
        (0..count).map(line).collect::<String>().into_bytes()
    }

    #[test]
    fn files_of_any_members_are_unpacked() {
        // The zeros are packed to less than anybody expects.
        let texts = [Vec::new(), b"m v=1 1".to_vec(), lines(9_000), vec![b'\n'; 1 << 20]];
        for first in &texts {
            assert!(unpacked(&packed(first)).as_ref() == Ok(first), "{} bytes", first.len());
            for second in &texts {
                let both = [packed(first), packed(second)].concat();
                let text = [&first[..], second].concat();
                assert!(unpacked(&both) == Ok(text), "{} and {} bytes", first.len(), second.len());
            }
        }
        let many = packed(b"m v=1 1\n").repeat(5_000);
        assert!(unpacked(&many) == Ok(b"m v=1 1\n".repeat(5_000)));
        // A last member that fits into no room in advance: all are unpacked while the buffer grows, by one decompressor.
        let mut growing = packed(b"m v=1 1\n").repeat(1_000);
        growing.extend(packed(&lines(2_000)).repeat(2));
        growing.extend(packed(&vec![b'\n'; 3 << 20]));
        let text = [b"m v=1 1\n".repeat(1_000), lines(2_000).repeat(2), vec![b'\n'; 3 << 20]].concat();
        assert!(unpacked(&growing) == Ok(text));
        for length in [LIMIT_BYTES, LIMIT_BYTES + 1, 2 * LIMIT_BYTES] {
            let fits = unpacked(&packed(&lines(200_000).repeat(2)[..length]));
            assert_eq!(fits.map(|text| text.len()).ok(), (length == LIMIT_BYTES).then_some(length));
        }
    }

    #[test]
    fn files_that_are_cut_off_or_damaged_are_refused() {
        for text in [lines(3), lines(2_000)] {
            let whole = packed(&text);
            for length in (1..whole.len()).step_by(1 + whole.len() / 300) {
                assert_eq!(unpacked(&whole[..length]), Err("unexpected EOF".to_owned()), "{length} bytes");
            }
            for bit in (0..whole.len() * 8).step_by(1 + whole.len() / 100) {
                let mut damaged = whole.clone();
                damaged[bit / 8] ^= 1 << (bit % 8);
                match unpacked(&damaged) {
                    // Nothing depends on it.
                    Ok(unpacked) => assert!(unpacked == text, "bit {bit}"),
                    Err(words) => {
                        assert!(!words.is_empty() && !matches!(bit / 8, 4..10), "bit {bit}: {words}")
                    }
                }
            }
            // Its length is another one than it says.
            for declared in [0, 1, text.len() as u32 - 1, text.len() as u32 + 1, u32::MAX] {
                let mut lying = whole.clone();
                let end = lying.len() - 4;
                lying[end..].copy_from_slice(&declared.to_le_bytes());
                let words = unpacked(&lying).expect_err("it lies");
                assert!(words.contains("invalid checksum"), "{declared}: {words}");
            }
        }
    }
}

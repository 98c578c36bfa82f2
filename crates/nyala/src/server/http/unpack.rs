//! Bodies that came packed, unpacked straight into the memory they are parsed in: gzip (RFC 1952, any number of members)
//! and zstd (RFC 8878). What is unpacked is bounded and charged as it grows, so that little cannot become very much.

use super::body::{Buffer, Hold};
use flate2::{Decompress, FlushDecompress, Status};
use zstd::zstd_safe::{self, DCtx, DParameter, InBuffer, OutBuffer};

/// Line protocol rarely packs better than so many times: more is reserved only when it is there.
const USUAL_FACTOR: usize = 16;
/// Room that is made when there is none left, at least.
const STEP_BYTES: usize = 64 << 10;
/// The largest window of zstd: 8 MiB, what RFC 8878 asks of everybody, and what all levels below 20 keep to.
const ZSTD_WINDOW_LOG_MAX: u32 = 23;

/// Why a body was not unpacked.
#[derive(Debug)]
pub(super) enum Error {
    /// Unpacked it is longer than it may be.
    TooLarge,
    /// There is no memory for it now.
    Refused(nyala_core::Error),
    /// It is not what it says it is.
    Broken(String),
}

impl From<nyala_core::Error> for Error {
    fn from(error: nyala_core::Error) -> Self {
        Error::Refused(error)
    }
}

fn broken(words: &str) -> Error {
    Error::Broken(words.to_owned())
}

/// What InfluxDB says, whose clients may know it.
fn cut_off() -> Error {
    broken("unexpected EOF")
}

/// Room in a buffer for what comes next, as long as that is not too much.
fn make_room(into: &mut Buffer, limit_bytes: usize, hold: &mut Hold) -> Result<(), Error> {
    if into.bytes.len() > limit_bytes {
        return Err(Error::TooLarge);
    }
    if into.bytes.len() == into.bytes.capacity() {
        into.reserve(STEP_BYTES, limit_bytes + STEP_BYTES, hold)?;
    }
    Ok(())
}

/// Unpacks the members of a gzip file.
pub(super) fn gzip(
    packed: &[u8],
    into: &mut Buffer,
    limit_bytes: usize,
    hold: &mut Hold,
) -> Result<(), Error> {
    // How long the last member is, which is usually the only one, stands at its end.
    if let Some(told) = packed.last_chunk::<4>() {
        let told_bytes = u32::from_le_bytes(*told) as usize;
        let likely_bytes = told_bytes.min(packed.len().saturating_mul(USUAL_FACTOR)).min(limit_bytes);
        into.reserve(likely_bytes, likely_bytes, hold)?;
    }
    let mut inflate = Decompress::new(false);
    let mut rest = packed;
    while !rest.is_empty() {
        let start = into.bytes.len();
        rest = &rest[member_head_bytes(rest)?..];
        inflate.reset(false);
        loop {
            make_room(into, limit_bytes, hold)?;
            let (read, written) = (inflate.total_in(), inflate.total_out());
            let status = inflate.decompress_vec(rest, &mut into.bytes, FlushDecompress::Finish);
            let status = status.map_err(|_| broken("gzip: corrupt deflate stream"))?;
            rest = &rest[(inflate.total_in() - read) as usize..];
            let stands_still = inflate.total_in() == read && inflate.total_out() == written;
            match status {
                Status::StreamEnd => break,
                _ if into.bytes.len() < into.bytes.capacity() && (rest.is_empty() || stands_still) => {
                    return Err(cut_off());
                }
                _ => {}
            }
        }
        let (trailer, behind) = rest.split_first_chunk::<8>().ok_or_else(cut_off)?;
        let member = &into.bytes[start..];
        let told = u64::from_le_bytes(*trailer);
        if told != u64::from(crc32fast::hash(member)) | (member.len() as u64) << 32 {
            return Err(broken("gzip: invalid checksum: error in the data or on their way"));
        }
        rest = behind;
    }
    match into.bytes.len() > limit_bytes {
        true => Err(Error::TooLarge),
        false => Ok(()),
    }
}

/// How long the head of a member is.
fn member_head_bytes(member: &[u8]) -> Result<usize, Error> {
    const FIXED_BYTES: usize = 10;
    const HAS_CHECKSUM: u8 = 2;
    const HAS_EXTRA: u8 = 4;
    const HAS_NAME: u8 = 8;
    const HAS_COMMENT: u8 = 16;
    let head = member.first_chunk::<FIXED_BYTES>().ok_or_else(cut_off)?;
    let flags = head[3];
    if head[..3] != [0x1f, 0x8b, 8] || flags & 0xe0 != 0 {
        return Err(broken("gzip: invalid header"));
    }
    let mut at = FIXED_BYTES;
    let from = |at: usize| member.get(at..).ok_or_else(cut_off);
    if flags & HAS_EXTRA != 0 {
        let length = from(at)?.first_chunk::<2>().ok_or_else(cut_off)?;
        at += 2 + usize::from(u16::from_le_bytes(*length));
    }
    for text in [HAS_NAME, HAS_COMMENT] {
        if flags & text != 0 {
            at += memchr::memchr(0, from(at)?).ok_or_else(cut_off)? + 1;
        }
    }
    if flags & HAS_CHECKSUM != 0 {
        let told = from(at)?.first_chunk::<2>().ok_or_else(cut_off)?;
        if u16::from_le_bytes(*told) != crc32fast::hash(&member[..at]) as u16 {
            return Err(broken("gzip: invalid header"));
        }
        at += 2;
    }
    from(at).map(|_| at)
}

/// Unpacks the frames of zstd.
pub(super) fn zstd(
    packed: &[u8],
    into: &mut Buffer,
    limit_bytes: usize,
    hold: &mut Hold,
) -> Result<(), Error> {
    let told_bytes = zstd_safe::get_frame_content_size(packed).ok().flatten().unwrap_or(0);
    if told_bytes > limit_bytes as u64 {
        return Err(Error::TooLarge);
    }
    // With room for all of a frame it is unpacked without a window.
    into.reserve(told_bytes as usize, told_bytes as usize, hold)?;
    let mut context = DCtx::create();
    context.set_parameter(DParameter::WindowLogMax(ZSTD_WINDOW_LOG_MAX)).map_err(failed)?;
    let mut charged_bytes = 0;
    let mut input = InBuffer::around(packed);
    loop {
        make_room(into, limit_bytes, hold)?;
        let start = into.bytes.len();
        let mut output = OutBuffer::around_pos(&mut into.bytes, start);
        let wanted = context.decompress_stream(&mut output, &mut input).map_err(failed)?;
        let held_bytes = context.sizeof();
        hold.grow(held_bytes.saturating_sub(charged_bytes))?;
        charged_bytes = charged_bytes.max(held_bytes);
        if input.pos() == packed.len() && (wanted == 0 || into.bytes.len() < into.bytes.capacity()) {
            hold.shrink(charged_bytes);
            return match wanted {
                0 if into.bytes.len() <= limit_bytes => Ok(()),
                0 => Err(Error::TooLarge),
                _ => Err(broken("zstd: incomplete frame")),
            };
        }
    }
}

fn failed(code: usize) -> Error {
    match zstd_safe::get_error_name(code) {
        "Frame requires too much memory for decoding" => Error::Broken(format!(
            "zstd: the window is larger than {} MiB: pack at a level below 20 and without --long",
            (1 << ZSTD_WINDOW_LOG_MAX) >> 20
        )),
        words => Error::Broken(format!("zstd: {words}")),
    }
}

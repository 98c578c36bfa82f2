//! Frames: the layout of one message on the wire, in both directions. This client sends no sidecars.
//!
//! ```text
//! u32 big-endian   length of all that follows
//! varint           header length       header (RequestHeader or ResponseHeader)
//! varint           body length         main message, then the sidecars
//! ```
//!
//! Sidecar offsets in the response header count from the first byte of the main message. Each sidecar is read from the
//! socket into its own buffer, which the allocator aligns, so that it can become an Arrow buffer without another copy.
//!
//! The server may be broken or hostile, so lengths are checked against each other and against the configured bound
//! before memory is reserved.

use bytes::{BufMut, Bytes, BytesMut};
use prost::Message;
use prost::encoding::{encode_varint, encoded_len_varint};
use tokio::io::{AsyncRead, AsyncReadExt};

use crate::error::{Error, Result};
use crate::pb::rpc::{RequestHeader, ResponseHeader};

/// The protocol's bound on sidecars in one message.
const MAX_SIDECARS: usize = 10_000;

/// A header holds an id and sidecar offsets (at most 6 bytes each).
const MAX_HEADER_BYTES: usize = 16 + 6 * MAX_SIDECARS;

/// Decoding a main message can take up to a hundred times its bytes, so it is bounded more tightly than sidecars: by
/// this when there are sidecars, else by a quarter of the bound on the whole message.
const MAX_MAIN_BYTES_BESIDE_SIDECARS: usize = 1 << 20;
const MAIN_DIVISOR: usize = 4;

/// One message from a server.
#[derive(Debug)]
pub(crate) struct Response {
    pub(crate) call_id: i32,
    pub(crate) is_error: bool,
    pub(crate) body: Bytes,
    pub(crate) sidecars: Vec<Vec<u8>>,
}

/// Lays out a request: length, header, body.
pub(crate) fn encode_request(header: &RequestHeader, body: &impl Message) -> Bytes {
    let header_len = header.encoded_len();
    let body_len = body.encoded_len();
    let total =
        encoded_len_varint(header_len as u64) + header_len + encoded_len_varint(body_len as u64) + body_len;
    let mut frame = BytesMut::with_capacity(4 + total);
    frame.put_u32(total as u32);
    encode_varint(header_len as u64, &mut frame);
    header.encode_raw(&mut frame);
    encode_varint(body_len as u64, &mut frame);
    body.encode_raw(&mut frame);
    frame.freeze()
}

/// Reads one message. `None` when the peer closed the connection between messages.
pub(crate) async fn read_response<R>(reader: &mut R, max_message_bytes: usize) -> Result<Option<Response>>
where
    R: AsyncRead + Unpin,
{
    let mut length = [0u8; 4];
    let mut have = 0;
    while have < 4 {
        let read = reader.read(&mut length[have..]).await?;
        if read == 0 {
            return if have == 0 { Ok(None) } else { Err(closed_early()) };
        }
        have += read;
    }
    let mut left = u32::from_be_bytes(length) as usize;
    if left > max_message_bytes {
        return Err(Error::protocol(format!(
            "the server announced a message of {left} bytes; the bound is {max_message_bytes}"
        )));
    }

    let header_len = read_varint(reader, &mut left).await?;
    if header_len > left || header_len > MAX_HEADER_BYTES {
        return Err(Error::protocol(format!("a header of {header_len} bytes does not fit its message")));
    }
    let header = ResponseHeader::decode(read_exactly(reader, header_len).await?.as_slice())?;
    left -= header_len;

    let body_len = read_varint(reader, &mut left).await?;
    if body_len != left {
        return Err(Error::protocol(format!("a body of {body_len} bytes in a message with {left} left")));
    }

    let offsets = &header.sidecar_offsets;
    if offsets.len() > MAX_SIDECARS {
        return Err(Error::protocol(format!("{} sidecars in one message", offsets.len())));
    }
    let in_order = offsets.windows(2).all(|pair| pair[0] <= pair[1]);
    if !in_order || offsets.last().is_some_and(|&last| last as usize > body_len) {
        return Err(Error::protocol("sidecar offsets are not in order within the message"));
    }
    let main_len = offsets.first().map_or(body_len, |&first| first as usize);
    let most =
        if offsets.is_empty() { max_message_bytes / MAIN_DIVISOR } else { MAX_MAIN_BYTES_BESIDE_SIDECARS };
    if main_len > most {
        return Err(Error::protocol(format!("a main message of {main_len} bytes; the bound is {most}")));
    }
    let body = Bytes::from(read_exactly(reader, main_len).await?);
    let mut sidecars = Vec::with_capacity(offsets.len());
    for (index, &start) in offsets.iter().enumerate() {
        let end = offsets.get(index + 1).map_or(body_len, |&next| next as usize);
        sidecars.push(read_exactly(reader, end - start as usize).await?);
    }
    Ok(Some(Response { call_id: header.call_id, is_error: header.is_error.unwrap_or(false), body, sidecars }))
}

async fn read_varint<R>(reader: &mut R, left: &mut usize) -> Result<usize>
where
    R: AsyncRead + Unpin,
{
    let mut value = 0u64;
    // Five groups of seven bits hold any length a u32 can announce.
    for shift in (0..35).step_by(7) {
        if *left == 0 {
            return Err(Error::protocol("a message ends inside a length"));
        }
        let byte = reader.read_u8().await?;
        *left -= 1;
        value |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return usize::try_from(value).map_err(|_| Error::protocol("a length beyond this machine"));
        }
    }
    Err(Error::protocol("a length of more than five bytes"))
}

async fn read_exactly<R>(reader: &mut R, length: usize) -> Result<Vec<u8>>
where
    R: AsyncRead + Unpin,
{
    let mut bytes = Vec::with_capacity(length);
    let mut limited = reader.take(length as u64);
    while bytes.len() < length {
        if limited.read_buf(&mut bytes).await? == 0 {
            return Err(closed_early());
        }
    }
    Ok(bytes)
}

fn closed_early() -> Error {
    Error::new(crate::ErrorKind::Network, "the connection closed in the middle of a message")
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::ErrorKind;
    use proptest::prelude::*;

    /// A response as a server would lay it out.
    pub(crate) fn encode_response(header: &ResponseHeader, body: &[u8]) -> Vec<u8> {
        let mut rest = Vec::new();
        encode_varint(header.encoded_len() as u64, &mut rest);
        header.encode(&mut rest).unwrap();
        encode_varint(body.len() as u64, &mut rest);
        rest.extend_from_slice(body);
        let mut frame = (rest.len() as u32).to_be_bytes().to_vec();
        frame.extend(rest);
        frame
    }

    fn read(bytes: &[u8]) -> Result<Option<Response>> {
        futures::executor::block_on(read_response(&mut &bytes[..], 1 << 20))
    }

    #[test]
    fn sidecars_are_split_at_their_offsets() {
        let header = ResponseHeader { call_id: 7, is_error: None, sidecar_offsets: vec![3, 3, 5] };
        let response = read(&encode_response(&header, b"abcdefgh")).unwrap().unwrap();
        assert_eq!(response.call_id, 7);
        assert_eq!(&response.body[..], b"abc");
        assert_eq!(response.sidecars, [b"".to_vec(), b"de".to_vec(), b"fgh".to_vec()]);
    }

    #[test]
    fn a_closed_connection_is_not_an_error_between_messages() {
        assert!(read(b"").unwrap().is_none());
        assert_eq!(read(b"\0\0").unwrap_err().kind(), ErrorKind::Network);
    }

    #[test]
    fn wrong_lengths_are_refused_before_memory_is_reserved() {
        assert_eq!(read(b"\xff\xff\xff\xff").unwrap_err().kind(), ErrorKind::Protocol);
        assert_eq!(read(b"\0\0\0\x02\x7f\0").unwrap_err().kind(), ErrorKind::Protocol);
        let header = ResponseHeader { call_id: 1, ..Default::default() };
        let main = encode_response(&header, &vec![0; 1 << 19]);
        assert_eq!(read(&main).unwrap_err().kind(), ErrorKind::Protocol, "half of the bound in one message");
        for offsets in [vec![9], vec![4, 2]] {
            let header = ResponseHeader { call_id: 1, is_error: None, sidecar_offsets: offsets };
            assert_eq!(read(&encode_response(&header, b"abcdefgh")).unwrap_err().kind(), ErrorKind::Protocol);
        }
    }

    proptest! {
        #[test]
        fn no_bytes_make_the_reader_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = read(&bytes);
        }

        #[test]
        fn a_damaged_frame_never_panics(
            offsets in proptest::collection::vec(0u32..40, 0..5),
            body in proptest::collection::vec(any::<u8>(), 0..40),
            damage in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4),
        ) {
            let header = ResponseHeader { call_id: 1, is_error: Some(false), sidecar_offsets: offsets };
            let mut frame = encode_response(&header, &body);
            for (position, byte) in damage {
                let position = position.index(frame.len());
                frame[position] = byte;
            }
            if let Ok(Some(response)) = read(&frame) {
                let bytes = response.body.len() + response.sidecars.iter().map(Vec::len).sum::<usize>();
                prop_assert!(bytes <= frame.len());
            }
        }
    }
}

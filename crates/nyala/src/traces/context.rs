//! The trace that a client has begun: the header `traceparent` of W3C Trace Context.

/// Who asks for a span elsewhere, and whether that trace is recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct RemoteContext {
    pub(super) trace_id: [u8; 16],
    pub(super) parent_id: [u8; 8],
    pub(super) is_sampled: bool,
}

impl RemoteContext {
    /// Reads `00-<trace>-<parent>-<flags>`. A header that is wrong is ignored, as the standard demands: the trace begins here.
    pub(super) fn parse(header: &str) -> Option<Self> {
        let mut parts = header.trim().split('-');
        let (version, trace, parent, flags) = (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
        let [version] = bytes::<1>(version)?;
        // Later versions may have more parts; version 255 is none.
        if version == 0xff || (version == 0 && parts.next().is_some()) {
            return None;
        }
        let (trace_id, parent_id, [flags]) = (bytes::<16>(trace)?, bytes::<8>(parent)?, bytes::<1>(flags)?);
        let is_named = trace_id != [0; 16] && parent_id != [0; 8];
        is_named.then_some(Self { trace_id, parent_id, is_sampled: flags & 1 == 1 })
    }
}

/// Bytes of lower-case hexadecimal digits, as many as there must be.
fn bytes<const LENGTH: usize>(text: &str) -> Option<[u8; LENGTH]> {
    let digit = |digit: u8| match digit {
        b'0'..=b'9' => Some(digit - b'0'),
        b'a'..=b'f' => Some(digit - b'a' + 10),
        _ => None,
    };
    if text.len() != 2 * LENGTH {
        return None;
    }
    let mut bytes = [0; LENGTH];
    for (byte, digits) in bytes.iter_mut().zip(text.as_bytes().chunks_exact(2)) {
        *byte = (digit(digits[0])? << 4) | digit(digits[1])?;
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_are_read_as_the_standard_says() {
        let header = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
        let read = RemoteContext::parse(header).unwrap();
        assert_eq!((read.trace_id[0], read.trace_id[15]), (0x4b, 0x36));
        assert_eq!((read.parent_id, read.is_sampled), ([0, 0xf0, 0x67, 0xaa, 0x0b, 0xa9, 2, 0xb7], true));
        assert!(!RemoteContext::parse(&header.replace("-01", "-00")).unwrap().is_sampled);
        assert!(RemoteContext::parse(&header.replace("00-4", "01-4").replace("-01", "-01-more")).is_some());
        for wrong in [
            "",
            "00",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7",
            "ff-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-more",
            "00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01",
            "00-00000000000000000000000000000000-00f067aa0ba902b7-01",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01",
            "00-4bf92f3577b34da6a3ce929d0e0e473-000f067aa0ba902b7-01",
            "00-ä4bf92f3577b34da6a3ce929d0e0e47-00f067aa0ba902b7-01",
        ] {
            assert_eq!(RemoteContext::parse(wrong), None, "{wrong}");
        }
    }
}

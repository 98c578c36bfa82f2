//! Indents JSON by four spaces, as Go's encoder does.

/// Indents JSON that arrives in segments.
#[derive(Default)]
pub struct Indenter {
    depth: usize,
    in_string: bool,
    escaped: bool,
    /// Whether the last byte opened an object or array: empty ones stay on one line.
    opened: bool,
}

impl Indenter {
    /// Indents the next segment.
    pub fn indent(&mut self, json: &[u8]) -> Vec<u8> {
        let mut out = Vec::with_capacity(json.len() * 2);
        for byte in json {
            self.push(*byte, &mut out);
        }
        out
    }

    fn push(&mut self, byte: u8, out: &mut Vec<u8>) {
        if self.in_string {
            out.push(byte);
            self.in_string = self.escaped || byte != b'"';
            self.escaped = !self.escaped && byte == b'\\';
            return;
        }
        let closes = matches!(byte, b'}' | b']');
        if closes {
            self.depth = self.depth.saturating_sub(1);
        }
        if self.opened != closes {
            self.new_line(out);
        }
        self.opened = matches!(byte, b'{' | b'[');
        if self.opened {
            self.depth += 1;
        }
        self.in_string = byte == b'"';
        out.push(byte);
        match byte {
            b',' => self.new_line(out),
            b':' => out.push(b' '),
            _ => {}
        }
    }

    fn new_line(&self, out: &mut Vec<u8>) {
        out.push(b'\n');
        out.resize(out.len() + self.depth * 4, b' ');
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn segments_are_indented_like_the_whole() {
        let json = br#"{"a":[{},[],{"b\"{":[1,"x"]}],"c":null}"#;
        let whole = Indenter::default().indent(json);
        let text = "{\n    \"a\": [\n        {},\n        [],\n        {\n            \"b\\\"{\": [\n                1,\n                \"x\"\n            ]\n        }\n    ],\n    \"c\": null\n}";
        assert_eq!(String::from_utf8(whole.clone()).unwrap(), text);
        let mut indenter = Indenter::default();
        let pieces: Vec<u8> = json.iter().flat_map(|byte| indenter.indent(&[*byte])).collect();
        assert_eq!(pieces, whole);
    }
}

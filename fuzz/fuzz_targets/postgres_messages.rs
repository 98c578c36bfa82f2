//! Any messages of a client of PostgreSQL are answered: no panic, whole answers, and nothing runs on when the client has left.
#![no_main]

use libfuzzer_sys::fuzz_target;
use nyala_fuzz::postgres::Peer;
use std::sync::LazyLock;

static PEER: LazyLock<Peer> = LazyLock::new(Peer::default);

fuzz_target!(|input: &[u8]| {
    PEER.converse(input);
});

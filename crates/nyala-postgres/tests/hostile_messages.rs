//! Conversations as clients hold them, changed at random, with a server in this process: the body of the fuzz target
//! `postgres_messages`.
//!
//! `NYALA_FUZZ_ROUNDS` says how many (the default is for each change of the program), `NYALA_FUZZ_SEED` where they begin.

#[path = "../../../fuzz/src/postgres.rs"]
mod postgres;

use postgres::Peer;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

const ROUNDS: u64 = 150;

/// Texts of the simple protocol.
const STATEMENTS: [&str; 26] = [
    "BEGIN",
    "COMMIT",
    "ROLLBACK",
    "SAVEPOINT s; ROLLBACK TO s",
    "SELECT * FROM t ORDER BY a",
    "SELECT a, b FROM t WHERE a = 2",
    "SELECT count(*), 'x' || b FROM t GROUP BY b; SELECT 1/0; SELECT 2",
    "INSERT INTO t VALUES (7, 'seven') ON CONFLICT DO NOTHING",
    "UPDATE t SET b = b || 'x' WHERE a < 3 RETURNING *",
    "DELETE FROM t WHERE a = 7",
    "DECLARE c SCROLL CURSOR FOR SELECT a FROM t ORDER BY a",
    "DECLARE h CURSOR WITH HOLD FOR SELECT n FROM generate_series(1, 5000) AS s(n)",
    "FETCH 2 FROM c",
    "FETCH BACKWARD ALL FROM c",
    "FETCH ABSOLUTE -2 FROM c",
    "MOVE RELATIVE 3 IN c",
    "FETCH 1000 FROM h; CLOSE h",
    "CLOSE ALL",
    "PREPARE q (int) AS SELECT a FROM t WHERE a > $1",
    "EXECUTE q (1)",
    "EXPLAIN EXECUTE q ('2')",
    "DEALLOCATE ALL",
    "DISCARD ALL",
    "SET TimeZone = 'Europe/Berlin'; SHOW TimeZone",
    "COPY t FROM STDIN (FORMAT csv)",
    "COPY t TO STDOUT (FORMAT binary)",
];

fn message(letter: u8, body: &[u8]) -> Vec<u8> {
    [&[letter][..], &(body.len() as u16).to_be_bytes(), body].concat()
}

fn text(text: &str) -> Vec<u8> {
    [text.as_bytes(), b"\0"].concat()
}

/// A message of a client that knows the protocol.
fn usual_message(random: &mut SmallRng) -> Vec<u8> {
    let name = ["", "s", "q"][random.random_range(0..3)];
    let statement = STATEMENTS[random.random_range(0..STATEMENTS.len())];
    match random.random_range(0..12) {
        0..=4 => message(b'Q', statement.as_bytes()),
        5 => message(
            b'P',
            &[text(name), text("SELECT a, b FROM t WHERE a = $1 OR b = $2"), vec![0, 1, 0, 0, 0, 23]]
                .concat(),
        ),
        6 => message(b'P', &[text(name), text(statement), vec![0, 0]].concat()),
        7 => {
            let values = [0, 0, 0, 2, 0, 0, 0, 1, b'1', 255, 255, 255, 255, 0, 1, 0, 1];
            message(b'B', &[text(""), text(name), values.to_vec()].concat())
        }
        8 => message(b'D', &[vec![b"SP"[random.random_range(0..2)]], text(name)].concat()),
        9 => message(b'E', &[text(""), vec![0, 0, 0, random.random_range(0..3)]].concat()),
        10 => message(b'd', b"8,eight\n9,\"nine\"\n"),
        _ => message(b"SCcfH"[random.random_range(0..5)], &text("Sq")[..random.random_range(0..4)]),
    }
}

/// A conversation with some bytes changed, left out or doubled.
fn conversation(random: &mut SmallRng) -> Vec<u8> {
    let mut input: Vec<u8> = (0..random.random_range(1..12)).flat_map(|_| usual_message(random)).collect();
    for _ in 0..[0, 0, 1, 2, 8][random.random_range(0..5)] {
        let place = random.random_range(0..input.len());
        match random.random_range(0..4) {
            0 => input[place] = random.random(),
            1 => input[place] ^= 1 << random.random_range(0..8),
            2 => drop(input.remove(place)),
            _ => input.insert(place, random.random()),
        }
        if input.is_empty() {
            input.push(b'S');
        }
    }
    input
}

#[test]
fn a_server_answers_whatever_clients_send() {
    let number = |name: &str| std::env::var(name).ok().and_then(|value| value.parse().ok());
    let (rounds, seed) =
        (number("NYALA_FUZZ_ROUNDS").unwrap_or(ROUNDS), number("NYALA_FUZZ_SEED").unwrap_or(1));
    let peer = Peer::default();
    let held_bytes = peer.held_bytes();
    let mut answered = 0;
    for round in seed..seed + rounds {
        let input = conversation(&mut SmallRng::seed_from_u64(round));
        let run = std::panic::AssertUnwindSafe(|| peer.converse(&input));
        match std::panic::catch_unwind(run) {
            Ok(answer) => answered += answer.len(),
            // What has happened was printed already.
            Err(_) => panic!("conversation {round}: {}", input.escape_ascii()),
        }
    }
    assert!(answered > 300 * rounds as usize, "{answered} bytes: the server has refused nearly everything");
    // A raw beginning that is none is refused, and no memory stays.
    peer.converse(b"\0\0\0\0\x08\xff\xff\xff\xff");
    assert!(peer.held_bytes() <= held_bytes + (1 << 20), "{held_bytes} bytes became {}", peer.held_bytes());
}

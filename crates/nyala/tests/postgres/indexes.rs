//! Unique indexes beside several writers, transactions and crashes. What single statements answer is compared with a real
//! PostgreSQL in `psql.rs`.

use super::hostile::Raw;
use super::server::Server;
use super::statements::{does, query};
use super::transactions::{Kept, fails};
use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::Mutex;

/// How many values there are: so few that writers meet.
const VALUES: u64 = 12;

/// Numbers that look random, from a seed.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }

    fn value(&mut self) -> String {
        match self.below(VALUES + 2) {
            value if value < VALUES => format!("'{value}'"),
            _ => "NULL".to_owned(),
        }
    }

    /// A statement that writes some rows.
    fn statement(&mut self) -> String {
        let (id, one, other) = (self.below(30), self.value(), self.value());
        let number = self.below(VALUES);
        match self.below(9) {
            0 => format!("INSERT INTO p (word, n) VALUES ({one}, {number})"),
            1 => format!("INSERT INTO p (word, n) VALUES ({one}, {number}), ({other}, {})", number + 1),
            2 => format!("INSERT INTO p (word) VALUES ({one}), ({other}) ON CONFLICT DO NOTHING"),
            3 => format!(
                "INSERT INTO p (word, n) VALUES ({one}, 0) ON CONFLICT (word) DO UPDATE SET n = p.n + 1"
            ),
            4 => format!("UPDATE p SET word = {one} WHERE id % 30 = {id}"),
            5 => format!("UPDATE p SET n = n + 1 WHERE word = {one}"),
            6 => format!("DELETE FROM p WHERE word = {one}"),
            7 => format!("DELETE FROM p WHERE id % 30 = {id}"),
            _ => format!("UPDATE p SET id = id + 1000 WHERE id % 30 = {id}"),
        }
    }
}

/// Writes rows; a value that is taken, or somebody who was first, is what may happen.
fn write(address: SocketAddr, seed: u64, codes: &Mutex<BTreeSet<String>>) {
    let (mut numbers, mut raw) = (Numbers(seed), Raw::open(address));
    for _ in 0..150 {
        let statements = match numbers.below(4) {
            0 => {
                let end = if numbers.below(3) == 0 { "ROLLBACK" } else { "COMMIT" };
                vec!["BEGIN".to_owned(), numbers.statement(), numbers.statement(), end.to_owned()]
            }
            _ => vec![numbers.statement()],
        };
        for statement in statements {
            let answer = query(&mut raw, &statement);
            let Some(place) = answer.find("SERROR\0") else { continue };
            let code: String =
                answer[place..].split('\0').find_map(|own| own.strip_prefix('C')).unwrap_or("").to_owned();
            assert!(matches!(&*code, "23505" | "40001" | "25P02" | "21000"), "{statement}: {answer}");
            codes.lock().expect("nobody panicked").insert(code);
        }
    }
}

/// What a query of one text gives.
pub(crate) fn shown(raw: &mut Raw, statement: &str) -> String {
    let answer = query(raw, &format!("SELECT 'shown <' || coalesce(({statement})::text, '') || '>'"));
    let (_, rest) = answer.split_once("shown <").unwrap_or_else(|| panic!("{statement}: {answer}"));
    rest.split_once('>').expect("its end").0.to_owned()
}

/// Compares what the indexes find with what a scan finds.
fn check(raw: &mut Raw) {
    for column in ["word", "n"] {
        let twice = format!(
            "SELECT count(*) FROM (SELECT {column} FROM p WHERE {column} IS NOT NULL GROUP BY {column} HAVING count(*) > 1) s"
        );
        let found = shown(raw, &twice);
        assert!(column == "n" || found == "0", "{column}: {found}");
        for value in 0..VALUES + 1 {
            let of = |condition: &str| {
                format!("SELECT string_agg(id::text, ',' ORDER BY id) FROM p WHERE {condition}")
            };
            let by_index = shown(raw, &of(&format!("{column} = '{value}'")));
            let by_scan = shown(raw, &of(&format!("{column}::text || '' = '{value}'")));
            assert_eq!(by_index, by_scan, "{column} = {value}");
            if column == "word" && by_scan.is_empty() {
                // Nothing is left of whoever had it.
                does(raw, &["BEGIN", &format!("INSERT INTO p (word) VALUES ('{value}')"), "ROLLBACK"]);
            }
        }
    }
}

#[test]
fn rows_stay_apart_whoever_writes_and_however_the_server_ends() {
    let (kept, mut server) = Kept::new();
    let mut raw = Raw::open(kept.address);
    does(
        &mut raw,
        &["CREATE TABLE p (id serial PRIMARY KEY, word text UNIQUE, n int)", "CREATE INDEX ON p (n)"],
    );
    let plan = query(&mut raw, "EXPLAIN SELECT * FROM p WHERE word = 'x'");
    assert!(plan.contains("index=p_word_key"), "{plan}");
    let plan = query(&mut raw, "EXPLAIN SELECT * FROM p WHERE n = 5");
    assert!(plan.contains("index=p_n_idx"), "{plan}");
    let codes = Mutex::default();
    for round in 0..3 {
        std::thread::scope(|scope| {
            for writer in 0..3 {
                let (codes, address) = (&codes, kept.address);
                scope.spawn(move || write(address, round * 3 + writer, codes));
            }
        });
        check(&mut Raw::open(kept.address));
        server.kill();
        server = kept.start();
        check(&mut Raw::open(kept.address));
    }
    // The writers have met.
    let codes = codes.into_inner().expect("nobody panicked");
    assert!(codes.contains("23505"), "{codes:?}");
    assert!(server.stop().success());
}

/// Transactions that begin while an index is built know its table of the store, but not its entries.
#[test]
fn who_begins_while_an_index_is_built_finds_all_rows() {
    let server = Server::start(&[]);
    let mut other = Raw::open(server.address);
    does(
        &mut other,
        &[
            "CREATE TABLE t (id int PRIMARY KEY, word text)",
            "INSERT INTO t SELECT v, 'word ' || v % 1000 FROM generate_series(1, 200000) AS s(v)",
        ],
    );
    let address = server.address;
    let build = || {
        let building =
            std::thread::spawn(move || does(&mut Raw::open(address), &["CREATE INDEX words ON t (word)"]));
        let mut begun = Vec::new();
        while !building.is_finished() && begun.len() < 64 {
            let mut own = Raw::open(address);
            does(&mut own, &["BEGIN", "SELECT count(*) FROM pg_class"]);
            // It takes its snapshot now.
            does(&mut own, &["SELECT id FROM t WHERE id = 1"]);
            begun.push(own);
        }
        building.join().expect("it is built");
        begun
    };
    let mut begun = build();
    // The last one may have begun behind the end. On a busy machine, that may be the only one.
    for _ in 0..100 {
        if begun.len() > 1 {
            break;
        }
        begun.clear();
        does(&mut other, &["DROP INDEX words"]);
        begun = build();
    }
    assert!(begun.len() > 1, "{}", begun.len());
    for (number, mut own) in begun.into_iter().enumerate() {
        let written = query(&mut own, &format!("INSERT INTO t VALUES ({}, 'word 7')", 300_000 + number));
        // Whoever cannot write has to begin anew; whoever can finds everything.
        if written.contains("SERROR") {
            assert!(written.contains("C40001\0"), "{written}");
            continue;
        }
        let by_index = shown(&mut own, "SELECT count(*) FROM t WHERE word = 'word 7'");
        assert_eq!(by_index, shown(&mut own, "SELECT count(*) FROM t WHERE word || '' = 'word 7'"));
        query(&mut own, "COMMIT");
    }
    let by_index = shown(&mut other, "SELECT count(*) FROM t WHERE word = 'word 7'");
    assert_eq!(by_index, shown(&mut other, "SELECT count(*) FROM t WHERE word || '' = 'word 7'"));
}

#[test]
fn names_are_taken_once_however_they_are_committed() {
    let server = Server::start(&[]);
    let (mut own, mut other) = (Raw::open(server.address), Raw::open(server.address));
    does(&mut own, &["CREATE TABLE t (a int PRIMARY KEY, b int)", "CREATE INDEX i ON t (b)"]);
    does(&mut own, &["BEGIN", "ALTER INDEX i RENAME TO taken"]);
    does(&mut other, &["CREATE TABLE taken (a int)"]);
    fails(&mut own, "COMMIT", "40001");
    does(&mut other, &["DROP TABLE taken", "ALTER INDEX i RENAME TO taken"]);
    // UPSERT writes the last of several rows, with an index or without.
    does(&mut own, &["UPSERT INTO t VALUES (1, 1), (1, 2), (2, 3)", "UPSERT INTO t VALUES (1, 4)"]);
    assert_eq!(shown(&mut own, "SELECT string_agg(b::text, ',' ORDER BY a) FROM t"), "4,3");
    assert_eq!(shown(&mut own, "SELECT count(*) FROM t WHERE b = 2 OR b = 1"), "0");
    assert_eq!(shown(&mut own, "SELECT a FROM t WHERE b = 4"), "1");
}

#[test]
fn an_index_that_is_new_has_the_rows_of_all_transactions() {
    let server = Server::start(&[]);
    let (mut own, mut other) = (Raw::open(server.address), Raw::open(server.address));
    does(
        &mut other,
        &["CREATE TABLE t (id int PRIMARY KEY, word text)", "INSERT INTO t VALUES (1, 'one'), (2, 'two')"],
    );
    // A row that was written without its entry is not committed.
    does(&mut own, &["BEGIN", "INSERT INTO t VALUES (3, 'three')"]);
    does(&mut other, &["CREATE UNIQUE INDEX words ON t (word)"]);
    fails(&mut own, "COMMIT", "40001");
    does(&mut other, &["INSERT INTO t VALUES (3, 'three')"]);
    // A snapshot before the index has no entries.
    does(&mut other, &["DROP INDEX words"]);
    does(&mut own, &["BEGIN", "SELECT count(*) FROM t"]);
    does(&mut other, &["CREATE INDEX words ON t (word)", "DELETE FROM t WHERE id = 3"]);
    let by_word = "SELECT 'id ' || id FROM t WHERE word = 'three'";
    let plan = query(&mut own, &format!("EXPLAIN {by_word}"));
    assert!(plan.contains("index=words"), "{plan}");
    assert!(query(&mut own, by_word).contains("id 3"));
    does(&mut own, &["COMMIT"]);
    assert!(!query(&mut own, by_word).contains("id 3"));
    // Nor does it write any, and what it would have found by them is not lost.
    does(&mut other, &["DROP INDEX words"]);
    does(&mut own, &["BEGIN", "SELECT count(*) FROM t"]);
    does(&mut other, &["CREATE INDEX words ON t (word)"]);
    fails(&mut own, "INSERT INTO t VALUES (20, 'two')", "40001");
    does(&mut own, &["ROLLBACK"]);
    // Of two who give a row the same value, the first to commit wins.
    does(&mut other, &["DROP INDEX words", "CREATE UNIQUE INDEX words ON t (word)"]);
    does(&mut own, &["BEGIN", "INSERT INTO t VALUES (10, 'ten')"]);
    does(&mut other, &["INSERT INTO t VALUES (11, 'ten')"]);
    fails(&mut own, "COMMIT", "40001");
    fails(&mut own, "INSERT INTO t VALUES (10, 'ten')", "23505");
}

//! A log under a seeded workload, and what must be true of every disk that a crash of it leaves.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use nyala_core::ErrorKind;
use nyala_engine::fs::{FileSystem, FsRef, SimulatedFs};
use nyala_engine::wal::{self, ReplayReport, SyncPolicy, Ticket, Wal, WalOptions};
use parking_lot::Mutex;

pub(crate) const DIR: &str = "log";

/// Seeds of a random test: a few from `first` on, or as many as `NYALA_CRASH_ROUNDS` says.
pub(crate) fn seeds(first: u64, few: u64) -> std::ops::Range<u64> {
    let rounds = std::env::var("NYALA_CRASH_ROUNDS").ok().and_then(|rounds| rounds.parse().ok());
    first..first + rounds.unwrap_or(few)
}

/// A seeded generator (xorshift), other than the one of the disk.
#[derive(Debug, Clone)]
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x2545_F491_4F6C_DD1D) | 1)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 16
    }

    pub(crate) fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }
}

pub(crate) fn options(sync: SyncPolicy, segment_bytes: u64) -> WalOptions {
    WalOptions { sync, segment_bytes, ..WalOptions::default() }
}

pub(crate) fn disk() -> SimulatedFs {
    let fs = SimulatedFs::new();
    fs.create_dirs(Path::new(DIR)).unwrap();
    fs
}

pub(crate) fn fs_ref(fs: &SimulatedFs) -> FsRef {
    Arc::new(fs.clone())
}

/// Opens a log for writing without looking at its records.
pub(crate) fn open(fs: &SimulatedFs, options: WalOptions) -> Wal {
    Wal::open(fs_ref(fs), Path::new(DIR), options, u64::MAX, &mut |_| Ok(())).unwrap().0
}

/// The bytes of the record that is appended as the `index`th: of many lengths, and telling.
pub(crate) fn payload(seed: u64, index: u64) -> Vec<u8> {
    let mut random = Random::new(seed ^ index.wrapping_mul(0x9E37_79B9));
    let length = match random.below(10) {
        0 => random.below(3),
        1..=6 => random.below(200),
        7 | 8 => random.below(3000),
        _ => random.below(12_000),
    };
    let mut bytes = index.to_le_bytes().to_vec();
    bytes.extend((0..length).map(|_| random.next() as u8));
    bytes
}

/// Splits a payload into parts, as a caller that builds it from several buffers.
pub(crate) fn parts(payload: Vec<u8>, random: &mut Random) -> Vec<Bytes> {
    let mut rest = Bytes::from(payload);
    let mut parts = Vec::new();
    for _ in 0..random.below(4) {
        parts.push(rest.split_to(random.below(rest.len() as u64 + 1) as usize));
    }
    parts.push(rest);
    parts
}

pub(crate) fn replay(fs: &SimulatedFs, from: u64) -> (BTreeMap<u64, Bytes>, ReplayReport) {
    let mut records = BTreeMap::new();
    let mut last = 0;
    let report = wal::replay(&fs_ref(fs), Path::new(DIR), from, &mut |record| {
        assert!(record.sequence > last, "{} after {last}", record.sequence);
        last = record.sequence;
        records.insert(record.sequence, record.payload);
        Ok(())
    })
    .unwrap();
    assert_eq!(report.records, records.len() as u64);
    (records, report)
}

/// What the writers of a log know.
#[derive(Debug, Clone, Default)]
pub(crate) struct Knowledge {
    /// Sequence of every record handed in, with its index.
    pub(crate) submitted: BTreeMap<u64, u64>,
    pub(crate) acknowledged: BTreeSet<u64>,
    /// Failed, and said to be stored nowhere.
    pub(crate) refused: BTreeSet<u64>,
    /// Failed with an unknown outcome.
    pub(crate) unknown: BTreeSet<u64>,
    /// Lower sequences were given up.
    pub(crate) from: u64,
}

impl Knowledge {
    pub(crate) fn settle(&mut self, sequence: u64, outcome: Result<u64, nyala_core::Error>) {
        match outcome {
            Ok(stored) => {
                assert_eq!(stored, sequence);
                self.acknowledged.insert(sequence);
            }
            Err(error) if error.kind() == ErrorKind::Unknown => {
                self.unknown.insert(sequence);
            }
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::Retry, "{error}");
                self.refused.insert(sequence);
            }
        }
    }

    /// A recovery saw these records: they stay. Sequences that it did not see may be given out again.
    fn reopened(&mut self, seen: &BTreeSet<u64>, next_sequence: u64) {
        self.acknowledged.extend(seen.iter().filter(|sequence| self.unknown.contains(sequence)));
        self.unknown.retain(|sequence| !seen.contains(sequence));
        self.submitted.split_off(&next_sequence);
        self.acknowledged.split_off(&next_sequence);
        self.refused.split_off(&next_sequence);
        self.unknown.split_off(&next_sequence);
    }

    /// Checks a disk after a crash against what was known before it.
    pub(crate) fn check(&self, seed: u64, crashed: &SimulatedFs, sync: SyncPolicy) {
        let (records, report) = replay(crashed, self.from);
        assert_eq!(report.damage, [], "a crash is not damage");
        for (sequence, payload_read) in &records {
            match self.submitted.get(sequence) {
                Some(index) => assert_eq!(*payload_read, payload(seed, *index), "record {sequence}"),
                // Submitted, but the writer has not noted its sequence yet; its payload says who it is.
                None => assert!(self.submitted.keys().next_back().is_none_or(|last| sequence > last)),
            }
            assert!(!self.refused.contains(sequence), "record {sequence} was refused, and is there");
        }
        let last_acknowledged = self.acknowledged.last().copied().unwrap_or(0);
        for sequence in self.unknown.range(..last_acknowledged) {
            assert!(!records.contains_key(sequence), "record {sequence} was cut off, and is there");
        }
        if sync == SyncPolicy::Always {
            for sequence in self.acknowledged.range(self.from..) {
                assert!(records.contains_key(sequence), "record {sequence} was acknowledged, and is lost");
            }
        } else if let Some(last) = records.keys().next_back() {
            // Whatever the policy, no holes: what is there has everything before it.
            for sequence in self.acknowledged.range(self.from..*last) {
                assert!(records.contains_key(sequence), "record {sequence} is missing before {last}");
            }
        }
    }
}

/// A log, what is known of it, and the disks that crashes left, each with what was known then.
pub(crate) struct Workload {
    pub(crate) seed: u64,
    pub(crate) fs: SimulatedFs,
    pub(crate) sync: SyncPolicy,
    pub(crate) random: Random,
    pub(crate) knowledge: Arc<Mutex<Knowledge>>,
    pub(crate) crashed: Arc<Mutex<Vec<(SimulatedFs, Knowledge)>>>,
    segment_bytes: u64,
    wal: Option<Wal>,
    next_index: u64,
}

impl Workload {
    pub(crate) fn new(seed: u64, sync: SyncPolicy) -> Self {
        let mut random = Random::new(seed);
        let segment_bytes = [2048, 8192, 40_000][random.below(3) as usize];
        Self {
            seed,
            fs: disk(),
            sync,
            random,
            knowledge: Arc::default(),
            crashed: Arc::default(),
            segment_bytes,
            wal: None,
            next_index: 0,
        }
    }

    /// From now on the power fails before every change of the disk (in a copy of it).
    pub(crate) fn crash_everywhere(&self) {
        let (seed, knowledge, crashed) = (self.seed, self.knowledge.clone(), self.crashed.clone());
        self.fs.on_operation(move |fs, operation| {
            // At one moment, whichever thread changes the disk: what is known is on it, and what is not is not needed.
            let known = knowledge.lock();
            let seed = seed ^ (operation.index << 20);
            crashed.lock().push((fs.crash(seed), known.clone()));
        });
    }

    pub(crate) fn wal(&mut self) -> &Wal {
        if self.wal.is_none() {
            let (options, from) = (options(self.sync, self.segment_bytes), self.knowledge.lock().from);
            let mut seen = BTreeSet::new();
            let (wal, report) = Wal::open(fs_ref(&self.fs), Path::new(DIR), options, from, &mut |record| {
                seen.insert(record.sequence);
                Ok(())
            })
            .unwrap();
            assert_eq!(report.damage, []);
            self.knowledge.lock().reopened(&seen, wal.next_sequence());
            self.wal = Some(wal);
        }
        self.wal.as_ref().unwrap()
    }

    pub(crate) fn submit(&mut self) -> Ticket {
        let (index, seed) = (self.next_index, self.seed);
        self.next_index += 1;
        let parts = parts(payload(seed, index), &mut self.random);
        let knowledge = self.knowledge.clone();
        // Held over the submission, so that no crash knows less than its disk.
        let mut knowledge = knowledge.lock();
        let ticket = self.wal.as_ref().expect("opened before").submit(parts).unwrap();
        knowledge.submitted.insert(ticket.sequence(), index);
        ticket
    }

    /// Appends one record, or several at once.
    pub(crate) fn append(&mut self) {
        self.wal();
        let count = if self.random.below(3) == 0 { 1 + self.random.below(6) } else { 1 };
        let tickets: Vec<Ticket> = (0..count).map(|_| self.submit()).collect();
        for ticket in tickets {
            let sequence = ticket.sequence();
            let outcome = ticket.wait();
            self.knowledge.lock().settle(sequence, outcome);
        }
    }

    pub(crate) fn truncate(&mut self) {
        let sequence = self.some_are_not_needed();
        self.wal().truncate_before(sequence).unwrap();
    }

    /// Whether it succeeds or not, nothing is lost.
    pub(crate) fn rest(&mut self) {
        let sequence = self.some_are_not_needed();
        let _ = self.wal().rest(sequence, 0);
    }

    /// Raises the sequence from which on records are needed, and returns it.
    fn some_are_not_needed(&mut self) -> u64 {
        let next = self.wal().next_sequence();
        let behind = self.random.below(40);
        let mut knowledge = self.knowledge.lock();
        knowledge.from = knowledge.from.max(next.saturating_sub(behind));
        knowledge.from
    }

    /// Closes the log; the next use opens it again.
    pub(crate) fn close(&mut self) {
        self.wal = None;
    }

    /// The process is killed; the next one finds everything written, and the power may still fail.
    pub(crate) fn kill(&mut self) {
        let snapshot = self.fs.snapshot();
        // Its dropping goes to the old disk, which nobody looks at any more.
        let hooked = std::mem::replace(&mut self.fs, snapshot);
        hooked.on_operation(|_, _| {});
        self.wal = None;
        self.crash_everywhere();
    }

    /// Checks every crash so far; of some the log is opened and written again, and crashes again.
    pub(crate) fn check_crashes(&mut self) {
        let crashed = std::mem::take(&mut *self.crashed.lock());
        assert!(!crashed.is_empty());
        for (index, (disk, known)) in crashed.into_iter().enumerate() {
            known.check(self.seed, &disk, self.sync);
            if index % 7 == 0 {
                self.go_on_after(&disk, known);
            }
        }
    }

    fn go_on_after(&mut self, disk: &SimulatedFs, known: Knowledge) {
        let mut second = Self {
            seed: self.seed,
            fs: disk.clone(),
            sync: self.sync,
            random: Random::new(self.random.next()),
            knowledge: Arc::default(),
            crashed: Arc::default(),
            segment_bytes: self.segment_bytes,
            wal: None,
            next_index: 1_000_000,
        };
        // What is there now has been seen by a recovery, so it must stay.
        let (records, _) = replay(disk, known.from);
        let seen = records.keys().copied();
        *second.knowledge.lock() = Knowledge {
            submitted: known
                .submitted
                .into_iter()
                .filter(|(sequence, _)| records.contains_key(sequence))
                .collect(),
            acknowledged: seen.collect(),
            from: known.from,
            ..Knowledge::default()
        };
        second.wal();
        second.crash_everywhere();
        for _ in 0..3 {
            second.append();
        }
        second.close();
        let crashed = std::mem::take(&mut *second.crashed.lock());
        for (disk, known) in crashed {
            known.check(self.seed, &disk, self.sync);
        }
    }
}

/// Waits for something that another thread does soon.
pub(crate) fn eventually(what: &str, mut happened: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !happened() {
        assert!(begun.elapsed() < Duration::from_secs(60), "{what} did not happen");
        std::thread::sleep(Duration::from_millis(5));
    }
}

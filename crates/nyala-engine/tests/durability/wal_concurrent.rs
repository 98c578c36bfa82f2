//! Many threads and futures at once, on the machine's disk.

use std::collections::HashMap;
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;

use nyala_engine::fs::{FsRef, RealFs};
use nyala_engine::wal::{SyncPolicy, Wal, replay};

use crate::support::{Random, options, parts};

const THREADS: u64 = 8;
const RECORDS: u64 = 60;

fn payload(thread: u64, index: u64, random: &mut Random) -> Vec<u8> {
    let mut bytes = [thread.to_le_bytes(), index.to_le_bytes()].concat();
    bytes.resize(16 + random.below(20_000) as usize, thread as u8);
    bytes
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

fn block_on<F: Future>(future: F) -> F::Output {
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    let mut future = pin!(future);
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(output) => return output,
            Poll::Pending => std::thread::park(),
        }
    }
}

#[test]
fn concurrent_appenders_keep_their_order_and_share_syncs() {
    let dir = tempfile::tempdir().unwrap();
    let fs: FsRef = Arc::new(RealFs);
    let options = options(SyncPolicy::Always, 1 << 20);
    let (wal, _) = Wal::open(fs.clone(), dir.path(), options, 1, &mut |_| Ok(())).unwrap();
    let sequences: Vec<Vec<u64>> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS)
            .map(|thread| {
                let wal = &wal;
                scope.spawn(move || {
                    let mut random = Random::new(thread + 1);
                    let append = |index| {
                        let parts = parts(payload(thread, index, &mut random), &mut Random::new(index + 1));
                        let ticket = wal.submit(parts).unwrap();
                        // Half of them wait as a server does.
                        if thread % 2 == 0 { block_on(ticket).unwrap() } else { ticket.wait().unwrap() }
                    };
                    (0..RECORDS).map(append).collect()
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    let stats = wal.stats();
    assert_eq!(stats.records, THREADS * RECORDS);
    assert!(stats.groups < stats.records, "{stats:?}");
    assert!(stats.segments > 3);
    drop(wal);
    let mut seen = HashMap::new();
    let report = replay(&fs, dir.path(), 1, &mut |record| {
        let thread = u64::from_le_bytes(record.payload[..8].try_into().unwrap());
        let index = u64::from_le_bytes(record.payload[8..16].try_into().unwrap());
        assert!(record.payload[16..].iter().all(|byte| *byte == thread as u8));
        assert!(seen.insert(record.sequence, (thread, index)).is_none());
        Ok(())
    })
    .unwrap();
    assert_eq!((report.records, report.damage, report.torn), (THREADS * RECORDS, vec![], None));
    for (thread, sequences) in sequences.iter().enumerate() {
        assert!(sequences.is_sorted());
        for (index, sequence) in sequences.iter().enumerate() {
            assert_eq!(seen[sequence], (thread as u64, index as u64));
        }
    }
}

#[test]
fn a_dropped_log_has_written_what_was_submitted() {
    let dir = tempfile::tempdir().unwrap();
    let fs: FsRef = Arc::new(RealFs);
    let options = options(SyncPolicy::Interval(std::time::Duration::from_secs(60)), 1 << 16);
    let (wal, _) = Wal::open(fs.clone(), dir.path(), options, 1, &mut |_| Ok(())).unwrap();
    let tickets: Vec<_> = (0..100).map(|_| wal.submit(vec![vec![1; 3000].into()]).unwrap()).collect();
    drop(wal);
    assert!(tickets.into_iter().all(|ticket| ticket.wait().is_ok()));
    assert_eq!(replay(&fs, dir.path(), 1, &mut |_| Ok(())).unwrap().records, 100);
}

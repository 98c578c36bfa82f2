//! Signals: SIGTERM and SIGINT stop the server, a second one ends it at once, and others are ignored.
//!
//! Handlers are installed first of all, because a signal without a handler would end the process.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::{Duration, Instant};
use tokio::signal::unix::{Signal, SignalKind, signal};

/// A second signal within this time counts as part of the first: `timeout` signals the process and then its group.
const TOGETHER: Duration = Duration::from_millis(500);

/// Waits for signals.
pub(super) struct Signals {
    stops: Receiver<()>,
    ready: Arc<AtomicBool>,
}

impl Signals {
    /// Installs the handlers. Before [`Signals::stop_in_order`] is called, the first SIGTERM or SIGINT ends the
    /// process: what was acknowledged is on disk, and a recovery only reads.
    ///
    /// `hung_up` is called at each SIGHUP.
    pub(super) fn listen(hung_up: impl Fn() + Send + 'static) -> Result<Self, String> {
        let failed = |error: std::io::Error| format!("waiting for signals: {error}");
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(failed)?;
        let handled = runtime.block_on(async { Handled::new() }).map_err(failed)?;
        let (stop, stops) = sync_channel(1);
        let ready = Arc::new(AtomicBool::new(false));
        let seen = ready.clone();
        let body = move || runtime.block_on(handled.answer(&stop, &seen, hung_up));
        std::thread::Builder::new().name("signals".into()).spawn(body).map_err(failed)?;
        Ok(Self { stops, ready })
    }

    /// From now on the first SIGTERM or SIGINT makes [`Signals::wait_for_stop`] return.
    pub(super) fn stop_in_order(&self) {
        self.ready.store(true, Ordering::Relaxed);
    }

    /// Returns at SIGTERM or SIGINT.
    pub(super) fn wait_for_stop(&self) {
        self.stop_in_order();
        // The sending thread lives as long as the process, so this fails only when there is nothing to wait for.
        let _ = self.stops.recv();
    }
}

/// The signals that are handled.
struct Handled {
    terminate: Signal,
    interrupt: Signal,
    /// Certificates are read again by a task that handles it as well.
    hangup: Signal,
    ignored: [Signal; 4],
}

impl Handled {
    fn new() -> std::io::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            hangup: signal(SignalKind::hangup())?,
            ignored: [
                signal(SignalKind::user_defined1())?,
                signal(SignalKind::user_defined2())?,
                signal(SignalKind::alarm())?,
                signal(SignalKind::io())?,
            ],
        })
    }

    async fn answer(mut self, stop: &SyncSender<()>, ready: &AtomicBool, hung_up: impl Fn()) {
        let mut first: Option<Instant> = None;
        let [usr1, usr2, alarm, io] = &mut self.ignored;
        loop {
            let name = tokio::select! {
                _ = self.terminate.recv() => "SIGTERM",
                _ = self.interrupt.recv() => "SIGINT",
                _ = self.hangup.recv() => {
                    hung_up();
                    continue;
                }
                _ = usr1.recv() => "SIGUSR1",
                _ = usr2.recv() => "SIGUSR2",
                _ = alarm.recv() => "SIGALRM",
                _ = io.recv() => "SIGIO",
            };
            match first {
                _ if !matches!(name, "SIGTERM" | "SIGINT") => tracing::info!("{name} is ignored"),
                None if !ready.load(Ordering::Relaxed) => {
                    tracing::info!(
                        "{name} before the server was ready: it ends now, and the next start recovers again"
                    );
                    std::process::exit(0);
                }
                None => {
                    first = Some(Instant::now());
                    tracing::info!("{name}: stopping; a second one ends the server at once");
                    // The receiver waits for one message only.
                    let _ = stop.try_send(());
                }
                Some(first) if first.elapsed() < TOGETHER => {}
                Some(_) => {
                    tracing::warn!(
                        "a second signal, {name}: the server ends at once; what was acknowledged is in the log, and \
                         read from there at the next start"
                    );
                    std::process::exit(1);
                }
            }
        }
    }
}

//! An Apache Kudu cluster as the store.

use super::Storage;
use crate::backup::copies::CopiedStore;
use crate::config::Config;
use crate::server::health::Check;
use crate::server::metric::Metric;
use nyala_core::store::StoreRef;
use nyala_core::{Error, Result};
use nyala_kudu::{KuduLogin, KuduOptions, KuduStore};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use std::fmt::Display;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::runtime::Handle;

/// The cluster, and whether it answered when it was last asked.
pub(super) struct Kudu {
    store: Arc<KuduStore>,
    work: Handle,
    trouble: Mutex<Option<String>>,
}

impl Kudu {
    pub(super) fn open(config: &Config, work: Handle) -> Result<Self> {
        let masters = config.kudu_masters.clone().unwrap_or_default();
        let options = KuduOptions {
            prefix: config.kudu_prefix.clone(),
            replicas: config.kudu_replicas,
            buckets: config.kudu_buckets,
            ..KuduOptions::default()
        };
        let login = login(config)?;
        let store = Arc::new(work.block_on(KuduStore::connect(masters, login, options))?);
        Ok(Self { store, work, trouble: Mutex::default() })
    }
}

/// What the settings say of log-ins.
fn login(config: &Config) -> Result<KuduLogin> {
    let unreadable =
        |path: &Path, error: &dyn Display| Error::invalid(format!("{}: {error}", path.display()));
    if let Some(path) = &config.kudu_token_file {
        // It is read again at every log-in. What cannot be read now is a wrong setting.
        std::fs::read_to_string(path).map_err(|error| unreadable(path, &error))?;
    }
    let certificates = config.kudu_certificate.as_ref().map(|path| {
        let found: std::result::Result<Vec<CertificateDer<'static>>, _> =
            CertificateDer::pem_file_iter(path).and_then(Iterator::collect);
        let found = found.map_err(|error| unreadable(path, &error))?;
        match found.is_empty() {
            true => Err(unreadable(path, &"it holds no certificate in PEM")),
            false => Ok(found.iter().map(|certificate| certificate.to_vec()).collect()),
        }
    });
    Ok(KuduLogin {
        user: config.kudu_user.clone(),
        kerberos_service: config.kudu_kerberos.clone(),
        token_file: config.kudu_token_file.clone(),
        certificates: certificates.transpose()?.unwrap_or_default(),
        require_encryption: config.kudu_require_encryption,
    })
}

impl Storage for Kudu {
    fn store(&self) -> StoreRef {
        self.store.clone()
    }

    fn losses(&self) -> Vec<String> {
        Vec::new()
    }

    fn checks(&self) -> Vec<Check> {
        let trouble = self.trouble.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let check =
            |why| Check { name: "kudu", fails: true, message: format!("the cluster does not answer: {why}") };
        trouble.map(check).into_iter().collect()
    }

    fn maintain(&self) {
        let answer = self.work.block_on(self.store.is_reachable());
        *self.trouble.lock().unwrap_or_else(PoisonError::into_inner) =
            answer.err().map(|error| error.to_string());
    }

    fn copy_to(&self, _dir: &Path) -> Result<CopiedStore> {
        Err(Error::unsupported(
            "backup: the rows of this server are in Apache Kudu, which has tools of its own for backups (KuduBackup)",
        ))
    }

    fn metrics(&self) -> Vec<Metric> {
        let counts = self.store.client_metrics();
        let counter = Metric::counter;
        vec![
            counter("nyala_kudu_calls_total", "Calls to servers of the cluster.", counts.calls),
            counter("nyala_kudu_retries_total", "Attempts after the first.", counts.retries),
            counter("nyala_kudu_busy_answers_total", "Answers that the server is busy.", counts.busy_answers),
            counter("nyala_kudu_rows_written_total", "Rows written to the cluster.", counts.rows_written),
            counter("nyala_kudu_rows_scanned_total", "Rows received from the cluster.", counts.rows_scanned),
            counter("nyala_kudu_bytes_sent_total", "Bytes sent to the cluster.", counts.bytes_sent),
            counter(
                "nyala_kudu_bytes_received_total",
                "Bytes received from the cluster.",
                counts.bytes_received,
            ),
        ]
    }

    fn stop(&self) -> Result<()> {
        Ok(())
    }
}

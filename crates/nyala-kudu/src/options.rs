//! Settings of the store, and of log-ins to its cluster.

use kudu_client::ClientBuilder;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How long to wait for what another daemon is changing in the cluster, before looking again.
pub(crate) const CHANGED_PAUSE: Duration = Duration::from_millis(50);

/// How a store uses its cluster.
#[derive(Debug, Clone)]
pub struct KuduOptions {
    /// What names of tables in the cluster begin with; stores with different prefixes know nothing of each other.
    pub prefix: String,
    /// Copies of each tablet of a table made from now on; odd.
    pub replicas: i32,
    /// Hash buckets of each range of a table of series made from now on.
    pub buckets: u32,
    /// How long a write may take, all its attempts together.
    pub write_timeout: Duration,
    /// How long a batch of a scan may take.
    pub read_timeout: Duration,
}

impl Default for KuduOptions {
    fn default() -> Self {
        Self {
            prefix: "nyala".to_owned(),
            replicas: 3,
            buckets: 4,
            write_timeout: Duration::from_secs(30),
            read_timeout: Duration::from_secs(60),
        }
    }
}

/// How a store logs in to its cluster: by Kerberos, by a token, else by a user name that servers believe.
#[derive(Clone, Default)]
pub struct KuduLogin {
    /// The user name; `None`: that of the system.
    pub user: Option<String>,
    /// The service of the servers' principals, if log-ins are by Kerberos.
    pub kerberos_service: Option<String>,
    /// The file of a JSON web token, for servers that prove to belong to the cluster. It is read at every log-in, because tokens
    /// are replaced before they expire.
    pub token_file: Option<PathBuf>,
    /// Certificate authorities of the cluster (DER).
    pub certificates: Vec<Vec<u8>>,
    /// Whether servers that do not encrypt are refused.
    pub require_encryption: bool,
}

impl KuduLogin {
    pub(crate) fn apply(self, mut client: ClientBuilder) -> ClientBuilder {
        if let Some(user) = self.user {
            client = client.user(user);
        }
        if let Some(service) = self.kerberos_service {
            client = client.kerberos(service);
        }
        if let Some(path) = self.token_file {
            client = client.jwt_from(move || read_token(&path));
        }
        client = self.certificates.into_iter().fold(client, ClientBuilder::trust_certificate);
        if self.require_encryption { client.require_encryption() } else { client }
    }
}

fn read_token(path: &Path) -> io::Result<String> {
    let named = |error: io::Error| io::Error::new(error.kind(), format!("{}: {error}", path.display()));
    Ok(std::fs::read_to_string(path).map_err(named)?.trim().to_owned())
}

//! The settings of the inputs beside HTTP, and what is wrong with them.

use super::{BindAddress, Config};
use crate::server::inputs::{Destination, Settings, UdpSettings};
use nyala_db::ingest::Precision;

impl Config {
    /// The inputs that are on.
    pub fn inputs(&self) -> Result<Settings, String> {
        Ok(Settings { udp: self.udp()? })
    }

    fn udp(&self) -> Result<Option<UdpSettings>, String> {
        let Some(bind) = self.udp_bind else { return Ok(None) };
        self.check_reachable("udp-bind", bind)?;
        let precision = Precision::from_parameter(&self.udp_precision)
            .ok_or_else(|| format!("udp-precision {:?} is not n, u, ms, s, m or h", self.udp_precision))?;
        let destination = Destination::parse("udp-database", &self.udp_database)?;
        Ok(Some(UdpSettings { bind: bind.0, destination, precision }))
    }

    /// Nobody logs in to an input, whether users do so elsewhere or not.
    fn check_reachable(&self, setting: &str, bind: BindAddress) -> Result<(), String> {
        if bind.0.ip().is_loopback() || self.allow_unauthenticated {
            return Ok(());
        }
        Err(format!(
            "{setting} {bind} is reachable from other machines, and its protocol has no authentication: bind to 127.0.0.1, or say --allow-unauthenticated if the network is trusted"
        ))
    }
}

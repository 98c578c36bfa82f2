//! The settings of the inputs beside HTTP, and what is wrong with them.

use super::{BindAddress, Config};
use crate::server::inputs::{
    CollectdSettings, GraphiteSettings, LINE_BYTES_MAX, OpentsdbSettings, Settings, UdpSettings,
};
use crate::server::received::Destination;
use nyala_db::ingest::Precision;
use nyala_inputs::collectd::Protection;

/// Connections of an input may fill their buffers, each with a line of the greatest length, with this fraction (1/32) of the
/// memory.
const CONNECTIONS_SHARE: usize = 32;
/// The most connections, however much memory there is.
const CONNECTIONS_MAX: usize = 1_024;

impl Config {
    /// The inputs that are on.
    pub fn inputs(&self) -> Result<Settings, String> {
        let connections_max =
            (self.memory_limit.0 / CONNECTIONS_SHARE / LINE_BYTES_MAX).clamp(1, CONNECTIONS_MAX);
        Ok(Settings {
            udp: self.udp()?,
            graphite: self.graphite()?,
            opentsdb: self.opentsdb()?,
            collectd: self.collectd()?,
            otlp: self
                .otlp_database
                .as_ref()
                .map(|text| Destination::parse("otlp-database", text))
                .transpose()?,
            connections_max,
        })
    }

    fn udp(&self) -> Result<Option<UdpSettings>, String> {
        let Some(bind) = self.udp_bind else { return Ok(None) };
        self.check_reachable("udp-bind", bind)?;
        let precision = Precision::from_parameter(&self.udp_precision)
            .ok_or_else(|| format!("udp-precision {:?} is not n, u, ms, s, m or h", self.udp_precision))?;
        let destination = Destination::parse("udp-database", &self.udp_database)?;
        Ok(Some(UdpSettings { bind: bind.0, destination, precision }))
    }

    fn graphite(&self) -> Result<Option<GraphiteSettings>, String> {
        let Some(bind) = self.graphite_bind else { return Ok(None) };
        self.check_reachable("graphite-bind", bind)?;
        let templates = self.graphite_templates.clone().unwrap_or_default();
        let parser = nyala_inputs::graphite::Parser::new(&templates, &self.graphite_separator)
            .map_err(|error| format!("graphite-templates: {error}"))?;
        let destination = Destination::parse("graphite-database", &self.graphite_database)?;
        Ok(Some(GraphiteSettings { bind: bind.0, destination, parser }))
    }

    fn opentsdb(&self) -> Result<Option<OpentsdbSettings>, String> {
        let Some(bind) = self.opentsdb_bind else { return Ok(None) };
        self.check_reachable("opentsdb-bind", bind)?;
        let destination = Destination::parse("opentsdb-database", &self.opentsdb_database)?;
        let keep_alive_timeout = self.keep_alive_timeout.0;
        Ok(Some(OpentsdbSettings { bind: bind.0, destination, keep_alive_timeout }))
    }

    fn collectd(&self) -> Result<Option<CollectdSettings>, String> {
        let Some(bind) = self.collectd_bind else { return Ok(None) };
        let protection_min = match self.collectd_security_level.as_str() {
            "none" => Protection::None,
            "sign" => Protection::Sign,
            "encrypt" => Protection::Encrypt,
            level => return Err(format!("collectd-security-level {level:?} is not none, sign or encrypt")),
        };
        let joins_values = match self.collectd_values.as_str() {
            "split" => false,
            "join" => true,
            values => return Err(format!("collectd-values {values:?} is not split or join")),
        };
        match (protection_min, &self.collectd_auth_file) {
            (Protection::None, _) => self.check_reachable("collectd-bind", bind)?,
            (_, None) => return Err("collectd-security-level needs collectd-auth-file".to_owned()),
            // Senders prove who they are.
            (_, Some(_)) => {}
        }
        Ok(Some(CollectdSettings {
            bind: bind.0,
            destination: Destination::parse("collectd-database", &self.collectd_database)?,
            types_db: self.collectd_types_db.clone(),
            protection_min,
            auth_file: self.collectd_auth_file.clone(),
            joins_values,
        }))
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

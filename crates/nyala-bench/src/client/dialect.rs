//! The dialect that a server speaks.

/// What the server understands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Dialect {
    /// InfluxDB 1.x: databases, InfluxQL (nyala speaks it).
    #[default]
    Influx,
    /// VictoriaMetrics: no databases, MetricsQL.
    Victoriametrics,
}

impl Dialect {
    /// Its name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Dialect::Influx => "influx",
            Dialect::Victoriametrics => "victoriametrics",
        }
    }
}

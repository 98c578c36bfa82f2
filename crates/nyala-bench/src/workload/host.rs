//! A simulated host: the ten tags that TSBS and influxdb-comparisons give it.
//!
//! Both suites draw the same tags from the same choices. No value contains characters that line protocol escapes.

use crate::random::Random;
use std::fmt::Write as _;

/// The tags' keys, in the order in which the suites write them.
pub const TAG_KEYS: [&str; 10] = [
    "hostname",
    "region",
    "datacenter",
    "rack",
    "os",
    "arch",
    "team",
    "service",
    "service_version",
    "service_environment",
];

const REGIONS: [(&str, &[&str]); 9] = [
    ("us-east-1", &["us-east-1a", "us-east-1b", "us-east-1c", "us-east-1e"]),
    ("us-west-1", &["us-west-1a", "us-west-1b"]),
    ("us-west-2", &["us-west-2a", "us-west-2b", "us-west-2c"]),
    ("eu-west-1", &["eu-west-1a", "eu-west-1b", "eu-west-1c"]),
    ("eu-central-1", &["eu-central-1a", "eu-central-1b"]),
    ("ap-southeast-1", &["ap-southeast-1a", "ap-southeast-1b"]),
    ("ap-southeast-2", &["ap-southeast-2a", "ap-southeast-2b"]),
    ("ap-northeast-1", &["ap-northeast-1a", "ap-northeast-1c"]),
    ("sa-east-1", &["sa-east-1a", "sa-east-1b", "sa-east-1c"]),
];
const SYSTEMS: [&str; 3] = ["Ubuntu16.10", "Ubuntu16.04LTS", "Ubuntu15.10"];
const ARCHITECTURES: [&str; 2] = ["x64", "x86"];
const TEAMS: [&str; 4] = ["SF", "NYC", "LON", "CHI"];
const ENVIRONMENTS: [&str; 3] = ["production", "staging", "test"];
const RACKS: u64 = 100;
const SERVICES: u64 = 20;
const SERVICE_VERSIONS: u64 = 2;

/// Random streams of a seed for the tags of hosts; their field values use the streams below.
const TAG_STREAMS: u64 = 1 << 40;

/// One machine's tag values, in the order of [`TAG_KEYS`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Host {
    /// Values by the position of their key.
    pub tags: [String; 10],
}

impl Host {
    /// Host `number` of the data set with this seed.
    pub fn new(seed: u64, number: u64) -> Host {
        let mut random = Random::new(seed, TAG_STREAMS + number);
        let (region, datacenters) = *random.choice(&REGIONS);
        Host {
            tags: [
                format!("host_{number}"),
                region.to_owned(),
                (*random.choice(datacenters)).to_owned(),
                random.below(RACKS).to_string(),
                (*random.choice(&SYSTEMS)).to_owned(),
                (*random.choice(&ARCHITECTURES)).to_owned(),
                (*random.choice(&TEAMS)).to_owned(),
                random.below(SERVICES).to_string(),
                random.below(SERVICE_VERSIONS).to_string(),
                (*random.choice(&ENVIRONMENTS)).to_owned(),
            ],
        }
    }

    /// The value of the tag `key`, if hosts have it.
    pub fn tag(&self, key: &str) -> Option<&str> {
        let position = TAG_KEYS.iter().position(|known| *known == key)?;
        Some(&self.tags[position])
    }

    /// The tags in line protocol, after the measurement's name: `,hostname=host_7,region=…`.
    pub fn line_tags(&self) -> String {
        let mut text = String::with_capacity(192);
        for (key, value) in TAG_KEYS.iter().zip(&self.tags) {
            write!(text, ",{key}={value}").expect("a string takes any text");
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_come_from_the_published_choices_and_repeat_for_a_seed() {
        for number in 0..200 {
            let host = Host::new(123, number);
            assert_eq!(host, Host::new(123, number));
            let (_, datacenters) =
                REGIONS.iter().find(|(region, _)| host.tag("region") == Some(region)).unwrap();
            assert!(datacenters.contains(&host.tag("datacenter").unwrap()));
            assert!(host.tag("rack").unwrap().parse::<u64>().unwrap() < RACKS);
            assert!(host.line_tags().starts_with(&format!(",hostname=host_{number},region=")));
        }
        assert_ne!(Host::new(1, 5).tags[1..], Host::new(2, 5).tags[1..]);
    }
}

//! Retention policies and their rules, as InfluxDB 1.8 has them.

use super::PolicyChange;
use crate::names::check_length;
use nyala_core::time::window_of_width;
use nyala_core::{Error, Result};
use serde::{Deserialize, Serialize};

const HOUR_NS: i64 = 3_600_000_000_000;
const DAY_NS: i64 = 24 * HOUR_NS;

/// The shortest time a policy may keep its points, ns.
pub const MIN_DURATION_NS: i64 = HOUR_NS;
/// The name of the policy a new database gets.
pub const DEFAULT_POLICY_NAME: &str = "autogen";

/// How long points are kept, and the width of the shards in which they are dropped.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RetentionPolicy {
    /// Its name.
    pub name: String,
    /// How long points are kept, ns; 0 means for ever.
    pub duration_ns: i64,
    /// The width of a shard, ns.
    pub shard_duration_ns: i64,
    /// The number of copies. It is stored and shown, but has no effect on one machine.
    pub replication: u32,
    /// How far after now the time of a written point may lie, ns; 0 means any distance.
    #[serde(default)]
    pub future_limit_ns: i64,
    /// How far before now the time of a written point may lie, ns; 0 means any distance.
    #[serde(default)]
    pub past_limit_ns: i64,
}

impl RetentionPolicy {
    /// A policy from the settings of a statement. Missing settings get InfluxDB's defaults.
    pub fn new(name: &str, settings: &PolicyChange) -> Result<Self> {
        check_length(name)?;
        Self::of(name, settings)
    }

    fn of(name: &str, settings: &PolicyChange) -> Result<Self> {
        Self::check_duration(settings.duration_ns)?;
        let duration_ns = settings.duration_ns.unwrap_or(0);
        let shard_duration_ns =
            normalise_shard_duration(settings.shard_duration_ns.unwrap_or(0), duration_ns);
        if duration_ns != 0 && duration_ns < shard_duration_ns {
            return Err(Error::invalid("retention policy duration must be greater than the shard duration"));
        }
        Ok(Self {
            name: name.into(),
            duration_ns,
            shard_duration_ns,
            replication: settings.replication.unwrap_or(1),
            future_limit_ns: settings.future_limit_ns.unwrap_or(0),
            past_limit_ns: settings.past_limit_ns.unwrap_or(0),
        })
    }

    /// The policy after a change.
    pub(super) fn changed(&self, change: &PolicyChange) -> Result<Self> {
        // Its name may be longer than new ones may be.
        Self::of(
            &self.name,
            &PolicyChange {
                duration_ns: change.duration_ns.or(Some(self.duration_ns)),
                shard_duration_ns: change.shard_duration_ns.or(Some(self.shard_duration_ns)),
                replication: change.replication.or(Some(self.replication)),
                future_limit_ns: change.future_limit_ns.or(Some(self.future_limit_ns)),
                past_limit_ns: change.past_limit_ns.or(Some(self.past_limit_ns)),
                make_default: change.make_default,
            },
        )
    }

    /// Checks how long points are to be kept.
    pub(crate) fn check_duration(duration_ns: Option<i64>) -> Result<()> {
        match duration_ns {
            Some(duration_ns) if duration_ns != 0 && duration_ns < MIN_DURATION_NS => {
                Err(Error::invalid("retention policy duration must be at least 1h0m0s"))
            }
            _ => Ok(()),
        }
    }

    /// Whether it has the given settings. The shard width is always compared; if none is given, with the default width.
    pub(crate) fn fits(&self, settings: &PolicyChange) -> bool {
        let width_ns = normalise_shard_duration(settings.shard_duration_ns.unwrap_or(0), self.duration_ns);
        settings.duration_ns.is_none_or(|duration_ns| duration_ns == self.duration_ns)
            && settings.replication.is_none_or(|replication| replication == self.replication)
            && settings.future_limit_ns.is_none_or(|limit_ns| limit_ns == self.future_limit_ns)
            && settings.past_limit_ns.is_none_or(|limit_ns| limit_ns == self.past_limit_ns)
            && width_ns == self.shard_duration_ns
    }

    /// The time before which points have expired, given the current time; `None` if points are kept for ever.
    pub fn horizon_ns(&self, now_ns: i64) -> Option<i64> {
        (self.duration_ns != 0).then(|| now_ns.saturating_sub(self.duration_ns))
    }

    /// The first and last time of points that may be written, given the current time; `None` if any may. As in InfluxDB, points
    /// that have expired are stored if another one of the request, of those at `times_ns`, has not, and is in their shard.
    pub(crate) fn writable_ns<'a>(
        &self,
        now_ns: i64,
        mut times_ns: impl Iterator<Item = &'a [i64]>,
    ) -> Option<(i64, i64)> {
        let past = (self.past_limit_ns != 0).then(|| now_ns.saturating_sub(self.past_limit_ns));
        let first_living_ns = |horizon_ns: i64| {
            let shard = window_of_width(horizon_ns, self.shard_duration_ns);
            let living = horizon_ns..shard.end_ns;
            let makes_it = times_ns.any(|times| times.iter().any(|time_ns| living.contains(time_ns)));
            if makes_it { shard.start_ns } else { horizon_ns }
        };
        let first = self.horizon_ns(now_ns).map(first_living_ns).max(past);
        let last = (self.future_limit_ns != 0).then(|| now_ns.saturating_add(self.future_limit_ns));
        (first.is_some() || last.is_some()).then(|| (first.unwrap_or(i64::MIN), last.unwrap_or(i64::MAX)))
    }
}

/// The width of shards: as given, but at least an hour; if not given, by how long points are kept.
fn normalise_shard_duration(given_ns: i64, duration_ns: i64) -> i64 {
    match given_ns {
        0 if duration_ns == 0 || duration_ns >= 180 * DAY_NS => 7 * DAY_NS,
        0 if duration_ns >= 2 * DAY_NS => DAY_NS,
        0 => HOUR_NS,
        given_ns => given_ns.max(HOUR_NS),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn policy(duration_ns: i64, shard_duration_ns: Option<i64>) -> Result<RetentionPolicy> {
        let settings = PolicyChange {
            duration_ns: Some(duration_ns),
            shard_duration_ns,
            future_limit_ns: Some(5),
            ..PolicyChange::default()
        };
        RetentionPolicy::new("p", &settings)
    }

    #[test]
    fn shard_widths_follow_the_duration() {
        let width = |duration_ns| policy(duration_ns, None).unwrap().shard_duration_ns;
        assert_eq!(width(0), 7 * DAY_NS);
        assert_eq!(width(HOUR_NS), HOUR_NS);
        assert_eq!(width(2 * DAY_NS), DAY_NS);
        assert_eq!(width(180 * DAY_NS), 7 * DAY_NS);
        assert!(policy(HOUR_NS - 1, None).is_err());
        assert!(policy(HOUR_NS, Some(DAY_NS)).is_err());
    }

    #[test]
    fn points_are_taken_between_the_narrower_bounds() {
        let mut policy = policy(HOUR_NS, None).unwrap();
        let writable = |policy: &RetentionPolicy, now_ns, times: &[i64]| {
            policy.writable_ns(now_ns, std::iter::once(times))
        };
        assert_eq!(writable(&policy, DAY_NS, &[]), Some((DAY_NS - HOUR_NS, DAY_NS + 5)));
        // A living point of the request makes the shard, which takes those that have expired, too.
        let now_ns = DAY_NS + HOUR_NS / 2;
        for (times, first_ns) in [
            (&[now_ns][..], now_ns - HOUR_NS),
            (&[now_ns, DAY_NS - 1], DAY_NS - HOUR_NS),
            (&[now_ns - HOUR_NS - 1], now_ns - HOUR_NS),
        ] {
            assert_eq!(writable(&policy, now_ns, times), Some((first_ns, now_ns + 5)));
        }
        (policy.future_limit_ns, policy.past_limit_ns) = (0, 7);
        assert_eq!(writable(&policy, DAY_NS, &[]), Some((DAY_NS - 7, i64::MAX)));
        (policy.duration_ns, policy.past_limit_ns) = (0, 0);
        assert_eq!(writable(&policy, DAY_NS, &[]), None);
    }
}

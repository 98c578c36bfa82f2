//! What was imported and what was not, for the person who moves.

use super::destination::Destination;
use super::journal::Journal;
use nyala_influxdb::DamageList;
use nyala_influxdb::directory::ShardFiles;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::Duration;

/// A measurement of a policy of a database.
type Place = (String, String, String);

/// What came of an import.
pub(super) struct Outcome {
    /// Remarks.
    pub(super) notes: Vec<String>,
    /// What could not be created or stored.
    pub(super) refused: Vec<String>,
    /// Users who were created.
    pub(super) users_without_password: Vec<String>,
    /// Shards that were imported now, …
    pub(super) shards: u64,
    /// … and before.
    pub(super) known_shards: u64,
    /// Values that were imported now.
    pub(super) read_values: u64,
    damage: DamageList,
    /// Damaged places of shards that were imported before.
    known_damage: u64,
    expired: u64,
    /// Stored values, and those that nyala answers.
    measurements: BTreeMap<Place, (u64, Result<u64, String>)>,
}

impl Outcome {
    pub(super) fn new(damage: DamageList) -> Self {
        Self {
            notes: Vec::new(),
            refused: Vec::new(),
            users_without_password: Vec::new(),
            shards: 0,
            known_shards: 0,
            read_values: 0,
            damage,
            known_damage: 0,
            expired: 0,
            measurements: BTreeMap::new(),
        }
    }

    pub(super) fn add_damage(&mut self, more: DamageList) {
        let unlisted = more.count - more.listed.len() as u64;
        more.listed.into_iter().for_each(|damage| self.damage.add(damage));
        self.damage.count += unlisted;
    }

    /// Adds what came of all shards of the import, whenever they were imported.
    pub(super) fn add_done(&mut self, journal: &Journal, shards: &[ShardFiles]) {
        let mut damage = 0;
        for shard in shards {
            let Some(done) = journal.done(shard) else { continue };
            for (measurement, count) in &done.values {
                let place = (shard.database.clone(), shard.policy.clone(), measurement.clone());
                self.measurements.entry(place).or_insert((0, Ok(0))).0 += count;
            }
            self.expired += done.expired;
            damage += done.damage;
            let place = format!("shard {} of {}.{}", shard.id, shard.database, shard.policy);
            if done.dropped > 0 || done.conflict {
                let reason = done.dropped_reason.as_deref().unwrap_or("unknown");
                self.refused.push(format!("{place}: {} points were not stored: {reason}", done.dropped));
            }
            if done.bad_rows > 0 {
                self.refused.push(format!("{place}: {} rows cannot be stored", done.bad_rows));
            }
        }
        self.known_damage = damage.saturating_sub(self.damage.count);
    }

    /// Asks nyala how many values each measurement has.
    pub(super) fn compare(&mut self, destination: &Destination) {
        for ((database, policy, measurement), (_, answered)) in &mut self.measurements {
            *answered = destination.count_values(database, policy, measurement);
        }
    }

    /// Whether everything was imported that there is.
    pub(super) fn is_complete(&self) -> bool {
        let is_same = |(imported, answered): &(u64, Result<u64, String>)| {
            answered.as_ref().is_ok_and(|answered| answered >= imported)
        };
        self.damage.count + self.known_damage == 0
            && self.refused.is_empty()
            && self.measurements.values().all(is_same)
    }

    /// The report.
    pub(super) fn text(&self, elapsed: Duration) -> String {
        let mut text = String::new();
        for ((database, policy, measurement), (imported, answered)) in &self.measurements {
            let place = format!("{database}.{policy}.{measurement}");
            let words = match answered {
                Ok(answered) if answered == imported => {
                    format!("{imported} values, and nyala answers as many")
                }
                Ok(answered) if answered > imported => {
                    format!("{imported} values; nyala answers {answered}, because there were points before")
                }
                Ok(answered) => format!("{imported} values, but nyala answers {answered}"),
                Err(error) => format!("{imported} values; counting them failed: {error}"),
            };
            line(&mut text, format_args!("{place}: {words}"));
        }
        self.notes.iter().for_each(|note| line(&mut text, format_args!("note: {note}")));
        if !self.users_without_password.is_empty() {
            let names: Vec<String> =
                self.users_without_password.iter().map(|name| format!("{name:?}")).collect();
            line(
                &mut text,
                format_args!(
                    "note: users without a password: {}. InfluxDB's hashes cannot be taken over: start nyala without \
                     --auth-enabled, SET PASSWORD FOR each of them, then switch it on",
                    names.join(", ")
                ),
            );
        }
        if self.expired > 0 {
            let count = self.expired;
            line(
                &mut text,
                format_args!(
                    "note: {count} points were left out: they are older than their policy keeps them"
                ),
            );
        }
        for damage in &self.damage.listed {
            line(&mut text, format_args!("damaged: {damage}"));
        }
        let unlisted = self.damage.count - self.damage.listed.len() as u64 + self.known_damage;
        if unlisted > 0 {
            line(&mut text, format_args!("damaged: {unlisted} further places, which an earlier run listed"));
        }
        self.refused.iter().for_each(|words| line(&mut text, format_args!("not imported: {words}")));
        let seconds = elapsed.as_secs_f64();
        let rate = self.read_values as f64 / seconds.max(1e-3) / 1e6;
        line(
            &mut text,
            format_args!(
                "{} shards with {} values in {seconds:.1} s ({rate:.2} million values/s); {} shards had been imported before",
                self.shards, self.read_values, self.known_shards
            ),
        );
        let words = match self.is_complete() {
            true => "everything was imported",
            false => "the import is incomplete: see above",
        };
        line(&mut text, format_args!("{words}"));
        text
    }
}

fn line(text: &mut String, words: std::fmt::Arguments<'_>) {
    writeln!(text, "{words}").expect("writing to memory does not fail");
}

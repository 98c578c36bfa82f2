//! collectd. The packets are those of a real one (Debian's collectd-core 5.12), which `NYALA_RECORD=1` starts again.

use super::client;
use super::compared::same_rows;
use super::process::Process;
use super::{free, input_metric, send_datagrams, wait_until};
use std::net::UdpSocket;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// The types of the values in the packets, as in Debian's file.
const TYPES: &str = "if_dropped\t\trx:DERIVE:0:U, tx:DERIVE:0:U
if_errors\t\trx:DERIVE:0:U, tx:DERIVE:0:U
if_octets\t\trx:DERIVE:0:U, tx:DERIVE:0:U
if_packets\t\trx:DERIVE:0:U, tx:DERIVE:0:U
load\t\t\tshortterm:GAUGE:0:5000, midterm:GAUGE:0:5000, longterm:GAUGE:0:5000
memory\t\t\tvalue:GAUGE:0:281474976710656
";
const PASSWORDS: &str = "web1: w0nderl4nd\n";

fn recording(level: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(format!("testdata/inputs/collectd_{level}.hex"))
}

/// Recorded packets with a security level.
fn packets(level: &str) -> Vec<Vec<u8>> {
    let text = std::fs::read_to_string(recording(level)).expect("a recording: NYALA_RECORD=1 makes one");
    let byte = |line: &str, at: usize| u8::from_str_radix(&line[2 * at..2 * at + 2], 16).expect("digits");
    text.lines().map(|line| (0..line.len() / 2).map(|at| byte(line, at)).collect()).collect()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A collectd; killed when dropped.
struct Collectd(Child);

impl Drop for Collectd {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts a collectd that sends to an address.
fn start_collectd(directory: &Path, to: &str, level: &str) -> Collectd {
    let (host, port) = to.split_once(':').expect("an address");
    let configuration = format!(
        "Hostname web1\nInterval 1\nBaseDir \"{0}\"\nPIDFile \"{0}/pid\"\nTypesDB \"/usr/share/collectd/types.db\"\n\
         LoadPlugin load\nLoadPlugin memory\nLoadPlugin interface\n<Plugin interface>\n  Interface lo\n</Plugin>\n\
         LoadPlugin network\n<Plugin network>\n  <Server \"{host}\" \"{port}\">\n    SecurityLevel {level}\n    \
         Username web1\n    Password w0nderl4nd\n  </Server>\n</Plugin>\n",
        directory.display()
    );
    let file = directory.join("collectd.conf");
    std::fs::write(&file, configuration).expect("written");
    let mut command = Command::new("collectd");
    command.arg("-f").arg("-C").arg(file).stdout(Stdio::null()).stderr(Stdio::null());
    Collectd(command.spawn().expect("collectd-core of Debian"))
}

/// The first packets of a real collectd.
fn record(level: &str) -> Vec<Vec<u8>> {
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    socket.set_read_timeout(Some(Duration::from_secs(20))).expect("a timeout");
    let directory = tempfile::tempdir().expect("a directory");
    let to = socket.local_addr().expect("an address").to_string();
    let _collectd = start_collectd(directory.path(), &to, level);
    let mut buffer = [0; 2_000];
    let mut receive = || {
        let length = socket.recv(&mut buffer).expect("a packet of collectd");
        buffer[..length].to_vec()
    };
    (0..2).map(|_| receive()).collect()
}

/// The settings of nyala for packets, and files that it needs.
fn files(directory: &Path) -> (String, String) {
    let (types, passwords) = (directory.join("types.db"), directory.join("passwords"));
    std::fs::write(&types, TYPES).expect("written");
    std::fs::write(&passwords, PASSWORDS).expect("written");
    (types.display().to_string(), passwords.display().to_string())
}

/// Sends packets to nyala, and compares with InfluxDB's rows of them.
fn compare(name: &str, level: &str, values: &str) {
    if std::env::var_os("NYALA_RECORD").is_some_and(|value| value == "1") {
        let lines: Vec<String> = record(level).iter().map(|packet| hex(packet)).collect();
        std::fs::write(recording(level), lines.join("\n") + "\n").expect("the recording is writable");
    }
    let directory = tempfile::tempdir().expect("a directory");
    let (types, passwords) = files(directory.path());
    let influxdb = format!(
        "[[collectd]]\nenabled = true\nbind-address = \"ADDRESS\"\ndatabase = \"collectd\"\ntypesdb = \"{types}\"\n\
         security-level = \"{level}\"\nauth-file = \"{passwords}\"\nparse-multivalue-plugin = \"{values}\"\n\
         batch-timeout = \"1s\"\n"
    );
    same_rows(
        name,
        "collectd",
        &[
            ("collectd-bind", "ADDRESS"),
            ("collectd-types-db", &types),
            ("collectd-security-level", level),
            ("collectd-auth-file", &passwords),
            ("collectd-values", values),
        ],
        &influxdb,
        |to| send_datagrams(to, packets(level)),
    );
}

#[test]
fn values_are_stored_as_influxdb_stores_them() {
    compare("collectd_none", "none", "split");
}

#[test]
fn signed_packets_are_stored_as_influxdb_stores_them() {
    compare("collectd_sign", "sign", "join");
}

#[test]
fn encrypted_packets_are_stored_as_influxdb_stores_them() {
    compare("collectd_encrypt", "encrypt", "split");
}

#[test]
fn packets_of_strangers_are_counted_and_passwords_can_change() {
    let (directory, to) = (tempfile::tempdir().expect("a directory"), free());
    let (types, passwords) = files(directory.path());
    std::fs::write(&passwords, "somebody: else\n").expect("written");
    let data = directory.path().join("data");
    let server = Process::start(
        &data,
        &[
            "--collectd-bind",
            &to,
            "--collectd-types-db",
            &types,
            "--collectd-security-level",
            "sign",
            "--collectd-auth-file",
            &passwords,
        ],
    );
    let labels = |reason: &str| format!("input=\"collectd\",reason=\"{reason}\"");
    let rejected = |reason: &str| input_metric(&server, "rejected", &labels(reason));
    // Values without protection, and two packets of a stranger.
    send_datagrams(&to, packets("sign"));
    wait_until("two packets are refused", || rejected("not_authentic") == 2);
    send_datagrams(&to, packets("none"));
    wait_until("values are refused", || rejected("not_authentic") > 2);
    assert_eq!(input_metric(&server, "points_written", "input=\"collectd\""), 0);
    std::fs::write(&passwords, PASSWORDS).expect("written");
    send_datagrams(&to, packets("encrypt"));
    wait_until("points are stored", || input_metric(&server, "points_written", "input=\"collectd\"") > 0);
    // A part that ends nowhere.
    send_datagrams(&to, [[0, 0, 0, 99]]);
    wait_until("it is counted", || rejected("unreadable") == 1);
}

#[test]
fn who_listens_to_the_world_asks_for_passwords() {
    let directory = tempfile::tempdir().expect("a directory");
    let (types, passwords) = files(directory.path());
    let refused = |arguments: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_nyala"));
        let output = command.args(["config", "--collectd-bind", ":25826"]).args(arguments).output();
        String::from_utf8_lossy(&output.expect("it runs").stderr).into_owned()
    };
    assert!(refused(&[]).contains("collectd-bind 0.0.0.0:25826 is reachable"));
    let sign = ["--collectd-security-level", "sign"];
    assert!(refused(&sign).contains("needs collectd-auth-file"));
    assert_eq!(refused(&[&sign[..], &["--collectd-auth-file", &passwords]].concat()), "");
    assert!(refused(&["--collectd-security-level", "high"]).contains("is not none, sign or encrypt"));
    assert!(
        refused(&["--collectd-values", "both", "--allow-unauthenticated"]).contains("is not split or join")
    );
    // The file is read at the start.
    let data = directory.path().join("data").display().to_string();
    let start = |types: &str| {
        let http = client::free_address().to_string();
        let mut command = Command::new(env!("CARGO_BIN_EXE_nyala"));
        command.args(["serve", "--data-dir", &data, "--http-bind", &http, "--collectd-bind", "127.0.0.1:0"]);
        let output = command.args(["--collectd-types-db", types]).output().expect("it runs");
        assert!(!output.status.success());
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    assert!(start("/nowhere/types.db").contains("/nowhere/types.db (collectd-types-db)"));
    assert!(start(&passwords).contains("has no types"), "{types}");
}

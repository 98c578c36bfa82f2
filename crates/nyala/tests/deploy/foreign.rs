//! Programs that `deploy/cross/build.sh` made: they serve, each on its machine, and the image of one does. Building one takes long,
//! so they are tried where a variable names them: `NYALA_TEST_STATIC` that for x86-64, `NYALA_TEST_AARCH64` that for aarch64, which
//! QEMU runs on other machines.

use crate::client::{self, Request};
use crate::{peers, root, succeed, text};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// The path that a variable names; the test is skipped without it. Who requires all peers need not have such programs.
fn named(variable: &str) -> Option<String> {
    let path = std::env::var(variable).ok().filter(|value| !value.is_empty());
    if path.is_none() {
        peers::pass_over(
            "program for another machine",
            &format!("build it by deploy/cross/build.sh, and name it in {variable}"),
        );
    }
    path
}

/// A program, maybe run by another one.
struct Program(Vec<String>);

impl Program {
    fn command(&self) -> Command {
        let mut command = Command::new(&self.0[0]);
        command.args(&self.0[1..]).env("NYALA_POSTGRES_BIND", "none").env("NYALA_FLIGHT_BIND", "none");
        command
    }

    fn succeed(&self, arguments: &[&str]) -> String {
        succeed(self.command().args(arguments))
    }

    fn serve(&self, data_dir: &Path) -> (Served, SocketAddr) {
        let address = client::free_address();
        let mut command = self.command();
        command.args(["serve", "--http-bind", &address.to_string(), "--data-dir"]).arg(data_dir);
        let served = Served(command.stderr(Stdio::null()).spawn().expect("it starts"));
        wait_until_ready(address);
        (served, address)
    }
}

/// Needs no library of the machine that it runs on, and is for the one that `readelf` calls so.
fn assert_is_static(path: &str, machine: &str) {
    let headers = succeed(Command::new("readelf").args(["--file-header", "--program-headers", path]));
    assert!(!headers.contains("INTERP"), "{headers}");
    assert!(headers.lines().any(|line| line.contains("Machine:") && line.ends_with(machine)), "{headers}");
}

struct Served(Child);

impl Served {
    fn stop(&mut self) -> bool {
        succeed(Command::new("kill").arg(self.0.id().to_string()));
        self.0.wait().expect("it ends").success()
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn send(address: SocketAddr, method: &str, target: &str, body: &str) -> Option<(u16, String)> {
    let (method, target, body) = (method.to_owned(), target.to_owned(), body.as_bytes().to_vec());
    let request = Request { method, target, headers: Vec::new(), body };
    let answer = client::send(address, &request).ok()?;
    Some((answer.status, String::from_utf8_lossy(&answer.body).into_owned()))
}

fn wait_until_ready(address: SocketAddr) {
    let begun = Instant::now();
    while send(address, "GET", "/ready", "").is_none_or(|(status, _)| status != 200) {
        assert!(begun.elapsed() < Duration::from_secs(120), "it does not become ready");
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// Writes points, asks for them in both languages, stops the server, and finds them again. The server says itself that it is the
/// process that was started, and for which machine it was built.
fn serves(program: &Program, architecture: &str) {
    assert!(program.succeed(&["--version"]).starts_with("nyala "));
    program.succeed(&["demo", "--exit", "--hosts", "10", "--http-bind", "127.0.0.1:0"]);
    let directory = tempfile::tempdir().expect("a directory");
    let data_dir = directory.path().join("data");
    let (mut served, address) = program.serve(&data_dir);
    let facts = send(address, "GET", "/query?q=SHOW+DIAGNOSTICS", "").expect("an answer").1;
    assert!(facts.contains(&format!("[\"{architecture}\",")), "{facts}");
    assert!(facts.contains(&format!("[{},", served.0.id())), "process {}: {facts}", served.0.id());
    // The shell finds the address of a name.
    let url = format!("http://localhost:{}", address.port());
    let shell = |arguments: &[&str]| {
        program.succeed(&[&["shell", "--url", &url, "--format", "csv"][..], arguments].concat())
    };
    shell(&["-c", "CREATE DATABASE d"]);
    let lines: String = (0..5000)
        .map(|row| {
            format!("m,host=h{} v={}.5,n={row}i,s=\"text {}\" {row}000\n", row % 7, row % 97, row % 13)
        })
        .collect();
    assert_eq!(send(address, "POST", "/write?db=d", &lines).expect("an answer").0, 204);
    let asked = |address: SocketAddr| {
        let target = "/query?db=d&q=SELECT+count(v),mean(v),max(n),last(s)+FROM+m+WHERE+host%3D%27h3%27";
        send(address, "GET", target, "").expect("an answer")
    };
    let before = asked(address);
    assert!(before.0 == 200 && before.1.contains("714"), "{before:?}");
    let rows =
        shell(&["--sql", "-d", "d", "-c", "SELECT host, count(*) AS c FROM m GROUP BY host ORDER BY host"]);
    assert!(rows.contains("h0,715") && rows.contains("h6,714"), "{rows}");
    assert!(served.stop());
    let path = data_dir.to_str().expect("UTF-8");
    assert!(program.succeed(&["check", path]).contains("nothing is damaged"));
    // A machine of another kind uses the same files.
    let (mut served, address) = Program(vec![env!("CARGO_BIN_EXE_nyala").to_owned()]).serve(&data_dir);
    assert_eq!(asked(address), before);
    assert!(served.stop());
}

/// Log-ins by Kerberos take a library of the system: the program says so before it needs one.
fn refuses_kerberos(program: &Program) {
    let arguments = ["serve", "--store", "kudu", "--kudu-masters", "127.0.0.1:9", "--kudu-kerberos", "kudu"];
    let refused = program.command().args(arguments).args(["--http-bind", "127.0.0.1:0"]).output();
    let refused = refused.expect("it runs");
    assert!(!refused.status.success());
    assert!(text(&refused).contains("log-ins by Kerberos are not available"), "{}", text(&refused));
}

#[test]
fn the_static_program_serves_and_refuses_kerberos_by_name() {
    let Some(path) = named("NYALA_TEST_STATIC") else { return };
    assert_is_static(&path, "X86-64");
    let program = Program(vec![path]);
    serves(&program, "amd64");
    refuses_kerberos(&program);
}

#[test]
fn the_program_for_aarch64_serves_and_refuses_kerberos_by_name() {
    let Some(path) = named("NYALA_TEST_AARCH64") else { return };
    assert_is_static(&path, "AArch64");
    let mut command = vec![path];
    if !cfg!(target_arch = "aarch64") {
        let found = peers::works("qemu-aarch64", &["--version"]).then_some(());
        if peers::require("qemu-aarch64", "install qemu-user", found).is_none() {
            return;
        }
        command.insert(0, "qemu-aarch64".to_owned());
    }
    let program = Program(command);
    serves(&program, "arm64");
    refuses_kerberos(&program);
}

#[test]
fn the_image_has_the_static_program_and_serves_as_nobody() {
    let Some(path) = named("NYALA_TEST_STATIC") else { return };
    let found = peers::works("buildah", &["--version"]).then_some(());
    if peers::require("buildah", "install buildah", found).is_none() {
        return;
    }
    let build = root().join("deploy/container/build.sh");
    let builder = || {
        let mut command = Command::new("buildah");
        command.env("BUILDAH_ISOLATION", "chroot");
        command
    };
    let image = format!("nyala-test-{}", std::process::id());
    let refused = Command::new(&build).args(["/bin/true", &image]).output().expect("it runs");
    assert!(
        !refused.status.success() && text(&refused).contains("not linked statically"),
        "{}",
        text(&refused)
    );
    succeed(Command::new(&build).arg(&path).arg(&image).env("NYALA_BUILDER", "buildah"));
    let container = succeed(builder().args(["from", "--pull-never", &image]));
    let container = container.trim().lines().last().expect("its name").to_owned();
    let tried = std::panic::catch_unwind(|| {
        let place = succeed(builder().args(["mount", &container]));
        let facts = succeed(
            Command::new("stat").args(["-c", "%u %g %a"]).arg(format!("{}/var/lib/nyala", place.trim())),
        );
        assert_eq!(facts.trim(), "65532 65532 700");
        let address = client::free_address();
        // Another port than the image's: the container has the same network here.
        let mut served = Served(
            builder()
                .args([
                    "run",
                    "--env",
                    &format!("NYALA_HTTP_BIND={address}"),
                    "--env",
                    "NYALA_POSTGRES_BIND=none",
                ])
                .args(["--env", "NYALA_FLIGHT_BIND=none", &container, "--", "/usr/bin/nyala", "serve"])
                .stderr(Stdio::null())
                .spawn()
                .expect("it starts"),
        );
        wait_until_ready(address);
        let create = "/query?q=CREATE+USER+a+WITH+PASSWORD+%27secret%27+WITH+ALL+PRIVILEGES";
        assert_eq!(send(address, "POST", create, "").expect("an answer").0, 200);
        assert_eq!(send(address, "POST", "/query?q=SHOW+DATABASES", "").expect("an answer").0, 401);
        served.stop();
    });
    let _ = builder().args(["rm", &container]).output();
    let _ = builder().args(["rmi", &image]).output();
    assert!(tried.is_ok());
}

//! Kudu's published test binaries: fetched once with Maven, unpacked, and kept in the user's cache.
//!
//! The directory is `$KUDU_CLIENT_CACHE`, or `kudu-client` in `$XDG_CACHE_HOME` or `~/.cache`. It is filled under a
//! temporary name and renamed when complete, so an incomplete download is never used.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;

const VERSION: &str = "1.18.1";

/// The directory with `bin/`, `lib/` and `www/`, fetched on first use.
///
/// # Errors
/// A message that says what is missing: Maven, network, a program to unpack, or Linux on x86-64.
pub fn kudu_home() -> Result<PathBuf, String> {
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    let _guard = ONE_AT_A_TIME.lock();
    if !cfg!(all(target_os = "linux", target_arch = "x86_64")) {
        return Err("the Kudu test binaries only exist for Linux on x86-64".into());
    }
    let cache = cache_directory()?;
    let home = cache.join(format!("kudu-binary-{VERSION}"));
    if home.join("bin/kudu").exists() {
        return Ok(home);
    }
    let partial = cache.join(format!("partial-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&partial);
    std::fs::create_dir_all(&partial).map_err(|error| format!("{}: {error}", partial.display()))?;
    let result = fetch_into(&partial, &home);
    let _ = std::fs::remove_dir_all(&partial);
    result.map(|()| home)
}

fn cache_directory() -> Result<PathBuf, String> {
    let set = |name| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    set("KUDU_CLIENT_CACHE")
        .or_else(|| set("XDG_CACHE_HOME").map(|cache| cache.join("kudu-client")))
        .or_else(|| set("HOME").map(|home| home.join(".cache/kudu-client")))
        .ok_or_else(|| "no cache directory: set KUDU_CLIENT_CACHE".into())
}

fn fetch_into(partial: &Path, home: &Path) -> Result<(), String> {
    let artifact = format!("org.apache.kudu:kudu-binary:{VERSION}:jar:linux-x86_64");
    run(Command::new("mvn")
        .args(["-q", "-B", "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy"])
        .arg(format!("-Dartifact={artifact}"))
        .arg(format!("-DoutputDirectory={}", partial.display())))?;
    let jar = partial.join(format!("kudu-binary-{VERSION}-linux-x86_64.jar"));
    let unzipped = run(Command::new("unzip").arg("-q").arg(&jar).current_dir(partial));
    if unzipped.is_err() {
        run(Command::new("jar").arg("xf").arg(&jar).current_dir(partial))?;
    }
    let unpacked = partial.join(format!("kudu-binary-{VERSION}-linux-x86_64"));
    let binaries =
        std::fs::read_dir(unpacked.join("bin")).map_err(|error| format!("unpacked jar: {error}"))?;
    for binary in binaries.flatten() {
        use std::os::unix::fs::PermissionsExt;
        let executable = std::fs::Permissions::from_mode(0o755);
        std::fs::set_permissions(binary.path(), executable).map_err(|error| error.to_string())?;
    }
    match std::fs::rename(&unpacked, home) {
        Ok(()) => Ok(()),
        // Another process was faster.
        Err(_) if home.join("bin/kudu").exists() => Ok(()),
        Err(error) => Err(format!("{}: {error}", home.display())),
    }
}

fn run(command: &mut Command) -> Result<(), String> {
    let program = command.get_program().to_string_lossy().into_owned();
    let output = command.output().map_err(|error| format!("{program}: {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    let text = [output.stdout, output.stderr].concat();
    let text = String::from_utf8_lossy(&text);
    let first = text.lines().find(|line| !line.trim().is_empty()).unwrap_or("no message");
    Err(format!("{program} failed: {first}"))
}

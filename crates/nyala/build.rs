//! Finds the commit that a release is built from, for the first log line, `--version` and `SHOW DIAGNOSTICS`, and compresses
//! the files of the web console (`console/dist`), which the program serves.
//!
//! `NYALA_COMMIT` names it when there is no git. A debug build has no commit, because it would be built again after
//! each commit.

use flate2::Compression;
use flate2::write::GzEncoder;
use std::hash::Hasher;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The built files of the console, from this directory.
const CONSOLE: &str = "../../console/dist";

fn main() {
    compress_console();
    name_commit();
}

fn name_commit() {
    println!("cargo::rerun-if-env-changed=NYALA_COMMIT");
    let is_release = std::env::var("PROFILE").is_ok_and(|profile| profile == "release");
    let told = std::env::var("NYALA_COMMIT").ok().filter(|commit| !commit.is_empty());
    let commit = match (told, is_release) {
        (Some(commit), _) => commit,
        (None, true) => described(),
        (None, false) => "debug build".to_owned(),
    };
    println!("cargo::rustc-env=NYALA_COMMIT={commit}");
}

fn described() -> String {
    // Git writes this file at each commit and checkout.
    match git(&["rev-parse", "--git-path", "logs/HEAD"]) {
        Some(path) if Path::new(&path).exists() => println!("cargo::rerun-if-changed={path}"),
        _ => println!("cargo::rerun-if-changed=build.rs"),
    }
    git(&["describe", "--always", "--tags", "--abbrev=12"]).unwrap_or_else(|| "unknown".to_owned())
}

/// The one line that git prints; `None` without git or a repository.
fn git(arguments: &[&str]) -> Option<String> {
    let output =
        Command::new("git").args(arguments).output().ok().filter(|output| output.status.success())?;
    let said = String::from_utf8(output.stdout).ok()?;
    Some(said.trim().to_owned()).filter(|said| !said.is_empty() && !said.contains('\n'))
}

/// Writes each file compressed, and `console_files.rs`, a table of all of them, for `src/server/http/console.rs`.
fn compress_console() {
    let root = PathBuf::from(std::env::var("CARGO_MANIFEST_DIR").expect("cargo sets it"));
    let out = PathBuf::from(std::env::var("OUT_DIR").expect("cargo sets it"));
    let console = root.join(CONSOLE);
    println!("cargo::rerun-if-changed={}", console.display());
    println!("cargo::rerun-if-changed=build.rs");
    let entries =
        std::fs::read_dir(&console).unwrap_or_else(|error| panic!("{}: {error}", console.display()));
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.expect("a readable directory").path()).collect();
    files.sort();
    let mut table = format!("const FILES: [File; {}] = [\n", files.len());
    for file in files {
        println!("cargo::rerun-if-changed={}", file.display());
        let name = file.file_name().and_then(|name| name.to_str()).expect("a name in UTF-8");
        let plain = std::fs::read(&file).expect("a readable file");
        // Both forms are of the bytes that were read here, whatever becomes of the file meanwhile.
        let copied = out.join(name);
        std::fs::write(&copied, &plain).expect("a writable file");
        let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
        encoder.write_all(&plain).expect("memory takes every byte");
        let compressed = out.join(format!("{name}.gz"));
        std::fs::write(&compressed, encoder.finish().expect("memory takes every byte"))
            .expect("a writable file");
        let tag = tag_of(&plain);
        table.push_str(&format!(
            "File {{ path: {:?}, content_type: {:?}, plain: include_bytes!({:?}), gzip: include_bytes!({:?}), \
             plain_tag: {:?}, gzip_tag: {:?} }},\n",
            format!("/console/{name}"),
            content_type(name),
            copied,
            compressed,
            format!("\"{tag}\""),
            format!("\"{tag}-gzip\""),
        ));
    }
    table.push_str("];\n");
    std::fs::write(out.join("console_files.rs"), table).expect("a writable file");
}

fn content_type(name: &str) -> &'static str {
    match name.rsplit('.').next() {
        Some("html") => "text/html; charset=utf-8",
        Some("js") => "text/javascript; charset=utf-8",
        Some("css") => "text/css; charset=utf-8",
        Some("svg") => "image/svg+xml",
        _ => panic!("{name}: which content type has it?"),
    }
}

/// Differs when the bytes do.
fn tag_of(bytes: &[u8]) -> String {
    // Keyed with zeros, so the same bytes have the same tag in every build by one compiler.
    let mut hasher = std::collections::hash_map::DefaultHasher::new();
    hasher.write(bytes);
    format!("{:016x}", hasher.finish())
}

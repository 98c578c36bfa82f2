//! Plays scripts to a server and compares, or collects, its answers.

use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::answer;
use super::client::{self, Request, percent_decode, percent_encode};
use super::generate::{self, Clock};
use super::prometheus;
use super::script::{Kind, Script, Step};
use super::server::{Program, Server};

/// Lines per request of a `generate` step: as Telegraf and the benchmark send them.
const BATCH_LINES: u64 = 5_000;

/// The outcome of one script.
pub(crate) struct Outcome {
    pub(crate) name: String,
    pub(crate) steps: usize,
    /// One text per step that differed.
    pub(crate) failures: Vec<String>,
    /// One text per step that got no answer at all; these are among the failures too.
    pub(crate) errors: Vec<String>,
    /// The answers, step by step; `None` for a step without one.
    pub(crate) answers: Vec<Option<Vec<String>>>,
}

/// Plays every script to a server of its own, some at a time.
pub(crate) fn play_all(program: &Program, scripts: &[Script]) -> Vec<Outcome> {
    let workers = std::thread::available_parallelism().map_or(2, |n| n.get().clamp(2, 8));
    let next = AtomicUsize::new(0);
    let outcomes = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(|| {
                while let Some(script) = scripts.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let outcome = play(program, script);
                    outcomes.lock().expect("no player panics").push(outcome);
                }
            });
        }
    });
    let mut outcomes = outcomes.into_inner().expect("no player panics");
    outcomes.sort_by(|a, b| a.name.cmp(&b.name));
    outcomes
}

fn play(program: &Program, script: &Script) -> Outcome {
    let mut outcome = Outcome {
        name: script.name.clone(),
        steps: script.steps.len(),
        failures: Vec::new(),
        errors: Vec::new(),
        answers: Vec::new(),
    };
    let mut server = match Server::start(program, &script.settings) {
        Ok(server) => server,
        Err(error) => {
            outcome.failures.push(format!("{}: {error}", script.name));
            outcome.errors = outcome.failures.clone();
            return outcome;
        }
    };
    let names_now = script.steps.iter().flat_map(|step| &step.input).any(|line| line.contains("${now"));
    let mut clock = if names_now { Clock::near_now() } else { Clock::new() };
    for step in &script.steps {
        let place = describe(&script.path, step);
        match perform(&mut server, step, &mut clock) {
            Ok(None) => outcome.answers.push(None),
            Ok(Some(lines)) => {
                if let Some(difference) = compare(program, step, &lines) {
                    outcome.failures.push(format!("{place}\n{difference}"));
                }
                outcome.answers.push(Some(lines));
            }
            Err(error) => {
                outcome.failures.push(format!("{place}\n    {error}"));
                outcome.errors.push(format!("{place}\n    {error}"));
                outcome.answers.push(None);
            }
        }
    }
    outcome
}

/// Cuts the members of an error of a write that nyala adds to InfluxDB's: line, column, what was expected. They have
/// their own test.
fn without_further_members(body: Vec<u8>) -> Vec<u8> {
    const START: &[u8] = b"{\"error\":\"";
    if !body.starts_with(START) {
        return body;
    }
    let mut at = START.len();
    while at < body.len() && body[at] != b'"' {
        at += if body[at] == b'\\' { 2 } else { 1 };
    }
    match body.get(at + 1) {
        Some(b',') => [&body[..=at], b"}\n".as_slice()].concat(),
        _ => body,
    }
}

/// Where the step stands, and its first lines.
fn describe(path: &Path, step: &Step) -> String {
    const SHOWN_LINES: usize = 4;
    let mut text = format!("{}:{}: {:?}", path.display(), step.line, step.kind);
    for (name, value) in &step.parameters {
        text.push_str(&format!(" {name}={value}"));
    }
    for line in step.input.iter().take(SHOWN_LINES) {
        text.push_str(&format!("\n    > {line}"));
    }
    if step.input.len() > SHOWN_LINES {
        let left_out = step.input.len() - SHOWN_LINES;
        text.push_str(&format!("\n    > … {left_out} more lines"));
    }
    text
}

fn compare(program: &Program, step: &Step, actual: &[String]) -> Option<String> {
    let expected = match (&step.deviation, program) {
        (Some((_, own)), program) if program.is_nyala() => own,
        _ => &step.expected,
    };
    let same = if step.option("unordered").is_some() {
        answer::sorted(expected) == answer::sorted(actual)
    } else {
        expected == actual
    };
    (!same).then(|| answer::difference(expected, actual))
}

fn perform(server: &mut Server, step: &Step, clock: &mut Clock) -> Result<Option<Vec<String>>, String> {
    let mut response = match step.kind {
        Kind::Restart | Kind::Crash => {
            server.restart(step.kind == Kind::Crash)?;
            return Ok(None);
        }
        Kind::Generate => generate_all(server, step)?,
        _ => server.send(&request_of(step, clock)?)?,
    };
    if response.status == 400 {
        response.body = without_further_members(response.body);
    }
    if step.option("prometheus").is_some() {
        prometheus::unpack(&mut response)?;
    }
    let asked: Vec<String> =
        step.option("show").map(|names| names.split(',').map(str::to_owned).collect()).unwrap_or_default();
    let mut lines = answer::render(&response, &asked);
    for line in &mut lines {
        *line = clock.hide(line);
        for mask in &step.masks {
            *line = mask.replace_all(line, "<masked>").into_owned();
        }
    }
    if step.option("brief").is_some() {
        lines = answer::brief(lines);
    }
    Ok(Some(lines))
}

/// Sends the rows of a template in batches, up to the first that is refused.
fn generate_all(server: &Server, step: &Step) -> Result<client::Response, String> {
    let count: u64 =
        step.option("count").and_then(|count| count.parse().ok()).ok_or("generate needs @count=N")?;
    let mut row = 0;
    loop {
        let mut body = String::new();
        let end = count.min(row + BATCH_LINES);
        for i in row..end {
            for template in &step.input {
                body.push_str(&generate::expand(template, i)?);
                body.push('\n');
            }
        }
        row = end;
        let response = server.send(&post("/write", step, body.into_bytes()))?;
        if response.status != 204 || row == count {
            return Ok(response);
        }
    }
}

fn request_of(step: &Step, clock: &mut Clock) -> Result<Request, String> {
    let mut input = step.input.as_slice();
    let mut headers = Vec::new();
    if let Kind::Http { .. } = step.kind {
        while let Some((line, rest)) = input.split_first() {
            let Some(header) = line.strip_prefix("> ") else {
                break;
            };
            let (name, value) = header.split_once(": ").ok_or_else(|| format!("not a header: {header:?}"))?;
            headers.push((name.to_owned(), value.to_owned()));
            input = rest;
        }
    }
    let text = generate::repeat(&clock.fill(&input.join("\n"))?)?;
    let mut body = match step.option("percent") {
        Some(_) => percent_decode(&text),
        None => text.clone().into_bytes(),
    };
    if step.option("prometheus").is_some() {
        body = prometheus::packed(&text)?;
    }
    if step.option("gzip").is_some() {
        body = client::gzip(&body);
        headers.push(("Content-Encoding".into(), "gzip".into()));
    }
    let mut request = match &step.kind {
        Kind::Http { method, target } => {
            Request { method: method.clone(), target: clock.fill(target)?, headers: Vec::new(), body }
        }
        Kind::Query => query_request(step, &text),
        _ => post("/write", step, body),
    };
    request.headers.append(&mut headers);
    if let Some(accept) = step.option("accept") {
        request.headers.push(("Accept".into(), accept.into()));
    }
    Ok(request)
}

/// A query goes as a form; with `@get` all of it in the URL; with `@url` the same by POST.
fn query_request(step: &Step, query: &str) -> Request {
    let in_url = step.option("get").is_some() || step.option("url").is_some();
    if !in_url {
        let form = format!("q={}", percent_encode(query));
        let mut request = post("/query", step, form.into_bytes());
        let kind = "application/x-www-form-urlencoded";
        request.headers.push(("Content-Type".into(), kind.into()));
        return request;
    }
    let mut request = post("/query", step, Vec::new());
    let joint = if step.parameters.is_empty() { '?' } else { '&' };
    request.target.push(joint);
    request.target.push_str(&format!("q={}", percent_encode(query)));
    if step.option("get").is_some() {
        request.method = "GET".into();
    }
    request
}

fn post(path: &str, step: &Step, body: Vec<u8>) -> Request {
    let parameters: Vec<String> =
        step.parameters.iter().map(|(name, value)| format!("{name}={}", percent_encode(value))).collect();
    let mut target = path.to_owned();
    if !parameters.is_empty() {
        target.push('?');
        target.push_str(&parameters.join("&"));
    }
    Request { method: "POST".into(), target, headers: Vec::new(), body }
}

//! Who guesses passwords is slowed down, and nobody else.

use super::client::Response;
use super::sender::{Server, Session, body};
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;

/// The next log-in after the free ones waits for a second, and each one that comes after its wait doubles that. So however slow
/// this machine is, one of so many is refused.
const TRIES_MAX: usize = 15;

/// The first answer with 429, after five or more with 401.
pub(crate) fn first_slowed_down(guess: impl Fn() -> Response) -> Response {
    for number in 0..TRIES_MAX {
        let answer = guess();
        match answer.status {
            401 => {}
            429 if number >= 5 => return answer,
            other => panic!("{other} after {number} failures: {}", body(&answer)),
        }
    }
    panic!("none of {TRIES_MAX} was slowed down");
}

#[test]
fn failed_log_ins_make_the_next_ones_wait() {
    let directory = tempfile::tempdir().expect("a directory");
    let socket = directory.path().join("nyala.sock");
    let server = Server::start(&["--bind-socket", socket.to_str().expect("a name")]);
    server.ask("CREATE USER bob WITH PASSWORD 'paper'");
    let status = |name: &str, password: &str| {
        server.query(&format!("u={name}&p={password}"), &[], "SHOW DATABASES").status
    };
    // Somebody who does not exist is slowed down like somebody who does.
    for name in ["bob", "nobody"] {
        let guess = || server.query(&format!("u={name}&p=wrong"), &[], "SHOW DATABASES");
        let refused = first_slowed_down(guess);
        assert!(refused.header("Retry-After").is_some_and(|seconds| seconds.parse::<u32>().is_ok()));
        assert!(body(&refused).contains("too many log-ins of this user failed from this address"));
    }
    // By another protocol it is the same user and address.
    let guess = || Session::open(server.postgres, "bob", "wrong").err();
    let refused = (0..TRIES_MAX).find_map(|_| guess().filter(|error| error.starts_with("53400")));
    assert!(refused.is_some_and(|error| error.contains("try again in")));
    assert_eq!(status("ann", "pencil"), 200, "another user");
    let target = "/query?u=bob&p=paper&q=SHOW%20DATABASES";
    let mut stream = UnixStream::connect(&socket).expect("it listens");
    stream.write_all(format!("GET {target} HTTP/1.0\r\nHost: h\r\n\r\n").as_bytes()).expect("it is read");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer");
    assert!(answer.contains(" 200 OK"), "the same user from elsewhere: {answer}");
    // A token cannot be guessed: it need not wait, but those that are none have to.
    let token = server.token("CREATE TOKEN t FOR bob");
    assert_eq!(status("bob", &token), 200);
    let unknown = format!("Token nyala_{}", "A".repeat(43));
    first_slowed_down(|| server.query("", &[("Authorization", &unknown)], "SHOW DATABASES"));
    assert_eq!(status("bob", &token), 200);
    assert!(server.metric("nyala_log_ins_slowed_down_total") >= 4);
}

#[test]
fn without_a_limit_nothing_is_slowed_down() {
    let server = Server::start(&["--log-in-failures", "0"]);
    let tries = (0..7).map(|_| server.query("u=ann&p=wrong", &[], "SHOW DATABASES").status);
    assert_eq!(tries.collect::<Vec<_>>(), [401; 7]);
}

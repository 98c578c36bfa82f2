//! `/api/move`: what `nyala move` asks of the server whose data it takes to another store, while clients write. Only
//! administrators may.
//!
//! | request | what it does |
//! |---|---|
//! | `GET` | where everything has gone; with `epoch`, what was changed since |
//! | `POST ?step=mark` | a mark, before a copy is made |
//! | `POST ?step=hold&seconds=…` | holds writers off, for so long at most |
//! | `POST ?step=renew&hold=…` | goes on doing so |
//! | `POST ?step=leave&hold=…&to=…` | holds them off for good |
//! | `DELETE ?hold=…` | lets them write again |
//! | `DELETE` | the same, also after everything has gone |

use super::params::Params;
use super::response::{Answer, Failure, empty, failed, failure, with_body};
use super::{Context, access};
use hyper::http::request::Parts;
use hyper::{Method, Response, StatusCode};
use nyala_core::Error;
use nyala_db::handover::Handover;
use serde_json::{Value, json};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

/// The longest hold that may be asked for.
const HOLD_MAX: Duration = Duration::from_secs(3600);

pub(super) async fn handle(
    context: &Context,
    head: &Parts,
    client: Option<IpAddr>,
) -> Result<Response<Answer>, Failure> {
    let (principal, of_url) = access::administrator(context, head).await?;
    context.watch.count(head.uri.path(), &head.extensions, &principal);
    let handover = context.databases()?.handover.clone().ok_or_else(|| {
        failed(&Error::unsupported(
            "a server of --store kudu cannot be moved while it runs: stop all of them first",
        ))
    })?;
    let step =
        Step::read(&head.method, &of_url, context.clock.now_ns() as u64).map_err(|error| failed(&error))?;
    if let Some(words) = step.audited() {
        context.audit.moving(&words, principal.user_name(), client);
    }
    // It goes on if the client leaves: a step is not half done.
    let done = context.work.spawn(async move { step.take(&handover).await }).await;
    let panicked = |_| failure(StatusCode::INTERNAL_SERVER_ERROR, "this failed; the server's log says why");
    Ok(match done.map_err(panicked)?.map_err(|error| failed(&error))? {
        Value::Null => empty(StatusCode::NO_CONTENT),
        answer => with_body(StatusCode::OK, "application/json", answer.to_string() + "\n"),
    })
}

/// What is asked for.
enum Step {
    Tell,
    Changed { epoch: u64 },
    Mark { epoch: u64 },
    HoldOff { hold: u64, limit: Duration },
    Renew { hold: u64 },
    Leave { hold: u64, to: String },
    Release { hold: u64 },
    TakeBack,
}

impl Step {
    /// `new`: a number for a new hold or epoch.
    fn read(method: &Method, of_url: &Params, new: u64) -> Result<Self, Error> {
        let number = |name: &str| {
            let text = of_url.get(name);
            text.parse::<u64>().map_err(|_| Error::invalid(format!("{name} is no number: {text:?}")))
        };
        Ok(match (method, of_url.get("step")) {
            (&Method::GET, _) if of_url.get("epoch").is_empty() => Self::Tell,
            (&Method::GET, _) => Self::Changed { epoch: number("epoch")? },
            (&Method::DELETE, _) if of_url.get("hold").is_empty() => Self::TakeBack,
            (&Method::DELETE, _) => Self::Release { hold: number("hold")? },
            (_, "mark") => Self::Mark { epoch: new },
            (_, "hold") => {
                let limit = Duration::from_secs(number("seconds")?).min(HOLD_MAX);
                Self::HoldOff { hold: new, limit }
            }
            (_, "renew") => Self::Renew { hold: number("hold")? },
            (_, "leave") if !of_url.get("to").is_empty() => {
                Self::Leave { hold: number("hold")?, to: of_url.get("to").to_owned() }
            }
            (_, "leave") => return Err(Error::invalid("leave where to?")),
            (_, other) => return Err(Error::invalid(format!("there is no step {other:?}"))),
        })
    }

    /// What is written to the audit log.
    fn audited(&self) -> Option<String> {
        match self {
            Self::HoldOff { .. } => Some("writes held off".to_owned()),
            Self::Leave { to, .. } => Some(format!("everything moved to {to}")),
            Self::Release { .. } => Some("writes taken again".to_owned()),
            Self::TakeBack => Some("given up".to_owned()),
            Self::Tell | Self::Changed { .. } | Self::Mark { .. } | Self::Renew { .. } => None,
        }
    }

    async fn take(self, handover: &Arc<Handover>) -> Result<Value, Error> {
        Ok(match self {
            Self::Tell => json!({ "left_to": handover.left_to() }),
            Self::Changed { epoch } => {
                let changed = handover.changed(epoch)?;
                serde_json::to_value(changed).expect("numbers are written")
            }
            Self::Mark { epoch } => {
                let mark = handover.mark(epoch).await?;
                json!({ "epoch": mark.epoch, "number": mark.number })
            }
            Self::HoldOff { hold, limit } => {
                handover.hold(hold, limit).await?;
                json!({ "hold": hold })
            }
            Self::Renew { hold } => {
                handover.renew(hold)?;
                Value::Null
            }
            Self::Leave { hold, to } => {
                handover.leave(hold, &to).await?;
                tracing::warn!(to, "everything was moved: this server takes no writes any more");
                Value::Null
            }
            Self::Release { hold } => {
                handover.release(hold);
                Value::Null
            }
            Self::TakeBack => {
                handover.take_back().await?;
                Value::Null
            }
        })
    }
}

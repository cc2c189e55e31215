//! `web_fetch`: the text of a page, fetched in the sandbox's own network.
//!
//! Whether a host may be reached is decided where the sandbox's connections arrive, for every hop of a redirect anew; the
//! plan is asked only to tell the model why something failed.

use std::net::IpAddr;
use std::time::{Duration, Instant};

use log::message::ToolErrorKind;
use profile::{HostName, Phase, Plan};
use sandbox::{DialError, DialFailure, Sandbox};
use serde_json::json;
use url::Url;

use super::http::{self, Answer, Trouble};
use super::page::{self, Content, Page};
use super::tidy;
use crate::approval::Permit;
use crate::tools::run::{cut, failed};
use crate::tools::{Called, Hands};

/// How often an answer may lead elsewhere.
const MOST_REDIRECTS: usize = 5;
const MOST_ADDRESS: usize = 8 << 10;

/// What is told of a page that could not be had.
pub(super) struct Refusal(pub(super) ToolErrorKind, pub(super) String);

fn refuse<T>(kind: ToolErrorKind, message: impl Into<String>) -> Result<T, Refused> {
    Err(Refused::Told(Refusal(kind, message.into())))
}

pub(super) enum Refused {
    Told(Refusal),
    /// The sandbox is gone.
    Died(sandbox::SessionError),
}

/// Fetches a page and writes down that it did.
pub(in crate::tools) async fn fetch(url: &str, sandbox: &Sandbox, hands: &Hands<'_>) -> Called {
    let started = Instant::now();
    let timeout = hands.manner.timeout;
    let fetched = tokio::time::timeout(timeout, follow(url, sandbox, (hands.plan, hands.permit), timeout)).await;
    let fetched = fetched.unwrap_or_else(|_| {
        refuse(ToolErrorKind::Timeout, format!("the page did not come in {} s", timeout.as_secs_f64()))
    });
    let mut event = json!({"kind": "web_fetch", "url": tidy(url, 2000)});
    let called = match fetched {
        Ok((last, page)) => {
            event["final_url"] = json!(last.as_str());
            event["characters"] = json!(page.text.chars().count());
            let title = if page.title.is_empty() { String::new() } else { format!("Title: {}\n", page.title) };
            cut(format!("{title}URL: {last}\n\n{}", page.text), hands.manner.output, false, hands.journal.redactor())
        }
        Err(Refused::Told(Refusal(kind, message))) => {
            event["error"] = json!(message);
            Called::error(kind, message)
        }
        Err(Refused::Died(error)) => {
            event["error"] = json!(error.to_string());
            failed(&error)
        }
    };
    event["milliseconds"] = json!(u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX));
    hands.journal.info(event);
    called
}

/// An address that may be asked for at all.
fn address(text: &str) -> Result<Url, Refused> {
    let shown = tidy(text, 200);
    if text.len() > MOST_ADDRESS {
        return refuse(ToolErrorKind::Parsing, "the address is too long");
    }
    let Ok(url) = Url::parse(text) else {
        return refuse(ToolErrorKind::Parsing, format!("`{shown}` is not an address; write https://name/path"));
    };
    sound(url)
}

fn sound(mut url: Url) -> Result<Url, Refused> {
    let kind = ToolErrorKind::Parsing;
    if !matches!(url.scheme(), "http" | "https") || url.host_str().is_none_or(str::is_empty) {
        return refuse(kind, format!("only http and https can be fetched, not `{}`", tidy(url.as_str(), 200)));
    }
    if !url.username().is_empty() || url.password().is_some() {
        return refuse(kind, "an address with a user or a password is not fetched");
    }
    url.set_fragment(None);
    Ok(url)
}

pub(super) async fn follow(
    start: &str,
    sandbox: &Sandbox,
    (plan, permit): (&Plan, &Permit),
    deadline: Duration,
) -> Result<(Url, Page), Refused> {
    let mut url = address(start)?;
    for _ in 0..=MOST_REDIRECTS {
        let (host, port) = http::target(&url);
        if !permit.reaches(&host, port) {
            let message = format!("the call was not approved for {} on port {port}", tidy(&host, 260));
            return refuse(ToolErrorKind::Approval, message);
        }
        let answer = match http::get(&url, sandbox, deadline).await {
            Ok(answer) => answer,
            Err(trouble) => return Err(told(trouble, &url, plan)),
        };
        // The gateway's own words, for plain HTTP.
        if let Some(reason) = answer.header("x-ringfence-reason") {
            let (host, port) = http::target(&url);
            return refuse(ToolErrorKind::Permission, format!("{}: {}", not_allowed(&host, port), tidy(reason, 100)));
        }
        match redirect(&url, &answer)? {
            Some(next) => url = next,
            None => return read(url, answer).await,
        }
    }
    refuse(
        ToolErrorKind::Limit,
        format!("more than {MOST_REDIRECTS} redirects, the last one to {}", tidy(url.as_str(), 200)),
    )
}

fn redirect(from: &Url, answer: &Answer) -> Result<Option<Url>, Refused> {
    if !matches!(answer.status.as_u16(), 301 | 302 | 303 | 307 | 308) {
        return Ok(None);
    }
    let location = answer.header("location").filter(|location| location.len() <= MOST_ADDRESS);
    let Some(next) = location.and_then(|location| from.join(location).ok()) else {
        return refuse(ToolErrorKind::Unknown, "the server redirects to what is not an address");
    };
    let next = sound(next)?;
    if from.scheme() == "https" && next.scheme() == "http" {
        let message =
            format!("the server redirects from https to {}, which is not encrypted", tidy(next.as_str(), 200));
        return refuse(ToolErrorKind::Permission, message);
    }
    Ok(Some(next))
}

async fn read(url: Url, answer: Answer) -> Result<(Url, Page), Refused> {
    if !answer.status.is_success() {
        return refuse(ToolErrorKind::Unknown, format!("the server answered {}", answer.status));
    }
    if let Some(encoding) =
        answer.header("content-encoding").filter(|encoding| !encoding.eq_ignore_ascii_case("identity"))
    {
        let message = format!("the server sent `{}`, which was not asked for", tidy(encoding, 100));
        return refuse(ToolErrorKind::Unknown, message);
    }
    let kind = answer.header("content-type").map(str::to_owned);
    let content = match page::content(kind.as_deref()) {
        Ok(content) => content,
        Err(kind) => return refuse(ToolErrorKind::Unknown, format!("a page of type `{kind}` has no text to show")),
    };
    // Off the threads that serve everybody; the work is bounded by the length of what came.
    let reading = tokio::task::spawn_blocking(move || {
        let text = page::decode(&answer.body, kind.as_deref());
        let page = match content {
            Content::Html => page::read(&text, &url),
            Content::Text => Page { title: String::new(), text },
        };
        (url, page)
    });
    reading.await.or_else(|_| refuse(ToolErrorKind::Unknown, "the page could not be read"))
}

/// Whether the agent's rules let a connection to that host through, as far as its name and port say.
fn allowed(plan: &Plan, host: &str, port: u16) -> bool {
    let Some(zone) = plan.network.phases.get(Phase::Agent.name()) else { return true };
    match (host.parse::<IpAddr>(), HostName::parse(host)) {
        (Ok(address), _) => zone.egress.permits_address(address),
        (_, Ok(name)) => zone.egress.permits(&name, port),
        _ => false,
    }
}

fn not_allowed(host: &str, port: u16) -> String {
    format!("the profile's network rules do not allow {} on port {port}", tidy(host, 260))
}

/// Why there is no answer, for a model.
fn told(trouble: Trouble, url: &Url, plan: &Plan) -> Refused {
    let (host, port) = http::target(url);
    let shown = tidy(&host, 260);
    let why = match trouble {
        Trouble::Dial(DialError::Session(error)) => return Refused::Died(error),
        Trouble::TooLong => {
            let message = format!("the page is longer than {} MiB", http::MOST_BODY >> 20);
            return Refused::Told(Refusal(ToolErrorKind::Limit, message));
        }
        Trouble::Tls(why) => {
            let message = format!("{shown} cannot be trusted: {}", tidy(&why, 200));
            return Refused::Told(Refusal(ToolErrorKind::Permission, message));
        }
        Trouble::Dial(DialError::Failed { why, .. }) => match why {
            DialFailure::UnknownName => "there is no such name",
            DialFailure::NoResolver => "no name server answers",
            DialFailure::Refused => "nobody listens there",
            DialFailure::Unreachable => "no way leads there",
            DialFailure::TimedOut => "it does not answer",
            DialFailure::Reset => "the connection was broken off",
            DialFailure::Exhausted => "the sandbox has too many connections",
            DialFailure::Invalid => "this is no host's name",
            DialFailure::Other => "no connection could be opened",
        }
        .to_owned(),
        Trouble::Broken(why) => format!("the connection was broken off ({})", tidy(&why, 200)),
    };
    if !allowed(plan, &host, port) {
        return Refused::Told(Refusal(ToolErrorKind::Permission, not_allowed(&host, port)));
    }
    Refused::Told(Refusal(ToolErrorKind::Unknown, format!("{shown} cannot be reached: {why}")))
}

//! Asks whoever sits at the terminal.

use std::fs::File;
use std::io::Write as _;
use std::sync::Arc;
use std::time::Duration;

use eval::{About, Choice, Heard, Mark, Person, Question, Reply, Replying};
use rustix::fs::{Mode, OFlags, open};
use rustix::termios::{QueueSelector, tcflush};
use tokio::io::AsyncReadExt as _;
use tokio::net::unix::pipe::Receiver;
use tokio::sync::Mutex;

use super::eval_display::Board;
use crate::printer::{Look, Page, Printer, plain, sanitise, span};

/// The longest answer.
const LONGEST: usize = 16 << 10;

/// The terminal that this process was started at.
pub(super) struct Terminal {
    /// One question after the other.
    keyboard: Mutex<Receiver>,
    board: Arc<Board>,
}

impl Terminal {
    /// None where nobody sits. Must be called in a runtime.
    pub(super) fn open(board: Arc<Board>) -> Option<Self> {
        use std::io::IsTerminal as _;
        if !std::io::stdin().is_terminal() || !std::io::stderr().is_terminal() {
            return None;
        }
        // Opened anew: not blocking is a property of what is opened, and others use our standard input.
        let flags = OFlags::RDWR | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let keyboard = File::from(open("/dev/tty", flags, Mode::empty()).ok()?);
        // A terminal is waited for and read like a pipe.
        Some(Self { keyboard: Mutex::new(Receiver::from_file_unchecked(keyboard).ok()?), board })
    }
}

impl Person for Terminal {
    fn ask<'a>(&'a self, question: &'a Question) -> Replying<'a> {
        Box::pin(async move {
            let mut keyboard = self.keyboard.lock().await;
            let _paused = self.board.pause();
            show(question);
            // Whatever was typed before the question was there is no answer to it.
            let _ = tcflush(&*keyboard, QueueSelector::IFlush);
            let heard = tokio::time::timeout(question.timeout, hear(&mut keyboard, question)).await;
            if heard.is_err() {
                say(&vec![vec![span(Look::Doubtful, "no answer in time: that is a no")]]);
            }
            heard.unwrap_or(Heard::Silence)
        })
    }
}

fn say(page: &Page) {
    Printer::new(false).message(page);
}

fn show(question: &Question) {
    let about = match question.about {
        About::Call => "wants to call",
        About::Result => "would see what was given by",
        About::Egress => "wants to reach a name that no rule lists",
    };
    let mut page: Page = vec![
        vec![],
        vec![
            span(Look::Strong, "approval"),
            plain(format!("  sample {} {about} ", question.sample)),
            span(Look::Strong, if question.about == About::Egress { String::new() } else { question.tool.clone() }),
        ],
    ];
    for (mark, line) in &question.view.lines {
        let (lead, look) = match mark {
            Mark::Plain => ("  ", Look::Plain),
            Mark::Label => ("  ", Look::Strong),
            Mark::Command => ("  $ ", Look::Doubtful),
            Mark::Added => ("  + ", Look::Good),
            Mark::Removed => ("  - ", Look::Bad),
            Mark::Note => ("  ! ", Look::Bad),
        };
        page.push(vec![span(Look::Faint, lead), span(look, line.clone())]);
    }
    say(&page);
    prompt(question, question.timeout);
}

fn prompt(question: &Question, left: Duration) {
    let choices: Vec<&str> = question.choices.iter().map(|choice| words(*choice).1).collect();
    let text = format!("{} (no answer in {} s is a no): ", choices.join(", "), left.as_secs());
    let mut out = anstream::stderr();
    let _ = out.write_all(sanitise(&text).as_bytes()).and_then(|()| out.flush());
}

/// The letter that stands for a choice, and how it is offered.
fn words(choice: Choice) -> (char, &'static str) {
    match choice {
        Choice::Approve => ('y', "[y]es"),
        Choice::ApproveSame => ('s', "[s]ame call again too"),
        Choice::Modify => ('m', "[m]odify"),
        Choice::Reject => ('n', "[n]o"),
        Choice::Terminate => ('t', "[t]erminate the sample"),
        Choice::Escalate => ('e', "[e]scalate"),
    }
}

async fn hear(keyboard: &mut Receiver, question: &Question) -> Heard {
    loop {
        let Some(line) = line(keyboard).await else { return Heard::Gone };
        let line = line.trim();
        let (word, reason) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
        let names = ["yes", "same", "modify", "no", "terminate", "escalate"];
        let letter = word.chars().next().map(|letter| letter.to_ascii_lowercase());
        let known = word.chars().count() == 1 || names.contains(&word.to_ascii_lowercase().as_str());
        let choice = question.choices.iter().copied().find(|choice| known && Some(words(*choice).0) == letter);
        let reason = Some(reason.trim().to_owned()).filter(|reason| !reason.is_empty());
        match choice {
            Some(Choice::Modify) => match arguments(keyboard).await {
                Some(arguments) => {
                    return Heard::Reply(Reply { choice: Choice::Modify, reason, arguments: Some(arguments) });
                }
                None => prompt(question, question.timeout),
            },
            Some(choice) => return Heard::Reply(Reply { choice, reason, arguments: None }),
            None => prompt(question, question.timeout),
        }
    }
}

/// Other arguments, as JSON in one line.
async fn arguments(keyboard: &mut Receiver) -> Option<serde_json::Map<String, serde_json::Value>> {
    let mut out = anstream::stderr();
    let _ = out.write_all(b"arguments as JSON, in one line: ").and_then(|()| out.flush());
    serde_json::from_str(&line(keyboard).await?).ok()
}

/// A line from the keyboard; none at its end.
async fn line(keyboard: &mut Receiver) -> Option<String> {
    let mut bytes = Vec::new();
    loop {
        let mut buffer = [0; 1024];
        match keyboard.read(&mut buffer).await {
            Ok(0) | Err(_) => return None,
            Ok(count) => bytes.extend_from_slice(&buffer[..count]),
        }
        if let Some(end) = bytes.iter().position(|byte| *byte == b'\n') {
            return Some(String::from_utf8_lossy(&bytes[..end]).into_owned());
        }
        if bytes.len() > LONGEST {
            return None;
        }
    }
}

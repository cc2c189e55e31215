//! A chain of what was decided: a file of lines, each with the hash of the one before.
//!
//! Whoever changes, removes, moves or adds a line breaks the chain at that place. Whoever cuts lines off its end, or makes it
//! all anew, leaves it whole; that is found by the chain's head, which stands in the log. A line has exactly one form, so
//! not even a space can be added.

use std::fmt;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use bounded::Budget;
use rustix::fs::OFlags;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use sha2::{Digest as _, Sha256};

use crate::canonical;

/// The longest line.
const LONGEST: u64 = 16 << 20;
/// The most memory that the values of a line may take, beside its text.
const VALUES: u64 = LONGEST + (8 << 20);
/// How long a line may lie in memory only.
const SYNC: Duration = Duration::from_secs(1);

/// Where a chain ends.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Head {
    /// How many lines it has.
    pub count: u64,
    /// The hash of the last one, in hexadecimal; zeros for none.
    pub hash: String,
}

impl Head {
    fn none() -> Self {
        Self { count: 0, hash: "0".repeat(64) }
    }
}

/// What is wrong with a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flaw {
    /// It is cut off, too long, or not a line of a chain in its one form.
    Form,
    /// It has another number: something was removed, moved or added before it.
    Number,
    /// It does not follow the line before it.
    Previous,
    /// It is not what was written.
    Content,
}

/// Why a chain cannot be written, or is not whole.
#[derive(Debug, thiserror::Error)]
pub enum AuditError {
    /// The file system says no.
    #[error("cannot {action} the audit chain `{}`", path.display())]
    Io {
        /// What was being done.
        action: &'static str,
        /// The chain.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// A line is longer than any may be.
    #[error("a line of the audit chain `{}` would be longer than {LONGEST} bytes", .0.display())]
    TooLong(PathBuf),
    /// Something came after the end.
    #[error("the audit chain `{}` has ended", .0.display())]
    Ended(PathBuf),
    /// The chain is broken.
    #[error("the audit chain `{}` is broken at line {line}: {}", path.display(), words(*flaw))]
    Broken {
        /// The chain.
        path: PathBuf,
        /// Counted from 1.
        line: u64,
        /// What is wrong with it.
        flaw: Flaw,
    },
    /// The chain is whole, but another one.
    #[error("the audit chain `{}` does not end as the log says: {} lines, expected {}", path.display(), found.count, expected.count)]
    Head {
        /// The chain.
        path: PathBuf,
        /// Where it ends.
        found: Head,
        /// Where the log says.
        expected: Head,
    },
}

fn words(flaw: Flaw) -> &'static str {
    match flaw {
        Flaw::Form => "it is not in its one form",
        Flaw::Number => "it has another number",
        Flaw::Previous => "it does not follow the line before it",
        Flaw::Content => "its content was changed",
    }
}

/// Writes a chain.
pub struct Audit {
    path: PathBuf,
    state: Mutex<State>,
}

struct State {
    file: File,
    length: u64,
    head: Head,
    synced: Instant,
    ended: bool,
}

impl Audit {
    /// Where the chain of a log is: beside it.
    pub fn beside(log: &Path) -> PathBuf {
        log.with_extension("audit.jsonl")
    }

    /// Begins a chain; there must be none yet.
    pub fn create(path: &Path) -> Result<Self, AuditError> {
        let file = File::options().append(true).create_new(true).open(path);
        let file = file.map_err(|source| AuditError::Io { action: "begin", path: path.to_path_buf(), source })?;
        let state = Mutex::new(State { file, length: 0, head: Head::none(), synced: Instant::now(), ended: false });
        Ok(Self { path: path.to_path_buf(), state })
    }

    /// Adds a line. One that fails is not part of the chain.
    pub fn record(&self, kind: &str, data: Value) -> Result<(), AuditError> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.ended {
            return Err(AuditError::Ended(self.path.clone()));
        }
        let mut line = Map::new();
        line.insert("seq".into(), json!(state.head.count + 1));
        line.insert("time".into(), json!(crate::time::rfc3339(SystemTime::now())));
        line.insert("kind".into(), json!(kind));
        line.insert("data".into(), data);
        line.insert("prev".into(), json!(state.head.hash));
        let hash = hash(&line);
        line.insert("hash".into(), json!(hash));
        let line = Value::Object(line);
        let mut text = canonical(&line);
        text.push('\n');
        // What cannot be read back is not written.
        if text.len() as u64 > LONGEST || bounded::cost(&line) > VALUES {
            return Err(AuditError::TooLong(self.path.clone()));
        }
        if let Err(source) = state.file.write_all(text.as_bytes()) {
            // Half a line would break the chain for all that follow.
            let _ = state.file.set_len(state.length);
            return Err(self.io("write", source));
        }
        state.length += text.len() as u64;
        state.head = Head { count: state.head.count + 1, hash };
        if state.synced.elapsed() >= SYNC {
            state.file.sync_data().map_err(|source| self.io("write", source))?;
            state.synced = Instant::now();
        }
        Ok(())
    }

    /// Where the chain ends now. Belongs into the log.
    pub fn head(&self) -> Head {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).head.clone()
    }

    /// Ends the chain, with everything on disk: what comes late, such as a record of a connection that was cut, would make it
    /// longer than the log says.
    pub fn end(&self) -> Result<Head, AuditError> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.ended = true;
        state.file.sync_all().map_err(|source| self.io("write", source))?;
        Ok(state.head.clone())
    }

    /// Has everything on disk; for the end of an evaluation.
    pub fn sync(&self) -> Result<(), AuditError> {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.file.sync_all().map_err(|source| self.io("write", source))
    }

    fn io(&self, action: &'static str, source: io::Error) -> AuditError {
        AuditError::Io { action, path: self.path.clone(), source }
    }
}

/// Checks the chain of a writer that was killed: half a line at its end is no part of it, and no flaw.
pub fn verify_killed(path: &Path) -> Result<Head, AuditError> {
    follow_all(path, true, &mut |_, _, _| {})
}

/// The same, and shows each line that was found right: the chain's head after it, its kind and its data. What a head vouches
/// for are the lines up to it.
pub fn walk_killed(path: &Path, see: &mut dyn FnMut(&Head, &str, &Value)) -> Result<Head, AuditError> {
    follow_all(path, true, see)
}

/// What the first line of a chain says: its kind and data. Nothing if there is no line.
pub fn first(path: &Path) -> Result<Option<(String, Value)>, AuditError> {
    let io = |source| AuditError::Io { action: "read", path: path.to_path_buf(), source };
    let mut text = Vec::new();
    BufReader::new(open(path).map_err(io)?).take(LONGEST).read_until(b'\n', &mut text).map_err(io)?;
    if text.is_empty() {
        return Ok(None);
    }
    let broken = |flaw| AuditError::Broken { path: path.to_path_buf(), line: 1, flaw };
    let (_, mut line) = follow(&Head::none(), &text).map_err(broken)?;
    let kind = line.get("kind").and_then(Value::as_str).unwrap_or_default().to_owned();
    Ok(Some((kind, line.remove("data").unwrap_or_default())))
}

/// Checks a chain from its first line to its last. Without an `expected` head, lines missing at its end are not found.
pub fn verify(path: &Path, expected: Option<&Head>) -> Result<Head, AuditError> {
    walk(path, expected, &mut |_, _| {})
}

/// The same, and shows the kind and the data of each line once it was found right. One line is in memory at a time.
pub fn walk(path: &Path, expected: Option<&Head>, see: &mut dyn FnMut(&str, &Value)) -> Result<Head, AuditError> {
    let head = follow_all(path, false, &mut |_, kind, data| see(kind, data))?;
    match expected {
        Some(expected) if *expected != head => {
            Err(AuditError::Head { path: path.to_path_buf(), found: head, expected: expected.clone() })
        }
        _ => Ok(head),
    }
}

fn follow_all(path: &Path, may_be_cut: bool, see: &mut dyn FnMut(&Head, &str, &Value)) -> Result<Head, AuditError> {
    let io = |source| AuditError::Io { action: "read", path: path.to_path_buf(), source };
    let mut file = BufReader::new(open(path).map_err(io)?);
    let mut head = Head::none();
    let mut text = Vec::new();
    loop {
        text.clear();
        file.by_ref().take(LONGEST).read_until(b'\n', &mut text).map_err(io)?;
        let cut = may_be_cut && !text.ends_with(b"\n") && (text.len() as u64) < LONGEST;
        if text.is_empty() || cut {
            return Ok(head);
        }
        let line = head.count + 1;
        let found = follow(&head, &text).map_err(|flaw| AuditError::Broken { path: path.to_path_buf(), line, flaw })?;
        let (next, content) = found;
        see(
            &next,
            content.get("kind").and_then(Value::as_str).unwrap_or_default(),
            content.get("data").unwrap_or(&Value::Null),
        );
        head = next;
    }
}

/// Opens a plain file; a pipe that somebody put there would be waited for.
fn open(path: &Path) -> io::Result<File> {
    let flags = (OFlags::NONBLOCK | OFlags::CLOEXEC).bits();
    let file = File::options().read(true).custom_flags(i32::try_from(flags).unwrap_or_default()).open(path)?;
    if file.metadata()?.is_file() { Ok(file) } else { Err(io::Error::other("it is not a plain file")) }
}

/// The head after a line, and what the line says.
fn follow(head: &Head, text: &[u8]) -> Result<(Head, Map<String, Value>), Flaw> {
    let text = text.strip_suffix(b"\n").ok_or(Flaw::Form)?;
    let line = bounded::value(text, &Budget::new(VALUES)).map_err(|_| Flaw::Form)?;
    // Also finds keys that are there twice: reading keeps one.
    let mut rest = Same(text);
    if canonical::write(&line, &mut rest).is_err() || !rest.0.is_empty() {
        return Err(Flaw::Form);
    }
    let Value::Object(mut line) = line else { return Err(Flaw::Form) };
    if line.get("seq") != Some(&json!(head.count + 1)) {
        return Err(Flaw::Number);
    }
    if line.get("prev") != Some(&json!(head.hash)) {
        return Err(Flaw::Previous);
    }
    let claimed = line.remove("hash");
    let hash = hash(&line);
    if claimed != Some(json!(hash)) {
        return Err(Flaw::Content);
    }
    Ok((Head { count: head.count + 1, hash }, line))
}

fn hash(line: &Map<String, Value>) -> String {
    let mut hash = Hashed(Sha256::new());
    // Hashing cannot fail.
    let _ = canonical::write_map(line, &mut hash);
    crate::hex(&hash.0.finalize())
}

/// A writer that only compares: fails at the first byte that is another.
struct Same<'a>(&'a [u8]);

impl fmt::Write for Same<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.0 = self.0.strip_prefix(text.as_bytes()).ok_or(fmt::Error)?;
        Ok(())
    }
}

/// A writer that only hashes.
struct Hashed(Sha256);

impl fmt::Write for Hashed {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.0.update(text.as_bytes());
        Ok(())
    }
}

//! The redactor on texts of all sorts, beside searches that do much less: in one interleaved run, on one core.

mod texts;

use std::error::Error;
use std::fmt;
use std::hint::black_box;
use std::time::Duration;

use aho_corasick::AhoCorasick;
use log::Redactor;
use log::redact::{KEYS, Stream};
use regex::bytes::Regex;
use rustix::time::{ClockId, clock_gettime};

/// How much is done.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Extent {
    rounds: usize,
    /// Bytes of each text.
    size: usize,
}

pub(crate) const QUICK: Extent = Extent { rounds: 3, size: 4 << 20 };
pub(crate) const FULL: Extent = Extent { rounds: 9, size: 32 << 20 };

/// What somebody would write who has only the tokens in mind.
const TOKENS: &str = r#"(?x-u)
    \b(?:AKIA|ASIA)[A-Z0-9]{16}\b | \bsk-(?:ant-|proj-)?[A-Za-z0-9_-]{20,} | \bgh[pousr]_[A-Za-z0-9]{36,}
    | \bgithub_pat_\w{22,} | \bglpat-[\w-]{20,} | \bxox[abeprs]-[\w-]{10,} | \bAIza[\w-]{35} | \bhf_[A-Za-z0-9]{30,}
    | \bnpm_[A-Za-z0-9]{36} | \beyJ[\w-]{9,}\.eyJ[\w-]{8,}\.?[\w-]*
    | -----BEGIN[A-Z\ ]*PRIVATE\ KEY-----[^-]*-----END | ://[^\s:/@]*:[^\s/@]+@
    | (?i)"(?:api_key|password|secret|access_token)"\s*:\s*"(?:[^"\\]|\\.)*" | ^authorization:[^\r\n]*"#;

/// The times of every contender on one text.
struct Row {
    what: String,
    bytes: usize,
    ours: Vec<Duration>,
    streamed: Vec<Duration>,
    exact: Vec<Duration>,
    regex: Vec<Duration>,
}

/// What was found.
pub(crate) struct Comparison {
    rows: Vec<Row>,
    /// What it takes to make a redactor, with the number of its secrets.
    made: Vec<(usize, Duration)>,
}

/// Megabytes in a second.
fn rate(bytes: usize, times: &[Duration]) -> f64 {
    let mut times = times.to_vec();
    times.sort();
    let megabytes = u32::try_from(bytes).map_or(f64::NAN, f64::from) / 1e6;
    times.get(times.len() / 2).map_or(f64::NAN, |time| megabytes / time.as_secs_f64())
}

impl fmt::Display for Comparison {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{:<36} {:>10} {:>10} {:>12} {:>10} {:>9} {:>9}",
            "MB/s, one core", "ours", "streamed", "exact search", "regex", "÷ exact", "÷ regex"
        )?;
        let mut slowest = f64::INFINITY;
        for row in &self.rows {
            let [ours, streamed, exact, regex] =
                [&row.ours, &row.streamed, &row.exact, &row.regex].map(|times| rate(row.bytes, times));
            slowest = slowest.min(ours).min(streamed);
            writeln!(
                f,
                "{:<36} {ours:>10.0} {streamed:>10.0} {exact:>12.0} {regex:>10.0} {:>9.2} {:>9.2}",
                row.what,
                ours / exact,
                ours / regex
            )?;
        }
        for (count, time) in &self.made {
            writeln!(f, "a redactor of {count} secrets is made in {:.1} ms", time.as_secs_f64() * 1e3)?;
        }
        writeln!(f, "\nslowest: {slowest:.0} MB/s   floor 100, target 200")
    }
}

fn timed(times: &mut Vec<Duration>, work: impl FnOnce()) {
    // The time of this thread alone: a core that others use meanwhile does not count.
    let now = || Duration::try_from(clock_gettime(ClockId::ThreadCPUTime)).unwrap_or_default();
    let start = now();
    work();
    times.push(now().saturating_sub(start));
}

/// Runs everything, a round at a time.
pub(crate) fn compare(extent: Extent) -> Result<Comparison, Box<dyn Error>> {
    let few = texts::secrets(10);
    let many = texts::secrets(10_000);
    let mut inputs = vec![
        ("a log".to_owned(), texts::log(extent.size, &[]), &few),
        ("a log with secrets".to_owned(), texts::log(extent.size, &few), &few),
        ("a log with 10,000 secrets".to_owned(), texts::log(extent.size, &many), &many),
    ];
    inputs.extend(
        texts::hostile(extent.size).into_iter().map(|(what, text)| (format!("again and again: {what}"), text, &few)),
    );
    inputs.push((
        "10,000 secrets, begun only".to_owned(),
        many.iter().map(|one| &one[..31]).collect::<String>().repeat(extent.size / 320_000),
        &many,
    ));
    let mut made = Vec::new();
    let mut tools = |secrets: &Vec<String>| -> Result<_, Box<dyn Error>> {
        let mut times = Vec::new();
        timed(&mut times, || {
            black_box(Redactor::new(secrets, KEYS));
        });
        made.extend(times.into_iter().map(|time| (secrets.len(), time)));
        Ok((Redactor::new(secrets, KEYS), AhoCorasick::new(secrets)?))
    };
    let (for_few, for_many) = (tools(&few)?, tools(&many)?);
    let regex = Regex::new(TOKENS)?;
    let empty = |(what, text, _): &(String, String, _)| Row {
        what: what.clone(),
        bytes: text.len(),
        ours: Vec::new(),
        streamed: Vec::new(),
        exact: Vec::new(),
        regex: Vec::new(),
    };
    let mut rows: Vec<Row> = inputs.iter().map(empty).collect();
    for _ in 0..extent.rounds {
        for ((_, text, secrets), row) in inputs.iter().zip(&mut rows) {
            let (redactor, exact) = if secrets.len() == few.len() { &for_few } else { &for_many };
            timed(&mut row.ours, || {
                black_box(redactor.text(text));
            });
            timed(&mut row.streamed, || {
                let mut stream = Stream::new(redactor);
                let mut out = Vec::new();
                for chunk in text.as_bytes().chunks(8192) {
                    stream.push(chunk, &mut out);
                    out.clear();
                }
                stream.finish(&mut out);
                black_box(out);
            });
            timed(&mut row.exact, || {
                black_box(exact.find_iter(text).count());
            });
            timed(&mut row.regex, || {
                black_box(regex.find_iter(text.as_bytes()).count());
            });
        }
    }
    Ok(Comparison { rows, made })
}

//! What is shown while evaluations run: a live line for each on a terminal, a plain line now and then elsewhere.

use std::io::IsTerminal as _;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use eval::{Display, Progress};
use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::printer::sanitise;

/// How often a plain line is written.
const SELDOM: Duration = Duration::from_secs(5);

/// All that is shown.
pub(super) struct Board {
    lines: Option<MultiProgress>,
    /// How many evaluations have ended, of how many; only where there are several.
    all: Option<ProgressBar>,
}

impl Board {
    pub(super) fn new(count: usize) -> Self {
        let lines = std::io::stderr().is_terminal().then(MultiProgress::new);
        let all = lines.as_ref().filter(|_| count > 1).map(|lines| {
            let bar = lines.add(ProgressBar::new(u64::try_from(count).unwrap_or(u64::MAX)));
            dress(&bar, "{prefix} [{bar:24}] {pos}/{len}  {elapsed} {msg}");
            bar.set_prefix("evaluations");
            bar.tick();
            bar
        });
        Self { lines, all }
    }

    pub(super) fn finish(&self) {
        if let Some(bar) = &self.all {
            bar.finish_and_clear();
        }
        if let Some(lines) = &self.lines {
            let _ = lines.clear();
        }
    }

    /// Shows nothing until what this returns is dropped: somebody reads and types.
    pub(super) fn pause(&self) -> Paused<'_> {
        if let Some(lines) = &self.lines {
            let _ = lines.clear();
            lines.set_draw_target(ProgressDrawTarget::hidden());
        }
        Paused(self)
    }
}

/// The board while it is paused.
pub(super) struct Paused<'a>(&'a Board);

impl Drop for Paused<'_> {
    fn drop(&mut self) {
        if let Some(lines) = &self.0.lines {
            lines.set_draw_target(ProgressDrawTarget::stderr());
        }
    }
}

/// One evaluation on the board.
pub(super) struct Lane {
    name: String,
    bar: Option<ProgressBar>,
    all: Option<ProgressBar>,
    last: Mutex<Instant>,
    start: Instant,
}

impl Lane {
    pub(super) fn new(board: &Board, name: &str) -> Self {
        // A task's name and a model's are words of others.
        let name = sanitise(name);
        let bar = board.lines.as_ref().map(|lines| {
            let bar = match &board.all {
                Some(all) => lines.insert_before(all, ProgressBar::new(0)),
                None => lines.add(ProgressBar::new(0)),
            };
            dress(&bar, "{prefix} [{bar:24}] {pos}/{len}  {msg}");
            bar.set_prefix(name.clone());
            bar
        });
        let now = Instant::now();
        Self { name, bar, all: board.all.clone(), last: Mutex::new(now), start: now }
    }

    /// It has ended: its line goes.
    pub(super) fn finish(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
        if let Some(all) = &self.all {
            all.inc(1);
        }
    }

    fn line(&self, progress: &Progress) -> String {
        let mut parts = vec![format!("{} running", progress.running)];
        let counts = [
            (progress.kept, "kept"),
            (progress.failed, "failed"),
            (progress.tool_calls, "tool calls"),
            (progress.tokens, "tokens"),
            (progress.refused, "connections refused"),
        ];
        parts.extend(counts.iter().filter(|(count, _)| *count > 0).map(|(count, what)| format!("{count} {what}")));
        if let Some(score) = progress.score {
            parts.push(format!("score {score:.2}"));
        }
        if let Some(left) = self.left(progress) {
            parts.push(format!("{} s left", left.as_secs()));
        }
        parts.join(", ")
    }

    /// By what those took that were finished here; unknown before the first.
    fn left(&self, progress: &Progress) -> Option<Duration> {
        let done = u32::try_from(progress.done.saturating_sub(progress.kept)).ok().filter(|done| *done > 0)?;
        let open = u32::try_from(progress.total.saturating_sub(progress.done)).ok()?;
        (open > 0).then(|| self.start.elapsed() / done * open)
    }
}

impl Display for Lane {
    fn update(&self, progress: &Progress) {
        if let Some(bar) = &self.bar {
            bar.set_length(progress.total);
            bar.set_position(progress.done);
            bar.set_message(self.line(progress));
            return;
        }
        let Ok(mut last) = self.last.lock() else { return };
        if last.elapsed() >= SELDOM {
            *last = Instant::now();
            let (done, total, line) = (progress.done, progress.total, self.line(progress));
            anstream::eprintln!("{}: {done} of {total} samples, {line}", self.name);
        }
    }
}

fn dress(bar: &ProgressBar, template: &str) {
    // The template is a constant of ours; another look would do as well.
    if let Ok(style) = ProgressStyle::with_template(template) {
        bar.set_style(style.progress_chars("=> "));
    }
}

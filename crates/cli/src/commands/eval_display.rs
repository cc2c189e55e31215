//! What is shown while an evaluation runs: a live line on a terminal, a plain line now and then elsewhere.

use std::io::IsTerminal as _;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use eval::{Display, Progress};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// How often a plain line is written.
const SELDOM: Duration = Duration::from_secs(5);

pub(super) struct Shown {
    bar: Option<ProgressBar>,
    last: Mutex<Instant>,
    start: Instant,
}

impl Shown {
    pub(super) fn new(name: &str) -> Self {
        let bar = std::io::stderr().is_terminal().then(|| {
            let style = ProgressStyle::with_template("{prefix} [{bar:24}] {pos}/{len}  {msg}");
            let bar = ProgressBar::new(0).with_prefix(name.to_owned());
            // The template is a constant of ours; another look would do as well.
            if let Ok(style) = style {
                bar.set_style(style.progress_chars("=> "));
            }
            bar
        });
        Self { bar, last: Mutex::new(Instant::now()), start: Instant::now() }
    }

    pub(super) fn finish(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }

    /// Shows nothing until what this returns is dropped: somebody reads and types.
    pub(super) fn pause(&self) -> Paused<'_> {
        if let Some(bar) = &self.bar {
            bar.set_draw_target(ProgressDrawTarget::hidden());
        }
        Paused(self)
    }

    fn line(&self, progress: &Progress) -> String {
        let mut parts = vec![format!("{} running", progress.running)];
        let counts = [
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

    /// By what the finished ones took; unknown before the first.
    fn left(&self, progress: &Progress) -> Option<Duration> {
        let done = u32::try_from(progress.done).ok().filter(|done| *done > 0)?;
        let open = u32::try_from(progress.total.saturating_sub(progress.done)).ok()?;
        (open > 0).then(|| self.start.elapsed() / done * open)
    }
}

/// The display while it is paused.
pub(super) struct Paused<'a>(&'a Shown);

impl Drop for Paused<'_> {
    fn drop(&mut self) {
        if let Some(bar) = &self.0.bar {
            bar.set_draw_target(ProgressDrawTarget::stderr());
        }
    }
}

impl Display for Shown {
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
            anstream::eprintln!("{} of {} samples, {}", progress.done, progress.total, self.line(progress));
        }
    }
}

//! A bar on the terminal while an image comes in. Where standard error is no terminal it says nothing.

use std::io::IsTerminal as _;

use image::{Progress, Step};
use indicatif::{ProgressBar, ProgressStyle};

/// One bar for one step after the other; gone at the end.
pub(super) struct Bar(Option<ProgressBar>);

impl Bar {
    pub(super) fn new() -> Self {
        Self(std::io::stderr().is_terminal().then(ProgressBar::no_length))
    }
}

impl Progress for Bar {
    fn begin(&self, step: Step, bytes: Option<u64>) {
        let Some(bar) = &self.0 else { return };
        bar.reset();
        let template = if bytes.is_some() {
            "{msg} [{wide_bar}] {binary_bytes} of {binary_total_bytes}, {binary_bytes_per_sec}"
        } else {
            "{msg} {spinner} {binary_bytes}, {binary_bytes_per_sec}"
        };
        // A template that indicatif does not understand would be our mistake; its own bar serves as well.
        let style = ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar());
        bar.set_style(style.progress_chars("=> "));
        bar.set_message(match step {
            Step::Reading => "reading the archive".to_owned(),
            Step::Fetching(number, of) => format!("fetching layer {number} of {of}"),
            Step::Unpacking(number, of) => format!("unpacking layer {number} of {of}"),
        });
        match bytes {
            Some(bytes) => bar.set_length(bytes),
            None => bar.unset_length(),
        }
    }

    fn done(&self, bytes: u64) {
        if let Some(bar) = &self.0 {
            bar.set_position(bytes);
        }
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        if let Some(bar) = &self.0 {
            bar.finish_and_clear();
        }
    }
}

//! Inspect's own docker provider, in a Python of its own: one call each time that it is asked.

use std::error::Error;
use std::io::{BufRead as _, BufReader, Lines, Write as _};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

use crate::evals::programs;

const PEER: &str = include_str!("provider.py");

/// A Python that waits for words.
pub(super) struct Provider {
    child: Child,
    asked: Option<ChildStdin>,
    said: Lines<BufReader<ChildStdout>>,
    /// Where it keeps its files.
    _place: tempfile::TempDir,
}

impl Provider {
    /// Starts it with a container of this image, or says what is missing.
    pub(super) fn start(image: &str) -> Result<Self, String> {
        let compose = Command::new("docker").args(["compose", "version"]).output();
        if !compose.is_ok_and(|output| output.status.success()) {
            return Err("there is no Compose v2".into());
        }
        let (_, python) = programs().map_err(|error| error.to_string())?;
        let begin = || -> std::io::Result<Self> {
            let place = tempfile::tempdir()?;
            let script = place.path().join("provider.py");
            std::fs::write(&script, PEER)?;
            let mut command = Command::new(&python.clone().map_err(std::io::Error::other)?);
            command.arg(script).arg(image).current_dir(place.path()).stdin(Stdio::piped()).stdout(Stdio::piped());
            let mut child = command.spawn()?;
            let asked = child.stdin.take();
            let said = child.stdout.take().ok_or_else(|| std::io::Error::other("no output"))?;
            Ok(Self { child, asked, said: BufReader::new(said).lines(), _place: place })
        };
        let mut provider = begin().map_err(|error| error.to_string())?;
        match provider.line() {
            Ok(line) if line == "ready" => Ok(provider),
            Ok(line) => Err(line),
            Err(error) => Err(error.to_string()),
        }
    }

    fn line(&mut self) -> Result<String, Box<dyn Error>> {
        Ok(self.said.next().ok_or("it ended")??)
    }

    /// How long one `exec`, or one `create`, took there.
    pub(super) fn time(&mut self, what: &str) -> Result<Duration, Box<dyn Error>> {
        let asked = self.asked.as_mut().ok_or("it ended")?;
        writeln!(asked, "{what}")?;
        Ok(Duration::try_from_secs_f64(self.line()?.parse()?)?)
    }
}

impl Drop for Provider {
    fn drop(&mut self) {
        // The end of its input is its end; it removes its containers first.
        self.asked = None;
        let _ = self.child.wait();
    }
}

//! A sandbox with many files of its own, frozen and begun with again; against copying as many files.

use std::error::Error;
use std::process::{Command, Stdio};
use std::time::Instant;

use sandbox::{Containers, Exec, Outcome, Overflow, Request, Snapshot, User};
use tempfile::TempDir;

use crate::table::{Report, Series, Unit};

const FORK: &str = "ringfence fork of 10,000 files";
const FREEZE: &str = "ringfence freeze";
const COPY: &str = "cp -a of 10,000 files";
/// Ten thousand files of a hundred bytes in a hundred directories, below the directory that is its argument.
const MAKE: &str = r#"for my $d (1..100) { mkdir "$ARGV[0]/$d"; for my $f (1..100) { open my $h, ">", "$ARGV[0]/$d/$f"; print $h "x" x 100 } }"#;

pub(crate) struct Forks<'a> {
    engine: &'a Containers,
    request: Request,
    place: TempDir,
    copies: u32,
    times: Series,
    freezes: Series,
    copied: Series,
}

/// A snapshot of a sandbox that wrote all these files itself.
async fn filled(engine: &Containers, request: &Request) -> Result<Snapshot, Box<dyn Error>> {
    let sandbox = engine.create(request.clone()).await?;
    let exec = Exec {
        argv: ["perl", "-e", MAKE, "/tmp"].map(str::to_owned).to_vec(),
        env: Vec::new(),
        cwd: Some("/".into()),
        user: User::Default,
        pty: None,
        timeout_ms: None,
        max_output: None,
    };
    let made = sandbox.exec(exec, b"", 1000, Overflow::KeepTail).await?;
    if made.outcome != Outcome::Exited(0) {
        return Err(format!("making files: {:?}", made.outcome).into());
    }
    Ok(sandbox.freeze().await?)
}

impl<'a> Forks<'a> {
    pub(crate) async fn new(engine: &'a Containers, request: &Request) -> Result<Self, Box<dyn Error>> {
        let request = Request { begin_with: Some(filled(engine, request).await?), ..request.clone() };
        // On memory, as ours are.
        let place = tempfile::Builder::new().prefix("ringfence-bench-").tempdir_in("/dev/shm")?;
        std::fs::create_dir(place.path().join("state"))?;
        let state = place.path().join("state");
        if !Command::new("perl").args(["-e", MAKE]).arg(&state).status()?.success() {
            return Err("making files".into());
        }
        let (times, freezes, copied) = (Series::new(FORK), Series::new(FREEZE), Series::new(COPY));
        Ok(Self { engine, request, place, copies: 0, times, freezes, copied })
    }

    /// The copy takes long: it takes part only when `long`.
    pub(crate) async fn round(&mut self, long: bool) -> Result<(), Box<dyn Error>> {
        let start = Instant::now();
        let fork = self.engine.create(self.request.clone()).await?;
        let forked = Instant::now();
        let snapshot = fork.freeze().await?;
        self.freezes.times.push(forked.elapsed());
        self.times.times.push(forked - start);
        drop(snapshot);
        if long {
            self.copies += 1;
            let (from, to) = (self.place.path().join("state"), self.place.path().join(self.copies.to_string()));
            let start = Instant::now();
            let copied = Command::new("cp").arg("-a").args([&from, &to]).stderr(Stdio::null()).status()?;
            self.copied.times.push(start.elapsed());
            if !copied.success() {
                return Err("cp -a".into());
            }
            std::fs::remove_dir_all(to)?;
        }
        Ok(())
    }

    pub(crate) fn report(self) -> Report {
        let mut report = Report::new("fork", Unit::Millis, vec![self.copied, self.times, self.freezes]);
        report.compare(COPY, FORK, "a fork: floor ≤ 20 ms, target ≤ 8 ms");
        report
    }
}

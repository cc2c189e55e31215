//! A file of one MiB into and out of a live sandbox. Nobody can be faster than writing and reading it without a sandbox, in
//! memory as the sandbox's own files are.

use std::error::Error;
use std::path::{Path, PathBuf};
use std::time::Instant;

use sandbox::{Containers, Request, Sandbox};
use tempfile::TempDir;

use crate::table::{Report, Series, Unit};

/// Names of rows.
const WRITE_FLOOR: &str = "std::fs::write on tmpfs";
const WRITE: &str = "ringfence write_file";
const READ_FLOOR: &str = "std::fs::read on tmpfs";
const READ: &str = "ringfence read_file";

const SIZE: usize = 1 << 20;
const INSIDE: &str = "/tmp/file";
/// A tmpfs that every Linux has.
const TMPFS: &str = "/dev/shm";

pub(crate) struct Files {
    live: Sandbox,
    contents: Vec<u8>,
    directory: TempDir,
    rows: [Series; 4],
}

impl Files {
    pub(crate) async fn new(engine: &Containers, request: &Request) -> Result<Self, Box<dyn Error>> {
        let place = if Path::new(TMPFS).is_dir() { PathBuf::from(TMPFS) } else { std::env::temp_dir() };
        Ok(Self {
            live: engine.create(request.clone()).await?,
            contents: b"ringfence".iter().copied().cycle().take(SIZE).collect(),
            directory: tempfile::Builder::new().prefix("ringfence-bench-").tempdir_in(place)?,
            rows: [WRITE_FLOOR, WRITE, READ_FLOOR, READ].map(Series::new),
        })
    }

    pub(crate) async fn round(&mut self) -> Result<(), Box<dyn Error>> {
        let Self { live, contents, directory, rows: [write_floor, write, read_floor, read] } = self;
        let outside = directory.path().join("file");
        let start = Instant::now();
        std::fs::write(&outside, &contents)?;
        write_floor.times.push(start.elapsed());
        let start = Instant::now();
        live.write_file(INSIDE, contents, 0o644).await?;
        write.times.push(start.elapsed());
        let start = Instant::now();
        let whole = std::fs::read(&outside)?;
        read_floor.times.push(start.elapsed());
        let start = Instant::now();
        let same = live.read_file(INSIDE, u64::try_from(SIZE)?).await?;
        read.times.push(start.elapsed());
        if whole == *contents && same == *contents { Ok(()) } else { Err("a file is not what was written".into()) }
    }

    pub(crate) async fn report(self) -> Result<Report, Box<dyn Error>> {
        self.live.stop().await?;
        let mut report = Report::new("a file of 1 MiB", Unit::Micros, self.rows.into());
        report.compare(WRITE, WRITE_FLOOR, "");
        report.compare(READ, READ_FLOOR, "");
        Ok(report)
    }
}

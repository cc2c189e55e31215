//! A writer that is killed at a random moment: this test program, started again.

use std::hash::{BuildHasher as _, RandomState};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use log::{Format, Recorder, SampleName};
use serde_json::json;

use super::{info, sample_end, start};

/// Where the writer is to write.
const PLACE: &str = "RINGFENCE_TEST_WRITER";

/// What the test named `writer_to_be_killed` does: nothing, unless it was started to be killed.
pub(crate) fn write_until_killed() {
    let Some(directory) = std::env::var_os(PLACE) else { return };
    let recorder = Recorder::create(Path::new(&directory), Format::Eval, start("killed")).unwrap();
    for id in 1.. {
        let mut sample = recorder.sample(SampleName::Number(id), 1).unwrap();
        // Many pages, and hard to compress: the longer a write takes, the more often it is interrupted.
        for number in 0..20 {
            let noise: Vec<u64> = (0..300).map(|_| RandomState::new().hash_one(number)).collect();
            sample.event(&info(number, json!({"noise": noise}))).unwrap();
        }
        sample.complete(sample_end()).unwrap();
        let mut out = std::io::stdout().lock();
        writeln!(out, "completed {id}").unwrap();
    }
}

/// Starts a writer and kills it within some milliseconds; gives its log, if it came that far, and what it had completed.
pub(crate) fn kill_a_writer(directory: &Path) -> (Option<PathBuf>, i64) {
    let mut writer = Command::new(std::env::current_exe().unwrap())
        // Not `--exact`: in one of the programs that use this the test is in a module.
        .args(["writer_to_be_killed", "--nocapture", "--test-threads=1"])
        .env(PLACE, directory)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut output = BufReader::new(writer.stdout.take().unwrap());
    let chance = RandomState::new().hash_one(0);
    let mut lines = String::new();
    if !chance.is_multiple_of(8) {
        // Most of the time after it began. The program's own first line comes before.
        while !lines.contains("completed") && output.read_line(&mut lines).unwrap() > 0 {}
    }
    std::thread::sleep(Duration::from_micros(chance % 60_000));
    writer.kill().unwrap();
    writer.wait().unwrap();
    output.read_to_string(&mut lines).unwrap();
    let completed = lines.lines().filter_map(|line| line.rsplit_once("completed ")?.1.parse().ok()).max();
    let log = directory.read_dir().unwrap().map(|entry| entry.unwrap().path());
    (log.into_iter().find(|path| path.extension().is_some_and(|end| end == "eval")), completed.unwrap_or(0))
}

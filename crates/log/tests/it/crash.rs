//! Killed writers and full disks lose nothing that was complete.

#![expect(clippy::unwrap_used, reason = "a test may stop at its own set-up")]

use std::io::Write as _;
use std::path::{Path, PathBuf};

use crate::common::crash::{kill_a_writer, write_until_killed};
use crate::common::{end, every_event, sample_end, start};
use log::{Format, LogError, Reader, Recorder, SampleName, Status};
use serde_json::json;

#[test]
fn writer_to_be_killed() {
    write_until_killed();
}

#[test]
fn a_killed_writer_leaves_a_log_that_opens_with_every_completed_sample() {
    let mut most = 0;
    for round in 0..40 {
        let directory = tempfile::tempdir().unwrap();
        let (log, completed) = kill_a_writer(directory.path());
        let Some(log) = log else {
            assert_eq!(completed, 0, "round {round}: there is no log");
            continue;
        };
        let reader = Reader::open(&log).unwrap();
        assert_eq!(reader.status(), Status::Started);
        let ids: Vec<i64> = reader.summaries().unwrap().iter().map(|s| s["id"].as_i64().unwrap()).collect();
        // One more may have been there before the writer could say so.
        assert!(
            ids == (1..=completed).collect::<Vec<_>>() || ids == (1..=completed + 1).collect::<Vec<_>>(),
            "{ids:?}"
        );
        for id in ids {
            let sample = reader.sample(&SampleName::Number(id), 1).unwrap().unwrap();
            assert_eq!(sample["events"].as_array().unwrap().len(), 20);
        }
        most = most.max(completed);
    }
    assert!(most > 3, "no writer came further than {most} samples");
}

#[test]
fn what_a_killed_writer_left_is_removed_by_the_next() {
    let directory = tempfile::tempdir().unwrap();
    let hidden = directory.path().join(".2026_t_x.eval.partial");
    let living = directory.path().join(".2026_t_y.eval.partial");
    let old = std::time::SystemTime::now() - std::time::Duration::from_hours(1);
    for path in [&hidden, &living] {
        std::fs::File::create(path).unwrap().set_modified(old).unwrap();
    }
    let lock = std::fs::File::open(&living).unwrap();
    lock.try_lock().unwrap();
    let _recorder = Recorder::create(directory.path(), Format::Eval, start("t")).unwrap();
    assert!(!hidden.exists());
    assert!(living.exists(), "its writer lives");
}

/// A file system of one mebibyte.
struct Small(PathBuf);

impl Small {
    fn mount(directory: &Path) -> rustix::io::Result<Self> {
        use rustix::mount::{MountFlags, mount};
        mount("tmpfs", directory, "tmpfs", MountFlags::empty(), Some(c"size=1m"))?;
        Ok(Self(directory.to_path_buf()))
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        let _ = rustix::mount::unmount(&self.0, rustix::mount::UnmountFlags::DETACH);
    }
}

#[test]
fn a_full_disk_is_an_error_and_what_was_before_still_opens() {
    let directory = tempfile::tempdir().unwrap();
    let small = match Small::mount(directory.path()) {
        Ok(small) => small,
        Err(error) => {
            let _ = writeln!(std::io::stderr(), "skipped: cannot mount a small file system: {error}");
            return;
        }
    };
    let recorder = Recorder::create(directory.path(), Format::Eval, start("t")).unwrap();
    let filler = directory.path().join("filler");
    std::fs::write(&filler, vec![0; 300_000]).unwrap();
    let mut completed = 0;
    let error = loop {
        match record(&recorder, completed + 1) {
            Ok(()) => completed += 1,
            Err(error) => break error,
        }
    };
    let LogError::Io { source, .. } = &error else { unreachable!("{error}") };
    assert_eq!(source.kind(), std::io::ErrorKind::StorageFull);
    assert!(completed > 2, "only {completed}");
    // What failed gave its room back; now there is none at all.
    while std::fs::File::options().append(true).open(&filler).unwrap().write_all(&[0; 4096]).is_ok() {}
    assert!(matches!(recorder.finish(end(Status::Error)), Err(LogError::Io { .. })));
    assert_eq!(count(&recorder), (Status::Started, completed));

    // With room again, the same log goes on.
    std::fs::remove_file(filler).unwrap();
    record(&recorder, completed + 1).unwrap();
    recorder.finish(end(Status::Error)).unwrap();
    assert_eq!(count(&recorder), (Status::Error, completed + 1));
    drop(small);
}

fn count(recorder: &Recorder) -> (Status, i64) {
    let reader = Reader::open(&recorder.path()).unwrap();
    let summaries = reader.summaries().unwrap();
    for summary in &summaries {
        let id = SampleName::Number(summary["id"].as_i64().unwrap());
        assert!(reader.sample(&id, 1).unwrap().is_some());
    }
    (reader.status(), i64::try_from(summaries.len()).unwrap())
}

fn record(recorder: &Recorder, id: i64) -> Result<(), LogError> {
    let mut sample = recorder.sample(SampleName::Number(id), 1)?;
    for event in every_event() {
        sample.event(&event)?;
    }
    let mut end = sample_end();
    // Does not compress well, so that the disk is full soon.
    let noise: Vec<i64> = (0..3000).map(|n| (n + id).wrapping_mul(0x1E37_79B9_7F4A_7C15)).collect();
    end.fields.insert("store".into(), json!({"noise": noise}));
    sample.complete(end).map(drop)
}

//! Runs one program to its end: its own process group, output into a file, a time limit, ended when we are interrupted.
//!
//! Output goes to a file and not through a pipe: a process that outlives the program would keep a pipe open.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal};

use crate::signals;

const POLL: Duration = Duration::from_millis(20);
/// How long a program may take to end after SIGTERM.
const GRACE: Duration = Duration::from_secs(10);
const STILL_RUNNING: Duration = Duration::from_mins(1);

/// Held while a child is started and while a program is copied. A child that is forked in between would hold the copy open for
/// writing until its own exec, and until then the kernel refuses to execute the copy (`ETXTBSY`).
static STARTING: Mutex<()> = Mutex::new(());

#[derive(Debug, thiserror::Error)]
pub(crate) enum RunError {
    #[error("cannot start {program}")]
    Start {
        program: String,
        #[source]
        source: io::Error,
    },
    #[error("cannot wait for it")]
    Wait(#[source] io::Error),
    #[error("it took longer than {} minutes", .0.as_secs() / 60)]
    TooLong(Duration),
    #[error("interrupted")]
    Interrupted,
}

/// Runs a command; its output is appended to `log`. `still_running` is called once a minute with the time so far.
pub(crate) fn run(
    command: &mut Command,
    log: &Path,
    limit: Duration,
    still_running: &dyn Fn(Duration),
) -> Result<ExitStatus, RunError> {
    let start = |source| RunError::Start { program: command_name(command), source };
    let output = append(log).map_err(start)?;
    let errors = output.try_clone().map_err(start)?;
    command.stdin(Stdio::null()).stdout(output).stderr(errors).process_group(0);
    let spawned = spawn(command);
    let child = spawned.map_err(|source| RunError::Start { program: command_name(command), source })?;
    wait(child, limit, still_running)
}

/// Starts a child; when this returns, it has executed its program.
pub(crate) fn spawn(command: &mut Command) -> io::Result<Child> {
    let _starting = STARTING.lock().unwrap_or_else(PoisonError::into_inner);
    command.spawn()
}

/// Copies a program that is to be executed.
pub(crate) fn copy_program(from: &Path, to: &Path) -> io::Result<u64> {
    let _starting = STARTING.lock().unwrap_or_else(PoisonError::into_inner);
    std::fs::copy(from, to)
}

/// Waits for a child that leads a process group.
pub(crate) fn wait(
    mut child: Child,
    limit: Duration,
    still_running: &dyn Fn(Duration),
) -> Result<ExitStatus, RunError> {
    let (begun, mut next) = (Instant::now(), STILL_RUNNING);
    loop {
        if let Some(status) = child.try_wait().map_err(RunError::Wait)? {
            return Ok(status);
        }
        let elapsed = begun.elapsed();
        if signals::received().is_some() {
            end(&mut child);
            return Err(RunError::Interrupted);
        }
        if elapsed > limit {
            end(&mut child);
            return Err(RunError::TooLong(limit));
        }
        if elapsed > next {
            still_running(elapsed);
            next += STILL_RUNNING;
        }
        std::thread::sleep(POLL);
    }
}

/// Ends a child's process group: SIGTERM, and SIGKILL for what is then still there.
fn end(child: &mut Child) {
    let group = Pid::from_child(child);
    // An error means that the group has ended.
    let _ = rustix::process::kill_process_group(group, Signal::TERM);
    let deadline = Instant::now() + GRACE;
    while Instant::now() < deadline && matches!(child.try_wait(), Ok(None)) {
        std::thread::sleep(POLL);
    }
    let _ = rustix::process::kill_process_group(group, Signal::KILL);
    let _ = child.wait();
}

/// Whether a process is there and no zombie.
pub(crate) fn is_alive(pid: u32) -> bool {
    let Ok(stat) = std::fs::read_to_string(format!("/proc/{pid}/stat")) else { return false };
    // The state is the first field after the name, which stands in parentheses and may hold any.
    stat.rsplit_once(") ").is_some_and(|(_, fields)| !fields.starts_with(['Z', 'X']))
}

/// Asks a process to end and waits; kills it when the time is over.
pub(crate) fn end_pid(pid: u32, within: Duration) {
    let Some(process) = i32::try_from(pid).ok().and_then(Pid::from_raw) else { return };
    let _ = rustix::process::kill_process(process, Signal::TERM);
    let deadline = Instant::now() + within;
    while is_alive(pid) && Instant::now() < deadline {
        std::thread::sleep(POLL);
    }
    if is_alive(pid) {
        let _ = rustix::process::kill_process(process, Signal::KILL);
    }
}

pub(crate) fn append(log: &Path) -> io::Result<File> {
    if let Some(parent) = log.parent() {
        std::fs::create_dir_all(parent)?;
    }
    OpenOptions::new().create(true).append(true).open(log)
}

/// A command as a person would type it, for messages.
pub(crate) fn command_name(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    words.map(|word| quoted(&word.to_string_lossy())).collect::<Vec<_>>().join(" ")
}

/// A word for a shell: in quotes if it has anything but plain characters.
pub(crate) fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=+,@%".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) {
        word.into()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: Duration = Duration::from_secs(20);

    #[test]
    fn output_of_both_kinds_goes_to_the_log() {
        let place = tempfile::tempdir().unwrap();
        let log = place.path().join("deep/log");
        let mut command = Command::new("sh");
        command.args(["-c", "echo out; echo error >&2; exit 3"]);
        let status = run(&mut command, &log, LONG, &|_| ()).unwrap();
        assert_eq!(status.code(), Some(3));
        assert_eq!(std::fs::read_to_string(log).unwrap(), "out\nerror\n");
    }

    #[test]
    fn a_program_over_its_limit_is_ended_with_its_children() {
        let place = tempfile::tempdir().unwrap();
        let log = place.path().join("log");
        let mut command = Command::new("sh");
        command.args(["-c", "sleep 600 & echo $!; wait"]);
        let error = run(&mut command, &log, Duration::from_secs(1), &|_| ()).unwrap_err();
        assert!(matches!(error, RunError::TooLong(_)), "{error}");
        let pid = std::fs::read_to_string(log).unwrap().trim().parse().unwrap();
        let deadline = Instant::now() + LONG;
        while is_alive(pid) {
            assert!(Instant::now() < deadline, "{pid} is still there");
            std::thread::yield_now();
        }
    }

    #[test]
    fn a_process_that_outlives_the_program_does_not_hold_us() {
        let place = tempfile::tempdir().unwrap();
        let log = place.path().join("log");
        let mut command = Command::new("sh");
        command.args(["-c", "sleep 600 & echo $!"]);
        let begun = Instant::now();
        run(&mut command, &log, LONG, &|_| ()).unwrap();
        assert!(begun.elapsed() < LONG);
        end_pid(std::fs::read_to_string(log).unwrap().trim().parse().unwrap(), LONG);
    }

    #[test]
    fn a_program_can_be_executed_right_after_it_was_copied_while_others_start() {
        let place = tempfile::tempdir().unwrap();
        let copy_and_run = &|name: &str| {
            for _ in 0..100 {
                let copy = place.path().join(name);
                let _ = std::fs::remove_file(&copy);
                copy_program(Path::new("/bin/true"), &copy).unwrap();
                assert!(spawn(&mut Command::new(&copy)).unwrap().wait().unwrap().success());
            }
        };
        std::thread::scope(|scope| {
            for name in ["one", "two", "three"] {
                scope.spawn(move || copy_and_run(name));
            }
        });
    }

    #[test]
    fn words_are_quoted_for_a_shell() {
        assert_eq!(quoted("a/b.c=1"), "a/b.c=1");
        assert_eq!(quoted("it's"), r"'it'\''s'");
        assert_eq!(quoted(""), "''");
    }
}

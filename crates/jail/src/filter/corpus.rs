//! Every entry of the list is needed: its program succeeds with the whole list and fails without the entry.

use std::os::unix::process::CommandExt as _;
use std::process::{Command, Stdio};

use libc::sock_filter;

use super::{SetIdBits, entries, program, program_without};
use crate::syscalls::{load_filter, unshare};

const CORPUS: &str = include_str!("../../corpus/corpus.pl");

/// Only root can do what these are for.
const FOR_ROOT: [&str; 1] = ["login"];
/// What these make outlives them, so they get a namespace of their own to make it in.
const OUTLIVED: [&str; 1] = ["system-v"];

/// Runs a program of the corpus under a filter; says what it complained about, if it failed.
fn run(name: &str, filter: Vec<sock_filter>) -> Result<(), String> {
    let work = tempfile::tempdir().map_err(|error| error.to_string())?;
    let numbers: Vec<String> = entries().map(|entry| format!("{}={}", entry.name, entry.number)).collect();
    let mut command = Command::new("perl");
    command.arg("-e").arg(CORPUS).arg(name).env("WORK", work.path()).env("NUMBERS", numbers.join(" "));
    command.env("LC_ALL", "C").stdin(Stdio::null());
    let namespaces = match (OUTLIVED.contains(&name), rustix::process::geteuid().is_root()) {
        (true, true) => libc::CLONE_NEWIPC,
        (true, false) => libc::CLONE_NEWUSER | libc::CLONE_NEWIPC,
        (false, _) => 0,
    };
    // WHY: a filter must be loaded in the child.
    // SAFETY: between fork and exec only unshare, prctl and seccomp are called; nothing is allocated.
    unsafe {
        command.pre_exec(move || {
            unshare(namespaces)?;
            rustix::thread::set_no_new_privs(true)?;
            load_filter(&filter)
        });
    }
    let output = match command.output() {
        Ok(output) => output,
        // Without execve not even perl starts.
        Err(error) => return Err(error.to_string()),
    };
    let complaint = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    if output.status.success() { Ok(()) } else { Err(format!("{}: {complaint}", output.status)) }
}

fn can_show(program: &str) -> bool {
    rustix::process::geteuid().is_root() || !FOR_ROOT.contains(&program)
}

#[test]
fn every_program_of_the_corpus_runs_under_the_whole_list() {
    let mut names: Vec<&str> = entries().map(|entry| entry.needed_by).filter(|name| can_show(name)).collect();
    names.sort_unstable();
    names.dedup();
    for name in names {
        assert_eq!(run(name, program(SetIdBits::Allowed)), Ok(()), "{name}");
    }
}

#[test]
fn every_entry_is_needed_by_its_program() {
    let idle: Vec<&str> = entries()
        .filter(|entry| can_show(entry.needed_by))
        .filter(|entry| run(entry.needed_by, program_without(entry.number)).is_ok())
        .map(|entry| entry.name)
        .collect();
    assert!(idle.is_empty(), "their programs run without them: {idle:?}");
}

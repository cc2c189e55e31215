//! A probe's attempt, in a child that is a command in everything but the program.

mod files;
mod limits;
mod network;
mod send_tree;
mod take_tree;
mod tree;

use std::fs::{self, File};
use std::io::{self, Read as _, Write as _};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::os::unix::fs::{FileTypeExt as _, MetadataExt, OpenOptionsExt as _};

use rustix::process::DumpableBehavior;
use wire::{Attempt, Attempted, Listed, MAX_ATTEMPTED};

use crate::syscalls::{exit_now, raw_call};

/// The most entries of a directory that are told.
const MAX_LISTED: usize = 1024;

/// Tries it, writes what came of it to standard output and ends.
pub(crate) fn run(attempt: &Attempt) -> ! {
    // As an exec would: descriptors that no program inherits are closed, and the process is like any other.
    close_what_exec_closes();
    // Whoever moves files has the user's id and the guest's memory: it stays as closed to that user as the guest is.
    match attempt {
        Attempt::SendFile { path, limit } => exit_now(files::outcome(files::send(path, *limit))),
        Attempt::TakeFile { path, permissions } => exit_now(files::outcome(files::take(path, *permissions))),
        Attempt::ListFiles { path } => exit_now(files::outcome(files::list(path))),
        Attempt::StatFile { path } => exit_now(files::outcome(files::stat(path))),
        Attempt::SendTree { part, shared, changes_only } => {
            exit_now(files::outcome(send_tree::send(*part, shared, *changes_only)))
        }
        Attempt::TakeTree { part, declared, shared } => {
            exit_now(files::outcome(take_tree::take(*part, declared, shared)))
        }
        _ => {}
    }
    let _ = rustix::process::set_dumpable_behavior(DumpableBehavior::Dumpable);
    // Its keeper cannot: until this moment, what /proc shows of a copy of the guest belongs to nobody here.
    let _ = fs::write("/proc/self/oom_score_adj", crate::spawn::OOM_SCORE);
    let attempted = perform(attempt).unwrap_or_else(|error| Attempted::Refused(errno(&error)));
    let written = io::stdout().write_all(&attempted.encode()).and_then(|()| io::stdout().flush());
    exit_now(i32::from(written.is_err()))
}

fn errno(error: &io::Error) -> i32 {
    error.raw_os_error().unwrap_or(match error.kind() {
        io::ErrorKind::TimedOut | io::ErrorKind::WouldBlock => libc::ETIMEDOUT,
        _ => libc::EIO,
    })
}

fn perform(attempt: &Attempt) -> io::Result<Attempted> {
    match attempt {
        Attempt::Call { number, arguments } => raw_call(*number, &mut arguments.clone()).map(Attempted::Returned),
        Attempt::Read { path } => {
            let file = File::options().read(true).custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY).open(path)?;
            let mut bytes = Vec::new();
            file.take(u64::try_from(MAX_ATTEMPTED).unwrap_or(u64::MAX)).read_to_end(&mut bytes)?;
            Ok(Attempted::Read(bytes))
        }
        Attempt::OpenForWriting { path } => {
            File::options().write(true).custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY).open(path)?;
            Ok(Attempted::Returned(0))
        }
        Attempt::Create { path, bytes } => {
            File::options().write(true).create_new(true).open(path)?.write_all(bytes)?;
            Ok(Attempted::Returned(0))
        }
        Attempt::ReadLink { path } => Ok(Attempted::Read(fs::read_link(path)?.into_os_string().into_vec())),
        Attempt::List { path } => list(path).map(Attempted::Listed),
        Attempt::Descriptors => descriptors().map(Attempted::Listed),
        Attempt::Tcp { to, send, timeout_ms } => network::tcp(*to, send, *timeout_ms),
        Attempt::Udp { to, send, timeout_ms } => network::udp(*to, send, *timeout_ms),
        Attempt::Ping { to, payload, timeout_ms } => network::ping(*to, payload, *timeout_ms),
        Attempt::Local { to, timeout_ms } => network::local(to, *timeout_ms),
        Attempt::Listen { port, reply, timeout_ms } => network::listen(*port, reply, *timeout_ms),
        Attempt::Memory { bytes } => Ok(limits::memory(*bytes)),
        Attempt::Processes { count } => Ok(limits::processes(*count)),
        Attempt::OpenFiles { count } => Ok(limits::open_files(*count)),
        Attempt::Fill { directory, bytes } => limits::fill(directory, *bytes),
        Attempt::Files { directory, count } => Ok(limits::files(directory, *count)),
        // Done by `run`: their answer is the file itself, or what is there.
        Attempt::SendFile { .. }
        | Attempt::TakeFile { .. }
        | Attempt::ListFiles { .. }
        | Attempt::StatFile { .. }
        | Attempt::SendTree { .. }
        | Attempt::TakeTree { .. } => Ok(Attempted::Refused(libc::EINVAL)),
    }
}

fn list(path: &str) -> io::Result<Vec<Listed>> {
    let mut listed = Vec::new();
    for entry in fs::read_dir(path)?.take(MAX_LISTED) {
        let entry = entry?;
        let found = fs::symlink_metadata(entry.path()).ok();
        let is_device =
            |found: &fs::Metadata| found.file_type().is_char_device() || found.file_type().is_block_device();
        let device = found
            .as_ref()
            .filter(|found| is_device(found))
            .map_or((0, 0), |found| (rustix::fs::major(found.rdev()), rustix::fs::minor(found.rdev())));
        let mode = found.as_ref().map_or(0, MetadataExt::mode);
        listed.push(Listed { name: entry.file_name().as_bytes().to_vec(), mode, device });
    }
    Ok(listed)
}

/// The numbers of open descriptors, but for the one that looks.
fn numbers() -> io::Result<Vec<i32>> {
    let numbers = fs::read_dir("/proc/self/fd")?.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    // The one that looks is gone when we look again.
    Ok(numbers.filter(|number| *number > 2 && fs::read_link(format!("/proc/self/fd/{number}")).is_ok()).collect())
}

fn descriptors() -> io::Result<Vec<Listed>> {
    let open: Vec<i32> = numbers()?;
    let told = open.into_iter().take(MAX_LISTED).filter_map(|number| {
        let leads = fs::read_link(format!("/proc/self/fd/{number}")).ok()?;
        let name = format!("{number} → {}", leads.display()).into_bytes();
        Some(Listed { name, mode: 0, device: (0, 0) })
    });
    Ok(told.collect())
}

fn close_what_exec_closes() {
    for number in numbers().unwrap_or_default() {
        crate::syscalls::close_if_not_inherited(number);
    }
}

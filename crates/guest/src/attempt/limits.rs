//! Attempts to use up more than there is.

use std::fs::{self, File};
use std::io::{self, Write as _};

use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};
use wire::Attempted;

use super::errno;
use crate::syscalls::{Side, exit_now, fork};

const STEP: usize = 1 << 20;

/// Touches memory, a mebibyte at a time. Who is killed for it gives no answer, which is one.
pub(super) fn memory(bytes: u64) -> Attempted {
    let mut held: Vec<Vec<u8>> = Vec::new();
    let mut amount = 0;
    while amount < bytes {
        let mut block = Vec::new();
        if block.try_reserve_exact(STEP).is_err() {
            return Attempted::Amount { amount, errno: Some(libc::ENOMEM) };
        }
        block.resize(STEP, 1);
        held.push(block);
        amount += STEP as u64;
    }
    // Used, so that no compiler takes it for nothing.
    let touched = held.iter().filter(|block| block.first() == Some(&1)).count() * STEP;
    Attempted::Amount { amount: touched as u64, errno: None }
}

/// Starts processes that wait, and ends them again.
pub(super) fn processes(count: u32) -> Attempted {
    let mut started: Vec<Pid> = Vec::new();
    let mut errno_seen = None;
    for _ in 0..count {
        match fork() {
            Ok(Side::Parent(pid)) => started.push(pid),
            Ok(Side::Child) => {
                // Longer than any probe: whoever started us ends us, and the keeper does if they cannot.
                std::thread::sleep(std::time::Duration::from_mins(1));
                exit_now(0)
            }
            Err(error) => {
                errno_seen = Some(errno(&error));
                break;
            }
        }
    }
    let amount = started.len() as u64;
    for &pid in &started {
        let _ = kill_process(pid, Signal::KILL);
    }
    for pid in started {
        let _ = waitpid(Some(pid), WaitOptions::empty());
    }
    Attempted::Amount { amount, errno: errno_seen }
}

pub(super) fn open_files(count: u32) -> Attempted {
    let mut open = Vec::new();
    for _ in 0..count {
        match File::open("/dev/null") {
            Ok(file) => open.push(file),
            Err(error) => return Attempted::Amount { amount: open.len() as u64, errno: Some(errno(&error)) },
        }
    }
    Attempted::Amount { amount: open.len() as u64, errno: None }
}

fn name(directory: &str, number: u32) -> String {
    format!("{directory}/ringfence-attempt-{}-{number}", std::process::id())
}

pub(super) fn fill(directory: &str, bytes: u64) -> io::Result<Attempted> {
    let path = name(directory, 0);
    let mut file = File::options().write(true).create_new(true).open(&path)?;
    let (block, mut amount, mut errno_seen) = (vec![0x5a; 64 << 10], 0, None);
    while amount < bytes && errno_seen.is_none() {
        match file.write(&block) {
            Ok(count) => amount += count as u64,
            Err(error) => errno_seen = Some(errno(&error)),
        }
    }
    fs::remove_file(&path)?;
    Ok(Attempted::Amount { amount, errno: errno_seen })
}

pub(super) fn files(directory: &str, count: u32) -> Attempted {
    let (mut amount, mut errno_seen) = (0, None);
    for number in 0..count {
        match File::options().write(true).create_new(true).open(name(directory, number)) {
            Ok(_) => amount += 1,
            Err(error) => {
                errno_seen = Some(errno(&error));
                break;
            }
        }
    }
    for number in 0..amount {
        let _ = fs::remove_file(name(directory, number));
    }
    Attempted::Amount { amount: u64::from(amount), errno: errno_seen }
}

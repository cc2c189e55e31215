//! A file that a user sends, takes or looks at: by a child that is that user, so that the kernel says what it may.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::Path;

use wire::{FailureKind, MAX_CHUNK, TransferFailure};

use crate::failure::Failure;
use crate::files::{each_entry, open_directory, require_regular, stat as look};

/// The exit code of what came of it; a failure is said in words too.
pub(super) fn outcome(result: Result<(), Failure>) -> i32 {
    match result {
        Ok(()) => 0,
        Err(failure) => {
            let _ = io::stderr().write_all(failure.message.as_bytes());
            TransferFailure::code(failure.kind)
        }
    }
}

/// Opening must wait for nobody: a pipe has another side.
fn checked(file: &File, path: &str) -> Result<u64, Failure> {
    let stat = rustix::fs::fstat(file).map_err(|errno| Failure::from_errno(errno, path))?;
    require_regular(&stat, path)?;
    Ok(u64::try_from(stat.st_size).unwrap_or(u64::MAX))
}

fn copy(from: &mut impl Read, to: &mut impl Write, path: &str, most: u64) -> Result<(), Failure> {
    let failed = |error: io::Error| Failure::from_io(&error, path);
    let mut buffer = vec![0; MAX_CHUNK];
    let mut copied = 0_u64;
    loop {
        let count = match from.read(&mut buffer) {
            Ok(0) => return to.flush().map_err(failed),
            Ok(count) => count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(failed(error)),
        };
        copied = copied.saturating_add(u64::try_from(count).unwrap_or(u64::MAX));
        // It grew meanwhile, or is one of the kernel's own that have no size.
        if copied > most {
            return Err(too_large(path, copied, most));
        }
        to.write_all(buffer.get(..count).unwrap_or_default()).map_err(failed)?;
    }
}

fn too_large(path: &str, size: u64, limit: u64) -> Failure {
    Failure::new(FailureKind::TooLarge, format!("{path}: {size} bytes are more than the limit of {limit}"))
}

/// Sends a regular file to standard output.
pub(super) fn send(path: &str, limit: u64) -> Result<(), Failure> {
    let failed = |error: io::Error| Failure::from_io(&error, path);
    let opened = File::options().read(true).custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY).open(path);
    let mut file = opened.map_err(failed)?;
    let size = checked(&file, path)?;
    if size > limit {
        return Err(too_large(path, size, limit));
    }
    copy(&mut file, &mut io::stdout().lock(), path, limit)
}

/// Writes standard input to a file.
pub(super) fn take(path: &str, permissions: u32) -> Result<(), Failure> {
    let failed = |error: io::Error| Failure::from_io(&error, path);
    if let Some(parent) = Path::new(path).parent().filter(|parent| !parent.as_os_str().is_empty()) {
        fs::create_dir_all(parent).map_err(failed)?;
    }
    let mut options = File::options();
    options.write(true).mode(permissions & 0o777).custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY);
    let mut file = match options.clone().create_new(true).open(path) {
        Ok(file) => {
            // Whatever this user's mask says.
            file.set_permissions(fs::Permissions::from_mode(permissions & 0o777)).map_err(failed)?;
            file
        }
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            // Not emptied before it is known to be a file; a link that leads nowhere is made to lead somewhere.
            let file = options.create(true).open(path).map_err(failed)?;
            checked(&file, path)?;
            file.set_len(0).map_err(failed)?;
            file
        }
        Err(error) => return Err(failed(error)),
    };
    copy(&mut io::stdin().lock(), &mut file, path, u64::MAX)
}

/// Says what is in a directory.
pub(super) fn list(path: &str) -> Result<(), Failure> {
    let failed = |error: io::Error| Failure::from_io(&error, path);
    let mut out = io::BufWriter::with_capacity(MAX_CHUNK, io::stdout().lock());
    each_entry(&open_directory(path)?, path, |entry| out.write_all(&entry.encode()).map_err(failed))?;
    out.flush().map_err(failed)
}

/// Says what is at a path.
pub(super) fn stat(path: &str) -> Result<(), Failure> {
    let failed = |error: io::Error| Failure::from_io(&error, path);
    let missing = || Failure::new(FailureKind::NotFound, format!("{path}: no such file or directory"));
    let found = look(path)?.ok_or_else(missing)?;
    let mut out = io::stdout().lock();
    out.write_all(&found.encode()).and_then(|()| out.flush()).map_err(failed)
}

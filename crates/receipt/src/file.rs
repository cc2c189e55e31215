//! Files that somebody else may have put there: opened without following links or waiting for pipes, and read to a limit.

use std::fs::{File, Metadata};
use std::io::{self, Read as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use rustix::fs::OFlags;

pub(crate) fn flags(flags: OFlags) -> i32 {
    i32::try_from((flags | OFlags::CLOEXEC).bits()).unwrap_or_default()
}

/// Opens a plain file. What is found out about it is found out about what was opened.
pub(crate) fn open(path: &Path) -> io::Result<(File, Metadata)> {
    let file = File::options().read(true).custom_flags(flags(OFlags::NOFOLLOW | OFlags::NONBLOCK)).open(path)?;
    let metadata = file.metadata()?;
    if metadata.is_file() { Ok((file, metadata)) } else { Err(io::Error::other("it is not a plain file")) }
}

/// Reads all of it, or says that it is too much.
pub(crate) fn read(file: File, most: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    file.take(most + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > most {
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, format!("it is larger than {most} bytes")));
    }
    Ok(bytes)
}

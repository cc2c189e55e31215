//! What a sandbox became, kept: to begin others with, or to be written as a layer of an image.
//!
//! Files only: no process is carried over.

use std::io::{self, PipeReader, Read};
use std::os::fd::AsFd as _;
use std::sync::Arc;

use jail::zygote::Changed;

use crate::helpers::{Helper, lock};
use crate::sandbox::StartError;

/// A sandbox's files as they were when it was frozen. Sandboxes that begin with it share it and cannot change it. Clones
/// are the same snapshot; the last one lets it go.
#[derive(Clone)]
pub struct Snapshot {
    kept: Arc<Kept>,
}

struct Kept {
    helper: Helper,
    id: u32,
    limit: u64,
}

impl std::fmt::Debug for Snapshot {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Snapshot").field("id", &self.kept.id).finish_non_exhaustive()
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        // A helper that is gone took it along.
        let _ = lock(&self.helper).forget(self.id);
    }
}

/// The most that an archive of a sandbox takes that may write so much: several layers' worth, and headers of many files.
fn limit(disk: u64) -> u64 {
    disk.saturating_mul(3).saturating_add(256 << 20)
}

impl Snapshot {
    pub(crate) fn new(helper: Helper, id: u32, disk: u64) -> Self {
        Self { kept: Arc::new(Kept { helper, id, limit: limit(disk) }) }
    }

    /// Who of these keeps it, and under which number.
    pub(crate) fn keeper(&self, helpers: &[Helper]) -> Result<(Helper, u32), StartError> {
        let keeper = helpers.iter().find(|helper| Arc::ptr_eq(helper, &self.kept.helper));
        keeper.map(|keeper| (Arc::clone(keeper), self.kept.id)).ok_or(StartError::OtherEngine)
    }

    /// Everything that was changed of the image, as one layer's archive. A file that is said to be larger than what the
    /// sandbox may write has no data, and is an error.
    pub fn archive(&self) -> Result<Archive, StartError> {
        Archive::begin(&self.kept.helper, Changed::Snapshot(self.kept.id), self.kept.limit)
    }
}

/// What a sandbox that runs has changed of its image.
#[derive(Clone)]
pub struct Changes {
    helper: Helper,
    id: u32,
    limit: u64,
}

impl std::fmt::Debug for Changes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Changes").field("id", &self.id).finish_non_exhaustive()
    }
}

impl Changes {
    pub(crate) fn new(helper: Helper, id: u32, disk: u64) -> Self {
        Self { helper, id, limit: limit(disk) }
    }

    /// Freezes every process of the sandbox by the kernel, until [`Self::thaw`]. An error where the host has no control
    /// group for it. Blocks.
    pub(crate) fn freeze(&self) -> Result<(), StartError> {
        Ok(lock(&self.helper).pause(self.id)?)
    }

    /// Lets the processes go on. Blocks.
    pub(crate) fn thaw(&self) -> Result<(), StartError> {
        Ok(lock(&self.helper).resume(self.id)?)
    }

    /// As they are, as one layer's archive. Whoever writes meanwhile should be paused.
    pub(crate) fn archive(&self) -> Result<Archive, StartError> {
        Archive::begin(&self.helper, Changed::Sandbox(self.id), self.limit)
    }
}

/// A layer's archive while it is written: read it to its end. An archive that could not be completed ends in an error.
#[derive(Debug)]
pub struct Archive {
    data: PipeReader,
    status: PipeReader,
    complete: bool,
}

impl Archive {
    pub(crate) fn begin(helper: &Helper, what: Changed, limit: u64) -> Result<Self, StartError> {
        let (data, write_data) = io::pipe().map_err(StartError::Helper)?;
        let (status, write_status) = io::pipe().map_err(StartError::Helper)?;
        lock(helper).archive(what, limit, write_data.as_fd(), write_status.as_fd())?;
        Ok(Self { data, status, complete: false })
    }
}

impl Read for Archive {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.data.read(buffer)?;
        if count > 0 || buffer.is_empty() || self.complete {
            return Ok(count);
        }
        let mut said = String::new();
        self.status.by_ref().take(1000).read_to_string(&mut said)?;
        match said.as_str() {
            "ok" => {
                self.complete = true;
                Ok(0)
            }
            "" => Err(io::Error::other("whoever wrote it died")),
            why => Err(io::Error::other(why.to_owned())),
        }
    }
}

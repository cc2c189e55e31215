//! How our two programs come into a container: shown from a directory of this machine, or copied.

use std::fs::{self, DirBuilder, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::{StatVfsMountFlags, statvfs};
use sandbox::{GUEST, ZYGOTE};

use crate::request::copies;

const ENTER: &str = "enter";
const NAMES: [(&str, &[u8]); 2] = [(ENTER, ZYGOTE), ("guest", GUEST)];

/// How programs come in.
#[derive(Debug)]
pub(crate) enum Programs {
    /// From this directory: the daemon is on this machine, and what lies there can be executed.
    Shown(PathBuf),
    /// By a copy for each container.
    Copied,
}

/// One container's own directory: our programs, and later the socket. Removed when dropped.
#[derive(Debug)]
pub(crate) struct Own {
    path: PathBuf,
    inside: String,
}

impl Programs {
    /// Puts them where a daemon can find them.
    pub(crate) fn provide(place: &Path, shown: bool) -> io::Result<Self> {
        if !shown || statvfs(place)?.f_flag.contains(StatVfsMountFlags::NOEXEC) {
            return Ok(Self::Copied);
        }
        let directory = place.join("programs");
        DirBuilder::new().mode(0o700).create(&directory)?;
        for (name, bytes) in NAMES {
            let mut file = OpenOptions::new();
            file.write(true).create_new(true).mode(0o555).open(directory.join(name))?.write_all(bytes)?;
        }
        Ok(Self::Shown(directory))
    }

    /// A directory of one container's own, with the programs in it if they are shown. Whoever the container's root is
    /// outside may look at it: what keeps others out is the directory above.
    pub(crate) fn own(&self, place: &Path, number: u32) -> io::Result<Own> {
        let inside = format!("/.ringfence-{}", uuid::Uuid::new_v4().simple());
        let own = Own { path: place.join(number.to_string()), inside };
        DirBuilder::new().mode(0o755).create(&own.path)?;
        if let Self::Shown(directory) = self {
            for (name, _) in NAMES {
                fs::hard_link(directory.join(name), own.path.join(name))?;
            }
        }
        Ok(own)
    }
}

impl Own {
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Where it is shown inside: a name that no image can know.
    pub(crate) fn inside(&self) -> &str {
        &self.inside
    }
}

impl Drop for Own {
    fn drop(&mut self) {
        // The guest runs; nobody needs to find it. Whatever stays goes with the run's directory.
        let _ = fs::remove_dir_all(&self.path);
    }
}

/// Both programs as an archive, to be unpacked at the root of a container.
pub(crate) fn archive(inside: &str) -> io::Result<Vec<u8>> {
    let mut archive = tar::Builder::new(Vec::new());
    let directory = copies(inside);
    let directory = directory.trim_start_matches('/');
    let mut header = tar::Header::new_gnu();
    header.set_entry_type(tar::EntryType::Directory);
    header.set_mode(0o755);
    header.set_size(0);
    archive.append_data(&mut header, format!("{directory}/"), io::empty())?;
    for (name, bytes) in NAMES {
        let mut header = tar::Header::new_gnu();
        header.set_mode(0o555);
        header.set_size(u64::try_from(bytes.len()).unwrap_or(u64::MAX));
        archive.append_data(&mut header, format!("{directory}/{name}"), bytes)?;
    }
    archive.into_inner()
}

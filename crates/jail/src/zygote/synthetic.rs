//! The image `host`: the host's programs, and of everything else only what they need, made new.
//!
//! By allow-list: `/usr` (without `/usr/local`) through an overlay, the usual links to it, and an `/etc` of our own with
//! copies of a few files that hold no secret. Whatever else the host has is not there to be found.

use std::fs;
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, FileTypeExt as _, PermissionsExt as _, chown, lchown, symlink};
use std::path::Path;

use rustix::fs::{CWD, FileType, Mode, mknodat};

use super::home::{MASKS, SYNTHETIC};

/// Top-level directories of programs: links are made again, real ones are shown read-only.
const PROGRAMS: [&str; 6] = ["bin", "sbin", "lib", "lib32", "lib64", "libx32"];
/// Files and directories of /etc that programs need and that hold no secret. Links in them are followed.
const COPIED: &[&str] = &[
    "alternatives",
    "ca-certificates.conf",
    "ld.so.cache",
    "ld.so.conf",
    "ld.so.conf.d",
    "localtime",
    "mime.types",
    "pki/ca-trust",
    "pki/tls/certs",
    "protocols",
    "services",
    "shells",
    "ssl/certs",
    "ssl/openssl.cnf",
    "terminfo",
];
/// The most that is copied of one entry.
const MAX_FILE: u64 = 4 << 20;
const MAX_DEPTH: usize = 6;

const WRITTEN: &[(&str, &str)] = &[
    (
        "passwd",
        "root:x:0:0:root:/root:/bin/sh\nagent:x:1000:1000:agent:/home/agent:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/false\n",
    ),
    ("group", "root:x:0:\nagent:x:1000:\nnogroup:x:65534:\n"),
    ("shadow", "root:*:1:::::::\nagent:*:1:::::::\nnobody:*:1:::::::\n"),
    ("hosts", "127.0.0.1 localhost sandbox\n::1 localhost\n"),
    ("hostname", "sandbox\n"),
    ("resolv.conf", ""),
    ("nsswitch.conf", "passwd: files\ngroup: files\nshadow: files\nhosts: files dns\n"),
    ("profile", "export PATH=${PATH:-/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin}\n"),
];
const DIRECTORIES: &[(&str, u32)] = &[
    ("dev", 0o755),
    ("etc", 0o755),
    ("home", 0o755),
    ("mnt", 0o755),
    ("opt", 0o755),
    ("proc", 0o755),
    ("root", 0o700),
    ("run", 0o755),
    ("srv", 0o755),
    ("sys", 0o755),
    ("tmp", 0o1777),
    ("usr", 0o755),
    ("var", 0o755),
    ("var/cache", 0o755),
    ("var/lib", 0o755),
    ("var/log", 0o755),
    ("var/tmp", 0o1777),
];

/// What the synthetic tree leaves to be mounted.
#[derive(Debug, Clone)]
pub(super) struct HostImage {
    /// Real directories of programs beside /usr, on hosts that still have them.
    pub(super) program_directories: Vec<&'static str>,
}

/// Builds the tree in the workshop, once per run.
pub(super) fn build() -> io::Result<HostImage> {
    let root = Path::new(SYNTHETIC);
    fs::create_dir(root)?;
    for (name, mode) in DIRECTORIES {
        fs::DirBuilder::new().mode(*mode).create(root.join(name))?;
        // The creation mask does not apply to what we mean.
        fs::set_permissions(root.join(name), fs::Permissions::from_mode(*mode))?;
    }
    fs::create_dir(root.join("home/agent"))?;
    // Nobody's: whichever id range a sandbox has, its own user may write there.
    fs::set_permissions(root.join("home/agent"), fs::Permissions::from_mode(0o777))?;
    let mut program_directories = Vec::new();
    for name in PROGRAMS {
        let host = Path::new("/").join(name);
        match fs::read_link(&host) {
            Ok(target) => symlink(target, root.join(name))?,
            Err(_) if host.is_dir() => {
                fs::create_dir(root.join(name))?;
                program_directories.push(name);
            }
            Err(_) => {}
        }
    }
    for (name, text) in WRITTEN {
        fs::write(root.join("etc").join(name), text)?;
    }
    for name in COPIED {
        let (from, to) = (Path::new("/etc").join(name), root.join("etc").join(name));
        if let Some(parent) = to.parent() {
            fs::create_dir_all(parent)?;
        }
        copy(&from, &to, 0)?;
    }
    mask()?;
    Ok(HostImage { program_directories })
}

/// Layers above the host's /usr in which `local` is empty: what the operator installed is not the sandbox's. A whiteout between
/// the two hides the host's; the mark of an opaque directory needs a tmpfs with extended attributes (Linux 6.6, for plain users).
fn mask() -> io::Result<()> {
    let [top, below] = MASKS.map(Path::new);
    for part in ["", "local", "local/bin", "local/lib", "local/sbin", "local/share"] {
        fs::create_dir(top.join(part))?;
        fs::set_permissions(top.join(part), fs::Permissions::from_mode(0o755))?;
    }
    fs::create_dir(below)?;
    // As the kernel marks what was removed.
    Ok(mknodat(CWD, below.join("local"), FileType::CharacterDevice, Mode::empty(), 0)?)
}

/// A copy of a tree of ours that belongs to another id: links as they are, and nothing but what [`build`] makes.
pub(super) fn copy_for(from: &Path, to: &Path, owner: u32) -> io::Result<()> {
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let (kind, path, copy) = (entry.file_type()?, entry.path(), to.join(entry.file_name()));
        if kind.is_symlink() {
            symlink(fs::read_link(&path)?, &copy)?;
        } else if kind.is_char_device() {
            mknodat(CWD, &copy, FileType::CharacterDevice, Mode::empty(), 0)?;
        } else if kind.is_dir() {
            fs::create_dir(&copy)?;
            fs::set_permissions(&copy, entry.metadata()?.permissions())?;
            copy_for(&path, &copy, owner)?;
        } else {
            fs::copy(&path, &copy)?;
        }
        lchown(&copy, Some(owner), Some(owner))?;
    }
    chown(to, Some(owner), Some(owner))
}

/// Copies files and directories, following links but for those of /etc/alternatives, which lead into /usr anyway. What
/// cannot be read, is special or is too large is left out: the sandbox is poorer, never richer.
fn copy(from: &Path, to: &Path, depth: usize) -> io::Result<()> {
    if from.starts_with("/etc/alternatives")
        && let Ok(target) = fs::read_link(from)
    {
        return symlink(target, to);
    }
    let Ok(metadata) = fs::metadata(from) else { return Ok(()) };
    if metadata.is_dir() && depth < MAX_DEPTH {
        fs::create_dir_all(to)?;
        let Ok(entries) = fs::read_dir(from) else { return Ok(()) };
        for entry in entries.flatten() {
            copy(&entry.path(), &to.join(entry.file_name()), depth + 1)?;
        }
    } else if metadata.is_file() && metadata.len() <= MAX_FILE && metadata.permissions().mode() & 0o004 != 0 {
        // Only what everybody may read on the host anyway.
        let Ok(bytes) = fs::read(from) else { return Ok(()) };
        fs::write(to, bytes)?;
        fs::set_permissions(to, fs::Permissions::from_mode(0o644))?;
    }
    Ok(())
}

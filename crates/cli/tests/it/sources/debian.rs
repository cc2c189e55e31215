//! A small Debian with everything in it that an image may lose on its way.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::common::sh;

/// The host's own suite from the host's own mirror; `attr` shows extended attributes.
const BASE: &str = r#"
    . /etc/os-release
    mirror=$(apt-get indextargets --format '$(CODENAME) $(SITE)' 'Identifier: Packages' |
        sed -n "s/^$VERSION_CODENAME //p" | head -n 1)
    debootstrap --variant=minbase --include=attr "$VERSION_CODENAME" "$1" $mirror >"$1.log" 2>&1 || {
        tail -n 20 "$1.log"; exit 1
    }
    rm -rf "$1"/var/cache/apt/archives/*.deb "$1"/var/lib/apt/lists/*
"#;

/// Owners, modes, times to the nanosecond, names of any bytes, links of both kinds, attributes of all kinds.
const ODD: &str = r"
    cd $1; mkdir odd; cd odd
    cp ../bin/true setuid; chmod 4755 setuid
    cp ../bin/true capable
    chroot .. setfattr -n security.capability -v 0x0100000200040000000000000000000000000000 /odd/capable
    echo noted >noted; mkdir noted-directory; ln noted linked
    chroot .. setfattr -n user.note -v kept /odd/noted
    chroot .. setfattr -n user.bytes -v 0x00ff0a /odd/noted-directory
    mkfifo -m 640 fifo
    ln -s loop loop; ln -s other-loop/x other-loop
    ln -s /nowhere dangling; chown -h 42:42 dangling; touch -h -d 2001-02-03T04:05:06.123456789Z dangling
    echo x >$(printf 'new\nline\\and\377bytes')
    echo a >of-42; chown 42:42 of-42; chmod 640 of-42; touch -d 1971-01-01T00:00:00.5Z of-42
    echo b >of-nobody; chown 65534:65534 of-nobody; chmod 000 of-nobody
    mkdir sticky; chown 42:65534 sticky; chmod 3777 sticky
    mkdir closed; echo c >closed/inside; chmod 000 closed; touch -d 2002-02-02T02:02:02.000000002Z closed
    : >empty; truncate -s 1M holes
";

fn target() -> &'static Path {
    Path::new(env!("CARGO_TARGET_TMPDIR")).parent().unwrap()
}

/// The directory, made once for all runs of this lane; made again when the scripts above change.
pub(crate) fn root() -> PathBuf {
    let (root, stamp) = (target().join("debian-rootfs"), target().join("debian-rootfs.made-by"));
    let script = format!("{BASE}{ODD}");
    if std::fs::read_to_string(&stamp).is_ok_and(|made_by| made_by == script) {
        return root;
    }
    let _ = std::fs::remove_file(&stamp);
    // A debootstrap that was killed may have left the host's /proc mounted there.
    sh(target(), "umount debian-rootfs/proc 2>/dev/null || true; rm -rf --one-file-system debian-rootfs");
    let made = Command::new("sh").args(["-euc", &script, "sh"]).arg(&root).status().unwrap();
    assert!(made.success(), "debootstrap failed");
    std::fs::set_permissions(&root, std::fs::Permissions::from_mode(0o755)).unwrap();
    std::fs::write(stamp, script).unwrap();
    root
}

/// The same as a layer, with everything that a tar file can say.
pub(crate) fn layer(root: &Path, file: &Path) {
    let packed = Command::new("tar")
        .args(["--format=posix", "--numeric-owner", "--sort=name", "--xattrs", "--xattrs-include=*"])
        .args(["--pax-option=delete=atime,delete=ctime", "-C"])
        .args([root, Path::new("-cf"), file, Path::new(".")])
        .status();
    assert!(packed.unwrap().success());
}

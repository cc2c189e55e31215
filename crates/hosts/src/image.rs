//! Disks of whole systems, made by debootstrap, and kept.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::{Error, run};

/// A release of Debian.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Suite {
    /// Debian 12 with Linux 6.1.
    Bookworm,
    /// Debian 13 with Linux 6.12.
    Trixie,
}

impl Suite {
    /// Its name at the registry.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Bookworm => "bookworm",
            Self::Trixie => "trixie",
        }
    }

    /// Its name for people, with its kernel.
    pub const fn title(self) -> &'static str {
        match self {
            Self::Bookworm => "Debian 12, Linux 6.1",
            Self::Trixie => "Debian 13, Linux 6.12",
        }
    }

    /// A processor that its kernel boots on without hardware virtualisation: 6.12 now and then fails at `cmpxchg16b` there.
    pub(crate) const fn processor(self) -> &'static str {
        match self {
            Self::Bookworm => "max",
            Self::Trixie => "Nehalem,-cx16",
        }
    }
}

/// The files needed to boot.
#[derive(Debug, Clone)]
pub struct Image {
    /// Its release.
    pub suite: Suite,
    pub(crate) disk: PathBuf,
    pub(crate) kernel: PathBuf,
    pub(crate) initrd: PathBuf,
    pub(crate) key: PathBuf,
}

/// Packages for systemd sessions and for the test script.
const PACKAGES: &str = "apparmor,dbus,dbus-user-session,git,initramfs-tools,iproute2,kmod,libpam-systemd,\
                        linux-image-cloud-amd64,openssh-server,perl,procps,python3-minimal,systemd,systemd-sysv,udev,uidmap,util-linux";

/// From the registry that this machine itself uses.
const DEBOOTSTRAP: &str = r#"
    . /etc/os-release
    mirror=$(apt-get indextargets --format '$(CODENAME) $(SITE)' 'Identifier: Packages' |
        sed -n "s/^$VERSION_CODENAME //p" | head -n 1)
    exec debootstrap --variant=minbase --include="$3" "$1" "$2" $mirror
"#;

/// Users: one with a session, one without anything, one who lingers. The two with subordinate ids have them by `useradd`.
const USERS: &str = r#"
    for user in alice bob carol; do useradd -m -s /bin/bash "$user"; done
    sed -i /^bob/d /etc/subuid /etc/subgid
    mkdir -p /var/lib/systemd/linger && touch /var/lib/systemd/linger/carol
    systemctl enable systemd-networkd ssh
    systemctl mask systemd-timesyncd apt-daily.timer apt-daily-upgrade.timer e2scrub_all.timer fstrim.timer
    echo "UseDNS no" >> /etc/ssh/sshd_config
    echo "/dev/vda / ext4 defaults 0 1" > /etc/fstab
    echo vm > /etc/hostname
    for home in /root /home/alice; do
        mkdir -p "$home/.ssh" && cp /tmp/key.pub "$home/.ssh/authorized_keys" && chmod 700 "$home/.ssh"
    done
    chown -R alice: /home/alice
"#;

const NETWORK: &str = "[Match]\nName=e*\n[Network]\nDHCP=yes\n";

/// The disk of a release below `directory`, made when it is not there yet: minutes, and about 800 MB.
pub fn of(suite: Suite, directory: &Path) -> Result<Image, Error> {
    let (root, stamp) = (directory.join(suite.name()), directory.join(format!("{}.made-of", suite.name())));
    let disk = directory.join(format!("{}.img", suite.name()));
    let key = directory.join("key");
    fs::create_dir_all(directory)?;
    if !key.exists() {
        run("ssh-keygen", Command::new("ssh-keygen").args(["-q", "-t", "ed25519", "-N", "", "-f"]).arg(&key))?;
    }
    let made_of = format!("{PACKAGES}{USERS}{NETWORK}{}", fs::read_to_string(directory.join("key.pub"))?);
    if fs::read_to_string(&stamp).ok().as_ref() != Some(&made_of) {
        let _ = fs::remove_file(&stamp);
        run("removing an old root", Command::new("rm").args(["-rf", "--one-file-system"]).arg(&root))?;
        let mut bootstrap = Command::new("sh");
        bootstrap.args(["-euc", DEBOOTSTRAP, "sh", suite.name()]).arg(&root).arg(PACKAGES);
        run("debootstrap", &mut bootstrap)?;
        fs::copy(directory.join("key.pub"), root.join("tmp/key.pub"))?;
        run("setting the system up", Command::new("chroot").arg(&root).args(["sh", "-euc", USERS]))?;
        fs::write(root.join("etc/systemd/network/20.network"), NETWORK)?;
        let _ = fs::remove_dir_all(root.join("var/cache/apt/archives"));
        let _ = fs::remove_file(&disk);
        run("making the disk", Command::new("truncate").args(["-s", "4G"]).arg(&disk))?;
        run("mke2fs", Command::new("mke2fs").args(["-q", "-F", "-t", "ext4", "-d"]).arg(&root).arg(&disk))?;
        fs::write(&stamp, made_of)?;
    }
    let boot = root.join("boot");
    Ok(Image { suite, disk, kernel: newest(&boot, "vmlinuz-")?, initrd: newest(&boot, "initrd.img-")?, key })
}

/// The file with this prefix; there is one.
fn newest(directory: &Path, prefix: &str) -> Result<PathBuf, Error> {
    let names = fs::read_dir(directory)?.filter_map(|entry| entry.ok().map(|entry| entry.path()));
    let found =
        names.filter(|path| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(prefix))).max();
    found.ok_or_else(|| Error::Failed { what: format!("finding {prefix}*"), output: directory.display().to_string() })
}

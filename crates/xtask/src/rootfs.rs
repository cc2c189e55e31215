//! One Debian root directory for all lanes that need one, made by debootstrap once, and made again when what it is made of
//! changes; and the OCI layout for the Python package, made of it.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::process;
use crate::setup::SetupError;

const LIMIT: Duration = Duration::from_mins(30);
/// What tools of Inspect, the tasks of `inspect_evals` and the tests of containers use.
const PACKAGES: &str = "curl,git,procps,python-is-python3,python3,python3-pytest";
/// Users of images, and their ids.
const USERS: [(&str, u32); 2] = [("agent", 1000), ("challenge_user", 1001)];

/// The machine's own suite, from the machine's own mirror.
const DEBOOTSTRAP: &str = r#"
    . /etc/os-release
    mirror=$(apt-get indextargets --format '$(CODENAME) $(SITE)' 'Identifier: Packages' |
        sed -n "s/^$VERSION_CODENAME //p" | head -n 1)
    exec debootstrap --variant=minbase --include="$2" "$VERSION_CODENAME" "$1" $mirror
"#;

/// The root directory, complete.
pub(crate) fn debian(target: &Path, log: &Path) -> Result<PathBuf, SetupError> {
    let (root, stamp) = (target.join("lanes-rootfs"), target.join("lanes-rootfs.made-of"));
    let made_of = format!("{DEBOOTSTRAP}{PACKAGES}{USERS:?}");
    if std::fs::read_to_string(&stamp).is_ok_and(|text| text == made_of) {
        return Ok(root);
    }
    let _ = std::fs::remove_file(&stamp);
    // One that was interrupted may have left the host's /proc mounted there.
    let _ = rustix::mount::unmount(root.join("proc"), rustix::mount::UnmountFlags::empty());
    run("removing the old root directory", Command::new("rm").args(["-rf", "--one-file-system"]).arg(&root), log)?;
    let mut command = Command::new("sh");
    command.args(["-euc", DEBOOTSTRAP, "sh"]).arg(&root).arg(PACKAGES);
    run("debootstrap", &mut command, log)?;
    finish(&root)?;
    std::fs::write(stamp, made_of)?;
    Ok(root)
}

/// Users, their homes, a place to work in; nothing of what debootstrap downloaded.
fn finish(root: &Path) -> Result<(), SetupError> {
    for directory in ["var/cache/apt/archives", "var/lib/apt/lists"] {
        std::fs::remove_dir_all(root.join(directory))?;
        std::fs::create_dir_all(root.join(directory))?;
    }
    for (name, id) in USERS {
        add_line(&root.join("etc/passwd"), &format!("{name}:x:{id}:{id}:{name}:/home/{name}:/bin/bash"))?;
        add_line(&root.join("etc/group"), &format!("{name}:x:{id}:"))?;
        let home = root.join("home").join(name);
        std::fs::create_dir_all(&home)?;
        std::os::unix::fs::chown(&home, Some(id), Some(id))?;
    }
    std::fs::create_dir_all(root.join("workspace"))?;
    Ok(())
}

fn add_line(file: &Path, line: &str) -> std::io::Result<()> {
    let text = std::fs::read_to_string(file)?;
    std::fs::write(file, format!("{text}{line}\n"))
}

/// The OCI layout of images for the Python package, made anew when its script or the root directory is newer.
pub(crate) fn layout(workspace: &Path, target: &Path, log: &Path) -> Result<PathBuf, SetupError> {
    let root = debian(target, log)?;
    let (layout, script) = (target.join("inspect-images"), workspace.join("python/tests/make_image.py"));
    let time = |path: &Path| std::fs::metadata(path).and_then(|metadata| metadata.modified()).ok();
    let made = time(&layout.join("index.json"));
    if made.is_some() && made > time(&script) && made > time(&target.join("lanes-rootfs.made-of")) {
        return Ok(layout);
    }
    if layout.exists() {
        std::fs::remove_dir_all(&layout)?;
    }
    run("make_image.py", Command::new("python3").arg(script).arg(root).arg(&layout), log)?;
    Ok(layout)
}

fn run(what: &str, command: &mut Command, log: &Path) -> Result<(), SetupError> {
    if process::run(command, log, LIMIT, &|_| ())?.success() { Ok(()) } else { Err(SetupError::command(what, log)) }
}

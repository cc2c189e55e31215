//! What the sandbox's own files must show. Pure: a text in, a finding out.

use profile::Provider;
use profile::plan::KernelBoundary;
use sandbox::Listed;

use crate::probe::Finding;
use crate::scene::Scene;

/// Capabilities over the sandbox's own files, ids and processes: `kept` of the embedded engine.
const KEPT: u64 = 0x2000_05fb;
/// Devices that a program may expect and that give nothing away; terminals have numbers of their own.
const DEVICES: [(u32, u32); 7] = [(1, 3), (1, 5), (1, 7), (1, 8), (1, 9), (5, 0), (5, 2)];
/// Directories of /dev: terminals, shared memory and, of other engines, message queues. What is mounted at them is judged with
/// all other mounts.
const DIRECTORIES: [&str; 3] = ["pts", "shm", "mqueue"];
const CHARACTER: u32 = 0o020_000;
const BLOCK: u32 = 0o060_000;
const LINK: u32 = 0o120_000;
const DIRECTORY: u32 = 0o040_000;
const KIND: u32 = 0o170_000;

fn field<'a>(status: &'a str, name: &str) -> Option<&'a str> {
    status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':').map(str::trim))
}

pub(super) fn capabilities(status: &str, _: &Scene) -> Finding {
    let mut seen = Vec::new();
    for name in ["CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"] {
        let Some(set) = field(status, name).and_then(|text| u64::from_str_radix(text, 16).ok()) else {
            return Finding::unknown(format!("{name} is not shown"));
        };
        if set & !KEPT != 0 {
            return Finding::fail(format!("{name} has {:x} beyond {KEPT:x}", set & !KEPT));
        }
        seen.push(format!("{name} {set:x}"));
    }
    Finding::pass(seen.join(", "))
}

pub(super) fn no_new_privs(status: &str, scene: &Scene) -> Finding {
    match (field(status, "NoNewPrivs"), scene.plan.allow_setuid) {
        (_, true) => Finding::unclaimed("the plan allows setuid programs"),
        (Some("1"), false) => Finding::pass("NoNewPrivs 1"),
        (Some(other), false) => Finding::fail(format!("NoNewPrivs {other}")),
        (None, false) => Finding::unknown("NoNewPrivs is not shown"),
    }
}

pub(super) fn filter(status: &str, _: &Scene) -> Finding {
    match field(status, "Seccomp") {
        Some("2") => Finding::pass("Seccomp 2"),
        Some(other) => Finding::fail(format!("Seccomp {other}")),
        None => Finding::unknown("Seccomp is not shown"),
    }
}

fn core_pattern() -> Vec<u8> {
    std::fs::read("/proc/sys/kernel/core_pattern").unwrap_or_default()
}

/// Whether a pattern names a file: not a program (`|`), and not a socket (`@`). An empty one could not be read, or has been taken away.
fn writes_files(pattern: &[u8]) -> bool {
    pattern.first().is_some_and(|first| !b"|@".contains(first))
}

/// The soft and the hard limit of core dumps (see `set_limits` of the crate `jail`).
pub(super) fn core_dumps(limits: &str, scene: &Scene) -> Finding {
    let line = limits.lines().find_map(|line| line.strip_prefix("Max core file size"));
    let values: Vec<&str> = line.unwrap_or_default().split_whitespace().collect();
    match values[..] {
        ["1", "1", ..] => Finding::pass("1, soft and hard"),
        // Containers have a limit of 1; and a daemon's machine can have another pattern than this one.
        ["0", "0", ..] if scene.plan.provider == Provider::Container && writes_files(&core_pattern()) => {
            Finding::pass("0, and kernel.core_pattern names a file")
        }
        [soft, hard, ..] => Finding::fail(format!("{soft}, hard {hard}")),
        _ if scene.has_kernel_of_runtime() => Finding::unclaimed("the runtime's kernel does not show it"),
        _ => Finding::unknown("the limit is not shown"),
    }
}

/// Lines of an id map: the first inside, the first outside, how many.
pub(super) fn ids(map: &str, _: &Scene) -> Finding {
    // A plain user's sandboxes lie in a user namespace of the user's own, whose only id is the user.
    let is_root = rustix::process::geteuid().is_root();
    let mut ranges = 0;
    for line in map.lines() {
        let fields: Vec<u64> = line.split_whitespace().filter_map(|field| field.parse().ok()).collect();
        let [_, outside, count] = fields[..] else { return Finding::unknown(format!("not a map: {line}")) };
        if (is_root && outside == 0 && count > 0) || (!is_root && count > 1) {
            return Finding::fail(format!(
                "more is mapped than may be: {}",
                line.split_whitespace().collect::<Vec<_>>().join(" ")
            ));
        }
        ranges += 1;
    }
    if ranges == 0 {
        return Finding::unknown("the map is empty");
    }
    Finding::pass(map.split_whitespace().collect::<Vec<_>>().join(" "))
}

pub(super) fn host_name(name: &str, _: &Scene) -> Finding {
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    if name.trim() == host {
        return Finding::fail(format!("it is the host's: {host}"));
    }
    Finding::pass(format!("`{}`", name.trim()))
}

pub(super) fn cgroups(groups: &str, _: &Scene) -> Finding {
    let paths: Vec<&str> = groups.lines().filter_map(|line| line.splitn(3, ':').nth(2)).collect();
    match paths.iter().find(|path| **path != "/") {
        Some(path) => Finding::fail(format!("it sees the group {path}")),
        None if paths.is_empty() => Finding::unknown("no group is shown"),
        None => Finding::pass(format!("{} hierarchies, each at its root", paths.len())),
    }
}

pub(super) fn kernel(release: &str, scene: &Scene) -> Finding {
    let host = rustix::system::uname().release().to_string_lossy().into_owned();
    let same = release.trim() == host;
    let evidence = format!("release {}, the runner's is {host}", release.trim());
    match (scene.plan.kernel_boundary, same) {
        (KernelBoundary::Shared, true) | (KernelBoundary::Own | KernelBoundary::UserSpace, false) => {
            Finding::pass(evidence)
        }
        // More than was promised is no promise broken.
        (KernelBoundary::Shared, false) => Finding::pass(format!("{evidence}: stronger than planned")),
        (KernelBoundary::Own | KernelBoundary::UserSpace, true) => Finding::fail(evidence),
    }
}

/// The fourth field from the left is the root within the file system, the fifth the place; after ` - ` comes the kind.
pub(super) fn mounts(info: &str, scene: &Scene) -> Finding {
    let canary = scene.canary.directory();
    let mut count = 0;
    for line in info.lines() {
        let (fields, rest) = line.split_once(" - ").unwrap_or((line, ""));
        let mut fields = fields.split(' ').skip(3);
        let (Some(root), Some(place)) = (fields.next(), fields.next()) else {
            return Finding::unknown(format!("not a mount: {line}"));
        };
        let kind = rest.split(' ').next().unwrap_or_default();
        let planned = is_in_dev(place) || scene.mounts.iter().any(|mount| mount == place);
        let of_engine = scene.plan.provider == Provider::Docker && is_engines(kind, root, place);
        let of_kernel = scene.has_kernel_of_runtime() && is_kernels(kind, root, place);
        if !planned && !of_engine && !of_kernel && !is_own(kind, root, place) {
            return Finding::fail(format!("{kind} at {place}, from {root}"));
        }
        if line.contains(&*canary.to_string_lossy()) {
            return Finding::fail(format!("the host's own directory is named at {place}"));
        }
        count += 1;
    }
    if count == 0 {
        return Finding::unknown("no mount is shown");
    }
    Finding::pass(format!("{count} mounts, each the sandbox's own or planned"))
}

/// Single entries of /dev: whatever is mounted there, the probe that lists /dev says what it is.
fn is_in_dev(place: &str) -> bool {
    place.strip_prefix("/dev/").is_some_and(|name| !name.contains('/') && !DIRECTORIES.contains(&name))
}

pub(super) fn proc_sys(info: &str, _: &Scene) -> Finding {
    let place = |line: &&str| line.split(' ').nth(4) == Some("/proc/sys");
    let options = info.lines().rfind(place).and_then(|line| line.split(' ').nth(5));
    match options {
        Some(options) if options.split(',').any(|option| option == "ro") => Finding::pass(options),
        Some(options) => Finding::fail(options),
        None => Finding::fail("nothing covers it"),
    }
}

fn is_own(kind: &str, root: &str, place: &str) -> bool {
    let below = |base: &str| place == base || place.strip_prefix(base).is_some_and(|rest| rest.starts_with('/'));
    match kind {
        "overlay" => root == "/" && !below("/proc") && !below("/dev"),
        "proc" => below("/proc"),
        "tmpfs" => root == "/" && (below("/proc") || below("/dev")) || is_device(root, place),
        "devpts" => place == "/dev/pts",
        // Single devices of the host, and the empty one that covers files of /proc.
        _ => is_device(root, place),
    }
}

/// What the Docker Engine makes for every container: three files of its own (four, if it is Podman), the tree below /sys that a mask covers, message
/// queues, volumes of nobody else's, and the directory of our programs, which is gone.
fn is_engines(kind: &str, root: &str, place: &str) -> bool {
    let numbered = |name: &str| name.len() == 64 && name.bytes().all(|byte| byte.is_ascii_hexdigit());
    let above = root.split('/').rev().nth(1).unwrap_or_default();
    match (kind, place) {
        (_, "/etc/resolv.conf" | "/etc/hostname" | "/etc/hosts" | "/run/.containerenv") => {
            root.rsplit('/').next() == place.rsplit('/').next() && root.split('/').any(numbered)
        }
        (_, own) if own.strip_prefix("/.ringfence-").is_some_and(|rest| !rest.contains('/')) => {
            root.ends_with("//deleted")
        }
        ("mqueue", "/dev/mqueue") | ("sysfs", "/sys") => root == "/",
        ("cgroup" | "cgroup2" | "tmpfs", _) if place == "/sys" || place.starts_with("/sys/") => root == "/",
        _ => root.ends_with("/_data") && numbered(above),
    }
}

/// What a kernel in user space shows: a /dev and control groups of its own making, and what the Engine mounts by its gofer, of
/// which it does not say where it comes from.
fn is_kernels(kind: &str, root: &str, place: &str) -> bool {
    let files = ["/etc/hosts", "/etc/hostname", "/etc/resolv.conf"];
    let is_own = place.strip_prefix("/.ringfence-").is_some_and(|rest| !rest.contains('/'));
    match kind {
        "dev" => (root, place) == ("/", "/dev"),
        // Where the image has nothing there.
        "tmpfs" => (root, place) == ("/", "/tmp"),
        "cgroup" => place.starts_with("/sys/fs/cgroup/"),
        "9p" => root == "/" && (files.contains(&place) || is_own),
        _ => false,
    }
}

fn is_device(root: &str, place: &str) -> bool {
    let name = root.rsplit('/').next().unwrap_or_default();
    let harmless = ["null", "zero", "full", "random", "urandom", "tty"];
    (name == "null" && place.starts_with("/proc/")) || (harmless.contains(&name) && place == format!("/dev/{name}"))
}

pub(super) fn devices(listed: &[Listed], scene: &Scene) -> Finding {
    // The Docker Engine gives every container queues of its own.
    let queues = |entry: &Listed| {
        scene.plan.provider == Provider::Docker && entry.name == b"mqueue" && entry.mode & KIND == DIRECTORY
    };
    if let Some(entry) = listed.iter().find(|entry| !is_harmless(entry) && !queues(entry)) {
        let (name, (major, minor)) = (String::from_utf8_lossy(&entry.name), entry.device);
        return Finding::fail(match entry.mode & KIND {
            CHARACTER | BLOCK => format!("/dev/{name} is device {major}:{minor}"),
            _ => format!("/dev/{name} is not the sandbox's own"),
        });
    }
    let devices = listed.iter().filter(|entry| entry.mode & KIND == CHARACTER);
    let names: Vec<_> = devices.map(|entry| String::from_utf8_lossy(&entry.name)).collect();
    if names.is_empty() {
        return Finding::unknown("not even /dev/null is there");
    }
    Finding::pass(names.join(", "))
}

/// What the sandbox's own /dev has: harmless devices, links, and a few directories.
fn is_harmless(entry: &Listed) -> bool {
    match entry.mode & KIND {
        CHARACTER => DEVICES.contains(&entry.device),
        LINK => true,
        DIRECTORY => DIRECTORIES.iter().any(|name| entry.name == name.as_bytes()),
        _ => false,
    }
}

pub(super) fn nothing(listed: &[Listed], _: &Scene) -> Finding {
    match (listed.first(), std::fs::read_dir("/sys").map_or(0, Iterator::count)) {
        (Some(entry), _) => Finding::fail(format!("{} and others", String::from_utf8_lossy(&entry.name))),
        (None, 0) => Finding::unknown("it is empty outside too"),
        (None, outside) => Finding::pass(format!("empty; {outside} entries outside")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mounts_of_the_docker_engine_are_known_and_others_are_not() {
        let id = "97fb0d35e03b4d3db8dd07b8a7ff8f528e3fe2415fffd6feab896347a8be5c17";
        let files = format!("/var/lib/docker/containers/{id}");
        for (kind, root, place) in [
            ("ext4", format!("{files}/resolv.conf"), "/etc/resolv.conf"),
            ("ext4", format!("{files}/hosts"), "/etc/hosts"),
            ("ext4", "/var/tmp/ringfence-docker-0/r/1//deleted".into(), "/.ringfence-2f"),
            ("ext4", format!("/var/lib/docker/volumes/{id}/_data"), "/data"),
            ("mqueue", "/".into(), "/dev/mqueue"),
            ("sysfs", "/".into(), "/sys"),
            ("cgroup", "/".into(), "/sys/fs/cgroup/memory"),
        ] {
            assert!(is_engines(kind, &root, place), "{kind} {root} {place}");
        }
        for (kind, root, place) in [
            ("ext4", "/etc/resolv.conf".to_owned(), "/etc/resolv.conf"),
            ("ext4", format!("{files}/hosts"), "/etc/passwd"),
            ("ext4", format!("{files}/hosts"), "/etc/hostname"),
            ("ext4", "/var/tmp/ringfence-docker-0/r/1".into(), "/.ringfence-2f"),
            ("ext4", "/srv/_data".into(), "/data"),
            ("ext4", "/home".into(), "/mnt"),
            ("tmpfs", "/docker.sock".into(), "/run/docker.sock"),
            ("sysfs", "/".into(), "/mnt"),
        ] {
            assert!(!is_engines(kind, &root, place), "{kind} {root} {place}");
        }
    }

    #[test]
    fn mounts_of_a_kernel_in_user_space_are_known_and_others_are_not() {
        for (kind, root, place) in [
            ("dev", "/", "/dev"),
            ("tmpfs", "/", "/tmp"),
            ("cgroup", "/0123", "/sys/fs/cgroup/cpu"),
            ("9p", "/", "/etc/hosts"),
            ("9p", "/", "/.ringfence-2f"),
        ] {
            assert!(is_kernels(kind, root, place), "{kind} {root} {place}");
        }
        for (kind, root, place) in [
            ("dev", "/", "/mnt"),
            ("tmpfs", "/x", "/tmp"),
            ("tmpfs", "/", "/mnt"),
            ("9p", "/", "/mnt"),
            ("9p", "/x", "/etc/hosts"),
            ("9p", "/", "/.ringfence-2f/x"),
            ("cgroup", "/", "/mnt"),
            ("ext4", "/", "/etc/hosts"),
        ] {
            assert!(!is_kernels(kind, root, place), "{kind} {root} {place}");
        }
    }

    #[test]
    fn own_mounts_are_known_and_others_are_not() {
        for (kind, root, place) in [
            ("overlay", "/", "/"),
            ("overlay", "/", "/usr"),
            ("proc", "/", "/proc"),
            ("proc", "/sys", "/proc/sys"),
            ("devtmpfs", "/null", "/proc/kcore"),
            ("tmpfs", "/dev/null", "/proc/kcore"),
            ("devtmpfs", "/tty", "/dev/tty"),
            ("tmpfs", "/", "/dev/shm"),
            ("devpts", "/", "/dev/pts"),
        ] {
            assert!(is_own(kind, root, place), "{kind} {root} {place}");
        }
        for (kind, root, place) in [
            ("ext4", "/home", "/mnt"),
            ("overlay", "/etc", "/mnt"),
            ("tmpfs", "/", "/run"),
            ("devtmpfs", "/", "/dev"),
            ("devtmpfs", "/mem", "/dev/null"),
            ("devtmpfs", "/kvm", "/dev/kvm"),
            ("sysfs", "/", "/sys"),
            ("cgroup2", "/", "/sys/fs/cgroup"),
        ] {
            assert!(!is_own(kind, root, place), "{kind} {root} {place}");
        }
    }

    #[test]
    fn every_entry_of_dev_is_judged_by_what_it_is() {
        let entry = |name: &str, mode: u32, device| Listed { name: name.into(), mode, device };
        for (harmless, listed) in [
            (true, entry("null", CHARACTER | 0o666, (1, 3))),
            (true, entry("fd", LINK | 0o777, (0, 0))),
            (true, entry("shm", DIRECTORY | 0o1777, (0, 0))),
            (false, entry("kmsg", CHARACTER | 0o644, (1, 11))),
            (false, entry("null", BLOCK | 0o666, (1, 3))),
            (false, entry("mapper", DIRECTORY | 0o755, (0, 0))),
            (false, entry("null", 0o100_666, (0, 0))),
            (false, entry("unseen", 0, (0, 0))),
        ] {
            assert_eq!(is_harmless(&listed), harmless, "{listed:?}");
        }
        // What is mounted there is left to that; what lies deeper, and those directories, are not.
        assert!(is_in_dev("/dev/kmsg") && is_in_dev("/dev/mapper"));
        assert!(
            !is_in_dev("/dev") && !is_in_dev("/dev/mqueue") && !is_in_dev("/dev/mapper/x") && !is_in_dev("/devs/x")
        );
    }
}

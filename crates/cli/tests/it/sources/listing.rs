//! What a tree looks like from inside: every file with everything about it.

use std::collections::BTreeMap;

/// Run inside, by programs of the image: three lists, divided by lines that are no records.
pub(crate) const SCRIPT: &str = r"
    export LC_ALL=C; cd /
    found() { find . -xdev \( -path ./proc -o -path ./dev -o -path ./sys \) -prune -o $1; }
    found '-printf %D:%i\0%p\0%y\0%m\0%U:%G\0%s\0%T@\0%l\0'
    printf -- '--- contents ---\0'
    found '-type f -print0' | sort -z | xargs -0 sha256sum -z
    printf -- '--- attributes ---\0'
    found -print0 | sort -z | xargs -0 getfattr -h -d -m - -e hex
";

/// What an engine makes itself, whatever the image has there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Engine {
    /// Nobody but the kernel: a plain chroot.
    None,
    /// The name server of the sandbox is in its own layer, in an /etc that is as new as the sandbox.
    Ringfence,
    /// Docker mounts some files over the image's, and makes the places for that.
    Docker,
}

const MADE_BY_RINGFENCE: &[&str] = &["./etc/resolv.conf"];
const MADE_BY_DOCKER: &[&str] = &["./.dockerenv", "./etc/hosts", "./etc/hostname", "./etc/mtab", "./etc/resolv.conf"];

/// One line for every file that comes from the image, sorted. What only one of the engines makes itself is left out for
/// all of those that are compared, so they are given.
pub(crate) fn read(output: &[u8], compared: &[Engine]) -> Vec<String> {
    let mut records = output.split(|&byte| byte == 0).map(|record| record.escape_ascii().to_string());
    let left_out = |name: &str| {
        let by = |engine, names: &[&str]| compared.contains(&engine) && names.contains(&name);
        // The root itself is a directory of the engine's.
        name == "." || by(Engine::Ringfence, MADE_BY_RINGFENCE) || by(Engine::Docker, MADE_BY_DOCKER)
    };
    let mut files: BTreeMap<String, (String, String)> = BTreeMap::new();
    let mut first_of: BTreeMap<String, String> = BTreeMap::new();
    while let Some(inode) = records.next().filter(|record| record != "--- contents ---") {
        let [name, kind, mode, owner, size, time, link] = std::array::from_fn(|_| records.next().unwrap());
        // A directory's size is its file system's affair; names are put into /etc by every engine.
        let size = if kind == "d" { String::new() } else { size };
        let time = if name == "./etc" { String::new() } else { time };
        files.insert(name, (inode, format!("{kind} {mode} {owner} {size} {time} {link}")));
    }
    for (name, (inode, _)) in &files {
        first_of.entry(inode.clone()).or_insert_with(|| name.clone());
    }
    let mut contents: BTreeMap<String, String> = BTreeMap::new();
    let attributes = loop {
        let record = records.next().unwrap();
        if record == "--- attributes ---" {
            break records.next().unwrap();
        }
        let (digest, name) = record.split_once("  ").unwrap();
        contents.insert(name.to_owned(), digest.to_owned());
    };
    let mut lines: Vec<String> = files
        .iter()
        .filter(|(name, _)| !left_out(name))
        .map(|(name, (inode, about))| {
            let content = contents.get(name).map_or("", String::as_str);
            format!("{name} {about} {content} same as {}", first_of[inode])
        })
        .collect();
    lines.extend(attributes.split("\\n\\n").filter(|block| !block.is_empty()).map(str::to_owned));
    lines
}

/// Fails with the lines that differ, not with all of them.
pub(crate) fn assert_same(what: &str, found: &[String], expected: &[String]) {
    assert!(expected.len() > 3000, "{what}: nothing to compare");
    let missing: Vec<_> = expected.iter().filter(|line| !found.contains(line)).take(20).collect();
    let surplus: Vec<_> = found.iter().filter(|line| !expected.contains(line)).take(20).collect();
    assert!(found == expected, "{what}\nexpected: {missing:#?}\nfound: {surplus:#?}");
}

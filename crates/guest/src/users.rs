//! Users of the sandbox, from its own passwd and group files: no name service, no shared library.

use std::fs::File;
use std::io::Read as _;
use std::os::unix::fs::OpenOptionsExt as _;

use serde::{Deserialize, Serialize};
use wire::{FailureKind, User};

use crate::failure::Failure;

/// Files of the workload's making are read this far.
const MAX_FILE: u64 = 1 << 20;

/// Who a command runs as.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Identity {
    pub(crate) uid: u32,
    pub(crate) gid: u32,
    pub(crate) groups: Vec<u32>,
    pub(crate) name: String,
    pub(crate) home: String,
}

/// Looks `user` up in the sandbox's files.
pub(crate) fn resolve(user: &User) -> Result<Identity, Failure> {
    let read = |path: &str| {
        let mut text = Vec::new();
        // No passwd file is an empty one: an image need not have users. The workload may have put a pipe there, which
        // must not keep us waiting.
        let opened = File::options().read(true).custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY).open(path);
        if let Ok(file) = opened
            && file.metadata().is_ok_and(|metadata| metadata.is_file())
        {
            let _ = file.take(MAX_FILE).read_to_end(&mut text);
        }
        String::from_utf8_lossy(&text).into_owned()
    };
    match user {
        User::Named(name) => find(name, &read("/etc/passwd"), &read("/etc/group")),
        User::Default => own(&read("/etc/passwd")),
    }
}

/// Fails for ids that this sandbox has not: under a plain user there is only one.
pub(crate) fn require_mapped(identity: &Identity) -> Result<(), Failure> {
    let maps = |file: &str| std::fs::read_to_string(file).unwrap_or_default();
    let (uids, gids) = (maps("/proc/self/uid_map"), maps("/proc/self/gid_map"));
    let groups = identity.groups.iter().chain([&identity.gid]);
    if is_mapped(&uids, identity.uid) && groups.copied().all(|gid| is_mapped(&gids, gid)) {
        return Ok(());
    }
    let message = format!("the ids of user {} are not mapped into this sandbox", identity.uid);
    Err(Failure::new(FailureKind::UnmappedUser, message))
}

/// Whether an id inside has one outside: lines are the first id inside, the first outside, and how many.
fn is_mapped(map: &str, id: u32) -> bool {
    map.lines().any(|line| {
        let mut fields = line.split_whitespace().map(number);
        let (Some(Some(first)), Some(_), Some(Some(count))) = (fields.next(), fields.next(), fields.next()) else {
            return false;
        };
        id >= first && id - first < count
    })
}

/// Whoever the guest itself is: root in a sandbox, the caller without isolation. There, home is the sandbox's directory.
fn own(passwd: &str) -> Result<Identity, Failure> {
    let (uid, gid) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    let mut identity = find(&format!("{uid}:{gid}"), passwd, "")?;
    if !rustix::process::getpid().is_init() {
        let here = std::env::current_dir().map_err(|error| Failure::from_io(&error, "no working directory"))?;
        identity.home = here.to_string_lossy().into_owned();
    }
    Ok(identity)
}

fn find(wanted: &str, passwd: &str, group: &str) -> Result<Identity, Failure> {
    let (uid, gid) = match wanted.split_once(':') {
        Some((uid, gid)) => {
            let gid = number(gid).or_else(|| group_named(gid, group));
            (uid, Some(gid.ok_or_else(|| unknown(wanted))?))
        }
        None => (wanted, None),
    };
    let uid_number = number(uid);
    let entry = passwd.lines().filter_map(Entry::parse).find(|entry| match uid_number {
        Some(number) => entry.uid == number,
        None => entry.name == uid,
    });
    match (entry, uid_number) {
        (Some(entry), _) => Ok(Identity {
            uid: entry.uid,
            gid: gid.unwrap_or(entry.gid),
            groups: if gid.is_some() { Vec::new() } else { groups_of(entry.name, group) },
            name: entry.name.to_owned(),
            home: entry.home.to_owned(),
        }),
        // A number needs no entry. Its group is then root's, as everywhere else: images are made for that.
        (None, Some(uid)) => {
            let (name, home) = if uid == 0 { ("root", "/root") } else { ("", "/") };
            Ok(Identity { uid, gid: gid.unwrap_or(0), groups: Vec::new(), name: name.into(), home: home.into() })
        }
        (None, None) => Err(unknown(wanted)),
    }
}

fn unknown(user: &str) -> Failure {
    Failure::new(FailureKind::UnknownUser, format!("no user `{user}` in the sandbox"))
}

/// Plain decimal digits only.
fn number(text: &str) -> Option<u32> {
    text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok()).flatten()
}

struct Entry<'a> {
    name: &'a str,
    uid: u32,
    gid: u32,
    home: &'a str,
}

impl<'a> Entry<'a> {
    fn parse(line: &'a str) -> Option<Self> {
        let fields: Vec<&str> = line.split(':').collect();
        let [name, _, uid, gid, _, home, _] = fields[..] else { return None };
        Some(Self { name, uid: number(uid)?, gid: number(gid)?, home })
    }
}

fn group_named(name: &str, group: &str) -> Option<u32> {
    group.lines().find_map(|line| {
        let fields: Vec<&str> = line.split(':').collect();
        let [known, _, gid, _] = fields[..] else { return None };
        (known == name).then(|| number(gid)).flatten()
    })
}

fn groups_of(name: &str, group: &str) -> Vec<u32> {
    let member = |line: &str| {
        let fields: Vec<&str> = line.split(':').collect();
        let [_, _, gid, members] = fields[..] else { return None };
        members.split(',').any(|member| member == name).then(|| number(gid)).flatten()
    };
    group.lines().filter_map(member).take(32).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const PASSWD: &str =
        "root:x:0:0:root:/root:/bin/sh\nbroken\nagent:x:1000:1000::/home/agent:/bin/bash\nbad:x:-1:0::/:/bin/sh\n";
    const GROUP: &str = "root:x:0:\nusers:x:100:other,agent\nwheel:x:10:agent\n";

    fn named(name: &str) -> Result<Identity, FailureKind> {
        find(name, PASSWD, GROUP).map_err(|failure| failure.kind)
    }

    #[test]
    fn names_and_numbers_are_found() {
        let agent = named("agent").unwrap();
        assert_eq!(
            (agent.uid, agent.gid, agent.groups.as_slice(), agent.home.as_str()),
            (1000, 1000, &[100, 10][..], "/home/agent")
        );
        assert_eq!(named("1000").unwrap(), agent);
        let other = named("1000:5").unwrap();
        assert_eq!((other.gid, other.groups.len()), (5, 0));
        let other = named("agent:wheel").unwrap();
        assert_eq!((other.uid, other.gid, other.groups.len()), (1000, 10, 0));
        let other = named("4242").unwrap();
        assert_eq!((other.uid, other.gid), (4242, 0));
        assert_eq!(named("4242:4243").unwrap().gid, 4243);
        assert_eq!(find("0", "", "").unwrap().home, "/root");
    }

    #[test]
    fn ids_are_mapped_by_ranges() {
        let map = "         0 1610612736      65536\n    100000     500000         10\n";
        for (id, mapped) in [(0, true), (65_535, true), (65_536, false), (100_009, true), (100_010, false)] {
            assert_eq!(is_mapped(map, id), mapped, "{id}");
        }
        assert!(!is_mapped("", 0) && !is_mapped("garbage", 0));
        assert!(is_mapped("0 0 4294967295", 4_000_000_000));
    }

    #[test]
    fn what_is_not_a_user_is_refused() {
        for name in ["nobody-here", "bad", "", "agent:no-group", "agent:", ":10", "+1", "99999999999"] {
            assert_eq!(named(name), Err(FailureKind::UnknownUser), "{name}");
        }
    }
}

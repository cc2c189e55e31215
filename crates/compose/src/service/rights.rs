//! Capabilities, security options, and namespaces of the host: what a service may do beyond others.

use std::fmt;
use std::str::FromStr;

use profile::Located;
use profile::source::nearest_word;

use super::texts;
use crate::section::{self, Section};

/// The capabilities that a service may ask for: those that sandboxes keep anyway, the same as on the embedded engine. They reach
/// over the container's own files, users and processes, and no further.
///
/// Not among them, beside everything that reaches the host: `NET_RAW` and `NET_ADMIN` (packets that the gateway does not see,
/// rules that it relies on), `MKNOD` (device nodes), `SYS_PTRACE` (the guest, which is a process inside; what a process starts
/// itself it may trace without), `SYS_CHROOT` and `SETFCAP` (ingredients of escapes, and rarely of work).
pub const ADDABLE_CAPABILITIES: &[&str] = &[
    "AUDIT_WRITE",
    "CHOWN",
    "DAC_OVERRIDE",
    "FOWNER",
    "FSETID",
    "KILL",
    "NET_BIND_SERVICE",
    "SETGID",
    "SETPCAP",
    "SETUID",
];

/// Every capability that Linux knows.
const CAPABILITIES: &[&str] = &[
    "AUDIT_CONTROL",
    "AUDIT_READ",
    "AUDIT_WRITE",
    "BLOCK_SUSPEND",
    "BPF",
    "CHECKPOINT_RESTORE",
    "CHOWN",
    "DAC_OVERRIDE",
    "DAC_READ_SEARCH",
    "FOWNER",
    "FSETID",
    "IPC_LOCK",
    "IPC_OWNER",
    "KILL",
    "LEASE",
    "LINUX_IMMUTABLE",
    "MAC_ADMIN",
    "MAC_OVERRIDE",
    "MKNOD",
    "NET_ADMIN",
    "NET_BIND_SERVICE",
    "NET_BROADCAST",
    "NET_RAW",
    "PERFMON",
    "SETFCAP",
    "SETGID",
    "SETPCAP",
    "SETUID",
    "SYS_ADMIN",
    "SYS_BOOT",
    "SYS_CHROOT",
    "SYS_MODULE",
    "SYS_NICE",
    "SYS_PACCT",
    "SYS_PTRACE",
    "SYS_RAWIO",
    "SYS_RESOURCE",
    "SYS_TIME",
    "SYS_TTY_CONFIG",
    "SYSLOG",
    "WAKE_ALARM",
];

/// A capability by its name without `CAP_`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Capability(&'static str);

impl Capability {
    /// The name without `CAP_`.
    pub fn name(self) -> &'static str {
        self.0
    }
}

impl fmt::Display for Capability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

/// A text that names no capability.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not a capability{}", near.map(|near| format!("; did you mean {near}?")).unwrap_or_default())]
pub struct CapabilityError {
    text: String,
    near: Option<&'static str>,
}

impl FromStr for Capability {
    type Err = CapabilityError;

    fn from_str(text: &str) -> Result<Self, CapabilityError> {
        let upper = text.to_ascii_uppercase();
        let name = upper.strip_prefix("CAP_").unwrap_or(&upper);
        let known = CAPABILITIES.iter().find(|known| **known == name);
        known.map(|known| Self(known)).ok_or_else(|| {
            let near = nearest_word(name, CAPABILITIES.iter().copied());
            let near = CAPABILITIES.iter().find(|known| Some(**known) == near).copied();
            CapabilityError { text: text.chars().take(40).collect(), near }
        })
    }
}

/// Capabilities that a service does without.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Dropped {
    /// All of them.
    All,
    /// These.
    These(Vec<Located<Capability>>),
}

pub(super) fn dropped(keys: &mut Section) -> Dropped {
    let reading = keys.reading;
    let names = texts(keys, "cap_drop");
    if names.iter().any(|name| name.value.eq_ignore_ascii_case("all")) {
        return Dropped::All;
    }
    Dropped::These(names.iter().filter_map(|name| section::parsed(reading, name, "cap_drop", str::parse)).collect())
}

pub(super) fn added(keys: &mut Section) -> Vec<Located<Capability>> {
    let reading = keys.reading;
    let mut found = Vec::new();
    for name in texts(keys, "cap_add") {
        let place = name.place.unwrap_or(keys.place);
        if name.value.eq_ignore_ascii_case("all") {
            reading.refuse(place, "cap_add", "`cap_add: ALL`", "it takes every wall away");
            continue;
        }
        let Some(capability) = section::parsed::<Capability, _>(reading, &name, "cap_add", str::parse) else {
            continue;
        };
        if ADDABLE_CAPABILITIES.contains(&capability.value.name()) {
            found.push(capability);
        } else {
            let why = format!(
                "it reaches beyond the container's own files, users and processes; there are {}",
                ADDABLE_CAPABILITIES.join(", ")
            );
            reading.refuse(place, "cap_add", format_args!("the capability {}", capability.value), why);
        }
    }
    found
}

/// `security_opt`, and every key that can share a namespace of the host or of another container. Returns whether the service
/// insists on no new privileges.
pub(super) fn refuse_shared(keys: &mut Section) -> bool {
    let reading = keys.reading;
    let mut insists = false;
    for option in texts(keys, "security_opt") {
        let place = option.place.unwrap_or(keys.place);
        let text = option.value.as_str();
        let (name, value) = text.split_once(['=', ':']).unwrap_or((text, ""));
        let shown: String = text.chars().take(80).collect();
        let what = format!("`security_opt: {shown}`");
        match (name, value) {
            ("no-new-privileges", "" | "true") => insists = true,
            ("no-new-privileges", _) => {
                let hint = Some("`allow_setuid` in the profile document is the way to setuid programs");
                reading.refuse_with_hint(place, "security_opt", what, "programs could gain rights", hint);
            }
            ("seccomp" | "apparmor" | "label" | "systempaths" | "mask" | "unmask" | "writable-cgroups", _) => {
                reading.refuse(place, "security_opt", what, "the profile's own filter and labels hold");
            }
            _ => reading.problem(place, format!("unknown option `{shown}` in `security_opt`")),
        }
    }
    let shared = "it shares what belongs to the host or to another container";
    for (key, fine) in [("ipc", &["private", "none"][..]), ("pid", &[]), ("cgroup", &["private"])] {
        if let Some((place, node)) = keys.take_with_key(key)
            && let Some(text) = section::text(reading, node, key)
            && !text.value.is_empty()
            && !fine.contains(&text.value.as_str())
        {
            let shown: String = text.value.chars().take(80).collect();
            reading.refuse(place, key, format_args!("`{key}: {shown}`"), shared);
        }
    }
    if let Some((place, node)) = keys.take_with_key("runtime")
        && let Some(text) = section::text(reading, node, "runtime")
    {
        if text.value == "runc" {
            reading.ignore(place, "runtime", "the profile names the runtime");
        } else {
            let shown: String = text.value.chars().take(80).collect();
            let hint = Some("`runtime:` in the profile document is the way to gVisor and Kata");
            reading.refuse_with_hint(
                place,
                "runtime",
                format_args!("`runtime: {shown}`"),
                "the profile names the runtime",
                hint,
            );
        }
    }
    insists
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn capabilities_are_known_by_either_name() {
        assert_eq!("cap_net_raw".parse(), Ok(Capability("NET_RAW")));
        assert_eq!("CHOWN".parse(), Ok(Capability("CHOWN")));
        assert_eq!(
            "CHWON".parse::<Capability>().unwrap_err().to_string(),
            "`CHWON` is not a capability; did you mean CHOWN?"
        );
        assert!(ADDABLE_CAPABILITIES.iter().all(|name| CAPABILITIES.contains(name)));
    }
}

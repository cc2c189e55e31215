//! The kernel's part, with the ways in which distributions block it.

use std::error::Error;
use std::fs;

use jail::{Failure, Step, probe};
use profile::Finding;

use crate::KERNEL_DEADLINE as DEADLINE;

/// What happened, with its causes, in one line.
pub(crate) fn story(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text = format!("{text}: {cause}");
        source = cause.source();
    }
    text
}

/// A finding from an attempt; `fix` says what to do when the kernel refused.
fn finding(result: Result<(), Failure>, works: &str, fix: impl FnOnce() -> String) -> Finding {
    match result {
        Ok(()) => Finding::works(works),
        Err(failure @ Failure::Refused { .. }) => Finding::missing(story(&failure), fix()),
        Err(failure) => Finding::unknown(story(&failure)),
    }
}

fn sysctl(name: &str) -> Option<String> {
    fs::read_to_string(format!("/proc/sys/{name}")).ok().map(|text| text.trim().to_owned())
}

/// What blocks user namespaces on the distributions that do.
pub(crate) fn namespace_fix() -> String {
    let setting = |name, value: &str| sysctl(name).as_deref() == Some(value);
    if setting("user/max_user_namespaces", "0") {
        "user namespaces are switched off: sysctl user.max_user_namespaces=15000".into()
    } else if setting("kernel/unprivileged_userns_clone", "0") {
        "unprivileged user namespaces are switched off: sysctl kernel.unprivileged_userns_clone=1".into()
    } else if setting("kernel/apparmor_restrict_unprivileged_userns", "1") {
        "AppArmor restricts user namespaces: install ringfence as /usr/local/bin/ringfence with its profile, \
         packaging/apparmor/ringfence (the file says how), or sysctl kernel.apparmor_restrict_unprivileged_userns=0"
            .into()
    } else {
        "inside a container, allow user namespaces in its seccomp profile and give it CAP_SYS_ADMIN; otherwise ask the \
         administrator which policy blocks unshare(2)"
            .into()
    }
}

pub(crate) fn user_namespaces() -> Finding {
    finding(probe::user_namespaces(DEADLINE), "work, with all other namespaces inside", namespace_fix)
}

pub(crate) fn id_ranges() -> Finding {
    match probe::id_ranges() {
        Ok(()) => Finding::works("each sandbox has 65,536 ids of its own"),
        Err(why) => Finding::missing(why, "run as the host's root"),
    }
}

pub(crate) fn overlay() -> Finding {
    let result = probe::overlay(DEADLINE);
    let blocked_earlier =
        matches!(&result, Err(Failure::Refused { step: Step::UserNamespace | Step::OtherNamespaces, .. }));
    // Root's sandboxes have other marks.
    let is_root = rustix::process::geteuid().is_root();
    let is_whole = result.is_err() || is_root || probe::remade_directories(DEADLINE).is_ok();
    let works = if is_whole {
        "works"
    } else {
        "works, but a directory of the image that was removed cannot be made again (EIO; for plain users, Linux 6.6 or later)"
    };
    finding(result, works, || {
        if blocked_earlier {
            namespace_fix()
        } else {
            "a kernel of 5.11 or later with overlayfs (modprobe overlay)".into()
        }
    })
}

pub(crate) fn redirect_rules() -> Finding {
    let result = probe::redirect_rules(DEADLINE);
    let blocked_earlier =
        matches!(&result, Err(Failure::Refused { step: Step::UserNamespace | Step::OtherNamespaces, .. }));
    finding(result, "nat, redirect and fib work", || {
        if blocked_earlier {
            namespace_fix()
        } else {
            "a kernel with nf_tables, nft_redir and nft_fib_inet (modprobe each)".into()
        }
    })
}

pub(crate) fn seccomp() -> Finding {
    finding(probe::seccomp_filter(DEADLINE), "work", || "a kernel with CONFIG_SECCOMP_FILTER".into())
}

pub(crate) fn kvm() -> Finding {
    let result = probe::kvm_guest(DEADLINE);
    let step = match &result {
        Err(Failure::Refused { step, source }) => Some((*step, source.kind())),
        _ => None,
    };
    finding(result, "runs a guest", || match step {
        Some((Step::KvmDevice, std::io::ErrorKind::PermissionDenied)) => "add the user to the group kvm".into(),
        Some((Step::KvmDevice, _)) => "enable virtualisation in the firmware and load kvm_intel or kvm_amd".into(),
        _ => {
            "the device is there but cannot run a guest (nested or emulated virtualisation): use another machine".into()
        }
    })
}

pub(crate) fn landlock() -> Finding {
    match probe::landlock_version() {
        Some(version) => Finding::works(format!("ABI {version}")),
        None => Finding::missing("not in this kernel", "a kernel of 5.13 or later with landlock in the lsm= list"),
    }
}

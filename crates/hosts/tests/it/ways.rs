//! Ways to start the program: sessions, services, scopes, su.

use hosts::{Error, Machine, Output};

/// One way, with what there is to expect of it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Way {
    pub(crate) name: &'static str,
    /// The user that logs in.
    user: &'static str,
    /// The command prefix of `sh FILE`.
    before: &'static str,
    /// Limits are expected to be enforced.
    pub(crate) limits: bool,
}

pub(crate) const WAYS: [Way; 10] = [
    Way { name: "root, session", user: "root", before: "", limits: true },
    Way { name: "root, service", user: "root", before: "systemd-run --quiet --pipe --wait", limits: true },
    Way {
        name: "root, service with `Delegate=yes`",
        user: "root",
        before: "systemd-run --quiet --pipe --wait -p Delegate=yes",
        limits: true,
    },
    Way { name: "user, session", user: "alice", before: "", limits: true },
    Way { name: "user, own service", user: "alice", before: "systemd-run --user --quiet --pipe --wait", limits: true },
    Way { name: "user, own scope", user: "alice", before: "systemd-run --user --quiet --scope", limits: true },
    Way {
        name: "user, system service with `Delegate=yes`",
        user: "root",
        before: "systemd-run --quiet --pipe --wait -p User=bob -p Delegate=yes",
        limits: true,
    },
    Way {
        name: "user, system service",
        user: "root",
        before: "systemd-run --quiet --pipe --wait -p User=bob",
        limits: false,
    },
    Way { name: "user, `su` without a session", user: "root", before: "runuser -u bob --", limits: false },
    Way { name: "user, `su`, lingering", user: "root", before: "runuser -u carol --", limits: true },
];

impl Way {
    /// Checks whether root runs the program.
    pub(crate) fn is_root(&self) -> bool {
        self.name.starts_with("root")
    }

    /// Runs a script of the machine in this way.
    pub(crate) fn run(&self, machine: &Machine, script: &str, arguments: &str) -> Result<Output, Error> {
        machine.run(self.user, &format!("cd /tmp && {} sh {script} {arguments}", self.before))
    }
}

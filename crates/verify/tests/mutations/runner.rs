//! One case: a runner that verifies `T0.H1.N1`, by the product's own entry point.

use std::os::unix::process::CommandExt as _;
use std::process::{Command, ExitCode};
use std::sync::Arc;

use mutation::{Mutation, mutated};
use profile::{Approval, Capability, Document, Finding, Overrides, Profile};
use sandbox::{Image, Limits, Network, System};
use verify::{Conclusion, Speed, Subject};

/// The arguments by which this program knows what it is.
pub(crate) const ALONE: &str = "--alone";
pub(crate) const VERIFY: &str = "--verify";
/// As the command has them.
const UNVERIFIED: u8 = 5;
const PROVIDER: u8 = 4;

/// Goes where there is no network, becomes the user and starts the runner there.
pub(crate) fn alone(program: &str, user: &str) -> ExitCode {
    if rustix::process::geteuid().is_root() {
        jail::world::leave_network().unwrap();
    }
    let mut command = Command::new(program);
    command.arg(VERIFY).current_dir("/");
    if let Ok(user) = user.parse() {
        command.uid(user).gid(user);
    }
    panic!("{program}: {}", command.exec())
}

fn subject() -> Subject {
    let requested: Profile = "T0.H1.N1".parse().unwrap();
    let overrides = Overrides { approval: Some(Approval::Operator), ..Overrides::default() };
    let environment = profile::Environment::default();
    let request = profile::Request::resolve(Document::bare(requested, "a test"), &environment, overrides);
    let mut facts = host::kernel_facts();
    // A limit that was taken away is noticed by the facts already, and then no plan promises it. Here it is promised all the same.
    if mutated(Mutation::NoMemoryLimit) || mutated(Mutation::NoPidsLimit) {
        assert!(!facts.has(Capability::Cgroups), "the facts do not notice it");
        facts = facts.with(Capability::Cgroups, Finding::works("promised for a test"));
    }
    let plan = profile::compile(&request, &facts).unwrap_or_else(|refusal| panic!("{refusal:?}"));
    let unbounded = plan.residual.iter().any(|residual| residual.id == "unbounded");
    let limits = Limits {
        memory: plan.limits.memory.amount.0,
        pids: plan.limits.pids.amount.0,
        cpu_millis: plan.limits.cpu.amount.0,
    };
    let container = sandbox::Request {
        image: Image::Host,
        begin_with: None,
        system: System::AsLeft,
        limits: (!unbounded).then_some(limits),
        disk: plan.limits.disk.amount.0,
        mounts: Vec::new(),
        allow_setuid: plan.allow_setuid,
        network: Network::Captured,
    };
    let offered = plan.affordances.clone();
    Subject { requested, plan, kind: Arc::new(container), offered }
}

/// Verifies, prints the record, and ends as the command does.
pub(crate) fn verify() -> ExitCode {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let report = runtime.block_on(verify::verify(subject(), Speed::Full, Arc::new(|_, _| {})));
    match report {
        Ok(report) => {
            println!("{}", serde_json::to_string(&report).unwrap());
            if report.conclusion == Conclusion::AsPlanned { ExitCode::SUCCESS } else { UNVERIFIED.into() }
        }
        Err(error) => {
            let source = std::error::Error::source(&error).map(ToString::to_string).unwrap_or_default();
            eprintln!("{error}: {source}");
            PROVIDER.into()
        }
    }
}

//! `cargo xtask`, and behind `./test.sh`: Ringfence's test lanes.
//!
//! lanes.toml says what runs, tools.toml which tools in which versions. `select` chooses lanes, `run` runs them, `suite` their
//! test programs, which `compile` has compiled once; `report` and `junit` say what came of it. `daemon` and `rootfs` are the
//! larger things that lanes share.

mod args;
mod compile;
mod context;
mod daemon;
mod daemon_tls;
mod images;
mod install;
mod junit;
mod lanes;
mod libtest;
mod modules;
mod packages;
mod plain_user;
mod printer;
mod process;
mod pytest;
mod report;
mod rootfs;
mod run;
mod select;
mod setup;
mod signals;
mod slots;
mod suite;
mod tasks;
mod tools;
mod workspace;

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::sync::Mutex;

use clap::Parser as _;

use crate::args::{Command, CommandLine, TestArgs};
use crate::context::Context;
use crate::lanes::Lane;
use crate::printer::Printer;
use crate::report::Report;
use crate::select::UnknownLane;
use crate::setup::SetupError;
use crate::slots::Slots;
use crate::tools::Tools;
use crate::workspace::Workspace;

/// What this program runs, in the version that it was compiled with.
const LANES: &str = include_str!("../lanes.toml");
const TOOLS: &str = include_str!("../tools.toml");

const USAGE: u8 = 2;

fn main() -> ExitCode {
    let printer = Printer::new();
    match CommandLine::parse().command {
        Command::DockerRestart { directory } => match daemon::restart(&directory) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => failure(&printer, &error.to_string()),
        },
        Command::Test(arguments) => test(printer, arguments),
    }
}

fn failure(printer: &Printer, message: &str) -> ExitCode {
    printer.line(&format!("error: {message}"));
    ExitCode::FAILURE
}

fn test(printer: Printer, arguments: TestArgs) -> ExitCode {
    let lanes = Tools::parse(TOOLS).and_then(|tools| Ok((lanes::parse(LANES, &tools)?, tools)));
    let (lanes, tools) = match lanes {
        Ok(parsed) => parsed,
        Err(error) => return failure(&printer, &error),
    };
    if arguments.list {
        printer.line(&select::list(&lanes));
        return ExitCode::SUCCESS;
    }
    let chosen = match select::select(&lanes, &arguments.lanes) {
        Ok(chosen) => chosen,
        Err(UnknownLane { name, nearest }) => {
            let names: Vec<&str> = lanes.iter().map(|lane| lane.name.as_str()).collect();
            let hint = nearest.map(|nearest| format!("; hint: did you mean `{nearest}`?")).unwrap_or_default();
            printer.line(&format!("error: unknown lane `{name}`{hint}\nlanes: {} (and `all`)", names.join(", ")));
            return ExitCode::from(USAGE);
        }
    };
    match context(printer, tools, &chosen, arguments) {
        Ok(context) => run_lanes(&context, &chosen),
        Err((printer, error)) => failure(&printer, &error),
    }
}

fn context(printer: Printer, tools: Tools, lanes: &[&Lane], arguments: TestArgs) -> Result<Context, (Printer, String)> {
    let prepared = signals::watch().and_then(|()| std::env::current_exe()).map_err(|error| error.to_string());
    let prepared = prepared.and_then(|xtask| {
        let workspace = Workspace::load()?;
        let wanted = context::wanted(&workspace, lanes)?;
        Ok((xtask, workspace, wanted))
    });
    let (xtask, workspace, wanted) = match prepared {
        Ok(prepared) => prepared,
        Err(error) => return Err((printer, error)),
    };
    Ok(Context {
        workspace,
        tools,
        printer,
        report: Report::default(),
        slots: Slots::new(arguments.jobs.get()),
        installing: Mutex::new(()),
        filter: arguments.test,
        may_install: !arguments.no_install,
        is_ci: ["CI", "RINGFENCE_CI"].iter().any(|name| is_set(std::env::var(name).ok().as_deref())),
        is_root: rustix::process::geteuid().is_root(),
        xtask,
        wanted,
        compiled: Mutex::new(BTreeMap::new()),
        done: Mutex::new(BTreeMap::new()),
        daemon: Mutex::new(None),
    })
}

/// Whether a variable means yes.
fn is_set(value: Option<&str>) -> bool {
    value.is_some_and(|value| !["", "0", "false"].contains(&value))
}

fn run_lanes(context: &Context, lanes: &[&Lane]) -> ExitCode {
    let run = || {
        run::install_packages(context, lanes);
        lanes::groups(lanes).into_iter().try_for_each(|group| run::run_group(context, group))
    };
    let result = run();
    // It ends before the summary: this is part of the run.
    *context::lock(&context.daemon) = None;
    context.report.print_summary(&context.printer);
    match result {
        Err(SetupError::Interrupted) => {
            context.printer.line("interrupted");
            let signal = signals::received().and_then(|signal| u8::try_from(signal).ok()).unwrap_or_default();
            ExitCode::from(128 + signal)
        }
        Err(error) => failure(&context.printer, &error.to_string()),
        Ok(()) => match context.report.totals() {
            (_, 0, _) if context.filter.is_none() => ExitCode::SUCCESS,
            (1.., 0, _) => ExitCode::SUCCESS,
            _ => ExitCode::FAILURE,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::is_set;

    #[test]
    fn variables_that_say_no_are_not_set() {
        assert_eq!([None, Some(""), Some("0"), Some("false")].map(is_set), [false; 4]);
        assert_eq!([Some("1"), Some("true"), Some("yes")].map(is_set), [true; 3]);
    }
}

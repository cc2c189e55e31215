//! What each command does: gather, ask, print.

mod ask;
mod choose;
mod container;
mod docker;
mod doctor;
mod env_file;
mod eval;
mod eval_display;
mod eval_obstacle;
mod eval_prepare;
mod eval_run;
mod eval_table;
mod eval_verify;
mod exec;
mod grants;
mod images;
mod input;
mod keys;
mod list;
mod log_verify;
mod logs;
mod network;
mod network_log;
mod plan;
mod progress;
mod receipts;
mod retry;
mod retry_consent;
mod run;
mod run_services;
mod runtime;
mod sandboxes;
mod sandboxes_docker;
mod score;
mod score_line;
mod serve;
mod serve_services;
mod serve_workshop;
mod services;
mod set;
mod set_logs;
mod set_manifest;
mod set_plot;
mod set_tasks;
mod snapshots;
mod stream;
mod terminal;
mod trust;
mod verify;

use clap::CommandFactory as _;

use crate::args::{Arguments, Command, ProfileCommand};
use crate::exit::Exit;
use crate::printer::Printer;

/// Runs one command to its exit code.
pub(crate) fn run(command: Command, printer: &mut Printer) -> Exit {
    // Before the host is looked at: that takes threads too, and a probe without one looks like a host that cannot.
    let starts_sandboxes = matches!(
        command,
        Command::Run(_)
            | Command::Eval(_)
            | Command::EvalRetry(_)
            | Command::EvalSet(_)
            | Command::Verify(_)
            | Command::Serve(_)
    );
    if starts_sandboxes && let Err(error) = sandbox::check_resources() {
        return run::failed(&sandbox::StartError::from(error), Exit::Provider, printer);
    }
    match command {
        Command::Profile(ProfileCommand::List) => list::list(printer),
        Command::Profile(ProfileCommand::Explain { profile, any_host, overrides, explain_config }) => {
            plan::explain(profile, any_host, overrides, explain_config, printer)
        }
        Command::Profile(ProfileCommand::Check { document }) => plan::check(document, printer),
        Command::Profile(ProfileCommand::Choose(arguments)) => choose::choose(&arguments, printer),
        Command::Plan { document } => plan::plan(document, printer),
        Command::Eval(arguments) => eval::run(&arguments, printer),
        Command::Score(arguments) => score::run(&arguments, printer),
        Command::EvalRetry(arguments) => retry::run(&arguments, printer),
        Command::EvalSet(arguments) => set::run(&arguments, printer),
        Command::Key(command) => keys::run(&command, printer),
        Command::Log(command) => logs::run(command, printer),
        Command::Run(arguments) => run::run(&arguments, printer),
        Command::Verify(arguments) => verify::run(&arguments, printer),
        Command::Serve(arguments) => serve::run(&arguments, printer),
        Command::Sandbox(command) => sandboxes::run(command, printer),
        Command::Image(command) => images::run(command, printer),
        Command::Doctor => doctor::doctor(printer),
        Command::Completions { shell } => {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut Arguments::command(), "ringfence", &mut script);
            printer.text(&String::from_utf8_lossy(&script));
            Exit::Done
        }
    }
}

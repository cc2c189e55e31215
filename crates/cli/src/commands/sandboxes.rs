//! `sandbox list|exec|stop|snapshot|fork|cleanup`: the sandboxes that other commands of this user hold.

use profile::Provider;
use sandbox::{Exec, Run, Sandbox, User, runs};
use serde_json::json;

use super::run::{chain, failed};
use super::runtime::Workers;
use super::{runtime, sandboxes_docker, snapshots, stream, terminal};
use crate::args::SandboxCommand;
use crate::exit::Exit;
use crate::printer::{Look, Printer, plain, span};
use crate::table::{page_width, table};

pub(super) fn run(command: SandboxCommand, printer: &mut Printer) -> Exit {
    if let SandboxCommand::List { provider: Some(Provider::Docker) } = command {
        return sandboxes_docker::list(printer);
    }
    if let SandboxCommand::Cleanup { provider: Some(Provider::Docker) } = command {
        return sandboxes_docker::clean_up(printer);
    }
    let runs = match runs() {
        Ok(runs) => runs,
        Err(error) => return failed(&error, Exit::Provider, printer),
    };
    match command {
        SandboxCommand::List { .. } => list(&runs, printer),
        SandboxCommand::Cleanup { .. } => clean_up(&runs, printer),
        SandboxCommand::Stop { name } => join(&runs, &name, printer, |sandbox| async move {
            sandbox.stop().await.map(|()| Exit::Done).map_err(|error| (Exit::Provider, error.to_string()))
        })
        .unwrap_or_else(|exit| exit),
        SandboxCommand::Snapshot { name, image } => snapshots::snapshot(&runs, &name, &image, printer),
        SandboxCommand::Fork { name, run } => snapshots::fork(&runs, &name, *run, printer),
        SandboxCommand::Exec { name, pty, user, command } => {
            let exec = Exec {
                argv: command,
                env: Vec::new(),
                cwd: None,
                user: user.map_or(User::Default, User::Named),
                pty: pty.then(terminal::size),
                timeout_ms: None,
                max_output: None,
            };
            join(&runs, &name, printer, |sandbox| async move {
                stream::to_the_end(&sandbox, exec).await.map_err(|error| (error.exit(), chain(&error)))
            })
            .unwrap_or_else(|exit| exit)
        }
    }
}

fn list(runs: &[Run], printer: &mut Printer) -> Exit {
    if printer.json() {
        let rows: Vec<_> =
            runs.iter().map(|run| json!({"name": run.name, "alive": run.alive, "about": run.about})).collect();
        printer.data(&json!({"schema": "ringfence.sandboxes/1", "sandboxes": rows}));
        return Exit::Done;
    }
    let rows: Vec<_> = runs
        .iter()
        .map(|run| {
            let (look, state) = if run.alive { (Look::Good, "runs") } else { (Look::Bad, "left behind") };
            vec![span(Look::Strong, run.name.clone()), span(look, state), plain(run.about.clone())]
        })
        .collect();
    printer.page(&table(&["name", "state", "profile and command"], &rows, page_width()));
    Exit::Done
}

fn clean_up(runs: &[Run], printer: &mut Printer) -> Exit {
    for run in runs.iter().filter(|run| !run.alive) {
        if let Err(error) = run.clean_up() {
            return failed(&error, Exit::Provider, printer);
        }
        printer.message(&vec![vec![plain(format!("removed what {} left behind", run.name))]]);
    }
    Exit::Done
}

/// Does something in the sandbox of that name.
pub(super) fn join<T, F>(
    runs: &[Run],
    name: &str,
    printer: &mut Printer,
    action: impl FnOnce(Sandbox) -> F,
) -> Result<T, Exit>
where
    F: Future<Output = Result<T, (Exit, String)>>,
{
    let Some(run) = runs.iter().find(|run| run.name == name && run.alive) else {
        printer.message(&vec![
            vec![span(Look::Bad, "error"), plain(format!(": no sandbox `{name}` runs"))],
            vec![span(Look::Faint, "  hint: "), plain("`ringfence sandbox list` shows those that do")],
        ]);
        return Err(Exit::Input);
    };
    let runtime = match runtime::start(Workers::Fixed(1)) {
        Ok(runtime) => runtime,
        Err(error) => return Err(failed(&error, Exit::Provider, printer)),
    };
    let result = runtime.block_on(async {
        let sandbox = Sandbox::join(&run.socket()).await.map_err(|error| (Exit::Provider, error.to_string()))?;
        action(sandbox).await
    });
    // A thread may still wait for our standard input; it must not keep us.
    runtime.shutdown_background();
    result.map_err(|(exit, message)| {
        printer.message(&vec![vec![span(Look::Bad, "error"), plain(format!(": {message}"))]]);
        exit
    })
}

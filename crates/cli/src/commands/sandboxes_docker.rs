//! `sandbox list|cleanup --provider docker`: containers of ours that a daemon has.

use docker::{DockerError, Engine, Leftover, Owner};
use serde_json::json;

use super::run::failed;
use crate::exit::Exit;
use crate::printer::{Look, Printer, plain, span};
use crate::table::{page_width, table};

pub(super) fn list(printer: &mut Printer) -> Exit {
    let all = match asked(async { Engine::find().await?.leftovers().await }) {
        Ok(all) => all,
        Err(error) => return report(&error, printer),
    };
    if printer.json() {
        let row = |one: &Leftover| json!({"name": one.name, "id": one.id, "run": one.run, "state": state(one.owner).1});
        let rows: Vec<_> = all.iter().map(row).collect();
        printer.data(&json!({"schema": "ringfence.containers/1", "containers": rows}));
        return Exit::Done;
    }
    let row = |one: &Leftover| {
        let (look, state) = state(one.owner);
        vec![span(Look::Strong, one.name.clone()), span(look, state), plain(one.run.clone())]
    };
    let rows: Vec<_> = all.iter().map(row).collect();
    printer.page(&table(&["name", "state", "run"], &rows, page_width()));
    Exit::Done
}

fn state(owner: Owner) -> (Look, &'static str) {
    match owner {
        Owner::Alive => (Look::Good, "runs"),
        Owner::Gone => (Look::Bad, "left behind"),
        Owner::Elsewhere => (Look::Doubtful, "somebody else's"),
        Owner::Expired => (Look::Bad, "expired"),
    }
}

pub(super) fn clean_up(printer: &mut Printer) -> Exit {
    let mut exit = Exit::Done;
    let mut told = |one: &Leftover, result| match result {
        Ok(()) => printer.message(&vec![vec![plain(format!("removed {}, which {} left behind", one.name, one.run))]]),
        Err(error) => exit = report(&error, printer),
    };
    match asked(async { Engine::find().await?.clean_up(&mut told).await }) {
        Ok(()) => exit,
        Err(error) => report(&error, printer),
    }
}

fn asked<T>(work: impl Future<Output = Result<T, DockerError>>) -> Result<T, DockerError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(DockerError::Place)?;
    runtime.block_on(work)
}

fn report(error: &DockerError, printer: &mut Printer) -> Exit {
    failed(error, Exit::Provider, printer)
}

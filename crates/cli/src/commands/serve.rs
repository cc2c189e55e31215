//! `serve`: sandboxes for other programs, over HTTP.

use std::fs::File;
use std::io::{self, Write as _};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use serve::{Address, Bound, Limits, Place, Tokens};
use tokio::signal::unix::{SignalKind, signal};

use super::grants;
use super::run::failed;
use super::runtime::{self, Workers};
use super::serve_workshop::Bench;
use crate::exit::Exit;
use crate::printer::{Look, Printer, plain, span};
use crate::serve_args::ServeArguments;

pub(super) fn run(arguments: &ServeArguments, printer: &mut Printer) -> Exit {
    if arguments.openapi {
        printer.text(&serve::openapi_text());
        return Exit::Done;
    }
    let place = match place(arguments, printer) {
        Ok(place) => place,
        Err(exit) => return exit,
    };
    let grants = match grants::of(arguments.grants, None) {
        Ok(grants) => grants,
        Err(problems) => return super::plan::report(&problems.into(), printer),
    };
    let runtime = match runtime::start(Workers::Fixed(2)) {
        Ok(runtime) => runtime,
        Err(error) => return failed(&error, Exit::Provider, printer),
    };
    let exit =
        runtime.block_on(serve(arguments, Bench::new(grants, arguments.dangerously_mount_secrets), place, printer));
    runtime.shutdown_timeout(Duration::from_secs(2));
    exit
}

/// Where to listen; everything that is wrong with that is said before anything starts.
fn place(arguments: &ServeArguments, printer: &mut Printer) -> Result<Place, Exit> {
    let (Some(address), Some(file)) = (arguments.listen, &arguments.token_file) else {
        let path = match &arguments.socket {
            Some(path) => path.clone(),
            None => own_socket().map_err(|error| failed(&error, Exit::Provider, printer))?,
        };
        return Ok(Place::Socket(path));
    };
    if !address.ip().is_loopback() && !arguments.dangerously_listen_beyond_loopback {
        let said = format!(": other machines reach {address}, and tokens and files would travel in the clear");
        let hint = "listen on 127.0.0.1 and let ssh carry it, or say --dangerously-listen-beyond-loopback";
        return Err(refused(&said, hint, printer));
    }
    let tokens = Tokens::read(file).map_err(|error| {
        let exit = failed(&error, Exit::Input, printer);
        printer.message(&vec![vec![span(Look::Faint, "  hint: "), plain(error.hint())]]);
        exit
    })?;
    Ok(Place::Tcp(address, Arc::new(tokens)))
}

fn refused(said: &str, hint: &str, printer: &mut Printer) -> Exit {
    printer
        .message(&vec![vec![span(Look::Bad, "error"), plain(said)], vec![span(Look::Faint, "  hint: "), plain(hint)]]);
    Exit::Input
}

/// A socket of this process in the user's private directory.
fn own_socket() -> io::Result<PathBuf> {
    Ok(sandbox::private_directory()?.join(format!("serve-{}.sock", std::process::id())))
}

async fn serve(arguments: &ServeArguments, bench: Bench, place: Place, printer: &mut Printer) -> Exit {
    // Before anybody hears that we are there: a signal must find somebody who ends what is held.
    let (terminate, interrupt) = (signal(SignalKind::terminate()), signal(SignalKind::interrupt()));
    let (mut terminate, mut interrupt) = match (terminate, interrupt) {
        (Ok(terminate), Ok(interrupt)) => (terminate, interrupt),
        (Err(error), _) | (_, Err(error)) => return failed(&error, Exit::Provider, printer),
    };
    let bound = match serve::bind(place).await {
        Ok(bound) => bound,
        Err(error) => return failed(&error, Exit::Input, printer),
    };
    if let Err(error) = announce(arguments, &bound, printer) {
        return failed(&error, Exit::Input, printer);
    }
    let limits =
        Limits { sandboxes: arguments.max_sandboxes, connections: arguments.max_connections, ..Limits::default() };
    let network = egress::Settings { upstream: arguments.dns_upstream, ..egress::Settings::default() };
    let stop = async {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
    };
    let idle = arguments.exit_when_idle.map(Duration::from_secs);
    // With a socket of its own it serves all the same.
    if let Err(error) = sandbox::private_directory() {
        super::run::warn_unlisted(&error, printer);
    }
    serve::serve(bound, Arc::new(bench), limits, network, idle, stop).await;
    Exit::Done
}

/// One line of JSON: whoever reads it may connect.
fn announce(arguments: &ServeArguments, bound: &Bound, printer: &mut Printer) -> io::Result<()> {
    let pid = std::process::id();
    let line = match bound.address() {
        Address::Socket(path) => json!({"socket": path.to_string_lossy(), "pid": pid}),
        Address::Tcp(address) => json!({"address": address.to_string(), "pid": pid}),
    };
    let text = format!("{line}\n");
    match arguments.ready_fd {
        None => printer.text(&text),
        Some(number) => {
            File::options().write(true).open(format!("/proc/self/fd/{number}"))?.write_all(text.as_bytes())?;
        }
    }
    Ok(())
}

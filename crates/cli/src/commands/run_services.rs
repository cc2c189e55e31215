//! `run` beside other services: all of them start, the command runs in the default one, all of them end.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use profile::{Plan, Request};
use sandbox::StartError;
use stack::{Event, Stack, StackError, Start, What};

use super::network::{Network, NetworkError};
use super::run::{Obstacle, run_name};
use super::services::Services;
use super::{exec, stream};
use crate::args::RunArguments;
use crate::exit::Exit;
use crate::printer::{Look, Printer, plain, span};

/// How long the services may take until they are ready.
const PATIENCE: Duration = Duration::from_mins(5);
/// Events that are kept to be told at the end.
const KEPT: usize = 64;

pub(super) async fn execute(
    arguments: &RunArguments,
    (request, plan): (&Request, &Plan),
    services: &Services,
    printer: &mut Printer,
) -> Result<Exit, Obstacle> {
    let run = &run_name();
    let mut network = Network::start(arguments, plan).await.map_err(Obstacle::Network)?;
    let zone = plan.network.phases.get("agent").ok_or(Obstacle::Network(NetworkError::NoPlan))?;
    let blueprint = services.blueprint(request, plan).map_err(Obstacle::Start)?;
    let troubles: Arc<Mutex<Vec<Event>>> = Arc::default();
    let start = Start {
        group: run.clone(),
        sample: None,
        // The command is what runs there.
        default_process: false,
        default_egress: zone.egress.clone(),
        patience: PATIENCE,
        told: keeping(&troubles),
    };
    let ended = match &mut network {
        Some(network) => beside(arguments, (request, plan), services, (blueprint, &start), network, run).await,
        None => Err(Obstacle::Start(StartError::Engine(
            "services reach each other by a gateway, and the plan has none".into(),
        ))),
    };
    let recorded = match network {
        Some(network) => network.finish(printer).await,
        None => Ok(()),
    };
    for event in troubles.lock().unwrap_or_else(PoisonError::into_inner).drain(..) {
        if let Some(text) = trouble(&event) {
            printer
                .message(&vec![vec![span(Look::Doubtful, "service"), plain(format!(": `{}` {text}", event.service))]]);
        }
    }
    let exit = ended?;
    recorded.map_err(Obstacle::Network)?;
    Ok(exit)
}

async fn beside(
    arguments: &RunArguments,
    (request, plan): (&Request, &Plan),
    services: &Services,
    (blueprint, start): (stack::Blueprint, &Start),
    network: &mut Network,
    run: &str,
) -> Result<Exit, Obstacle> {
    let stack = Stack::open(blueprint, run).await.map_err(Obstacle::Services)?;
    let (gateway, mut lost) = network.parts();
    let gateway = (gateway, run);
    let mut running = stack.start(&gateway, start).await.map_err(Obstacle::Services)?;
    let exec = exec::exec(arguments, &request.document, plan, &services.config());
    let ended = match running.default() {
        Some(sandbox) => tokio::select! {
            ended = stream::to_the_end(sandbox, exec) => ended.map_err(Obstacle::Stream),
            error = Network::loss(&mut lost) => Err(Obstacle::Network(error)),
        },
        None => Err(Obstacle::Services(StackError::Unknown { service: running.default_name().to_owned() })),
    };
    let stopped = running.end(&stack, &gateway).await;
    let closed = stack.close().await;
    let exit = ended?;
    stopped.and(closed).map_err(Obstacle::Start)?;
    Ok(exit)
}

/// Keeps what is worth telling when the command has ended, and not more than can be read.
fn keeping(troubles: &Arc<Mutex<Vec<Event>>>) -> stack::Told {
    let troubles = Arc::clone(troubles);
    Arc::new(move |event: &Event| {
        let mut kept = troubles.lock().unwrap_or_else(PoisonError::into_inner);
        if trouble(event).is_some() && kept.len() < KEPT {
            kept.push(event.clone());
        }
    })
}

/// What went wrong, if something did.
fn trouble(event: &Event) -> Option<String> {
    match &event.what {
        What::Ended { end, output } if !end.is_success() => Some(format!("{end}: {}", output.trim())),
        What::Unhealthy { output } => Some(format!("is not healthy: {output}")),
        What::WaitedInVain { needs, why } => Some(format!("started without `{needs}`: {why}")),
        What::Ready | What::Started { .. } | What::Ended { .. } | What::Healthy | What::Stopped => None,
    }
}

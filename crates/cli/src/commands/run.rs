//! `run`: one command in a sandbox, with its own exit code.

use std::error::Error;

use image::{Config, ImageError, Opened};
use profile::{
    Approval, Cause, Document, Facts, Located, Overrides, Plan, Problem, Problems, Profile, Provider, Refusal, Request,
    Stated, Tooling, Unmet,
};
use sandbox::{Capture, Sandbox, SessionError, StartError, Variant};
use secrecy::SecretString;
use stack::StackError;

use super::container::Found;
use super::images;
use super::network::{Network, NetworkError};
use super::runtime::Workers;
use super::services::Services;
use super::stream::StreamError;
use super::{container, docker, env_file, exec, grants, input, plan, run_services, runtime, snapshots, stream};
use crate::args::{CaptureBy, RunArguments};
use crate::exit::Exit;
use crate::printer::{Look, Page, Printer, plain, span};

/// Why a command did not run to its end.
pub(super) enum Obstacle {
    Plan(plan::Obstacle),
    Start(StartError),
    Stream(StreamError),
    Network(NetworkError),
    Image(ImageError),
    Services(StackError),
}

impl<E: Into<plan::Obstacle>> From<E> for Obstacle {
    fn from(error: E) -> Self {
        Self::Plan(error.into())
    }
}

pub(super) fn run(arguments: &RunArguments, printer: &mut Printer) -> Exit {
    let result = prepare(arguments).and_then(|prepared| {
        let runtime = runtime::start(Workers::Fixed(1)).map_err(Obstacle::Start)?;
        let Prepared { request, plan, image, services } = &prepared;
        let ended = match services {
            Some(services) => runtime.block_on(run_services::execute(arguments, (request, plan), services, printer)),
            None => runtime.block_on(execute(arguments, request, plan, image.as_ref(), printer)),
        };
        // A thread may still wait for our standard input; it must not keep us.
        runtime.shutdown_background();
        ended
    });
    match result {
        Ok(exit) => {
            if let Some(note) = note(exit, arguments) {
                printer.message(&note);
            }
            exit
        }
        Err(Obstacle::Plan(obstacle)) => plan::report(&obstacle, printer),
        Err(Obstacle::Start(error)) => not_started(&error, printer),
        Err(Obstacle::Stream(error)) => failed(&error, error.exit(), printer),
        Err(Obstacle::Network(error)) => failed(&error, error.exit(), printer),
        Err(Obstacle::Image(error)) => images::failed(&error, printer),
        Err(Obstacle::Services(error)) => failed(&error, Exit::Provider, printer),
    }
}

/// The exit code of a command that could not be run to its end.
pub(super) fn exit_of(error: &SessionError) -> Exit {
    match error {
        SessionError::Died(_) | SessionError::Unresponsive(_) => Exit::Provider,
        // What a shell says of a program that is not there, or may not be run.
        SessionError::Failed { kind: sandbox::FailureKind::NotFound, .. } => Exit::Command(127),
        SessionError::Failed { .. } => Exit::Command(126),
    }
}

/// Says why a sandbox could not be started. A mount that is refused is refused by policy; all else is the provider's fault.
pub(super) fn not_started(error: &StartError, printer: &mut Printer) -> Exit {
    let is_refused = matches!(error, StartError::Mount { .. } | StartError::MountContents { .. });
    let exit = if is_refused { Exit::Refused } else { Exit::Provider };
    failed(error, exit, printer)
}

pub(super) fn failed(error: &(dyn Error + 'static), exit: Exit, printer: &mut Printer) -> Exit {
    printer.message(&vec![vec![span(Look::Bad, "error"), plain(format!(": {}", chain(error)))]]);
    let of_start = error.downcast_ref::<StartError>().and_then(StartError::hint).map(str::to_owned);
    if let Some(hint) = of_start.or_else(|| of_a_daemon(error)?.hint()) {
        printer.message(&vec![vec![span(Look::Faint, "  hint"), plain(format!(": {hint}"))]]);
    }
    exit
}

/// An error and its causes, in one line.
pub(super) fn chain(error: &(dyn Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text = format!("{text}: {cause}");
        source = cause.source();
    }
    text
}

fn of_a_daemon<'a>(error: &'a (dyn Error + 'static)) -> Option<&'a ::docker::DockerError> {
    match error.downcast_ref() {
        Some(StartError::Engine(inner)) => inner.downcast_ref(),
        _ => error.downcast_ref(),
    }
}

fn note(exit: Exit, arguments: &RunArguments) -> Option<Page> {
    let timeout = arguments.timeout.filter(|_| exit == TIMED_OUT)?;
    Some(vec![vec![span(Look::Bad, "error"), plain(format!(": the command was ended after {timeout}"))]])
}

/// The exit code of a command whose time was up, as timeout(1) has it.
pub(super) const TIMED_OUT: Exit = Exit::Command(124);

/// What a run is made of.
struct Prepared {
    request: Request,
    plan: Plan,
    /// Held, so that it stays while the sandbox lives.
    image: Option<Found>,
    /// Those beside which it runs.
    services: Option<Services>,
}

/// The document that the arguments amount to, and its plan on this host.
fn prepare(arguments: &RunArguments) -> Result<Prepared, Obstacle> {
    let mut document = match arguments.profile.parse::<Profile>() {
        Ok(profile) => Document::bare(profile, "the command line"),
        // A path has a slash, a dot that is not of a profile, or at least exists.
        Err(error) if !std::path::Path::new(&arguments.profile).exists() => {
            let problem =
                Problem::new(error.to_string()).hint(format!("{}; or name a document that exists", error.hint()));
            return Err(Problems { origin: "the command line".into(), problems: vec![problem] }.into());
        }
        Err(_) => input::document(&arguments.profile)?,
    };
    document.mounts.extend(arguments.mount.iter().cloned().map(Located::nowhere));
    document.environment.extend(env_file::read(&arguments.env_file)?);
    document
        .environment
        .extend(arguments.env.iter().map(|(name, value)| (name.clone(), SecretString::from(value.clone()))));
    if let Some(memory) = arguments.memory {
        document.limits.memory = profile::Limit { amount: memory, stated: Stated::CommandLine };
    }
    document.network.rules.allow.extend(arguments.allow.iter().cloned());
    document.network.rules.deny.extend(arguments.deny.iter().cloned());
    let mut services = Services::of(&mut document, arguments.compose.as_deref(), provider(arguments))?;
    let facts = docker::facts(&document, provider(arguments));
    // What is refused anyway is not fetched first.
    let (request, plan) = planned(&document, arguments, arguments.image.clone(), &facts)?;
    if let Some(name) = &arguments.save_as {
        snapshots::check_name(name).map_err(Obstacle::Image)?;
    }
    let (name, image) = if let Some(services) = &mut services {
        services.open(&mut document, arguments.pull, container::secret_mounts(&request)).map_err(Obstacle::Start)?;
        (None, None)
    } else {
        let opened =
            container::open_image(&document, arguments.image.as_deref(), (plan.provider, arguments.pull), &request);
        opened.map_err(|error| error.either(Obstacle::Image, Obstacle::Start))?
    };
    let (request, mut plan) = planned(&document, arguments, name, &facts)?;
    if let Some(services) = &services {
        services.annotate(&mut plan);
    }
    let config = services.as_ref().map_or_else(|| config(image.as_ref()), Services::config);
    if exec::words(arguments, &config).is_empty() {
        let problem = Problem::new("there is no command, and the image has none of its own")
            .hint("write it at the end: ringfence run -- COMMAND");
        return Err(Problems { origin: "the command line".into(), problems: vec![problem] }.into());
    }
    Ok(Prepared { request, plan, image, services })
}

/// Who runs it: a Compose file means Docker.
fn provider(arguments: &RunArguments) -> Option<Provider> {
    arguments.provider.or(arguments.compose.as_ref().map(|_| Provider::Docker))
}

fn config(image: Option<&Found>) -> Config {
    image.map(Found::config).unwrap_or_default()
}

fn planned(
    document: &Document,
    arguments: &RunArguments,
    image: Option<String>,
    facts: &Facts,
) -> Result<(Request, Plan), Obstacle> {
    let approval = document.approval.is_none().then_some(Approval::Operator);
    let justification = arguments.justification.clone();
    let overrides = Overrides {
        image,
        sandbox: provider(arguments),
        justification,
        approval,
        dangerously_mount_secrets: arguments.dangerously_mount_secrets,
        ..Overrides::default()
    };
    let request = Request::resolve(document.clone(), &input::environment()?, overrides);
    let plan = profile::compile(&request, facts)?;
    grants::check(grants::of(arguments.grants, arguments.profile.parse().ok())?, &request, &plan)?;
    refuse_what_cannot_run(&request, &plan, arguments.save_as.is_some())?;
    Ok((request, plan))
}

/// Sound plans that `run` would have to bend: a command where the profile grants none.
fn refuse_what_cannot_run(request: &Request, plan: &Plan, saves: bool) -> Result<(), Refusal> {
    let mut unmet = Vec::new();
    if plan.profile.tooling > Tooling::T0 {
        let reason = format!("`run` runs any command, and {} grants no arbitrary execution", plan.profile);
        unmet.push(Unmet::new(Cause::Contradiction, "tooling.run", reason).hint("choose T0"));
    }
    if saves && plan.provider != Provider::Container {
        let reason = match plan.provider {
            Provider::Local => "a local process has no files of its own to keep".to_owned(),
            other => format!("files of `sandbox: {other}` cannot be kept in the store"),
        };
        unmet.push(
            Unmet::new(Cause::Contradiction, "save_as", reason)
                .hint("choose H1 on the embedded engine, or leave --save-as out"),
        );
    }
    if unmet.is_empty() {
        return Ok(());
    }
    let document = &request.document;
    let origin = document.profile.place.is_some().then(|| document.origin.clone());
    Err(Refusal { schema: Refusal::SCHEMA, profile: plan.profile, origin, unmet, nearest: Vec::new() })
}

async fn execute(
    arguments: &RunArguments,
    request: &Request,
    plan: &Plan,
    image: Option<&Found>,
    printer: &mut Printer,
) -> Result<Exit, Obstacle> {
    let run = &run_name();
    let mut network = Network::start(arguments, plan).await.map_err(Obstacle::Network)?;
    let (sandbox, capture) = start(request, plan, image, run, arguments.capture).await.map_err(Obstacle::Start)?;
    if let (Some(network), Some(capture)) = (&mut network, capture) {
        network.attach(run, plan, capture).await.map_err(Obstacle::Network)?;
    }
    let exec = exec::exec(arguments, &request.document, plan, &config(image));
    let image = image.and_then(Found::stored);
    // While it runs it is on the list, and other commands of the same user may work in it.
    let about = format!("{} {}", plan.profile, exec.argv.join(" "));
    let reference = plan.image.as_ref().map_or("host", |image| image.reference.as_str());
    let beginning = snapshots::beginning(reference, image);
    let shared = share(&sandbox, run, &about, &beginning);
    let shared = shared.inspect_err(|error| warn_unlisted(error, printer)).ok();
    let ended = tokio::select! {
        ended = stream::to_the_end(&sandbox, exec) => ended.map_err(Obstacle::Stream),
        error = Network::lost(&mut network) => Err(Obstacle::Network(error)),
    };
    let stopped = match (&arguments.save_as, &ended) {
        (Some(name), Ok(_)) => save(sandbox, name, (&beginning, image), printer).await,
        _ => match sandbox.stop().await {
            // The outcome stands: the command has ended, and its helper goes on with the end of the rest.
            Err(error @ StartError::NotEnded(_)) => {
                warn_leftover(&error, printer);
                Ok(())
            }
            stopped => stopped.map_err(Obstacle::Start),
        },
    };
    drop(shared);
    let recorded = match network {
        Some(network) => network.finish(printer).await,
        None => Ok(()),
    };
    let exit = ended?;
    stopped?;
    recorded.map_err(Obstacle::Network)?;
    Ok(exit)
}

/// Ends the sandbox and keeps what it has become.
async fn save(
    sandbox: Sandbox,
    name: &str,
    (beginning, image): (&str, Option<&Opened>),
    printer: &mut Printer,
) -> Result<(), Obstacle> {
    let snapshot = sandbox.freeze().await.map_err(Obstacle::Start)?;
    let archive = snapshot.archive().map_err(Obstacle::Start)?;
    let kept =
        tokio::task::block_in_place(|| snapshots::keep(name, beginning, image, archive)).map_err(Obstacle::Image)?;
    let said = format!("kept as {name}, {}", kept.digest);
    printer.message(&vec![vec![plain(said)]]);
    Ok(())
}

/// Unique on this machine: process numbers come again, but not in the same nanosecond.
pub(super) fn run_name() -> String {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    format!("{}-{:x}", std::process::id(), now.subsec_nanos())
}

/// A sandbox that is on the list while this is held.
struct Shared {
    _registered: sandbox::Registered,
    serving: tokio::task::JoinHandle<()>,
}

impl Drop for Shared {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

/// Puts the sandbox on the list. Where that cannot be done the command runs all the same, after a warning.
fn share(sandbox: &Sandbox, run: &str, about: &str, image: &str) -> std::io::Result<Shared> {
    let registered = sandbox::Registered::new(run, about, image)?;
    let listener = tokio::net::UnixListener::bind(registered.socket())?;
    let serving = tokio::spawn(sandbox::share(sandbox.session().clone(), sandbox.changes(), listener));
    Ok(Shared { _registered: registered, serving })
}

/// Says that something of a sandbox is left, and why.
fn warn_leftover(error: &StartError, printer: &mut Printer) {
    printer.message(&vec![
        vec![span(Look::Doubtful, "warning"), plain(format!(": {error}"))],
        vec![span(Look::Faint, "  hint"), plain(": look for what is left with `ringfence sandbox cleanup`")],
    ]);
}

/// Says that other commands will not find a sandbox, and why.
pub(super) fn warn_unlisted(error: &std::io::Error, printer: &mut Printer) {
    let said = format!(": `sandbox list`, `exec` and `stop` will not find this sandbox: {error}");
    let hint = ": set XDG_RUNTIME_DIR to a directory of yours with mode 0700";
    printer.message(&vec![
        vec![span(Look::Doubtful, "warning"), plain(said)],
        vec![span(Look::Faint, "  hint"), plain(hint)],
    ]);
}

async fn start(
    request: &Request,
    plan: &Plan,
    image: Option<&Found>,
    run: &str,
    capture: CaptureBy,
) -> Result<(Sandbox, Option<Capture>), StartError> {
    let Some(kind) = container::kind(request, plan, image, capture)? else {
        return Ok((sandbox::start_local().await?, None));
    };
    let (sandbox, capture) = kind.start(run).await?.make(Variant::default()).await?;
    Ok((sandbox, Some(capture)))
}

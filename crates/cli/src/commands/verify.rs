//! `verify`: a profile proven from inside, on this host.

use std::collections::BTreeMap;
use std::io::IsTerminal as _;
use std::path::Path;
use std::sync::Arc;

use image::ImageError;
use indicatif::{ProgressBar, ProgressStyle};
use profile::{
    Approval, Cause, Document, Facts, Overrides, Plan, Problem, Problems, Profile, Provider, Refusal, Request, Unmet,
};
use sandbox::StartError;
use verify::{Conclusion, Report, Speed, Subject, Verdict, VerifyError};

use super::container::Found;
use super::runtime::{self, Workers};
use super::services::Services;
use super::{container, docker, grants, images, input, plan};
use crate::args::ProveArguments;
use crate::exit::Exit;
use crate::printer::{Look, Page, Printer, plain, span};
use crate::table::{page_width, table};

enum Obstacle {
    Plan(plan::Obstacle),
    Image(ImageError),
    Start(StartError),
    Verify(VerifyError),
}

impl<E: Into<plan::Obstacle>> From<E> for Obstacle {
    fn from(error: E) -> Self {
        Self::Plan(error.into())
    }
}

pub(super) fn run(arguments: &ProveArguments, printer: &mut Printer) -> Exit {
    let result = prepare(arguments).and_then(|(subjects, image)| {
        let runtime = runtime::start(Workers::Fixed(2)).map_err(Obstacle::Start)?;
        let speed = if arguments.fast { Speed::Fast } else { Speed::Full };
        let bar = bar();
        let shown = bar.clone();
        let progress = Arc::new(move |done: usize, total: usize| {
            if let Some(bar) = &shown {
                bar.set_length(u64::try_from(total).unwrap_or(u64::MAX));
                bar.set_position(u64::try_from(done).unwrap_or(u64::MAX));
            }
        });
        let mut reports = Vec::new();
        for (service, subject) in subjects {
            let progress = Arc::clone(&progress) as Arc<dyn Fn(usize, usize) + Send + Sync>;
            match runtime.block_on(verify::verify(subject, speed, progress)) {
                Ok(report) => reports.push((service, report)),
                Err(error) => return Err(Obstacle::Verify(error)),
            }
        }
        if let Some(bar) = bar {
            bar.finish_and_clear();
        }
        runtime.shutdown_background();
        // Its layers were in use until now.
        drop(image);
        Ok(reports)
    });
    match result {
        Ok(reports) => show_all(&reports, printer),
        Err(Obstacle::Plan(obstacle)) => plan::report(&obstacle, printer),
        Err(Obstacle::Image(error)) => images::failed(&error, printer),
        Err(Obstacle::Start(error)) => super::run::not_started(&error, printer),
        Err(Obstacle::Verify(error)) => super::run::failed(&error, Exit::Provider, printer),
    }
}

fn bar() -> Option<ProgressBar> {
    std::io::stderr().is_terminal().then(|| {
        let bar = ProgressBar::new(0);
        // The template is a constant of ours; another look would do as well.
        if let Ok(style) = ProgressStyle::with_template("verifying [{bar:24}] {pos}/{len} probes") {
            bar.set_style(style.progress_chars("=> "));
        }
        bar
    })
}

/// What is proven one after the other: the sandbox, or those of all services.
pub(super) type Subjects = Vec<(Option<String>, Subject)>;

/// What the arguments ask to be proven, and its plan on this host.
fn prepare(arguments: &ProveArguments) -> Result<(Subjects, Option<Found>), Obstacle> {
    let mut document = match arguments.profile.parse::<Profile>() {
        Ok(profile) => Document::bare(profile, "the command line"),
        Err(error) if !Path::new(&arguments.profile).exists() => {
            let problem =
                Problem::new(error.to_string()).hint(format!("{}; or name a document that exists", error.hint()));
            return Err(Problems { origin: "the command line".into(), problems: vec![problem] }.into());
        }
        Err(_) => input::document(&arguments.profile)?,
    };
    let requested = document.profile.value;
    let services = Services::of(&mut document, arguments.compose.as_deref(), provider(arguments))?;
    let facts = docker::facts(&document, provider(arguments));
    // What is refused anyway is not fetched first.
    let (request, plan) = planned(&document, arguments, arguments.image.clone(), &facts)?;
    if let Some(mut services) = services {
        services.open(&mut document, arguments.pull, container::secret_mounts(&request)).map_err(Obstacle::Start)?;
        let (request, plan) = planned(&document, arguments, None, &facts)?;
        let kinds = services.kinds(&request, &plan).map_err(Obstacle::Start)?;
        return Ok((of_services(requested, &plan, kinds), None));
    }
    let opened =
        container::open_image(&document, arguments.image.as_deref(), (plan.provider, arguments.pull), &request);
    let (name, image) = opened.map_err(|error| error.either(Obstacle::Image, Obstacle::Start))?;
    let (request, plan) = planned(&document, arguments, name, &facts)?;
    let kind =
        container::kind(&request, &plan, image.as_ref(), crate::args::CaptureBy::Passed).map_err(Obstacle::Start)?;
    // Only what has a wall is planned here.
    let kind = kind.ok_or_else(|| Obstacle::Start(StartError::NoFiles))?;
    let offered = plan.affordances.clone();
    Ok((vec![(None, Subject { requested, plan, kind, offered })], image))
}

/// Each service is proven in a sandbox of its own: the default one, which is first, with the sample's phases, every other one
/// with its own network.
pub(super) fn of_services(requested: Profile, plan: &Plan, kinds: Vec<(String, Arc<dyn sandbox::Kind>)>) -> Subjects {
    let subject = |number: usize, (name, kind): (String, Arc<dyn sandbox::Kind>)| {
        let mut plan = plan.clone();
        let own = plan.services.remove(&name);
        plan.services.clear();
        if let Some(own) = own.filter(|_| number > 0) {
            plan.image = Some(own.image.clone());
            plan.network.phases.clear();
            plan.services.insert(name.clone(), own);
        }
        let offered = plan.affordances.clone();
        (Some(name), Subject { requested, plan, kind, offered })
    };
    kinds.into_iter().enumerate().map(|(number, kind)| subject(number, kind)).collect()
}

/// Who runs it: a Compose file means Docker.
fn provider(arguments: &ProveArguments) -> Option<Provider> {
    arguments.provider.or(arguments.compose.as_ref().map(|_| Provider::Docker))
}

fn planned(
    document: &Document,
    arguments: &ProveArguments,
    image: Option<String>,
    facts: &Facts,
) -> Result<(Request, Plan), Obstacle> {
    // Nothing of anybody's runs here: only probes, and those are the operator's own.
    let bare = document.profile.place.is_none();
    let approval = (bare && document.approval.is_none()).then_some(Approval::Operator);
    let justification =
        arguments.justification.clone().or_else(|| bare.then(|| "probes only: nothing else runs".to_owned()));
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
    let reason = match plan.provider {
        Provider::Container | Provider::Docker => return Ok((request, plan)),
        Provider::Local => "a local process has no wall that could be proven".to_owned(),
        other => format!("`sandbox: {other}` is not built yet"),
    };
    let unmet =
        vec![Unmet::new(Cause::Contradiction, "verify", reason).hint("choose H1 on the embedded engine, or on Docker")];
    let origin = document.profile.place.is_some().then(|| document.origin.clone());
    Err(Refusal { schema: Refusal::SCHEMA, profile: plan.profile, origin, unmet, nearest: Vec::new() }.into())
}

/// The exit code of what was found.
fn exit(conclusion: Conclusion) -> Exit {
    match conclusion {
        Conclusion::AsPlanned => Exit::Done,
        Conclusion::Downgrade | Conclusion::Unproven => Exit::Unverified,
    }
}

fn look(verdict: Verdict) -> (&'static str, Look) {
    match verdict {
        Verdict::Pass => ("PASS", Look::Good),
        Verdict::Fail => ("FAIL", Look::Bad),
        Verdict::Unknown => ("UNKNOWN", Look::Doubtful),
        Verdict::Unclaimed => ("–", Look::Faint),
    }
}

/// Every report; the worst conclusion is the end of it.
fn show_all(reports: &[(Option<String>, Report)], printer: &mut Printer) -> Exit {
    let of_services: BTreeMap<&String, &Report> =
        reports.iter().filter_map(|(service, report)| Some((service.as_ref()?, report))).collect();
    if printer.json() && !of_services.is_empty() {
        printer.data(&serde_json::json!({"schema": "ringfence.verify.services/1", "services": of_services}));
    }
    let mut worst = Exit::Done;
    for (service, report) in reports {
        if let (Some(service), false) = (service, printer.json()) {
            printer.page(&vec![vec![plain("service "), span(Look::Strong, service.clone())]]);
        }
        let exit = if printer.json() && service.is_some() { exit(report.conclusion) } else { show(report, printer) };
        if exit != Exit::Done {
            worst = exit;
        }
    }
    worst
}

fn show(report: &Report, printer: &mut Printer) -> Exit {
    let exit = exit(report.conclusion);
    if printer.json() {
        printer.data(report);
        return exit;
    }
    let several =
        report.probes.iter().any(|probed| probed.zones.len() < report.zones.len() && !probed.zones.is_empty());
    let rows: Vec<_> = report
        .probes
        .iter()
        .map(|probed| {
            let (text, mark) = look(probed.verdict);
            let zones = if several && !probed.zones.is_empty() {
                format!(" ({})", probed.zones.join(", "))
            } else {
                String::new()
            };
            vec![
                plain(format!("{}{zones}", probed.id)),
                span(Look::Faint, probed.control.id()),
                span(mark, text),
                plain(probed.evidence.clone()),
            ]
        })
        .collect();
    let mut page = table(&["probe", "control", "result", "evidence"], &rows, page_width());
    page.push(Vec::new());
    page.extend(summary(report));
    printer.page(&page);
    unmet(report, printer);
    exit
}

/// Says which control is not as planned, and what shows it.
pub(super) fn unmet(report: &Report, printer: &mut Printer) {
    for probed in report.unmet() {
        let (text, mark) = look(probed.verdict);
        let said = format!(": control `{}`, probe `{}`: {}", probed.control.id(), probed.id, probed.evidence);
        printer.message(&vec![vec![span(mark, text.to_lowercase()), plain(said)]]);
    }
}

/// The observed profile of every phase and service, and how many probes say so.
fn summary(report: &Report) -> Page {
    let (text, mark) = match report.conclusion {
        Conclusion::AsPlanned => ("as planned", Look::Good),
        Conclusion::Downgrade => ("downgrade", Look::Bad),
        Conclusion::Unproven => ("not proven", Look::Doubtful),
    };
    let mut page = Page::new();
    for (name, seen) in &report.zones {
        page.push(vec![
            span(Look::Strong, format!("{name}: ")),
            plain(format!("requested {}, planned {}, observed ", report.requested, seen.planned)),
            span(
                if seen.observed.to_string() == seen.planned.to_string() { Look::Good } else { Look::Bad },
                seen.observed.to_string(),
            ),
        ]);
    }
    page.push(vec![
        span(mark, text),
        plain(format!(
            ": {} passed, {} failed, {} unknown, {} not claimed, in {} ms",
            report.count(Verdict::Pass),
            report.count(Verdict::Fail),
            report.count(Verdict::Unknown),
            report.count(Verdict::Unclaimed),
            report.duration_ms
        )),
    ]);
    page
}

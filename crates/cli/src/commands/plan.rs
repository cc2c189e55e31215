//! `profile explain`, `profile check` and `plan`: one request, three questions.

use profile::{Document, Facts, Grants, Plan, Problems, Profile, Refusal, Request};

use super::input;
use super::services::Services;
use crate::args::{DocumentArguments, OverrideArguments};
use crate::exit::Exit;
use crate::printer::{Look, Printer, plain, span};
use crate::render;

/// Whatever stands between a command and its answer.
pub(super) enum Obstacle {
    Problems(Problems),
    Refusal(Box<Refusal>),
}

impl From<Problems> for Obstacle {
    fn from(problems: Problems) -> Self {
        Self::Problems(problems)
    }
}

impl From<Refusal> for Obstacle {
    fn from(refusal: Refusal) -> Self {
        Self::Refusal(Box::new(refusal))
    }
}

fn finish(result: Result<(), Obstacle>, printer: &mut Printer) -> Exit {
    match result {
        Ok(()) => Exit::Done,
        Err(obstacle) => report(&obstacle, printer),
    }
}

/// Says what stands in the way, and how that ends.
pub(super) fn report(obstacle: &Obstacle, printer: &mut Printer) -> Exit {
    match obstacle {
        Obstacle::Problems(problems) => {
            render::problems(problems, printer);
            Exit::Input
        }
        Obstacle::Refusal(refusal) => {
            render::refusal(refusal, printer);
            Exit::Refused
        }
    }
}

fn this_host() -> Facts {
    host::facts(&host::Surroundings::of_this_process())
}

/// What is done with a request.
enum Question {
    Settings,
    Answer,
}

fn question(explain_config: bool) -> Question {
    if explain_config { Question::Settings } else { Question::Answer }
}

pub(super) fn explain(
    profile: Profile,
    any_host: bool,
    overrides: OverrideArguments,
    explain_config: bool,
    printer: &mut Printer,
) -> Exit {
    let result = (|| {
        let document = Document::bare(profile, "the command line");
        let request = Request::resolve(document, &input::environment()?, overrides.into_overrides(None));
        match question(explain_config) {
            Question::Settings => render::config(&request, printer),
            Question::Answer => {
                let facts = if any_host { Facts::assumed() } else { this_host() };
                render::explanation(&profile::explain(&request, &facts)?, printer);
            }
        }
        Ok(())
    })();
    finish(result, printer)
}

/// Says which grants of the operator a plan needs before it runs. Nothing runs here, so nothing is refused.
fn needed(grants: Grants, request: &Request, plan: &Plan, printer: &mut Printer) {
    for unmet in grants.missing(request, plan) {
        let hint = unmet.hint.unwrap_or_default();
        let text = format!(": {}; {hint}", unmet.reason);
        printer.message(&vec![vec![span(Look::Doubtful, "needs your grant"), plain(text)]]);
    }
}

pub(super) fn plan(arguments: DocumentArguments, printer: &mut Printer) -> Exit {
    compiled(arguments, this_host, Looks::AtDaemon, |_, plan, printer| render::plan(plan, printer), printer)
}

pub(super) fn check(arguments: DocumentArguments, printer: &mut Printer) -> Exit {
    compiled(arguments, Facts::assumed, Looks::Nowhere, render::checked, printer)
}

/// Where images are looked for while a plan is made. Nothing is fetched and nothing is built for a plan.
#[derive(Clone, Copy)]
enum Looks {
    AtDaemon,
    Nowhere,
}

/// Compiles a document for the host that `facts` describes, and shows the plan.
fn compiled(
    arguments: DocumentArguments,
    facts: impl Fn() -> Facts,
    looks: Looks,
    show: impl Fn(&str, &Plan, &mut Printer),
    printer: &mut Printer,
) -> Exit {
    let result = (|| {
        let mut document = input::document(&arguments.path)?;
        let services = Services::of(&mut document, None, None)?;
        if let (Some(services), Looks::AtDaemon) = (&services, looks) {
            services.look(&mut document);
        }
        let named = arguments.profile;
        let overrides = arguments.overrides.into_overrides(named);
        let request = Request::resolve(document, &input::environment()?, overrides);
        match question(arguments.explain_config) {
            Question::Settings => render::config(&request, printer),
            Question::Answer => {
                let mut plan = profile::compile(&request, &facts())?;
                if let Some(services) = &services {
                    services.annotate(&mut plan);
                }
                show(&request.document.origin, &plan, printer);
                needed(Grants::default().with_profile(named), &request, &plan, printer);
            }
        }
        Ok(())
    })();
    finish(result, printer)
}

//! `profile explain`, `profile check` and `plan`: one request, three questions.

use profile::{Document, Facts, Problems, Profile, Refusal, Request};

use super::input;
use crate::args::{DocumentArguments, OverrideArguments};
use crate::exit::Exit;
use crate::printer::Printer;
use crate::render;

/// Whatever stands between a command and its answer.
enum Obstacle {
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
        Err(Obstacle::Problems(problems)) => {
            render::problems(&problems, printer);
            Exit::Input
        }
        Err(Obstacle::Refusal(refusal)) => {
            render::refusal(&refusal, printer);
            Exit::Refused
        }
    }
}

fn this_host() -> Facts {
    host::facts(&host::Surroundings::of_this_process())
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
        if explain_config {
            render::config(&request, printer);
        }
        let facts = if any_host { Facts::assumed() } else { this_host() };
        let explanation = profile::explain(&request, &facts)?;
        if !explain_config {
            render::explanation(&explanation, printer);
        }
        Ok(())
    })();
    finish(result, printer)
}

fn request(arguments: DocumentArguments) -> Result<Request, Problems> {
    let document = input::document(&arguments.path)?;
    Ok(Request::resolve(document, &input::environment()?, arguments.overrides.into_overrides(arguments.profile)))
}

pub(super) fn plan(arguments: DocumentArguments, printer: &mut Printer) -> Exit {
    let explain_config = arguments.explain_config;
    let result = (|| {
        let request = request(arguments)?;
        if explain_config {
            render::config(&request, printer);
        }
        let plan = profile::compile(&request, &this_host())?;
        if !explain_config {
            render::plan(&plan, printer);
        }
        Ok(())
    })();
    finish(result, printer)
}

pub(super) fn check(arguments: DocumentArguments, printer: &mut Printer) -> Exit {
    let explain_config = arguments.explain_config;
    let result = (|| {
        let request = request(arguments)?;
        if explain_config {
            render::config(&request, printer);
        }
        let plan = profile::compile(&request, &Facts::assumed())?;
        if !explain_config {
            render::checked(&request.document.origin, &plan, printer);
        }
        Ok(())
    })();
    finish(result, printer)
}

//! Whatever stands between an evaluation and its end, and how it is said.

use eval::{EarlierError, EvalFailure};
use image::ImageError;
use sandbox::StartError;

use super::{images, plan};
use crate::exit::Exit;
use crate::printer::{Look, Printer, plain, span};

/// Whatever stands between an evaluation and its end.
pub(super) enum Obstacle {
    Plan(plan::Obstacle),
    Image(ImageError),
    Start(StartError),
    Eval(EvalFailure),
    Earlier(EarlierError),
    /// An earlier log is not as it was written, or not as it was signed.
    Unsound(receipt::CheckError),
    /// Something that only a log says, and that the operator neither named nor confirmed.
    Unconfirmed {
        what: String,
        hint: String,
    },
    /// What is finished was made by something else than what would run now.
    Changed {
        what: String,
        hint: &'static str,
    },
}

impl<E: Into<plan::Obstacle>> From<E> for Obstacle {
    fn from(error: E) -> Self {
        Self::Plan(error.into())
    }
}

/// How a command ends that cannot go on from a log: what was tampered with is told from what cannot be read.
fn exit_of(error: &EarlierError) -> Exit {
    match error {
        EarlierError::Chain(_)
        | EarlierError::NoHead(_)
        | EarlierError::OtherChain(_)
        | EarlierError::Altered { .. }
        | EarlierError::OtherHeader { .. } => Exit::Unverified,
        _ => Exit::Input,
    }
}

impl Obstacle {
    /// It in one line.
    pub(super) fn told(&self) -> String {
        match self {
            Self::Plan(plan::Obstacle::Problems(problems)) => {
                let all: Vec<&str> = problems.problems.iter().map(|problem| problem.message.as_str()).collect();
                all.join("; ")
            }
            Self::Plan(plan::Obstacle::Refusal(refusal)) => {
                format!("{} cannot be had for it on this host", refusal.profile)
            }
            Self::Image(error) => error.to_string(),
            Self::Start(error) => error.to_string(),
            Self::Eval(error) => error.to_string(),
            Self::Earlier(error) => error.to_string(),
            Self::Unsound(error) => error.to_string(),
            Self::Changed { what, .. } | Self::Unconfirmed { what, .. } => what.clone(),
        }
    }

    /// Says it, and how that ends.
    pub(super) fn report(self, printer: &mut Printer) -> Exit {
        let hinted = |printer: &mut Printer, hint: &str| {
            printer.message(&vec![vec![span(Look::Faint, "  hint"), plain(format!(": {hint}"))]]);
        };
        match self {
            Self::Plan(obstacle) => plan::report(&obstacle, printer),
            Self::Image(error) => images::failed(&error, printer),
            Self::Start(error) => super::run::not_started(&error, printer),
            Self::Eval(error) => {
                let exit = match error {
                    EvalFailure::Place(_) => Exit::Provider,
                    EvalFailure::Log(_) | EvalFailure::Audit(_) => Exit::Failed,
                    EvalFailure::Earlier(ref error) => exit_of(error),
                };
                super::run::failed(&error, exit, printer)
            }
            Self::Earlier(error) => {
                let exit = exit_of(&error);
                super::run::failed(&error, exit, printer);
                hinted(printer, error.hint());
                exit
            }
            Self::Unsound(error) => {
                let exit = super::run::failed(&error, Exit::Unverified, printer);
                hinted(
                    printer,
                    "nothing of it is kept; `ringfence log verify` says more; run the task anew with `ringfence eval`",
                );
                exit
            }
            Self::Unconfirmed { what, hint } => {
                printer.message(&vec![vec![span(Look::Bad, "refused"), plain(format!(": {what}"))]]);
                hinted(printer, &hint);
                Exit::Refused
            }
            Self::Changed { what, hint } => {
                printer.message(&vec![vec![span(Look::Bad, "refused"), plain(format!(": {what}"))]]);
                hinted(printer, hint);
                Exit::Refused
            }
        }
    }
}

//! The list of steps that an agent keeps for itself.

use std::sync::{Mutex, PoisonError};

use super::schema::Arguments;
use super::{Called, Hands};

/// The steps of one sample: what and how far.
#[derive(Default)]
pub(crate) struct Notes(Mutex<Vec<(String, String)>>);

pub(super) fn write(arguments: &Arguments, hands: &Hands<'_>) -> Called {
    let steps = arguments.steps("todos");
    let done = steps.iter().filter(|(_, status)| status == "completed").count();
    let said = format!("The list is updated: {done} of {} steps are completed.", steps.len());
    *hands.kit.notes.0.lock().unwrap_or_else(PoisonError::into_inner) = steps;
    Called::said(said)
}

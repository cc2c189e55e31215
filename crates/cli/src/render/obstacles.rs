//! What is wrong, where, and what to do: problems of an input and refusals of a profile.

use profile::{Cause, Place, Problems, Refusal, Unmet};
use serde_json::json;

use crate::printer::{Look, Page, Printer, plain, span};

fn hint_line(hint: &str) -> Vec<crate::printer::Span> {
    vec![span(Look::Faint, "  hint: "), plain(hint)]
}

fn located(origin: &str, place: Option<Place>) -> String {
    place.map_or_else(|| origin.to_owned(), |place| format!("{origin}:{place}"))
}

/// Prints everything that is wrong with an input.
pub(crate) fn problems(problems: &Problems, printer: &mut Printer) {
    if printer.json() {
        printer
            .data(&json!({"schema": "ringfence.problems/1", "origin": problems.origin, "problems": problems.problems}));
        return;
    }
    let mut page: Page = Vec::new();
    for problem in &problems.problems {
        let place = located(&problems.origin, problem.place);
        page.push(vec![
            span(Look::Bad, "error"),
            plain(": "),
            span(Look::Strong, place),
            plain(format!(": {}", problem.message)),
        ]);
        page.extend(problem.hint.as_deref().map(hint_line));
    }
    printer.message(&page);
}

/// Prints everything that stands in the way of a profile, and what could be had instead.
pub(crate) fn refusal(refusal: &Refusal, printer: &mut Printer) {
    if printer.json() {
        printer.data(refusal);
        return;
    }
    let mut page: Page =
        vec![vec![span(Look::Bad, "refused"), plain(": "), span(Look::Strong, refusal.profile.to_string())]];
    for (index, unmet) in refusal.unmet.iter().enumerate() {
        page.push(obstacle(refusal, unmet));
        // The same advice for several controls is given once, after the last of them.
        let repeated = refusal.unmet.get(index + 1).is_some_and(|next| next.hint == unmet.hint);
        if let (Some(hint), false) = (&unmet.hint, repeated) {
            page.push(hint_line(hint));
        }
    }
    if !refusal.nearest.is_empty() {
        page.push(vec![plain("could be had instead:")]);
        for alternative in &refusal.nearest {
            let difference = alternative.difference.strip_prefix("Weaker: ").unwrap_or(&alternative.difference);
            let mut line = vec![plain("  ")];
            // First, so that what is easiest to copy is not what is weakest.
            if alternative.weaker {
                line.push(span(Look::Doubtful, "Weaker: "));
            }
            line.push(span(Look::Good, alternative.profile.to_string()));
            line.push(plain(format!("  {difference}")));
            page.push(line);
        }
    }
    printer.message(&page);
}

fn obstacle(refusal: &Refusal, unmet: &Unmet) -> Vec<crate::printer::Span> {
    let cause = match unmet.cause {
        Cause::Unenforceable => "cannot be enforced",
        Cause::Contradiction => "contradiction",
        Cause::Required => "required",
    };
    let mut line = vec![plain("- "), span(Look::Strong, unmet.control.clone()), plain(format!(" ({cause})"))];
    if let (Some(origin), Some(place)) = (&refusal.origin, unmet.place) {
        line.push(plain(format!(" at {}", located(origin, Some(place)))));
    }
    line.push(plain(format!(": {}", unmet.reason)));
    line
}

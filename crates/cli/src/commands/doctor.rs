//! `doctor`: what this host can enforce, and how to get the rest.

use profile::{Capability, Facts, Finding, Isolation, Network, Profile, Request, Status, Tooling};
use serde_json::json;

use crate::exit::Exit;
use crate::printer::{Look, Page, Printer, plain, span};
use crate::table::{page_width, table};

pub(super) fn doctor(printer: &mut Printer) -> Exit {
    let facts = host::facts(&host::Surroundings::of_this_process());
    let enforceable = enforceable(&facts);
    if printer.json() {
        let rows: Vec<_> = facts
            .iter()
            .map(|(capability, finding)| {
                json!({
                    "capability": capability,
                    "name": capability.name(),
                    "status": finding.status,
                    "found": finding.found,
                    "enables": capability.enables(),
                    "fix": finding.fix,
                })
            })
            .collect();
        printer.data(&json!({"schema": "ringfence.doctor/1", "capabilities": rows, "enforceable": enforceable}));
        return Exit::Done;
    }
    let unprobed = Finding::unknown("not probed");
    let rows: Vec<_> = Capability::ALL
        .into_iter()
        .map(|capability| {
            let finding = facts.finding(capability).unwrap_or(&unprobed);
            let (mark, look) = match finding.status {
                Status::Works => ("yes", Look::Good),
                Status::Missing => ("no", Look::Bad),
                Status::Unknown => ("?", Look::Doubtful),
            };
            vec![
                span(look, mark),
                span(Look::Strong, capability.name()),
                plain(finding.found.clone()),
                plain(capability.enables()),
                span(Look::Faint, finding.fix.clone().unwrap_or_default()),
            ]
        })
        .collect();
    let mut page = table(&["", "capability", "found", "enables", "how to get it"], &rows, page_width());
    page.push(Vec::new());
    page.extend(summary(&enforceable));
    page.push(Vec::new());
    page.push(vec![span(Look::Doubtful, "This version plans all of these, and runs H0 with N0, and H1 on the embedded engine and on Docker; the rest is still to come.")]);
    printer.page(&page);
    Exit::Done
}

/// Every profile that this host could enforce, if the statements that it requires are made.
fn enforceable(facts: &Facts) -> Vec<Profile> {
    let request = |profile| {
        Request::resolve(
            profile::Document::bare(profile, "doctor"),
            &profile::Environment::default(),
            profile::Overrides::default(),
        )
    };
    Profile::all().filter(|&profile| profile::explain(&request(profile), facts).is_ok()).collect()
}

/// One line per H: which N it can have here.
fn summary(enforceable: &[Profile]) -> Page {
    let line = |&isolation: &Isolation| {
        let networks: Vec<String> = Network::ALL
            .iter()
            .filter(|&&network| enforceable.contains(&Profile::new(Tooling::T0, isolation, network)))
            .map(ToString::to_string)
            .collect();
        let (look, text) = if networks.is_empty() {
            (Look::Bad, "cannot be enforced here".to_owned())
        } else {
            (Look::Good, format!("with {}", networks.join(", ")))
        };
        vec![span(Look::Strong, isolation.to_string()), plain(format!("  {}: ", isolation.summary())), span(look, text)]
    };
    Isolation::ALL.iter().map(line).collect()
}

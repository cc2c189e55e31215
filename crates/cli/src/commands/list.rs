//! `profile list`: the vocabulary on one page.

use profile::{Isolation, Network, Provider, TYPICAL, Tooling};
use serde_json::json;

use crate::exit::Exit;
use crate::printer::{Look, Page, Printer, plain, span};
use crate::table::{INDENT, indented, page_width, table};

pub(super) fn list(printer: &mut Printer) -> Exit {
    let levels: Vec<(String, &str)> = Tooling::ALL
        .iter()
        .map(|level| (level.to_string(), level.summary()))
        .chain(Isolation::ALL.iter().map(|level| (level.to_string(), level.summary())))
        .chain(Network::ALL.iter().map(|level| (level.to_string(), level.summary())))
        .collect();
    if printer.json() {
        let typical: Vec<_> =
            TYPICAL.iter().map(|(profile, purpose)| json!({"profile": profile, "for": purpose})).collect();
        let levels: Vec<_> =
            levels.iter().map(|(level, summary)| json!({"level": level, "summary": summary})).collect();
        let profiles: Vec<_> = profile::Profile::all().collect();
        printer.data(
            &json!({"schema": "ringfence.profiles/1", "levels": levels, "typical": typical, "profiles": profiles}),
        );
        return Exit::Done;
    }
    let width = page_width();
    let mut page: Page =
        vec![vec![span(Look::Strong, "Levels"), plain(" (a higher T or N grants less; H is a place, not a strength)")]];
    let rows: Vec<_> = levels
        .iter()
        .map(|(level, summary)| {
            let isolation = level.parse::<Isolation>().ok();
            let providers =
                isolation.map(|isolation| format!("sandbox: {}", Provider::names_for(isolation))).unwrap_or_default();
            vec![span(Look::Strong, level.clone()), plain(*summary), span(Look::Faint, providers)]
        })
        .collect();
    page.extend(indented(table(&[], &rows, width - INDENT)));
    page.push(Vec::new());
    page.push(vec![span(Look::Strong, "Typical profiles")]);
    let rows: Vec<_> = TYPICAL
        .iter()
        .map(|(profile, purpose)| vec![span(Look::Strong, profile.to_string()), plain(*purpose)])
        .collect();
    page.extend(indented(table(&[], &rows, width - INDENT)));
    page.push(Vec::new());
    page.push(vec![span(
        Look::Faint,
        "All 36 combinations exist: `ringfence profile explain T0.H1.N1` shows one, `profile choose` helps to find it.",
    )]);
    printer.page(&page);
    Exit::Done
}

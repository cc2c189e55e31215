//! What a person must have said before a profile may run: an approval policy, an audit file, a justification.

use crate::approval::Audit;
use crate::document::{FileMode, Preflight};
use crate::level::{Isolation, Network, Tooling};
use crate::refusal::{Cause, Unmet};
use crate::settings::Request;

/// Every statement that is missing. `weakest` is the weakest network of any phase or service.
pub(super) fn missing(request: &Request, weakest: Network) -> Vec<Unmet> {
    let (profile, document) = (request.profile, &request.document);
    let mut unmet = Vec::new();
    let audit = document.audit.as_ref();
    let audit_off = audit.is_some_and(|audit| audit.value == Audit::Off);

    let supervised: Vec<&str> = [
        (profile.tooling == Tooling::T0).then_some("an agent at T0"),
        (weakest == Network::N0).then_some("a network at N0"),
    ]
    .into_iter()
    .flatten()
    .collect();
    if !supervised.is_empty() {
        let who = supervised.join(" and ");
        if document.approval.is_none() {
            unmet.push(
                Unmet::new(Cause::Required, "approval", format!("{who} needs an approval policy"))
                    .hint("state approval: ci, dev, prod or a policy file (--approval on the command line)"),
            );
        }
        if audit_off {
            unmet.push(
                Unmet::new(Cause::Required, "audit", format!("{who} needs the audit file, and it is off"))
                    .hint("remove `audit: off`")
                    .at(audit.and_then(|audit| audit.place)),
            );
        }
    }

    let unchecked = request.file_tools.mode == FileMode::Sandbox && request.file_tools.preflight == Preflight::Skip;
    let unsafe_choices: Vec<&str> = [
        (weakest == Network::N0).then_some("N0 (full network)"),
        (profile.isolation == Isolation::H0).then_some("H0 (no isolation)"),
        audit_off.then_some("switching the audit file off"),
        unchecked.then_some("skipping the file tools' preflight"),
    ]
    .into_iter()
    .flatten()
    .collect();
    if !unsafe_choices.is_empty() && document.justification.is_none() {
        unmet.push(
            Unmet::new(
                Cause::Required,
                "justification",
                format!("{} needs a written justification", unsafe_choices.join(" and ")),
            )
            .hint("state justification: \"why this is needed and who agreed\" (--justification on the command line)"),
        );
    }
    unmet
}

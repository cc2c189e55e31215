//! `log verify`: whether a log, its chain and its receipt are what was written, and by whom that is asserted.

use log::Expectation;
use receipt::{
    Asserted, CheckError, Checked, DroppedSample, Kept, KeyError, Missing, Observed, PublicKey, Require, Trust,
    Vouched, VouchedBy, check,
};
use serde_json::json;

use crate::args::VerifyArguments;
use crate::exit::Exit;
use crate::printer::{Look, Printer, plain, span};

pub(super) fn verify(arguments: &VerifyArguments, printer: &mut Printer) -> Exit {
    let trust = match trust(arguments) {
        Ok(trust) => trust,
        Err(error) => {
            super::run::failed(&error, Exit::Input, printer);
            printer.message(&vec![vec![span(Look::Faint, "  hint"), plain(format!(": {}", error.hint()))]]);
            return Exit::Input;
        }
    };
    let require = if arguments.require_receipt { Require::Receipt } else { Require::AsTheLogSays };
    match check(&arguments.log, &trust, require) {
        Ok(checked) => print(&checked, printer),
        Err(error) => {
            let exit = if error.is_absent() { Exit::Input } else { Exit::Unverified };
            super::run::failed(&error, exit, printer);
            if let CheckError::OtherKey { .. } = error {
                let hint = ": whoever ran it has another key; `ringfence key show --public FILE` gives its public half";
                printer.message(&vec![vec![span(Look::Faint, "  hint"), plain(hint)]]);
            }
            exit
        }
    }
}

fn trust(arguments: &VerifyArguments) -> Result<Trust, KeyError> {
    Ok(match (&arguments.key, &arguments.keyid) {
        (Some(path), _) => Trust::Key(PublicKey::read(path)?),
        (None, Some(id)) => Trust::Id(id.clone()),
        (None, None) => Trust::Nobody,
    })
}

fn print(checked: &Checked, printer: &mut Printer) -> Exit {
    let Checked { chain, plan, receipt, expectation, complete, missing } = checked;
    if printer.json() {
        let asserted = receipt.as_ref().map(|Asserted { statement, keyid, trusted }| {
            json!({"keyid": keyid.as_str(), "trusted": trusted, "statement": statement})
        });
        printer.data(&json!({
            "schema": "ringfence.log.verification/1", "audit": chain.count, "hash": chain.hash, "plan": plan,
            "complete": complete, "receipt": asserted, "expectation": expectation.as_ref().map(Expectation::to_json),
            "missing": missing,
        }));
        return Exit::Done;
    }
    let line = receipt.as_ref().map_or_else(|| unsigned_line(checked), |asserted| asserted_line(asserted, chain.count));
    let mut page = vec![vec![plain(line)]];
    let kept = receipt.as_ref().and_then(|asserted| asserted.statement.predicate.run.kept.as_ref());
    page.extend(kept.into_iter().flat_map(kept_lines).map(|line| vec![plain(line)]));
    page.extend(missing_lines(missing).into_iter().map(|line| vec![plain(line)]));
    printer.page(&page);
    Exit::Done
}

/// So many kept samples are named; `--json` has all that the receipt lists.
const MOST_NAMED: usize = 20;

/// Who vouched for something that was taken over.
fn voucher(vouched: Option<&Vouched>) -> String {
    let Some(Vouched { by, keyid, unsigned }) = vouched else { return "the receipt does not say who vouched".into() };
    let key = keyid.as_deref().map(|id| format!(" of key sha256:{id}")).unwrap_or_default();
    let by = match by {
        VouchedBy::Receipt => format!("vouched for by a receipt{key}"),
        VouchedBy::Checkpoint => format!("vouched for by a checkpoint{key}"),
        VouchedBy::Operator => "unsigned, accepted by the operator".to_owned(),
        VouchedBy::Nobody => "vouched for by nobody".to_owned(),
    };
    if *unsigned { format!("{by}, and partly from an unsigned log that an operator accepted") } else { by }
}

/// Which samples were kept from an earlier log, and who vouched for them.
fn kept_lines(kept: &Kept) -> Vec<String> {
    let mut lines =
        vec![format!("kept from {}: {} samples, {}", kept.log, kept.samples, voucher(kept.vouched.as_ref()))];
    if kept.unsigned > 0 {
        lines.push(format!("  {} of them were never signed", kept.unsigned));
    }
    lines.extend(kept.list.iter().take(MOST_NAMED).map(|sample| {
        let id = sample.id.as_str().map_or_else(|| sample.id.to_string(), str::to_owned);
        let unsigned = if sample.unsigned { ", unsigned" } else { "" };
        format!("  {id} (epoch {}): sha256:{}{unsigned}", sample.epoch, sample.sha256)
    }));
    lines.extend(more(kept.samples, kept.list.len()));
    if kept.dropped > 0 {
        lines
            .push(format!("finished before and run again: {} samples, whose first results were dropped", kept.dropped));
        let name = |sample: &DroppedSample| {
            let id = sample.id.as_str().map_or_else(|| sample.id.to_string(), str::to_owned);
            format!("  {id} (epoch {}): {}, sha256:{}", sample.epoch, sample.why, sample.sha256)
        };
        lines.extend(kept.dropped_list.iter().take(MOST_NAMED).map(name));
        lines.extend(more(kept.dropped, kept.dropped_list.len()));
    }
    lines
}

/// Finished samples that the chain has and the log has not.
fn missing_lines(missing: &Missing) -> Vec<String> {
    if missing.count == 0 {
        return Vec::new();
    }
    let mut lines =
        vec![format!("missing from the log: {} samples that the audit chain says are finished", missing.count)];
    lines.extend(missing.list.iter().take(MOST_NAMED).map(|one| format!("  {} (epoch {})", one.id, one.epoch)));
    lines.extend(more(missing.count, missing.list.len()));
    lines
}

/// The line after a list of so many, of which the first ones are named.
fn more(count: u64, listed: usize) -> Option<String> {
    let named = u64::try_from(listed.min(MOST_NAMED)).unwrap_or(u64::MAX);
    (count > named && listed > 0).then(|| format!("  and {} more: --json lists them", count - named))
}

/// What holds although nobody asserts it.
fn unsigned_line(Checked { chain, plan, expectation, complete, .. }: &Checked) -> String {
    let whole = if *complete { "whole" } else { "whole as far as it goes; the log has no end" };
    let why = match expectation {
        Some(Expectation::None { reason }) => reason.as_str(),
        Some(Expectation::Signed { .. }) | None => "the log does not speak of one",
    };
    format!("the audit chain is {whole}: {} records, plan {plan}; nobody signed it: {why}", chain.count)
}

/// What is asserted, and by which key.
fn asserted_line(Asserted { statement, keyid, trusted }: &Asserted, records: u64) -> String {
    let run = &statement.predicate.run;
    let observed = match &run.profile.observed {
        Observed::NotProbed => "not probed".to_owned(),
        Observed::Probed { profile, .. } => format!("observed {profile}"),
    };
    let judged = run.scored.as_ref().map(|scored| {
        let by = scored.vouched.as_ref().map(|vouched| format!(" ({})", voucher(Some(vouched)))).unwrap_or_default();
        format!(", judged again from {}{by}", scored.log)
    });
    let judged = judged.unwrap_or_default();
    let vouched = if *trusted { "trusted" } else { "not given: nobody vouches for it" };
    format!(
        "{} in {} ({observed}), plan {}, {} samples, {} failed, {} refused, {records} records in the audit chain{judged}: \
         asserted by key {keyid} ({vouched})",
        run.task,
        run.profile.planned,
        run.plan_hash,
        run.samples.done,
        run.samples.failed,
        run.network.queries.refused + run.network.connections.refused,
    )
}

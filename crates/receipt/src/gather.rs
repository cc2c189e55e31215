//! Reads what a run was out of its closed log and its audit chain: for whoever signs it, and again for whoever checks it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use log::audit::{self, Audit, AuditError, Head};
use log::{ReadError, Reader};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use crate::run::{Chain, Image, Observed, Profiles, Run, Samples};
use crate::tally::Tally;

/// Why nothing can be said of a run.
#[derive(Debug, thiserror::Error)]
pub enum GatherError {
    /// The log cannot be read.
    #[error(transparent)]
    Log(#[from] ReadError),
    /// The chain cannot be read, or is not the log's.
    #[error(transparent)]
    Audit(#[from] AuditError),
    /// The log has no end yet.
    #[error("the log has no end: the run was killed, or goes on")]
    Open,
    /// A part of the log's header is not what we write there.
    #[error("the log says nothing that can be used of `{0}`")]
    Field(&'static str),
    /// The log and its chain tell of different runs.
    #[error("the log and its audit chain differ in `{0}`")]
    Differ(&'static str),
}

/// The chain's head, as a log states it.
pub(crate) fn head(header: &Map<String, Value>) -> Option<Head> {
    at(header, "/eval/metadata/ringfence_audit").and_then(parse)
}

/// Finds `/a/b/c`; a header is a map, which has no pointers of its own.
fn at<'a>(header: &'a Map<String, Value>, path: &str) -> Option<&'a Value> {
    let (first, rest) = path.strip_prefix('/')?.split_once('/').unwrap_or((path.strip_prefix('/')?, ""));
    let value = header.get(first)?;
    if rest.is_empty() { Some(value) } else { value.pointer(&format!("/{rest}")) }
}

fn parse<T: DeserializeOwned>(value: &Value) -> Option<T> {
    T::deserialize(value).ok()
}

/// What a run was. The chain is checked on the way, against the head in the log.
pub(crate) fn gather(log: &Path, reader: &Reader) -> Result<Run, GatherError> {
    if !reader.is_complete() {
        return Err(GatherError::Open);
    }
    let header = reader.header();
    let text = |path: &'static str| {
        at(header, path).and_then(Value::as_str).map(str::to_owned).ok_or(GatherError::Field(path))
    };
    let chain = Audit::beside(log);
    let stated = head(header).ok_or(GatherError::Field("/eval/metadata/ringfence_audit"))?;
    let mut tally = Tally::default();
    let end = audit::walk(&chain, Some(&stated), &mut |kind, data| tally.see(kind, data))?;
    let kept = tally.kept();
    let (eval_id, plan_hash) = (text("/eval/eval_id")?, text("/eval/metadata/ringfence/plan_hash")?);
    let planned = text("/eval/metadata/ringfence/profile")?;
    match (tally.start, &tally.scored) {
        (Some(start), None) => {
            let pairs = [
                (&eval_id, start.eval_id, "eval_id"),
                (&plan_hash, start.plan, "plan"),
                (&planned, start.profile, "profile"),
            ];
            if let Some((_, _, what)) = pairs.into_iter().find(|(own, chained, _)| *own != chained) {
                return Err(GatherError::Differ(what));
            }
        }
        // The chain of a log that was judged again tells of the judging only.
        (None, Some(scored)) => {
            let history = at(header, "/eval/metadata/ringfence_scored").and_then(Value::as_array);
            let last = history.and_then(|all| all.last()).and_then(|last| last["from"]["sha256"].as_str());
            if last != Some(scored.sha256.as_str()) {
                return Err(GatherError::Differ("scored"));
            }
        }
        (Some(_), Some(_)) | (None, None) => return Err(GatherError::Differ("start")),
    }
    let observed = match at(header, "/eval/metadata/ringfence_observed") {
        Some(stated) => parse(stated).ok_or(GatherError::Field("/eval/metadata/ringfence_observed"))?,
        None => Observed::NotProbed,
    };
    let file = chain.file_name().unwrap_or_default().to_string_lossy().into_owned();
    Ok(Run {
        task: text("/eval/task")?,
        eval_id,
        status: reader.status(),
        started: text("/stats/started_at")?,
        completed: text("/stats/completed_at")?,
        models: models(header),
        profile: Profiles { requested: text("/eval/metadata/ringfence/requested")?, planned, observed },
        plan_hash,
        images: images(header),
        samples: samples(reader)?,
        kept,
        scored: tally.scored,
        network: tally.network,
        approvals: tally.approvals,
        limits: tally.limits,
        redactions: at(header, "/eval/metadata/ringfence_redactions").and_then(parse).unwrap_or_default(),
        residual: at(header, "/eval/metadata/ringfence/residual")
            .and_then(parse)
            .ok_or(GatherError::Field("/eval/metadata/ringfence/residual"))?,
        versions: versions(header),
        host: at(header, "/eval/metadata/ringfence/host").cloned().unwrap_or_default(),
        audit: Chain { file, count: end.count, hash: end.hash },
    })
}

/// The agent's model, those of roles, and everybody who used tokens.
fn models(header: &Map<String, Value>) -> Vec<String> {
    let mut names: BTreeSet<&str> = at(header, "/eval/model").and_then(Value::as_str).into_iter().collect();
    for role in at(header, "/eval/model_roles").and_then(Value::as_object).into_iter().flat_map(Map::values) {
        // One, or a list.
        let several = role.as_array().map_or(std::slice::from_ref(role), Vec::as_slice);
        names.extend(several.iter().filter_map(|one| one["model"].as_str()));
    }
    let used = at(header, "/stats/model_usage").and_then(Value::as_object);
    names.extend(used.into_iter().flat_map(Map::keys).map(String::as_str));
    names.into_iter().map(str::to_owned).collect()
}

fn images(header: &Map<String, Value>) -> Vec<Image> {
    let agent = at(header, "/eval/metadata/ringfence/image").map(|image| ("agent", image));
    let services = at(header, "/eval/metadata/ringfence/plan/services").and_then(Value::as_object);
    let services = services.into_iter().flatten().map(|(name, service)| (name.as_str(), &service["image"]));
    let mut images: Vec<Image> =
        agent.into_iter().chain(services).filter_map(|(of, image)| self::image(of, image)).collect();
    images.sort_by(|a, b| a.of.cmp(&b.of));
    images
}

fn image(of: &str, image: &Value) -> Option<Image> {
    let (reference, pin) = (image["reference"].as_str()?.to_owned(), image["pin"].as_str()?.to_owned());
    let is_digest = |text: &&str| {
        text.len() == 71 && text.bytes().skip(7).all(|byte| byte.is_ascii_hexdigit()) && text.starts_with("sha256:")
    };
    // `name@sha256:…`, and `+sha256:…` where it lies on another.
    let digests = reference.split(['@', '+']).filter(is_digest).map(str::to_owned).collect();
    Some(Image { of: of.to_owned(), reference, pin, digests })
}

fn samples(reader: &Reader) -> Result<Samples, GatherError> {
    let (mut done, mut failed) = (0, 0);
    reader.each_summary(&mut |sample| {
        done += 1;
        failed += u64::from(sample.get("error").is_some_and(|error| !error.is_null()));
    })?;
    Ok(Samples { total: at(reader.header(), "/results/total_samples").and_then(Value::as_u64), done, failed })
}

fn versions(header: &Map<String, Value>) -> BTreeMap<String, Value> {
    let packages: BTreeMap<String, Value> = at(header, "/eval/packages").and_then(parse).unwrap_or_default();
    let log = header.get("version").map(|version| ("log_schema".to_owned(), version.clone()));
    let plan =
        at(header, "/eval/metadata/ringfence/plan/schema").map(|schema| ("plan_schema".to_owned(), schema.clone()));
    packages.into_iter().chain(log).chain(plan).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn images_are_named_by_the_digests_that_their_references_have() {
        let digest = format!("sha256:{}", "ab".repeat(32));
        let header = json!({"eval": {"metadata": {"ringfence": {
            "image": {"reference": format!("debian:12@{digest}+{digest}"), "pin": "digest"},
            "plan": {"services": {"a": {"image": {"reference": "host", "pin": "unpinned"}}}},
        }}}});
        let images = images(header.as_object().unwrap());
        let found: Vec<_> =
            images.iter().map(|image| (image.of.as_str(), image.digests.len(), image.pin.as_str())).collect();
        assert_eq!(found, [("a", 0, "unpinned"), ("agent", 2, "digest")]);
        assert!(image("x", &json!({"reference": "host"})).is_none() && image("x", &json!(null)).is_none());
    }

    #[test]
    fn everybody_who_answers_is_named_once() {
        let header = json!({
            "eval": {"model": "a", "model_roles": {"grader": {"model": "b"}, "jury": [{"model": "c"}, {"model": "a"}]}},
            "stats": {"model_usage": {"b": {}, "d": {}}},
        });
        assert_eq!(models(header.as_object().unwrap()), ["a", "b", "c", "d"]);
    }
}

//! Other rules for a sandbox that runs: never more than its plan lets out.

use std::collections::BTreeSet;
use std::sync::Arc;

use axum::extract::State;
use axum::http::StatusCode;
use profile::{AllowRule, Egress, HostPattern, NetworkRules};
use serde::Deserialize;
use serde_json::json;
use utoipa::ToSchema;

use super::extract::{Caller, Id, Json, short};
use super::problem::{Answer, Code, Problem, ProblemBody, chain};
use crate::app::App;

/// How many rules there may be.
const MOST: usize = 10_000;

/// Rules that a client wants in force.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct RulesWish {
    /// Which container; the default one if absent.
    service: Option<String>,
    /// What may be reached, each covered by a rule of the plan. Absent keeps the plan's; `[]` means nothing.
    allow: Option<Vec<String>>,
    /// What may not, beside what the plan denies.
    deny: Option<Vec<String>>,
}

fn parsed<T: std::str::FromStr + Ord>(texts: &[String], what: &str) -> Answer<BTreeSet<T>>
where
    T::Err: std::fmt::Display,
{
    if texts.len() > MOST {
        return Err(Problem::bad(format!("more than {MOST} rules")));
    }
    let one = |text: &String| {
        text.parse::<T>().map_err(|error| Problem::bad(format!("`{what}`: `{}`: {error}", short(text))))
    };
    texts.iter().map(one).collect()
}

/// What the plan lets out, less what the client takes away.
fn narrowed(plan: &Egress, wish: &RulesWish) -> Answer<Egress> {
    let deny: BTreeSet<HostPattern> = parsed(wish.deny.as_deref().unwrap_or_default(), "deny")?;
    let allow: Option<BTreeSet<AllowRule>> = wish.allow.as_deref().map(|allow| parsed(allow, "allow")).transpose()?;
    let less = |rules: &NetworkRules| {
        let mut rules = rules.clone();
        rules.deny.extend(deny.clone());
        rules
    };
    let wanted = match (plan, allow) {
        (_, Some(allow)) if allow.is_empty() => Egress::Nothing,
        (Egress::Nothing, Some(allow)) => {
            Egress::Listed { rules: NetworkRules { allow, deny, ..NetworkRules::default() } }
        }
        (Egress::Nothing, None) => Egress::Nothing,
        (Egress::Everything { rules }, None) => Egress::Everything { rules: less(rules) },
        (Egress::Listed { rules }, None) => Egress::Listed { rules: less(rules) },
        (Egress::Everything { rules } | Egress::Listed { rules }, Some(allow)) => {
            // Raw addresses are not named here: whoever lists names means these names only.
            let rules = NetworkRules { allow, allow_cidr: BTreeSet::new(), ..less(rules) };
            Egress::Listed { rules }
        }
    };
    if wanted.is_within(plan) {
        return Ok(wanted);
    }
    let reason = "these rules let out what the plan does not";
    let unmet = json!({"control": "network.rules", "cause": "contradiction", "reason": reason});
    Err(Problem::new(Code::Refused, reason)
        .hint("list names that a rule of the profile document covers, or make another sandbox")
        .unmet(vec![unmet]))
}

/// Puts other rules in force. They hold when this is answered, and connections that they forbid are cut.
#[utoipa::path(put, path = "/v1/sandboxes/{id}/rules", tag = "network", request_body = RulesWish,
    params(("id" = String, Path, description = "The sandbox")), responses(
    (status = 204, description = "They are in force"),
    (status = "default", description = "A problem", body = ProblemBody, content_type = "application/problem+json"),
))]
pub(crate) async fn put(
    State(app): State<Arc<App>>,
    caller: Caller,
    id: Id,
    Json(wish): Json<RulesWish>,
) -> Answer<StatusCode> {
    let held = app.sandboxes.find(&caller.owner, &id.0)?;
    let service = held.service(wish.service.as_deref())?;
    let wanted = narrowed(&service.egress, &wish)?;
    match &service.served {
        Some(served) => {
            let replaced = served.replace(&wanted).await;
            replaced.map_err(|error| Problem::new(Code::Unavailable, chain(&error)))?;
        }
        // Nothing leaves it anyway, so that nothing must be narrowed; a process of the host cannot be.
        None if service.egress == Egress::Nothing => {}
        None => {
            return Err(Problem::new(Code::Conflict, "nothing stands between this sandbox and the network")
                .hint("choose H1 or more"));
        }
    }
    Ok(StatusCode::NO_CONTENT)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wish(allow: Option<&[&str]>, deny: &[&str]) -> RulesWish {
        let texts = |list: &[&str]| list.iter().map(|text| (*text).to_owned()).collect();
        RulesWish { service: None, allow: allow.map(texts), deny: Some(texts(deny)) }
    }

    fn plan(allow: &[&str]) -> Egress {
        let allow = allow.iter().map(|text| text.parse().unwrap()).collect();
        Egress::Listed { rules: NetworkRules { allow, ..NetworkRules::default() } }
    }

    #[test]
    fn rules_only_ever_narrow() {
        let listed = plan(&["*.example.org", "other.example.com"]);
        for (allow, deny, fine) in [
            (Some(&["a.example.org"][..]), &[][..], true),
            (Some(&["*.example.org"]), &["a.example.org"], true),
            (None, &["other.example.com"], true),
            (Some(&[]), &[], true),
            (Some(&["example.net"]), &[], false),
            (Some(&["*.example.com"]), &[], false),
            (Some(&["tcp://a.example.org:22"]), &[], false),
        ] {
            assert_eq!(narrowed(&listed, &wish(allow, deny)).is_ok(), fine, "{allow:?} {deny:?}");
        }
        assert!(narrowed(&Egress::Nothing, &wish(Some(&["a.example.org"]), &[])).is_err());
        assert_eq!(narrowed(&Egress::Nothing, &wish(None, &["x.example.org"])).unwrap(), Egress::Nothing);
        let everything = Egress::Everything { rules: NetworkRules::default() };
        assert!(narrowed(&everything, &wish(Some(&["a.example.org"]), &[])).is_ok());
    }

    #[test]
    fn what_is_no_rule_is_said() {
        assert!(narrowed(&plan(&["a.example.org"]), &wish(Some(&["no name!"]), &[])).is_err());
        assert!(narrowed(&plan(&["a.example.org"]), &wish(None, &["*"])).is_err());
    }
}

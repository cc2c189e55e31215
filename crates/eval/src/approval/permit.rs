//! The proof that a call was approved, and as what: without it nothing is called, and with it only that.

use std::sync::{Mutex, PoisonError};

use hmac::{Hmac, KeyInit as _, Mac as _};
use jiff::Timestamp;
use log::message::ToolCall;
use serde_json::{Map, Value};
use sha2::Sha256;

use super::bound::Bound;
use crate::tools::Tool;

/// The key under which arguments are told apart without being written down.
#[derive(Clone)]
pub(crate) struct Key(Hmac<Sha256>);

impl Key {
    pub(crate) fn new(secret: &[u8]) -> Self {
        // A key of any length is one; the second is never needed.
        Self(Hmac::new_from_slice(secret).unwrap_or_else(|_| Hmac::new(&hmac::digest::Key::<Hmac<Sha256>>::default())))
    }

    /// The same for the same tool and arguments, and for nothing else; says nothing of them to whoever lacks the key.
    pub(crate) fn tag(&self, tool: &str, arguments: &Map<String, Value>) -> String {
        let mut mac = self.0.clone();
        mac.update(tool.as_bytes());
        mac.update(&[0]);
        // Sorted by name at every depth: serde_json's map is.
        mac.update(Value::Object(arguments.clone()).to_string().as_bytes());
        super::hexadecimal(&mac.finalize().into_bytes())
    }
}

/// An approval of one call.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Permit {
    tool: Tool,
    /// Of the arguments that were approved.
    tag: String,
    bound: Bound,
}

impl Permit {
    pub(super) fn new(tool: Tool, call: &ToolCall, bound: Bound, key: &Key) -> Self {
        Self { tool, tag: key.tag(tool.name(), &call.arguments), bound }
    }

    /// For tests of tools themselves.
    #[cfg(test)]
    pub(crate) fn unbound() -> Self {
        Self { tool: Tool::WebFetch, tag: String::new(), bound: Bound::default() }
    }

    /// For tests: bound to one destination.
    #[cfg(test)]
    pub(crate) fn bound_to(host: &str, port: u16) -> Self {
        let bound = Bound { destination: Some((host.to_owned(), port)), ..Bound::default() };
        Self { bound, ..Self::unbound() }
    }

    /// For what needs nobody's approval: this call, and no other.
    pub(crate) fn free(tool: Tool, call: &ToolCall, key: &Key) -> Self {
        Self::new(tool, call, Bound::default(), key)
    }

    /// Whether this is the call that was approved, at the moment when it is made.
    pub(crate) fn covers(&self, tool: Tool, call: &ToolCall, key: &Key) -> Result<(), String> {
        if self.tool != tool || self.tag != key.tag(tool.name(), &call.arguments) {
            return Err("the call is not the one that was approved".into());
        }
        self.bound.holds(tool, &call.arguments, Timestamp::now())
    }

    /// Whether the call may connect there.
    pub(crate) fn reaches(&self, host: &str, port: u16) -> bool {
        self.bound.reaches(host, port)
    }
}

/// An approval that stands for further calls of one sample.
struct Grant {
    /// Which approver of the chain gave it: those before it are asked all the same.
    rule: usize,
    tool: Tool,
    bound: Bound,
    /// Of the arguments, where the bound names nothing itself.
    tag: Option<String>,
    left: Option<u32>,
}

/// The grants of one sample.
#[derive(Default)]
pub(super) struct Grants(Mutex<Vec<Grant>>);

/// The most grants that stand at the same time.
const MOST: usize = 1000;

impl Grants {
    /// Keeps an approval for later calls; the one that was asked about is its first use.
    pub(super) fn keep(&self, rule: usize, tool: Tool, call: &ToolCall, bound: &Bound, key: &Key) {
        let left = bound.uses.map(|uses| uses.saturating_sub(1));
        let tag = (!bound.names_something()).then(|| key.tag(tool.name(), &call.arguments));
        let mut grants = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if bound.stands() && left != Some(0) && grants.len() < MOST {
            grants.push(Grant { rule, tool, bound: bound.clone(), tag, left });
        }
    }

    /// Uses a grant that holds for the call, if there is one; returns what it is bound to.
    pub(super) fn take(&self, rule: usize, tool: Tool, call: &ToolCall, key: &Key) -> Option<Bound> {
        let now = Timestamp::now();
        let tag = key.tag(tool.name(), &call.arguments);
        let mut grants = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        grants.retain(|grant| grant.left != Some(0) && grant.bound.until.is_none_or(|until| until > now));
        let grant = grants.iter_mut().find(|grant| {
            grant.rule == rule
                && grant.tool == tool
                && grant.tag.as_ref().is_none_or(|granted| *granted == tag)
                && grant.bound.holds(tool, &call.arguments, now).is_ok()
        })?;
        grant.left = grant.left.map(|left| left.saturating_sub(1));
        Some(Bound { uses: grant.left, ..grant.bound.clone() })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn call(command: &str) -> ToolCall {
        let Value::Object(arguments) = json!({"command": command}) else { unreachable!() };
        ToolCall { id: "1".into(), function: "bash".into(), arguments, parse_error: None, written: None }
    }

    #[test]
    fn an_approved_call_that_changes_is_refused() {
        let key = Key::new(b"key");
        let permit = Permit::free(Tool::Bash, &call("ls"), &key);
        assert_eq!(permit.covers(Tool::Bash, &call("ls"), &key), Ok(()));
        assert!(permit.covers(Tool::Bash, &call("ls /"), &key).is_err());
        assert!(permit.covers(Tool::Python, &call("ls"), &key).is_err());
        assert!(permit.covers(Tool::Bash, &call("ls"), &Key::new(b"other")).is_err());
    }

    #[test]
    fn a_grant_is_used_up() {
        let (key, grants) = (Key::new(b"key"), Grants::default());
        let bound = Bound { uses: Some(3), ..Bound::default() };
        grants.keep(0, Tool::Bash, &call("ls"), &bound, &key);
        assert_eq!(grants.take(0, Tool::Bash, &call("rm"), &key), None);
        assert_eq!(grants.take(1, Tool::Bash, &call("ls"), &key), None);
        let left = |bound: Option<Bound>| bound.map(|bound| bound.uses);
        assert_eq!(left(grants.take(0, Tool::Bash, &call("ls"), &key)), Some(Some(1)));
        assert_eq!(left(grants.take(0, Tool::Bash, &call("ls"), &key)), Some(Some(0)));
        assert_eq!(grants.take(0, Tool::Bash, &call("ls"), &key), None);
        let once = Bound::default();
        grants.keep(0, Tool::Bash, &call("ls"), &once, &key);
        assert_eq!(grants.take(0, Tool::Bash, &call("ls"), &key), None);
    }
}

//! The chain at work in one sample: asks in order, writes every decision down, and says what may be done.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use jiff::Timestamp;
use log::Redactor;
use log::event::What;
use log::message::ToolCall;
use profile::{HostName, Plan};
use serde_json::{Map, Value, json};

use super::answer::{Answer, Decided, Decision};
use super::approver::{Asked, ask};
use super::bound::Bound;
use super::clock::{Clock, Working};
use super::parse::matches;
use super::permit::{Grants, Key, Permit};
use super::person::Person;
use super::policy::{On, Policy, Rule};
use crate::journal::Journal;
use crate::tools::{Arguments, Tool};

/// What all samples of an evaluation share.
pub(crate) struct Context {
    pub(crate) policy: Policy,
    pub(crate) person: Option<Arc<dyn Person>>,
    pub(crate) key: Key,
    pub(crate) redactor: Arc<Redactor>,
}

/// The gate of one sample.
pub(crate) struct Gate {
    pub(super) keeper: Arc<Context>,
    pub(super) plan: Arc<Plan>,
    pub(super) sample: Value,
    pub(super) epoch: u32,
    journal: Journal,
    grants: Grants,
    /// Somebody has ended the sample: nobody is asked any more.
    over: AtomicBool,
    clock: Clock,
}

/// What was decided about a call.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Ruling {
    /// It may be made, as it is here.
    Approved {
        call: ToolCall,
        permit: Box<Permit>,
    },
    Rejected(String),
    /// The sample ends.
    Terminated(String),
}

/// What was decided about a result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Review {
    Shown,
    Replaced(String),
    Withheld(String),
    Terminated(String),
}

/// A path as the file tools read it: relative to their root, without `.`, `..` and empty parts.
fn resolved(path: &str, root: &str) -> String {
    let whole = if path.starts_with('/') { path.to_owned() } else { format!("{root}/{path}") };
    let mut parts: Vec<&str> = Vec::new();
    for part in whole.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    format!("/{}", parts.join("/"))
}

/// The longest words of a model that stand beside a decision.
const MOST_SAID: usize = 400;

impl Gate {
    pub(crate) fn new(keeper: Arc<Context>, plan: Arc<Plan>, sample: Value, epoch: u32, journal: Journal) -> Self {
        Self {
            keeper,
            plan,
            sample,
            epoch,
            journal,
            grants: Grants::default(),
            over: AtomicBool::new(false),
            clock: Clock::default(),
        }
    }

    /// A call is under way until what this returns is dropped.
    pub(crate) fn working(&self) -> Working<'_> {
        self.clock.working(&self.journal)
    }

    pub(crate) fn key(&self) -> &Key {
        &self.keeper.key
    }

    pub(super) fn sample_name(&self) -> String {
        match &self.sample {
            Value::String(text) => format!("{text} (epoch {})", self.epoch),
            other => format!("{other} (epoch {})", self.epoch),
        }
    }

    /// A call in a line, without secrets.
    pub(super) fn in_a_line(&self, tool: &str, arguments: &Map<String, Value>) -> String {
        let mut arguments = arguments.clone();
        self.keeper.redactor.arguments(&mut arguments);
        let shown: String = Value::Object(arguments).to_string().chars().take(200).collect();
        format!("{tool} {shown}")
    }

    /// The arguments as the tool will take them: numbers as whole ones, paths without detours. Else a condition could be
    /// got around by another spelling.
    fn meant(&self, tool: Tool, call: &ToolCall) -> Map<String, Value> {
        let mut meant = tool.check(call).map_or_else(|_| call.arguments.clone(), Arguments::into_map);
        let is_path =
            |name: &str| name == "file_path" || (name == "path" && matches!(tool, Tool::Ls | Tool::TextEditor));
        for (name, value) in &mut meant {
            if let (true, Value::String(path)) = (is_path(name), &*value) {
                *value = Value::from(resolved(path, &self.plan.file_tools.root));
            }
        }
        meant
    }

    /// Asks whether a sound call may be made.
    pub(crate) async fn call(&self, tool: Tool, call: &ToolCall, said: &str) -> Ruling {
        let asked = Asked::Call { tool, call, said };
        let meant = self.meant(tool, call);
        let of_call = |rule: &Rule| {
            rule.on == On::Call
                && rule.tools.iter().any(|pattern| matches(pattern, tool.name()))
                && rule.wheres.iter().all(|one| one.holds(&meant))
        };
        let (rule, answer) = self.chain(&asked, call, of_call).await;
        match answer.decision {
            Decision::Approve | Decision::Modify => self.approved(rule, tool, call, answer),
            Decision::Terminate => Ruling::Terminated(answer.explanation),
            Decision::Reject | Decision::Escalate => Ruling::Rejected(answer.explanation),
        }
    }

    /// An approval holds for the call as it will be made, within its bound.
    fn approved(&self, rule: usize, tool: Tool, call: &ToolCall, answer: Answer) -> Ruling {
        let asked = call;
        let mut call = call.clone();
        match (answer.decision, answer.arguments) {
            (Decision::Modify, Some(arguments)) => call.arguments = arguments,
            (Decision::Modify, None) => return self.exceeded(asked, "modified, and nobody said how".into()),
            _ => {}
        }
        if let Err(error) = tool.check(&call) {
            return self.exceeded(asked, format!("the arguments that were approved are none: {}", error.message));
        }
        if let Err(why) = answer.bound.holds(tool, &call.arguments, Timestamp::now()) {
            return self.exceeded(asked, why);
        }
        self.grants.keep(rule, tool, &call, &answer.bound, &self.keeper.key);
        let permit = Permit::new(tool, &call, answer.bound, &self.keeper.key);
        Ruling::Approved { call, permit: Box::new(permit) }
    }

    /// An approval that does not hold for the call is a no, and is written down as one.
    fn exceeded(&self, call: &ToolCall, why: String) -> Ruling {
        self.refuse(call, "bound", &why);
        Ruling::Rejected(why)
    }

    /// Asks whether the model may see a result; nobody to ask about it is a yes.
    pub(crate) async fn result(&self, tool: Tool, call: &ToolCall, content: &str) -> Review {
        let meant = self.meant(tool, call);
        let of_result = |rule: &Rule| {
            rule.on == On::Result
                && rule.tools.iter().any(|pattern| matches(pattern, tool.name()))
                && rule.wheres.iter().all(|one| one.holds(&meant))
        };
        if !self.keeper.policy.rules.iter().any(of_result) {
            return Review::Shown;
        }
        let asked = Asked::Result { tool, call, content };
        let (_, answer) = self.chain(&asked, call, of_result).await;
        match (answer.decision, answer.result) {
            (Decision::Approve, _) => Review::Shown,
            (Decision::Modify, Some(result)) => Review::Replaced(result),
            (Decision::Modify, None) => Review::Withheld("the approver gave no other result".into()),
            (Decision::Terminate, _) => Review::Terminated(answer.explanation),
            (Decision::Reject | Decision::Escalate, _) => Review::Withheld(answer.explanation),
        }
    }

    /// Asks whether a name that no rule lists may be reached.
    pub(crate) async fn name(&self, name: &HostName) -> bool {
        let of_name = |rule: &Rule| {
            rule.on == On::Egress && (rule.hosts.is_empty() || rule.hosts.iter().any(|pattern| pattern.matches(name)))
        };
        if !self.keeper.policy.rules.iter().any(of_name) {
            return false;
        }
        let arguments = [("host".to_owned(), json!(name.to_string()))].into_iter().collect();
        let call =
            ToolCall { id: "network".into(), function: "network".into(), arguments, parse_error: None, written: None };
        let (_, answer) = self.chain(&Asked::Name(name), &call, of_name).await;
        answer.decision == Decision::Approve
    }

    /// One approver after the other; the first decision that is not to escalate counts, and none is a no. Returns which
    /// rule that was.
    async fn chain(&self, asked: &Asked<'_>, call: &ToolCall, fits: impl Fn(&Rule) -> bool) -> (usize, Answer) {
        let (rule, answer) = self.asked_in_turn(asked, call, fits).await;
        if answer.decision == Decision::Terminate {
            self.over.store(true, Ordering::SeqCst);
        } else if self.over.load(Ordering::SeqCst) {
            // Another call of the same step has ended the sample meanwhile: whatever was said about this one comes too late.
            return (rule, Answer::new(Decision::Terminate, "the sample was ended"));
        }
        (rule, answer)
    }

    async fn asked_in_turn(&self, asked: &Asked<'_>, call: &ToolCall, fits: impl Fn(&Rule) -> bool) -> (usize, Answer) {
        if self.over.load(Ordering::SeqCst) {
            return (usize::MAX, Answer::new(Decision::Terminate, "the sample was ended"));
        }
        for (index, rule) in self.keeper.policy.rules.iter().enumerate().filter(|(_, rule)| fits(rule)) {
            let start = Instant::now();
            let granted = match asked {
                Asked::Call { tool, .. } => self.grants.take(index, *tool, call, &self.keeper.key),
                _ => None,
            };
            let (approver, answer) = if let Some(bound) = granted {
                // It stands already: this is one of its uses, not another grant.
                let bound = Bound { uses: None, until: None, again: false, ..bound };
                let explanation = format!("{} granted it before", rule.approver.name());
                ("grant", Answer { bound, ..Answer::new(Decision::Approve, explanation) })
            } else {
                let _waiting = self.clock.waiting(&self.journal);
                (rule.approver.name(), ask(&rule.approver, asked, self).await)
            };
            let latency = start.elapsed();
            let decided = Decided { approver: approver.to_owned(), answer, latency };
            self.record(asked, call, &decided);
            if decided.answer.decision != Decision::Escalate {
                return (index, decided.answer);
            }
        }
        let nobody = Answer::new(Decision::Reject, "no approver decided");
        let decided = Decided { approver: "end of chain".into(), answer: nobody, latency: std::time::Duration::ZERO };
        self.record(asked, call, &decided);
        (usize::MAX, decided.answer)
    }

    fn record(&self, asked: &Asked<'_>, call: &ToolCall, decided: &Decided) {
        let said = match asked {
            Asked::Call { said, .. } => self.keeper.redactor.text(said).chars().take(MOST_SAID).collect(),
            _ => String::new(),
        };
        let on = match asked {
            Asked::Call { .. } => "call",
            Asked::Result { .. } => "result",
            Asked::Name(_) => "egress",
        };
        let mut metadata = Map::new();
        metadata.insert("on".into(), json!(on));
        metadata.insert("milliseconds".into(), json!(decided.latency.as_secs_f64() * 1000.0));
        metadata.insert("arguments_hmac".into(), json!(self.keeper.key.tag(&call.function, &call.arguments)));
        let answer = &decided.answer;
        if let Some(bound) = answer.bound.to_json() {
            metadata.insert("bound".into(), bound);
        }
        if let Some(arguments) = &answer.arguments {
            metadata.insert("modified_hmac".into(), json!(self.keeper.key.tag(&call.function, arguments)));
        }
        let modified =
            answer.arguments.as_ref().map(|arguments| ToolCall { arguments: arguments.clone(), ..call.clone() });
        self.journal.event(What::Approval {
            message: said,
            call: call.clone(),
            approver: decided.approver.clone(),
            decision: answer.decision.name().into(),
            modified,
            explanation: Some(answer.explanation.clone()),
            metadata: Some(metadata),
        });
    }

    /// A call that was not even asked about.
    pub(crate) fn refuse(&self, call: &ToolCall, approver: &str, why: &str) {
        let decided = Decided {
            approver: approver.into(),
            answer: Answer::new(Decision::Reject, why),
            latency: std::time::Duration::ZERO,
        };
        let tool = Tool::named(&call.function).unwrap_or(Tool::Submit);
        self.record(&Asked::Call { tool, call, said: "" }, call, &decided);
    }
}

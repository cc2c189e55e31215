//! What happens in one sample, on its way into the log: with the time, the working time and the span.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use log::event::{Event, What};
use log::message::ChatMessage;
use log::{LogError, Redactor, Repeated, SampleRecorder, Written};
use serde_json::{Map, Value, json};

use crate::audit::Audit;
use crate::model::ToolInfo;
use crate::queue::Queue;
use crate::run::EvalFailure;
use crate::told::Told;

/// Whose our own events are.
pub(crate) const SOURCE: &str = "ringfence";

/// Now, as logs have it.
pub(crate) fn now() -> String {
    let now = jiff::Timestamp::now();
    format!("{now:.6}")
}

/// A name that nobody else has.
pub(crate) fn unique() -> String {
    uuid::Uuid::new_v4().simple().to_string()
}

struct State {
    recorder: Option<SampleRecorder>,
    /// The spans that are open, the innermost last.
    spans: Vec<String>,
    /// Time that the sample spent waiting for others.
    waited: Duration,
    /// Since when it is not known whether it works or waits, by number.
    held: Vec<(u64, Instant)>,
    holds: u64,
    told: Told,
    /// The first thing that could not be written.
    failed: Option<LogError>,
    audit_failed: Option<log::audit::AuditError>,
}

/// The journal of one sample; clones are the same.
#[derive(Clone)]
pub(crate) struct Journal {
    state: Arc<Mutex<State>>,
    audit: Audit,
    redactor: Arc<Redactor>,
    start: Instant,
    queue: Queue,
}

impl Journal {
    pub(crate) fn new(recorder: SampleRecorder, audit: Audit, redactor: Arc<Redactor>) -> Self {
        let state = State {
            recorder: Some(recorder),
            spans: Vec::new(),
            waited: Duration::ZERO,
            held: Vec::new(),
            holds: 0,
            told: Told::default(),
            failed: None,
            audit_failed: None,
        };
        Self { state: Arc::new(Mutex::new(state)), audit, redactor, start: Instant::now(), queue: Queue::default() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How long the sample has worked: without waiting for others.
    pub(crate) fn worked(&self) -> Duration {
        self.start.elapsed().saturating_sub(self.state().waited)
    }

    /// How long it has worked for certain: without times of which is not known yet what they were.
    pub(crate) fn surely_worked(&self) -> Duration {
        let state = self.state();
        let open = state.held.iter().map(|(_, since)| since.elapsed()).max().unwrap_or_default();
        self.start.elapsed().saturating_sub(state.waited).saturating_sub(open)
    }

    /// Until what this returns is dropped, it is not known whether the sample works or waits.
    pub(crate) fn hold(&self) -> Hold {
        let mut state = self.state();
        state.holds += 1;
        let number = state.holds;
        state.held.push((number, Instant::now()));
        Hold { journal: self.clone(), number }
    }

    /// How long the sample has waited for sandboxes of others to end.
    pub(crate) fn queue(&self) -> &Queue {
        &self.queue
    }

    pub(crate) fn elapsed(&self) -> Duration {
        self.start.elapsed()
    }

    /// How long the sample has waited for others.
    pub(crate) fn waited_so_far(&self) -> Duration {
        self.state().waited
    }

    /// Time that is not the sample's own.
    pub(crate) fn waited(&self, time: Duration) {
        self.state().waited += time;
    }

    pub(crate) fn event(&self, what: What) {
        let what = self.redacted(what);
        let audited = self.audit.hear(&what);
        let working_start = self.worked().as_secs_f64();
        let mut state = self.state();
        let span_id = match &what {
            // A span lies in the one around it, which its own field says.
            What::SpanBegin { id, .. } | What::SpanEnd { id } => Some(id.clone()),
            _ => state.spans.last().cloned(),
        };
        let event = Event { timestamp: now(), working_start, uuid: unique(), span_id, what };
        let written = state.recorder.as_mut().map_or(Ok(()), |recorder| recorder.event(&event));
        if let Err(error) = written {
            state.failed.get_or_insert(error);
        }
        if let Err(error) = audited {
            state.audit_failed.get_or_insert(error);
        }
    }

    pub(crate) fn redactor(&self) -> &Redactor {
        &self.redactor
    }

    /// A conversation without secrets, as events repeat it.
    pub(crate) fn conversation(&self, messages: &[ChatMessage]) -> Vec<Written> {
        self.state().told.all(messages, &self.redactor)
    }

    /// Tools without secrets, as events repeat them.
    pub(crate) fn tools(&self, tools: &[ToolInfo]) -> Vec<Written> {
        self.state().told.tools(tools, &self.redactor)
    }

    /// One of its messages.
    pub(crate) fn message(&self, message: &ChatMessage) -> Written {
        self.state().told.one(message, &self.redactor)
    }

    /// Without secrets: nothing is written before this.
    fn redacted(&self, mut what: What) -> What {
        if matches!(what, What::SpanBegin { .. } | What::SpanEnd { .. }) {
            return what;
        }
        // What is written is without secrets already.
        let (mut messages, mut offered) = (None, None);
        if let What::Model { input, tools, .. } = &mut what {
            messages = matches!(input, Repeated::Written(_)).then(|| std::mem::take(input));
            offered = matches!(tools, Repeated::Written(_)).then(|| std::mem::take(tools));
        }
        let mut what = self.redacted_whole(what);
        if let What::Model { input, tools, .. } = &mut what {
            *input = messages.unwrap_or_else(|| std::mem::take(input));
            *tools = offered.unwrap_or_else(|| std::mem::take(tools));
        }
        what
    }

    fn redacted_whole(&self, what: What) -> What {
        let redacted = serde_json::to_value(&what).and_then(|mut value| {
            if self.redactor.value(&mut value) { serde_json::from_value(value).map(Some) } else { Ok(None) }
        });
        match redacted {
            Ok(redacted) => redacted.unwrap_or(what),
            // What was one event is one still: only texts have changed. Should it not be, nothing of it is written.
            Err(_) => What::Info {
                source: SOURCE.into(),
                data: json!({"kind": "redacted", "note": "an event could not be written without a secret"}),
            },
        }
    }

    /// The same for any value.
    pub(crate) fn without_secrets(&self, mut value: Value) -> Value {
        self.redactor.value(&mut value);
        value
    }

    /// The same for what a sample comes to.
    pub(crate) fn redact(&self, fields: Map<String, Value>) -> Map<String, Value> {
        match self.without_secrets(Value::Object(fields)) {
            Value::Object(fields) => fields,
            _ => Map::new(),
        }
    }

    pub(crate) fn info(&self, data: Value) {
        self.event(What::Info { source: SOURCE.into(), data });
    }

    /// A part of the sample, until what this returns is dropped.
    pub(crate) fn span(&self, kind: &str, name: &str) -> Span {
        let id = unique();
        let parent_id = self.state().spans.last().cloned();
        self.event(What::SpanBegin { id: id.clone(), kind: Some(kind.into()), name: name.into(), parent_id });
        self.state().spans.push(id.clone());
        Span { journal: self.clone(), id }
    }

    /// Whether everything could be written so far.
    pub(crate) fn check(&self) -> Result<(), EvalFailure> {
        let mut state = self.state();
        if let Some(error) = state.audit_failed.take() {
            return Err(error.into());
        }
        state.failed.take().map_or(Ok(()), |error| Err(error.into()))
    }

    /// Takes the recorder out: nothing is written after this.
    pub(crate) fn close(&self) -> Option<SampleRecorder> {
        self.state().recorder.take()
    }
}

/// A time of which is not known what it is.
pub(crate) struct Hold {
    journal: Journal,
    number: u64,
}

impl Drop for Hold {
    fn drop(&mut self) {
        self.journal.state().held.retain(|(number, _)| *number != self.number);
    }
}

/// A span that is open.
pub(crate) struct Span {
    journal: Journal,
    id: String,
}

impl Drop for Span {
    fn drop(&mut self) {
        self.journal.state().spans.retain(|open| *open != self.id);
        self.journal.event(What::SpanEnd { id: self.id.clone() });
    }
}

/// The profile, as every sample says it.
pub(crate) fn profile_data(profile: &str, plan_hash: &str) -> Value {
    json!({"kind": "profile", "profile": profile, "plan": plan_hash})
}

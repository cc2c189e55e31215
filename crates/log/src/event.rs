//! What happens in a sample, as Inspect writes it.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::message::{ModelOutput, ToolCall, ToolError};
use crate::written::{Conversation, Repeated};

/// One event, with when it happened.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Event {
    /// RFC 3339, with a zone.
    pub timestamp: String,
    /// Seconds of working time since the sample began.
    pub working_start: f64,
    /// Unique in its log.
    pub uuid: String,
    /// The span in which it happened.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub span_id: Option<String>,
    /// What happened.
    #[serde(flatten)]
    pub what: What,
}

/// What happened.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum What {
    /// The sample begins.
    SampleInit {
        /// The sample, as the data set has it.
        sample: Value,
        /// What the solver begins with.
        state: Value,
    },
    /// A part of the sample begins.
    SpanBegin {
        /// Its id.
        id: String,
        /// `solver`, `tool`, `scorer`, `init` and so on.
        #[serde(rename = "type", default, skip_serializing_if = "Option::is_none")]
        kind: Option<String>,
        /// Its name.
        name: String,
        /// The span around it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        parent_id: Option<String>,
    },
    /// A part of the sample ends.
    SpanEnd {
        /// Which.
        id: String,
    },
    /// A model was asked.
    Model {
        /// Which.
        model: String,
        /// In which role; absent for the agent's own.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        role: Option<String>,
        /// The conversation.
        input: Conversation,
        /// The tools that it was offered: `{name, description, parameters}`.
        tools: Repeated<Value>,
        /// `auto`, `none` and so on.
        tool_choice: Value,
        /// How it was to generate.
        config: Map<String, Value>,
        /// What it said.
        output: ModelOutput,
        /// How often it was asked again.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        retries: Option<u32>,
        /// `read` for an answer that was kept.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        cache: Option<String>,
        /// Why there is no answer.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        error: Option<String>,
        /// RFC 3339.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        completed: Option<String>,
        /// Seconds.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        working_time: Option<f64>,
    },
    /// A tool was called.
    Tool {
        /// The call's id.
        id: String,
        /// Always `function`.
        #[serde(rename = "type")]
        kind: String,
        /// Which tool.
        function: String,
        /// With what.
        arguments: Map<String, Value>,
        /// What it gave back.
        result: String,
        /// Bytes before and after cutting, if it was cut.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        truncated: Option<(u64, u64)>,
        /// Why it failed.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        error: Option<ToolError>,
        /// RFC 3339.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        completed: Option<String>,
        /// Seconds.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        working_time: Option<f64>,
    },
    /// Somebody was asked whether a call may be made.
    Approval {
        /// What the model said with it.
        message: String,
        /// The call.
        call: ToolCall,
        /// Who decided.
        approver: String,
        /// `approve`, `modify`, `reject`, `terminate` or `escalate`.
        decision: String,
        /// The call as it was approved, where that is another.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        modified: Option<ToolCall>,
        /// Why.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        explanation: Option<String>,
        /// How long it took, the arguments' HMAC, what the approval is bound to.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        metadata: Option<Map<String, Value>>,
    },
    /// Something was done in the sandbox.
    Sandbox {
        /// `exec`, `read_file` or `write_file`.
        action: String,
        /// The command, in one line.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        cmd: Option<String>,
        /// User, directory, timeout.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        options: Option<Map<String, Value>>,
        /// The file.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        file: Option<String>,
        /// What went in.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        input: Option<String>,
        /// The exit code.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        result: Option<i64>,
        /// What came out.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        output: Option<String>,
        /// RFC 3339.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        completed: Option<String>,
    },
    /// The state changed: a JSON patch.
    State {
        /// The changes.
        changes: Vec<Value>,
    },
    /// The store changed: a JSON patch.
    Store {
        /// The changes.
        changes: Vec<Value>,
    },
    /// Something worth knowing: ours have the source `ringfence`.
    Info {
        /// Whose.
        source: String,
        /// What.
        data: Value,
    },
    /// A score was given.
    Score {
        /// Which.
        score: Score,
        /// What was right.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        target: Option<Vec<String>>,
        /// Whether others follow.
        intermediate: bool,
    },
    /// The sample failed.
    Error {
        /// Why.
        error: EvalError,
    },
    /// The sample was ended by a limit.
    SampleLimit {
        /// `message`, `time`, `working`, `token`, `operator` or `custom`.
        #[serde(rename = "type")]
        kind: String,
        /// In words.
        message: String,
        /// The limit.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        limit: Option<f64>,
    },
}

/// A score.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Score {
    /// `C`, `I`, `P`, `N`, or a number.
    pub value: Value,
    /// What was taken for the answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer: Option<String>,
    /// Why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub explanation: Option<String>,
    /// For machines: why it is out of the ordinary, such as `grader_failed`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Anything else.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Map<String, Value>>,
}

/// Why a sample, or an evaluation, failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EvalError {
    /// In words.
    pub message: String,
    /// Inspect's field for where; ours say nothing of our files.
    pub traceback: String,
    /// The same for terminals.
    pub traceback_ansi: String,
}

impl EvalError {
    /// In words only.
    pub fn new(message: impl Into<String>) -> Self {
        let message = message.into();
        Self { traceback: message.clone(), traceback_ansi: message.clone(), message }
    }
}

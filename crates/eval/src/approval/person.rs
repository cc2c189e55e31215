//! Somebody who is asked, wherever they sit.

use std::pin::Pin;
use std::str::FromStr;
use std::time::Duration;

use serde_json::{Map, Value};

use super::view::View;

/// What a person may answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Choice {
    /// Yes.
    Approve,
    /// Yes, and to the same call again in this sample.
    ApproveSame,
    /// Yes, with other arguments.
    Modify,
    /// No.
    Reject,
    /// End the sample.
    Terminate,
    /// Let the next approver decide.
    Escalate,
}

impl Choice {
    /// What may be answered when nobody says.
    pub const USUAL: [Self; 4] = [Self::Approve, Self::ApproveSame, Self::Reject, Self::Terminate];
}

impl FromStr for Choice {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "approve" => Ok(Self::Approve),
            "approve_same" => Ok(Self::ApproveSame),
            "modify" => Ok(Self::Modify),
            "reject" => Ok(Self::Reject),
            "terminate" => Ok(Self::Terminate),
            "escalate" => Ok(Self::Escalate),
            _ => Err(format!(
                "`{text}` is not a choice: use approve, approve_same, modify, reject, terminate or escalate"
            )),
        }
    }
}

/// What is asked about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum About {
    /// A call, before it is made.
    Call,
    /// What a call gave, before the model sees it.
    Result,
    /// A name of the network that no rule lists.
    Egress,
}

/// What somebody is asked; everything in it is without secrets, and still untrusted: whoever shows it must sanitise it.
#[derive(Debug, Clone)]
pub struct Question {
    /// About what.
    pub about: About,
    /// Which sample.
    pub sample: String,
    /// Which tool.
    pub tool: String,
    /// What it is about.
    pub view: View,
    /// What may be answered.
    pub choices: Vec<Choice>,
    /// How long there is for an answer; none in time is a no.
    pub timeout: Duration,
}

/// An answer.
#[derive(Debug, Clone, PartialEq)]
pub struct Reply {
    /// Which.
    pub choice: Choice,
    /// Why, if they said so.
    pub reason: Option<String>,
    /// Other arguments, for [`Choice::Modify`].
    pub arguments: Option<Map<String, Value>>,
}

/// What came of a question.
#[derive(Debug, Clone, PartialEq)]
pub enum Heard {
    /// An answer.
    Reply(Reply),
    /// None in time.
    Silence,
    /// Nobody can be asked any more.
    Gone,
}

/// An answer under way.
pub type Replying<'a> = Pin<Box<dyn Future<Output = Heard> + Send + 'a>>;

/// Somebody who can be asked. Questions may come at the same time; dropping one withdraws it.
pub trait Person: Send + Sync {
    /// Asks, and waits for the answer until the question's time is over, counted from when it is shown: a question
    /// that waits for others has not been asked yet.
    fn ask<'a>(&'a self, question: &'a Question) -> Replying<'a>;
}

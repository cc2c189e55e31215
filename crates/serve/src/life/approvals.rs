//! Names that sandboxes ask for and no rule lists, until a person says yes or no.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use profile::HostName;
use tokio::sync::oneshot;

use super::{lock, now_ms};
use crate::server::Owner;

/// A question that waits.
#[derive(Debug, Clone)]
pub(crate) struct Waiting {
    pub(crate) id: String,
    pub(crate) sandbox: String,
    pub(crate) service: String,
    pub(crate) name: String,
    pub(crate) asked_ms: u64,
}

struct Question {
    owner: Owner,
    waiting: Waiting,
    answer: oneshot::Sender<bool>,
}

/// All questions that wait.
pub(crate) struct Approvals {
    questions: Mutex<BTreeMap<u64, Question>>,
    next: AtomicU64,
    most: usize,
    patience: Duration,
}

impl Approvals {
    /// At most `most` questions of one owner wait, and none longer than `patience`: the gateway has given up by then.
    pub(crate) fn new(most: usize, patience: Duration) -> Self {
        Self { questions: Mutex::default(), next: AtomicU64::new(1), most, patience }
    }

    /// Waits for a person's answer; nobody's answer is no.
    pub(crate) async fn ask(&self, owner: Owner, sandbox: &str, service: &str, name: &HostName) -> bool {
        let (answer, answered) = oneshot::channel();
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        {
            let mut questions = lock(&self.questions);
            if questions.values().filter(|question| question.owner == owner).count() >= self.most {
                return false;
            }
            let waiting = Waiting {
                id: format!("a-{number}"),
                sandbox: sandbox.to_owned(),
                service: service.to_owned(),
                name: name.to_string(),
                asked_ms: now_ms(),
            };
            questions.insert(number, Question { owner, waiting, answer });
        }
        let answer = tokio::time::timeout(self.patience, answered).await;
        lock(&self.questions).remove(&number);
        matches!(answer, Ok(Ok(true)))
    }

    /// Those of an owner, oldest first.
    pub(crate) fn of(&self, owner: &Owner) -> Vec<Waiting> {
        lock(&self.questions).values().filter(|one| one.owner == *owner).map(|one| one.waiting.clone()).collect()
    }

    /// Answers one; `None` where it is not there, or another's.
    pub(crate) fn decide(&self, owner: &Owner, id: &str, allowed: bool) -> Option<Waiting> {
        let mut questions = lock(&self.questions);
        let number = questions.iter().find(|(_, one)| one.waiting.id == id && one.owner == *owner).map(|(n, _)| *n)?;
        let question = questions.remove(&number)?;
        // Who asked may have given up this very moment: then the answer is for nobody.
        question.answer.send(allowed).ok()?;
        Some(question.waiting)
    }

    /// Forgets what a sandbox that ends has asked.
    pub(crate) fn forget(&self, sandbox: &str) {
        lock(&self.questions).retain(|_, one| one.waiting.sandbox != sandbox);
    }
}

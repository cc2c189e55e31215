//! Who says yes to a call. A chain of gates: each decides or passes on, and whoever is left undecided is rejected.

use profile::{Affordance, Approval, Sensitivity};

/// What was decided.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Decision {
    Approve,
    Reject,
    /// Ends the sample.
    Terminate,
    /// The next gate decides.
    Escalate,
}

impl Decision {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Approve => "approve",
            Self::Reject => "reject",
            Self::Terminate => "terminate",
            Self::Escalate => "escalate",
        }
    }
}

/// A decision with who made it and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Decided {
    pub(crate) approver: &'static str,
    pub(crate) decision: Decision,
    pub(crate) explanation: &'static str,
}

/// One gate.
type Gate = fn(Sensitivity) -> Decided;

fn everything(_: Sensitivity) -> Decided {
    Decided { approver: "auto", decision: Decision::Approve, explanation: "every call is approved" }
}

fn plain_tools(sensitivity: Sensitivity) -> Decided {
    let (decision, explanation) = match sensitivity {
        Sensitivity::Plain => (Decision::Approve, "the tool is not sensitive"),
        Sensitivity::Sensitive => (Decision::Escalate, "the tool is sensitive"),
    };
    Decided { approver: "plain_tools", decision, explanation }
}

fn nobody(_: Sensitivity) -> Decided {
    Decided {
        approver: "nobody",
        decision: Decision::Reject,
        explanation: "nobody is there to approve a sensitive tool",
    }
}

fn terminator(sensitivity: Sensitivity) -> Decided {
    let (decision, explanation) = match sensitivity {
        Sensitivity::Plain => (Decision::Approve, "the tool is not sensitive"),
        Sensitivity::Sensitive => (Decision::Terminate, "a sensitive tool ends the sample"),
    };
    Decided { approver: "terminator", decision, explanation }
}

fn chain(approval: Option<&Approval>) -> &'static [Gate] {
    match approval {
        Some(Approval::Ci) => &[everything],
        Some(Approval::Prod) => &[terminator],
        // The same where no policy is required: nothing sensitive is granted there, and should it be, nobody approves it.
        Some(Approval::Dev | Approval::Operator | Approval::Policy(_)) | None => &[plain_tools, nobody],
    }
}

/// Asks one gate after the other; returns what each said, the last of which counts.
pub(crate) fn decide(approval: Option<&Approval>, tool: Option<&Affordance>) -> Vec<Decided> {
    // A tool that was not granted is as sensitive as any.
    let sensitivity = tool.map_or(Sensitivity::Sensitive, |tool| tool.sensitivity);
    let mut said = Vec::new();
    for gate in chain(approval) {
        let decided = gate(sensitivity);
        let passes_on = decided.decision == Decision::Escalate;
        said.push(decided);
        if !passes_on {
            return said;
        }
    }
    said.push(Decided { approver: "end of chain", decision: Decision::Reject, explanation: "nobody decided" });
    said
}

#[cfg(test)]
mod tests {
    use super::*;

    fn last(approval: &Approval, tool: &str) -> (usize, Decision) {
        let tool = profile::standard_tool(tool);
        let said = decide(Some(approval), tool.as_ref());
        (said.len(), said.last().map_or(Decision::Reject, |decided| decided.decision))
    }

    #[test]
    fn presets_mean_what_they_say() {
        assert_eq!(last(&Approval::Ci, "bash"), (1, Decision::Approve));
        assert_eq!(last(&Approval::Dev, "submit"), (1, Decision::Approve));
        // The second gate runs: an approval by the first would hide it.
        assert_eq!(last(&Approval::Dev, "bash"), (2, Decision::Reject));
        assert_eq!(last(&Approval::Prod, "bash"), (1, Decision::Terminate));
        assert_eq!(last(&Approval::Prod, "submit"), (1, Decision::Approve));
        assert_eq!(last(&Approval::Dev, "no such tool"), (2, Decision::Reject));
    }
}

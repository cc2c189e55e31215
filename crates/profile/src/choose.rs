//! Choosing a profile by the guidance's questions.

use std::fmt::Write as _;

use serde::Serialize;

use crate::approval::Approval;
use crate::level::{Isolation, Network, Profile, Tooling};
use crate::words::words;

words!(
    /// What the agent does.
    Tools, "an answer", {
        /// It answers in text.
        None = "none",
        /// It uses tools, none of which runs code that it writes.
        Web = "web",
        /// It runs code that it writes.
        Code = "code",
    }
);

words!(
    /// What matters most about where it runs.
    Priority, "an answer", {
        /// It should be simple to run.
        Simplicity = "simplicity",
        /// Many samples at once.
        Scale = "scale",
        /// The agent is hostile, or very capable.
        Hostile = "hostile",
    }
);

words!(
    /// Which internet access the task needs.
    Internet, "an answer", {
        /// None.
        None = "none",
        /// Known names.
        Listed = "listed",
        /// Anything.
        Full = "full",
    }
);

words!(
    /// Whether others are affected.
    Audience, "an answer", {
        /// One's own machine and results.
        Private = "private",
        /// A shared machine, or a demonstration.
        Shared = "shared",
    }
);

/// The answers to all questions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Answers {
    /// What the agent does.
    pub tools: Tools,
    /// What matters most about where it runs.
    pub priority: Priority,
    /// Which internet access the task needs.
    pub internet: Internet,
    /// Whether others are affected.
    pub audience: Audience,
}

/// A profile that fits, and why.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Choice {
    /// The profile.
    pub profile: Profile,
    /// The approval preset to go with it; none where nothing needs approval.
    pub approval: Option<Approval>,
    /// One reason per answer.
    pub reasons: Vec<String>,
}

/// The profile and preset for the answers.
pub fn choose(answers: Answers) -> Choice {
    let tooling = match answers.tools {
        Tools::None => Tooling::T2,
        Tools::Web => Tooling::T1,
        Tools::Code => Tooling::T0,
    };
    let isolation = match answers.priority {
        Priority::Simplicity => Isolation::H1,
        Priority::Scale => Isolation::H2,
        Priority::Hostile => Isolation::H3,
    };
    let network = match answers.internet {
        Internet::None => Network::N2,
        Internet::Listed => Network::N1,
        Internet::Full => Network::N0,
    };
    let approval = match (tooling, network, answers.audience) {
        (Tooling::T1 | Tooling::T2, Network::N1 | Network::N2, Audience::Private) => None,
        (_, _, Audience::Private) => Some(Approval::Dev),
        (_, _, Audience::Shared) => Some(Approval::Prod),
    };
    let mut reasons = vec![
        format!("{tooling}: {}", tooling.summary()),
        format!("{isolation}: {}", isolation.summary()),
        format!("{network}: {}", network.summary()),
    ];
    if let Some(approval) = &approval {
        reasons.push(format!("approval {approval}: {}", approval.summary()));
    }
    if network == Network::N0 {
        reasons.push("N0 needs a written justification; N1 with a list is safer".into());
    }
    Choice { profile: Profile::new(tooling, isolation, network), approval, reasons }
}

impl Choice {
    /// The start of a profile document, ready to be saved and filled in.
    pub fn document(&self) -> String {
        let mut text = format!("profile: {}\n", self.profile);
        if let Some(approval) = &self.approval {
            let _ = writeln!(text, "approval: {approval}");
        }
        if self.profile.isolation > Isolation::H1 {
            text.push_str("# image: required here; by digest where you can\n");
        }
        match self.profile.network {
            Network::N0 => {
                text.push_str("# justification: required for N0: why full network is needed, and who agreed\n");
            }
            Network::N1 => text.push_str(
                "network:\n  allow_domains: []   # such as example.org, \"*.example.org\", tcp://git.example.org:22\n",
            ),
            Network::N2 => {}
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_typical_profiles_are_what_the_questions_lead_to() {
        for (tools, priority, internet, expected) in [
            (Tools::None, Priority::Simplicity, Internet::None, "T2.H1.N2"),
            (Tools::Web, Priority::Simplicity, Internet::Listed, "T1.H1.N1"),
            (Tools::Code, Priority::Scale, Internet::Listed, "T0.H2.N1"),
            (Tools::Code, Priority::Hostile, Internet::None, "T0.H3.N2"),
        ] {
            let choice = choose(Answers { tools, priority, internet, audience: Audience::Private });
            assert_eq!(choice.profile.to_string(), expected);
        }
    }

    #[test]
    fn a_shared_setting_gets_the_stricter_preset() {
        let answers = |audience| Answers {
            tools: Tools::Code,
            priority: Priority::Simplicity,
            internet: Internet::None,
            audience,
        };
        assert_eq!(choose(answers(Audience::Private)).approval, Some(Approval::Dev));
        assert_eq!(choose(answers(Audience::Shared)).approval, Some(Approval::Prod));
    }
}

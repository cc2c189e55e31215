//! How answers are judged, and what is made of it: the types.

use std::fmt;

/// How an answer is judged.
#[derive(Debug, Clone, PartialEq)]
pub enum Scorer {
    /// It is the target, but for space, case and punctuation.
    Exact,
    /// How many words it shares with the target: a number from 0 to 1.
    F1 {
        /// Words that do not count.
        stop_words: Vec<String>,
    },
    /// It holds the target.
    Includes {
        /// Whether case matters not.
        ignore_case: bool,
    },
    /// It begins or ends with the target.
    Match {
        /// Where.
        location: Location,
        /// Whether case matters not.
        ignore_case: bool,
        /// Whether targets that are numbers are compared as numbers.
        numeric: bool,
    },
    /// What a regular expression finds in it is the target.
    Pattern {
        /// The expression; its first group, or all of it.
        pattern: String,
        /// Whether case matters not.
        ignore_case: bool,
    },
    /// The letter that was chosen is right.
    Choice,
    /// A script in the sandbox says, after the agent: exit code 0 is right; a number on its last line is the score.
    Script {
        /// Run by `sh`; `$ANSWER` and `$TARGET` are set.
        script: String,
        /// Milliseconds.
        timeout: u64,
    },
    /// One or several models say.
    Graded(Box<Graded>),
}

/// Judging by models.
#[derive(Debug, Clone, PartialEq)]
pub struct Graded {
    /// What they are asked, where the template does not say.
    pub rubric: Rubric,
    /// The prompt: `{question}`, `{answer}`, `{criterion}`, `{instructions}`, `{boundary}` and names of the metadata are filled.
    pub template: Option<String>,
    /// How they are to say their grade; absent means as we ask them to.
    pub instructions: Option<String>,
    /// Where the grade is in their reply: the first group, or all that is found; the last one counts.
    pub grade_pattern: Option<String>,
    /// Whether an answer may be right in part; counts only with our own instructions.
    pub partial_credit: bool,
    /// Whether the conversation stands in place of the question.
    pub include_history: bool,
    /// Who.
    pub graders: Graders,
    /// What several of them come to.
    pub vote: Vote,
}

/// What graders are asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rubric {
    /// Whether the answer meets the target as a criterion.
    Question,
    /// Whether the answer says what the target says.
    Fact,
}

/// Who grades.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Graders {
    /// Whoever has this role; the model that answers, if nobody has.
    Role(String),
    /// These models, each for itself; never empty.
    Models(Vec<String>),
}

/// What several grades come to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Vote {
    /// The grade of more than half of the graders; there is none if there is no such.
    Majority,
    /// The most frequent grade; of several, that of the grader who is named first.
    Mode,
}

/// Where a target is looked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Location {
    /// At the beginning.
    Begin,
    /// At the end.
    End,
    /// Anywhere.
    Any,
    /// All of it.
    Exact,
}

/// How often each sample is asked, and what is made of the scores.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Epochs {
    /// At least 1.
    pub count: u32,
    /// Never empty; the first counts.
    pub reducers: Vec<Reducer>,
}

/// What is made of the scores of one sample.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reducer {
    /// Their mean.
    Mean,
    /// Their median.
    Median,
    /// The most frequent; of several, the first.
    Mode,
    /// The best.
    Max,
    /// 1 if so many are right.
    AtLeast(u32),
    /// How likely one of so many is right.
    PassAt(u32),
}

impl Reducer {
    /// How many epochs it needs.
    pub fn needs(self) -> u32 {
        match self {
            Self::Mean | Self::Median | Self::Mode | Self::Max => 1,
            Self::AtLeast(count) | Self::PassAt(count) => count,
        }
    }
}

/// As task files and logs name it.
impl fmt::Display for Reducer {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Mean => out.write_str("mean"),
            Self::Median => out.write_str("median"),
            Self::Mode => out.write_str("mode"),
            Self::Max => out.write_str("max"),
            Self::AtLeast(count) => write!(out, "at_least_{count}"),
            Self::PassAt(count) => write!(out, "pass_at_{count}"),
        }
    }
}

/// What the scores of all samples come to.
#[derive(Debug, Clone, PartialEq)]
pub enum Metric {
    /// The share that is right; what is right in part counts half.
    Accuracy,
    /// Their mean.
    Mean,
    /// Their standard deviation.
    Std,
    /// Their variance.
    Var,
    /// The standard error of their mean.
    Stderr {
        /// A name of the metadata: samples that agree there go together.
        cluster: Option<String>,
    },
    /// The standard error of their mean, and an interval around it, by drawing from them.
    Bootstrap {
        /// How often.
        resamples: u32,
        /// How much of the draws lies in the interval: more than 0 and less than 1.
        level: f64,
    },
    /// Others, for each group of samples.
    Grouped {
        /// A name of the metadata: samples that agree there are a group.
        by: String,
        /// Which; never grouped themselves.
        metrics: Vec<Metric>,
        /// What is said of all groups.
        all: AllGroups,
    },
}

/// What is said of all groups.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AllGroups {
    /// The metric of all samples.
    Samples,
    /// The mean of the groups.
    Groups,
    /// Nothing.
    None,
}

impl Metric {
    /// What is said where nobody asks for anything else.
    pub fn defaults() -> Vec<Self> {
        vec![Self::Accuracy, Self::Mean, Self::Stderr { cluster: None }]
    }

    /// Names of the metadata that it needs in every sample.
    pub fn asks(&self) -> Vec<&str> {
        match self {
            Self::Stderr { cluster } => cluster.as_deref().into_iter().collect(),
            Self::Grouped { by, metrics, .. } => {
                std::iter::once(by.as_str()).chain(metrics.iter().flat_map(Self::asks)).collect()
            }
            Self::Accuracy | Self::Mean | Self::Std | Self::Var | Self::Bootstrap { .. } => Vec::new(),
        }
    }

    /// Whether a group called `all` would stand where all groups do.
    pub(crate) fn has_all_of(&self) -> Option<&str> {
        match self {
            Self::Grouped { by, all: AllGroups::Samples | AllGroups::Groups, .. } => Some(by),
            _ => None,
        }
    }
}

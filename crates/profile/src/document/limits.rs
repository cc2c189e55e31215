//! Limits: what one sample may use up.

use serde::Serialize;

use crate::problem::{Located, Place};
use crate::reader::{Complaints, Fields};
use crate::units::{Bytes, Count, MilliCpus, Millis};
use crate::yaml::Node;

/// Declares the limits once: field, type, default, what it bounds.
macro_rules! limits {
    ($($field:ident: $amount:ident = $default:expr, $doc:literal;)+) => {
        /// What one sample may use up; what a document does not state has a default.
        #[derive(Debug, Clone, PartialEq, Eq)]
        pub struct Limits {
            $(#[doc = $doc] pub $field: Limit<$amount>,)+
        }

        impl Default for Limits {
            fn default() -> Self {
                Self { $($field: Limit { amount: $default, stated: Stated::Nowhere },)+ }
            }
        }

        impl Limits {
            /// Their keys.
            pub const KEYS: &[&str] = &[$(stringify!($field)),+];

            /// Reads `limits:`; what is not stated keeps its default.
            pub(crate) fn read(node: Node, complaints: &Complaints) -> Self {
                let mut limits = Self::default();
                let Some(mut fields) = Fields::open(node, "`limits`", Self::KEYS, complaints) else { return limits };
                $(if let Some(Located { value, place }) = fields.parsed(stringify!($field)) {
                    limits.$field = Limit { amount: value, stated: place.map_or(Stated::CommandLine, Stated::File) };
                })+
                fields.close();
                limits
            }

            /// The amounts by name, as people read them, with where each was stated.
            pub fn entries(&self) -> Vec<(&'static str, String, Stated)> {
                vec![$((concat!("limits.", stringify!($field)), self.$field.amount.to_string(), self.$field.stated)),+]
            }
        }

        impl Serialize for Limits {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                use serde::ser::SerializeStruct as _;
                let mut state = serializer.serialize_struct("Limits", Self::KEYS.len())?;
                $(state.serialize_field(stringify!($field), &self.$field.amount)?;)+
                state.end()
            }
        }
    };
}

/// What a service may use up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct ServiceLimits {
    /// Memory.
    pub memory: Bytes,
    /// Processes.
    pub pids: Count,
    /// Processors.
    pub cpu: MilliCpus,
}

/// A limit and where it was stated; a stated one must hold, a default one may be lost with a word about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limit<T> {
    /// The amount.
    pub amount: T,
    /// Where it was stated.
    pub stated: Stated,
}

/// Where a limit was stated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stated {
    /// Nowhere: it is the default.
    Nowhere,
    /// In the document.
    File(Place),
    /// On the command line.
    CommandLine,
}

impl Stated {
    /// Where in the document, if it is there.
    pub fn place(self) -> Option<Place> {
        match self {
            Self::File(place) => Some(place),
            Self::Nowhere | Self::CommandLine => None,
        }
    }
}

limits! {
    time: Millis = Millis(3_600_000), "Wall time of one sample, in milliseconds.";
    tool_timeout: Millis = Millis(15_000), "Time of one tool call, in milliseconds.";
    output: Bytes = Bytes(16_384), "Bytes of one tool call's output that the model is shown.";
    memory: Bytes = Bytes(2 << 30), "Memory of one sandbox.";
    cpu: MilliCpus = MilliCpus(1_000), "Processors of one sandbox, in thousandths.";
    pids: Count = Count(512), "Processes and threads of one sandbox.";
    disk: Bytes = Bytes(1 << 30), "Bytes that one sandbox may write.";
    file_size: Bytes = Bytes(100 << 20), "Bytes of one file read from or written to a sandbox.";
}

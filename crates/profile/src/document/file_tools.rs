//! How the file tools behave: in memory or in the sandbox, and within which bounds.

use std::str::FromStr;

use crate::glob::{Glob, MAX_GLOBS};
use crate::problem::{Located, Problem};
use crate::reader::{self, Complaints, Fields};
use crate::units::Bytes;
use crate::words::words;
use crate::yaml::Node;

words!(
    /// Where the file tools work; ordered from the one that grants more.
    FileMode, "a file mode", {
        /// In the sandbox's file system, under a root.
        Sandbox = "sandbox",
        /// In memory, per sample.
        Store = "store",
    }
);

words!(
    /// What happens when the sandbox cannot serve the file tools; ordered from lax to strict.
    Preflight, "a preflight mode", {
        /// Do not look.
        Skip = "skip",
        /// Look, and fall back to the store with a recorded event.
        Auto = "auto",
        /// Look, and fail.
        Force = "force",
    }
);

/// What a document says of the file tools; absent fields keep their defaults.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FileTools {
    /// Where they work; `store` by default.
    pub mode: Option<Located<FileMode>>,
    /// The directory they are confined to; `/repo` by default.
    pub root: Option<Located<String>>,
    /// Whether they may only read.
    pub read_only: Option<bool>,
    /// The largest file they touch; 5,000,000 bytes by default.
    pub max_bytes: Option<Located<Bytes>>,
    /// The preflight; `auto` by default, `force` at H1 and above in sandbox mode.
    pub preflight: Option<Located<Preflight>>,
    /// What they may touch below the root: absent means everything, empty nothing.
    pub allow: Option<Vec<Located<Glob>>>,
    /// What they may not, whatever is allowed.
    pub deny: Vec<Located<Glob>>,
}

const KEYS: &[&str] = &["mode", "root", "read_only", "max_bytes", "preflight", "allow", "deny"];

impl FileTools {
    /// Reads `file_tools:`.
    pub(crate) fn read(node: Node, complaints: &Complaints) -> Self {
        let Some(mut fields) = Fields::open(node, "`file_tools`", KEYS, complaints) else { return Self::default() };
        let tools = Self {
            mode: fields.parsed("mode"),
            root: fields.parsed::<Root>("root").map(|root| Located { value: root.value.0, place: root.place }),
            read_only: fields.truth("read_only"),
            max_bytes: fields.parsed("max_bytes"),
            preflight: fields.parsed("preflight"),
            allow: fields.has("allow").then(|| globs(&mut fields, "allow")),
            deny: globs(&mut fields, "deny"),
        };
        fields.close();
        tools
    }
}

fn globs(fields: &mut Fields<'_>, key: &str) -> Vec<Located<Glob>> {
    let (place, complaints) = (fields.place_of(key), fields.complaints());
    let nodes = fields.list(key);
    if nodes.len() > MAX_GLOBS {
        complaints.add(Problem { place, message: format!("`{key}` has more than {MAX_GLOBS} globs"), hint: None });
        return Vec::new();
    }
    nodes.into_iter().filter_map(|node| reader::parsed(node, key, complaints, |_| None)).collect()
}

/// An absolute path without `.` or `..` parts.
pub(crate) struct Root(pub(crate) String);

impl FromStr for Root {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let clean =
            text.starts_with('/') && !text.contains('\0') && text.split('/').all(|part| part != "." && part != "..");
        if clean {
            Ok(Self(text.to_owned()))
        } else {
            Err(format!("`{text}` is not an absolute path without . and .."))
        }
    }
}

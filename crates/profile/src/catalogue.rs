//! The standard tools, under the names that Inspect users know.

use crate::affordance::{Affordance, Kind, Reach, Runs, Sensitivity};
use crate::level::Tooling;

use Reach::{Nothing, Sandbox, Web};
use Runs::{Host, Provider};
use Sensitivity::{Plain, Sensitive};
use Tooling::{T0, T1};

/// Name, where it runs, what it reaches, sensitivity, strictest level that grants it.
const TOOLS: &[(&str, Runs, Reach, Sensitivity, Tooling)] = &[
    ("bash", Runs::Sandbox, Sandbox, Sensitive, T0),
    ("bash_session", Runs::Sandbox, Sandbox, Sensitive, T0),
    ("python", Runs::Sandbox, Sandbox, Sensitive, T0),
    ("text_editor", Runs::Sandbox, Nothing, Sensitive, T0),
    ("write_file", Runs::Sandbox, Nothing, Sensitive, T0),
    ("edit_file", Runs::Sandbox, Nothing, Sensitive, T0),
    ("delete_file", Runs::Sandbox, Nothing, Sensitive, T0),
    ("read_file", Runs::Sandbox, Nothing, Plain, T1),
    ("ls", Runs::Sandbox, Nothing, Plain, T1),
    ("web_browser", Runs::Sandbox, Web, Sensitive, T1),
    ("web_fetch", Runs::Sandbox, Web, Plain, T1),
    // Runs on our host; its reach is the search provider's name, which the document must state.
    ("web_search", Host, Nothing, Plain, T1),
    ("think", Host, Nothing, Plain, T1),
    ("todo_write", Host, Nothing, Plain, T1),
    ("submit", Host, Nothing, Plain, T1),
    // The model provider's own. Sensitive both: nobody of ours sees a call before it is made.
    (PROVIDER_WEB_SEARCH, Provider, Reach::Provider, Sensitive, T1),
    (PROVIDER_CODE_EXECUTION, Provider, Reach::Provider, Sensitive, T0),
];

/// Tools that run arbitrary code: what `INSPECT_ENABLE_EXEC` speaks of.
pub(crate) const EXECUTION_TOOLS: &[&str] = &["bash", "bash_session", "python"];
/// The search of the model provider itself.
pub(crate) const PROVIDER_WEB_SEARCH: &str = "provider_web_search";
/// The code runner of the model provider itself.
pub(crate) const PROVIDER_CODE_EXECUTION: &str = "provider_code_execution";
/// Tools that change files: naming one in a document makes the file tools writable.
pub(crate) const WRITE_TOOLS: &[&str] = &["write_file", "edit_file", "delete_file", "text_editor"];
/// Tools that work with files: in memory they run in our own process.
pub(crate) const FILE_TOOLS: &[&str] = &["read_file", "ls", "write_file", "edit_file", "delete_file", "text_editor"];
/// The tool whose reach is not known before its provider is.
pub(crate) const WEB_SEARCH: &str = "web_search";
/// The tool of `INSPECT_ENABLE_WEB_BROWSER`.
pub(crate) const WEB_BROWSER: &str = "web_browser";

/// The standard tool of that name.
pub fn standard_tool(name: &str) -> Option<Affordance> {
    standard_tools().find(|tool| tool.name == name)
}

/// Every standard tool.
pub fn standard_tools() -> impl Iterator<Item = Affordance> {
    TOOLS.iter().map(|(name, runs, reach, sensitivity, needs)| Affordance {
        name: (*name).to_owned(),
        kind: Kind::Tool,
        runs: *runs,
        reach: reach.clone(),
        sensitivity: *sensitivity,
        needs: *needs,
    })
}

/// What an agent gets when a document does not list tools. `web_search` is left out: it needs a provider, and the
/// browser too: it is large and optional even at T0. What runs at the model provider is had by its name alone.
pub fn default_tools() -> impl Iterator<Item = Affordance> {
    standard_tools().filter(|tool| tool.name != WEB_SEARCH && tool.name != WEB_BROWSER && tool.runs != Provider)
}

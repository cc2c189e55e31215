//! Where files are: in memory or in the sandbox. The same questions, and the same answers.

use log::message::ToolError;
use profile::FileToolsInForce;
use sandbox::SessionError;

use super::guard::{self, Spot};
use super::sandboxed::Sandboxed;
use super::store::Store;

/// What sort of thing an entry is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Sort {
    File,
    Directory,
    Link,
    /// A pipe, socket or device.
    Other,
}

/// One entry of a directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Entry {
    /// As bytes: names need not be text.
    pub(super) name: Vec<u8>,
    pub(super) sort: Sort,
}

/// Why a call failed.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Failed {
    pub(super) error: ToolError,
    /// Why nothing more can be done in the sandbox.
    pub(super) gone: Option<SessionError>,
}

impl From<ToolError> for Failed {
    fn from(error: ToolError) -> Self {
        Self { error, gone: None }
    }
}

pub(super) enum Disk<'a> {
    Memory(&'a mut Store),
    Sandbox(Sandboxed<'a>),
}

impl Disk<'_> {
    pub(super) async fn read(&self, spot: &Spot, rules: &FileToolsInForce) -> Result<String, Failed> {
        let bytes = match self {
            Self::Memory(store) => store.read(spot)?,
            Self::Sandbox(sandbox) => sandbox.read(spot, guard::max_bytes(rules)).await?,
        };
        String::from_utf8(bytes).map_err(|_| guard::not_text(spot).into())
    }

    pub(super) async fn write(&mut self, spot: &Spot, text: &str, rules: &FileToolsInForce) -> Result<(), Failed> {
        guard::require_size(text.len(), rules)?;
        match self {
            Self::Memory(store) => Ok(store.write(spot, text.as_bytes())?),
            Self::Sandbox(sandbox) => sandbox.write(spot, text.as_bytes()).await,
        }
    }

    /// What is in a directory that the rules let be seen, by name.
    pub(super) async fn list(&self, spot: &Spot, rules: &FileToolsInForce) -> Result<Vec<Entry>, Failed> {
        let mut entries = match self {
            Self::Memory(store) => store.list(spot)?,
            Self::Sandbox(sandbox) => sandbox.list(spot).await?,
        };
        entries.retain(|entry| {
            let name = String::from_utf8_lossy(&entry.name);
            let path = if spot.path.is_empty() { name.into_owned() } else { format!("{}/{name}", spot.path) };
            let forbidden = match entry.sort {
                Sort::Directory => rules.forbids_looking_into(&path),
                Sort::File | Sort::Link | Sort::Other => rules.forbids(&path),
            };
            forbidden.is_none()
        });
        entries.sort_by(|one, other| one.name.cmp(&other.name));
        Ok(entries)
    }

    pub(super) fn delete(&mut self, spot: &Spot) -> Result<(), Failed> {
        match self {
            Self::Memory(store) => Ok(store.delete(spot)?),
            Self::Sandbox(_) => Err(guard::unsupported().into()),
        }
    }
}

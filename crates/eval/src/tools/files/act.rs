//! What each tool does, wherever the files are.

use std::fmt::Write as _;

use log::message::{ToolError, ToolErrorKind};
use profile::FileToolsInForce;

use super::disk::{Disk, Entry, Failed, Sort};
use super::edit::{self, Matches};
use super::guard::{self, Spot, Use};
use super::history::{Before, History};
use super::names;
use crate::tools::Tool;
use crate::tools::schema::Arguments;

/// Directories, and entries, that one view shows.
const MAX_DIRECTORIES: usize = 200;
const MAX_ENTRIES: usize = 5000;

/// Everything that a call works with.
pub(super) struct Work<'a> {
    pub(super) disk: Disk<'a>,
    pub(super) history: &'a mut History,
    pub(super) rules: &'a FileToolsInForce,
}

impl Work<'_> {
    pub(super) async fn act(&mut self, tool: Tool, arguments: &Arguments) -> Result<String, Failed> {
        match tool {
            Tool::ReadFile => self.read(arguments).await,
            Tool::WriteFile => self.write(arguments).await,
            Tool::EditFile => self.edit(arguments).await,
            Tool::Ls => self.ls(arguments.text("path")).await,
            Tool::DeleteFile => self.delete(arguments.text("file_path")),
            Tool::TextEditor => self.text_editor(arguments).await,
            _ => Err(wrong(ToolErrorKind::Unknown, "this is no file tool").into()),
        }
    }

    fn spot(&self, given: &str, wanted: Use) -> Result<Spot, ToolError> {
        Spot::check(given, wanted, self.rules)
    }

    async fn read(&self, arguments: &Arguments) -> Result<String, Failed> {
        let spot = self.spot(arguments.text("file_path"), Use::Read)?;
        let text = self.disk.read(&spot, self.rules).await?;
        let (offset, limit) = (arguments.integer("offset"), arguments.integer("limit"));
        Ok(edit::page(&text, offset.unwrap_or(0), limit.unwrap_or(edit::PAGE))?)
    }

    async fn write(&mut self, arguments: &Arguments) -> Result<String, Failed> {
        let spot = self.spot(arguments.text("file_path"), Use::Change)?;
        self.disk.write(&spot, arguments.text("content"), self.rules).await?;
        Ok(format!("Updated file {}", spot.shown))
    }

    async fn edit(&mut self, arguments: &Arguments) -> Result<String, Failed> {
        let spot = self.spot(arguments.text("file_path"), Use::Change)?;
        let text = self.disk.read(&spot, self.rules).await?;
        let which = if arguments.truth("replace_all") { Matches::All } else { Matches::First };
        let words = (arguments.text("old_string"), arguments.text("new_string"));
        let fits = |bytes| guard::require_size(bytes, self.rules);
        let (after, count) = edit::edited(&text, words, which, arguments.integer("expected_count"), fits)?;
        let times = if count == 1 { "1 replacement".to_owned() } else { format!("{count} replacements") };
        if arguments.truth("dry_run") {
            return Ok(format!("Would update file {} ({times}); dry_run: nothing was written", spot.shown));
        }
        self.disk.write(&spot, &after, self.rules).await?;
        Ok(format!("Updated file {} ({times})", spot.shown))
    }

    async fn ls(&self, given: &str) -> Result<String, Failed> {
        let spot = self.spot(given, Use::Look)?;
        let entries = self.disk.list(&spot, self.rules).await?;
        if entries.is_empty() {
            return Ok(format!("{} is empty", spot.shown));
        }
        let lines: Vec<String> = entries.iter().map(line).collect();
        Ok(lines.join("\n"))
    }

    fn delete(&mut self, given: &str) -> Result<String, Failed> {
        let spot = self.spot(given, Use::Change)?;
        self.disk.delete(&spot)?;
        Ok(format!("Deleted file {}", spot.shown))
    }

    async fn text_editor(&mut self, arguments: &Arguments) -> Result<String, Failed> {
        let given = arguments.text("path");
        let needed = |name: &str| {
            arguments.maybe_text(name).ok_or_else(|| {
                let command = arguments.text("command");
                wrong(ToolErrorKind::Parsing, format!("`{name}` is required for the command `{command}`"))
            })
        };
        match arguments.text("command") {
            "view" => self.view(given, arguments.integers("view_range").as_deref()).await,
            "create" => {
                let (spot, text) = (self.spot(given, Use::Change)?, needed("file_text")?);
                self.create(&spot, text).await
            }
            "str_replace" => {
                let (spot, old) = (self.spot(given, Use::Change)?, needed("old_str")?);
                let text = self.disk.read(&spot, self.rules).await?;
                let (after, said) = edit::replaced(&text, old, arguments.text("new_str"), &spot.shown)?;
                self.change(&spot, text, &after).await?;
                Ok(said)
            }
            "insert" => {
                let spot = self.spot(given, Use::Change)?;
                let new = arguments.maybe_text("insert_text").map_or_else(|| needed("new_str"), Ok)?;
                let at = arguments.integer("insert_line").ok_or_else(|| {
                    wrong(ToolErrorKind::Parsing, "`insert_line` is required for the command `insert`")
                })?;
                let text = self.disk.read(&spot, self.rules).await?;
                let (after, said) = edit::inserted(&text, at, new, &spot.shown)?;
                self.change(&spot, text, &after).await?;
                Ok(said)
            }
            _ => self.undo(given).await,
        }
    }

    async fn create(&mut self, spot: &Spot, text: &str) -> Result<String, Failed> {
        let there = self.disk.read(spot, self.rules).await;
        match there.map_err(|failed| (failed.error.kind, failed)) {
            Err((ToolErrorKind::FileNotFound, _)) => {}
            Ok(_) | Err((ToolErrorKind::UnicodeDecode | ToolErrorKind::Limit, _)) => {
                let message =
                    format!("File already exists at: {}. Cannot overwrite files using command `create`.", spot.shown);
                return Err(wrong(ToolErrorKind::Unknown, message).into());
            }
            Err((_, failed)) => return Err(failed),
        }
        self.disk.write(spot, text, self.rules).await?;
        self.history.push(&spot.path, Before::Nothing);
        Ok(format!("File created successfully at: {}", spot.shown))
    }

    async fn change(&mut self, spot: &Spot, before: String, after: &str) -> Result<(), Failed> {
        self.disk.write(spot, after, self.rules).await?;
        self.history.push(&spot.path, Before::Text(before));
        Ok(())
    }

    async fn undo(&mut self, given: &str) -> Result<String, Failed> {
        let spot = self.spot(given, Use::Change)?;
        let said = match self.history.last(&spot.path).cloned() {
            None => {
                let message = format!("No edit history found for {}.", spot.shown);
                return Err(wrong(ToolErrorKind::Unknown, message).into());
            }
            Some(Before::Nothing) => {
                self.disk.delete(&spot)?;
                format!("File deleted at: {}", spot.shown)
            }
            Some(Before::Text(text)) => {
                self.disk.write(&spot, &text, self.rules).await?;
                let viewed = edit::viewed(&text, &spot.shown, None)?;
                format!("Last edit to {} undone successfully. {viewed}", spot.shown)
            }
        };
        self.history.pop(&spot.path);
        Ok(said)
    }

    async fn view(&self, given: &str, range: Option<&[i64]>) -> Result<String, Failed> {
        // A directory that may be looked into need not be one whose files may be read.
        let spot = self.spot(given, Use::Look)?;
        let read = match self.spot(given, Use::Read) {
            Ok(spot) => self.disk.read(&spot, self.rules).await,
            Err(error) => Err(error.into()),
        };
        match read {
            Ok(text) => Ok(edit::viewed(&text, &spot.shown, range)?),
            Err(failed) if failed.error.kind == ToolErrorKind::IsADirectory => self.view_directory(&spot).await,
            // Denied as a file, and perhaps a directory on the way to something that is allowed.
            Err(failed) if failed.error.message.starts_with("PolicyDenied") => {
                match self.disk.list(&spot, self.rules).await {
                    Ok(_) => self.view_directory(&spot).await,
                    Err(_) => Err(failed),
                }
            }
            Err(failed) => Err(failed),
        }
    }

    async fn view_directory(&self, spot: &Spot) -> Result<String, Failed> {
        let mut out = spot.shown.clone();
        let (mut shown, mut directories, mut left_out) = (0, 0, false);
        let is_hidden = |entry: &Entry| entry.name.starts_with(b".");
        let base = spot.shown.trim_end_matches('/').to_owned();
        for entry in self.disk.list(spot, self.rules).await?.iter().filter(|entry| !is_hidden(entry)) {
            shown += 1;
            let _ = write!(out, "\n{base}/{}", line(entry));
            let name = std::str::from_utf8(&entry.name).ok().filter(|_| entry.sort == Sort::Directory);
            let Some(name) = name else { continue };
            directories += 1;
            if directories > MAX_DIRECTORIES || shown > MAX_ENTRIES {
                left_out = true;
                continue;
            }
            let path = if spot.path.is_empty() { name.to_owned() } else { format!("{}/{name}", spot.path) };
            let below = Spot { path, shown: format!("{base}/{}", names::escaped(&entry.name)) };
            // What is gone meanwhile, or may not be read, is left out.
            let Ok(entries) = self.disk.list(&below, self.rules).await else { continue };
            for entry in entries.iter().filter(|entry| !is_hidden(entry)).take(MAX_ENTRIES) {
                shown += 1;
                let _ = write!(out, "\n{}/{}", below.shown, line(entry));
            }
        }
        let note = if left_out { "[… some are left out]\n" } else { "" };
        Ok(format!(
            "Here are the files and directories up to 2 levels deep in {}, excluding hidden items:\n{out}\n{note}",
            spot.shown
        ))
    }
}

/// An entry as it is listed: a directory ends in `/`, a link in `@`, a pipe, socket or device in `=`.
fn line(entry: &Entry) -> String {
    let mark = match entry.sort {
        Sort::File => "",
        Sort::Directory => "/",
        Sort::Link => "@",
        Sort::Other => "=",
    };
    format!("{}{mark}", names::escaped(&entry.name))
}

fn wrong(kind: ToolErrorKind, message: impl Into<String>) -> ToolError {
    ToolError { kind, message: message.into() }
}

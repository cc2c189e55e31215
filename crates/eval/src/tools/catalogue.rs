//! Every tool with what it does and takes, under the names that Inspect users know.

use super::schema::{Kind, Parameter, may, needed};
use super::{SUBMIT, Tool};

use Kind::{Integer, Integers, OneOf, Steps, Text, Truth, Words};

const FILE: Parameter = needed("file_path", Text, "The file");

impl Tool {
    pub(crate) const ALL: [Self; 14] = [
        Self::Bash,
        Self::Python,
        Self::BashSession,
        Self::ReadFile,
        Self::WriteFile,
        Self::EditFile,
        Self::Ls,
        Self::DeleteFile,
        Self::TextEditor,
        Self::Think,
        Self::TodoWrite,
        Self::WebSearch,
        Self::WebFetch,
        Self::Submit,
    ];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Bash => "bash",
            Self::Python => "python",
            Self::BashSession => "bash_session",
            Self::ReadFile => "read_file",
            Self::WriteFile => "write_file",
            Self::EditFile => "edit_file",
            Self::Ls => "ls",
            Self::DeleteFile => "delete_file",
            Self::TextEditor => "text_editor",
            Self::Think => "think",
            Self::TodoWrite => "todo_write",
            Self::WebSearch => "web_search",
            Self::WebFetch => "web_fetch",
            Self::Submit => SUBMIT,
        }
    }

    pub(super) fn description(self) -> &'static str {
        match self {
            Self::Bash => "Run a command with bash and get what it prints.",
            Self::Python => "Run Python code and get what it prints; print what you want to see.",
            Self::BashSession => {
                "Work in a bash shell that stays: type into it, read what it shows, interrupt what runs, or restart it. \
                 Output that comes later is got by `read`."
            }
            Self::ReadFile => "Read a file. Lines are numbered; long files are read in parts by offset and limit.",
            Self::WriteFile => "Write a file, replacing what it held; directories are made.",
            Self::EditFile => "Replace a text in a file: the first match, or all.",
            Self::Ls => "List a directory; names of directories end in a slash.",
            Self::DeleteFile => "Delete a file.",
            Self::TextEditor => "View, create and edit files; the last edits of a file can be undone.",
            Self::Think => "Write down a thought. Nothing happens; it helps to think.",
            Self::TodoWrite => {
                "Keep a list of steps, each pending, in_progress or completed. The whole list is replaced."
            }
            Self::WebSearch => "Search the web and get titles, addresses and summaries.",
            Self::WebFetch => "Get the text of a page.",
            Self::Submit => "Say that the task is done, with its answer.",
        }
    }

    pub(crate) fn parameters(self) -> &'static [Parameter] {
        match self {
            Self::Bash => const { &[needed("command", Text, "The command to run")] },
            Self::Python => const { &[needed("code", Text, "The Python code to run")] },
            Self::BashSession => {
                const {
                    &[
                        needed(
                            "action",
                            OneOf(&["type", "type_submit", "restart", "read", "interrupt"]),
                            "type: send input; type_submit: send input and Enter; read: get new output; interrupt: Ctrl-C; \
                             restart: a new shell",
                        ),
                        may("input", Text, "What to type, for type and type_submit"),
                    ]
                }
            }
            Self::ReadFile => {
                const {
                    &[
                        FILE,
                        may("offset", Integer, "Lines to leave out at the beginning; 0 by default"),
                        may("limit", Integer, "The most lines to read; 2000 by default"),
                    ]
                }
            }
            Self::WriteFile => const { &[FILE, needed("content", Text, "What it is to hold")] },
            Self::EditFile => {
                const {
                    &[
                        FILE,
                        needed("old_string", Text, "The text to replace, exactly as it stands"),
                        needed("new_string", Text, "What to put there"),
                        may("replace_all", Truth, "Replace every match; false by default"),
                        may("expected_count", Integer, "How many matches there must be; else nothing is changed"),
                        may("dry_run", Truth, "Say what would be done, and do nothing"),
                    ]
                }
            }
            Self::Ls => const { &[may("path", Text, "The directory; the root of all files by default")] },
            Self::DeleteFile => const { &[FILE] },
            Self::TextEditor => {
                const {
                    &[
                        needed(
                            "command",
                            OneOf(&["view", "create", "str_replace", "insert", "undo_edit"]),
                            "What to do; undo_edit takes back the last edit of the file, at most ten",
                        ),
                        needed("path", Text, "The file, or for view a directory"),
                        may("file_text", Text, "create: what the file is to hold"),
                        may("insert_line", Integer, "insert: the line after which the text goes; 0 is the beginning"),
                        may("insert_text", Text, "insert: the text"),
                        may("new_str", Text, "str_replace: what to put there; nothing by default"),
                        may("old_str", Text, "str_replace: the text to replace, which must be there exactly once"),
                        may("view_range", Integers, "view: first and last line, from 1; -1 is the end"),
                    ]
                }
            }
            Self::Think => const { &[needed("thought", Text, "The thought")] },
            Self::TodoWrite => {
                const { &[needed("todos", Steps, "All steps"), may("explanation", Text, "Why the list changes")] }
            }
            Self::WebSearch => const { &[needed("query", Text, "What to search for")] },
            Self::WebFetch => const { &[needed("url", Text, "The address: http or https")] },
            Self::Submit => const { &[needed("answer", Words, "The answer")] },
        }
    }
}

//! `key new|show`: the key that signs receipts. Its secret half is never shown.

use std::path::Path;

use receipt::{KeyError, PublicKey, SigningKey};
use serde_json::json;

use super::receipts::{Place, VARIABLE, place};
use crate::args::KeyCommand;
use crate::exit::Exit;
use crate::printer::{Look, Printer, plain, span};

pub(super) fn run(command: &KeyCommand, printer: &mut Printer) -> Exit {
    let (KeyCommand::New { key } | KeyCommand::Show { key, .. }) = command;
    let (Place::Stated(path) | Place::Usual(path)) = place(key.as_deref()) else {
        let text = ": there is no place for a key: neither XDG_CONFIG_HOME nor HOME is set";
        let hint = format!(": name a file by --key or {VARIABLE}");
        printer.message(&vec![
            vec![span(Look::Bad, "error"), plain(text)],
            vec![span(Look::Faint, "  hint"), plain(hint)],
        ]);
        return Exit::Input;
    };
    let done = match command {
        KeyCommand::New { .. } => SigningKey::create(&path).map(|key| key.public()),
        KeyCommand::Show { public, .. } => show(&path, public.as_deref()),
    };
    match done {
        Ok(public) => print(&path, &public, printer),
        Err(error) => {
            super::run::failed(&error, Exit::Input, printer);
            printer.message(&vec![vec![span(Look::Faint, "  hint"), plain(format!(": {}", error.hint()))]]);
            Exit::Input
        }
    }
}

fn show(path: &Path, file: Option<&Path>) -> Result<PublicKey, KeyError> {
    let public = SigningKey::read(path)?.public();
    file.map_or(Ok(()), |file| public.write(file))?;
    Ok(public)
}

fn print(path: &Path, public: &PublicKey, printer: &mut Printer) -> Exit {
    if printer.json() {
        printer.data(&json!({
            "schema": "ringfence.key/1", "file": path, "keyid": public.id().as_str(), "public_key": public.to_pem(),
        }));
        return Exit::Done;
    }
    let mut page = vec![
        vec![span(Look::Faint, "file"), plain(format!("  {}", path.display()))],
        vec![span(Look::Faint, "key"), plain(format!("   {}", public.id()))],
    ];
    page.extend(public.to_pem().lines().map(|line| vec![plain(line)]));
    printer.page(&page);
    Exit::Done
}

//! What a sandbox became, as an image: `run --save-as`, `sandbox snapshot`, `sandbox fork`.

use std::io::{Read, Seek as _, SeekFrom};

use image::{Below, Digest, Image, ImageError, Opened, Source, Store};
use sandbox::{Run, Sandbox};

use super::progress::Bar;
use super::{images, run, sandboxes};
use crate::args::RunArguments;
use crate::exit::Exit;
use crate::printer::Printer;

/// What a sandbox begins with, for whoever keeps what it became: `host`, `dir:` and a path, or an image's digest.
pub(super) fn beginning(reference: &str, image: Option<&Opened>) -> String {
    // A path as it was typed would mean another place elsewhere.
    let whole = |path: &str| std::fs::canonicalize(path).map(|path| format!("dir:{}", path.display()));
    let plain = || match reference.strip_prefix("dir:").map(whole) {
        Some(Ok(whole)) => whole,
        _ => reference.to_owned(),
    };
    image.map_or_else(plain, |opened| opened.image.digest.to_string())
}

/// A name that no source, digest or reference to one can be taken for.
pub(super) fn check_name(name: &str) -> Result<(), ImageError> {
    let is_plain = matches!(name.parse::<Source>(), Ok(Source::Name(_))) && name.parse::<Digest>().is_err();
    if is_plain && !name.contains(['@', '+']) && name.len() <= 200 {
        return Ok(());
    }
    Err(ImageError::Malformed { what: "name", why: format!("`{name}` means something else; choose a plain name") })
}

/// Keeps what a sandbox changed as an image of this name.
pub(super) fn keep(
    name: &str,
    beginning: &str,
    opened: Option<&Opened>,
    archive: impl Read,
) -> Result<Image, ImageError> {
    check_name(name)?;
    let store = Store::of_user()?;
    let image;
    let below = match opened {
        // In use, and so still there, whatever its name means by now.
        Some(opened) => Below::Image(&opened.image),
        None if beginning.parse::<Digest>().is_ok() => {
            image = store.find(beginning)?;
            Below::Image(&image)
        }
        None => Below::Unpinned(beginning),
    };
    image::save(&store, name, below, archive, &Bar::new())
}

/// `sandbox snapshot`: of one that another command holds. Its processes stand still meanwhile, and go on.
pub(super) fn snapshot(runs: &[Run], name: &str, image: &str, printer: &mut Printer) -> Exit {
    match save(runs, name, image, printer) {
        Ok(kept) => {
            images::shown(image, &kept, printer);
            Exit::Done
        }
        Err(exit) => exit,
    }
}

/// `sandbox fork`: a command in a new sandbox that begins with what another has become.
pub(super) fn fork(runs: &[Run], name: &str, mut arguments: RunArguments, printer: &mut Printer) -> Exit {
    let temporary = format!("fork-{}", run::run_name());
    if let Err(exit) = save(runs, name, &temporary, printer) {
        return exit;
    }
    arguments.image = Some(temporary.clone());
    let exit = run::run(&arguments, printer);
    // Whatever it left in the store is only ours.
    let _ = Store::of_user().and_then(|store| store.remove(&temporary).and_then(|()| store.collect()));
    exit
}

fn save(runs: &[Run], name: &str, image: &str, printer: &mut Printer) -> Result<Image, Exit> {
    check_name(image).map_err(|error| images::failed(&error, printer))?;
    let beginning = runs.iter().find(|run| run.name == name).and_then(|run| run.image.clone());
    let mut file = sandboxes::join(runs, name, printer, |sandbox: Sandbox| async move {
        // Complete before anybody reads it: half of an archive would look like a smaller one.
        let mut whole = tempfile::tempfile().map_err(|error| (Exit::Provider, error.to_string()))?;
        sandbox.save(&mut whole).await.map_err(|error| (Exit::Provider, error.to_string()))?;
        Ok(whole)
    })?;
    let beginning = beginning.unwrap_or_else(|| "host".into());
    let kept = file
        .seek(SeekFrom::Start(0))
        .map_err(|source| ImageError::Read { path: name.into(), source })
        .and_then(|_| keep(image, &beginning, None, file));
    kept.map_err(|error| images::failed(&error, printer))
}

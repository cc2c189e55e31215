//! `image`: what is in the store, and how it gets there.

use image::{Digest, Image, ImageError, Opened, Source, Store};
use profile::Bytes;
use serde_json::json;

use super::progress::Bar;
use crate::args::ImageCommand;
use crate::exit::Exit;
use crate::printer::{Look, Printer, plain, span};
use crate::table::{page_width, table};

pub(super) fn run(command: ImageCommand, printer: &mut Printer) -> Exit {
    let result = match command {
        ImageCommand::List => list(printer),
        ImageCommand::Import { source } => import(&source, printer),
        ImageCommand::Pull { name } => pull(&name, printer),
        ImageCommand::Inspect { name } => inspect(&name, printer),
        ImageCommand::Remove { name } => Store::of_user().and_then(|store| store.remove(&name)),
        ImageCommand::Gc => collect(printer),
    };
    match result {
        Ok(()) => Exit::Done,
        Err(error) => failed(&error, printer),
    }
}

/// Says what went wrong with an image, and what to do.
pub(super) fn failed(error: &ImageError, printer: &mut Printer) -> Exit {
    super::run::failed(error, exit_of(error), printer);
    if let Some(hint) = error.hint() {
        printer.message(&vec![vec![span(Look::Faint, "hint"), plain(format!(": {hint}"))]]);
    }
    exit_of(error)
}

fn exit_of(error: &ImageError) -> Exit {
    match error {
        ImageError::Store { .. } | ImageError::Daemon { .. } | ImageError::Pull(_) => Exit::Provider,
        ImageError::Absent { source, .. } => exit_of(source),
        _ => Exit::Input,
    }
}

/// The image that a reference means, brought into the store if need be and held for use. A registry is asked only for
/// what the store does not have.
pub(super) fn open(reference: &str) -> Result<Opened, ImageError> {
    let store = Store::of_user()?;
    let image = match bring(&store, reference) {
        // To a registry a bare digest would be an image that is called `sha256`.
        Err(ImageError::Unknown { name }) if name.parse::<Digest>().is_err() => {
            fetch(&store, &name).map_err(|source| ImageError::Absent { name, source: Box::new(source) })?
        }
        brought => brought?,
    };
    store.use_image(&image)
}

fn bring(store: &Store, reference: &str) -> Result<Image, ImageError> {
    let source: Source = reference
        .parse()
        .map_err(|error: image::SourceError| ImageError::Malformed { what: "source", why: error.to_string() })?;
    image::import(store, &source, &Bar::new())
}

fn import(source: &str, printer: &mut Printer) -> Result<(), ImageError> {
    let image = bring(&Store::of_user()?, source)?;
    shown(source, &image, printer);
    Ok(())
}

fn pull(name: &str, printer: &mut Printer) -> Result<(), ImageError> {
    let image = fetch(&Store::of_user()?, name)?;
    shown(name, &image, printer);
    Ok(())
}

/// Asks the registry, whatever the store has.
fn fetch(store: &Store, name: &str) -> Result<Image, ImageError> {
    let credentials = registry::Credentials::from_docker_config(None)?;
    let client = registry::Registry::new(credentials)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|source| ImageError::Read { path: name.into(), source })?;
    runtime.block_on(image::pull(store, &client, name, &Bar::new()))
}

pub(super) fn shown(name: &str, image: &Image, printer: &mut Printer) {
    if printer.json() {
        printer.data(&json!({"schema": "ringfence.image/1", "name": name, "image": image}));
    } else {
        printer.text(&format!("{}\n", image.digest));
    }
}

fn list(printer: &mut Printer) -> Result<(), ImageError> {
    let images = Store::of_user()?.list()?;
    if printer.json() {
        let images: Vec<_> = images.iter().map(|(name, image)| json!({"name": name, "image": image})).collect();
        printer.data(&json!({"schema": "ringfence.images/1", "images": images}));
        return Ok(());
    }
    let rows: Vec<_> = images
        .iter()
        .map(|(name, image)| {
            let digest: String = image.digest.to_string().chars().take(19).collect();
            vec![
                span(Look::Strong, name.clone()),
                plain(digest),
                plain(format!("{} layers", image.layers.len())),
                plain(Bytes(image.size).to_string()),
            ]
        })
        .collect();
    printer.page(&table(&["name", "digest", "layers", "size"], &rows, page_width()));
    Ok(())
}

fn inspect(name: &str, printer: &mut Printer) -> Result<(), ImageError> {
    let image = Store::of_user()?.find(name)?;
    printer.data(&json!({"schema": "ringfence.image/1", "name": name, "image": image}));
    Ok(())
}

fn collect(printer: &mut Printer) -> Result<(), ImageError> {
    let collected = Store::of_user()?.collect()?;
    if printer.json() {
        printer
            .data(&json!({"schema": "ringfence.gc/1", "layers": collected.layers, "unfinished": collected.unfinished, "busy": collected.busy}));
    } else if collected.busy {
        printer.text("nothing removed: somebody is importing; try again when they are done\n");
    } else {
        printer.text(&format!("{} layers and {} unfinished imports removed\n", collected.layers, collected.unfinished));
    }
    Ok(())
}

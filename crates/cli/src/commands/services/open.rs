//! Opens the images of all services, at one daemon; from then on each is named by its id, so that the plan says what runs.

use docker::{Engine, Pull};
use profile::Document;
use sandbox::StartError;

use super::super::docker::{AtDaemon, pinned, progress};
use super::Services;
use super::wish::{Source, Wish};

impl Services {
    /// Finds, fetches or builds every image, and pins it in the document.
    pub(in super::super) fn open(&mut self, document: &mut Document, pull: Pull) -> Result<(), StartError> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(StartError::Helper)?;
        let mut told = progress();
        for wish in &self.wishes {
            let image = runtime.block_on(open(wish, pull, &mut told.line()))?;
            let reference = pinned(&wish.image.shown(), &image.local.id);
            match document.services.get_mut(&wish.name) {
                Some(service) if wish.name != self.default => service.image.value = reference,
                _ => document.image = Some(profile::Located::nowhere(reference)),
            }
            self.images.insert(wish.name.clone(), image);
        }
        Ok(())
    }
}

async fn open(wish: &Wish, pull: Pull, progress: &mut dyn FnMut(String)) -> Result<AtDaemon, StartError> {
    let engine = Engine::find().await?;
    let pull = wish.pull.unwrap_or(pull);
    let local = match &wish.image {
        Source::Named(name) => {
            let name = name.strip_prefix("docker:").unwrap_or(name);
            engine.image(name, pull, progress).await?
        }
        Source::Built(build) => engine.build(build, pull, progress).await?,
    };
    if let (Some(wanted), Some(found)) = (&wish.architecture, &local.architecture)
        && wanted != found
    {
        let why = format!(
            "service `{}` asks for an image for linux/{wanted}, and `{}` is for linux/{found}",
            wish.name,
            wish.image.shown()
        );
        return Err(StartError::Engine(why.into()));
    }
    Ok(AtDaemon { endpoint: engine.endpoint().clone(), local })
}

//! Opens the images of all services, at one daemon; from then on each is named by its id, so that the plan says what runs.

use docker::{Engine, Pull};
use profile::Document;
use sandbox::{SecretMounts, StartError};

use super::super::docker::{AtDaemon, pinned, progress};
use super::Services;
use super::wish::{Source, Wish};

impl Services {
    /// Finds, fetches or builds every image, and pins it in the document.
    pub(in super::super) fn open(
        &mut self,
        document: &mut Document,
        pull: Pull,
        secrets: SecretMounts,
    ) -> Result<(), StartError> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(StartError::Helper)?;
        let mut told = progress();
        for wish in &self.wishes {
            let image = runtime.block_on(open(wish, pull, secrets, &mut told.line()))?;
            self.pin(document, wish, &image.local.id);
            self.images.insert(wish.name.clone(), image);
        }
        Ok(())
    }

    /// Pins what a daemon has already, where there is one. Nothing is fetched or built.
    pub(in super::super) fn look(&self, document: &mut Document) {
        let Ok(runtime) = tokio::runtime::Builder::new_current_thread().enable_all().build() else { return };
        for wish in &self.wishes {
            let Source::Named(name) = &wish.image else { continue };
            let found = runtime.block_on(async { Engine::find().await?.image(name, Pull::Never, &mut |_| ()).await });
            // What is not there is pinned when it starts, and the plan says so.
            if let Ok(local) = found {
                self.pin(document, wish, &local.id);
            }
        }
    }

    fn pin(&self, document: &mut Document, wish: &Wish, id: &str) {
        let reference = pinned(&wish.image.shown(), id);
        match document.services.get_mut(&wish.name) {
            Some(service) if wish.name != self.default => service.image.value = reference,
            _ => document.image = Some(profile::Located::nowhere(reference)),
        }
    }
}

async fn open(
    wish: &Wish,
    pull: Pull,
    secrets: SecretMounts,
    progress: &mut dyn FnMut(String),
) -> Result<AtDaemon, StartError> {
    let engine = Engine::find().await?;
    let pull = wish.pull.unwrap_or(pull);
    let local = match &wish.image {
        Source::Named(name) => {
            let name = name.strip_prefix("docker:").unwrap_or(name);
            let platform = wish.platform.as_ref().map(ToString::to_string);
            engine.image_for(name, platform.as_deref(), pull, progress).await?
        }
        Source::Built(build) => engine.build(&build.as_ref().clone().check(secrets)?, pull, progress).await?,
    };
    if let (Some(wanted), Some(found)) = (&wish.platform, &local.architecture)
        && wanted.architecture != *found
    {
        let why = format!(
            "service `{}` asks for an image for {wanted}, and `{}` is for linux/{found}",
            wish.name,
            wish.image.shown()
        );
        return Err(StartError::Engine(why.into()));
    }
    Ok(AtDaemon { endpoint: engine.endpoint().clone(), local })
}

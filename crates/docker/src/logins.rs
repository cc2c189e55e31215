//! Logins that a daemon needs to fetch images: those of Docker's own configuration, one registry's at a time.

use std::collections::HashMap;

use bollard::auth::DockerCredentials;
use registry::{Credentials, Login, Reference};
use secrecy::ExposeSecret as _;

use crate::endpoint::Endpoint;
use crate::engine::Engine;
use crate::error::DockerError;
use crate::images::Build;

/// The longest file of instructions that is looked at for the images it begins with.
const MAX_INSTRUCTIONS: u64 = 1 << 20;

impl Engine {
    /// The login for the registry of an image, if the user has one. A daemon in the clear gets none: everybody on the way
    /// would have it too.
    pub(crate) async fn login(&self, image: &str) -> Result<Option<DockerCredentials>, DockerError> {
        let Ok(reference) = image.parse::<Reference>() else { return Ok(None) };
        if matches!(self.endpoint(), Endpoint::Tcp(_)) {
            return Ok(None);
        }
        let credentials = Credentials::from_docker_config(None).map_err(DockerError::Login)?;
        let found = credentials.for_image(&reference).await.map_err(DockerError::Login)?;
        Ok(found.map(|(server, login)| sent(server, &login)))
    }

    /// The logins for the images that a build begins with, and no others.
    pub(crate) async fn logins(
        &self,
        build: &Build,
    ) -> Result<Option<HashMap<String, DockerCredentials>>, DockerError> {
        let text = match &build.inline {
            Some(text) => text.clone(),
            None => instructions(build).unwrap_or_default(),
        };
        let mut logins = HashMap::new();
        for image in bases(&text) {
            let Some(login) = self.login(image).await? else { continue };
            logins.insert(login.serveraddress.clone().unwrap_or_default(), login);
        }
        Ok((!logins.is_empty()).then_some(logins))
    }
}

/// What cannot be read is the build's to report.
fn instructions(build: &Build) -> Option<String> {
    use std::io::Read as _;
    let mut text = String::new();
    let file = std::fs::File::open(build.directory.join(&build.dockerfile)).ok()?;
    file.take(MAX_INSTRUCTIONS).read_to_string(&mut text).ok()?;
    Some(text)
}

/// The names behind `FROM`; those that are put together from arguments are only known to the builder.
fn bases(instructions: &str) -> impl Iterator<Item = &str> {
    instructions.lines().filter_map(|line| {
        let mut words = line.split_whitespace();
        words.next().filter(|word| word.eq_ignore_ascii_case("from"))?;
        words.find(|word| !word.starts_with("--")).filter(|name| !name.contains('$'))
    })
}

fn sent(server: String, login: &Login) -> DockerCredentials {
    let serveraddress = Some(server);
    match login {
        Login::Password { name, password } => DockerCredentials {
            username: Some(name.clone()),
            password: Some(password.expose_secret().to_owned()),
            serveraddress,
            ..Default::default()
        },
        Login::IdentityToken(token) => DockerCredentials {
            identitytoken: Some(token.expose_secret().to_owned()),
            serveraddress,
            ..Default::default()
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn images_that_a_build_begins_with() {
        let text =
            "# FROM no\nARG V=1\nFROM --platform=linux/amd64 a.example/b:1 AS one\nfrom debian\nFROM x:$V\nRUN FROM\n";
        assert_eq!(bases(text).collect::<Vec<_>>(), ["a.example/b:1", "debian"]);
        assert_eq!(bases("FROM\nFROM --platform=x\n").count(), 0);
    }
}

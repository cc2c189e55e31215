//! Logins that a daemon needs to fetch images: those of Docker's own configuration, one registry's at a time.

use std::collections::{BTreeSet, HashMap};

use bollard::auth::DockerCredentials;
use registry::{Credentials, Login, Reference};
use secrecy::ExposeSecret as _;

use crate::endpoint::Endpoint;
use crate::engine::Engine;
use crate::error::DockerError;
use crate::images::Build;

/// The longest file of instructions that is looked at for the images it begins with.
const MAX_INSTRUCTIONS: u64 = 1 << 20;
/// The most registries whose logins a build is given.
const MAX_REGISTRIES: usize = 16;

impl Engine {
    /// The login for the registry of an image, if the user has one, and the image's whole name. A daemon in the clear gets
    /// none: everybody on the way would have it too.
    pub(crate) async fn login(&self, image: &str) -> Result<Option<(String, DockerCredentials)>, DockerError> {
        let Ok(reference) = image.parse::<Reference>() else { return Ok(None) };
        if matches!(self.endpoint(), Endpoint::Tcp(_)) {
            return Ok(None);
        }
        let credentials = Credentials::from_docker_config(None).map_err(DockerError::Login)?;
        let found = credentials.for_image(&reference).await.map_err(DockerError::Login)?;
        Ok(found.map(|(server, login)| (reference.to_string(), sent(server, &login))))
    }

    /// The logins for the images that a build begins with, and no others. One that cannot be had is left out: what the build
    /// begins with may be there already, or be anybody's.
    pub(crate) async fn logins(&self, build: &Build) -> Option<HashMap<String, DockerCredentials>> {
        let text = match &build.inline {
            Some(text) => text.clone(),
            None => instructions(build).unwrap_or_default(),
        };
        let mut logins = HashMap::new();
        let mut asked = BTreeSet::new();
        for image in bases(&text) {
            let Ok(reference) = image.parse::<Reference>() else { continue };
            if asked.len() == MAX_REGISTRIES || !asked.insert(reference.registry().to_owned()) {
                continue;
            }
            let Ok(Some((_, login))) = self.login(image).await else { continue };
            logins.insert(login.serveraddress.clone().unwrap_or_default(), login);
        }
        (!logins.is_empty()).then_some(logins)
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

/// The names behind `FROM`, but for nothing at all and for earlier stages; those that are put together from arguments are
/// only known to the builder.
fn bases(instructions: &str) -> Vec<&str> {
    let mut stages = BTreeSet::from(["scratch".to_owned()]);
    let mut found = Vec::new();
    for line in instructions.lines() {
        let mut words = line.split_whitespace();
        if !words.next().is_some_and(|word| word.eq_ignore_ascii_case("from")) {
            continue;
        }
        let Some(name) = words.find(|word| !word.starts_with("--")) else { continue };
        if !name.contains('$') && !stages.contains(&name.to_lowercase()) {
            found.push(name);
        }
        if words.next().is_some_and(|word| word.eq_ignore_ascii_case("as")) {
            stages.extend(words.next().map(str::to_lowercase));
        }
    }
    found
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
        let stages = "FROM --platform=linux/amd64 a.example/b:1 AS One\nfrom debian\nFROM one\nFROM scratch\n";
        let text = format!("# FROM no\nARG V=1\n{stages}FROM x:$V\nRUN FROM\n");
        assert_eq!(bases(&text), ["a.example/b:1", "debian"]);
        assert_eq!(bases("FROM\nFROM --platform=x\n"), Vec::<&str>::new());
    }
}

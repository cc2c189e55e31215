//! Contexts of the command `docker`: named endpoints in its own directory.
//!
//! `config.json` names the current one; `contexts/meta/DIGEST/meta.json` describes each, and `contexts/tls/DIGEST/docker`
//! holds its certificates, where DIGEST is the SHA-256 of the name.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::Path;

use serde::Deserialize;

use crate::endpoint::{Endpoint, EndpointError, Surroundings};
use crate::place::digest;

/// The longest file of the client that is read.
const MAX_FILE: u64 = 4 << 20;
/// The context that means: none.
const DEFAULT: &str = "default";

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Config {
    current_context: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Meta {
    name: String,
    endpoints: Endpoints,
}

#[derive(Debug, Deserialize)]
struct Endpoints {
    docker: Described,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Described {
    host: String,
}

fn read(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path)?.take(MAX_FILE + 1).read_to_end(&mut bytes)?;
    if u64::try_from(bytes.len()).unwrap_or(u64::MAX) > MAX_FILE {
        return Err(io::Error::other(format!("{} is longer than {MAX_FILE} bytes", path.display())));
    }
    Ok(bytes)
}

/// The endpoint of the context in force; `None` where there is none but the default.
pub(crate) fn current(surroundings: &Surroundings) -> Result<Option<Endpoint>, EndpointError> {
    let Some(directory) = surroundings.config() else { return Ok(None) };
    let stated = surroundings.get("DOCKER_CONTEXT").map(str::to_owned);
    let name = match stated {
        Some(name) => name,
        None => match named(&directory)? {
            Some(name) => name,
            None => return Ok(None),
        },
    };
    if name == DEFAULT {
        return Ok(None);
    }
    let bad = |why: String| EndpointError::Context { name: name.clone(), why };
    let digest = digest(&name);
    let path = directory.join("contexts/meta").join(&digest).join("meta.json");
    let meta = read(&path).map_err(|error| bad(format!("{}: {error}", path.display())))?;
    let meta: Meta = serde_json::from_slice(&meta).map_err(|error| bad(error.to_string()))?;
    if meta.name != name {
        return Err(bad(format!("its file is of another, `{}`", strangers::Shown::new(&meta.name))));
    }
    let certificates = directory.join("contexts/tls").join(&digest).join("docker");
    let certificates = certificates.is_dir().then_some(certificates);
    Endpoint::parse(&meta.endpoints.docker.host, certificates.is_some(), certificates).map(Some)
}

/// The context that the client's settings name.
fn named(directory: &Path) -> Result<Option<String>, EndpointError> {
    let path = directory.join("config.json");
    let bad =
        |why: String| EndpointError::Context { name: "(current)".into(), why: format!("{}: {why}", path.display()) };
    let bytes = match read(&path) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(bad(error.to_string())),
    };
    let config: Config = serde_json::from_slice(&bytes).map_err(|error| bad(error.to_string()))?;
    Ok(config.current_context.filter(|name| !name.is_empty()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A client's directory with one context.
    fn client(name: &str, host: &str, tls: bool, current: bool) -> (tempfile::TempDir, Surroundings) {
        let directory = tempfile::tempdir().unwrap();
        let digest = digest(name);
        let meta = directory.path().join("contexts/meta").join(&digest);
        std::fs::create_dir_all(&meta).unwrap();
        let text = format!(
            r#"{{"Name":"{name}","Metadata":{{}},"Endpoints":{{"docker":{{"Host":"{host}","SkipTLSVerify":false}}}}}}"#
        );
        std::fs::write(meta.join("meta.json"), text).unwrap();
        if tls {
            std::fs::create_dir_all(directory.path().join("contexts/tls").join(&digest).join("docker")).unwrap();
        }
        if current {
            std::fs::write(directory.path().join("config.json"), format!(r#"{{"currentContext":"{name}"}}"#)).unwrap();
        }
        let variables = [("DOCKER_CONFIG".to_owned(), directory.path().to_str().unwrap().to_owned())].into();
        (directory, Surroundings { variables })
    }

    #[test]
    fn the_current_context_and_the_one_that_is_named() {
        let (_kept, surroundings) = client("lab", "unix:///x/docker.sock", false, true);
        assert_eq!(current(&surroundings), Ok(Some(Endpoint::Unix("/x/docker.sock".into()))));
        let (kept, mut surroundings) = client("far", "tcp://far:2376", true, false);
        assert_eq!(current(&surroundings), Ok(None));
        surroundings.variables.insert("DOCKER_CONTEXT".into(), "far".into());
        let Ok(Some(Endpoint::Tls(address, certificates))) = current(&surroundings) else { unreachable!() };
        assert_eq!(address, "far:2376");
        assert!(certificates.starts_with(kept.path()));
        surroundings.variables.insert("DOCKER_CONTEXT".into(), "default".into());
        assert_eq!(current(&surroundings), Ok(None));
    }

    #[test]
    fn a_context_that_is_not_there_is_named() {
        let (_kept, mut surroundings) = client("lab", "unix:///x", false, false);
        surroundings.variables.insert("DOCKER_CONTEXT".into(), "gone".into());
        assert!(current(&surroundings).unwrap_err().to_string().contains("`gone`"));
        let (kept, surroundings) = client("lab", "ssh://h", false, true);
        assert!(matches!(current(&surroundings), Err(EndpointError::Unknown(_))));
        std::fs::write(kept.path().join("config.json"), "{").unwrap();
        assert!(matches!(current(&surroundings), Err(EndpointError::Context { .. })));
    }
}

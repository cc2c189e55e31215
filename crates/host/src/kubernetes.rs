//! A Kubernetes API server that the user's kubeconfig names and that accepts connections.

use std::fs;
use std::path::PathBuf;

use profile::Finding;
use serde::Deserialize;

use crate::{Surroundings, reach};

const FIX: &str = "point KUBECONFIG (or ~/.kube/config) at a cluster that is reachable from here";
/// Larger files than any kubeconfig are not read.
const MAX_CONFIG: u64 = 4 << 20;

/// The parts of a kubeconfig that lead to the server; everything else is ignored.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
struct Kubeconfig {
    current_context: String,
    contexts: Vec<NamedContext>,
    clusters: Vec<NamedCluster>,
}

#[derive(Debug, Deserialize)]
struct NamedContext {
    name: String,
    context: Context,
}

#[derive(Debug, Deserialize)]
struct Context {
    cluster: String,
}

#[derive(Debug, Deserialize)]
struct NamedCluster {
    name: String,
    cluster: Cluster,
}

#[derive(Debug, Deserialize)]
struct Cluster {
    server: String,
}

/// The files that the usual clients read, in their order.
fn files(surroundings: &Surroundings) -> Vec<PathBuf> {
    match surroundings.get("KUBECONFIG") {
        Some(list) => std::env::split_paths(list).filter(|path| !path.as_os_str().is_empty()).collect(),
        None => surroundings.home().map(|home| home.join(".kube/config")).into_iter().collect(),
    }
}

/// The current context and its server.
fn current(config: &Kubeconfig) -> Option<(&str, &str)> {
    let context = config.contexts.iter().find(|context| context.name == config.current_context)?;
    let cluster = config.clusters.iter().find(|cluster| cluster.name == context.context.cluster)?;
    Some((&context.name, &cluster.cluster.server))
}

/// `host:port` of a server's URL.
fn authority(server: &str) -> Option<String> {
    let (scheme, rest) = server.split_once("://")?;
    let host = rest.split(['/', '?']).next().filter(|host| !host.is_empty())?;
    let has_port = host.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok());
    let port = if scheme == "http" { 80 } else { 443 };
    Some(if has_port { host.to_owned() } else { format!("{host}:{port}") })
}

pub(crate) fn cluster(surroundings: &Surroundings) -> Finding {
    let files = files(surroundings);
    let Some(path) = files.iter().find(|path| path.is_file()) else {
        return Finding::missing("no kubeconfig", FIX);
    };
    let shown = path.display();
    if fs::metadata(path).is_ok_and(|metadata| metadata.len() > MAX_CONFIG) {
        return Finding::missing(format!("{shown} is too large to be a kubeconfig"), FIX);
    }
    let config = match fs::read_to_string(path) {
        Ok(text) => serde_saphyr::from_str::<Kubeconfig>(&text).map_err(|error| error.without_snippet().to_string()),
        Err(error) => Err(error.to_string()),
    };
    let config = match config {
        Ok(config) => config,
        Err(error) => return Finding::missing(format!("{shown}: {error}"), FIX),
    };
    let Some((context, server)) = current(&config) else {
        return Finding::missing(
            format!("{shown} has no current context with a server"),
            "kubectl config use-context NAME",
        );
    };
    let server = reach::without_userinfo(server);
    let Some(authority) = authority(&server) else {
        return Finding::missing(format!("{shown}: `{server}` is not a server's address"), FIX);
    };
    match reach::connect(&authority) {
        Ok(_) => Finding::works(format!("context {context} at {authority} accepts connections (rights not checked)")),
        Err(error) => Finding::missing(format!("context {context} at {authority}: {error}"), FIX),
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use profile::Status;

    use super::*;

    fn with_config(text: &str) -> Finding {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("config");
        fs::write(&path, text).unwrap();
        cluster(&Surroundings { variables: [("KUBECONFIG".to_owned(), path.display().to_string())].into() })
    }

    fn config(server: &str) -> String {
        format!(
            "current-context: c\ncontexts: [{{name: c, context: {{cluster: k, user: u}}}}]\n\
             clusters: [{{name: k, cluster: {{server: \"{server}\"}}}}]\nusers: [{{name: u, user: {{token: secret}}}}]\n"
        )
    }

    #[test]
    fn a_server_that_listens_is_reachable() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let finding = with_config(&config(&format!("https://{}", listener.local_addr().unwrap())));
        assert_eq!(finding.status, Status::Works, "{finding:?}");
        assert!(!finding.found.contains("secret"));
    }

    #[test]
    fn a_config_that_leads_nowhere_says_why() {
        for (text, says) in [
            (config("https://127.0.0.1:1"), "127.0.0.1:1"),
            (config("nonsense"), "not a server's address"),
            ("clusters: []".to_owned(), "no current context"),
            ("clusters: {".to_owned(), "config"),
        ] {
            let finding = with_config(&text);
            assert_eq!(finding.status, Status::Missing, "{text}");
            assert!(finding.found.contains(says), "{finding:?}");
        }
    }

    #[test]
    fn addresses_get_their_default_port() {
        assert_eq!(authority("https://k.example.org/path").as_deref(), Some("k.example.org:443"));
        assert_eq!(authority("https://[::1]:6443").as_deref(), Some("[::1]:6443"));
        assert_eq!(authority("http://k.example.org").as_deref(), Some("k.example.org:80"));
    }
}

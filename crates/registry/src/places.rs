//! Where a request may go: what a registry names as its realm, or redirects to, is checked here before it is asked.
//!
//! The threat: a registry, or whoever answers for it, sends us (and our passwords) to another's server, to plain text,
//! or to a service that only this machine can reach.

use strangers::Shown;
use thiserror::Error;
use url::{Host, Url};

/// Why a place is not asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum Unsafe {
    /// It is no address of the web.
    #[error("it is no web address")]
    NotAnAddress,
    /// It is not encrypted, or neither HTTP nor HTTPS.
    #[error("it is not https")]
    NotSecure,
    /// It is on this machine, and the registry is not.
    #[error("it is on this machine and the registry is not")]
    Loopback,
    /// It carries a name or a password.
    #[error("it carries a name or a password")]
    Login,
    /// It is on another host.
    #[error("it is on another host")]
    Elsewhere,
    /// A realm redirects, and is where credentials go.
    #[error("a realm of tokens may not redirect")]
    Realm,
}

/// How far a redirect may lead.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reach {
    /// Not away from the registry: manifests are not named by their content.
    Registry,
    /// To storage elsewhere: the digest proves what comes from there.
    Anywhere,
}

/// Whether an address is this machine's own, beyond doubt: `localhost`, `127.0.0.0/8` or `[::1]`.
pub(crate) fn is_loopback(url: &Url) -> bool {
    match url.host() {
        Some(Host::Domain(name)) => name == "localhost",
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => address.is_loopback(),
        None => false,
    }
}

/// Whether an address may lead to this machine. Wider than [`is_loopback`]: one opens, the other closes a door.
fn may_be_loopback(url: &Url) -> bool {
    match url.host() {
        Some(Host::Domain(name)) => {
            let name = name.trim_end_matches('.');
            name == "localhost" || name.ends_with(".localhost")
        }
        Some(Host::Ipv4(address)) => address.is_loopback() || address.is_unspecified(),
        Some(Host::Ipv6(address)) => {
            let mapped = address.to_ipv4_mapped();
            let mapped = mapped.is_some_and(|address| address.is_loopback() || address.is_unspecified());
            mapped || address.is_loopback() || address.is_unspecified()
        }
        None => false,
    }
}

/// Whether two addresses are on one server, with one way to talk to it.
pub(crate) fn same_server(one: &Url, other: &Url) -> bool {
    one.origin() == other.origin()
}

/// A server as it is named in errors: never with path or query, in which signatures stand.
pub(crate) fn server(url: &Url) -> Shown {
    let host = url.host_str().unwrap_or_default();
    url.port().map_or_else(|| Shown::new(host), |port| Shown::new(&format!("{host}:{port}")))
}

/// Checks the realm that a registry names for its tokens.
pub(crate) fn realm(registry: &Url, realm: &str) -> Result<Url, Unsafe> {
    let realm = Url::parse(realm).map_err(|_| Unsafe::NotAnAddress)?;
    check(registry, &realm)?;
    Ok(realm)
}

/// Checks where a redirect at `from` leads.
pub(crate) fn redirect(registry: &Url, from: &Url, location: &str, reach: Reach) -> Result<Url, Unsafe> {
    let to = from.join(location).map_err(|_| Unsafe::NotAnAddress)?;
    check(registry, &to)?;
    match reach {
        Reach::Registry if !same_server(registry, &to) => Err(Unsafe::Elsewhere),
        Reach::Registry | Reach::Anywhere => Ok(to),
    }
}

fn check(registry: &Url, url: &Url) -> Result<(), Unsafe> {
    let home = is_loopback(registry);
    // Such an address would become an `Authorization` header.
    if !url.username().is_empty() || url.password().is_some() {
        return Err(Unsafe::Login);
    }
    match url.scheme() {
        "https" if may_be_loopback(url) && !home => Err(Unsafe::Loopback),
        "https" => Ok(()),
        "http" if is_loopback(url) && home => Ok(()),
        _ => Err(Unsafe::NotSecure),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn url(text: &str) -> Url {
        text.parse().unwrap()
    }

    #[test]
    fn realms_are_secure_or_as_local_as_the_registry() {
        let (local, remote) = (url("http://127.0.0.1:5000/"), url("https://ghcr.io/"));
        for (registry, text, expected) in [
            (&remote, "https://auth.example.org/token?a=b", None),
            (&remote, "http://auth.example.org/token", Some(Unsafe::NotSecure)),
            (&remote, "http://ghcr.io/token", Some(Unsafe::NotSecure)),
            (&remote, "http://localhost/token", Some(Unsafe::NotSecure)),
            (&remote, "https://localhost/token", Some(Unsafe::Loopback)),
            (&remote, "https://0x7f.1/token", Some(Unsafe::Loopback)),
            (&remote, "https://localhost./token", Some(Unsafe::Loopback)),
            (&remote, "https://a.localhost/token", Some(Unsafe::Loopback)),
            (&remote, "https://[::ffff:127.0.0.1]/token", Some(Unsafe::Loopback)),
            (&remote, "https://0.0.0.0/token", Some(Unsafe::Loopback)),
            (&remote, "https://user@ghcr.io/", Some(Unsafe::Login)),
            (&remote, "ftp://ghcr.io/", Some(Unsafe::NotSecure)),
            (&remote, "file:///etc/passwd", Some(Unsafe::NotSecure)),
            (&remote, "/token", Some(Unsafe::NotAnAddress)),
            (&remote, "", Some(Unsafe::NotAnAddress)),
            (&local, "http://[::1]:7/token", None),
            (&local, "https://auth.example.org/token", None),
            (&local, "http://a.localhost/token", Some(Unsafe::NotSecure)),
            (&local, "http://10.0.0.1/token", Some(Unsafe::NotSecure)),
        ] {
            assert_eq!(realm(registry, text).err(), expected, "{text}");
        }
    }

    #[test]
    fn redirects_lead_where_their_reach_allows() {
        let (local, remote) = (url("http://127.0.0.1:5000/"), url("https://ghcr.io/"));
        for (registry, location, near, far) in [
            (&remote, "/elsewhere", None, None),
            (&remote, "?page=2", None, None),
            (&remote, "https://ghcr.io/x", None, None),
            (&remote, "https://ghcr.io:444/x", Some(Unsafe::Elsewhere), None),
            (&remote, "//storage.example.org/x", Some(Unsafe::Elsewhere), None),
            (&remote, "http://ghcr.io/x", Some(Unsafe::NotSecure), Some(Unsafe::NotSecure)),
            (&remote, "https://127.0.0.1/x", Some(Unsafe::Loopback), Some(Unsafe::Loopback)),
            (&remote, "https://a:b@ghcr.io/x", Some(Unsafe::Login), Some(Unsafe::Login)),
            (&remote, "https://", Some(Unsafe::NotAnAddress), Some(Unsafe::NotAnAddress)),
            (&local, "http://localhost:5001/x", Some(Unsafe::Elsewhere), None),
            (&local, "http://example.org/x", Some(Unsafe::NotSecure), Some(Unsafe::NotSecure)),
            (&local, "https://example.org/x", Some(Unsafe::Elsewhere), None),
        ] {
            let from = registry.join("/v2/a/blobs/b").unwrap();
            assert_eq!(redirect(registry, &from, location, Reach::Registry).err(), near, "{location}");
            assert_eq!(redirect(registry, &from, location, Reach::Anywhere).err(), far, "{location}");
        }
    }

    #[test]
    fn a_server_is_named_without_what_is_secret() {
        assert_eq!(server(&url("https://s3.example.org:8443/x?X-Amz-Signature=abc")).as_str(), "s3.example.org:8443");
    }
}

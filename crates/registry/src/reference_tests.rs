use proptest::prelude::*;

use super::*;
use crate::digest::DigestError;

const DIGEST: &str = "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

/// The canonical text and the address of the registry.
fn read(text: &str) -> (String, String) {
    let reference: Reference = text.parse().unwrap_or_else(|error| panic!("{text}: {error}"));
    (reference.to_string(), reference.origin().to_string())
}

fn refused(text: &str) -> ReferenceError {
    text.parse::<Reference>().expect_err(text)
}

#[test]
fn short_names_are_on_docker_hub() {
    let hub = "https://registry-1.docker.io/".to_owned();
    for (text, canonical) in [
        ("ubuntu", "docker.io/library/ubuntu:latest"),
        ("ubuntu:24.04", "docker.io/library/ubuntu:24.04"),
        ("owner/name", "docker.io/owner/name:latest"),
        ("docker.io/ubuntu", "docker.io/library/ubuntu:latest"),
        ("index.docker.io/a/b:c", "docker.io/a/b:c"),
        ("localhost:5000", "docker.io/library/localhost:5000"),
        ("a/b/c_d__e.f---g", "docker.io/a/b/c_d__e.f---g:latest"),
    ] {
        assert_eq!(read(text), (canonical.to_owned(), hub.clone()), "{text}");
    }
    assert_eq!(read(&format!("ubuntu@{DIGEST}")), (format!("docker.io/library/ubuntu@{DIGEST}"), hub.clone()));
    assert_eq!(read(&format!("ubuntu:1@{DIGEST}")), (format!("docker.io/library/ubuntu:1@{DIGEST}"), hub));
}

#[test]
fn only_this_machine_is_asked_in_plain_text() {
    for (text, canonical, origin) in [
        ("localhost/a", "localhost/a:latest", "http://localhost/"),
        ("LocalHost:5000/a", "localhost:5000/a:latest", "http://localhost:5000/"),
        ("127.9.8.7:5000/a/b:t", "127.9.8.7:5000/a/b:t", "http://127.9.8.7:5000/"),
        ("[0:0::1]:5000/a", "[::1]:5000/a:latest", "http://[::1]:5000/"),
        ("[2001:DB8::1]/a", "[2001:db8::1]/a:latest", "https://[2001:db8::1]/"),
        ("10.0.0.1:80/a", "10.0.0.1:80/a:latest", "https://10.0.0.1:80/"),
        ("GHCR.io/owner/name", "ghcr.io/owner/name:latest", "https://ghcr.io/"),
        ("localhost.example.org/a", "localhost.example.org/a:latest", "https://localhost.example.org/"),
        ("[::ffff:127.0.0.1]/a", "[::ffff:7f00:1]/a:latest", "https://[::ffff:7f00:1]/"),
    ] {
        assert_eq!(read(text), (canonical.to_owned(), origin.to_owned()), "{text}");
    }
}

#[test]
fn what_is_no_reference_says_why() {
    let shown = Shown::new;
    let registry = |text: &str| ReferenceError::Registry { registry: shown(text) };
    let name = |text: &str| ReferenceError::Name { part: shown(text) };
    assert_eq!(refused(""), ReferenceError::Empty);
    assert_eq!(refused(&"a".repeat(1025)), ReferenceError::TooLong { limit: 1024 });
    assert_eq!(refused(&format!("localhost/{}", "a".repeat(256))), ReferenceError::TooLong { limit: 255 });
    assert_eq!(refused("https://ghcr.io/a"), ReferenceError::Scheme { text: shown("https://ghcr.io/a") });
    assert_eq!(refused("Owner/name"), ReferenceError::UpperCase { name: shown("Owner/name") });
    assert_eq!(refused("Ubuntu"), ReferenceError::UpperCase { name: shown("Ubuntu") });
    assert_eq!(refused(&"0".repeat(64)), ReferenceError::ImageId);
    assert_eq!(refused("a:"), ReferenceError::Tag { tag: shown("") });
    assert_eq!(refused("a:.b"), ReferenceError::Tag { tag: shown(".b") });
    assert_eq!(refused("a:b:c"), ReferenceError::Tag { tag: shown("b:c") });
    assert_eq!(refused(&format!("a:{}", "t".repeat(129))), ReferenceError::Tag { tag: shown(&"t".repeat(129)) });
    assert!(matches!(refused("a@sha512:00"), ReferenceError::Digest(DigestError::Algorithm { .. })));
    assert!(matches!(refused(&format!("a@{DIGEST}@{DIGEST}")), ReferenceError::Digest(_)));
    for port in ["", "0", "00", "+1", "65536", "x"] {
        assert_eq!(refused(&format!("localhost:{port}/a")), ReferenceError::Port { port: shown(port) });
    }
    for host in [
        "127.1",
        "0x7f.0.0.1",
        "1.2.3.4.5",
        "-a.b",
        "a..b",
        "a_b.c",
        "user%40a.b",
        "[::1",
        "[::1]x",
        "[1.2.3.4]",
        "ä.b",
    ] {
        assert_eq!(refused(&format!("{host}/a")), registry(host), "{host}");
    }
    for part in ["-a", "a-", "a..b", "a___b", "a._b", "ä", "a b", "a\\b", "a?b", "a%2fb", "a#b"] {
        assert_eq!(refused(&format!("x/{part}")), name(part), "{part}");
    }
    for (text, part) in [("/a", ""), ("a/", ""), ("a//b", ""), ("ghcr.io/", ""), ("a/../b", "..")] {
        assert!(
            matches!(refused(text), ReferenceError::Name { .. } | ReferenceError::Registry { .. }),
            "{text} {part}"
        );
    }
}

#[test]
fn every_error_has_a_hint() {
    assert_eq!(refused("https://ghcr.io/a/").hint(), "leave the scheme out: `ghcr.io/a`");
    assert_eq!(refused("a/Ubuntu:1").hint(), "write `a/ubuntu`");
    for text in ["", "a:", "a//b", "a@x", "-.b/c", "a.b:0/c"] {
        assert!(!refused(text).hint().is_empty(), "{text}");
    }
}

#[test]
fn addresses_stay_below_the_repository() {
    let reference: Reference = "localhost:5000/a/b".parse().unwrap();
    assert_eq!(reference.address("manifests/latest").as_str(), "http://localhost:5000/v2/a/b/manifests/latest");
}

proptest! {
    #[test]
    fn a_reference_is_read_as_it_is_written(text in "([a-zA-Z0-9.:\\[\\]-]{1,12}/)?[a-z0-9._/-]{1,12}(:[a-zA-Z0-9._-]{1,4})?") {
        if let Ok(reference) = text.parse::<Reference>() {
            prop_assert_eq!(reference.to_string().parse(), Ok(reference));
        }
    }

    #[test]
    fn no_text_is_more_than_a_host_and_a_path(text in any::<String>()) {
        if let Ok(reference) = text.parse::<Reference>() {
            let address = reference.address("manifests/x");
            prop_assert!(address.username().is_empty() && address.query().is_none() && address.fragment().is_none());
        }
    }
}

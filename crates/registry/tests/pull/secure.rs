//! Registries on other machines: TLS, and nothing but TLS. The other machines are names for this one.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair, KeyUsagePurpose};
use registry::{Credentials, Proxies, PullError, Registry, Settings, Unsafe};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};

use crate::image::{ACCEPT, ANY, Image, blob, blob_of, manifest_of, pull, reference, resolve, settings};
use crate::logins::{BASIC, config};
use crate::server::{Access, Answer, Server};

const REGISTRY: &str = "registry.test";
const STORAGE: &str = "storage.test";

struct Authority(CertifiedIssuer<'static, KeyPair>);

impl Authority {
    fn new() -> Self {
        let mut parameters = CertificateParams::default();
        parameters.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        parameters.key_usages = vec![KeyUsagePurpose::KeyCertSign];
        Self(CertifiedIssuer::self_signed(parameters, KeyPair::generate().unwrap()).unwrap())
    }

    fn acceptor(&self, name: &str) -> TlsAcceptor {
        let key = KeyPair::generate().unwrap();
        let parameters = CertificateParams::new([name.to_owned()]).unwrap();
        let certificate = parameters.signed_by(&key, &self.0).unwrap();
        let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(key.serialize_der()));
        let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![certificate.der().clone()], key)
            .unwrap();
        TlsAcceptor::from(Arc::new(config))
    }

    async fn server(&self, name: &str) -> Server {
        Server::start_secure(name, self.acceptor(name)).await
    }

    /// Trusts this authority and knows where the names are.
    fn settings(&self) -> Settings {
        let here = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let addresses = [REGISTRY, STORAGE].map(|name| (name.to_owned(), here)).to_vec();
        let authorities = vec![self.0.der().to_vec()];
        Settings { proxies: Proxies::None, authorities, addresses, ..settings() }
    }

    fn client(&self, credentials: Credentials) -> Registry {
        Registry::with_settings(credentials, self.settings()).unwrap()
    }
}

#[tokio::test]
async fn another_machine_is_asked_over_tls_with_tokens_and_storage_elsewhere() {
    let image = Image::new("image");
    let authority = Authority::new();
    let (server, storage) = (authority.server(REGISTRY).await, authority.server(STORAGE).await);
    let challenge = format!("Bearer realm=\"https://{}/token\"", storage.host);
    let access = Access::Locked { challenge, key: "Bearer abc".to_owned() };
    let known = Access::Known { key: BASIC.to_owned() };
    let token = Answer::ok("application/json", br#"{"token":"abc"}"#);
    storage.expect("GET /token?scope=repository%3Ateam%2Ftool%3Apull", "application/json", &known, [token]);
    image.put(&server, "1.0", &access);
    let location = format!("https://{}/data", storage.host);
    server.expect(&blob_of(&image.layer(1).digest), ANY, &access, [Answer::redirect(&location)]);
    storage.expect("GET /data", ANY, &Access::Open, [Answer::ok("text/plain", &image.blobs[2])]);
    let registry = authority.client(config(&server.host, "me", "hunter2"));
    let (_, blobs) = pull(&registry, &reference(&server, ":1.0")).await.unwrap();
    assert_eq!(blobs, image.blobs);
}

#[tokio::test]
async fn a_certificate_of_a_stranger_is_refused() {
    let authority = Authority::new();
    let server = Authority::new().server(REGISTRY).await;
    let error = resolve(&authority.client(Credentials::none()), &reference(&server, ":1.0")).await.unwrap_err();
    let PullError::Unreachable { source, .. } = &error else { panic!("{error:?}") };
    assert!(source.to_string().contains("certificate"), "{source}");
    assert_eq!(server.heard(), Vec::<String>::new());
}

#[tokio::test]
async fn a_certificate_for_another_name_is_refused() {
    let authority = Authority::new();
    let server = Server::start_secure(REGISTRY, authority.acceptor(STORAGE)).await;
    let error = resolve(&authority.client(Credentials::none()), &reference(&server, ":1.0")).await.unwrap_err();
    assert!(matches!(error, PullError::Unreachable { .. }), "{error:?}");
}

#[tokio::test]
async fn another_machine_is_never_asked_in_plain_text() {
    let authority = Authority::new();
    let server = Server::start().await;
    let port = server.host.split_once(':').unwrap().1;
    let reference = format!("{REGISTRY}:{port}/team/tool:1.0").parse().unwrap();
    // The server waits for a request that it can read.
    let mut settings = authority.settings();
    settings.timing.connect = Duration::from_millis(300);
    let registry = Registry::with_settings(Credentials::none(), settings).unwrap();
    let error = resolve(&registry, &reference).await.unwrap_err();
    assert!(matches!(error, PullError::Unreachable { .. }), "{error:?}");
    assert_eq!(server.heard(), Vec::<String>::new());
}

#[tokio::test]
async fn another_machine_does_not_send_us_to_plain_text_or_to_ourselves() {
    let image = Image::new("image");
    let authority = Authority::new();
    let (server, here) = (authority.server(REGISTRY).await, Server::start().await);
    let registry = authority.client(config(&server.host, "me", "hunter2"));
    let layer = image.layer(0);
    let local = format!("http://{}/x", here.host);
    for (address, expected) in [
        ("http://storage.test/x", Unsafe::NotSecure),
        (local.as_str(), Unsafe::NotSecure),
        ("https://localhost/x", Unsafe::Loopback),
        ("https://127.0.0.1/x", Unsafe::Loopback),
        ("https://[::1]/x", Unsafe::Loopback),
    ] {
        server.expect(&blob_of(&layer.digest), ANY, &Access::Open, [Answer::redirect(address)]);
        let error = blob(&registry, &reference(&server, ""), &layer).await.unwrap_err();
        assert!(matches!(error, PullError::Redirect { why, .. } if why == expected), "{address} {error:?}");
        let challenge = format!("Bearer realm=\"{address}\"");
        let access = Access::Locked { challenge, key: "never".to_owned() };
        server.expect(&manifest_of("1.0"), ACCEPT, &access, []);
        let error = resolve(&registry, &reference(&server, ":1.0")).await.unwrap_err();
        assert!(matches!(error, PullError::Realm { why, .. } if why == expected), "{address} {error:?}");
    }
    assert_eq!(here.heard(), Vec::<String>::new());
}

#[test]
fn what_is_no_certificate_is_no_authority() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let settings = Settings { authorities: vec![b"nonsense".to_vec()], ..settings() };
    let registry = Registry::with_settings(Credentials::none(), settings).unwrap();
    let error = runtime.block_on(resolve(&registry, &"registry.test/a".parse().unwrap())).unwrap_err();
    assert!(matches!(error, PullError::Tls(_)), "{error:?}");
}

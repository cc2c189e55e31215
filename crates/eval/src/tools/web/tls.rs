//! Whom TLS trusts: the system's authorities, or those of `SSL_CERT_FILE`.

use std::sync::{Arc, OnceLock};

use rustls::crypto::ring;
use rustls::{ClientConfig, RootCertStore};
use rustls_platform_verifier::Verifier;

const HTTP_1: &[u8] = b"http/1.1";

/// A client that checks certificates for real; made once, as it reads all authorities.
pub(super) fn trusting_the_system() -> Result<Arc<ClientConfig>, String> {
    static CLIENT: OnceLock<Result<Arc<ClientConfig>, String>> = OnceLock::new();
    CLIENT.get_or_init(|| make().map(Arc::new).map_err(|error| error.to_string())).clone()
}

fn make() -> Result<ClientConfig, rustls::Error> {
    let provider = Arc::new(ring::default_provider());
    let verifier = Verifier::new(Arc::clone(&provider))?;
    let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions()?;
    // Rustls calls every verifier but its own dangerous; this one is the system's.
    let mut config = builder.dangerous().with_custom_certificate_verifier(Arc::new(verifier)).with_no_client_auth();
    config.alpn_protocols = vec![HTTP_1.to_vec()];
    Ok(config)
}

/// Trusts nobody: for a client that never uses TLS.
pub(super) fn trusting_nobody() -> Result<ClientConfig, String> {
    let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()));
    let builder = builder.with_safe_default_protocol_versions().map_err(|error| error.to_string())?;
    Ok(builder.with_root_certificates(RootCertStore::empty()).with_no_client_auth())
}

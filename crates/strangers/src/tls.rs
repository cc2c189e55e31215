//! TLS: whom to trust, decided here and not by whatever else the program is built with.

use std::sync::Arc;

use rustls::crypto::ring;
use rustls::pki_types::CertificateDer;
use rustls::{ClientConfig, RootCertStore};
use rustls_platform_verifier::Verifier;

/// Trusts the system's authorities, `SSL_CERT_FILE`'s, and these (DER).
pub fn trusting(authorities: &[Vec<u8>]) -> Result<ClientConfig, rustls::Error> {
    let provider = Arc::new(ring::default_provider());
    let authorities = authorities.iter().map(|der| CertificateDer::from(der.clone()));
    let verifier = Verifier::new_with_extra_roots(authorities, Arc::clone(&provider))?;
    let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions()?;
    // Rustls calls every verifier but its own dangerous; this one is the system's.
    Ok(builder.dangerous().with_custom_certificate_verifier(Arc::new(verifier)).with_no_client_auth())
}

/// Trusts nobody: for a client that never uses TLS.
pub fn trusting_nobody() -> Result<ClientConfig, rustls::Error> {
    let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()));
    let builder = builder.with_safe_default_protocol_versions()?;
    Ok(builder.with_root_certificates(RootCertStore::empty()).with_no_client_auth())
}

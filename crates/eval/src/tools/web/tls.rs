//! TLS for pages and searches: over HTTP/1.1, with whom the system trusts.

use std::sync::{Arc, OnceLock};

use rustls::ClientConfig;

const HTTP_1: &[u8] = b"http/1.1";

/// A client that checks certificates for real; made once, as it reads all authorities.
pub(super) fn trusting_the_system() -> Result<Arc<ClientConfig>, String> {
    static CLIENT: OnceLock<Result<Arc<ClientConfig>, String>> = OnceLock::new();
    CLIENT.get_or_init(|| make().map(Arc::new).map_err(|error| error.to_string())).clone()
}

fn make() -> Result<ClientConfig, rustls::Error> {
    let mut config = strangers::trusting(&[])?;
    config.alpn_protocols = vec![HTTP_1.to_vec()];
    Ok(config)
}

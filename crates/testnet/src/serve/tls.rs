//! TLS with an authority of its own: a certificate for every name that a client asks for, or for the address.

use std::collections::HashMap;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa, KeyPair,
    KeyUsagePurpose,
};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use tokio_rustls::rustls::server::Acceptor;
use tokio_rustls::server::TlsStream;
use tokio_rustls::{LazyConfigAcceptor, rustls};

use super::journal::Witness;
use super::limits;

/// Why there is no certificate.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TlsError {
    #[error("cannot create a certificate")]
    Certificate(#[from] rcgen::Error),
    #[error("cannot use a certificate")]
    Configuration(#[from] rustls::Error),
}

/// Signs for every name. Two authorities trust nothing of each other.
pub(crate) struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
    /// One key for all names: making one costs more than a signature.
    key: KeyPair,
    configurations: Mutex<HashMap<String, Arc<ServerConfig>>>,
}

impl std::fmt::Debug for Authority {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Authority").finish_non_exhaustive()
    }
}

impl Authority {
    /// A new authority with a new key.
    pub(crate) fn create() -> Result<Self, TlsError> {
        let mut parameters = CertificateParams::default();
        parameters.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        parameters.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        parameters.distinguished_name.push(DnType::CommonName, "Testnet authority");
        let issuer = CertifiedIssuer::self_signed(parameters, KeyPair::generate()?)?;
        Ok(Self { issuer, key: KeyPair::generate()?, configurations: Mutex::default() })
    }

    /// Its certificate.
    pub(crate) fn pem(&self) -> String {
        self.issuer.pem()
    }

    /// A server with a certificate for this name or address.
    fn configuration(&self, name: &str) -> Result<Arc<ServerConfig>, TlsError> {
        let mut configurations = self.configurations.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = configurations.get(name) {
            return Ok(Arc::clone(known));
        }
        let configuration = Arc::new(self.certify(name)?);
        if configurations.len() >= limits::CERTIFICATES {
            configurations.clear();
        }
        configurations.insert(name.to_owned(), Arc::clone(&configuration));
        Ok(configuration)
    }

    fn certify(&self, name: &str) -> Result<ServerConfig, TlsError> {
        let mut parameters = CertificateParams::new([name.to_owned()])?;
        parameters.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        parameters.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        // Strict clients (Python 3.13 and later) want to be told which key signed.
        parameters.use_authority_key_identifier_extension = true;
        parameters.distinguished_name.push(DnType::CommonName, "Testnet server");
        let certificate = parameters.signed_by(&self.key, &self.issuer)?;
        let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(self.key.serialize_der()));
        // Named here: whatever else the program is built with must not change the choice.
        let mut configuration = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_single_cert(vec![certificate.der().clone()], key)?;
        configuration.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(configuration)
    }
}

/// Accepts a TLS connection; also gives the server name that the client asked for, or nothing.
///
/// Whatever the client says is noted: its `hello`, or its first bytes when they are none.
pub(crate) async fn accept(
    stream: TcpStream,
    witness: &Witness,
    authority: &Authority,
) -> io::Result<(TlsStream<TcpStream>, String)> {
    let mut first = [0; 128];
    let length = limits::patiently(stream.peek(&mut first)).await?;
    let address = witness.address().ip().to_string();
    let hello = |name: Option<&str>| witness.saw(name.unwrap_or_default(), "hello");
    match handshake(stream, &address, authority, hello).await {
        Err(Stopped::Hello(error)) => {
            witness.saw_stream("", first.get(..length).unwrap_or_default());
            Err(error)
        }
        Err(Stopped::Later(error)) => Err(error),
        Ok(accepted) => Ok(accepted),
    }
}

/// Where a handshake failed.
#[derive(Debug)]
enum Stopped {
    /// There was no hello of a TLS client.
    Hello(io::Error),
    /// There was one.
    Later(io::Error),
}

async fn handshake<S>(
    stream: S,
    address: &str,
    authority: &Authority,
    hello: impl FnOnce(Option<&str>),
) -> Result<(TlsStream<S>, String), Stopped>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let acceptor = LazyConfigAcceptor::new(Acceptor::default(), stream);
    let started = limits::patiently(acceptor).await.map_err(Stopped::Hello)?;
    let name = started.client_hello().server_name().map(str::to_lowercase);
    hello(name.as_deref());
    let configuration = authority.configuration(name.as_deref().unwrap_or(address));
    let configuration = configuration.map_err(|error| Stopped::Later(io::Error::other(error)))?;
    let stream = limits::patiently(started.into_stream(configuration)).await.map_err(Stopped::Later)?;
    Ok((stream, name.unwrap_or_default()))
}

#[cfg(test)]
mod tests {
    use tokio_rustls::TlsConnector;
    use tokio_rustls::rustls::pki_types::ServerName;
    use tokio_rustls::rustls::{ClientConfig, RootCertStore};

    use super::*;

    /// The server name that the server heard when a client that trusts `trusted` asks for `name`.
    async fn heard(authority: &Authority, trusted: &Authority, name: &'static str) -> Result<String, String> {
        let mut roots = RootCertStore::empty();
        roots.add(trusted.issuer.der().clone()).unwrap();
        let client = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        let (ours, theirs) = tokio::io::duplex(limits::CHUNK);
        let connector = TlsConnector::from(Arc::new(client));
        let (connected, accepted) = tokio::join!(
            connector.connect(ServerName::try_from(name).unwrap(), theirs),
            handshake(ours, "8.8.8.8", authority, |_| ())
        );
        connected.map_err(|error| error.to_string())?;
        Ok(accepted.unwrap().1)
    }

    #[tokio::test]
    async fn every_name_has_a_certificate_that_the_authority_signed() {
        let (authority, stranger) = (Authority::create().unwrap(), Authority::create().unwrap());
        assert_eq!(heard(&authority, &authority, "www.example.org").await, Ok("www.example.org".to_owned()));
        assert_eq!(heard(&authority, &authority, "WWW.example.org").await, Ok("www.example.org".to_owned()));
        assert_eq!(heard(&authority, &authority, "8.8.8.8").await, Ok(String::new()));
        assert!(heard(&authority, &stranger, "www.example.org").await.is_err());
        assert_eq!(authority.configurations.lock().unwrap().len(), 2);
    }
}

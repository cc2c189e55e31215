//! From a reference to the one manifest that it means here.

use reqwest::header::CONTENT_TYPE;
use strangers::Shown;

use crate::digest::Digest;
use crate::document::{self, Descriptor, Document, MAX_DOCUMENT, Manifest};
use crate::document_error::DocumentError;
use crate::error::PullError;
use crate::media;
use crate::places::Reach;
use crate::platform::Platform;
use crate::reference::Reference;
use crate::registry::Registry;

/// What a registry calls the digest of what it sends.
const CONTENT_DIGEST: &str = "docker-content-digest";

/// An image, found and verified as far as its manifest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Resolved {
    /// The digest of the manifest.
    pub digest: Digest,
    /// The manifest, byte for byte.
    pub manifest: Vec<u8>,
    /// The image's configuration.
    pub config: Descriptor,
    /// Its layers, the lowest first.
    pub layers: Vec<Descriptor>,
}

/// A document as it came.
struct Fetched {
    media_type: String,
    digest: Digest,
    body: Vec<u8>,
}

impl Registry {
    /// Finds the manifest that a reference means on a platform.
    ///
    /// An index is followed to its first image for the platform. What was asked for by digest has that digest, and what
    /// an index names has the size and the media type that it says. Without an index the image is for whatever platform
    /// its configuration says: the caller must look.
    pub async fn resolve(&self, reference: &Reference, platform: &Platform) -> Result<Resolved, PullError> {
        let unusable = |source| PullError::Document { image: reference.to_string(), source };
        let fetched = match reference.digest() {
            Some(digest) => self.document_by_digest(reference, digest).await?,
            None => self.document(reference, reference.tag().unwrap_or_default()).await?,
        };
        let entries = match self.read(&fetched).map_err(unusable)? {
            Document::Manifest(manifest) => return Ok(resolved(fetched, manifest)),
            Document::Index(entries) => entries,
        };
        let chosen = document::choose(entries, platform).map_err(unusable)?;
        let fetched = self.document_by_digest(reference, chosen.digest).await?;
        let found = u64::try_from(fetched.body.len()).unwrap_or(u64::MAX);
        if found != chosen.size {
            return Err(PullError::SizeDiffers { digest: chosen.digest, expected: chosen.size, found });
        }
        if fetched.media_type != chosen.media_type {
            let (outside, inside) = (Shown::new(&chosen.media_type), Shown::new(&fetched.media_type));
            return Err(unusable(DocumentError::Ambiguous { outside, inside }));
        }
        match self.read(&fetched).map_err(unusable)? {
            Document::Manifest(manifest) => Ok(resolved(fetched, manifest)),
            Document::Index(_) => Err(unusable(DocumentError::Nested)),
        }
    }

    async fn document_by_digest(&self, reference: &Reference, expected: Digest) -> Result<Fetched, PullError> {
        let fetched = self.document(reference, &expected.to_string()).await?;
        if fetched.digest != expected {
            return Err(PullError::DigestDiffers { expected, found: fetched.digest });
        }
        Ok(fetched)
    }

    /// Fetches the document under a tag or a digest.
    async fn document(&self, reference: &Reference, name: &str) -> Result<Fetched, PullError> {
        let answer = self.fetch(reference, &format!("manifests/{name}"), media::ACCEPT, Reach::Registry).await?;
        let announced = answer.header(CONTENT_DIGEST).and_then(|text| text.parse::<Digest>().ok());
        let media_type = answer.header(CONTENT_TYPE).unwrap_or_default();
        let media_type = media_type.split(';').next().unwrap_or_default().trim().to_owned();
        let body = answer.whole(MAX_DOCUMENT).await?;
        let digest = Digest::of(&body);
        // Under a tag this is all there is to notice that something changed the document on its way.
        if let Some(expected) = announced.filter(|announced| *announced != digest) {
            return Err(PullError::DigestDiffers { expected, found: digest });
        }
        Ok(Fetched { media_type, digest, body })
    }

    fn read(&self, fetched: &Fetched) -> Result<Document, DocumentError> {
        document::read(&fetched.media_type, &fetched.body, self.max_layer)
    }
}

fn resolved(fetched: Fetched, manifest: Manifest) -> Resolved {
    Resolved { digest: fetched.digest, manifest: fetched.body, config: manifest.config, layers: manifest.layers }
}

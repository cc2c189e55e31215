//! Media types: what kinds of documents and layers there are, and which of them are understood.

const OCI_INDEX: &str = "application/vnd.oci.image.index.v1+json";
const DOCKER_LIST: &str = "application/vnd.docker.distribution.manifest.list.v2+json";
const OCI_MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
const DOCKER_MANIFEST: &str = "application/vnd.docker.distribution.manifest.v2+json";
const SCHEMA_1: &str = "application/vnd.docker.distribution.manifest.v1+json";
const SCHEMA_1_SIGNED: &str = "application/vnd.docker.distribution.manifest.v1+prettyjws";

/// What we say that we understand when we ask for a manifest.
pub(crate) const ACCEPT: &str = "application/vnd.oci.image.index.v1+json, \
     application/vnd.docker.distribution.manifest.list.v2+json, application/vnd.oci.image.manifest.v1+json, \
     application/vnd.docker.distribution.manifest.v2+json";

/// The kind of a document.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A list of manifests, one for each platform.
    Index,
    /// One image.
    Manifest,
    /// An image in the form that Docker left in 2017: its digest does not cover what a client reads.
    Schema1,
    /// Anything else.
    Other,
}

/// The kind of a layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LayerKind {
    /// An archive, plain or compressed.
    Archive,
    /// One that the registry does not keep itself.
    Foreign,
    /// Anything else.
    Other,
}

/// What a media type says of a document.
pub(crate) fn kind(media_type: &str) -> Kind {
    match media_type {
        OCI_INDEX | DOCKER_LIST => Kind::Index,
        OCI_MANIFEST | DOCKER_MANIFEST => Kind::Manifest,
        SCHEMA_1 | SCHEMA_1_SIGNED => Kind::Schema1,
        _ => Kind::Other,
    }
}

/// What a media type says of a layer.
pub(crate) fn layer_kind(media_type: &str) -> LayerKind {
    match media_type {
        "application/vnd.oci.image.layer.v1.tar"
        | "application/vnd.oci.image.layer.v1.tar+gzip"
        | "application/vnd.oci.image.layer.v1.tar+zstd"
        | "application/vnd.docker.image.rootfs.diff.tar"
        | "application/vnd.docker.image.rootfs.diff.tar.gzip"
        | "application/vnd.docker.image.rootfs.diff.tar.zstd" => LayerKind::Archive,
        foreign
            if foreign.starts_with("application/vnd.oci.image.layer.nondistributable.v1.tar")
                || foreign.starts_with("application/vnd.docker.image.rootfs.foreign.diff.tar") =>
        {
            LayerKind::Foreign
        }
        _ => LayerKind::Other,
    }
}

/// Whether a media type is that of an image's configuration; artifacts that are no images have others.
pub(crate) fn is_config(media_type: &str) -> bool {
    matches!(media_type, "application/vnd.oci.image.config.v1+json" | "application/vnd.docker.container.image.v1+json")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_that_we_accept_is_understood() {
        let kinds: Vec<Kind> = ACCEPT.split(", ").map(kind).collect();
        assert_eq!(kinds, [Kind::Index, Kind::Index, Kind::Manifest, Kind::Manifest]);
    }

    #[test]
    fn foreign_layers_are_known_as_such() {
        for media_type in [
            "application/vnd.oci.image.layer.nondistributable.v1.tar",
            "application/vnd.oci.image.layer.nondistributable.v1.tar+zstd",
            "application/vnd.docker.image.rootfs.foreign.diff.tar.gzip",
        ] {
            assert_eq!(layer_kind(media_type), LayerKind::Foreign);
        }
        assert_eq!(layer_kind("application/vnd.oci.image.layer.v1.tar+gzip+encrypted"), LayerKind::Other);
    }
}

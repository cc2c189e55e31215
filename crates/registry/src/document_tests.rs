use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

const INDEX: &str = "application/vnd.oci.image.index.v1+json";
const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
const CONFIG: &str = "application/vnd.oci.image.config.v1+json";
const LAYER: &str = "application/vnd.oci.image.layer.v1.tar+gzip";
const MAX_LAYER: u64 = 1000;

fn named(media_type: &str, size: u64) -> Value {
    json!({ "mediaType": media_type, "digest": Digest::of(media_type.as_bytes()), "size": size })
}

fn entry(platform: &Value) -> Value {
    let mut entry = named(MANIFEST, 7);
    entry["platform"] = platform.clone();
    entry["digest"] = json!(Digest::of(platform.to_string().as_bytes()));
    entry
}

fn index_of(platforms: &[Value]) -> Value {
    json!({ "schemaVersion": 2, "mediaType": INDEX, "manifests": platforms.iter().map(entry).collect::<Vec<_>>() })
}

fn image() -> Value {
    json!({ "schemaVersion": 2, "config": named(CONFIG, 5), "layers": [named(LAYER, 6)] })
}

/// An image with something else at this place.
fn image_with(pointer: &str, value: Value) -> Value {
    let mut image = image();
    *image.pointer_mut(pointer).unwrap() = value;
    image
}

fn reading(media_type: &str, document: &Value) -> Result<Document, DocumentError> {
    read(media_type, document.to_string().as_bytes(), MAX_LAYER)
}

#[test]
fn a_manifest_names_its_configuration_and_layers() {
    let descriptor = |media_type: &str, size| Descriptor {
        media_type: media_type.to_owned(),
        digest: Digest::of(media_type.as_bytes()),
        size,
    };
    let expected = Manifest { config: descriptor(CONFIG, 5), layers: vec![descriptor(LAYER, 6)] };
    assert_eq!(reading(MANIFEST, &image()), Ok(Document::Manifest(expected)));
}

#[test]
fn an_index_gives_the_first_image_of_the_platform() {
    let arm = json!({ "os": "linux", "architecture": "arm64", "variant": "v8" });
    let amd = json!({ "os": "linux", "architecture": "amd64" });
    let fast = json!({ "os": "linux", "architecture": "amd64", "variant": "v3" });
    let unknown = json!({ "os": "unknown", "architecture": "unknown" });
    let odd = json!({ "os": "linux\u{1b}[2J", "architecture": "amd64" });
    let index = index_of(&[odd, unknown, fast.clone(), arm.clone(), amd.clone(), amd.clone()]);
    for (text, platform) in [("linux/amd64", &amd), ("linux/arm64", &arm), ("linux/amd64/v3", &fast)] {
        let Ok(Document::Index(entries)) = reading(INDEX, &index) else { panic!("no index") };
        let chosen = choose(entries, &text.parse().unwrap()).unwrap();
        assert_eq!(chosen.digest, Digest::of(platform.to_string().as_bytes()), "{text}");
    }
    let Ok(Document::Index(entries)) = reading(INDEX, &index) else { panic!("no index") };
    let error = choose(entries, &"linux/s390x".parse().unwrap()).unwrap_err();
    assert_eq!(
        error.to_string(),
        "there is no image for linux/s390x, only for linux/amd64, linux/amd64/v3, linux/arm64, unknown/unknown"
    );
}

#[test]
fn old_images_are_refused() {
    let old = json!({ "schemaVersion": 1, "fsLayers": [], "history": [] });
    for media_type in [
        "application/vnd.docker.distribution.manifest.v1+json",
        "application/vnd.docker.distribution.manifest.v1+prettyjws",
        MANIFEST,
    ] {
        assert_eq!(reading(media_type, &old), Err(DocumentError::Schema1), "{media_type}");
    }
}

#[test]
fn a_document_of_two_kinds_is_refused() {
    let mut both = image();
    both["manifests"] = json!([]);
    for media_type in [INDEX, MANIFEST] {
        assert!(matches!(reading(media_type, &both), Err(DocumentError::Ambiguous { .. })), "{media_type}");
    }
    let mut liar = image();
    liar["mediaType"] = json!(INDEX);
    assert!(matches!(reading(MANIFEST, &liar), Err(DocumentError::Ambiguous { .. })));
    let twice = br#"{"schemaVersion":2,"schemaVersion":2,"manifests":[]}"#;
    assert!(matches!(read(INDEX, twice, MAX_LAYER), Err(DocumentError::Malformed { .. })));
}

#[test]
fn layers_from_elsewhere_are_refused() {
    let media_type = "application/vnd.docker.image.rootfs.foreign.diff.tar.gzip";
    let foreign = image_with("/layers/0/mediaType", json!(media_type));
    assert_eq!(reading(MANIFEST, &foreign), Err(DocumentError::ForeignLayer { media_type: Shown::new(media_type) }));
    let mut layer = named(LAYER, 6);
    layer["urls"] = json!(["https://example.org/layer"]);
    let elsewhere = image_with("/layers/0", layer);
    assert_eq!(reading(MANIFEST, &elsewhere), Err(DocumentError::ForeignLayer { media_type: Shown::new(LAYER) }));
    let odd = image_with("/layers/0/mediaType", json!("text/plain"));
    assert_eq!(reading(MANIFEST, &odd), Err(DocumentError::LayerType { media_type: Shown::new("text/plain") }));
}

#[test]
fn limits_hold() {
    let many = image_with("/layers", json!(vec![named(LAYER, 6); MAX_LAYERS]));
    assert!(reading(MANIFEST, &many).is_ok());
    let many = image_with("/layers", json!(vec![named(LAYER, 6); MAX_LAYERS + 1]));
    assert_eq!(reading(MANIFEST, &many), Err(DocumentError::TooManyLayers { found: MAX_LAYERS + 1 }));
    let entries = vec![json!({ "os": "linux", "architecture": "amd64" }); MAX_ENTRIES + 1];
    assert!(reading(INDEX, &index_of(&entries[1..])).is_ok());
    assert_eq!(reading(INDEX, &index_of(&entries)), Err(DocumentError::TooManyEntries { found: MAX_ENTRIES + 1 }));
    for (pointer, limit) in [("/layers/0/size", MAX_LAYER), ("/config/size", MAX_CONFIG)] {
        assert!(reading(MANIFEST, &image_with(pointer, json!(limit))).is_ok());
        let found = reading(MANIFEST, &image_with(pointer, json!(limit + 1)));
        assert!(matches!(found, Err(DocumentError::TooLarge { size, .. }) if size == limit + 1), "{found:?}");
    }
}

#[test]
fn what_is_no_image_says_why() {
    let chart = image_with("/config/mediaType", json!("application/vnd.cncf.helm.config.v1+json"));
    assert!(matches!(reading(MANIFEST, &chart), Err(DocumentError::NotAnImage { .. })));
    assert!(matches!(reading("application/json", &image()), Err(DocumentError::MediaType { .. })));
    assert!(matches!(reading(MANIFEST, &json!({ "schemaVersion": 2 })), Err(DocumentError::Malformed { .. })));
    assert!(matches!(reading(INDEX, &json!({ "manifests": [] })), Err(DocumentError::Malformed { .. })));
    for bad in [json!(-1), json!(1.5), json!("6"), json!(null)] {
        let found = reading(MANIFEST, &image_with("/layers/0/size", bad));
        assert!(matches!(found, Err(DocumentError::Malformed { .. })), "{found:?}");
    }
    let strong = image_with("/layers/0/digest", json!("sha512:00"));
    assert!(matches!(reading(MANIFEST, &strong), Err(DocumentError::Digest { .. })));
}

#[test]
fn words_of_the_document_are_bounded_in_errors() {
    let document = image_with("/layers", json!("\u{1b}]0;".repeat(1000)));
    let error = reading(MANIFEST, &document).unwrap_err().to_string();
    assert!(error.len() < crate::MAX_SHOWN + 100 && !error.contains('\u{1b}'), "{error}");
}

#[test]
fn a_document_of_many_small_values_is_refused() {
    let many = "[],".repeat(1 << 20);
    let body = format!("{{\"schemaVersion\":2,\"x\":[{many}0],\"manifests\":[]}}");
    let read = read(INDEX, body.as_bytes(), MAX_LAYER);
    let refused = matches!(&read, Err(DocumentError::Malformed { why }) if why.to_string().contains("too many values"));
    assert!(refused, "{read:?}");
}

proptest! {
    #[test]
    fn no_bytes_are_too_much(bytes in prop::collection::vec(any::<u8>(), 0..200), kind in 0..2_usize) {
        let _ = read([INDEX, MANIFEST][kind], &bytes, MAX_LAYER);
    }

    #[test]
    fn whatever_is_read_keeps_the_limits(size in any::<u64>(), layers in 0..200_usize) {
        let document = image_with("/layers", json!(vec![named(LAYER, size); layers]));
        if let Ok(Document::Manifest(manifest)) = reading(MANIFEST, &document) {
            prop_assert!(manifest.layers.len() <= MAX_LAYERS);
            prop_assert!(manifest.layers.iter().all(|layer| layer.size <= MAX_LAYER));
        }
    }
}

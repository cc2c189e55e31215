//! Resolving: what is asked for, and which documents are not believed.

use registry::{Digest, DocumentError, MAX_SHOWN, PullError};
use serde_json::json;

use crate::image::{ACCEPT, INDEX, Image, MANIFEST, manifest_of, named, nobody, pull, reference, resolve};
use crate::server::{Access, Answer, Server, Then};

const LIMIT: usize = 4 << 20;

fn index_of(images: &[(&str, &Image)]) -> Vec<u8> {
    let entries: Vec<_> = images
        .iter()
        .map(|(architecture, image)| {
            let mut entry = named(image.media_type, &image.manifest);
            entry["platform"] = json!({ "os": "linux", "architecture": architecture });
            entry
        })
        .collect();
    json!({ "schemaVersion": 2, "mediaType": INDEX, "manifests": entries }).to_string().into_bytes()
}

#[tokio::test]
async fn an_image_is_pulled_by_tag_and_by_digest() {
    for image in [Image::new("oci"), Image::docker("docker")] {
        let server = Server::start().await;
        image.put(&server, "1.0", &Access::Open);
        for rest in [":1.0".to_owned(), format!("@{}", image.digest()), format!(":other@{}", image.digest())] {
            let (resolved, blobs) = pull(&nobody(), &reference(&server, &rest)).await.unwrap();
            assert_eq!((resolved.digest, &resolved.manifest), (image.digest(), &image.manifest));
            assert_eq!(blobs, image.blobs, "{rest}");
        }
    }
}

#[tokio::test]
async fn localhost_is_asked_in_plain_text() {
    let image = Image::new("image");
    let server = Server::start_localhost().await;
    image.put(&server, "latest", &Access::Open);
    let (_, blobs) = pull(&nobody(), &reference(&server, "")).await.unwrap();
    assert_eq!(blobs, image.blobs);
}

#[tokio::test]
async fn an_index_leads_to_the_image_of_the_platform() {
    let (amd, arm) = (Image::new("amd64"), Image::docker("arm64"));
    let server = Server::start().await;
    amd.put(&server, "amd", &Access::Open);
    arm.put(&server, "arm", &Access::Open);
    let index = index_of(&[("s390x", &Image::new("other")), ("amd64", &amd), ("arm64", &arm)]);
    let digest = Digest::of(&index).to_string();
    for name in ["1.0", &digest] {
        server.expect(&manifest_of(name), ACCEPT, &Access::Open, [Answer::ok(INDEX, &index)]);
    }
    for rest in [":1.0".to_owned(), format!("@{digest}")] {
        for (platform, image) in [("linux/amd64", &amd), ("linux/arm64/v8", &arm)] {
            let reference = reference(&server, &rest);
            let resolved = nobody().resolve(&reference, &platform.parse().unwrap()).await.unwrap();
            assert_eq!(resolved.digest, image.digest(), "{rest} {platform}");
        }
    }
    let error = nobody().resolve(&reference(&server, ":1.0"), &"linux/riscv64".parse().unwrap()).await.unwrap_err();
    let PullError::Document { source: DocumentError::NoPlatform { offered, .. }, .. } = &error else {
        panic!("{error:?}");
    };
    assert_eq!(offered.len(), 3);
    assert!(error.hint().unwrap().contains("linux/amd64"));
}

#[tokio::test]
async fn a_manifest_with_another_digest_is_refused() {
    let (wanted, other) = (Image::new("wanted"), Image::new("other"));
    let server = Server::start().await;
    let wrong = manifest_of(&wanted.digest().to_string());
    server.expect(&wrong, ACCEPT, &Access::Open, [Answer::ok(MANIFEST, &other.manifest)]);
    server.expect(&manifest_of("1.0"), ACCEPT, &Access::Open, [Answer::ok(INDEX, &index_of(&[("amd64", &wanted)]))]);
    for rest in [format!("@{}", wanted.digest()), ":1.0".to_owned()] {
        let error = resolve(&nobody(), &reference(&server, &rest)).await.unwrap_err();
        let differs = matches!(error, PullError::DigestDiffers { expected, found }
            if expected == wanted.digest() && found == other.digest());
        assert!(differs, "{error:?}");
    }
}

#[tokio::test]
async fn a_digest_that_the_registry_itself_contradicts_is_refused() {
    let image = Image::new("tagged");
    let server = Server::start().await;
    let other = Digest::of(b"other").to_string();
    let headers = [("Content-Type", MANIFEST), ("Docker-Content-Digest", other.as_str())];
    let answer = Answer::new("200 OK", &headers, &image.manifest);
    server.expect(&manifest_of("1.0"), ACCEPT, &Access::Open, [answer]);
    let error = resolve(&nobody(), &reference(&server, ":1.0")).await.unwrap_err();
    assert!(matches!(error, PullError::DigestDiffers { .. }), "{error:?}");
}

#[tokio::test]
async fn an_entry_with_another_size_or_kind_is_refused() {
    let image = Image::new("image");
    for (key, value) in [("size", json!(1)), ("mediaType", json!(Image::docker("").media_type))] {
        let server = Server::start().await;
        image.put(&server, "image", &Access::Open);
        let mut index: serde_json::Value = serde_json::from_slice(&index_of(&[("amd64", &image)])).unwrap();
        index["manifests"][0][key] = value;
        let answer = Answer::ok(INDEX, index.to_string().as_bytes());
        server.expect(&manifest_of("1.0"), ACCEPT, &Access::Open, [answer]);
        let error = resolve(&nobody(), &reference(&server, ":1.0")).await.unwrap_err();
        let ambiguous = matches!(error, PullError::Document { source: DocumentError::Ambiguous { .. }, .. });
        assert!(ambiguous || matches!(error, PullError::SizeDiffers { expected: 1, .. }), "{error:?}");
    }
}

#[tokio::test]
async fn an_index_in_an_index_is_refused() {
    let inner = Image { media_type: INDEX, manifest: index_of(&[]), blobs: Vec::new() };
    let server = Server::start().await;
    inner.put(&server, "inner", &Access::Open);
    server.expect(&manifest_of("1.0"), ACCEPT, &Access::Open, [Answer::ok(INDEX, &index_of(&[("amd64", &inner)]))]);
    let error = resolve(&nobody(), &reference(&server, ":1.0")).await.unwrap_err();
    assert!(matches!(error, PullError::Document { source: DocumentError::Nested, .. }), "{error:?}");
}

#[tokio::test]
async fn a_huge_manifest_is_refused() {
    let headers = [("Content-Type", MANIFEST), ("Content-Length", "4194305")];
    let announced = Answer::raw("200 OK", &headers, b"{", Then::Stall);
    let headers = [("Content-Type", MANIFEST), ("Transfer-Encoding", "chunked")];
    let chunked =
        Answer::raw("200 OK", &headers, b"", Then::Repeat(format!("1000\r\n{}\r\n", " ".repeat(4096)).into()));
    let endless = Answer::raw("200 OK", &[("Content-Type", MANIFEST)], b"", Then::Repeat(vec![b' '; 4096]));
    for answer in [announced, chunked, endless] {
        let server = Server::start().await;
        server.expect(&manifest_of("1.0"), ACCEPT, &Access::Open, [answer]);
        let error = resolve(&nobody(), &reference(&server, ":1.0")).await.unwrap_err();
        assert!(matches!(error, PullError::AnswerTooLarge { limit, .. } if limit == LIMIT as u64), "{error:?}");
    }
}

#[tokio::test]
async fn the_largest_manifest_is_read() {
    let image = Image::new("image");
    let mut manifest = image.manifest.clone();
    manifest.resize(LIMIT, b' ');
    let server = Server::start().await;
    server.expect(&manifest_of("1.0"), ACCEPT, &Access::Open, [Answer::ok(MANIFEST, &manifest)]);
    let resolved = resolve(&nobody(), &reference(&server, ":1.0")).await.unwrap();
    assert_eq!(resolved.layers, [0, 1].map(|at| image.layer(at)));
}

#[tokio::test]
async fn images_of_other_kinds_are_refused() {
    let old = br#"{"schemaVersion":1,"fsLayers":[],"history":[],"signatures":[]}"#.to_vec();
    let mut foreign: serde_json::Value = serde_json::from_slice(&Image::new("windows").manifest).unwrap();
    foreign["layers"][0]["mediaType"] = json!("application/vnd.docker.image.rootfs.foreign.diff.tar.gzip");
    let foreign = foreign.to_string().into_bytes();
    for (media_type, body, what) in [
        ("application/vnd.docker.distribution.manifest.v1+prettyjws", &old, "schema 1"),
        ("application/json; charset=utf-8", &old, "`application/json` is no media type"),
        (MANIFEST, &foreign, "not kept by the registry"),
    ] {
        let server = Server::start().await;
        server.expect(&manifest_of("1.0"), ACCEPT, &Access::Open, [Answer::ok(media_type, body)]);
        let error = resolve(&nobody(), &reference(&server, ":1.0")).await.unwrap_err();
        let PullError::Document { source, .. } = &error else { panic!("{error:?}") };
        assert!(source.to_string().contains(what), "{source}");
        assert!(error.hint().is_some());
    }
}

#[tokio::test]
async fn what_is_not_there_is_said_in_the_registrys_bounded_words() {
    let long = "\u{1b}]0;owned\u{7}".repeat(MAX_SHOWN);
    let body = json!({ "errors": [{ "code": "MANIFEST_UNKNOWN", "message": long }] }).to_string();
    let server = Server::start().await;
    server.expect(&manifest_of("1.0"), ACCEPT, &Access::Open, [Answer::new("404 Not Found", &[], body.as_bytes())]);
    let error = resolve(&nobody(), &reference(&server, ":1.0")).await.unwrap_err();
    let PullError::NotFound { message, .. } = &error else { panic!("{error:?}") };
    assert!(message.as_str().starts_with("MANIFEST_UNKNOWN: ]0;owned]0;"), "{message}");
    assert!(message.as_str().chars().count() == MAX_SHOWN && !message.as_str().contains(char::is_control), "{message}");
}

//! Blobs: what comes is what was asked for, or nothing.

use std::sync::Arc;

use registry::{Credentials, PullError, Registry};

use crate::image::{ANY, Image, blob, blob_of, nobody, reference, resolve, settings};
use crate::server::{Access, Answer, Server, Then};

/// What comes of a layer when the registry answers so.
async fn answered(image: &Image, answer: Answer) -> PullError {
    let server = Server::start().await;
    let layer = image.layer(0);
    server.expect(&blob_of(&layer.digest), ANY, &Access::Open, [answer]);
    blob(&nobody(), &reference(&server, ""), &layer).await.unwrap_err()
}

#[tokio::test]
async fn progress_is_told_up_to_the_size() {
    let image = Image::new("image");
    let server = Server::start().await;
    image.put(&server, "1.0", &Access::Open);
    let (bytes, progress) = blob(&nobody(), &reference(&server, ""), &image.layer(1)).await.unwrap();
    assert_eq!(bytes, image.blobs[2]);
    assert!(progress.is_sorted() && progress.last() == Some(&image.layer(1).size), "{progress:?}");
}

#[tokio::test]
async fn a_blob_in_chunks_is_as_good() {
    let image = Image::new("image");
    let server = Server::start().await;
    let (layer, bytes) = (image.layer(0), &image.blobs[1]);
    let mut body = format!("{:x}\r\n", bytes.len()).into_bytes();
    body.extend_from_slice(bytes);
    body.extend_from_slice(b"\r\n0\r\n\r\n");
    let answer = Answer::raw("200 OK", &[("Transfer-Encoding", "chunked")], &body, Then::Close);
    server.expect(&blob_of(&layer.digest), ANY, &Access::Open, [answer]);
    assert_eq!(blob(&nobody(), &reference(&server, ""), &layer).await.unwrap().0, *bytes);
}

#[tokio::test]
async fn another_blob_of_the_same_size_is_refused() {
    let image = Image::new("image");
    let error = answered(&image, Answer::ok("text/plain", &vec![0; image.blobs[1].len()])).await;
    assert!(
        matches!(error, PullError::DigestDiffers { expected, .. } if expected == image.layer(0).digest),
        "{error:?}"
    );
}

#[tokio::test]
async fn a_truncated_blob_is_refused() {
    let image = Image::new("image");
    let (bytes, size) = (&image.blobs[1], image.layer(0).size);
    let length = size.to_string();
    let cut = Answer::raw("200 OK", &[("Content-Length", &length)], &bytes[..bytes.len() - 1], Then::Close);
    let error = answered(&image, cut).await;
    assert!(matches!(error, PullError::Interrupted { .. }) && error.is_transient(), "{error:?}");
    // Without a length, the end of the connection is the end of the blob.
    let cut = Answer::raw("200 OK", &[], &bytes[..bytes.len() - 1], Then::Close);
    let error = answered(&image, cut).await;
    assert!(matches!(error, PullError::SizeDiffers { found, .. } if found == size - 1), "{error:?}");
    let error =
        answered(&image, Answer::raw("200 OK", &[("Transfer-Encoding", "chunked")], b"5\r\nab", Then::Close)).await;
    assert!(matches!(error, PullError::Interrupted { .. }), "{error:?}");
}

#[tokio::test]
async fn a_blob_longer_than_its_descriptor_is_refused() {
    let image = Image::new("image");
    let (mut bytes, size) = (image.blobs[1].clone(), image.layer(0).size);
    bytes.push(0);
    for answer in [Answer::ok("text/plain", &bytes), Answer::raw("200 OK", &[], &bytes, Then::Close)] {
        let error = answered(&image, answer).await;
        let differs =
            matches!(error, PullError::SizeDiffers { expected, found, .. } if (expected, found) == (size, size + 1));
        assert!(differs, "{error:?}");
    }
}

#[tokio::test]
async fn a_blob_announced_with_another_size_is_not_waited_for() {
    let image = Image::new("image");
    let size = image.layer(0).size;
    for announced in [0, size - 1, size + 1, u64::MAX] {
        let length = announced.to_string();
        let answer = Answer::raw("200 OK", &[("Content-Length", &length)], b"", Then::Stall);
        let error = answered(&image, answer).await;
        let differs = matches!(error, PullError::SizeDiffers { found, .. } if found == announced);
        // The largest number is none to HTTP libraries, which use it for "unknown".
        assert!(differs || (announced == u64::MAX && matches!(error, PullError::Interrupted { .. })), "{error:?}");
    }
}

#[tokio::test]
async fn a_blob_without_end_is_left() {
    let image = Image::new("image");
    let endless = Answer::raw("200 OK", &[], b"", Then::Repeat(vec![7; 4096]));
    let error = answered(&image, endless).await;
    assert!(matches!(error, PullError::SizeDiffers { .. }), "{error:?}");
    let chunk = format!("1000\r\n{}\r\n", "7".repeat(4096)).into_bytes();
    let endless = Answer::raw("200 OK", &[("Transfer-Encoding", "chunked")], b"", Then::Repeat(chunk));
    let error = answered(&image, endless).await;
    assert!(matches!(error, PullError::SizeDiffers { .. }), "{error:?}");
}

#[tokio::test]
async fn a_layer_above_the_callers_limit_is_not_asked_for() {
    let image = Image::new("image");
    let server = Server::start().await;
    let limit = image.layer(1).size - 1;
    let registry = nobody().with_max_layer(limit);
    let error = blob(&registry, &reference(&server, ""), &image.layer(1)).await.unwrap_err();
    assert!(matches!(error, PullError::BlobTooLarge { limit: found, .. } if found == limit), "{error:?}");
    assert_eq!(server.heard(), Vec::<String>::new());
    image.put(&server, "1.0", &Access::Open);
    let error = resolve(&registry, &reference(&server, ":1.0")).await.unwrap_err();
    assert!(matches!(error, PullError::Document { .. }), "{error:?}");
}

#[tokio::test]
async fn a_file_that_cannot_be_written_is_an_error_of_its_own() {
    let image = Image::new("image");
    let server = Server::start().await;
    image.put(&server, "1.0", &Access::Open);
    let mut full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let error = nobody().blob(&reference(&server, ""), &image.layer(1), &mut full, &|_| ()).await.unwrap_err();
    assert!(matches!(error, PullError::Write(_)), "{error:?}");
}

#[tokio::test]
async fn several_layers_come_at_the_same_time() {
    let image = Image::new("image");
    let server = Server::start().await;
    image.put(&server, "1.0", &Access::Open);
    let registry = Arc::new(Registry::with_settings(Credentials::none(), settings()).unwrap());
    let mut tasks = tokio::task::JoinSet::new();
    for at in 0..2 {
        let (registry, reference, layer) = (Arc::clone(&registry), reference(&server, ""), image.layer(at));
        tasks.spawn(async move { (at, blob(&registry, &reference, &layer).await.unwrap().0) });
    }
    while let Some(done) = tasks.join_next().await {
        let (at, bytes) = done.unwrap();
        assert_eq!(bytes, image.blobs[at + 1]);
    }
}

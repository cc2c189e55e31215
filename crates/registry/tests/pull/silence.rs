//! Servers that are out of order: what is tried again, and how long is waited.

use std::time::{Duration, Instant};

use registry::{Credentials, PullError, Registry};

use crate::image::{
    ACCEPT, ANY, Image, MANIFEST, blob, blob_of, deserted, impatient, manifest_of, nobody, pull, reference, resolve,
};
use crate::server::{Access, Answer, Server, Then};

fn impatient_nobody() -> Registry {
    Registry::with_settings(Credentials::none(), impatient()).unwrap()
}

fn busy() -> Answer {
    Answer::new("503 Service Unavailable", &[], b"<html>")
}

#[tokio::test]
async fn a_server_out_of_order_is_asked_again() {
    let image = Image::new("image");
    let server = Server::start().await;
    image.put(&server, "1.0", &Access::Open);
    let good = Answer::ok(MANIFEST, &image.manifest);
    server.expect(&manifest_of("1.0"), ACCEPT, &Access::Open, [busy(), busy(), good]);
    let layer = image.layer(0);
    let good = Answer::ok("text/plain", &image.blobs[1]);
    let answers = [Answer::nothing(Then::Close), Answer::new("500 Oops", &[], b""), good];
    server.expect(&blob_of(&layer.digest), ANY, &Access::Open, answers);
    let (_, blobs) = pull(&nobody(), &reference(&server, ":1.0")).await.unwrap();
    assert_eq!(blobs, image.blobs);
    assert_eq!(server.heard().len(), 3 + 1 + 3 + 1);
}

#[tokio::test]
async fn a_server_that_stays_out_of_order_is_asked_three_times() {
    let server = Server::start().await;
    server.expect(&manifest_of("1.0"), ACCEPT, &Access::Open, [busy()]);
    let error = resolve(&nobody(), &reference(&server, ":1.0")).await.unwrap_err();
    assert!(matches!(error, PullError::Status { status: 503, .. }) && error.is_transient(), "{error:?}");
    assert_eq!(server.heard().len(), 3);
}

#[tokio::test]
async fn other_errors_are_not_asked_again() {
    for (status, transient) in [("404 Not Found", false), ("403 Forbidden", false), ("429 Too Many Requests", true)] {
        let server = Server::start().await;
        server.expect(&manifest_of("1.0"), ACCEPT, &Access::Open, [Answer::new(status, &[], b"")]);
        let error = resolve(&nobody(), &reference(&server, ":1.0")).await.unwrap_err();
        assert_eq!((error.is_transient(), server.heard().len()), (transient, 1), "{error:?}");
        assert!(error.hint().is_some());
    }
}

#[tokio::test]
async fn a_blob_that_broke_off_is_not_asked_again() {
    let image = Image::new("image");
    let server = Server::start().await;
    let layer = image.layer(0);
    let length = layer.size.to_string();
    let cut = Answer::raw("200 OK", &[("Content-Length", &length)], b"x", Then::Close);
    server.expect(&blob_of(&layer.digest), ANY, &Access::Open, [cut]);
    blob(&nobody(), &reference(&server, ""), &layer).await.unwrap_err();
    assert_eq!(server.heard().len(), 1);
}

#[tokio::test]
async fn nobody_there_is_an_error_with_its_cause() {
    let (_socket, address) = deserted();
    let reference = format!("{address}/a").parse().unwrap();
    let error = resolve(&nobody(), &reference).await.unwrap_err();
    let PullError::Unreachable { server, source } = &error else { panic!("{error:?}") };
    assert_eq!(server.as_str(), address);
    assert!(source.to_string().contains("refused"), "{source}");
}

#[tokio::test]
async fn a_server_that_stalls_is_left() {
    let image = Image::new("image");
    let layer = image.layer(0);
    let length = layer.size.to_string();
    let cut = Answer::raw("200 OK", &[("Content-Length", &length)], b"x", Then::Stall);
    for answer in [Answer::nothing(Then::Stall), cut] {
        let server = Server::start().await;
        server.expect(&blob_of(&layer.digest), ANY, &Access::Open, [answer]);
        let begin = Instant::now();
        let error = blob(&impatient_nobody(), &reference(&server, ""), &layer).await.unwrap_err();
        assert!(matches!(error, PullError::Stalled { .. }) && error.is_transient(), "{error:?}");
        assert!(begin.elapsed() < Duration::from_secs(20));
        assert_eq!(server.heard().len(), 1);
    }
}

#[tokio::test]
async fn a_manifest_that_trickles_is_left() {
    let server = Server::start().await;
    let headers = [("Content-Type", MANIFEST), ("Content-Length", "100000")];
    let trickle = Answer::raw("200 OK", &headers, b"", Then::Trickle);
    server.expect(&manifest_of("1.0"), ACCEPT, &Access::Open, [trickle]);
    let error = resolve(&impatient_nobody(), &reference(&server, ":1.0")).await.unwrap_err();
    let document = impatient().timing.document;
    assert!(matches!(error, PullError::Stalled { after, .. } if after == document), "{error:?}");
}

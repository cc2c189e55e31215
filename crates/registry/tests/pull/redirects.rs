//! Redirects: how far they may lead, and that nothing secret goes along.

use registry::{Credentials, PullError, Registry, Unsafe};

use crate::image::{
    ACCEPT, ANY, Image, MANIFEST, blob, blob_of, manifest_of, nobody, pull, reference, resolve, settings,
};
use crate::logins::{config, locked, token_server};
use crate::server::{Access, Answer, Server};

#[tokio::test]
async fn a_blob_is_followed_to_another_host_without_authorization() {
    let image = Image::new("image");
    let (server, storage) = (Server::start().await, Server::start().await);
    image.put(&server, "1.0", &Access::Open);
    let key = token_server(&server, None);
    let access = locked(&server, &key);
    image.put(&server, "1.0", &access);
    let layer = image.layer(1);
    let location = format!("http://{}/data?X-Amz-Signature=abc", storage.host);
    server.expect(&blob_of(&layer.digest), ANY, &access, [Answer::redirect(&location)]);
    let answer = Answer::ok("text/plain", &image.blobs[2]);
    storage.expect("GET /data?X-Amz-Signature=abc", ANY, &Access::Open, [answer]);
    let (_, blobs) = pull(&nobody(), &reference(&server, ":1.0")).await.unwrap();
    assert_eq!(blobs, image.blobs);
    assert_eq!(storage.heard().len(), 1);
}

#[tokio::test]
async fn a_password_does_not_follow_a_redirect_and_does_not_come_back() {
    let image = Image::new("image");
    let (server, storage) = (Server::start().await, Server::start().await);
    let basic = "Basic bWU6aHVudGVyMg==".to_owned();
    let access = Access::Locked { challenge: "Basic realm=\"x\"".to_owned(), key: basic };
    let layer = image.layer(0);
    // Away, and from there back to the registry: that request is a stranger's, and gets nothing of ours.
    server.expect(&blob_of(&layer.digest), ANY, &access, [Answer::redirect(&format!("http://{}/a", storage.host))]);
    storage.expect("GET /a", ANY, &Access::Open, [Answer::redirect(&format!("http://{}/b", server.host))]);
    server.expect("GET /b", ANY, &Access::Open, [Answer::ok("text/plain", &image.blobs[1])]);
    let registry = Registry::with_settings(config(&server.host, "me", "hunter2"), settings()).unwrap();
    assert_eq!(blob(&registry, &reference(&server, ""), &layer).await.unwrap().0, image.blobs[1]);
    // On the registry itself it goes along.
    server.expect(&blob_of(&layer.digest), ANY, &access, [Answer::redirect("/c")]);
    server.expect("GET /c", ANY, &access, [Answer::ok("text/plain", &image.blobs[1])]);
    assert_eq!(blob(&registry, &reference(&server, ""), &layer).await.unwrap().0, image.blobs[1]);
}

#[tokio::test]
async fn a_login_is_not_given_to_the_host_of_a_redirect() {
    let image = Image::new("image");
    let (server, storage) = (Server::start().await, Server::start().await);
    let layer = image.layer(0);
    server.expect(
        &blob_of(&layer.digest),
        ANY,
        &Access::Open,
        [Answer::redirect(&format!("http://{}/a", storage.host))],
    );
    let asks = Answer::new("401 Unauthorized", &[("WWW-Authenticate", "Basic realm=\"x\"")], b"");
    storage.expect("GET /a", ANY, &Access::Open, [asks]);
    let credentials = config(&storage.host, "me", "hunter2");
    let registry = Registry::with_settings(credentials, settings()).unwrap();
    let error = blob(&registry, &reference(&server, ""), &layer).await.unwrap_err();
    assert!(matches!(error, PullError::Denied { .. }), "{error:?}");
    assert_eq!(storage.heard().len(), 1);
}

#[tokio::test]
async fn redirects_without_end_are_left() {
    let image = Image::new("image");
    let (server, storage) = (Server::start().await, Server::start().await);
    let layer = image.layer(0);
    let (there, back) = (format!("http://{}/a", storage.host), format!("http://{}/b", server.host));
    server.expect(&blob_of(&layer.digest), ANY, &Access::Open, [Answer::redirect(&there)]);
    storage.expect("GET /a", ANY, &Access::Open, [Answer::redirect(&back)]);
    server.expect("GET /b", ANY, &Access::Open, [Answer::redirect(&there)]);
    let error = blob(&nobody(), &reference(&server, ""), &layer).await.unwrap_err();
    assert!(matches!(error, PullError::TooManyRedirects { limit: 5, .. }), "{error:?}");
    assert_eq!(server.heard().len() + storage.heard().len(), 6);
}

#[tokio::test]
async fn five_redirects_are_followed() {
    let image = Image::new("image");
    let server = Server::start().await;
    let layer = image.layer(0);
    server.expect(&blob_of(&layer.digest), ANY, &Access::Open, [Answer::redirect("/1")]);
    for at in 1..5 {
        server.expect(&format!("GET /{at}"), ANY, &Access::Open, [Answer::redirect(&format!("{}", at + 1))]);
    }
    server.expect("GET /5", ANY, &Access::Open, [Answer::ok("text/plain", &image.blobs[1])]);
    assert_eq!(blob(&nobody(), &reference(&server, ""), &layer).await.unwrap().0, image.blobs[1]);
}

#[tokio::test]
async fn a_manifest_is_not_followed_elsewhere() {
    let image = Image::new("image");
    let (server, other) = (Server::start().await, Server::start().await);
    server.expect(&manifest_of("1.0"), ACCEPT, &Access::Open, [Answer::redirect(&format!("http://{}/m", other.host))]);
    let error = resolve(&nobody(), &reference(&server, ":1.0")).await.unwrap_err();
    let PullError::Redirect { to, why: Unsafe::Elsewhere, .. } = &error else { panic!("{error:?}") };
    assert_eq!((to.as_str(), other.heard().len()), (other.host.as_str(), 0));
    server.expect(&manifest_of("2.0"), ACCEPT, &Access::Open, [Answer::redirect("/m")]);
    server.expect("GET /m", ACCEPT, &Access::Open, [Answer::ok(MANIFEST, &image.manifest)]);
    assert_eq!(resolve(&nobody(), &reference(&server, ":2.0")).await.unwrap().digest, image.digest());
}

#[tokio::test]
async fn a_blob_is_not_followed_to_plain_text_elsewhere() {
    let image = Image::new("image");
    let layer = image.layer(0);
    for (location, expected) in [
        ("http://registry.invalid/x", Unsafe::NotSecure),
        ("ftp://127.0.0.1/x", Unsafe::NotSecure),
        ("http://me:hunter2@127.0.0.1/x", Unsafe::Login),
        ("http://", Unsafe::NotAnAddress),
    ] {
        let server = Server::start().await;
        server.expect(&blob_of(&layer.digest), ANY, &Access::Open, [Answer::redirect(location)]);
        let registry = Registry::with_settings(Credentials::none(), settings()).unwrap();
        let error = blob(&registry, &reference(&server, ""), &layer).await.unwrap_err();
        assert!(matches!(error, PullError::Redirect { why, .. } if why == expected), "{error:?}");
        assert!(!format!("{error} {error:?}").contains("hunter2"), "{error:?}");
    }
}

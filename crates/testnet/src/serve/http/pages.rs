//! What is answered to a request: the built-in pages, then the files of the site.
//!
//! Every method but HEAD is answered like GET, so that a file can stand in for the answer of a service.

use super::head::{Head, digits};
use super::path::{SitePath, path_and_query};
use super::range::Part;
use super::reply::{Content, Reply};
use super::site::{Found, Site};

/// What `/big` may be asked for.
const BIG_LIMIT: u64 = 2 << 30;

/// Decides the answer to a request whose body had this length.
pub(super) fn answer(head: &Head, body_length: u64, site: &Site) -> Reply {
    let (path, query) = path_and_query(&head.target);
    match path {
        "/canary" => Reply::text(format!("canary {}\n", head.host)),
        "/echo" => Reply::text(body_length.to_string()),
        // Wherever a test wants; the target is visible ASCII, so it cannot end the line.
        "/redirect" => {
            let to = query.strip_prefix("to=").unwrap_or("/canary").to_owned();
            Reply::new(302, Content::Nothing).with("Location", to)
        }
        "/slow" => Reply::new(200, Content::Slowly),
        "/big" => match query.strip_prefix("bytes=").and_then(digits) {
            Some(length) if length <= BIG_LIMIT => Reply::new(200, Content::Zeros(length)),
            _ => Reply::error(400, "bytes=N, at most 2 GiB"),
        },
        _ => match SitePath::parse(&head.target) {
            None => Reply::error(400, "no such path can be"),
            Some(path) => site.find(&path).map_or_else(|| Reply::error(404, "not found"), |found| page(found, head)),
        },
    }
}

fn page(found: Found, head: &Head) -> Reply {
    let (file, total, kind) = match found {
        Found::Listing(text) => return Reply::text(text).of_kind("text/html; charset=utf-8"),
        Found::File { file, length, kind } => (file, length, kind),
    };
    let Some(range) = head.range else {
        let part = Part { from: 0, length: total };
        return Reply::new(200, Content::File { file, part }).of_kind(kind);
    };
    match range.of(total) {
        None => Reply::error(416, "the range is behind the end").with("Content-Range", format!("bytes */{total}")),
        Some(part) => {
            let last = part.from + part.length - 1;
            Reply::new(206, Content::File { file, part })
                .of_kind(kind)
                .with("Content-Range", format!("bytes {}-{last}/{total}", part.from))
        }
    }
}

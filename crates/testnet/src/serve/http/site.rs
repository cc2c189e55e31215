//! The files that every web server serves.
//!
//! Files are read with ordinary calls between writes: they are a test's own, small or in the page cache.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use super::path::SitePath;

/// A directory, or nothing.
#[derive(Debug)]
pub(crate) struct Site(Option<PathBuf>);

/// What is at a path.
#[derive(Debug)]
pub(super) enum Found {
    File { file: File, length: u64, kind: &'static str },
    Listing(String),
}

impl Site {
    pub(crate) fn new(root: Option<PathBuf>) -> Self {
        Self(root)
    }

    /// Finds a file, or a directory's `index.html`, or what stands in for it.
    pub(super) fn find(&self, path: &SitePath) -> Option<Found> {
        let place = self.0.as_ref()?.join(path.relative());
        if !place.is_dir() {
            return open(&place);
        }
        open(&place.join("index.html")).or_else(|| list(&place, path).map(Found::Listing))
    }
}

fn open(path: &Path) -> Option<Found> {
    // Looked at before it is opened: opening a pipe would wait.
    let is_file = fs::metadata(path).ok()?.is_file();
    let file = is_file.then(|| File::open(path).ok())??;
    let length = file.metadata().ok()?.len();
    Some(Found::File { file, length, kind: kind(path) })
}

fn kind(path: &Path) -> &'static str {
    match path.extension().and_then(OsStr::to_str) {
        Some("html") => "text/html; charset=utf-8",
        Some("json") => "application/json",
        _ => "application/octet-stream",
    }
}

/// A page of links to the entries. They are absolute, so that they are right with and without a slash at the end.
fn list(directory: &Path, path: &SitePath) -> Option<String> {
    let mut entries: Vec<_> = fs::read_dir(directory).ok()?.flatten().collect();
    entries.sort_by_key(fs::DirEntry::file_name);
    let lines = entries.iter().map(|entry| {
        let name = entry.file_name();
        let slash = if entry.path().is_dir() { "/" } else { "" };
        let link = path.link_to(name.as_bytes());
        format!("<a href=\"{link}{slash}\">{}{slash}</a><br>\n", escape(&name.to_string_lossy()))
    });
    Some(format!("<!DOCTYPE html>\n<html><body>\n{}</body></html>\n", lines.collect::<String>()))
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use super::*;

    fn found(site: &Site, target: &str) -> Option<(String, &'static str)> {
        match site.find(&SitePath::parse(target).unwrap())? {
            Found::File { mut file, length, kind } => {
                let mut text = String::new();
                file.read_to_string(&mut text).unwrap();
                assert_eq!(length, text.len() as u64);
                Some((text, kind))
            }
            Found::Listing(text) => Some((text, "listing")),
        }
    }

    #[test]
    fn files_indexes_and_listings_are_found() {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir_all(root.path().join("simple/demo")).unwrap();
        fs::create_dir(root.path().join("page")).unwrap();
        fs::write(root.path().join("page/index.html"), "index").unwrap();
        fs::write(root.path().join("simple/a&b.json"), "{}").unwrap();
        let site = Site::new(Some(root.path().to_owned()));
        assert_eq!(found(&site, "/page"), Some(("index".into(), "text/html; charset=utf-8")));
        assert_eq!(found(&site, "/simple/a%26b.json"), Some(("{}".into(), "application/json")));
        let listing = "<!DOCTYPE html>\n<html><body>\n<a href=\"/simple/a%26b.json\">a&amp;b.json</a><br>\n\
            <a href=\"/simple/demo/\">demo/</a><br>\n</body></html>\n";
        assert_eq!(found(&site, "/simple/"), Some((listing.into(), "listing")));
        assert_eq!(found(&site, "/missing"), None);
        assert_eq!(found(&Site::new(None), "/"), None);
    }
}
